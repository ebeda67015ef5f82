"""Fenwick trees, and sums over pairs that need the documents in the order of their scores."""

from __future__ import annotations

import numpy as np
from numba import njit


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
def _sort_documents(scores, levels, query):
    """The first document of a query; of each its level and negative score; the order by these."""
    level_ptr, first, last = levels.level_ptr, levels.query_ptr[query], levels.query_ptr[query + 1]
    start, n = level_ptr[first], level_ptr[last] - level_ptr[first]
    level_of, key = np.empty(n, np.int64), np.empty(n)
    for level in range(first, last):
        for k in range(level_ptr[level], level_ptr[level + 1]):
            level_of[k - start] = level - first
            key[k - start] = -scores[levels.row[k]]
    return start, level_of, key, np.argsort(key, kind="mergesort")


@njit(cache=True, nogil=True)
def level_disorder(scores, levels):
    """The weight of the pairs in the wrong order, and of those with equal scores: O(n log n)."""
    weight, wrong, tied = levels.weight, 0.0, 0.0
    for query in range(len(levels.query_ptr) - 1):
        first, last = levels.query_ptr[query], levels.query_ptr[query + 1]
        start, level_of, key, order = _sort_documents(scores, levels, query)
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


# Rows of the sums that are kept of a level: over all its documents, over those with a higher score
# than the present one, over those with an equal score; "_D" is times the discount.
ALL, ALL_D, ABOVE, ABOVE_D, SAME = range(5)


@njit(cache=True, nogil=True)
def _tie_discounts(first, n):
    """Over all orders of n tied positions: the mean discount, and the mean gap between two."""
    mean, gap, before = 0.0, 0.0, 0.0
    for position in range(n):
        discount = 1.0 / np.log2(first + position + 2.0)
        gap += before - position * discount
        before += discount
        mean += discount / n
    return mean, gap * 2.0 / max(n * (n - 1.0), 1.0)


@njit(cache=True, nogil=True)
def _gap_sum(sums, level, discount, tie_gap):
    """Sum of weight * |discount - own discount| over the documents of a level."""
    above, above_d, same = sums[ABOVE, level], sums[ABOVE_D, level], sums[SAME, level]
    below = sums[ALL, level] - above - same
    below_d = sums[ALL_D, level] - above_d - same * discount
    gaps = max(above_d - discount * above, 0.0) + max(discount * below - below_d, 0.0)
    return gaps + tie_gap * same


@njit(cache=True, nogil=True)
def ndcg_potentials(scores, levels, state, ndcg, first, last, unit, out):
    """Potentials of queries first .. last with each pair weighted by its expected |delta NDCG|.

    That is what exchanging its documents would change NDCG by; for tied scores the mean over all
    orders of the tied documents. Weights are divided by exp(unit). Writes state.query_sum and out,
    Potentials by document.
    """
    rising, falling, gain = state.rising, state.falling, ndcg.gain
    for query in range(first, last):
        base = levels.query_ptr[query]
        n_levels = levels.query_ptr[query + 1] - base
        start, level_of, key, order = _sort_documents(scores, levels, query)
        n = len(order)
        discount, tie_gap = np.empty(n), np.empty(n)
        lower, upper = np.zeros((5, n_levels)), np.zeros((5, n_levels))
        at, position = 0, 0
        while at < n:
            end, group = at, 0
            while end < n and key[order[end]] == key[order[at]]:
                group += ndcg.copies[start + order[end]]
                end += 1
            mean, gap = _tie_discounts(position, group)
            position += group
            for j in range(at, end):
                k = order[j]
                discount[k], tie_gap[k] = mean, gap
                lower[ALL, level_of[k]] += rising[start + k]
                lower[ALL_D, level_of[k]] += rising[start + k] * mean
                upper[ALL, level_of[k]] += falling[start + k]
                upper[ALL_D, level_of[k]] += falling[start + k] * mean
            at = end
        total, at = 0.0, 0
        while at < n:
            end = at
            while end < n and key[order[end]] == key[order[at]]:
                k = order[end]
                lower[SAME, level_of[k]] += rising[start + k]
                upper[SAME, level_of[k]] += falling[start + k]
                end += 1
            for j in range(at, end):
                k = order[j]
                level = level_of[k]
                up, down = 0.0, 0.0
                for a in range(level):
                    up += (
                        (gain[base + level] - gain[base + a])
                        * np.exp(state.high[base + a] - state.low[base + level] - unit)
                        * _gap_sum(lower, a, discount[k], tie_gap[k])
                    )
                for b in range(level + 1, n_levels):
                    down += (
                        (gain[base + b] - gain[base + level])
                        * np.exp(state.high[base + level] - state.low[base + b] - unit)
                        * _gap_sum(upper, b, discount[k], tie_gap[k])
                    )
                up *= falling[start + k] * levels.query_weight[query]
                down *= rising[start + k] * levels.query_weight[query]
                out.potential[start + k] = up - down
                if out.mass.size:
                    out.mass[start + k] = up + down
                total += up
            for j in range(at, end):
                k = order[j]
                level = level_of[k]
                lower[ABOVE, level] += rising[start + k]
                lower[ABOVE_D, level] += rising[start + k] * discount[k]
                upper[ABOVE, level] += falling[start + k]
                upper[ABOVE_D, level] += falling[start + k] * discount[k]
                lower[SAME, level], upper[SAME, level] = 0.0, 0.0
            at = end
        state.query_sum[query] = total
