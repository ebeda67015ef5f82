"""Preferences one by one: this row above that one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback, FloatArray, IntArray, frozen_rows, frozen_weights

__all__ = ["Pairs"]


@dataclass(frozen=True, eq=False)
class Pairs(Feedback):
    """A list of weighted preferences, each of one row above another.

    Row ``upper[p]`` belongs above row ``lower[p]``, with weight ``weight[p]``. Pairs may cross
    queries, contradict each other and form cycles. A row above itself is refused.

    Parameters
    ----------
    lower, upper : (n_pairs,) row numbers
    weight : (n_pairs,) numbers >= 0, default 1
    query : (n_pairs,) ids of any type, optional
        To which query (user, session) a preference belongs; kept for splitting and counting.

    Examples
    --------
    >>> pairs = Pairs(lower=[0, 0, 0], upper=[1, 2, 1], weight=[1, 2, 3])
    >>> pairs.n_pairs, pairs.total_weight
    (3, 6.0)
    >>> merged = pairs.merge()
    >>> merged.lower, merged.upper, merged.weight
    (array([0, 0]), array([1, 2]), array([4., 2.]))
    """

    lower: IntArray
    upper: IntArray
    weight: FloatArray
    query: NDArray[Any] | None = None

    def __init__(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        weight: ArrayLike | None = None,
        query: Any = None,
    ) -> None:
        below, above = frozen_rows(lower, "lower"), frozen_rows(upper, "upper")
        if len(below) != len(above):
            raise FeedbackError(
                f"lower has {len(below)} rows and upper {len(above)}: one of each per pair."
            )
        same = np.flatnonzero(below == above)
        if len(same):
            raise FeedbackError(
                f"pair {same[0]} puts row {below[same[0]]} above itself. Remove such pairs."
            )
        ids = None if query is None else np.array(query)
        if ids is not None and len(ids) != len(below):
            raise FeedbackError(f"query has {len(ids)} entries for {len(below)} pairs.")
        if ids is not None:
            ids.setflags(write=False)
        object.__setattr__(self, "lower", below)
        object.__setattr__(self, "upper", above)
        object.__setattr__(self, "weight", frozen_weights(weight, len(below), "weight"))
        object.__setattr__(self, "query", ids)

    @property
    def n_rows(self) -> int:
        return int(max(self.lower.max(initial=-1), self.upper.max(initial=-1))) + 1

    @property
    def n_pairs(self) -> int:
        return len(self.lower)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())

    def to_pairs(self) -> Pairs:
        return self

    def merge(self) -> Pairs:
        """The same preferences with equal pairs added up, sorted by (lower, upper)."""
        key = self.lower * np.int64(max(self.n_rows, 1)) + self.upper
        distinct, first, place = np.unique(key, return_index=True, return_inverse=True)
        weight = np.bincount(place.reshape(-1), self.weight, minlength=len(distinct))
        return Pairs(self.lower[first], self.upper[first], weight)
