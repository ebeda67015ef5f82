"""WeakLearn.3 on rows in the order of each feature: a running sum of potentials, cut by cut.

columns    SortedColumns, of splitting; cut c has h = 1 for the first c entries of a feature, where
           the implied group counts as one entry
order      (n_entries,) int32: rows by feature, values descending; ~row where a cut may come
           before the row
potential  (n_rows,) float64
tolerance  float: gains that differ by less are equal, and the first one is kept

The running sum is one chain of dependent additions with a load of a random row each, so its latency
decides. A first pass keeps only the largest and smallest sum of every block of entries, without
branches and for two features at a time. A second pass looks for the cut in one block only.

``entry ^ (entry >> 31)`` is the row of an entry, with or without the mark of a cut: the shift gives
0 for a row and -1 for ~row.
"""

from __future__ import annotations

import numpy as np

from rankwright.rankers.boosting._kernels.splitting import write_gains
from rankwright.runtime.kernels import njit

MARK = 128  # entries of a block


@njit(cache=True, nogil=True)
def _scan_part(order, potential, begin, end, offset, tolerance, best):
    """Entries begin .. end of one feature; cuts are counted from ``offset``.

    best  (sum above, highest sum, its cut, lowest sum, its cut) of the entries before; returned
    """
    above, high, high_cut, low, low_cut = best
    over, under = high + tolerance, low - tolerance
    for j in range(begin, end):
        entry = order[j]
        # A new best is rare, hence predictable; whether a cut may come here is not.
        if above > over and entry < 0:
            high, over, high_cut = above, above + tolerance, j - offset
        if above < under and entry < 0:
            low, under, low_cut = above, above - tolerance, j - offset
        above += potential[np.uint32(entry ^ (entry >> 31))]
    return above, high, high_cut, low, low_cut


@njit(cache=True, nogil=True)
def _mark_pair(order, potential, start, other, length, marks):
    """The first ``length`` entries of two features, side by side: two chains of additions overlap.

    marks  (2, n_marks, 3) float64: per block of entries the sum before it, the largest sum at which
           a cut may come, and the largest of their negatives                        written
    """
    above, above2 = 0.0, 0.0
    # Added to a sum where no cut may come: a branch there could not be predicted.
    penalty = np.zeros(2)
    penalty[0] = -np.inf
    for block in range(0, length, MARK):
        high, low, high2, low2 = -np.inf, -np.inf, -np.inf, -np.inf
        marks[0, block // MARK, 0], marks[1, block // MARK, 0] = above, above2
        for j in range(block, min(block + MARK, length)):
            entry = order[start + j]
            minus = penalty[np.uint32(entry) >> np.uint32(31)]
            high, low = max(high, above + minus), max(low, minus - above)
            above += potential[np.uint32(entry ^ (entry >> 31))]
            entry = order[other + j]
            minus = penalty[np.uint32(entry) >> np.uint32(31)]
            high2, low2 = max(high2, above2 + minus), max(low2, minus - above2)
            above2 += potential[np.uint32(entry ^ (entry >> 31))]
        marks[0, block // MARK, 1], marks[0, block // MARK, 2] = high, low
        marks[1, block // MARK, 1], marks[1, block // MARK, 2] = high2, low2
    return above, above2


@njit(cache=True, nogil=True)
def _mark_rest(order, potential, start, begin, end, above, marks):
    """Entries begin .. end (counted from ``start``) of one feature; begin may be inside a block."""
    penalty = np.zeros(2)
    penalty[0] = -np.inf
    at = begin
    while at < end:
        block = at // MARK
        high, low = -np.inf, -np.inf
        if at % MARK == 0:
            marks[block, 0] = above
        else:
            high, low = marks[block, 1], marks[block, 2]
        stop = min((block + 1) * MARK, end)
        for j in range(at, stop):
            entry = order[start + j]
            minus = penalty[np.uint32(entry) >> np.uint32(31)]
            high, low = max(high, above + minus), max(low, minus - above)
            above += potential[np.uint32(entry ^ (entry >> 31))]
        marks[block, 1], marks[block, 2] = high, low
        at = stop
    return above


@njit(cache=True, nogil=True)
def _best_marked(order, potential, start, n_entries, tolerance, marks, state):
    """The first cut with the largest sum above, and the first with the smallest, from the marks."""
    state[1], state[2], state[3], state[4] = -np.inf, -2, np.inf, -2
    for side in range(1, 3):
        sign, best = 3.0 - 2.0 * side, -np.inf
        for block in range((n_entries + MARK - 1) // MARK):
            best = max(best, marks[block, side])
        if best == -np.inf:
            return
        block = 0
        while marks[block, side] < best - tolerance:
            block += 1
        above = marks[block, 0]
        for j in range(block * MARK, n_entries):
            entry = order[start + j]
            if entry < 0 and sign * above >= best - tolerance:
                state[2 * side - 1], state[2 * side] = above, j
                break
            above += potential[np.uint32(entry ^ (entry >> 31))]


@njit(cache=True, nogil=True)
def _scan_implied(columns, feature, potential, whole, tolerance, state):
    """A feature whose rows without an entry are zeros: one group among its entries."""
    order, start, stop = columns.order, columns.ptr[feature], columns.ptr[feature + 1]
    group = columns.implied[feature]
    middle = start + group
    above, high, high_cut, low, low_cut = _scan_part(
        order, potential, start, middle, start, tolerance, (0.0, -np.inf, -2, np.inf, -2)
    )
    if columns.implied_cut[feature]:
        if above > high + tolerance:
            high, high_cut = above, group
        if above < low - tolerance:
            low, low_cut = above, group
    # The sum of all potentials is known: the group is what the other rows leave of it.
    above = whole
    for k in range(columns.absent_ptr[feature], columns.absent_ptr[feature + 1]):
        above -= potential[columns.absent_rows[k]]
    for k in range(middle, stop):
        above -= potential[order[k] ^ (order[k] >> 31)]
    best = (above, high, high_cut, low, low_cut)
    best = _scan_part(order, potential, middle, stop, start - 1, tolerance, best)
    state[0], state[1], state[2], state[3], state[4] = best


@njit(cache=True, nogil=True)
def scan_sorted(columns, potential, whole, first, last, tolerance, marks, gains):
    """The best cuts of features first .. last, among every value (or the values marked as cuts).

    whole  float: the sum of all potentials
    marks  (n_features, n_marks, 3) float64, as in _mark_pair   written
    gains  Gains, of splitting                                  written
    """
    order, ptr, implied = columns.order, columns.ptr, columns.implied
    state = np.empty((2, 5))
    feature = first
    while feature < last:
        together = 1
        if implied[feature] >= 0:
            _scan_implied(columns, feature, potential, whole, tolerance, state[0])
        else:
            done = 0
            state[:, 0] = 0.0
            if feature + 1 < last and implied[feature + 1] < 0:
                together = 2
                start, other = ptr[feature], ptr[feature + 1]
                done = min(other - start, ptr[feature + 2] - other)
                state[0, 0], state[1, 0] = _mark_pair(
                    order, potential, start, other, done, marks[feature : feature + 2]
                )
            for i in range(together):
                start, n = ptr[feature + i], ptr[feature + i + 1] - ptr[feature + i]
                state[i, 0] = _mark_rest(
                    order, potential, start, done, n, state[i, 0], marks[feature + i]
                )
                _best_marked(order, potential, start, n, tolerance, marks[feature + i], state[i])
        for i in range(together):
            # Without abstention the sum is known: rounding must not decide anything.
            present = state[i, 0] if columns.abstains[feature + i] else whole
            best = state[i, 1], int(state[i, 2]), state[i, 3], int(state[i, 4])
            write_gains(feature + i, best, present, gains)
        feature += together


@njit(cache=True, nogil=True)
def sums_above(columns, potential, whole, marks, feature, cut, out):
    """The sums above some cuts, after a scan_sorted of the same potentials.

    feature, cut  (n,) int64
    out           (n,) float64   written
    """
    order, implied = columns.order, columns.implied
    for i in range(len(feature)):
        f, start, stop = feature[i], columns.ptr[feature[i]], columns.ptr[feature[i] + 1]
        above, begin, end, sign = 0.0, start, start + cut[i], 1.0
        if implied[f] < 0 and cut[i] < stop - start:
            above, begin = marks[f, cut[i] // MARK, 0], start + cut[i] // MARK * MARK
        elif implied[f] >= 0 and cut[i] > implied[f]:
            above, begin, end, sign = whole, start + cut[i] - 1, stop, -1.0
            for k in range(columns.absent_ptr[f], columns.absent_ptr[f + 1]):
                above -= potential[columns.absent_rows[k]]
        for k in range(begin, end):
            above += sign * potential[order[k] ^ (order[k] >> 31)]
        out[i] = above
