"""A weighted sum of each feature's deviation from its own average; no value adds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwright.data.queries import Queries
from rankwright.scoring.base import FloatArray, Matrix, Scorer, Transform, must
from rankwright.scoring.kernel import row_blocks

__all__ = ["Deviations", "WithDeviations", "dense_rows"]


@dataclass(frozen=True, eq=False)
class Deviations(Scorer):
    """score(x) = intercept + sum over features of coef (x - mean), NaN adding nothing.

    With ``rated_only`` the sum is divided by the sum of |coef| over the features that have a value
    in the row: a row is not pushed away from the intercept only because many features know it.

    Examples
    --------
    >>> scorer = Deviations(np.array([3.0, 2.0]), np.array([0.5, 0.5]), 4.0)
    >>> scorer.decision_function(np.array([[5.0, 2.0], [5.0, np.nan], [np.nan, np.nan]]))
    array([5., 5., 4.])
    """

    kind: ClassVar[str] = "deviations"
    mean: FloatArray
    coef: FloatArray
    intercept: float = 0.0
    rated_only: bool = False
    absent_abstains: bool = False

    def __post_init__(self) -> None:
        must(self.mean.ndim == 1 and self.mean.shape == self.coef.shape, "one mean per coefficient")
        must(len(self.coef) >= 1, "at least one feature needed")
        must(np.isfinite(self.mean).all() and np.isfinite(self.coef).all(), "they are finite")
        must(np.isfinite(self.intercept), "the intercept is finite")

    @property
    def n_features(self) -> int:
        return len(self.coef)

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.empty(X.shape[0])
        for rows in row_blocks(X.shape[0], self.n_features):
            scores[rows] = self._block(dense_rows(X[rows], self.absent_abstains))
        return scores + self.intercept

    def _block(self, values: FloatArray) -> FloatArray:
        known = ~np.isnan(values)
        total = np.where(known, values - self.mean, 0.0) @ self.coef
        if not self.rated_only:
            return np.asarray(total)
        mass = known @ np.abs(self.coef)
        return np.asarray(np.divide(total, mass, out=np.zeros_like(total), where=mass > 0))


@dataclass(frozen=True, eq=False)
class WithDeviations(Transform):
    """The rows as they are, and the score of a :class:`Deviations` as one more column."""

    kind: ClassVar[str] = "with_deviations"
    scorer: Deviations

    def __post_init__(self) -> None:
        must(isinstance(self.scorer, Deviations), "the column to add is a sum of deviations")

    @property
    def n_features(self) -> int:
        return self.scorer.n_features

    @property
    def n_outputs(self) -> int:
        return self.n_features + 1

    def transform(self, X: Matrix, queries: Queries) -> FloatArray:
        dense = dense_rows(X, self.scorer.absent_abstains)
        return np.column_stack([dense, self.scorer.decision_function(X)])


def dense_rows(X: Any, absent_abstains: bool) -> FloatArray:
    """Rows as a plain array; what a CSR matrix does not store is 0, or NaN if that abstains."""
    if isinstance(X, np.ndarray):
        return X
    if not absent_abstains:
        return np.asarray(X.toarray())
    dense = np.full(X.shape, np.nan)
    table = X.tocoo()
    dense[table.row, table.col] = table.data
    return dense
