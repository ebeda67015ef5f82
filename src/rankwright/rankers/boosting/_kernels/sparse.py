"""All rounds of WeakLearn.3 in one call, for few values: there, a call costs more than a round.

bins  SparseBins, of binning. A *cut* of a feature is the number of its bins that have h = 1, from
      the highest value down: 0 is none of the rows that have the feature, the number of its bins
      is all of them.

Numba does not notice when functions imported from other files change: touch this file then.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankwright.feedback._kernels.levels import level_potentials
from rankwright.feedback.pair_weights import Move, Potentials
from rankwright.rankers.boosting._kernels.cuts import better_of


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
        by_value = own[np.argsort(-value[own], kind="mergesort")]
        for k in range(len(own)):  # a loop: numba compiles 2 s of messages for own[:] = by_value
            own[k] = by_value[k]
            starts[first[f] + k] = k == 0 or value[own[k]] < value[own[k - 1]]


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
def find_best(bins, allowed, margin, sums, present):
    """The best cut that may be used: (gain, feature, cut, default); gain 0 where there is none.

    allowed  Allowed, of weak_learners
    margin   as in better_of
    sums     (n_bins,) float64: the sum of each bin; becomes that of all bins down to it
    present  (n_features,): the sum over all rows that have the feature          written
    """
    best, best_cut = (0.0, -1, 0, 0), 0
    for feature in range(len(bins.abstains)):
        start, n_bins = bins.bin_ptr[feature], bins.bin_ptr[feature + 1] - bins.bin_ptr[feature]
        above, high, low = 0.0, -np.inf, np.inf
        high_cut, low_cut = -2, -2
        for cut in range(1, n_bins):
            above += sums[start + cut - 1]
            sums[start + cut - 1] = above
            if above > high + 0.1 * margin:
                high, high_cut = above, cut
            if above < low - 0.1 * margin:
                low, low_cut = above, cut
        # Without abstention the sum is known but for rounding: that must not decide anything.
        everything = 0.0
        if n_bins and bins.abstains[feature]:
            everything = above + sums[start + n_bins - 1]
        present[feature] = everything
        if n_bins:
            sums[start + n_bins - 1] = everything
        # No gain of this feature is larger: most features need no closer look.
        if max(high, -low, 0.0) + abs(everything) > abs(best[0]) + margin:
            gains = (high, high - everything, low, low - everything, everything)
            best = better_of(best, feature, gains, bins.abstains[feature], allowed, margin)
            if best[1] == feature:
                best_cut = (high_cut, low_cut, n_bins, 0)[best[2]]
    return best[0], best[1], best_cut, best[3]


@njit(cache=True, nogil=True)
def edge_alpha(r, smoothing):
    """Method 3, as ``edge_alpha`` of weak_learners."""
    limit = 1.0 - 2.0 * smoothing
    r = min(max(r, -limit), limit)
    return 0.5 * math.log((1.0 + r) / (1.0 - r))


@njit(cache=True, nogil=True)
def step_back(best, bins, sums, present, total, rules, chosen, weight):
    """The best earlier ranking to take weight from without turning its sign, if better than best.

    rules   Rules, of training
    chosen  (n, 3) int64: feature, cut and default of the rankings chosen so far
    weight  (n,) float64: their weights, added up
    """
    least = abs(best[0]) + rules.margin * total
    for i in range(len(chosen)):
        feature, cut, default = chosen[i, 0], chosen[i, 1], chosen[i, 2]
        gain = sums[bins.bin_ptr[feature] + cut - 1] if cut else 0.0
        gain -= default * present[feature]
        if abs(gain) > least and gain * weight[i] < 0:
            if abs(edge_alpha(gain / total, rules.smoothing)) < abs(weight[i]):
                best, least = (gain, feature, cut, default), abs(gain)
    return best


@njit(cache=True, nogil=True)
def index_of(feature, cut, default, chosen):
    """Where in ``chosen`` a ranking is, or may be put."""
    for i in range(len(chosen)):
        if chosen[i, 0] == feature and chosen[i, 1] == cut and chosen[i, 2] == default:
            return i
    return len(chosen)


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


@njit(cache=True, nogil=True)
def boost(bins, levels, state, scores, potential, rules, history, rounds):
    """Rounds of WeakLearn.3, as many as ``rounds`` has room for; returns how many there were.

    levels, state      Levels and LevelState of the pairs, by document; state is updated
    scores, potential  (n_rows,) float64 of the pairs                   updated
    rules              Rules, of training; its directions are updated
    history            History, of training                             updated
    rounds             Rounds, of training                              written
    """
    allowed = rules.allowed
    progress, chosen, weight = history
    sums, present = np.zeros(bins.bin_ptr[-1]), np.zeros(len(bins.abstains))
    h = np.zeros(len(scores), np.uint8)
    out = Potentials(potential, np.zeros(0))
    total, shift, n_chosen = progress[0], progress[1], int(progress[2])
    for number in range(len(rounds.alpha)):
        sum_entries(bins, potential, sums)
        best = find_best(bins, allowed, rules.margin * total, sums, present)
        gain, feature, cut, default = step_back(
            best, bins, sums, present, total, rules, chosen[:n_chosen], weight[:n_chosen]
        )
        if feature < 0:
            return number
        step = edge_alpha(gain / total, rules.smoothing)
        write_h(bins, feature, cut, default, h)
        refresh = len(h) > 0  # true, but not a literal: that is a type of its own to numba
        move = Move(h, step, refresh, shift, 1.0)
        level_potentials(scores, move, levels, state, 0, len(levels.query_weight), out)
        total = state.query_sum.sum()
        shift += math.log(total)
        ranking = rounds.ranking[number]
        ranking[0], ranking[1], ranking[2] = feature, cut, default
        rounds.alpha[number], rounds.log_weight[number] = step, shift
        whole = cut == 0 or cut == bins.bin_ptr[feature + 1] - bins.bin_ptr[feature]
        if allowed.upward or (rules.signed and not whole):
            if allowed.direction[feature] == 0:
                allowed.direction[feature] = 1 if step > 0 else -1
            i = index_of(feature, cut, default, chosen[:n_chosen])
            chosen[i] = ranking
            weight[i] += step
            n_chosen = max(n_chosen, i + 1)
        progress[0], progress[1], progress[2] = total, shift, n_chosen
    return len(rounds.alpha)
