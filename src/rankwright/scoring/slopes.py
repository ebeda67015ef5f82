"""A weighted sum of the features, with a value of its own for each feature a row lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.scoring.additive import columns_of
from rankwright.scoring.base import FloatArray, IntArray, Matrix, Scorer, must

__all__ = ["Slopes"]


@dataclass(frozen=True, eq=False)
class Slopes(Scorer):
    """score = the sum over ``feature`` of slope * x + offset, or ``missing`` where x is NaN.

    >>> line = Slopes(2, np.array([1]), np.array([2.0]), np.array([-1.0]), np.array([0.5]))
    >>> line.decision_function(np.array([[9.0, 1.0], [9.0, 3.0], [9.0, np.nan]]))
    array([1. , 5. , 0.5])
    """

    kind: ClassVar[str] = "slopes"
    n_inputs: int
    feature: IntArray
    slope: FloatArray
    offset: FloatArray
    missing: FloatArray
    absent_abstains: bool = False

    def __post_init__(self) -> None:
        must(self.n_inputs >= 1, "n_inputs must be >= 1")
        rows = (self.slope, self.offset, self.missing)
        must(self.feature.ndim == 1, "feature must be a row")
        must(((self.feature >= 0) & (self.feature < self.n_inputs)).all(), "feature out of range")
        must(all(row.shape == self.feature.shape for row in rows), "one entry per feature needed")
        must(all(np.isfinite(row).all() for row in rows), "slopes must be finite")

    @property
    def n_features(self) -> int:
        return self.n_inputs

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.zeros(X.shape[0])
        for rows, i, column in columns_of(X, self.feature, self.absent_abstains):
            value = self.slope[i] * column + self.offset[i]
            scores[rows] += np.where(np.isnan(column), self.missing[i], value)
        return scores
