"""Scores of rows by trees and by step functions, compiled.

X  (n_rows, n_columns) float64, C-contiguous and read-only (one type, so that each kernel is
   compiled once)

Sums run over trees, or over features, in their order, as in the NumPy functions of ``traversal``:
both give the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankwright.scoring.traversal import DE_BRUIJN

ROWS = 256  # of X that pass through one tree before the next tree: they stay in the cache
FEW = 32  # thresholds of a feature that are all compared with a value
MASKED_ROWS = 128  # the same for trees as masks
ALL = np.uint32(0xFFFFFFFF)
LANES = 8  # rows that descend a tree at the same time: the processor overlaps their loads


@njit(cache=True, nogil=True)
def _is_listed(values, start, stop, x):
    """Whether x is one of values[start:stop], which ascend."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] < x:
            start = middle + 1
        elif values[middle] == x:
            return True
        else:
            stop = middle
    return False


@njit(cache=True, nogil=True)
def _child(node, x, nodes, default, categories):
    """The node that a row with the value x moves to; a leaf moves to itself.

    The code has no branches unless there are categories: numba leaves lines out where ``default``
    or ``categories`` is None.
    """
    up = x > nodes.threshold[node]
    if default is not None:
        up |= (x != x) & (default[node] == 1)
    if categories is not None:
        start, stop = categories.ptr[node], categories.ptr[node + 1]
        if start < stop and x == x:
            up = _is_listed(categories.value, start, stop, x)
    return nodes.child[2 * node + up]


@njit(cache=True, nogil=True)
def add_trees(X, nodes, default, categories, scores):
    """Add weight * value of the leaf of every tree to the score of each row.

    nodes       Nodes, of traversal
    default     (n_nodes,) int64: 1 if a row without a value goes up; None if X has no NaN
    categories  Categories, of traversal, or None
    scores      (n_rows,) float64, changed
    """
    at = np.empty(LANES, np.int64)
    n_rows = X.shape[0]
    for start in range(0, n_rows, ROWS):
        stop = min(start + ROWS, n_rows)
        for tree in range(nodes.root.size):
            weight, n_levels = nodes.weight[tree], nodes.depth[tree]
            for first in range(start, stop, LANES):
                at[:] = nodes.root[tree]
                n_lanes = min(LANES, stop - first)
                for _ in range(n_levels if n_lanes == LANES else 0):
                    for lane in range(LANES):  # a constant: LLVM unrolls this loop
                        x = X[first + lane, nodes.feature[at[lane]]]
                        at[lane] = _child(at[lane], x, nodes, default, categories)
                for _ in range(n_levels if n_lanes < LANES else 0):
                    for lane in range(n_lanes):
                        x = X[first + lane, nodes.feature[at[lane]]]
                        at[lane] = _child(at[lane], x, nodes, default, categories)
                for lane in range(n_lanes):
                    scores[first + lane] += weight * nodes.value[at[lane]]


@njit(cache=True, nogil=True)
def add_masked_trees(X, masks, scores):
    """The same sums as :func:`add_trees`, for rows without NaN.

    For each row and tree, the bits of 32 leaves are all set at first. A node whose threshold is
    below the row's value clears the leaves of its low subtree. Of those that are left, the first
    is the row's leaf: each node above it either sent the row there or cleared what is before it.
    No step depends on the one before, so that many rows take it at once (QuickScorer, Lucchese et
    al., SIGIR 2015).

    masks   Masks, of traversal
    scores  (n_rows,) float64, changed
    """
    n_rows, n_columns = X.shape[0], masks.feature.size
    codes = np.zeros((n_columns, MASKED_ROWS), np.int32)
    column, bits = np.empty(MASKED_ROWS), np.empty(MASKED_ROWS, np.uint32)
    for start in range(0, n_rows, MASKED_ROWS):
        n = min(MASKED_ROWS, n_rows - start)
        for i in range(n_columns):
            for k in range(n):
                column[k] = X[start + k, masks.feature[i]]
            _count_below(column, masks.threshold[masks.ptr[i] : masks.ptr[i + 1]], codes[i], n)
        for tree in range(masks.tree.size - 1):
            bits[:] = ALL
            for node in range(masks.tree[tree], masks.tree[tree + 1], 4):
                _clear_leaves(bits, codes, masks, node, n)
            leaf = masks.leaf[tree]
            for k in range(n):
                first = np.uint64(bits[k]) & np.uint64(~bits[k] + 1)
                scores[start + k] += leaf[((first * DE_BRUIJN) & np.uint64(ALL)) >> np.uint64(27)]


@njit(cache=True, nogil=True)
def _count_below(column, threshold, codes, n):
    """Set codes[k] to the number of thresholds below column[k]; all rows search at once."""
    codes[:] = 0
    size = threshold.size
    while size > 0:
        half = (size + 1) >> 1
        for k in range(n):
            codes[k] += half * (threshold[codes[k] + half - 1] < column[k])
        size -= half


@njit(cache=True, nogil=True)
def _clear_leaves(bits, codes, masks, node, n):
    """Clear the leaves that four nodes exclude; four at once save loads and stores of the bits."""
    a, b = codes[masks.column[node]], codes[masks.column[node + 1]]
    c, d = codes[masks.column[node + 2]], codes[masks.column[node + 3]]
    rank_a, rank_b = masks.rank[node], masks.rank[node + 1]
    rank_c, rank_d = masks.rank[node + 2], masks.rank[node + 3]
    mask_a, mask_b = masks.mask[node], masks.mask[node + 1]
    mask_c, mask_d = masks.mask[node + 2], masks.mask[node + 3]
    for k in range(n):
        first = (mask_a if a[k] > rank_a else ALL) & (mask_b if b[k] > rank_b else ALL)
        last = (mask_c if c[k] > rank_c else ALL) & (mask_d if d[k] > rank_d else ALL)
        bits[k] &= first & last


@njit(cache=True, nogil=True)
def add_steps(X, steps, scores):
    """Add the value of every feature's step function to the score of each row.

    steps   Steps, of traversal
    scores  (n_rows,) float64, changed
    """
    n_rows = X.shape[0]
    column, below = np.empty(ROWS), np.empty(ROWS, np.int64)
    for begin in range(0, n_rows, ROWS):
        n = min(ROWS, n_rows - begin)
        for i in range(steps.feature.size):
            first, last = steps.ptr[i], steps.ptr[i + 1]
            for k in range(n):
                column[k] = X[begin + k, steps.feature[i]]
                below[k] = first
            _add_below(column, steps.threshold, first, last, below, n)
            for k in range(n):
                x = column[k]
                scores[begin + k] += steps.missing[i] if x != x else steps.value[below[k] + i]


@njit(cache=True, nogil=True)
def _add_below(column, threshold, first, last, below, n):
    """Add the number of thresholds below each value to ``below``; few are compared one by one."""
    if last - first <= FEW:
        for at in range(first, last):
            limit = threshold[at]
            for k in range(n):  # LLVM compares several values at once
                below[k] += limit < column[k]
        return
    for k in range(n):
        x, start, stop = column[k], first, last
        while start < stop:
            middle = (start + stop) >> 1
            if threshold[middle] < x:
                start = middle + 1
            else:
                stop = middle
        below[k] = start
