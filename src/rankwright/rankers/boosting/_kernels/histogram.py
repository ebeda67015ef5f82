"""WeakLearn.3 on bins: a sum of potentials for each bin, then the best sum above a cut.

potential   (n_rows,) float64
codes       (n_features, n_rows) uint8: bin of each value, 255 where the feature abstains;
            cut c hits the codes > c
tolerance   float: gains that differ by less are the same, and the first one is kept
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sum_bins(codes, potential, begin, end, first, last, sums):
    """Sums of the potentials of rows begin .. end, per feature first .. last and bin.

    Four features at a time: a potential is read once for all of them.
    """
    feature = first
    while feature + 4 <= last:
        a, b, c, d = codes[feature], codes[feature + 1], codes[feature + 2], codes[feature + 3]
        at_a, at_b = sums[feature], sums[feature + 1]
        at_c, at_d = sums[feature + 2], sums[feature + 3]
        at_a[:] = 0.0
        at_b[:] = 0.0
        at_c[:] = 0.0
        at_d[:] = 0.0
        for i in range(begin, end):
            p = potential[i]
            at_a[a[i]] += p
            at_b[b[i]] += p
            at_c[c[i]] += p
            at_d[d[i]] += p
        feature += 4
    while feature < last:
        column, at = codes[feature], sums[feature]
        at[:] = 0.0
        for i in range(begin, end):
            at[column[i]] += potential[i]
        feature += 1


@njit(cache=True, nogil=True)
def scan_bins(
    parts, whole, n_cuts, abstains, first, last, tolerance, sums, top, top_cut, bottom, bottom_cut,
    listed,
):  # fmt: skip
    """WeakLearn.3 on bins.

    parts     (n_parts, n_features, 256) float64: sums of the potentials of each part of the rows
    whole     float: the sum of all potentials (zero, where they come from pairs)
    n_cuts    (n_features,) int64
    abstains  (n_features,) bool: whether any row lacks the feature
    sums      (n_features, 256) float64: becomes the sum of the potentials above each cut
    top, top_cut, bottom, bottom_cut   (2, n_features), one row for each default   written
    listed    (n_features,): the gain of hitting every row that has the feature    written
    """
    for feature in range(first, last):
        for code in range(256):
            sums[feature, code] = parts[0, feature, code]
        for part in range(1, len(parts)):
            for code in range(256):
                sums[feature, code] += parts[part, feature, code]
    for feature in range(first, last):
        at = sums[feature]
        above, high, low = 0.0, -np.inf, np.inf
        high_cut, low_cut = -2, -2
        for cut in range(n_cuts[feature] - 1, -1, -1):
            here = at[cut + 1]
            above += here
            at[cut + 1] = above
            if above > high + tolerance:
                high, high_cut = above, cut
            if above < low - tolerance:
                low, low_cut = above, cut
        # Without abstention the sum is known but for rounding: that must not decide anything.
        all_listed = above + at[0] if abstains[feature] else whole
        at[0] = all_listed
        listed[feature] = all_listed
        for default in range(2):
            top[default, feature] = high - default * all_listed
            bottom[default, feature] = low - default * all_listed
            top_cut[default, feature] = high_cut
            bottom_cut[default, feature] = low_cut
