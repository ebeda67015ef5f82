"""Scores of rows by trees and by step functions, compiled.

X  (n_rows, n_columns) float64, C-contiguous and read-only (one type, so that each kernel is
   compiled once)

Sums run over trees, or over features, in their order, as in the NumPy functions of ``linear``
and ``trees``: both give the same bits.
"""

from __future__ import annotations

import numpy as np

from rankwright.runtime.kernels import njit
from rankwright.scoring.trees import TREES

ROWS = 256  # of X that pass through one tree before the next tree: they stay in the cache
MASKED_ROWS = 128  # the same for trees as masks; a constant, so that LLVM unrolls loops over them
STEPPED_ROWS = 64  # the same for step functions
U8, U32 = np.uint8, np.uint32
NONE, ALL = U8(0), U8(255)
LANES = 8  # rows that descend a tree at the same time: the processor overlaps their loads


@njit(cache=True, nogil=True)
def _level_place(x, sets, slot):
    """Where the row of bits of a value starts: that of its level, of other values, or of NaN."""
    start, stop = sets.ptr[slot], sets.ptr[slot + 1]
    row, ahead = stop - start, x - sets.level[start] if stop > start else 0.0
    if x != x:
        row += 1
    elif 0.0 <= ahead < row and sets.level[start + np.int64(ahead)] == x:
        row = np.int64(ahead)  # numbers of levels follow one another, and need no search
    else:
        low, high = start, stop
        while low < high:
            middle = (low + high) >> 1
            if sets.level[middle] < x:
                low = middle + 1
            else:
                high = middle
        if low < stop and sets.level[low] == x:
            row = low - start
    return sets.start[slot] + row * sets.width[slot]


@njit(cache=True, nogil=True)
def append_levels(X, sets, wide):
    """Write the rows of X, and after them the places of the bits of each feature with sets.

    sets  LevelSets, of trees
    wide  (n_rows, n_columns + n_slots) float64, written
    """
    n_rows, n_columns = X.shape
    for k in range(n_rows):
        for column in range(n_columns):
            wide[k, column] = X[k, column]
        for slot in range(sets.feature.size):
            wide[k, n_columns + slot] = _level_place(X[k, sets.feature[slot]], sets, slot)


@njit(cache=True, nogil=True)
def _child(node, x, nodes, default, sets):
    """The node that a row with the value x moves to; a leaf moves to itself.

    The code has no branches unless there are sets: numba leaves lines out where ``default`` or
    ``sets`` is None.
    """
    goes_right = x > nodes.threshold[node]
    if default is not None:
        goes_right |= (x != x) & (default[node] == 1)
    if sets is not None:
        byte = sets.byte[node]
        if byte >= 0:
            goes_right = (sets.bits[np.int64(x) + byte] & sets.bit[node]) != 0
    return nodes.child[2 * node + goes_right]


@njit(cache=True, nogil=True)
def add_trees(X, nodes, default, sets, scores):
    """Add weight * value of the leaf of every tree to the score of each row.

    nodes       Nodes, of trees
    default     (n_nodes,) int64: 1 if a row without a value goes right; None if X has no NaN
    sets        LevelSets, of trees, and X as ``append_levels`` writes it; or None
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
                        at[lane] = _child(at[lane], x, nodes, default, sets)
                for _ in range(n_levels if n_lanes < LANES else 0):
                    for lane in range(n_lanes):
                        x = X[first + lane, nodes.feature[at[lane]]]
                        at[lane] = _child(at[lane], x, nodes, default, sets)
                for lane in range(n_lanes):
                    scores[first + lane] += weight * nodes.value[at[lane]]


@njit(cache=True, nogil=True)
def add_masked_trees(X, masks, sets, scores):
    """The same sums as :func:`add_trees`.

    For each row and tree, no leaf is excluded at first. A node whose threshold is below the row's
    value excludes the leaves of its low subtree. Of those that are left, the first is the row's
    leaf: each node above it either sent the row there or excluded what is before it. No step
    depends on the one before, and codes and leaves are bytes, so that one instruction takes it for
    32 or 64 rows (QuickScorer, Lucchese et al., SIGIR 2015; RapidScorer, Ye et al., KDD 2018).

    masks   Masks, of trees
    sets    LevelSets, of trees; empty arrays if there are none
    scores  (n_rows,) float64, changed
    """
    n_rows, n_bytes = X.shape[0], masks.leaf.shape[1] // 8
    n_columns = 2 * masks.feature.size
    codes = np.zeros((n_columns + sets.width.sum(), MASKED_ROWS), np.uint8)
    excluded = np.empty((n_bytes, TREES, MASKED_ROWS), np.uint8)
    rows = excluded.reshape(n_bytes * TREES, MASKED_ROWS)
    leaf = np.empty(TREES * MASKED_ROWS, np.uint8)
    for start in range(0, n_rows, MASKED_ROWS):
        n = min(MASKED_ROWS, n_rows - start)
        _encode(X[start : start + n], masks, codes)
        _copy_bits(X[start : start + n], sets, codes[n_columns:])
        for block in range(masks.block.size - 1):
            rows[:] = NONE
            for i in range(masks.block[block], masks.block[block + 1]):
                row, a, b = masks.step[i, 0], masks.step[i, 1], masks.step[i, 4]
                first = U8(masks.step[i, 2]), U8(masks.step[i, 3])
                second = U8(masks.step[i, 5]), U8(masks.step[i, 6])
                _exclude(rows[row], codes[a], first, codes[b], second)
            for i in range(masks.set_block[block], masks.set_block[block + 1]):
                row, a, b = masks.set_step[i, 0], masks.set_step[i, 1], masks.set_step[i, 4]
                first = U8(masks.set_step[i, 2]), U8(masks.set_step[i, 3])
                second = U8(masks.set_step[i, 5]), U8(masks.set_step[i, 6])
                _exclude_sets(rows[row], codes[a], first, codes[b], second)
            _find_leaves(excluded.reshape(n_bytes, TREES * MASKED_ROWS), leaf)
            values = masks.leaf[TREES * block : TREES * block + TREES]
            _add_leaves(leaf.reshape(TREES, MASKED_ROWS), values, scores[start : start + n])


@njit(cache=True, nogil=True)
def _encode(X, masks, codes):
    """Set codes[i, k] to the number of thresholds of column i that are below a value of row k.

    For NaN it is 0, and ALL in codes[i + n_columns, k].
    """
    column, below = np.zeros(MASKED_ROWS), np.empty(MASKED_ROWS, np.uint32)
    for i in range(masks.feature.size):
        for k in range(X.shape[0]):
            column[k] = X[k, masks.feature[i]]
        threshold = masks.threshold[masks.ptr[i] : masks.ptr[i + 1]]
        below[:] = U32(0)
        for pivot in range(7, threshold.size - 8, 8):
            limit = threshold[pivot]
            for k in range(MASKED_ROWS):
                below[k] += U32(8) * U32(limit < column[k])
        low, high = codes[i], codes[i + masks.feature.size]
        _count_below(column, threshold, below, low)
        for k in range(MASKED_ROWS):
            high[k] = low[k] if column[k] == column[k] else ALL


@njit(cache=True, nogil=True)
def _count_below(column, threshold, below, codes):
    """Add to ``below``, a multiple of 8, the number of the next seven thresholds below a value.

    Numbers without a sign, as an index with one costs a check for negative ones.
    """
    for k in range(MASKED_ROWS):
        x, at = column[k], below[k]
        at = U32(at + U32(4) * U32(threshold[at + U32(3)] < x))
        at = U32(at + U32(2) * U32(threshold[at + U32(1)] < x))
        codes[k] = U8(at + U32(threshold[at] < x))


@njit(cache=True, nogil=True)
def _exclude(excluded, a, first, b, second):
    """Exclude the leaves of two nodes, (rank, mask) each; two at once save loads and stores."""
    (rank_a, mask_a), (rank_b, mask_b) = first, second
    for k in range(MASKED_ROWS):
        excluded[k] |= (mask_a if a[k] > rank_a else NONE) | (mask_b if b[k] > rank_b else NONE)


@njit(cache=True, nogil=True)
def _copy_bits(X, sets, codes):
    """Copy the row of bits of every value: eight sets are a byte, and a column of codes."""
    place, first = np.zeros(MASKED_ROWS, np.int64), 0
    for slot in range(sets.feature.size):
        for k in range(X.shape[0]):
            place[k] = _level_place(X[k, sets.feature[slot]], sets, slot)
        for i in range(sets.width[slot]):
            for k in range(X.shape[0]):
                codes[first + i, k] = sets.bits[place[k] + i]
        first += sets.width[slot]


@njit(cache=True, nogil=True)
def _exclude_sets(excluded, a, first, b, second):
    """As ``_exclude`` for two nodes with sets, (bit, mask) each."""
    (bit_a, mask_a), (bit_b, mask_b) = first, second
    for k in range(MASKED_ROWS):
        excluded[k] |= (mask_a if a[k] & bit_a else NONE) | (mask_b if b[k] & bit_b else NONE)


@njit(cache=True, nogil=True)
def _find_leaves(excluded, leaf):
    """Set leaf[k] to the first bit of excluded[:, k] that is 0, counted from the lowest one."""
    leaf[:] = NONE
    for i in range(excluded.shape[0] - 4, -1, -4):
        _find_in_four(excluded[i : i + 4], U8(8 * i), leaf)


@njit(cache=True, nogil=True)
def _find_in_four(excluded, first, leaf):
    """The same in four bytes whose lowest bit has the number ``first``, where they have one."""
    a, b, c, d = excluded[0], excluded[1], excluded[2], excluded[3]
    for k in range(TREES * MASKED_ROWS):
        byte, index = d[k], U8(24)
        if c[k] != ALL:
            byte, index = c[k], U8(16)
        if b[k] != ALL:
            byte, index = b[k], U8(8)
        if a[k] != ALL:
            byte, index = a[k], U8(0)
        bit = U8(~byte & (byte + 1))
        index |= (U8(2) if bit & U8(0xCC) else NONE) | (U8(4) if bit & U8(0xF0) else NONE)
        index |= first | (U8(1) if bit & U8(0xAA) else NONE)
        full = ALL if byte == ALL else NONE  # a mask, as LLVM would make a branch of the store
        leaf[k] = (leaf[k] & full) | (index & ~full)


@njit(cache=True, nogil=True)
def _add_leaves(leaf, values, scores):
    """Add the values of the leaves of four trees, in the order of the trees."""
    a, b, c, d = leaf[0], leaf[1], leaf[2], leaf[3]
    w, x, y, z = values[0], values[1], values[2], values[3]
    for k in range(scores.size):
        scores[k] = (((scores[k] + w[a[k]]) + x[b[k]]) + y[c[k]]) + z[d[k]]


@njit(cache=True, nogil=True)
def add_steps(X, steps, scores):
    """Add the value of every feature's step function to the score of each row.

    steps   Steps, of linear
    scores  (n_rows,) float64, changed
    """
    n_rows = X.shape[0]
    column, below = np.zeros(STEPPED_ROWS), np.empty(STEPPED_ROWS, np.uint32)
    for start in range(0, n_rows, STEPPED_ROWS):
        n = min(STEPPED_ROWS, n_rows - start)
        for i in range(steps.feature.size):
            first, last = steps.ptr[i], steps.ptr[i + 1]
            for k in range(n):
                column[k] = X[start + k, steps.feature[i]]
            _count_steps(column, steps.threshold[first:last], below)
            value, missing = steps.value[first + i : last + i + 1], steps.missing[i]
            for k in range(n):
                x = value[below[k]]
                scores[start + k] += x if column[k] == column[k] else missing


@njit(cache=True, nogil=True)
def _count_steps(column, threshold, below):
    """Set ``below`` to the number of thresholds below each value, by bisection of all at once.

    Every value takes the same number of halvings and none branches, so that one instruction takes
    several values.
    """
    below[:] = U32(0)
    n_left = threshold.size
    while n_left > 1:
        half = U32(n_left >> 1)
        for k in range(STEPPED_ROWS):
            below[k] += half * U32(threshold[U32(below[k] + half - U32(1))] < column[k])
        n_left -= n_left >> 1
    if n_left == 1:
        for k in range(STEPPED_ROWS):
            below[k] += U32(threshold[below[k]] < column[k])
