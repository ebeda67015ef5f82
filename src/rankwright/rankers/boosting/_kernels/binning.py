"""Bins of features: where they begin, and the code of each value."""

from __future__ import annotations

import math

import numpy as np

from rankwright.feedback._kernels.sorting import ascending_order
from rankwright.runtime.kernels import njit

MISSING = 255  # the code of a missing value


@njit(cache=True, nogil=True)
def find_bins(mass, max_bins, starts):
    """Group distinct values (ascending) into at most max_bins bins of about equal mass.

    A value that fills a bin by itself gets its own; the other bins share what is left evenly.
    starts  (n_values,) bool: set where a new bin begins
    """
    n = len(mass)
    starts[:] = False
    if n <= max_bins:
        starts[1:] = True
        return
    total = 0.0
    for i in range(n):
        total += mass[i]
    fair = total / max_bins
    left, n_left = total, max_bins
    for i in range(n):
        if mass[i] >= fair:
            left -= mass[i]
            n_left -= 1
    big = fair
    fair = left / max(n_left, 1)
    in_bin, used = 0.0, 1
    for i in range(n - 1):
        in_bin += mass[i]
        alone = mass[i] >= big
        if not alone:
            left -= mass[i]
        if alone or in_bin >= fair or (mass[i + 1] >= big and in_bin >= 0.5 * fair):
            starts[i + 1] = True
            used += 1
            in_bin = 0.0
            if used == max_bins:
                return
            if not alone:
                n_left -= 1
                fair = left / max(n_left, 1)


@njit(cache=True, nogil=True)
def write_codes(order, starts, codes):
    """Codes of one feature from its rows in descending order; returns the number of cuts.

    starts  (n_entries,) bool: whether a lower bin begins at this entry
    codes   (n_rows,): written where the feature has a value
    """
    cuts = 0
    for k in range(len(order)):
        cuts += starts[k]
    code = cuts
    for k in range(len(order)):
        code -= starts[k]
        codes[order[k]] = code
    return cuts


@njit(cache=True, nogil=True, error_model="numpy")
def encode_values(values, edges, shift, words):
    """Write the code of each value, the number of edges below it, into a byte of the words."""
    padded = np.empty(256)
    for k in range(256):
        padded[k] = edges[k] if k < len(edges) else np.inf
    for i in range(len(values)):
        x = values[i]
        # Binary search in eight steps without a branch, which could not be predicted.
        code = np.uint32(0)
        for step in (128, 64, 32, 16, 8, 4, 2, 1):
            code += np.uint32(step) * np.uint32(padded[code + np.uint32(step - 1)] < x)
        if math.isnan(x):
            code = np.uint32(MISSING)
        words[i] |= code << np.uint32(shift)


@njit(cache=True, nogil=True)
def sort_entries(feature, value, first, order, starts):
    """Sort entries by feature, then by descending value; the sort is stable.

    feature, value  (n_entries,) of each entry
    first           (n_features + 1,) int64: how many entries the features before have
    order           (n_entries,) int64                                            written
    starts          (n_entries,) bool: whether a feature or a lower value begins  written
    """
    free = first[:-1].copy()
    for k in range(len(feature)):
        order[free[feature[k]]] = k
        free[feature[k]] += 1
    for f in range(len(first) - 1):
        own = order[first[f] : first[f + 1]]
        by_value = own[ascending_order(-value[own])]
        for k in range(len(own)):  # a loop: numba compiles 2 s of messages for own[:] = by_value
            own[k] = by_value[k]
            starts[first[f] + k] = k == 0 or value[own[k]] < value[own[k - 1]]
