"""What may stand before a scorer: scaling by fixed numbers, or by the other rows of the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.scoring.base import FloatArray, IntArray, Matrix, Transform, must

__all__ = ["Affine", "QueryScale"]

Column = NDArray[np.floating[Any]]  # one value per feature


@dataclass(frozen=True, eq=False)
class Affine(Transform):
    """Each column minus its shift, over its divisor, times its factor, plus its offset, clipped.

    What is not given is left out. Dividing and multiplying are told apart because x / 3 and
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
        must(columns, "an affine transform needs a shift, divisor, factor or offset")
        must(all(c.ndim == 1 and len(c) == len(columns[0]) for c in columns), "columns match")
        must(all(np.isfinite(c).all() for c in columns), "shifts and scales must be finite")
        must(self.divisor is None or self.divisor.all(), "a divisor must not be zero")
        must(self.low is None or np.isfinite(self.low), "low must be finite")
        must(self.high is None or np.isfinite(self.high), "high must be finite")

    def _columns(self) -> list[Column]:
        return [c for c in (self.shift, self.divisor, self.factor, self.offset) if c is not None]

    @property
    def n_features(self) -> int:
        return len(self._columns()[0])

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
            raise DataError("a shift would make sparse rows dense: call X.toarray() first.")
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
    """Each column scaled by what it does inside the row's query; NaN stays NaN.

    ``minmax`` maps the query's range to 0 .. 1 (LETOR's QueryLevelNorm), ``standard`` gives mean 0
    and deviation 1, ``max`` divides by the largest absolute value. A column that is constant inside
    a query says nothing there and becomes 0.

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
        must(self.method in ("minmax", "standard", "max"), "method is minmax, standard or max")
        must(self.n_columns >= 1, "n_columns must be at least 1")

    @property
    def n_features(self) -> int:
        return self.n_columns

    def transform(self, X: Matrix, queries: Queries) -> Matrix:
        if not isinstance(X, np.ndarray):
            raise DataError(
                "scaling by query would make sparse rows dense: call X.toarray() first."
            )
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
        # A constant column keeps a rounding error's worth of spread, which must not be blown up.
        return mean, np.where(spread <= 1e-12 * np.maximum(np.abs(mean), 1e-300), 0.0, spread)

    @staticmethod
    def _max(rows: FloatArray, starts: IntArray, code: IntArray) -> tuple[FloatArray, ...]:
        top = np.nan_to_num(np.fmax.reduceat(np.abs(rows), starts))
        return np.zeros_like(top), top
