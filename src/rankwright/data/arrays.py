"""What every container does with the arrays it holds: make them read-only, find repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.exceptions import DataError

__all__ = ["as_column", "first_repeat", "read_only", "row_numbers"]

IntArray = NDArray[np.int64]


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to; the caller's own array stays as it was."""
    view = array.view()
    view.setflags(write=False)
    return view


def as_column(values: Any, name: str, n_rows: int, *, finite: bool = True) -> NDArray[np.float64]:
    """One float64 per row, from a list, an array or a column of a data frame.

    >>> as_column(["a"], "value", 1)
    Traceback (most recent call last):
    ...
    rankwright.exceptions.DataError: value holds something that is not a number (could not ...
    """
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} holds something that is not a number ({error}).") from None
    if column.shape != (n_rows,):
        raise DataError(
            f"{name} has the shape {column.shape}: give one number for each of {n_rows}."
        )
    bad = ~np.isfinite(column)
    if finite and bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{name} is {column[row]} in row {row}: give a finite number or drop the row."
        )
    return column


def row_numbers(rows: ArrayLike | slice, n_rows: int) -> IntArray:
    """Row numbers from a mask, numbers in any order, or a slice."""
    chosen = np.arange(n_rows, dtype=np.int64)
    index = chosen[rows] if isinstance(rows, slice) else chosen[_as_index(rows, n_rows)]
    return np.asarray(index, dtype=np.int64)


def _as_index(rows: ArrayLike, n_rows: int) -> NDArray[Any]:
    index = np.asarray(rows)
    if index.size == 0 and index.dtype.kind == "f":  # an empty list
        index = index.astype(np.int64)
    if index.ndim != 1 or index.dtype.kind not in "biu":
        raise DataError("rows must be a mask, row numbers or a slice.")
    if index.dtype.kind == "b" and len(index) != n_rows:
        raise DataError(f"the mask has {len(index)} entries for {n_rows} rows.")
    if (
        index.dtype.kind != "b"
        and index.size
        and not -n_rows <= index.min() <= index.max() < n_rows
    ):
        raise DataError(f"row numbers must lie in 0 .. {n_rows - 1}.")
    return index


def first_repeat(keys: IntArray) -> tuple[int, int] | None:
    """The first row whose key an earlier row had already, with that earlier row.

    >>> first_repeat(np.array([5, 7, 5, 7]))
    (2, 0)
    """
    in_order = np.sort(keys)
    if not (in_order[1:] == in_order[:-1]).any():
        return None
    order = np.argsort(keys, kind="stable")
    row = int(order[1:][keys[order[1:]] == keys[order[:-1]]].min())
    return row, int(np.flatnonzero(keys[:row] == keys[row])[0])
