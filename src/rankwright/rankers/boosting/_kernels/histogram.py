"""WeakLearn.3 on bins: a sum of potentials for each bin, then the best sum above a cut.

Potentials are rounded to integers before they are added, so a sum is the same in any order.

bins  Bins, of splitting; cut c has h = 1 for the codes > c
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def round_rows(potential, scale, begin, end, units):
    """Write scale times the potentials of rows begin .. end, rounded, to units (n_rows,) int64."""
    own, out = potential[begin:end], units[begin:end]
    for i in range(len(own)):
        out[i] = np.int64(np.rint(own[i] * scale))


@njit(cache=True, nogil=True)
def sum_bins(codes, units, begin, end, first, last, sums):
    """Sums of the potentials of rows begin .. end, per feature and bin.

    codes        (n_blocks, n_rows) uint32: four features to a word, a byte each
    units        (n_rows,) int64
    first, last  which features, from a multiple of four on
    sums         (4 * n_blocks, 256) int64   written
    """
    byte = np.uint32(255)
    own = units[begin:end]
    for block in range(first // 4, (last + 3) // 4):
        words, at = codes[block][begin:end], sums[4 * block : 4 * block + 4]
        a, b, c, d = at[0], at[1], at[2], at[3]
        at[:] = 0
        for i in range(len(own)):
            word, p = words[i], own[i]
            a[word & byte] += p
            b[(word >> np.uint32(8)) & byte] += p
            c[(word >> np.uint32(16)) & byte] += p
            d[word >> np.uint32(24)] += p


@njit(cache=True, nogil=True)
def sum_part(codes, potential, scale, begin, end, units, sums):
    """``round_rows`` and ``sum_bins`` of all features in one call."""
    round_rows(potential, scale, begin, end, units)
    sum_bins(codes, units, begin, end, 0, len(sums), sums)


@njit(cache=True, nogil=True)
def above_cut(words, shift, cut, abstains, h):
    """Write whether each code exceeds a cut to h (n_rows,) uint8.

    words     (n_rows,) uint32, shift: which byte of them holds the codes
    abstains  int: the code of a missing value that counts as 0; 256 if none does
    """
    for i in range(len(words)):
        code = (words[i] >> np.uint32(shift)) & np.uint32(255)
        h[i] = (code > cut) & (code != abstains)


@njit(cache=True, nogil=True)
def scan_bins(parts, bins, whole, first, last, limits, sums, gains):
    """The best cuts of features first .. last.

    parts  (n_parts, >= n_features, 256) int64: sums of the potentials of each part of the rows
    whole  float: the sum of all potentials (zero, where they come from pairs)
    limits (tolerance, unit): gains that differ by less than the tolerance are equal, and the first
           one is kept; what an integer of the parts is worth
    sums   (n_features, 256) float64: becomes the sum of the potentials above each cut
    gains  Gains, of splitting   written
    """
    tolerance, unit = limits
    total = np.empty(256, np.int64)
    for feature in range(first, last):
        at = sums[feature]
        total[:] = 0
        for part in range(len(parts)):
            own = parts[part, feature]
            for code in range(256):
                total[code] += own[code]
        for code in range(256):
            at[code] = unit * total[code]
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
