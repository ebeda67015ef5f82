"""Fenwick trees, and the weight of the pairs in wrong order that they sum up."""

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
def level_disorder(scores, levels):
    """The weight of the pairs in wrong order, and of those with equal scores: O(n log n)."""
    level_ptr, weight = levels.level_ptr, levels.weight
    wrong, tied = 0.0, 0.0
    for query in range(len(levels.query_ptr) - 1):
        first, last = levels.query_ptr[query], levels.query_ptr[query + 1]
        start, n = level_ptr[first], level_ptr[last] - level_ptr[first]
        level_of, y, key = np.empty(n, np.int64), np.empty(n), np.empty(n)
        for level in range(first, last):
            for k in range(level_ptr[level], level_ptr[level + 1]):
                level_of[k - start] = level - first
                y[k - start] = levels.grade[level] - levels.grade[first]
                key[k - start] = -scores[levels.row[k]]
        order = np.argsort(key)
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
