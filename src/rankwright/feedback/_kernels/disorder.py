"""The weight of pairs in wrong order, with sums over levels in Fenwick trees."""

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
def level_disorder(scores, levels):
    """The weight of the pairs in wrong order, and of those with equal scores: O(n log n).

    scores  (n_rows,) float64
    levels  rankwright.feedback.levels.Levels
    """
    level_ptr, weight = levels.level_ptr, levels.weight
    wrong, tied = 0.0, 0.0
    for query in range(len(levels.query_ptr) - 1):
        first, last = levels.query_ptr[query], levels.query_ptr[query + 1]
        start, n = level_ptr[first], level_ptr[last] - level_ptr[first]
        level_of, y_of, key = np.empty(n, np.int64), np.empty(n), np.empty(n)
        for level in range(first, last):
            for k in range(level_ptr[level], level_ptr[level + 1]):
                level_of[k - start] = level - first
                y_of[k - start] = levels.grade[level] - levels.grade[first]
                key[k - start] = -scores[levels.row[k]]
        order = np.argsort(key)
        # Sums by level over the documents seen so far: those with strictly higher scores, and these
        # with the equal ones; each plain and times the grade.
        higher, higher_y = np.zeros(last - first + 1), np.zeros(last - first + 1)
        seen, seen_y = np.zeros(last - first + 1), np.zeros(last - first + 1)
        at = 0
        while at < n:
            end = at
            while end < n and key[order[end]] == key[order[at]]:
                k = order[end]
                tree_add(seen, level_of[k] + 1, weight[start + k])
                tree_add(seen_y, level_of[k] + 1, weight[start + k] * y_of[k])
                end += 1
            for j in range(at, end):
                k = order[j]
                share = weight[start + k] * levels.query_weight[query]
                above = tree_sum(higher, level_of[k])
                even = tree_sum(seen, level_of[k])
                if levels.magnitude[query]:
                    above = y_of[k] * above - tree_sum(higher_y, level_of[k])
                    even = y_of[k] * even - tree_sum(seen_y, level_of[k])
                wrong += share * above
                tied += share * (even - above)
            for j in range(at, end):
                k = order[j]
                tree_add(higher, level_of[k] + 1, weight[start + k])
                tree_add(higher_y, level_of[k] + 1, weight[start + k] * y_of[k])
            at = end
    return wrong, tied


@njit(cache=True, nogil=True)
def pair_disorder(scores, pairs):
    """As level_disorder, for a PairList."""
    wrong, tied = 0.0, 0.0
    for p in range(len(pairs.lower)):
        if scores[pairs.lower[p]] > scores[pairs.upper[p]]:
            wrong += pairs.weight[p]
        elif scores[pairs.lower[p]] == scores[pairs.upper[p]]:
            tied += pairs.weight[p]
    return wrong, tied
