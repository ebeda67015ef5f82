"""Sums over all pairs of a feedback that never build the pairs.

A pair (lower i, upper j) weighs ``w_i w_j query_weight gap exp(s_i - s_j)``: the exponential pair
loss of scores s. The gap is the difference of the grades where ``magnitude`` is set, else 1.
Between levels only logarithms are compared, so nothing overflows however far apart scores are.
The tuples of arrays are those of :mod:`rankwright.feedback.pair_weights`.
"""

from __future__ import annotations

import numpy as np

from rankwright.feedback._kernels.sorting import ascending_order
from rankwright.runtime.kernels import njit


@njit(cache=True, nogil=True)
def refresh_levels(scores, levels, state, first, last, shift):
    """Compute high, low, rising, falling and carry of queries first .. last from the scores."""
    row, level_ptr = levels.row, levels.level_ptr
    for level in range(levels.query_ptr[first], levels.query_ptr[last]):
        top, bottom = -np.inf, np.inf
        for k in range(level_ptr[level], level_ptr[level + 1]):
            top = max(top, scores[row[k]])
            bottom = min(bottom, scores[row[k]])
        state.high[level], state.low[level] = top, bottom
        for k in range(level_ptr[level], level_ptr[level + 1]):
            state.rising[k] = levels.weight[k] * np.exp(scores[row[k]] - top)
            state.falling[k] = levels.weight[k] * np.exp(bottom - scores[row[k]])
    link_levels(levels, state, first, last, shift)


@njit(cache=True, nogil=True)
def link_levels(levels, state, first, last, shift):
    """Write ``carry``, the factors by which sums over levels go from level to level.

    A running sum is relative to the largest exponent so far. When a level joins it, the sum over
    lower levels is multiplied by row 0 and the level by row 1; row 2 turns the sum before it into
    weights of pairs. Rows 3 to 5 are the same from the top down. Only rows 2 and 5 may exceed one.
    """
    high, low, carry = state.high, state.low, state.carry
    for query in range(first, last):
        start, stop = levels.query_ptr[query], levels.query_ptr[query + 1]
        scale = -np.inf
        for level in range(start, stop):
            carry[2, level] = np.exp(scale - low[level] - shift)
            joined = max(scale, high[level])
            carry[0, level] = np.exp(scale - joined)
            carry[1, level] = np.exp(high[level] - joined)
            scale = joined
        scale = -np.inf
        for level in range(stop - 1, start - 1, -1):
            carry[5, level] = np.exp(scale + high[level] - shift)
            joined = max(scale, -low[level])
            carry[3, level] = np.exp(scale - joined)
            carry[4, level] = np.exp(-low[level] - joined)
            scale = joined


@njit(cache=True, nogil=True)
def step_levels(move, levels, state, first_level, last_level):
    """Apply a move to rising and falling (after a refresh: nothing to do), and sum each level."""
    level_ptr = levels.level_ptr
    if move.h.size and not move.refresh:
        # h is 0 or 1: two constants instead of exponentials. Loops over slices are vectorized,
        # because their indices cannot be negative.
        grow, shrink = np.exp(move.step), np.exp(-move.step)
        documents = slice(level_ptr[first_level], level_ptr[last_level])
        rising, falling = state.rising[documents], state.falling[documents]
        h = move.h[documents] if levels.direct else move.h[levels.row[documents]]
        for k in range(len(h)):
            rising[k] *= grow if h[k] else 1.0
            falling[k] *= shrink if h[k] else 1.0
    for level in range(first_level, last_level):
        documents = slice(level_ptr[level], level_ptr[level + 1])
        rising, falling = state.rising[documents], state.falling[documents]
        lower, upper = 0.0, 0.0
        for k in range(len(rising)):
            lower += rising[k]
            upper += falling[k]
        state.lower_sum[level], state.upper_sum[level] = lower, upper


@njit(cache=True, nogil=True)
def level_factors(levels, state, first, last, ratio):
    """Compute as_upper, as_lower and query_sum of queries first .. last; weights times ratio."""
    query_ptr, grade, carry = levels.query_ptr, levels.grade, state.carry
    as_upper, as_lower = state.as_upper, state.as_lower
    for query in range(first, last):
        start, stop = query_ptr[query], query_ptr[query + 1]
        share, gaps = ratio * levels.query_weight[query], levels.magnitude[query]
        plain, gapped, mass = 0.0, 0.0, 0.0
        for level in range(start, stop):
            if gaps and level > start:
                gapped += (grade[level] - grade[level - 1]) * plain
            factor = share * (gapped if gaps else plain) * carry[2, level]
            as_upper[level] = factor if level > start else 0.0
            mass += as_upper[level] * state.upper_sum[level]
            plain = plain * carry[0, level] + state.lower_sum[level] * carry[1, level]
            gapped *= carry[0, level]
        state.query_sum[query] = mass
        plain, gapped = 0.0, 0.0
        for level in range(stop - 1, start - 1, -1):
            if gaps and level < stop - 1:
                gapped += (grade[level + 1] - grade[level]) * plain
            factor = share * (gapped if gaps else plain) * carry[5, level]
            as_lower[level] = factor if level < stop - 1 else 0.0
            plain = plain * carry[3, level] + state.upper_sum[level] * carry[4, level]
            gapped *= carry[3, level]


@njit(cache=True, nogil=True)
def level_potentials(scores, move, levels, state, first, last, out):
    """One round for queries first .. last: apply the move, then the potential of each document.

    scores  (n_rows,) float64: moved here if document and row have the same number (``direct``)
    out     Potentials by document                                                    written
    """
    level_ptr, query_ptr = levels.level_ptr, levels.query_ptr
    if levels.direct and move.h.size:
        documents = slice(level_ptr[query_ptr[first]], level_ptr[query_ptr[last]])
        own, h = scores[documents], move.h[documents]
        for k in range(len(own)):
            own[k] += move.step if h[k] else 0.0
    if move.refresh:
        refresh_levels(scores, levels, state, first, last, move.shift)
    # A few queries at a time: then their documents are still in the cache when they come again.
    for block in range(first, last, 16):
        stop = min(block + 16, last)
        start_level, stop_level = query_ptr[block], query_ptr[stop]
        step_levels(move, levels, state, start_level, stop_level)
        level_factors(levels, state, block, stop, move.ratio)
        for level in range(start_level, stop_level):
            up, down = state.as_upper[level], state.as_lower[level]
            documents = slice(level_ptr[level], level_ptr[level + 1])
            rising, falling = state.rising[documents], state.falling[documents]
            potential = out.potential[documents]
            for k in range(len(potential)):
                potential[k] = falling[k] * up - rising[k] * down
            if out.mass.size:
                mass = out.mass[documents]
                for k in range(len(mass)):
                    mass[k] = falling[k] * up + rising[k] * down


@njit(cache=True, nogil=True)
def pair_potentials(scores, pairs, shift, out):
    """As level_potentials, for pairs: adds to out, writes their shares, returns their weight."""
    total = 0.0
    for p in range(len(pairs.lower)):
        lower, upper = pairs.lower[p], pairs.upper[p]
        share = pairs.weight[p] * np.exp(scores[lower] - scores[upper] - shift)
        pairs.share[p] = share
        total += share
        out.potential[upper] += share
        out.potential[lower] -= share
        if out.mass.size:
            out.mass[upper] += share
            out.mass[lower] += share
    return total


@njit(cache=True, nogil=True)
def level_curve(scores, slope, levels, shift):
    """The weight of all pairs at scores + t * slope for t = 0, and two derivatives by t."""
    row, level_ptr, query_ptr, grade = levels.row, levels.level_ptr, levels.query_ptr, levels.grade
    value, first, second = 0.0, 0.0, 0.0
    for query in range(len(query_ptr) - 1):
        scale = -np.inf
        plain, gapped = np.zeros(3), np.zeros(3)  # sums of rising * slope**power over lower levels
        for level in range(query_ptr[query], query_ptr[query + 1]):
            top, bottom = -np.inf, np.inf
            for k in range(level_ptr[level], level_ptr[level + 1]):
                top = max(top, scores[row[k]])
                bottom = min(bottom, scores[row[k]])
            low0, low1, low2, up0, up1, up2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(level_ptr[level], level_ptr[level + 1]):
                s, d, w = scores[row[k]], slope[row[k]], levels.weight[k]
                rise, fall = w * np.exp(s - top), w * np.exp(bottom - s)
                low0, low1, low2 = low0 + rise, low1 + rise * d, low2 + rise * d * d
                up0, up1, up2 = up0 + fall, up1 + fall * d, up2 + fall * d * d
            if level > query_ptr[query]:
                if levels.magnitude[query]:
                    gapped += (grade[level] - grade[level - 1]) * plain
                below = gapped if levels.magnitude[query] else plain
                factor = levels.query_weight[query] * np.exp(scale - bottom - shift)
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
def pair_curve(scores, slope, pairs, shift):
    """As level_curve, for a list of pairs."""
    value, first, second = 0.0, 0.0, 0.0
    for p in range(len(pairs.lower)):
        lower, upper = pairs.lower[p], pairs.upper[p]
        share = pairs.weight[p] * np.exp(scores[lower] - scores[upper] - shift)
        gap = slope[lower] - slope[upper]
        value += share
        first += share * gap
        second += share * gap * gap
    return value, first, second


@njit(cache=True, nogil=True)
def sum_leaves(leaf, levels, state, sums):
    """Write the sums of rising and of falling by level and leaf, (n_levels, n_leaves, 2)."""
    sums[:] = 0.0
    for level in range(len(levels.grade)):
        for k in range(levels.level_ptr[level], levels.level_ptr[level + 1]):
            at = leaf[levels.row[k]]
            sums[level, at, 0] += state.rising[k]
            sums[level, at, 1] += state.falling[k]


@njit(cache=True, nogil=True)
def leaf_curve(sums, value, alpha, levels, carry, ratio):
    """The weight of all pairs if leaves moved by ``alpha * value``, and two derivatives."""
    query_ptr, grade = levels.query_ptr, levels.grade
    weight, first, second = 0.0, 0.0, 0.0
    n_leaves = len(value)
    grow, shrink = np.exp(alpha * value), np.exp(-alpha * value)
    for query in range(len(query_ptr) - 1):
        start, gaps = query_ptr[query], levels.magnitude[query]
        a0, a1, a2, b0, b1, b2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0  # lower levels: plain, times gaps
        for level in range(start, query_ptr[query + 1]):
            low0, low1, low2, up0, up1, up2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for leaf in range(n_leaves):
                rise, fall = sums[level, leaf, 0] * grow[leaf], sums[level, leaf, 1] * shrink[leaf]
                v = value[leaf]
                low0, low1, low2 = low0 + rise, low1 + rise * v, low2 + rise * v * v
                up0, up1, up2 = up0 + fall, up1 + fall * v, up2 + fall * v * v
            if level > start:
                gap = grade[level] - grade[level - 1]
                b0, b1, b2 = b0 + gap * a0, b1 + gap * a1, b2 + gap * a2
                factor = ratio * levels.query_weight[query] * carry[2, level]
                c0, c1, c2 = (b0, b1, b2) if gaps else (a0, a1, a2)
                weight += factor * c0 * up0
                first += factor * (c1 * up0 - c0 * up1)
                second += factor * (c2 * up0 - 2.0 * c1 * up1 + c0 * up2)
            keep, join = carry[0, level], carry[1, level]
            a0, a1, a2 = a0 * keep + low0 * join, a1 * keep + low1 * join, a2 * keep + low2 * join
            b0, b1, b2 = b0 * keep, b1 * keep, b2 * keep
    return weight, first, second


@njit(cache=True, nogil=True)
def level_split(h, levels, state, shift):
    """The weight of the pairs with h(upper) > h(lower), and of those with h(upper) < h(lower).

    Only positive numbers are added: where there is no such pair the sum is exactly zero.
    """
    right, wrong = 0.0, 0.0
    for query in range(len(levels.query_ptr) - 1):
        scale, start = -np.inf, levels.query_ptr[query]
        plain, gapped = np.zeros(2), np.zeros(2)  # sums over lower levels: h = 0, h = 1
        for level in range(start, levels.query_ptr[query + 1]):
            lower, upper = np.zeros(2), np.zeros(2)
            for k in range(levels.level_ptr[level], levels.level_ptr[level + 1]):
                lower[h[levels.row[k]]] += state.rising[k]
                upper[h[levels.row[k]]] += state.falling[k]
            if level > start:
                if levels.magnitude[query]:
                    gapped += (levels.grade[level] - levels.grade[level - 1]) * plain
                below = gapped if levels.magnitude[query] else plain
                factor = levels.query_weight[query] * np.exp(scale - state.low[level] - shift)
                right += factor * below[0] * upper[1]
                wrong += factor * below[1] * upper[0]
            if state.high[level] > scale:
                fade = np.exp(scale - state.high[level])
                plain *= fade
                gapped *= fade
                scale = state.high[level]
            plain += lower * np.exp(state.high[level] - scale)
    return right, wrong


@njit(cache=True, nogil=True)
def pair_split(h, pairs):
    """As level_split, for a list of pairs with their present shares."""
    right, wrong = 0.0, 0.0
    for p in range(len(pairs.lower)):
        if h[pairs.upper[p]] > h[pairs.lower[p]]:
            right += pairs.share[p]
        elif h[pairs.upper[p]] < h[pairs.lower[p]]:
            wrong += pairs.share[p]
    return right, wrong


@njit(cache=True, nogil=True)
def add_at(trees, level, amount, y):
    """Add to two Fenwick trees, rows of (2, n + 1): the amount, and the amount times y."""
    level += 1
    while level < trees.shape[1]:
        trees[0, level] += amount
        trees[1, level] += amount * y
        level += level & -level


@njit(cache=True, nogil=True)
def gapped_before(trees, level, y, gaps):
    """The sum below a level, each amount times its gap to y (times one without gaps)."""
    plain, gapped = 0.0, 0.0
    while level > 0:
        plain += trees[0, level]
        gapped += trees[1, level]
        level -= level & -level
    return y * plain - gapped if gaps else plain


@njit(cache=True, nogil=True)
def sort_documents(scores, levels, query):
    """The first document of a query; of each its level and negative score; the order by these."""
    level_ptr, first, last = levels.level_ptr, levels.query_ptr[query], levels.query_ptr[query + 1]
    start, n = level_ptr[first], level_ptr[last] - level_ptr[first]
    level_of, key = np.empty(n, np.int64), np.empty(n)
    for level in range(first, last):
        for k in range(level_ptr[level], level_ptr[level + 1]):
            level_of[k - start] = level - first
            key[k - start] = -scores[levels.row[k]]
    return start, level_of, key, ascending_order(key)


@njit(cache=True, nogil=True)
def level_disorder(scores, levels):
    """The weight of the pairs in the wrong order, and of those with equal scores: O(n log n)."""
    weight, wrong, tied = levels.weight, 0.0, 0.0
    for query in range(len(levels.query_ptr) - 1):
        first, last = levels.query_ptr[query], levels.query_ptr[query + 1]
        start, level_of, key, order = sort_documents(scores, levels, query)
        n, y = len(order), levels.grade[first + level_of] - levels.grade[first]
        # Sums by level over the documents seen so far: those with strictly higher scores, and these
        # with the equal ones.
        higher, seen = np.zeros((2, last - first + 1)), np.zeros((2, last - first + 1))
        at = 0
        while at < n:
            end = at
            while end < n and key[order[end]] == key[order[at]]:
                k = order[end]
                add_at(seen, level_of[k], weight[start + k], y[k])
                end += 1
            for k in order[at:end]:
                share = weight[start + k] * levels.query_weight[query]
                above = gapped_before(higher, level_of[k], y[k], levels.magnitude[query])
                even = gapped_before(seen, level_of[k], y[k], levels.magnitude[query])
                wrong += share * above
                tied += share * (even - above)
            for k in order[at:end]:
                add_at(higher, level_of[k], weight[start + k], y[k])
            at = end
    return wrong, tied
