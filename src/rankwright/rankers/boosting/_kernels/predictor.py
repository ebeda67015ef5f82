"""Predictions of trees on binned rows, and Shapley values of trees.

Shapley values are summed leaf by leaf. A leaf is reached by a path; each feature on it has one
slot, however often it is split on. ``zero`` of a slot is the share of training rows that pass its
splits; ``one`` is 1 if the row passes them. A leaf adds to the value function v(S) its value times
the product over slots of ``one`` for features in S and ``zero`` for the others. The Shapley value
of slot j is the integral over t from 0 to 1 of (one_j - zero_j) times the product over the other
slots of (1 - t) zero_k + t one_k (Owen's multilinear extension). That is a polynomial of degree
n - 1 in t: Gauss-Legendre quadrature with n / 2 points is exact, and adds positive numbers only.
"""

from __future__ import annotations

import numpy as np

from rankwright.runtime.kernels import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_values(rows, starts, values, out):
    """Add the value of each leaf i to its rows, rows[starts[i] : starts[i + 1]]."""
    for leaf in range(len(values)):
        for k in range(starts[leaf], starts[leaf + 1]):
            out[rows[k]] += values[leaf]


@njit(cache=True, nogil=True, error_model="numpy")
def walk_tree(codes, nodes, rate, first, last, out):
    """Add rate times the value of a tree to rows first .. last.

    nodes  BinnedTree, of grower
    """
    for row in range(first, last):
        node = 0
        while nodes.feature[node] >= 0:
            feature = nodes.feature[node]
            word = codes[feature >> 2, row] >> np.uint32(8 * (feature & 3))
            node = nodes.children[node, nodes.goes_right[node, word & np.uint32(255)]]
        out[row] += rate * nodes.value[node]


@njit(cache=True, nogil=True)
def _add_leaf(one, zero, points, value, parts):
    """Write the Shapley values of the slots of one leaf to ``parts``.

    one, zero, parts  (n_slots,) float64
    points            (n_points, 2) float64: nodes in 0 .. 1 and weights of the quadrature
    """
    parts[:] = 0.0
    for p in range(len(points)):
        t, product = points[p, 0], points[p, 1] * value
        for k in range(len(one)):
            product *= (1.0 - t) * zero[k] + t * one[k]
        without = product / (1.0 - t)  # the product without a slot that fails, times its zero
        for k in range(len(one)):
            if one[k] == 0.0:
                parts[k] -= without
            else:
                parts[k] += product / (zero[k] + t * (1.0 - zero[k])) * (1.0 - zero[k])


@njit(cache=True, nogil=True)
def add_shap_values(goes_right, paths, first, last, values):
    """Add the Shapley values of all leaves for rows first .. last.

    goes_right      (n_rows, n_nodes) bool: whether the row goes right at the node
    paths   Paths, of explain
    values  (n_rows, n_features) float64, changed
    """
    longest = 1
    for leaf in range(paths.value.size):
        longest = max(longest, paths.slot_ptr[leaf + 1] - paths.slot_ptr[leaf])
    one, parts = np.empty(longest), np.empty(longest)
    for row in range(first, last):
        for leaf in range(paths.value.size):
            start, stop = paths.slot_ptr[leaf], paths.slot_ptr[leaf + 1]
            n = stop - start
            one[:n] = 1.0
            for entry in range(paths.entry_ptr[leaf], paths.entry_ptr[leaf + 1]):
                if goes_right[row, paths.node[entry]] != paths.is_right[entry]:
                    one[paths.slot[entry]] = 0.0
            reachable = True  # unless neither a training row nor this row passes some slot
            for k in range(n):
                reachable &= one[k] != 0.0 or paths.zero[start + k] != 0.0
            if reachable:
                n_points = (n + 1) // 2
                zero, points = paths.zero[start:stop], paths.points[n_points, :n_points]
                _add_leaf(one[:n], zero, points, paths.value[leaf], parts[:n])
                for k in range(n):
                    values[row, paths.feature[start + k]] += parts[k]
