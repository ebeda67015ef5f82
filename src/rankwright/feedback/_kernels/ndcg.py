"""The change of NDCG if two documents are exchanged, and potentials weighted by it."""

from __future__ import annotations

import numpy as np

from rankwright.feedback._kernels.levels import sort_documents
from rankwright.runtime.kernels import njit

# Rows of the sums that are kept of a level: over all its documents, over those with a higher score
# than the present one, over those with an equal score; "_D" is times the discount.
ALL, ALL_D, ABOVE, ABOVE_D, SAME = range(5)


@njit(cache=True, inline="always")  # so that it is compiled as part of its caller, with its flags
def ndcg_change(gain, discount, share, other_discount):
    """How much NDCG falls if two documents are exchanged: the only place that says so.

    gain            of the document minus that of the other one, divided by the ideal DCG
    discount        of the position of the document
    share           1; with a truncation level, 0 for a position below it, whose discount is 0 here
    other_discount  of the position of the other one

    The change is linear in the documents: for a group of documents ``discount`` and ``share`` are
    the sums of their weighted discounts and of their weights.
    """
    return gain * (discount - share * other_discount)


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
    falls = ndcg_change(1.0, above_d, above, discount)
    rises = ndcg_change(-1.0, below_d, below, discount)
    return max(falls, 0.0) + max(rises, 0.0) + tie_gap * same


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
        start, level_of, key, order = sort_documents(scores, levels, query)
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
