"""Shapley values of trees, leaf by leaf.

A leaf is reached by a path; each feature on it has one slot, however often it is split on. ``zero``
of a slot is the share of training rows that pass its splits; ``one`` is 1 if the row passes them.
A leaf contributes to the value function v(S) its value times the product over slots of ``one`` for
features in S and ``zero`` for the others.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _extend(weight, n, zero, one):
    """Add a slot to a path of n slots (Lundberg et al. 2018, algorithm 2, EXTEND).

    weight[k]  the sum over sets of k of the slots that are present, each with its Shapley weight
    """
    weight[n + 1] = 0.0
    for k in range(n, -1, -1):
        weight[k + 1] += one * weight[k] * (k + 1) / (n + 2)
        weight[k] = zero * weight[k] * (n + 1 - k) / (n + 2)


@njit(cache=True, nogil=True)
def _sum_without(weight, n, zero, one):
    """The sum of the weights of a path of n slots after one of them is taken out (UNWIND)."""
    total, rest = 0.0, weight[n]
    for k in range(n - 1, -1, -1):
        if one != 0.0:
            part = rest * (n + 1) / (k + 1)
            rest = weight[k] - part * zero * (n - k) / (n + 1)
        else:
            part = weight[k] * (n + 1) / (zero * (n - k))
        total += part
    return total


@njit(cache=True, nogil=True)
def add_shap_values(up, paths, first, last, values):
    """Add the Shapley values of all leaves for rows first .. last.

    up      (n_rows, n_nodes) bool: whether the row goes up at the node
    paths   Paths, of explain
    values  (n_rows, n_features) float64, changed
    """
    longest = 1
    for leaf in range(paths.value.size):
        longest = max(longest, paths.slot_ptr[leaf + 1] - paths.slot_ptr[leaf])
    one, weight = np.empty(longest), np.empty(longest + 1)
    for row in range(first, last):
        for leaf in range(paths.value.size):
            slot = paths.slot_ptr[leaf]
            n = paths.slot_ptr[leaf + 1] - slot
            one[:n] = 1.0
            for entry in range(paths.entry_ptr[leaf], paths.entry_ptr[leaf + 1]):
                if up[row, paths.node[entry]] != paths.is_up[entry]:
                    one[paths.slot[entry]] = 0.0
            empty = False  # no training row and not this row either: the leaf plays no part
            weight[0] = 1.0
            for k in range(n):
                empty |= one[k] == 0.0 and paths.zero[slot + k] == 0.0
                _extend(weight, k, paths.zero[slot + k], one[k])
            for k in range(0 if empty else n):
                zero = paths.zero[slot + k]
                share = _sum_without(weight, n, zero, one[k]) * (one[k] - zero)
                values[row, paths.feature[slot + k]] += share * paths.value[leaf]
