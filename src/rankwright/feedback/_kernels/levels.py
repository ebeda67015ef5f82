"""Sums over all pairs of a feedback that never build the pairs.

Everywhere here a pair (lower i, upper j) weighs ``w_i w_j query_weight gap exp(s_i - s_j)``: the
exponential pair loss of scores s. Rows are *members* of *levels* (one grade of one query); levels
of a query are neighbors, grades ascending. A member rises with its score where it is the lower of
a pair (``rising = w exp(s - high)``) and falls with it where it is the upper (``falling =
w exp(low - s)``); high and low are reference scores of its level, so that nothing overflows however
far apart the scores are. Between levels only logarithms are compared.

    rows          (n_members,) int64, the row of each member
    weight        (n_members,) float64 > 0
    level_ptr     (n_levels + 1,) int64, where the members of each level start
    query_ptr     (n_queries + 1,) int64, where the levels of each query start
    grade         (n_levels,) float64, ascending inside a query
    query_weight  (n_queries,) float64
    magnitude     (n_queries,) bool, whether the gap is the difference of the grades (else 1)
    shift         float, the logarithm that everything is divided by
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def refresh_members(
    scores, rows, weight, level_ptr, query_ptr, first, last, shift, high, low, rising, falling,
    chain,
):  # fmt: skip
    """Compute rising and falling of every member of queries first .. last anew from the scores.

    chain  (6, n_levels) float64, written: how sums go from level to level (see link_levels)
    """
    for level in range(query_ptr[first], query_ptr[last]):
        top, bottom = -np.inf, np.inf
        for k in range(level_ptr[level], level_ptr[level + 1]):
            top = max(top, scores[rows[k]])
            bottom = min(bottom, scores[rows[k]])
        high[level], low[level] = top, bottom
        for k in range(level_ptr[level], level_ptr[level + 1]):
            rising[k] = weight[k] * np.exp(scores[rows[k]] - top)
            falling[k] = weight[k] * np.exp(bottom - scores[rows[k]])
    link_levels(query_ptr, first, last, shift, high, low, chain)


@njit(cache=True, nogil=True)
def link_levels(query_ptr, first, last, shift, high, low, chain):
    """The factors by which sums over lower (upper) levels are carried from level to level.

    A running sum is kept relative to the largest exponent met so far. Row 0 of the chain is what
    the sum over lower levels is multiplied by when a level joins it, row 1 what the level is
    multiplied by, row 2 what turns the sum before it into weights of pairs; rows 3 to 5 are the
    same from the top down. All are at most one but rows 2 and 5, which stay near one.
    """
    for query in range(first, last):
        start, stop = query_ptr[query], query_ptr[query + 1]
        scale = -np.inf
        for level in range(start, stop):
            chain[2, level] = np.exp(scale - low[level] - shift)
            joined = max(scale, high[level])
            chain[0, level] = np.exp(scale - joined)
            chain[1, level] = np.exp(high[level] - joined)
            scale = joined
        scale = -np.inf
        for level in range(stop - 1, start - 1, -1):
            chain[5, level] = np.exp(scale + high[level] - shift)
            joined = max(scale, -low[level])
            chain[3, level] = np.exp(scale - joined)
            chain[4, level] = np.exp(-low[level] - joined)
            scale = joined


@njit(cache=True, nogil=True)
def step_levels(
    hit, rows, level_ptr, first_level, last_level, step, rising, falling, lower_sum, upper_sum
):
    """Add ``step`` to the scores of the rows that were hit, and sum up each level.

    hit is 0 or 1, so that two constants do instead of exponentials. With an empty ``hit`` nothing
    moves; with empty ``rows`` member and row are the same.
    """
    # Looked up rather than branched on: which rows are hit cannot be foreseen.
    grow, shrink = np.ones(2), np.ones(2)
    grow[1], shrink[1] = np.exp(step), np.exp(-step)
    begin, end = level_ptr[first_level], level_ptr[last_level]
    if hit.size and rows.size:
        for k in range(begin, end):
            rising[k] *= grow[hit[rows[k]]]
            falling[k] *= shrink[hit[rows[k]]]
    elif hit.size:
        for k in range(begin, end):
            rising[k] *= grow[hit[k]]
            falling[k] *= shrink[hit[k]]
    for level in range(first_level, last_level):
        lower, upper = 0.0, 0.0
        for k in range(level_ptr[level], level_ptr[level + 1]):
            lower += rising[k]
            upper += falling[k]
        lower_sum[level], upper_sum[level] = lower, upper


@njit(cache=True, nogil=True)
def level_factors(
    query_ptr, grade, query_weight, magnitude, first, last, ratio, chain, lower_sum, upper_sum,
    as_upper, as_lower, query_mass,
):  # fmt: skip
    """Per level: what its members' falling (rising) must be multiplied by to give the weight of
    all pairs in which the member is the upper (the lower). Per query: the weight of its pairs.

    ratio  float: what the weights of the chain are multiplied by
    """
    for query in range(first, last):
        start, stop = query_ptr[query], query_ptr[query + 1]
        share, gaps = ratio * query_weight[query], magnitude[query]
        plain, gapped, mass = 0.0, 0.0, 0.0
        for level in range(start, stop):
            if gaps and level > start:
                gapped += (grade[level] - grade[level - 1]) * plain
            factor = share * (gapped if gaps else plain) * chain[2, level]
            as_upper[level] = factor if level > start else 0.0
            mass += as_upper[level] * upper_sum[level]
            plain = plain * chain[0, level] + lower_sum[level] * chain[1, level]
            gapped *= chain[0, level]
        query_mass[query] = mass
        plain, gapped = 0.0, 0.0
        for level in range(stop - 1, start - 1, -1):
            if gaps and level < stop - 1:
                gapped += (grade[level + 1] - grade[level]) * plain
            factor = share * (gapped if gaps else plain) * chain[5, level]
            as_lower[level] = factor if level < stop - 1 else 0.0
            plain = plain * chain[3, level] + upper_sum[level] * chain[4, level]
            gapped *= chain[3, level]


@njit(cache=True, nogil=True)
def level_potentials(
    scores, hit, step, refresh, rows, weight, level_ptr, query_ptr, grade, query_weight, magnitude,
    direct, first, last, shift, ratio, high, low, rising, falling, chain, lower_sum, upper_sum,
    as_upper, as_lower, query_mass, potential, mass,
):  # fmt: skip
    """One round for queries first .. last: move the members, then the potential of each.

    ``refresh`` computes from ``scores``; otherwise the rows with ``hit`` 1 move by ``step``.
    direct     bool: member and row have the same number; then their scores move here as well
    ratio      float: exp(shift at the last refresh - shift now)
    potential  (n_members,) weight of pairs as upper minus weight as lower      written
    mass       (n_members,) the sum of the two, or empty when nobody wants it   written
    """
    if direct and hit.size:
        steps = np.zeros(2)
        steps[1] = step
        for k in range(level_ptr[query_ptr[first]], level_ptr[query_ptr[last]]):
            scores[k] += steps[hit[k]]
    if refresh:
        refresh_members(
            scores, rows, weight, level_ptr, query_ptr, first, last, shift, high, low, rising,
            falling, chain,
        )  # fmt: skip
    moved = hit[:0] if refresh else hit
    numbers = rows[:0] if direct else rows
    # A few queries at a time, so that members are still in the cache when they come again.
    for block in range(first, last, 16):
        stop = min(block + 16, last)
        start_level, stop_level = query_ptr[block], query_ptr[stop]
        step_levels(
            moved, numbers, level_ptr, start_level, stop_level, step, rising, falling, lower_sum,
            upper_sum,
        )  # fmt: skip
        level_factors(
            query_ptr, grade, query_weight, magnitude, block, stop, ratio, chain, lower_sum,
            upper_sum, as_upper, as_lower, query_mass,
        )  # fmt: skip
        for level in range(start_level, stop_level):
            up, down = as_upper[level], as_lower[level]
            for k in range(level_ptr[level], level_ptr[level + 1]):
                potential[k] = falling[k] * up - rising[k] * down
        if mass.size:
            for level in range(start_level, stop_level):
                up, down = as_upper[level], as_lower[level]
                for k in range(level_ptr[level], level_ptr[level + 1]):
                    mass[k] = falling[k] * up + rising[k] * down


@njit(cache=True, nogil=True)
def scatter_add(values, rows, out):
    """Add the values of members to their rows."""
    for k in range(len(rows)):
        out[rows[k]] += values[k]


@njit(cache=True, nogil=True)
def pair_potentials(scores, lower, upper, weight, shift, pair_weight, potential, mass):
    """The same for a list of pairs; adds to potential and mass, returns the weight of all pairs."""
    total = 0.0
    for p in range(len(lower)):
        share = weight[p] * np.exp(scores[lower[p]] - scores[upper[p]] - shift)
        pair_weight[p] = share
        total += share
        potential[upper[p]] += share
        potential[lower[p]] -= share
        if mass.size:
            mass[upper[p]] += share
            mass[lower[p]] += share
    return total


@njit(cache=True, nogil=True)
def level_curve(
    scores, slope, rows, weight, level_ptr, query_ptr, grade, query_weight, magnitude, shift
):
    """The weight of all pairs at these scores, and its first two derivatives along ``slope``.

    slope  (n_rows,) float64: the scores move as scores + t * slope
    """
    value, first, second = 0.0, 0.0, 0.0
    for query in range(len(query_ptr) - 1):
        scale = -np.inf
        plain, gapped = np.zeros(3), np.zeros(3)  # sums of rising * slope**power over lower levels
        for level in range(query_ptr[query], query_ptr[query + 1]):
            top, bottom = -np.inf, np.inf
            for k in range(level_ptr[level], level_ptr[level + 1]):
                top = max(top, scores[rows[k]])
                bottom = min(bottom, scores[rows[k]])
            low0, low1, low2, up0, up1, up2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(level_ptr[level], level_ptr[level + 1]):
                s, d = scores[rows[k]], slope[rows[k]]
                rise, fall = weight[k] * np.exp(s - top), weight[k] * np.exp(bottom - s)
                low0, low1, low2 = low0 + rise, low1 + rise * d, low2 + rise * d * d
                up0, up1, up2 = up0 + fall, up1 + fall * d, up2 + fall * d * d
            if level > query_ptr[query]:
                if magnitude[query]:
                    gapped += (grade[level] - grade[level - 1]) * plain
                below = gapped if magnitude[query] else plain
                factor = query_weight[query] * np.exp(scale - bottom - shift)
                value += factor * below[0] * up0
                first += factor * (below[1] * up0 - below[0] * up1)
                second += factor * (below[2] * up0 - 2.0 * below[1] * up1 + below[0] * up2)
            if top > scale:
                fade = np.exp(scale - top)
                plain *= fade
                gapped *= fade
                scale = top
            grow = np.exp(top - scale)
            plain[0] += low0 * grow
            plain[1] += low1 * grow
            plain[2] += low2 * grow
    return value, first, second


@njit(cache=True, nogil=True)
def pair_curve(scores, slope, lower, upper, weight, shift):
    """The same for a list of pairs."""
    value, first, second = 0.0, 0.0, 0.0
    for p in range(len(lower)):
        share = weight[p] * np.exp(scores[lower[p]] - scores[upper[p]] - shift)
        gap = slope[lower[p]] - slope[upper[p]]
        value += share
        first += share * gap
        second += share * gap * gap
    return value, first, second


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
def level_disorder(scores, rows, weight, level_ptr, query_ptr, grade, query_weight, magnitude):
    """The weight of the pairs in wrong order, and of those with equal scores: O(m log m)."""
    wrong, tied = 0.0, 0.0
    for query in range(len(query_ptr) - 1):
        first, last = query_ptr[query], query_ptr[query + 1]
        start, n = level_ptr[first], level_ptr[last] - level_ptr[first]
        level_of = np.empty(n, np.int64)
        mine = np.empty(n)
        for level in range(first, last):
            for k in range(level_ptr[level], level_ptr[level + 1]):
                level_of[k - start] = level - first
                mine[k - start] = -scores[rows[k]]
        order = np.argsort(mine)
        # Sums by level over the members seen so far, in binary indexed trees: strictly higher
        # scores, and these with the equal ones; plain and times the grade.
        higher, higher_y = np.zeros(last - first + 1), np.zeros(last - first + 1)
        known, known_y = np.zeros(last - first + 1), np.zeros(last - first + 1)
        at = 0
        while at < n:
            end = at
            while end < n and mine[order[end]] == mine[order[at]]:
                k = order[end]
                y = grade[first + level_of[k]] - grade[first]
                tree_add(known, level_of[k] + 1, weight[start + k])
                tree_add(known_y, level_of[k] + 1, weight[start + k] * y)
                end += 1
            for j in range(at, end):
                k = order[j]
                y = grade[first + level_of[k]] - grade[first]
                share = weight[start + k] * query_weight[query]
                above = tree_sum(higher, level_of[k])
                even = tree_sum(known, level_of[k])
                if magnitude[query]:
                    above = y * above - tree_sum(higher_y, level_of[k])
                    even = y * even - tree_sum(known_y, level_of[k])
                wrong += share * above
                tied += share * (even - above)
            for j in range(at, end):
                k = order[j]
                y = grade[first + level_of[k]] - grade[first]
                tree_add(higher, level_of[k] + 1, weight[start + k])
                tree_add(higher_y, level_of[k] + 1, weight[start + k] * y)
            at = end
    return wrong, tied


@njit(cache=True, nogil=True)
def pair_disorder(scores, lower, upper, weight):
    """The same for a list of pairs."""
    wrong, tied = 0.0, 0.0
    for p in range(len(lower)):
        if scores[lower[p]] > scores[upper[p]]:
            wrong += weight[p]
        elif scores[lower[p]] == scores[upper[p]]:
            tied += weight[p]
    return wrong, tied


@njit(cache=True, nogil=True)
def level_split(
    hit, rows, level_ptr, query_ptr, grade, query_weight, magnitude, shift, high, low, rising,
    falling,
):  # fmt: skip
    """The weight of the pairs whose upper alone is hit, and of those whose lower alone is hit.

    Only positive numbers are added: where there is no such pair the answer is exactly zero.
    """
    right, wrong = 0.0, 0.0
    for query in range(len(query_ptr) - 1):
        scale = -np.inf
        plain, gapped = np.zeros(2), np.zeros(2)  # sums over lower levels: not hit, hit
        for level in range(query_ptr[query], query_ptr[query + 1]):
            lower, upper = np.zeros(2), np.zeros(2)
            for k in range(level_ptr[level], level_ptr[level + 1]):
                lower[hit[rows[k]]] += rising[k]
                upper[hit[rows[k]]] += falling[k]
            if level > query_ptr[query]:
                if magnitude[query]:
                    gapped += (grade[level] - grade[level - 1]) * plain
                below = gapped if magnitude[query] else plain
                factor = query_weight[query] * np.exp(scale - low[level] - shift)
                right += factor * below[0] * upper[1]
                wrong += factor * below[1] * upper[0]
            if high[level] > scale:
                fade = np.exp(scale - high[level])
                plain *= fade
                gapped *= fade
                scale = high[level]
            plain += lower * np.exp(high[level] - scale)
    return right, wrong


@njit(cache=True, nogil=True)
def pair_split(hit, lower, upper, share):
    """The same for a list of pairs with their present weights."""
    right, wrong = 0.0, 0.0
    for p in range(len(lower)):
        if hit[upper[p]] > hit[lower[p]]:
            right += share[p]
        elif hit[upper[p]] < hit[lower[p]]:
            wrong += share[p]
    return right, wrong


@njit(cache=True, nogil=True)
def _tie_discounts(first_place, n):
    """Over all orders of n tied places: the mean discount, and the mean gap between two of them."""
    mean, gap, before = 0.0, 0.0, 0.0
    for place in range(n):
        discount = 1.0 / np.log2(first_place + place + 2.0)
        gap += before - place * discount
        before += discount
        mean += discount / n
    return mean, gap * 2.0 / max(n * (n - 1.0), 1.0)


@njit(cache=True, nogil=True)
def _gapped_sum(all_, all_d, above, above_d, same, discount, tie_gap):
    """Sum of weight * |discount - mine| over members above, below and tied with me."""
    below, below_d = all_ - above - same, all_d - above_d - same * discount
    return (
        max(above_d - discount * above, 0.0)
        + max(discount * below - below_d, 0.0)
        + (tie_gap * same)
    )


@njit(cache=True, nogil=True)
def ndcg_potentials(
    scores, rows, places, level_ptr, query_ptr, gain, query_weight, first, last, unit, high, low,
    rising, falling, query_mass, potential, mass,
):  # fmt: skip
    """Potentials of queries first .. last with each pair weighed by its expected |delta NDCG|.

    The weight of a pair is multiplied by what exchanging its two members would change NDCG by; for
    tied scores by the mean of that over all orders of the tied members.

    places        (n_members,) int64, how many places of the list a member takes: its weight
    gain          (n_levels,) float64, divided by the ideal DCG of the query
    query_weight  (n_queries,) float64
    """
    for query in range(first, last):
        base, n_levels = query_ptr[query], query_ptr[query + 1] - query_ptr[query]
        start, n = level_ptr[base], level_ptr[query_ptr[query + 1]] - level_ptr[base]
        level_of, mine = np.empty(n, np.int64), np.empty(n)
        for level in range(n_levels):
            for k in range(level_ptr[base + level], level_ptr[base + level + 1]):
                level_of[k - start] = level
                mine[k - start] = -scores[rows[k]]
        order = np.argsort(mine)
        discount, tie_gap = np.empty(n), np.empty(n)
        sums = np.zeros((10, n_levels))
        low_all, low_all_d, low_above, low_above_d, low_same = sums[:5]
        up_all, up_all_d, up_above, up_above_d, up_same = sums[5:]
        at, place = 0, 0
        while at < n:
            end, group = at, 0
            while end < n and mine[order[end]] == mine[order[at]]:
                group += places[start + order[end]]
                end += 1
            mean, gap = _tie_discounts(place, group)
            place += group
            for j in range(at, end):
                k = order[j]
                discount[k], tie_gap[k] = mean, gap
                low_all[level_of[k]] += rising[start + k]
                low_all_d[level_of[k]] += rising[start + k] * mean
                up_all[level_of[k]] += falling[start + k]
                up_all_d[level_of[k]] += falling[start + k] * mean
            at = end
        total, at = 0.0, 0
        while at < n:
            end = at
            while end < n and mine[order[end]] == mine[order[at]]:
                k = order[end]
                low_same[level_of[k]] += rising[start + k]
                up_same[level_of[k]] += falling[start + k]
                end += 1
            for j in range(at, end):
                k = order[j]
                level = level_of[k]
                up, down = 0.0, 0.0
                for a in range(level):
                    up += (
                        (gain[base + level] - gain[base + a])
                        * np.exp(high[base + a] - low[base + level] - unit)
                        * _gapped_sum(
                            low_all[a], low_all_d[a], low_above[a], low_above_d[a], low_same[a],
                            discount[k], tie_gap[k],
                        )
                    )  # fmt: skip
                for b in range(level + 1, n_levels):
                    down += (
                        (gain[base + b] - gain[base + level])
                        * np.exp(high[base + level] - low[base + b] - unit)
                        * _gapped_sum(
                            up_all[b], up_all_d[b], up_above[b], up_above_d[b], up_same[b],
                            discount[k], tie_gap[k],
                        )
                    )  # fmt: skip
                up *= falling[start + k] * query_weight[query]
                down *= rising[start + k] * query_weight[query]
                potential[start + k] = up - down
                if mass.size:
                    mass[start + k] = up + down
                total += up
            for j in range(at, end):
                k = order[j]
                level = level_of[k]
                low_above[level] += rising[start + k]
                low_above_d[level] += rising[start + k] * discount[k]
                up_above[level] += falling[start + k]
                up_above_d[level] += falling[start + k] * discount[k]
                low_same[level], up_same[level] = 0.0, 0.0
            at = end
        query_mass[query] = total
