"""Rows as the compiled passes take them, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.rankers.base import FloatArray

__all__ = ["IntArray", "Rows", "dense_row", "rows_of"]

IntArray = NDArray[np.int64]
Rows = tuple[Any, Any, Any, Any]  # (X, None, None, None) or (None, data, indices, indptr)


def rows_of(X: Any) -> Rows:
    """What a kernel takes for a matrix."""
    if isinstance(X, np.ndarray):
        return X, None, None, None
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return None, X.data, X.indices, X.indptr


def dense_row(rows: Rows, row: int, n_features: int) -> FloatArray:
    """One row as a plain (1, n_features) table."""
    X, data, indices, indptr = rows
    one = np.zeros((1, n_features))
    if X is not None:
        one[0] = X[row]
    else:
        part = slice(indptr[row], indptr[row + 1])
        one[0, indices[part]] = data[part]
    return one
