"""Measures on predicted grades: RankLoss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.metrics.lists import RankedLists

__all__ = ["rank_loss"]


def rank_loss(lists: RankedLists) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Mean distance between predicted and true grade."""
    distance = np.abs(lists.predictions - lists.grades)
    return np.nansum(distance, axis=1) / np.maximum(lists.sizes, 1), lists.sizes > 0
