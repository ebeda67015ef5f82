"""Queries with many levels: sums over levels in binary indexed trees, O(log levels) a member."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _add_at(trees, place, amount, y):
    """Add to two binary indexed trees: the amount, and the amount times y."""
    place += 1
    while place < trees.shape[1]:
        trees[0, place] += amount
        trees[1, place] += amount * y
        place += place & -place


@njit(cache=True, nogil=True)
def _gapped_before(trees, place, y, gaps):
    """The sum before a place, each amount times its gap to y (times one without gaps)."""
    plain, gapped = 0.0, 0.0
    while place > 0:
        plain += trees[0, place]
        gapped += trees[1, place]
        place -= place & -place
    return y * plain - gapped if gaps else plain


@njit(cache=True, nogil=True)
def _move_wide(level, n, y, gaps, as_low, as_up, rise, fall, lower, upper, all_lower, all_upper):
    """Hit a member, with sums over levels in binary indexed trees: what that changes.

    lower, upper      (2, n + 1): what is hit; the upper ones count levels from the top, -y for y
    all_lower, all_upper   the same for all members
    """
    mirror = n - 1 - level
    below = as_up[level] * _gapped_before(lower, level, y[level], gaps)
    above = as_low[level] * _gapped_before(upper, mirror, -y[level], gaps)
    all_below = as_up[level] * _gapped_before(all_lower, level, y[level], gaps)
    all_above = as_low[level] * _gapped_before(all_upper, mirror, -y[level], gaps)
    _add_at(lower, level, as_low[level] * rise, y[level])
    _add_at(upper, mirror, as_up[level] * fall, -y[level])
    return fall * (all_below - below) - rise * above, rise * (all_above - above) - fall * below


@njit(cache=True, nogil=True)
def wide_changes(
    query, features, members, codes, run_ptr, level_of, level_ptr, query_ptr, grade, magnitude,
    as_low, as_up, lower_sum, upper_sum, rising, falling, absent_hit, bases, changes,
):  # fmt: skip
    """As level_changes, for one query with many levels: O(log levels) a member.

    as_low, as_up  (n_levels,) float64: factors of a level as the lower and as the upper of pairs
    """
    first, n = query_ptr[query], query_ptr[query + 1] - query_ptr[query]
    y, gaps = grade[first : first + n] - grade[first], magnitude[query]
    low, up = as_low[first : first + n], as_up[first : first + n]
    all_lower, all_upper = np.zeros((2, n + 1)), np.zeros((2, n + 1))
    for level in range(n):
        _add_at(all_lower, level, low[level] * lower_sum[first + level], y[level])
        _add_at(all_upper, n - 1 - level, up[level] * upper_sum[first + level], -y[level])
    for i in range(len(features)):
        begin, end = run_ptr[features[i], query], run_ptr[features[i], query + 1]
        lower, upper = np.zeros((2, n + 1)), np.zeros((2, n + 1))
        if absent_hit[i]:
            rest_low = lower_sum[first : first + n].copy()
            rest_up = upper_sum[first : first + n].copy()
            left = np.diff(level_ptr[first : first + n + 1])
            for k in range(begin, end):
                level = level_of[members[k]]
                rest_low[level] -= rising[members[k]]
                rest_up[level] -= falling[members[k]]
                left[level] -= 1
            for level in range(n):
                if left[level] > 0:
                    more, less = _move_wide(
                        level, n, y, gaps, low, up, rest_low[level], rest_up[level], lower, upper,
                        all_lower, all_upper,
                    )  # fmt: skip
                    changes[i, bases[i], 0] += more
                    changes[i, bases[i], 1] += less
        for k in range(begin, end):
            member = members[k]
            more, less = _move_wide(
                level_of[member], n, y, gaps, low, up, rising[member], falling[member], lower,
                upper, all_lower, all_upper,
            )  # fmt: skip
            changes[i, codes[k], 0] += more
            changes[i, codes[k], 1] += less
