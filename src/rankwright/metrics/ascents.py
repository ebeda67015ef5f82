"""Count pairs that stand in the wrong order, in O(n log n), many lists at once.

An *ascent* of a row is a pair ``i < j`` with ``codes[i] < codes[j]``: in rows sorted from the best
score to the worst, a lower grade placed above a higher one. A merge sort brings every pair together
in exactly one merge, and there the number of left codes below a right code is how far the right
code moved. Both functions do a whole level of merges with one call to NumPy's sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_ascents", "sum_over_ascents"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_FEW_CODES = 8


def count_ascents(codes: NDArray[np.integer]) -> IntArray:
    """The number of ascents of each row; codes must be below 2**30 in size.

    >>> count_ascents(np.array([[3, 2, 1, 0], [0, 1, 1, 2]]))
    array([0, 5])
    """
    if codes.size and codes.max() <= _FEW_CODES:
        return _count_by_code(codes)
    rows, width = _pad(codes, np.int32)
    n_ascents = np.zeros(len(rows), np.int64)
    half = 1
    while half < width:
        merges = rows.reshape(len(rows), -1, 2 * half)
        # Equal codes are no ascent: the right one (even key) has to come first.
        merges *= 2
        merges[:, :, :half] += 1
        merges.sort(axis=2)
        places = (merges & 1 == 0) @ np.arange(2 * half, dtype=np.float64)  # exact below 2**53
        n_ascents += (places.sum(axis=1) - places.shape[1] * (half * (half - 1) // 2)).astype(
            np.int64
        )
        merges >>= 1
        half *= 2
    return n_ascents


def sum_over_ascents(
    codes: NDArray[np.integer], products: Sequence[tuple[FloatArray, FloatArray]]
) -> FloatArray:
    """For each pair of arrays (u, v) and each row, the sum of ``u[i] * v[j]`` over the ascents.

    Returns (n_products, n_rows). With u = v = 1 these are the counts:

    >>> codes, one = np.array([[0, 1, 1, 2]]), np.ones((1, 4))
    >>> sum_over_ascents(codes, [(one, one), (np.array([[5.0, 1, 1, 1]]), one)])
    array([[ 5.], [17.]])
    """
    rows, width = _pad(codes, np.int64)
    factors = [_pad(values, np.float64)[0] for pair in products for values in pair]
    sums = np.zeros((len(products), len(rows)))
    half = 1
    while half < width:
        shape = (len(rows), -1, 2 * half)
        keys = rows.reshape(shape) * 2
        keys[:, :, :half] += 1
        order = keys.argsort(axis=2, kind="stable")
        right = order >= half
        rows = np.take_along_axis(keys, order, axis=2).reshape(rows.shape) >> 1
        factors = [np.take_along_axis(f.reshape(shape), order, axis=2) for f in factors]
        for number in range(len(products)):
            below = np.cumsum(np.where(right, 0.0, factors[2 * number]), axis=2)
            below *= np.where(right, factors[2 * number + 1], 0.0)
            sums[number] += below.sum(axis=(1, 2))
        half *= 2
    return sums


def _count_by_code(codes: NDArray[np.integer]) -> IntArray:
    """The same for small codes: for each code, how many smaller ones stand before it."""
    n_ascents = np.zeros(len(codes), np.int64)
    for code in range(1, int(codes.max()) + 1):
        here = codes == code
        before = np.cumsum((codes >= 0) & (codes < code), axis=1, dtype=np.int32)
        n_ascents += np.sum(before, axis=1, where=here, dtype=np.int64)
    return n_ascents


def _pad(values: NDArray[Any], dtype: type) -> tuple[NDArray[Any], int]:
    """A copy whose width is a power of two, filled with values that make no ascent (-1)."""
    n_rows, n_columns = values.shape
    width = 1 << max(0, n_columns - 1).bit_length()
    padded = np.full((n_rows, width), -1, dtype=dtype)
    padded[:, :n_columns] = values
    return padded, width
