"""Scores of rows by trees and by step functions, compiled.

X  (n_rows, n_columns) float64, C-contiguous and read-only (one type, so that each kernel is
   compiled once)

Sums run over trees, or over features, in their order, as in the NumPy functions of ``traversal``:
both give the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ROWS = 256  # of X that pass through one tree before the next tree: they stay in the cache
FEW = 32  # thresholds of a feature that are all compared with a value
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
