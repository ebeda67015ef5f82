"""A weighted sum of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.scoring.base import FloatArray, Matrix, Scorer, must

__all__ = ["Linear"]


@dataclass(frozen=True, eq=False)
class Linear(Scorer):
    """score = X @ coef + intercept.

    >>> Linear(np.array([1.0, -1.0]), 0.5).decision_function(np.array([[2.0, 1.0]]))
    array([1.5])
    """

    kind: ClassVar[str] = "linear"
    coef: FloatArray
    intercept: float = 0.0

    def __post_init__(self) -> None:
        must(self.coef.ndim == 1 and self.coef.dtype == np.float64, "coef must be one float64 row")
        must(np.isfinite(self.coef).all(), "coef must be finite")
        must(np.isfinite(self.intercept), "intercept must be finite")

    @property
    def n_features(self) -> int:
        return len(self.coef)

    def decision_function(self, X: Matrix) -> FloatArray:
        return np.asarray(X @ self.coef + self.intercept, dtype=np.float64)
