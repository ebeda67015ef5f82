"""Scorers that are sums or means over features: linear functions, step functions, deviations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.scoring.base import (
    Matrix,
    RowMap,
    Scorer,
    by_dense_blocks,
    columns_of,
    in_blocks,
    running_sum,
    score_rows,
)

FEW_STEPS = 32  # thresholds per feature, up to which comparing with each is quickest
MANY_COLUMNS = 100_000  # of sparse rows, of which most are not worth a dense column


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
        """What feature number ``i`` adds, for a column of its values."""
        value = self.slope[i] * column + self.offset[i]
        return np.asarray(np.where(np.isnan(column), self.missing[i], value))

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.zeros(X.shape[0])
        for rows, i, column in columns_of(X, self.feature, self.absent_abstains):
            scores[rows] += self.part(i, column)
        return scores


class Steps(NamedTuple):
    """The arrays of an ``Additive``."""

    feature: IntArray
    ptr: IntArray
    threshold: FloatArray
    value: FloatArray
    missing: FloatArray


@dataclass(frozen=True, eq=False)
class Additive(Scorer):
    """Additive model: the score is a sum of one step function per feature.

    The steps of feature ``feature[i]`` are at ``threshold[ptr[i] : ptr[i + 1]]``; a value x gets
    ``value[ptr[i] + i + k]``, where k thresholds are below x. NaN gets ``missing[i]``; so does an
    entry that a CSR matrix does not store if ``absent_abstains``, else such an entry is a zero.

    >>> curve = Additive(
    ...     n_inputs=2, feature=np.array([1]), ptr=np.array([0, 2]), threshold=np.array([1.0, 5.0]),
    ...     value=np.array([0.0, 0.5, 2.0]), missing=np.array([-1.0]))
    >>> curve.decision_function(np.array([[9.0, 1.0], [9.0, 2.0], [9.0, 6.0], [9.0, np.nan]]))
    array([ 0. ,  0.5,  2. , -1. ])
    """

    kind: ClassVar[str] = "additive"
    n_inputs: int
    feature: IntArray
    ptr: IntArray
    threshold: FloatArray
    value: FloatArray
    missing: FloatArray
    absent_abstains: bool = False
    _width: ClassVar[str] = "n_inputs"

    def __post_init__(self) -> None:
        n, n_steps = self.feature.size, self.threshold.size
        self._check_arrays(feature=(n,), missing=(n,), ptr=(n + 1,))
        self._check_arrays(threshold=(n_steps,), value=(n_steps + n,))
        self._check_range("n_inputs", 1, np.inf)
        self._check_range("feature", 0, self.n_inputs - 1)
        self._check_ascending("ptr")
        first, last = int(self.ptr[0]), int(self.ptr[-1])
        fault = f"ptr runs from {first} to {last}, not 0 to {n_steps}"
        self._check((first, last) == (0, n_steps), fault)
        descents = np.flatnonzero(np.diff(self.threshold) < 0) + 1
        within = descents[~np.isin(descents, self.ptr)]  # not where the next feature begins
        self._check(not len(within), f"threshold: {len(within)} values are below the one before")

    @classmethod
    def from_rounds(
        cls,
        n_inputs: int,
        feature: IntArray,
        threshold: FloatArray,
        default: Any,
        alpha: FloatArray,
        absent_abstains: bool = False,
    ) -> Additive:
        """The sum of alpha[t] * h_t, h_t(x) = [x[feature[t]] > threshold[t]], or default[t].

        A threshold of -inf says "has a value at all".
        """
        used, index = np.unique(feature, return_inverse=True)
        finite = np.isfinite(threshold)
        order = np.flatnonzero(finite)[np.lexsort((threshold[finite], index[finite]))]
        owner, steps = index[order], threshold[order]
        new = np.ones(len(order), bool)
        new[1:] = (owner[1:] != owner[:-1]) | (steps[1:] != steps[:-1])
        n_steps = np.bincount(owner[new], minlength=len(used))
        ptr = np.concatenate([[0], np.cumsum(n_steps)])

        def stairs(amount: FloatArray) -> FloatArray:
            """The amounts of the rounds of each feature, summed from the lowest threshold up."""
            start = np.bincount(index[~finite], amount[~finite], len(used)).astype(np.float64)
            rise = np.bincount(np.cumsum(new) - 1, amount[order], int(new.sum()))
            sums = np.repeat(start, n_steps + 1)
            for i in range(len(used)):
                sums[ptr[i] + i + 1 : ptr[i + 1] + i + 1] += np.cumsum(rise[ptr[i] : ptr[i + 1]])
            return sums

        # A missing value that every round treats as some value must get the same bits, so its sum
        # takes the same order.
        value, missing = stairs(alpha), stairs(default * alpha)[ptr[1:] + np.arange(len(used))]
        used, ptr = used.astype(np.int64), ptr.astype(np.int64)
        return cls(n_inputs, used, ptr, steps[new], value, missing, absent_abstains)

    def curve(self, feature: int) -> tuple[FloatArray, FloatArray, float]:
        """Thresholds, the values between them (one more), and the value without the feature."""
        columns = np.flatnonzero(self.feature == feature)
        return self._curve(int(columns[0])) if len(columns) else (np.zeros(0), np.zeros(1), 0.0)

    def _curve(self, i: int) -> tuple[FloatArray, FloatArray, float]:
        start, stop = int(self.ptr[i]), int(self.ptr[i + 1])
        values = self.value[start + i : stop + i + 1]
        return self.threshold[start:stop], values, float(self.missing[i])

    def split_values(self, feature: int) -> FloatArray:
        return self.curve(feature)[0]

    def part(self, i: int, column: FloatArray) -> FloatArray:
        """What feature number ``i`` adds, for a column of its values."""
        thresholds, values, missing = self._curve(i)
        value = values[np.searchsorted(thresholds, column, side="left")]
        return np.where(np.isnan(column), missing, value)

    @cached_property
    def _steps(self) -> Steps:
        arrays: Any = (self.feature, self.ptr, self.threshold, self.value, self.missing)
        return Steps(*(array.copy() for array in arrays))

    def decision_function(self, X: Matrix) -> FloatArray:
        steps = self._steps
        if isinstance(X, np.ndarray):
            return score_steps(np.asarray(X, np.float64), steps)
        dense = steps._replace(feature=np.arange(steps.feature.size))
        score = lambda rows: score_steps(rows, dense)  # noqa: E731
        return by_dense_blocks(X, self.feature, self.absent_abstains, score)


def score_steps(X: FloatArray, steps: Steps) -> FloatArray:
    """The sum over features of the value of each row's step."""
    n_features, n_steps = steps.feature.size, steps.threshold.size
    few = n_steps <= FEW_STEPS * n_features

    def add_compiled(module: ModuleType, rows: FloatArray, scores: FloatArray) -> None:
        module.add_steps(rows, steps, scores)

    def add_plain(rows: FloatArray) -> FloatArray:
        return _sum_few(rows, steps) if few else _sum_steps(rows, steps)

    return score_rows(X, n_features, n_steps if few else n_features, add_compiled, add_plain)


def _sum_few(X: FloatArray, steps: Steps) -> FloatArray:
    """Compare with every threshold; quick for a few rows and few steps per feature."""
    n_steps = np.diff(steps.ptr)
    columns = np.ascontiguousarray(X.T)
    above = columns[np.repeat(steps.feature, n_steps)] > steps.threshold[:, None]
    below = np.zeros((steps.feature.size, X.shape[0]), np.int64)  # thresholds below the value
    stepped = np.flatnonzero(n_steps)
    if stepped.size:
        below[stepped] = np.add.reduceat(above, steps.ptr[stepped], axis=0, dtype=np.int64)
    first = steps.ptr[:-1] + np.arange(steps.feature.size)
    value = steps.value.take(below + first[:, None])
    missing = np.isnan(columns[steps.feature])
    return running_sum(np.where(missing, steps.missing[:, None], value))


def _sum_steps(X: FloatArray, steps: Steps) -> FloatArray:
    """Search the thresholds of one feature after the other."""
    scores = np.zeros(X.shape[0])
    for i, feature in enumerate(steps.feature):
        start, stop = int(steps.ptr[i]), int(steps.ptr[i + 1])
        column = X[:, feature]
        below = np.searchsorted(steps.threshold[start:stop], column, side="left")
        value = steps.value[start + i + below]
        scores += np.where(np.isnan(column), steps.missing[i], value)
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
        used = np.flatnonzero(self.coef)
        if isinstance(X, np.ndarray) or self.n_features < MANY_COLUMNS or not len(used):
            return in_blocks(self._block, X, self.n_features) + self.intercept
        narrow = replace(self, mean=self.mean[used], coef=self.coef[used])
        return in_blocks(narrow._block, X[:, used], len(used)) + self.intercept

    def _block(self, X: Matrix) -> FloatArray:
        values = dense_rows(X, self.absent_abstains)
        known = ~np.isnan(values)
        total = np.where(known, values - self.mean, 0.0) @ self.coef
        if not self.rated_only:
            return np.asarray(total)
        mass = known @ np.abs(self.coef)
        return np.asarray(np.divide(total, mass, out=np.zeros_like(total), where=mass > 0))


@dataclass(frozen=True, eq=False)
class WithDeviations(RowMap):
    """Append the score of a :class:`Deviations` as one more column."""

    kind: ClassVar[str] = "with_deviations"
    scorer: Deviations
    _width: ClassVar[str] = "scorer"

    @property
    def n_outputs(self) -> int:
        return self.n_features + 1

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        dense = dense_rows(X, self.scorer.absent_abstains)
        return np.column_stack([dense, self.scorer.decision_function(X)])


def dense_rows(X: Matrix, absent_abstains: bool) -> FloatArray:
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
