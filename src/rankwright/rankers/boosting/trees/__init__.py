"""Trees as weak rankings."""

from rankwright.rankers.boosting.trees.ranking import TreeRanking

__all__ = ["TreeRanking"]
