"""Transforms of rows before they are scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.scoring.base import Matrix, RowMap, Scorer, Transform, in_blocks

Column = NDArray[np.floating[Any]]  # one value per feature


@dataclass(frozen=True, eq=False)
class Affine(Transform):
    """Each column minus its shift, over its divisor, times its factor, plus its offset, clipped.

    A step that is None is skipped. There is a divisor besides the factor because x / 3 and
    x * (1 / 3) differ in the last bit, and a saved pipeline has to score as it did before.

    >>> affine = Affine(shift=np.array([1.0, 0.0]), divisor=np.array([2.0, 0.5]))
    >>> affine.transform(np.array([[3.0, 4.0]]), Queries.from_ids(None, 1))
    array([[1., 8.]])
    """

    kind: ClassVar[str] = "affine"
    shift: Column | None = None
    divisor: Column | None = None
    factor: Column | None = None
    offset: Column | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        columns = self._columns()
        self._check(columns, "it has no shift, divisor, factor or offset")
        self._check_arrays(**dict.fromkeys(columns, ("n_features",)))
        zeros = 0 if self.divisor is None else int((self.divisor == 0).sum())
        self._check(not zeros, f"divisor: {zeros} of its values are 0")

    def _columns(self) -> dict[str, Column]:
        names = ("shift", "divisor", "factor", "offset")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def n_features(self) -> int:
        return len(next(iter(self._columns().values())))

    def transform(self, X: Matrix, queries: Queries) -> Matrix:
        if not isinstance(X, np.ndarray):
            return self._transform_sparse(X)
        rows = X.copy()
        if self.shift is not None:
            rows -= self.shift
        if self.divisor is not None:
            rows /= self.divisor
        if self.factor is not None:
            rows *= self.factor
        if self.offset is not None:
            rows += self.offset
        return self._clip(rows)

    def _transform_sparse(self, X: Matrix) -> Matrix:
        if self.shift is not None or self.offset is not None:
            raise DataError("a shift makes sparse rows dense: call X.toarray() first.")
        rows = X.copy()
        if self.divisor is not None:
            rows.data *= (1.0 / self.divisor)[rows.indices]
        if self.factor is not None:
            rows.data *= self.factor[rows.indices]
        self._clip(rows.data)
        return rows

    def _clip(self, values: FloatArray) -> FloatArray:
        if self.low is not None or self.high is not None:
            np.clip(values, self.low, self.high, out=values)
        return values


@dataclass(frozen=True, eq=False)
class QueryScale(Transform):
    """Each column scaled within the row's query; NaN stays NaN.

    ``minmax`` maps the query's range to 0 .. 1 (LETOR's QueryLevelNorm), ``standard`` gives mean 0
    and deviation 1, ``max`` divides by the largest absolute value. A column that is constant within
    a query becomes 0 there.

    >>> queries = Queries.from_ids(["a", "b", "a"])
    >>> QueryScale(1, "minmax").transform(np.array([[5.0], [7.0], [3.0]]), queries)
    array([[1.],
           [0.],
           [0.]])
    """

    kind: ClassVar[str] = "query_scale"
    n_columns: int
    method: str

    def __post_init__(self) -> None:
        known = self.method in ("minmax", "standard", "max")
        self._check(known, f"method {self.method!r} is not minmax, standard or max")
        self._check_range("n_columns", 1, np.inf)

    @property
    def n_features(self) -> int:
        return self.n_columns

    def transform(self, X: Matrix, queries: Queries) -> Matrix:
        if not isinstance(X, np.ndarray):
            raise DataError("scaling by query makes sparse rows dense: call X.toarray() first.")
        if queries.n_items == 0:
            return X.copy()
        rows, starts, code = X[queries.order], queries.ptr[:-1], np.sort(queries.codes)
        low, spread = getattr(self, f"_{self.method}")(rows, starts, code)
        still = spread == 0
        scaled = (rows - low[code]) / np.where(still, 1.0, spread)[code]
        scaled[still[code] & ~np.isnan(rows)] = 0.0
        result = np.empty_like(scaled)
        result[queries.order] = scaled
        return result

    @staticmethod
    def _minmax(rows: FloatArray, starts: IntArray, code: IntArray) -> tuple[FloatArray, ...]:
        low = np.fmin.reduceat(rows, starts)
        return np.nan_to_num(low), np.nan_to_num(np.fmax.reduceat(rows, starts) - low)

    @staticmethod
    def _standard(rows: FloatArray, starts: IntArray, code: IntArray) -> tuple[FloatArray, ...]:
        known = ~np.isnan(rows)
        count = np.maximum(np.add.reduceat(known, starts, dtype=np.float64), 1.0)
        mean = np.add.reduceat(np.where(known, rows, 0.0), starts) / count
        moved = np.where(known, rows - mean[code], 0.0)
        spread = np.sqrt(np.add.reduceat(moved * moved, starts) / count)
        # Rounding leaves a constant column with a tiny spread, which must not be scaled up.
        return mean, np.where(spread <= 1e-12 * np.maximum(np.abs(mean), 1e-300), 0.0, spread)

    @staticmethod
    def _max(rows: FloatArray, starts: IntArray, code: IntArray) -> tuple[FloatArray, ...]:
        top = np.nan_to_num(np.fmax.reduceat(np.abs(rows), starts))
        return np.zeros_like(top), top


MOST_COLUMNS = 1 << 20


@dataclass(frozen=True, eq=False)
class Polynomial(RowMap):
    """Rows mapped so that their product is (gamma a . b + coef0) ** degree.

    One column per product of at most ``degree`` features, the constant first.

    >>> rows = Polynomial(2, degree=2).transform(np.array([[1.0, 2.0], [3.0, -1.0]]))
    >>> rows.shape
    (2, 6)
    >>> round(float(rows[0] @ rows[1]), 9)  # (1 * 3 - 2 * 1 + 1) ** 2
    4.0
    """

    kind: ClassVar[str] = "polynomial"
    n_columns: int
    degree: int = 2
    gamma: float = 1.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        for name, high in (("n_columns", np.inf), ("degree", 100)):
            value = getattr(self, name)
            self._check(isinstance(value, int), f"{name} {value!r} is not an integer")
            self._check_range(name, 1, high)
        self._check_arrays()
        self._check(self.gamma > 0, f"gamma is {self.gamma:g}; it must be > 0")
        self._check_range("coef0", 0, np.inf)
        self._check(
            self.n_outputs <= MOST_COLUMNS,
            f"{self.n_outputs} columns; the limit is {MOST_COLUMNS}. Lower the degree",
        )

    @property
    def n_features(self) -> int:
        return self.n_columns

    @property
    def n_outputs(self) -> int:
        return self.width(self.n_columns, self.degree)

    @staticmethod
    def width(n_columns: int, degree: int) -> int:
        """How many products of at most ``degree`` columns there are."""
        return comb(n_columns + degree, degree)

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        mapped = np.empty((rows.shape[0], self.n_outputs))
        column = 0
        for size in range(self.degree + 1):
            scale = comb(self.degree, size) * self.coef0 ** (self.degree - size) * self.gamma**size
            for chosen in combinations_with_replacement(range(self.n_columns), size):
                repeats = prod(factorial(times) for times in Counter(chosen).values())
                out = mapped[:, column]
                out[:] = sqrt(scale * (factorial(size) // repeats))
                for feature in chosen:
                    out *= rows[:, feature]
                column += 1
        return mapped


@dataclass(frozen=True, eq=False)
class Mapped(Scorer):
    """A scorer of mapped rows."""

    kind: ClassVar[str] = "mapped"
    map: RowMap
    score: Scorer

    def __post_init__(self) -> None:
        given, needed = self.map.n_outputs, self.score.n_features
        self._check(given == needed, f"map gives {given} columns, score needs {needed}")

    @property
    def n_features(self) -> int:
        return self.map.n_features

    def decision_function(self, X: Matrix) -> FloatArray:
        return self._mapped(self.score.decision_function, X)

    def predict(self, X: Matrix) -> FloatArray:
        return self._mapped(self.score.predict, X)

    def expected(self, X: Matrix) -> FloatArray:
        return self._mapped(self.score.expected, X)

    def _mapped(self, function: Callable[[Matrix], FloatArray], X: Matrix) -> FloatArray:
        return in_blocks(lambda rows: function(self.map.transform(rows)), X, self.map.n_outputs)
