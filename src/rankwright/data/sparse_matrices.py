"""Sparse matrices, checked once: compiled code follows their indices without bounds checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.exceptions import DataError

_FIX = "Build it again from its source, or see X.check_format(full_check=True)."


def checked_csr(X: Any, name: str = "X") -> Any:
    """A SciPy sparse matrix as CSR; raises a DataError if an index points outside of it.

    SciPy and compiled kernels follow these indices without a check, so a damaged matrix would read
    or write foreign memory. Values are not copied; indices become int32 where the matrix is small
    enough. SciPy remembers whether indices are sorted and distinct; the result forgets it, because
    arrays may have changed since.

    >>> from scipy.sparse import csr_array
    >>> X = csr_array([[1.0, 0.0], [0.0, 2.0]])
    >>> X.indices = X.indices.astype("int64")
    >>> checked_csr(X).indices.dtype
    dtype('int32')
    >>> X.indices[1] = 9
    >>> checked_csr(X)
    Traceback (most recent call last):
    rankwright.exceptions.DataError: X: row 1 stores a value in column 9, but there are 2 columns...
    """
    if getattr(X, "_rankwright_checked", False):
        return X
    if X.ndim != 2:
        raise DataError(f"{name} is a sparse array of {X.ndim} axes; it needs 2: rows, columns.")
    if X.format in ("csr", "csc", "bsr"):
        _check_compressed(X, name)
    elif X.format == "coo":
        for index, size, axis in zip((X.row, X.col), X.shape, ("row", "column"), strict=True):
            _check_integers(index, f"{name}: the {axis} numbers")
            _check_lengths(len(index) == len(X.data), name)
            _check_inside(index, size, f"{name}: {axis}")
    table = X.tocsr()
    if table is not X:
        _check_compressed(table, name)
    # One type of index wherever it suffices: kernels are compiled for each type they meet.
    kind = np.int32 if max(*table.shape, len(table.data)) < 2**31 else np.int64
    index = tuple(part.astype(kind, copy=False) for part in (table.indices, table.indptr))
    table = type(table)((table.data, *index), shape=table.shape, copy=False)
    table._rankwright_checked = True  # of this object, which no caller has
    return table


def checked_rows(X: Any, name: str = "X") -> Any:
    """A sparse matrix as :func:`checked_csr` gives it, a lazy frame collected; others as they are.

    >>> import polars as pl
    >>> checked_rows(pl.LazyFrame({"a": [1.0]})).shape
    (1, 1)
    """
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):  # polars' LazyFrame
        X = X.collect()
    return checked_csr(X, name) if hasattr(X, "tocsr") else X


def _check_compressed(X: Any, name: str) -> None:
    """Check the index arrays of a CSR, CSC or BSR matrix, in time O(stored values)."""
    block = X.data.shape[1:] if X.format == "bsr" else (1, 1)
    n_major, n_minor = (size // part for size, part in zip(X.shape, block, strict=True))
    major, minor = "row", "column"
    if X.format == "csc":
        n_major, n_minor, major, minor = n_minor, n_major, minor, major
    for array in (X.indices, X.indptr):
        _check_integers(array, f"{name}: the index arrays")
    ptr, n_stored = X.indptr, min(len(X.indices), len(X.data))
    _check_lengths(len(ptr) == n_major + 1 and len(X.indices) == len(X.data), name)
    if ptr[0] != 0 or ptr[-1] > n_stored or (ptr[1:] < ptr[:-1]).any():
        raise DataError(
            f"{name}: indptr runs from {ptr[0]} to {ptr[-1]} for {n_stored} stored values; it must "
            f"ascend from 0 to at most {n_stored}. The matrix is damaged. {_FIX}"
        )
    used = X.indices[: ptr[-1]]
    if len(used) and (used.min() < 0 or used.max() >= n_minor):
        at = int(np.argmax((used < 0) | (used >= n_minor)))
        row = int(np.searchsorted(ptr, at, side="right")) - 1
        raise DataError(
            f"{name}: {major} {row} stores a value in {minor} {used[at]}, but there are {n_minor} "
            f"{minor}s. The matrix is damaged. {_FIX}"
        )


def _check_integers(array: Any, what: str) -> None:
    if not (isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"):
        kind = f"{array.ndim}-d {array.dtype}" if isinstance(array, np.ndarray) else type(array)
        raise DataError(f"{what} are {kind}; they must be 1-d integers. {_FIX}")


def _check_lengths(fit: bool, name: str) -> None:
    if not fit:
        raise DataError(f"{name}: its arrays have different lengths. The matrix is damaged. {_FIX}")


def _check_inside(index: Any, size: int, what: str) -> None:
    if len(index) and (index.min() < 0 or index.max() >= size):
        at = int(np.argmax((index < 0) | (index >= size)))
        raise DataError(
            f"{what} {index[at]} of stored value {at} is outside 0 .. {size - 1}. The matrix is "
            f"damaged. {_FIX}"
        )
