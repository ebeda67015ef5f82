"""WeakLearn.3: the best threshold of every feature by the sums of potentials above it.

A *cut* splits the values of a feature: h = 1 above it, h = 0 below it, and a default for the rows
that lack the feature. The *gain* of a cut is signed: positive where higher values belong higher. A
scan reports for each feature the best gain of either sign; ``pick_cut`` decides which of them may
be used, and with which default.

bins  Bins, of weak_learners.splitting, for dense rows: cut c has h = 1 for the codes > c.
      SparseBins, of binning, for the values that are present: a cut is the number of bins that have
      h = 1, from the highest value down; 0 is none of the rows that have the feature, the number of
      its bins is all of them.
"""

from __future__ import annotations

import numpy as np

from rankwright.runtime.kernels import njit


@njit(cache=True, nogil=True)
def better_of(best, feature, gains, abstains, allowed, margin):
    """The better of ``best`` (gain, feature, kind, default) and the best cut of one feature.

    gains    (top, top_else, bottom, bottom_else, present): best gains upward and downward where
             rows that lack the feature get 0, or get 1 (``else``); no cut is -inf upward, inf
             downward; and the gain of h = 1 where the feature is present
    allowed  Allowed, of weak_learners
    margin   float: how much better a later cut must be, so that rounding decides nothing
    """
    present, defaults = gains[4], allowed.defaults
    for number in range(2):
        # Where both defaults gain the same, the paper's Figure 3 takes 1. (Without a row that lacks
        # the feature the data do not determine it, and it is 0.)
        default = 1 - number if abstains else number
        if not defaults[default]:
            continue
        if default == 1 and not abstains and defaults[0]:
            continue
        gain = gains[1] if default else gains[0]
        if allowed.direction[feature] >= 0 and gain > abs(best[0]) + margin:
            best = (gain, feature, 0, default)
        gain = gains[3] if default else gains[2]
        if allowed.direction[feature] <= 0 and -gain > abs(best[0]) + margin:
            best = (gain, feature, 1, default)
    if abstains:
        if (
            defaults[0]
            and (present > 0 or not allowed.upward)
            and abs(present) > abs(best[0]) + margin
        ):
            best = (present, feature, 2, 0)
        if (
            defaults[1]
            and (present < 0 or not allowed.upward)
            and abs(present) > abs(best[0]) + margin
        ):
            best = (-present, feature, 3, 1)
    return best


@njit(cache=True, nogil=True)
def pick_cut(gains, abstains, allowed, margin):
    """The best cut that may be used: (gain, feature, kind, default); gain 0 where there is none.

    gains     Gains, of splitting
    abstains  (n_features,) bool
    kind      0 the top cut, 1 the bottom cut, 2 every row that has the feature, 3 every row
              that lacks it
    """
    # Not literals, for which numba would compile better_of once more.
    best = (0.0, np.int64(-1), np.int64(0), np.int64(0))
    for feature in range(len(abstains)):
        top, bottom = gains.top[:, feature], gains.bottom[:, feature]
        own = (top[0], top[1], bottom[0], bottom[1], gains.present[feature])
        best = better_of(best, feature, own, abstains[feature], allowed, margin)
    return best


@njit(cache=True, nogil=True)
def weighted_sum(rows, values, base, potential):
    """The sum of potential * (value - base) over some rows."""
    total = 0.0
    for k in range(len(rows)):
        total += potential[rows[k]] * (values[k] - base)
    return total


@njit(cache=True, nogil=True)
def round_rows(potential, scale, begin, end, units):
    """Write scale times the potentials of rows begin .. end, rounded, to units (n_rows,) int64."""
    own, out = potential[begin:end], units[begin:end]
    for i in range(len(own)):
        out[i] = np.int64(np.rint(own[i] * scale))


@njit(cache=True, nogil=True)
def sum_bins(codes, units, begin, end, first, last, sums):
    """Sums of the potentials of rows begin .. end, per feature and bin.

    Four features are added at a time, from one word: their four chains of additions overlap.

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
def write_gains(feature, best, present, gains):
    """Write the best cuts of a feature for both defaults.

    best     (highest sum above a cut, its cut, lowest sum, its cut)
    present  the sum over all rows that have the feature. The potentials of pairs add up to 0, so
             the rows that lack it have the sum -present: the default 1 adds that to a gain
    """
    high, high_cut, low, low_cut = best
    gains.present[feature] = present
    for default in range(2):
        gains.top[default, feature] = high - default * present
        gains.bottom[default, feature] = low - default * present
        gains.top_cut[default, feature] = high_cut
        gains.bottom_cut[default, feature] = low_cut


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
        high_cut, low_cut = np.int64(-2), np.int64(-2)
        for cut in range(bins.n_cuts[feature] - 1, -1, -1):
            above += at[cut + 1]
            at[cut + 1] = above
            if above > high + tolerance:
                high, high_cut = above, cut
            if above < low - tolerance:
                low, low_cut = above, cut
        # Without abstention the sum is known: rounding must not decide anything.
        present = above + at[0] if bins.abstains[feature] else whole
        at[0] = present
        write_gains(feature, (high, high_cut, low, low_cut), present, gains)


@njit(cache=True, nogil=True)
def sum_entries(bins, potential, sums):
    """Per bin: the sum of the potentials of its rows."""
    ptr, bin_of = bins.ptr, bins.bin
    sums[:] = 0.0
    for row in range(len(ptr) - 1):
        p = potential[row]
        for k in range(ptr[row], ptr[row + 1]):
            sums[bin_of[k]] += p


@njit(cache=True, nogil=True)
def scan_entries(bins, potential, whole, tolerance, sums, gains):
    """The best cuts of all features, of which most rows lack most.

    whole, tolerance  as in scan_bins and its limits
    sums   (n_bins,) float64: becomes the sum of the potentials of all bins of a feature down to it
    gains  Gains, of splitting   written
    """
    sum_entries(bins, potential, sums)
    for feature in range(len(bins.abstains)):
        start, stop = bins.bin_ptr[feature], bins.bin_ptr[feature + 1]
        above, high, low = 0.0, -np.inf, np.inf
        high_cut, low_cut = np.int64(-2), np.int64(-2)
        for cut in range(1, stop - start):
            above += sums[start + cut - 1]
            sums[start + cut - 1] = above
            if above > high + tolerance:
                high, high_cut = above, cut
            if above < low - tolerance:
                low, low_cut = above, cut
        # Without abstention the sum is known: rounding must not decide anything.
        present = whole
        if bins.abstains[feature]:
            present = above + sums[stop - 1] if stop > start else 0.0
        if stop > start:
            sums[stop - 1] = present
        write_gains(feature, (high, high_cut, low, low_cut), present, gains)


@njit(cache=True, nogil=True)
def write_h(bins, feature, cut, default, h):
    """The weak ranking of a cut over all rows."""
    ptr, bin_of = bins.ptr, bins.bin
    start, stop = bins.bin_ptr[feature], bins.bin_ptr[feature + 1]
    for row in range(len(h)):
        h[row] = default
        # Entries of a row are sorted by feature.
        k = ptr[row] + np.searchsorted(bin_of[ptr[row] : ptr[row + 1]], start)
        if k < ptr[row + 1] and bin_of[k] < stop:
            h[row] = bin_of[k] < start + cut
