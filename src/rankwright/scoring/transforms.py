"""What may stand before a scorer: scaling by fixed numbers, or by the other rows of the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.scoring.base import FloatArray, IntArray, Matrix, Transform, must

__all__ = ["Affine", "QueryScale"]


@dataclass(frozen=True, eq=False)
class Affine(Transform):
    """Each column minus its shift, times its scale.

    >>> affine = Affine(shift=np.array([1.0, 0.0]), scale=np.array([0.5, 2.0]))
    >>> affine.transform(np.array([[3.0, 4.0]]), Queries.from_ids(None, 1))
    array([[1., 8.]])
    """

    kind: ClassVar[str] = "affine"
    shift: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        must(self.shift.ndim == 1 and self.shift.shape == self.scale.shape, "one shift per scale")
        must(np.isfinite(self.shift).all() and np.isfinite(self.scale).all(), "shifts are finite")

    @property
    def n_features(self) -> int:
        return len(self.shift)

    def transform(self, X: Matrix, queries: Queries) -> Matrix:
        if isinstance(X, np.ndarray):
            return (X - self.shift) * self.scale
        if self.shift.any():
            raise DataError("a shift would make sparse rows dense: call X.toarray() first.")
        return X.multiply(self.scale).tocsr()


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
