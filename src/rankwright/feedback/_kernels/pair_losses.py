"""Sums of smooth losses over all pairs of graded rows, one query after the other.

A pair (upper u, lower l) costs ``loss(s_u - s_l)``: logistic, log(1 + exp(-d)), or fidelity,
1 - sqrt(P) with P = 1 / (1 + exp(-d)).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rankwright.feedback._kernels.ndcg import ndcg_change
from rankwright.feedback._kernels.sorting import ascending_order
from rankwright.feedback.losses import LOGISTIC
from rankwright.runtime.kernels import njit

# Sums may be reordered (SIMD). Such a function must be inlined: otherwise it is optimized once by
# itself and once within its caller, and the process that compiles it runs another order of sums
# than processes that load it from the cache.
SUMS = {"reassoc", "contract", "nsz", "arcp"}
WIDE = 600.0  # a spread of scores whose exponentials may overflow


class GradedQueries(NamedTuple):
    """Rows grouped by query."""

    ptr: Any  # (n_queries + 1,) int64, where each query starts
    grade: Any  # (n,) float64
    weight: Any  # (n,) float64, > 0
    query_weight: Any  # (n_queries,) float64


class SortedRows(NamedTuple):
    """The rows of one query, sorted by grade."""

    score: Any  # (m,) float64
    level: Any  # (m,) float64, the grade
    grade: Any  # (m,) float64, the grade if a pair is weighted by the gap of its grades, else 0
    upper: Any  # (m,) float64, the weight as the upper row of a pair
    lower: Any  # (m,) float64, the weight as the lower row
    gaps: Any  # bool, whether a pair is weighted by the gap of its grades; else the gap is 1


@njit(cache=True, nogil=True, error_model="numpy")
def smooth_terms(difference, loss):
    """Minus the slope, the curvature and the value of the loss of a pair."""
    small = math.exp(-abs(difference))
    wrong = (small if difference >= 0 else 1.0) / (1.0 + small)
    right = (1.0 if difference >= 0 else small) / (1.0 + small)
    if loss == LOGISTIC:
        return wrong, wrong * right, max(-difference, 0.0) + math.log1p(small)
    root = math.sqrt(right)
    slope = 0.5 * root * wrong
    return slope, slope * (0.25 + 0.75 * right * right), wrong / (1.0 + root)


@njit(cache=True, nogil=True, error_model="numpy")
def exp_scores(scores, odds):
    """Write exp(score - middle) of each row; return whether that is far from overflow."""
    low, high = np.inf, -np.inf
    for i in range(len(scores)):
        low, high = min(low, scores[i]), max(high, scores[i])
    if high - low > WIDE:
        return False
    for i in range(len(scores)):
        odds[i] = math.exp(scores[i] - 0.5 * (low + high))
    return True


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS, forceinline=True)
def _add_logistic(i, stop, rows, odds, base, out):
    """Add the pairs of row i with the rows before ``stop``, vectorized: no branch, one division."""
    own, share, weight, grade = odds[i], rows.upper[i], rows.lower, rows.grade
    slope, curve, slope_sum, curve_sum = out[0], out[1], 0.0, 0.0
    for j in range(stop):
        inverse = 1.0 / (own + odds[j])
        t = weight[j] * (base - grade[j]) * (odds[j] * inverse)
        c = t * (own * inverse)
        slope[j] -= share * t
        curve[j] += share * c
        slope_sum += t
        curve_sum += c
    slope[i] += share * slope_sum
    curve[i] += share * curve_sum


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS, forceinline=True)
def _add_fidelity(i, stop, rows, odds, base, out):
    """As ``_add_logistic``; returns the loss, which takes the same square root."""
    own, share, weight, grade = odds[i], rows.upper[i], rows.lower, rows.grade
    slope, curve, slope_sum, curve_sum, total = out[0], out[1], 0.0, 0.0, 0.0
    for j in range(stop):
        inverse = 1.0 / (own + odds[j])
        right = own * inverse
        root, loss = math.sqrt(right), weight[j] * (base - grade[j]) * (odds[j] * inverse)
        t = 0.5 * root * loss
        c = t * (0.25 + 0.75 * right * right)
        total += loss / (1.0 + root)
        slope[j] -= share * t
        curve[j] += share * c
        slope_sum += t
        curve_sum += c
    slope[i] += share * slope_sum
    curve[i] += share * curve_sum
    return share * total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS, forceinline=True)
def _logistic_value(i, stop, rows, odds, base):
    """The loss of these pairs: log(1 + x) = 2 atanh(z) by its series, z = x / (2 + x) <= 1 / 3."""
    own, score, weight, grade = odds[i], rows.score, rows.lower, rows.grade
    total = 0.0
    for j in range(stop):
        low, high = min(own, odds[j]), max(own, odds[j])
        z = low / (2.0 * high + low)
        y = z * z
        series = 1.0 / 31.0
        series = series * y + 1.0 / 29.0
        series = series * y + 1.0 / 27.0
        series = series * y + 1.0 / 25.0
        series = series * y + 1.0 / 23.0
        series = series * y + 1.0 / 21.0
        series = series * y + 1.0 / 19.0
        series = series * y + 1.0 / 17.0
        series = series * y + 1.0 / 15.0
        series = series * y + 1.0 / 13.0
        series = series * y + 1.0 / 11.0
        series = series * y + 1.0 / 9.0
        series = series * y + 1.0 / 7.0
        series = series * y + 1.0 / 5.0
        series = series * y + 1.0 / 3.0
        value = max(score[j] - score[i], 0.0) + 2.0 * (z + z * y * series)
        total += weight[j] * (base - grade[j]) * value
    return rows.upper[i] * total


@njit(cache=True, nogil=True, error_model="numpy")
def _add_wide(i, stop, rows, loss, base, out):
    """As ``_add_logistic``, for scores whose exponentials overflow; returns the loss."""
    total = 0.0
    for j in range(stop):
        w = rows.upper[i] * rows.lower[j] * (base - rows.grade[j])
        slope, curve, value = smooth_terms(rows.score[i] - rows.score[j], loss)
        out[0, i] += w * slope
        out[0, j] -= w * slope
        out[1, i] += w * curve
        out[1, j] += w * curve
        total += w * value
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def smooth_sums(rows, loss, with_value, out):
    """Write the sums over the pairs of a query; return their loss (if ``with_value``).

    rows  SortedRows; a pair weighs ``upper_u lower_l gap`` (see ``SortedRows``)
    out   (2, m) float64: minus the slope by the score of each row; the curvature, added to both
          rows of a pair   written
    """
    odds, stop, total = np.empty(len(rows.score)), 0, 0.0
    moderate = exp_scores(rows.score, odds)
    out[:] = 0.0
    for i in range(len(rows.score)):
        if rows.level[i] > rows.level[stop]:
            stop = i  # rows before it have lower grades
        base = rows.grade[i] if rows.gaps else 1.0
        if rows.upper[i] == 0.0:
            continue
        if not moderate:
            total += _add_wide(i, stop, rows, loss, base, out)
        elif loss == LOGISTIC:
            _add_logistic(i, stop, rows, odds, base, out)
            total += _logistic_value(i, stop, rows, odds, base) if with_value else 0.0
        else:
            total += _add_fidelity(i, stop, rows, odds, base, out)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_queries(queries, first, last, scores, lower, codes, out):
    """The sums of queries first .. last - 1, whose rows are sorted by grade (see ``smooth_sums``).

    lower  (n,) float64, weights as lower rows; queries.weight are those as upper rows
    codes  (loss, gaps, with_value)
    """
    loss, gaps, with_value = codes
    total, none = 0.0, np.zeros(len(scores))
    for q in range(first, last):
        part = slice(queries.ptr[q], queries.ptr[q + 1])
        level = queries.grade[part]
        grade = level if gaps else none[part]
        rows = SortedRows(scores[part], level, grade, queries.weight[part], lower[part], gaps)
        own = np.empty((2, len(level)))  # not out[:, part]: loops over its rows are not vectorized
        total += queries.query_weight[q] * smooth_sums(rows, loss, with_value, own)
        for term in range(2):  # loops: numba compiles 3 s of messages for slices
            for k in range(len(level)):
                out[term, queries.ptr[q] + k] = queries.query_weight[q] * own[term, k]
    return total


@njit(cache=True, nogil=True)
def position_discounts(order, weight, discount):
    """The mean discount 1 / log2(position + 1) of the positions that each row takes in this order.

    A row of weight 2 takes two positions; a fraction of a position counts as that fraction.
    """
    position = 0.0
    for t in range(len(order)):
        i = order[t]
        stop = position + weight[i]
        total, p = 0.0, position
        while stop - p > 1e-12:
            whole = math.floor(p + 1e-12)
            part = min(stop, whole + 1.0) - p
            total += part / math.log2(whole + 2.0)
            p += part
        discount[i] = total / weight[i]
        position = stop


@njit(cache=True, nogil=True, error_model="numpy")
def ndcg_sums(queries, first, last, scores, gain, codes, slope):
    """The sums of weighted losses and of weights over all pairs of queries first .. last - 1.

    A pair is also weighted by |delta NDCG|, which depends on the order: pair by pair.

    queries  GradedQueries of n rows, sorted by grade
    gain     (n,) float64
    codes    (loss, whether a pair is also weighted by its difference of grades)
    slope    (n,) float64   increased by minus the slope
    """
    value, mass = 0.0, 0.0
    for q in range(first, last):
        part = slice(queries.ptr[q], queries.ptr[q + 1])
        s, y, w = scores[part], queries.grade[part], queries.weight[part]
        g, pull = gain[part], slope[part]
        discount, m = np.zeros(len(s)), len(s)
        position_discounts(ascending_order(-g), w, discount)
        ideal = 0.0
        for i in range(m):
            ideal += g[i] * discount[i] * w[i]
        position_discounts(ascending_order(-s), w, discount)
        for i in range(m):
            for j in range(i):
                if y[i] == y[j]:
                    break
                weight = queries.query_weight[q] * w[i] * w[j] / ideal
                weight *= abs(ndcg_change(g[i] - g[j], discount[i], 1.0, discount[j]))
                if codes[1]:
                    weight *= y[i] - y[j]
                terms = smooth_terms(s[i] - s[j], codes[0])
                value += weight * terms[2]
                mass += weight
                pull[i] += weight * terms[0]
                pull[j] -= weight * terms[0]
    return value, mass
