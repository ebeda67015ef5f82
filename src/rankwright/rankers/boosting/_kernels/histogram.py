"""WeakLearn.3 on bins: a sum of potentials for each bin, then the best sum above a cut.

Potentials are rounded to integers before they are added, so a sum is the same in any order.

bins       Bins, of splitting; cut c has h = 1 for the codes > c
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def round_rows(potential, scale, begin, end, units):
    """Write scale times the potentials of rows begin .. end, rounded, to units (n_rows,) int64."""
    for i in range(begin, end):
        units[i] = np.int64(np.rint(potential[i] * scale))


@njit(cache=True, nogil=True)
def sum_bins(codes, units, begin, end, first, last, sums):
    """Sums of the potentials of rows begin .. end, per feature first .. last and bin.

    codes  (n_features, n_rows) uint8
    units  (n_rows,) int64
    sums   (n_features, 256) int64   written

    Four features at a time: a potential is read once for all of them.
    """
    feature = first
    while feature + 4 <= last:
        a, b, c, d = codes[feature], codes[feature + 1], codes[feature + 2], codes[feature + 3]
        at_a, at_b = sums[feature], sums[feature + 1]
        at_c, at_d = sums[feature + 2], sums[feature + 3]
        at_a[:] = 0
        at_b[:] = 0
        at_c[:] = 0
        at_d[:] = 0
        for i in range(begin, end):
            p = units[i]
            at_a[a[i]] += p
            at_b[b[i]] += p
            at_c[c[i]] += p
            at_d[d[i]] += p
        feature += 4
    while feature < last:
        column, at = codes[feature], sums[feature]
        at[:] = 0
        for i in range(begin, end):
            at[column[i]] += units[i]
        feature += 1


@njit(cache=True, nogil=True)
def scan_bins(parts, bins, whole, first, last, limits, sums, gains):
    """The best cuts of features first .. last.

    parts  (n_parts, n_features, 256) int64: sums of the potentials of each part of the rows
    whole  float: the sum of all potentials (zero, where they come from pairs)
    limits (tolerance, unit): gains that differ by less than the tolerance are equal, and the first
           one is kept; what an integer of the parts is worth
    sums   (n_features, 256) float64: becomes the sum of the potentials above each cut
    gains  Gains, of splitting   written
    """
    tolerance, unit = limits
    for feature in range(first, last):
        for code in range(256):
            total = np.int64(0)
            for part in range(len(parts)):
                total += parts[part, feature, code]
            sums[feature, code] = unit * total
    for feature in range(first, last):
        at = sums[feature]
        above, high, low = 0.0, -np.inf, np.inf
        high_cut, low_cut = -2, -2
        for cut in range(bins.n_cuts[feature] - 1, -1, -1):
            here = at[cut + 1]
            above += here
            at[cut + 1] = above
            if above > high + tolerance:
                high, high_cut = above, cut
            if above < low - tolerance:
                low, low_cut = above, cut
        # Without abstention the sum is known but for rounding: that must not decide anything.
        present = above + at[0] if bins.abstains[feature] else whole
        at[0] = present
        gains.present[feature] = present
        for default in range(2):
            gains.top[default, feature] = high - default * present
            gains.bottom[default, feature] = low - default * present
            gains.top_cut[default, feature] = high_cut
            gains.bottom_cut[default, feature] = low_cut
