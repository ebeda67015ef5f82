"""The average of a few features, each with its own value where it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.scoring.additive import columns_of
from rankwright.scoring.base import FloatArray, IntArray, Matrix, Scorer, must

__all__ = ["FilledAverage"]


@dataclass(frozen=True, eq=False)
class FilledAverage(Scorer):
    """score(x) = the mean over ``feature`` of x[feature], or of ``default`` where that is NaN.

    Examples
    --------
    >>> scorer = FilledAverage(3, np.array([2, 0]), np.array([1.0, 5.0]))
    >>> scorer.decision_function(np.array([[1.0, 0.0, 3.0], [np.nan, 0.0, np.nan]]))
    array([2., 3.])
    """

    kind: ClassVar[str] = "filled_average"
    n_inputs: int
    feature: IntArray
    default: FloatArray
    absent_abstains: bool = False

    def __post_init__(self) -> None:
        must(self.feature.ndim == 1 and self.feature.shape == self.default.shape, "rows needed")
        must(len(self.feature) >= 1, "at least one feature needed")
        must(self.feature.min() >= 0 and self.feature.max() < self.n_inputs, "feature out of range")
        must(np.isfinite(self.default).all(), "defaults are finite")

    @property
    def n_features(self) -> int:
        return self.n_inputs

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.zeros(X.shape[0])
        for rows, place, column in columns_of(X, self.feature, self.absent_abstains):
            scores[rows] += np.where(np.isnan(column), self.default[place], column)
        return scores / len(self.feature)
