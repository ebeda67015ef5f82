"""Gradients and Hessians of a query with many rows, by sums over its grades instead of pairs.

Rows are sorted by grade, those of a grade by score. Each function writes ``out`` (2, m) float64:
minus the gradient, and the Hessian, of ``sum w_u w_l gap loss(s_u - s_l)`` over the pairs of
different grades; the gap is the difference of the grades if ``gaps``, else 1.

squared               O(m): the sum factorizes
exponential           O(m)
squared_hinge         O(m log m): a sweep over the scores with a Fenwick tree over the grades
logistic, fidelity    O(m (log m + spread of the scores)): see feedback/_kernels/pair_losses

rows  Rows: score, grade, weight (m,), and level (m,) int64, the number of each row's grade
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rankwright.feedback._kernels import pair_losses as smooth

LOGISTIC, EXPONENTIAL, FIDELITY, SQUARED_HINGE, SQUARED = range(5)


class Rows(NamedTuple):
    """The rows of one query, sorted by grade."""

    score: Any
    grade: Any
    weight: Any
    level: Any


@njit(cache=True, nogil=True, error_model="numpy")
def level_gradients(rows, loss, gaps, out):
    """Write the gradients and Hessians of one query."""
    if loss == SQUARED:
        _squared(rows, gaps, out)
    elif loss == EXPONENTIAL:
        _exponential(rows, gaps, out)
    elif loss == SQUARED_HINGE:
        _squared_hinge(rows, gaps, out)
    else:
        sums = smooth.Rows(rows.score, rows.grade, rows.weight, rows.weight)
        smooth.smooth_sums(sums, loss, gaps, out)


@njit(cache=True, nogil=True, error_model="numpy")
def is_worth_it(m, spread, loss):
    """Whether sums over grades are faster than pairs for m rows whose scores spread so far."""
    if loss in (SQUARED, EXPONENTIAL):
        return m > 4 and spread < 600.0
    if loss == SQUARED_HINGE:
        return m > 64
    return m > 36 * (int(spread) + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _gap_sums(values, rows, gaps, lower, total):
    """Per row the sum of ``values`` times the gap over all rows of lower (or higher) grades."""
    m = len(values)
    plain, by_grade = 0.0, 0.0
    k = 0 if lower else m - 1
    step = 1 if lower else -1
    while 0 <= k < m:
        end = k
        while 0 <= end < m and rows.level[end] == rows.level[k]:
            y = rows.grade[end]
            total[end] = (y * plain - by_grade) * step if gaps else plain
            end += step
        for j in range(k, end, step):
            plain += values[j]
            by_grade += values[j] * rows.grade[j]
        k = end


@njit(cache=True, nogil=True, error_model="numpy")
def _squared(rows, gaps, out):
    m = len(rows.score)
    middle = 0.0  # any value is right; the mean keeps sums small
    for i in range(m):
        middle += (rows.score[i] - rows.grade[i]) / m
    error, pull, mass, sums = np.empty(m), np.empty(m), np.zeros(m), np.zeros(m)
    for i in range(m):
        error[i] = rows.score[i] - rows.grade[i] - middle
        pull[i] = rows.weight[i] * error[i]
    out[:] = 0.0
    for lower in (True, False):
        _gap_sums(rows.weight, rows, gaps, lower, mass)
        _gap_sums(pull, rows, gaps, lower, sums)
        for i in range(m):
            out[0, i] += 2.0 * rows.weight[i] * (sums[i] - error[i] * mass[i])
            out[1, i] += 2.0 * rows.weight[i] * mass[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _exponential(rows, gaps, out):
    m = len(rows.score)
    middle = 0.5 * (rows.score.min() + rows.score.max())
    rising, up, down, sums = np.empty(m), np.empty(m), np.empty(m), np.zeros(m)
    for i in range(m):
        rising[i] = math.exp(rows.score[i] - middle)
        up[i], down[i] = rows.weight[i] * rising[i], rows.weight[i] / rising[i]
    _gap_sums(up, rows, gaps, True, sums)
    for i in range(m):
        out[0, i] = out[1, i] = rows.weight[i] * sums[i] / rising[i]
    _gap_sums(down, rows, gaps, False, sums)
    for i in range(m):
        out[0, i] -= rows.weight[i] * sums[i] * rising[i]
        out[1, i] += rows.weight[i] * sums[i] * rising[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _add(tree, level, amounts):
    level += 1
    while level < len(tree):
        for k in range(4):  # a loop: numba compiles 3 s of messages for a sum of arrays
            tree[level, k] += amounts[k]
        level += level & -level


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_below(tree, level, sums):
    sums[:] = 0.0
    while level > 0:
        for k in range(4):
            sums[k] += tree[level, k]
        level -= level & -level


@njit(cache=True, nogil=True, error_model="numpy")
def _squared_hinge(rows, gaps, out):
    """Pairs closer than 1: once for each row as the upper one, once as the lower one."""
    m, n_levels = len(rows.score), rows.level[-1] + 1
    order = np.argsort(-rows.score, kind="mergesort")
    out[:] = 0.0
    sums, amounts = np.zeros(4), np.zeros(4)
    for role in (1.0, -1.0):  # as the lower one: all signs of scores and grades turned
        tree, added = np.zeros((n_levels + 1, 4)), 0
        for k in range(m):
            i = order[k] if role > 0 else order[m - 1 - k]
            own = role * rows.score[i]
            while added < m:
                j = order[added] if role > 0 else order[m - 1 - added]
                other = role * rows.score[j]
                if other <= own - 1.0:
                    break
                level = rows.level[j] if role > 0 else n_levels - 1 - rows.level[j]
                w, y = rows.weight[j], role * rows.grade[j]
                amounts[0], amounts[1], amounts[2], amounts[3] = w, w * other, w * y, w * y * other
                _add(tree, level, amounts)
                added += 1
            _sum_below(tree, rows.level[i] if role > 0 else n_levels - 1 - rows.level[i], sums)
            mass, near = sums[0], sums[1]
            if gaps:
                y = role * rows.grade[i]
                mass, near = y * sums[0] - sums[2], y * sums[1] - sums[3]
            w = 2.0 * rows.weight[i]
            out[0, i] += role * w * ((1.0 - own) * mass + near)
            out[1, i] += w * mass
