"""The average of a few features, each with its own value where it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.scoring.base import Matrix, Scorer, Transform, must
from rankwright.scoring.kernel import row_blocks
from rankwright.scoring.trees import columns_of


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
