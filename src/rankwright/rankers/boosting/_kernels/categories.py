"""Levels of categorical features: sums over the rows of each, and their codes for one tree."""

from __future__ import annotations

import numpy as np

from rankwright.runtime.kernels import njit


@njit(cache=True, nogil=True, error_model="numpy")
def sum_levels(level, fold, pairs, rows, sums):
    """Add the pairs of some rows to the sums of their level and fold.

    level  (n_rows,) int32, fold (n_rows,) uint8
    pairs  (n_rows, 2) int64: gradient; Hessian and count
    rows   (n,) int32
    sums   (n_levels, n_folds, 2) int64   changed
    """
    for k in range(len(rows)):
        row = rows[k]
        sums[level[row], fold[row], 0] += pairs[row, 0]
        sums[level[row], fold[row], 1] += pairs[row, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def write_codes(level, fold, table, shift, words):
    """Write the code of each row's level and fold into a byte of the words.

    fold   (n_rows,) uint8; empty if all rows are of fold 0
    table  (n_levels, n_folds) uint8
    words  (n_rows,) uint32   changed
    """
    others = ~(np.uint32(255) << np.uint32(shift))
    for row in range(len(words)):
        own = fold[row] if len(fold) else 0
        code = np.uint32(table[level[row], own])
        words[row] = (words[row] & others) | (code << np.uint32(shift))
