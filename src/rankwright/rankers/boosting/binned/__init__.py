"""Values in bins, a byte each: the fastest scan for the criterion r."""

from rankwright.rankers.boosting.binned.scan import BinnedScan

__all__ = ["BinnedScan"]
