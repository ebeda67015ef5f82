"""Rows sorted inside each query: what the criterion z (WeakLearn.2) scans."""

from rankwright.rankers.boosting.grouped.scan import GroupedScan

__all__ = ["GroupedScan"]
