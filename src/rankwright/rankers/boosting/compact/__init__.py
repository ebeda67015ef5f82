"""Small or sparse problems: all rounds in one kernel, and only over values that are there."""

from rankwright.rankers.boosting.compact.loop import boost_compactly, is_compact

__all__ = ["boost_compactly", "is_compact"]
