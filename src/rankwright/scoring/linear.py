"""Scorers that are weighted sums or means of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.scoring.base import Matrix, Scorer, Transform, in_blocks
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
        self._check_arrays(coef=("n_features",))
        wide = self.coef.dtype == np.float64
        self._check(wide, f"coef has type {self.coef.dtype}; it needs float64")

    def decision_function(self, X: Matrix) -> FloatArray:
        return np.asarray(X @ self.coef + self.intercept, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Slopes(Scorer):
    """Sum over features of slope * x + offset, or ``missing`` where x is NaN.

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
    _width: ClassVar[str] = "n_inputs"

    def __post_init__(self) -> None:
        n = ("n_used",)
        self._check_arrays(feature=n, slope=n, offset=n, missing=n)
        self._check_range("n_inputs", 1, np.inf)
        self._check_range("feature", 0, self.n_inputs - 1)

    def part(self, i: int, column: FloatArray) -> FloatArray:
        """What the feature in place ``i`` adds, for a column of its values."""
        value = self.slope[i] * column + self.offset[i]
        return np.asarray(np.where(np.isnan(column), self.missing[i], value))

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.zeros(X.shape[0])
        for rows, i, column in columns_of(X, self.feature, self.absent_abstains):
            scores[rows] += self.part(i, column)
        return scores


@dataclass(frozen=True, eq=False)
class Deviations(Scorer):
    """score(x) = intercept + sum over features of coef (x - mean), ignoring NaN.

    With ``rated_only`` the sum is divided by the sum of |coef| over the features that have a value
    in the row: having many values does not by itself move a row away from the intercept.

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
        self._check_arrays(mean=("n_features",), coef=("n_features",))
        self._check(len(self.coef), "coef is empty; it needs a value for each feature")

    def decision_function(self, X: Matrix) -> FloatArray:
        return in_blocks(self._block, X, self.n_features) + self.intercept

    def _block(self, X: Matrix) -> FloatArray:
        values = dense_rows(X, self.absent_abstains)
        known = ~np.isnan(values)
        total = np.where(known, values - self.mean, 0.0) @ self.coef
        if not self.rated_only:
            return np.asarray(total)
        mass = known @ np.abs(self.coef)
        return np.asarray(np.divide(total, mass, out=np.zeros_like(total), where=mass > 0))


@dataclass(frozen=True, eq=False)
class WithDeviations(Transform):
    """Append the score of a :class:`Deviations` as one more column."""

    kind: ClassVar[str] = "with_deviations"
    scorer: Deviations
    _width: ClassVar[str] = "scorer"

    @property
    def n_outputs(self) -> int:
        return self.n_features + 1

    def transform(self, X: Matrix, queries: Queries) -> FloatArray:
        dense = dense_rows(X, self.scorer.absent_abstains)
        return np.column_stack([dense, self.scorer.decision_function(X)])


def dense_rows(X: Any, absent_abstains: bool) -> FloatArray:
    """Rows as a plain array; entries that a CSR matrix does not store are 0, or NaN."""
    if isinstance(X, np.ndarray):
        return X
    if not absent_abstains:
        return np.asarray(X.toarray())
    dense, table = np.full(X.shape, np.nan), X.tocoo()
    dense[table.row, table.col] = table.data
    return dense


@dataclass(frozen=True, eq=False)
class FilledAverage(Scorer):
    """Mean of some features, with ``default`` in place of NaN.

    >>> scorer = FilledAverage(3, np.array([2, 0]), np.array([1.0, 5.0]))
    >>> scorer.decision_function(np.array([[1.0, 0.0, 3.0], [np.nan, 0.0, np.nan]]))
    array([2., 3.])
    """

    kind: ClassVar[str] = "filled_average"
    n_inputs: int
    feature: IntArray
    default: FloatArray
    absent_abstains: bool = False
    _width: ClassVar[str] = "n_inputs"

    def __post_init__(self) -> None:
        self._check_arrays(feature=("n_used",), default=("n_used",))
        self._check(len(self.feature), "feature is empty; the average needs at least one")
        self._check_range("feature", 0, self.n_inputs - 1)

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.zeros(X.shape[0])
        for rows, i, column in columns_of(X, self.feature, self.absent_abstains):
            scores[rows] += np.where(np.isnan(column), self.default[i], column)
        return scores / len(self.feature)
