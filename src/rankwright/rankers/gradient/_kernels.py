"""Sums over all pairs of graded rows, query by query, in O(n log n): sort, sweep, add up.

Squared hinge with margin M: a pair (i above j) costs (M - (s_i - s_j))^2 where s_i - s_j < M. In
order of score the rows j that count for a given i are a prefix, so one sweep with running sums per
level (a Fenwick tree over levels: sums over all lower levels in O(log levels)) serves all pairs.
The weight of a pair is sum_k upper[k, i] * lower[k, j].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwright.feedback._kernels.sorting import ascending_order
from rankwright.runtime.kernels import njit


class ScoredQueries(NamedTuple):
    """Rows grouped by query, with scores."""

    ptr: Any  # (n_queries + 1,) int64, where each query starts
    level: Any  # (n,) int64, 1 .. the number of levels of the query
    upper: Any  # (n_factors, n) float64, weight of a row as the upper of a pair
    lower: Any  # (n_factors, n) float64, ... and as the lower
    scores: Any  # (n,) float64, centered by query
    order: Any  # (n,) int64, rows by descending score within each query


@njit(cache=True, nogil=True)
def tree_add(tree, level, value):
    """Add the value at a level (1 ..) of a Fenwick tree."""
    while level < len(tree):
        tree[level] += value
        level += level & -level


@njit(cache=True, nogil=True)
def tree_sum(tree, level):
    """The sum of all values at levels 1 .. level."""
    total = 0.0
    while level > 0:
        total += tree[level]
        level -= level & -level
    return total


@njit(cache=True, nogil=True)
def sort_queries(queries, first, last):
    """Sort the rows of queries first .. last - 1 by score, highest first; center their scores.

    Writes ``order`` and changes ``scores`` in place: the middle score of each query becomes 0.
    """
    ptr, scores, order = queries.ptr, queries.scores, queries.order
    for q in range(first, last):
        start, stop = ptr[q], ptr[q + 1]
        if stop - start > 48:  # below that, insertion sort is faster
            by_score = ascending_order(-scores[start:stop])
            for t in range(stop - start):  # a loop: numba compiles 1 s of messages for a slice
                order[start + t] = start + by_score[t]
        else:
            for t in range(start, stop):
                value = scores[t]
                p = t
                while p > start and scores[order[p - 1]] < value:
                    order[p] = order[p - 1]
                    p -= 1
                order[p] = t
        # Sums of squares of scores lose digits when all scores are large and alike.
        middle = scores[order[(start + stop) // 2]]
        for t in range(start, stop):
            scores[t] -= middle


@njit(cache=True, nogil=True)
def squared_hinge_sums(queries, first, last, margin, slope, curvature):
    """Value, gradient and curvature of the squared hinge over pairs of queries first .. last - 1.

    queries    ScoredQueries, sorted
    slope      (n,) float64   increased by d value / d score
    curvature  (n,) float64   increased by half of d^2 value / d score^2

    Returns the sums of hinge and of squared hinge.
    """
    ptr, level, upper, lower, scores, order = queries
    hinge, squared = 0.0, 0.0
    for k in range(len(upper)):
        for q in range(first, last):
            start, stop = ptr[q], ptr[q + 1]
            top = 0
            for t in range(start, stop):
                top = max(top, level[t])
            mass, moment, square = np.zeros(top + 1), np.zeros(top + 1), np.zeros(top + 1)
            # Downwards: the lower rows within the margin of row i are a prefix, order[:p].
            p = start
            for t in range(start, stop):
                i = order[t]
                while p < stop and scores[i] - scores[order[p]] < margin:
                    j = order[p]
                    weight = lower[k, j]
                    if weight != 0.0 and level[j] < top:
                        tree_add(mass, level[j], weight)
                        tree_add(moment, level[j], weight * scores[j])
                        tree_add(square, level[j], weight * scores[j] * scores[j])
                    p += 1
                if upper[k, i] != 0.0 and level[i] > 1:
                    below = level[i] - 1
                    n, s = tree_sum(mass, below), tree_sum(moment, below)
                    room = margin - scores[i]
                    linear = n * room + s
                    hinge += upper[k, i] * linear
                    squared += upper[k, i] * (room * (linear + s) + tree_sum(square, below))
                    slope[i] -= 2.0 * upper[k, i] * linear
                    curvature[i] += upper[k, i] * n
            # Upwards: the same for each lower row j; levels count from the top in the trees.
            mass[:] = 0.0
            moment[:] = 0.0
            p = stop - 1
            for t in range(stop - 1, start - 1, -1):
                j = order[t]
                while p >= start and scores[order[p]] - scores[j] < margin:
                    i = order[p]
                    if upper[k, i] != 0.0 and level[i] > 1:
                        tree_add(mass, top + 1 - level[i], upper[k, i])
                        tree_add(moment, top + 1 - level[i], upper[k, i] * scores[i])
                    p -= 1
                if lower[k, j] != 0.0 and level[j] < top:
                    n = tree_sum(mass, top - level[j])
                    s = tree_sum(moment, top - level[j])
                    slope[j] += 2.0 * lower[k, j] * (n * (margin + scores[j]) - s)
                    curvature[j] += lower[k, j] * n
    return hinge, squared


@njit(cache=True, nogil=True)
def squared_hinge_product(queries, first, last, margin, curvature, vector, product):
    """Half the Hessian of the squared hinge times a vector, for queries first .. last - 1.

    queries    ScoredQueries, sorted
    curvature  (n,) float64, as ``squared_hinge_sums`` left it: the diagonal
    vector     (n,) float64
    product    (n,) float64   written
    """
    ptr, level, upper, lower, scores, order = queries
    for t in range(ptr[first], ptr[last]):
        product[t] = curvature[t] * vector[t]
    for k in range(len(upper)):
        for q in range(first, last):
            start, stop = ptr[q], ptr[q + 1]
            top = 0
            for t in range(start, stop):
                top = max(top, level[t])
            moment = np.zeros(top + 1)
            p = start
            for t in range(start, stop):
                i = order[t]
                while p < stop and scores[i] - scores[order[p]] < margin:
                    j = order[p]
                    if level[j] < top:
                        tree_add(moment, level[j], lower[k, j] * vector[j])
                    p += 1
                if level[i] > 1:
                    product[i] -= upper[k, i] * tree_sum(moment, level[i] - 1)
            moment[:] = 0.0
            p = stop - 1
            for t in range(stop - 1, start - 1, -1):
                j = order[t]
                while p >= start and scores[order[p]] - scores[j] < margin:
                    i = order[p]
                    if level[i] > 1:
                        tree_add(moment, top + 1 - level[i], upper[k, i] * vector[i])
                    p -= 1
                if level[j] < top:
                    product[j] -= lower[k, j] * tree_sum(moment, top - level[j])
