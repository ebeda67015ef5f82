"""Preferences between two sets: every row of one above every row of the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback, FloatArray, IntArray, frozen_rows, frozen_weights

if TYPE_CHECKING:
    from rankwright.feedback.pairs import Pairs

__all__ = ["Bipartite"]


@dataclass(frozen=True, eq=False)
class Bipartite(Feedback):
    """Every row of ``upper`` belongs above every row of ``lower``.

    The weight of a preference is the product of its rows' weights. Several bipartite feedbacks
    (one for each query, say) add up: ``Bipartite(..) + Bipartite(..)``.

    Examples
    --------
    >>> feedback = Bipartite(lower=[0, 1, 2], upper=[3, 4])
    >>> feedback.n_pairs, feedback.total_weight
    (6, 6.0)
    """

    lower: IntArray
    upper: IntArray
    lower_weight: FloatArray
    upper_weight: FloatArray

    def __init__(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        lower_weight: ArrayLike | None = None,
        upper_weight: ArrayLike | None = None,
    ) -> None:
        below, above = frozen_rows(lower, "lower"), frozen_rows(upper, "upper")
        both = np.intersect1d(below, above)
        if len(both):
            raise FeedbackError(
                f"row {both[0]} is in lower and in upper: it cannot be above itself."
            )
        for name, rows in (("lower", below), ("upper", above)):
            if len(np.unique(rows)) < len(rows):
                raise FeedbackError(
                    f"{name} names a row twice. Use {name}_weight to count it twice."
                )
        object.__setattr__(self, "lower", below)
        object.__setattr__(self, "upper", above)
        weights = frozen_weights(lower_weight, len(below), "lower_weight")
        object.__setattr__(self, "lower_weight", weights)
        weights = frozen_weights(upper_weight, len(above), "upper_weight")
        object.__setattr__(self, "upper_weight", weights)

    @property
    def n_rows(self) -> int:
        return int(max(self.lower.max(initial=-1), self.upper.max(initial=-1))) + 1

    @property
    def n_pairs(self) -> int:
        return len(self.lower) * len(self.upper)

    @property
    def total_weight(self) -> float:
        return float(self.lower_weight.sum() * self.upper_weight.sum())

    def to_pairs(self) -> Pairs:
        from rankwright.feedback.pairs import Pairs

        return Pairs(
            np.repeat(self.lower, len(self.upper)),
            np.tile(self.upper, len(self.lower)),
            np.outer(self.lower_weight, self.upper_weight).reshape(-1),
        )
