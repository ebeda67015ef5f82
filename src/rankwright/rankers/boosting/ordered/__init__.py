"""Rows in the order of each feature: every threshold, and sparse data, for the criterion r."""

from rankwright.rankers.boosting.ordered.scan import SortedScan

__all__ = ["SortedScan"]
