"""Gradients and Hessians of pair losses, one query after the other, without a list of pairs.

A pair (upper u, lower l) of a query costs ``weight * loss(s_u - s_l)``. Its slope pulls u up and l
down; its curvature is added to the Hessian of both.

queries  GradedQueries: ptr, grade, weight, query_weight
order    (n,) int32, per query its rows by descending score, equal scores by ascending grade and
         weight; kept from round to round, since few rows change positions
out      (2, n) float64: minus the gradient, and the Hessian   written

Queries with many rows take sums over their grades instead of pairs; their rows are sorted by grade,
those of a grade by score (``GradedRows``). The gap of a pair is the difference of its grades if
``gaps``, else 1.

squared               O(m): the sum factorizes
exponential           O(m)
squared_hinge         O(m log m): a sweep over the scores with a Fenwick tree over the grades
logistic, fidelity    O(pairs), vectorized: see feedback/_kernels/pair_losses
smooth_hinge          O(pairs), one by one
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rankwright.feedback._kernels import pair_losses as smooth
from rankwright.feedback._kernels.ndcg import ndcg_change
from rankwright.feedback._kernels.pair_losses import SUMS, smooth_terms
from rankwright.feedback._kernels.sorting import ascending_order
from rankwright.feedback.losses import (
    AP,
    ERR,
    EXPONENTIAL,
    GRADE_DIFFERENCE,
    LOGISTIC,
    NDCG,
    RR,
    SMOOTH_HINGE,
    SQUARED,
    SQUARED_HINGE,
)
from rankwright.runtime.kernels import njit

NEAR = 0.01  # a pair weighted by ranks also counts less the farther apart its scores are
WIDEST = 1200.0  # a spread of scores whose exponentials overflow
SHUFFLED = 16  # a query whose rows move more than this times its size is sorted from scratch


@njit(cache=True, nogil=True, error_model="numpy")
def pair_terms(difference, gap, loss):
    """The slope (positive: the pair should move apart) and the curvature of one pair's loss."""
    if loss == EXPONENTIAL:
        slope = math.exp(min(-difference, 300.0))
        return slope, slope
    if loss == SQUARED_HINGE:
        short = 1.0 - difference
        return (2.0 * short, 2.0) if short > 0 else (0.0, 0.0)
    if loss == SMOOTH_HINGE:
        short = 1.0 - difference
        slope = min(max(short, 0.0), 1.0)
        return slope, slope / short if short > 0 else 0.0
    if loss == SQUARED:
        return 2.0 * (gap - difference), 2.0
    slope, curve, _ = smooth_terms(difference, loss)
    return slope, curve


@njit(cache=True, nogil=True, error_model="numpy")
def _before(a, b, scores, queries):
    """Whether row a comes before row b."""
    if scores[a] != scores[b]:
        return scores[a] > scores[b]
    if queries.grade[a] != queries.grade[b]:
        return queries.grade[a] < queries.grade[b]
    return queries.weight[a] < queries.weight[b]


@njit(cache=True, nogil=True, error_model="numpy")
def insert_rows(scores, queries, start, stop, gap, limit, order):
    """Sort rows that are ``gap`` apart by insertion; False if that took too many moves."""
    moves = 0
    for k in range(start + gap, stop):
        row, at = order[k], k
        while at >= start + gap and _before(row, order[at - gap], scores, queries):
            order[at] = order[at - gap]
            at -= gap
        order[at] = row
        moves += k - at
        if moves > limit:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def sort_query(scores, queries, start, stop, order):
    """Put the rows of a query in order, starting from the order of the last round.

    One tree moves few rows far, so insertion takes about O(rows).
    """
    if insert_rows(scores, queries, start, stop, np.int64(1), SHUFFLED * (stop - start), order):
        return
    gap = stop - start
    while gap > 1:  # Shell's sort
        gap = max(1, gap * 4 // 9)
        insert_rows(scores, queries, start, stop, gap, np.int64(1 << 60), order)


@njit(cache=True, nogil=True, error_model="numpy")
def prepare_positions(weights, gain, first, second):
    """What the weight of a swap needs, by position in the list, as gain (m,) is.

    AP   first: relevant rows down to the position, second: the sum of their 1 / position
    ERR  first: the chance that the user comes to the position, second: the sum of ERR before it
    RR   first[0], first[1]: the first two positions of relevant rows
    """
    m, count, total = len(gain), 0.0, 0.0
    if weights == AP:
        for p in range(m):
            count += gain[p]
            total += gain[p] / (p + 1.0)
            first[p], second[p] = count, total
    elif weights == ERR:
        chance = 1.0
        for p in range(m):
            first[p], second[p] = chance, total
            total += chance * gain[p] / (p + 1.0)
            chance *= 1.0 - gain[p]
        first[m], second[m] = chance, total
    elif weights == RR:
        first[0] = first[1] = np.inf
        for p in range(m - 1, -1, -1):
            if gain[p] > 0:
                first[1], first[0] = first[0], float(p)


@njit(cache=True, nogil=True, error_model="numpy")
def swap_change(weights, a, b, gain, first, second):
    """By how much the measure changes if the rows at positions a < b are exchanged."""
    if weights == ERR:
        stop_a, stop_b = gain[a], gain[b]
        fewer = (1.0 - stop_b) / (1.0 - stop_a)
        between = second[b] - second[a + 1]
        old = first[a] * stop_a / (a + 1.0) + first[b] * stop_b / (b + 1.0)
        new = first[a] * stop_b / (a + 1.0) + fewer * first[b] * stop_a / (b + 1.0)
        return abs(new - old + (fewer - 1.0) * between)
    if gain[a] == gain[b]:
        return 0.0
    if weights == AP:
        between = second[b - 1] - second[a]
        if gain[a] > 0:
            change = first[b] / (b + 1.0) - first[a] / (a + 1.0) - between
        else:
            change = (first[a] + 1.0) / (a + 1.0) + between - first[b] / (b + 1.0)
        return abs(change) / first[len(gain) - 1]
    if gain[a] > 0:
        if a != first[0]:
            return 0.0
        return 1.0 / (first[0] + 1.0) - 1.0 / (min(float(b), first[1]) + 1.0)
    return 1.0 / (a + 1.0) - 1.0 / (first[0] + 1.0) if a < first[0] else 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS, forceinline=True)
def _logistic_ndcg_row(i, n, columns, slope, curve):
    """Add the pairs of position i with the later positions: logistic loss times |change of NDCG|.

    columns  (7, n) by position: odds, gain, weight, discount, top discount, top share, score

    Returns the sum of the slopes of these pairs.
    """
    # Unsigned, so that no index can be negative: or the loop is not vectorized.
    i, n = np.uint64(i), np.uint64(n)
    odds, gain, weight, discount = columns[0], columns[1], columns[2], columns[3]
    score = columns[6]
    own, own_gain, own_weight, own_score = odds[i], gain[i], weight[i], NEAR + score[i]
    top, share = columns[4, i], columns[5, i]
    slope_sum, curve_sum, total = 0.0, 0.0, 0.0
    for j in range(i + np.uint64(1), n):  # no branch, one division
        gap, both, apart = own_gain - gain[j], own + odds[j], own_score - score[j]
        inverse = 1.0 / (both * apart)
        w = ndcg_change(gap, top, share, discount[j]) * weight[j] * (both * inverse)
        lower, upper = odds[j] * (apart * inverse), own * (apart * inverse)
        t = w * (lower if gap > 0 else upper)
        c = abs(w) * (lower * upper)
        slope[j] -= own_weight * t
        curve[j] += own_weight * c
        slope_sum += t
        curve_sum += c
        total += abs(t)
    slope[i] += own_weight * slope_sum
    curve[i] += own_weight * curve_sum
    return own_weight * total


@njit(cache=True, nogil=True, error_model="numpy")
def fill_positions(scores, queries, ranked, order, start, stop, columns):
    """Scores, gains, weights and discounts of a query by position; returns how far scores spread.

    A row of weight 2 takes two positions, and its discount is their mean.
    """
    high, low = scores[order[start]], scores[order[stop - 1]]
    middle, position = 0.5 * (high + low), 0
    for k in range(start, stop):
        row = order[k]
        p = k - start
        columns[6, p] = scores[row]
        columns[0, p] = math.exp(min(max(scores[row] - middle, -600.0), 600.0))
        columns[1, p], columns[2, p] = ranked.gain[row], queries.weight[row]
        copies = max(1, round(queries.weight[row]))
        mean, top, share = 0.0, 0.0, 0.0
        for _ in range(copies):
            mean += ranked.discount[position]
            if position < ranked.cutoff:
                top += ranked.discount[position]
                share += 1.0
            position += 1
        columns[3, p], columns[4, p] = mean / copies, top / copies
        columns[5, p] = share / copies
    return high - low


@njit(cache=True, nogil=True, error_model="numpy")
def write_rows(scores, queries, order, query, slope, curve, factor, out):
    """Write the sums of positions, times a factor, to their rows.

    Rows of equal score and grade share theirs, so that their order does not matter.
    """
    start, stop = queries.ptr[query], queries.ptr[query + 1]
    share, k = factor * queries.query_weight[query], start
    while k < stop:
        row, end = order[k], k
        weight, slope_sum, curve_sum = 0.0, 0.0, 0.0
        while (
            end < stop
            and scores[order[end]] == scores[row]
            and queries.grade[order[end]] == queries.grade[row]
        ):
            weight += queries.weight[order[end]]
            slope_sum += slope[end - start]
            curve_sum += curve[end - start]
            end += 1
        for j in range(k, end):
            part = share * (queries.weight[order[j]] / weight)
            out[0, order[j]] = part * slope_sum
            out[1, order[j]] = part * curve_sum
        k = end


@njit(cache=True, nogil=True, error_model="numpy")
def log_share(total):
    """log2(1 + total) / total, down to totals that 1 + total does not hold."""
    if total < 1e-6:
        return (1.0 - 0.5 * total) / math.log(2.0)  # the next term is below 1e-12
    return math.log2(1.0 + total) / total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_levels(scores, queries, ordered, loss, gaps, slope, curve):
    """Write the sums of a query by position, computed from sums over its grades."""
    m = len(ordered)
    rows = GradedRows(np.empty(m), np.empty(m), np.empty(m), np.zeros(m, np.int64))
    for k in range(m):
        rows.grade[k] = queries.grade[ordered[k]]
    by_grade = ascending_order(rows.grade)
    for k in range(m):
        row = ordered[by_grade[k]]
        rows.score[k], rows.grade[k] = scores[row], queries.grade[row]
        rows.weight[k] = queries.weight[row]
        if k > 0:
            rows.level[k] = rows.level[k - 1] + (rows.grade[k] > rows.grade[k - 1])
    out = np.empty((2, m))
    level_gradients(rows, loss, gaps, out)
    for k in range(m):
        slope[by_grade[k]], curve[by_grade[k]] = out[0, k], out[1, k]


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_ndcg_gradients(scores, queries, ranked, order, first, last, out):
    """As ``ranked_gradients``, for the logistic loss times the change of NDCG, vectorized.

    Returns how many queries are left to ``ranked_gradients`` because their scores spread too far.
    It is a separate kernel so that LambdaMART as published does not compile the other weights.
    """
    widest, n_left = 0, 0
    for q in range(first, last):
        widest = max(widest, queries.ptr[q + 1] - queries.ptr[q])
    columns, slope, curve = np.empty((7, widest)), np.empty(widest), np.empty(widest)
    for q in range(first, last):
        start, stop = queries.ptr[q], queries.ptr[q + 1]
        m, total = stop - start, 0.0
        sort_query(scores, queries, start, stop, order)
        if fill_positions(scores, queries, ranked, order, start, stop, columns) >= WIDEST:
            n_left += 1
            continue
        slope[:m] = 0.0
        curve[:m] = 0.0
        for i in range(m):
            if columns[5, i] == 0.0:
                break  # below the cutoff, and so are all later positions
            total += _logistic_ndcg_row(i, m, columns, slope, curve)
        # A query with many pairs counts more than one with few, but not in proportion.
        factor = log_share(2.0 * total) if total > 0 else 1.0
        write_rows(scores, queries, order, q, slope, curve, factor, out)
    return n_left


@njit(cache=True, nogil=True, error_model="numpy")
def ranked_gradients(scores, queries, ranked, order, codes, first, last, out):
    """Gradients and Hessians of queries first .. last - 1, pair by pair.

    Queries that are left to ``summed_gradients`` are put in order only, and those that
    ``logistic_ndcg_gradients`` has done are left out.

    ranked  Ranked, of pair_losses: gains of rows, discounts of positions, the cutoff, and whether
            a pair is also weighted by its difference of grades
    codes   (loss, weights)
    """
    loss, weights = codes
    widest = 0
    for q in range(first, last):
        widest = max(widest, queries.ptr[q + 1] - queries.ptr[q])
    columns, slope, curve = np.empty((7, widest)), np.empty(widest), np.empty(widest)
    prefix, prefix2 = np.empty(widest + 1), np.empty(widest + 1)
    for q in range(first, last):
        start, stop = queries.ptr[q], queries.ptr[q + 1]
        m = stop - start
        sort_query(scores, queries, start, stop, order)
        slope[:m] = 0.0
        curve[:m] = 0.0
        spread = fill_positions(scores, queries, ranked, order, start, stop, columns)
        gain = columns[1, :m]
        gaps = weights == GRADE_DIFFERENCE or ranked.magnitude
        if weights <= GRADE_DIFFERENCE and is_worth_it(m, spread, loss):
            continue
        if loss == LOGISTIC and weights == NDCG and not ranked.magnitude and spread < WIDEST:
            continue
        prepare_positions(weights, gain, prefix, prefix2)
        total = 0.0
        for i in range(m):
            if columns[5, i] == 0.0:
                break  # below the cutoff, and so are all later positions
            a = order[start + i]
            for j in range(i + 1, m):
                b = order[start + j]
                gap = queries.grade[a] - queries.grade[b]
                if gap == 0.0:
                    continue
                w = columns[2, i] * columns[2, j]
                if gaps:
                    w *= abs(gap)
                if weights == NDCG:
                    gain_gap, discount = abs(gain[i] - gain[j]), columns[3, j]
                    w *= ndcg_change(gain_gap, columns[4, i], columns[5, i], discount)
                elif weights >= AP:
                    w *= swap_change(weights, i, j, gain, prefix, prefix2)
                sign = 1.0 if gap > 0 else -1.0
                t, c = pair_terms(sign * (scores[a] - scores[b]), abs(gap), loss)
                if weights >= NDCG:
                    w /= NEAR + (scores[a] - scores[b])
                    total += w * abs(t)
                slope[i] += sign * w * t
                slope[j] -= sign * w * t
                curve[i] += w * c
                curve[j] += w * c
        factor = log_share(2.0 * total) if total > 0 else 1.0
        write_rows(scores, queries, order, q, slope, curve, factor, out)


@njit(cache=True, nogil=True, error_model="numpy")
def summed_gradients(scores, queries, order, loss, gaps, first, last, out):
    """As ``ranked_gradients``, after it, of the queries for which sums over grades are faster.

    It is a separate kernel so that weights by rank, which never need it, do not load it.
    """
    for q in range(first, last):
        start, stop = queries.ptr[q], queries.ptr[q + 1]
        m, spread = stop - start, scores[order[start]] - scores[order[stop - 1]]
        if is_worth_it(m, spread, loss):
            slope, curve = np.empty(m), np.empty(m)
            sum_levels(scores, queries, order[start:stop], loss, gaps, slope, curve)
            write_rows(scores, queries, order, q, slope, curve, 1.0, out)


class GradedRows(NamedTuple):
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
        grade = rows.grade if gaps else np.zeros(len(rows.grade))
        sums = smooth.SortedRows(rows.score, rows.grade, grade, rows.weight, rows.weight, gaps)
        smooth.smooth_sums(sums, loss, False, out)


@njit(cache=True, nogil=True, error_model="numpy")
def is_worth_it(m, spread, loss):
    """Whether sums over grades are faster than pairs for m rows whose scores spread so far."""
    if loss == SQUARED_HINGE:
        return m > 64
    if loss == SMOOTH_HINGE:
        return False
    return m > 4 and spread < 600.0


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
    error, weighted_error, mass, sums = np.empty(m), np.empty(m), np.zeros(m), np.zeros(m)
    for i in range(m):
        error[i] = rows.score[i] - rows.grade[i] - middle
        weighted_error[i] = rows.weight[i] * error[i]
    out[:] = 0.0
    for lower in (True, False):
        _gap_sums(rows.weight, rows, gaps, lower, mass)
        _gap_sums(weighted_error, rows, gaps, lower, sums)
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
def _add_at(tree, level, amounts):
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
    order = ascending_order(-rows.score)
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
                _add_at(tree, level, amounts)
                added += 1
            _sum_below(tree, rows.level[i] if role > 0 else n_levels - 1 - rows.level[i], sums)
            mass, near = sums[0], sums[1]
            if gaps:
                y = role * rows.grade[i]
                mass, near = y * sums[0] - sums[2], y * sums[1] - sums[3]
            w = 2.0 * rows.weight[i]
            out[0, i] += role * w * ((1.0 - own) * mass + near)
            out[1, i] += w * mass
