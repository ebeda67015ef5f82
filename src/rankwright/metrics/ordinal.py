"""Measures on predicted grades: RankLoss, and its average over time for online learners."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import DataError
from rankwright.metrics.ranked_lists import RankedLists


def rank_loss(lists: RankedLists) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Mean distance between predicted and true grade."""
    distance = np.abs(lists.predictions - lists.grades)
    return np.nansum(distance, axis=1) / np.maximum(lists.sizes, 1), lists.sizes > 0


def running_rank_loss(predictions: Any, y: Any) -> NDArray[np.float64]:
    """After each round of an online learner, its mean rank loss so far.

    >>> running_rank_loss([1, 3, 2, 2], [2, 3, 2, 5])
    array([1.        , 0.5       , 0.33333333, 1.        ])
    """
    guess, truth = np.asarray(predictions, np.float64), np.asarray(y, np.float64)
    if guess.ndim != 1 or guess.shape != truth.shape:
        shapes = f"predictions have shape {guess.shape} and y {truth.shape}"
        raise DataError(f"{shapes}: one of each is needed per round.")
    return np.cumsum(np.abs(guess - truth)) / np.arange(1, len(guess) + 1)
