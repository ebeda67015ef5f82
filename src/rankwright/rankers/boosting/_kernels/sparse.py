"""All rounds of WeakLearn.3 without a way back to Python.

A *cut* of a feature is the number of its bins that are hit, from the highest value down: 0 hits
none of the rows that have the feature, as many as there are bins hits all of them.

    ptr        (n_rows + 1,) int64: where the entries of each row start
    bins       (n_entries,) uint32: the bin of each entry
    bin_ptr    (n_features + 1,) int64: where the bins of each feature start

Numba does not notice when functions imported from other files change: touch this file then.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankwright.feedback._kernels.levels import level_potentials
from rankwright.rankers.boosting._kernels.cuts import better_of


@njit(cache=True, nogil=True)
def sort_entries(feature, value, first, order, starts):
    """Order entries by feature, values descending, equal values as they came.

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
        mine = order[first[f] : first[f + 1]]
        mine[:] = mine[np.argsort(-value[mine], kind="mergesort")]
        for k in range(len(mine)):
            starts[first[f] + k] = k == 0 or value[mine[k]] < value[mine[k - 1]]


@njit(cache=True, nogil=True)
def sum_entries(ptr, bins, potential, sums):
    """Per bin: the sum of the potentials of its rows."""
    sums[:] = 0.0
    for row in range(len(ptr) - 1):
        p = potential[row]
        for k in range(ptr[row], ptr[row + 1]):
            sums[bins[k]] += p


@njit(cache=True, nogil=True)
def find_best(bin_ptr, abstains, direction, defaults, upward, margin, sums, listed):
    """The best cut that may be used: (gain, feature, cut, default); gain 0 where there is none.

    sums    (n_bins,) float64: the sum of each bin; becomes that of all bins down to it
    listed  (n_features,): the sum over all rows that have the feature          written
    direction, defaults, upward, margin   as in pick_cut
    """
    best, best_cut = (0.0, -1, 0, 0), 0
    for feature in range(len(abstains)):
        start, n_bins = bin_ptr[feature], bin_ptr[feature + 1] - bin_ptr[feature]
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
        if n_bins and abstains[feature]:
            everything = above + sums[start + n_bins - 1]
        listed[feature] = everything
        if n_bins:
            sums[start + n_bins - 1] = everything
        # No gain of this feature is larger; so most features need no closer look.
        if max(high, -low, 0.0) + abs(everything) > abs(best[0]) + margin:
            best = better_of(
                best, feature, high, high - everything, low, low - everything, everything,
                abstains[feature], direction[feature], defaults, upward, margin,
            )  # fmt: skip
            if best[1] == feature:
                best_cut = (high_cut, low_cut, n_bins, 0)[best[2]]
    return best[0], best[1], best_cut, best[3]


@njit(cache=True, nogil=True)
def edge_weight(r, smoothing):
    """Method 3, as alpha.from_edge."""
    limit = 1.0 - 2.0 * smoothing
    r = min(max(r, -limit), limit)
    return 0.5 * math.log((1.0 + r) / (1.0 - r))


@njit(cache=True, nogil=True)
def step_back(best, bin_ptr, sums, listed, total, margin, smoothing, chosen, weight, n_chosen):
    """The best ranking against its direction that keeps its sign, if better than ``best``.

    chosen  (n, 3) int64: feature, cut and default of the rankings chosen so far
    weight  (n,) float64: their weights, added up
    """
    least = abs(best[0]) + margin
    for i in range(n_chosen):
        feature, cut, default = chosen[i, 0], chosen[i, 1], chosen[i, 2]
        gain = sums[bin_ptr[feature] + cut - 1] if cut else 0.0
        gain -= default * listed[feature]
        if abs(gain) > least and gain * weight[i] < 0:
            if abs(edge_weight(gain / total, smoothing)) < abs(weight[i]):
                best, least = (gain, feature, cut, default), abs(gain)
    return best


@njit(cache=True, nogil=True)
def place_of(feature, cut, default, chosen, n_chosen):
    """Where in ``chosen`` a ranking stands, or may be put."""
    for i in range(n_chosen):
        if chosen[i, 0] == feature and chosen[i, 1] == cut and chosen[i, 2] == default:
            return i
    return n_chosen


@njit(cache=True, nogil=True)
def mark_hit(ptr, bins, bin_ptr, feature, cut, default, hit):
    """Which rows a cut hits (1)."""
    start, stop = bin_ptr[feature], bin_ptr[feature + 1]
    for row in range(len(hit)):
        hit[row] = default
        # Entries of a row go up by feature.
        k = ptr[row] + np.searchsorted(bins[ptr[row] : ptr[row + 1]], start)
        if k < ptr[row + 1] and bins[k] < stop:
            hit[row] = bins[k] < start + cut


@njit(cache=True, nogil=True)
def boost(
    ptr, bins, bin_ptr, abstains, scores, potential, levels, room, direction, signed, upward,
    defaults, smoothing, margin, state, chosen, weight, found, alpha, log_weight,
):  # fmt: skip
    """Rounds of WeakLearn.3, as many as there is room for; returns how many there were.

    levels      tuple: what describes the levels in level_potentials, rows first
    room        tuple: where level_potentials writes, high first
    direction   (n_features,) int8: +1 / -1 where only this sign may be used, 0 where both may
    signed      bool: whether the first threshold of a feature fixes its direction
    upward      bool: whether every feature counts upwards only
    state       (3,) float64: the weight of all pairs over that one round ago, its logarithm,
                and how many rankings are in ``chosen``                          written
    chosen, weight   as in step_back; none are kept if not signed and not upward
    found       (n_estimators, 3) int64: feature, cut and default of each round      written
    alpha       (n_estimators,) float64: its weight                                  written
    log_weight  (n_estimators,) float64: the log of the weight of all pairs after it written
    """
    n_queries = len(levels[3]) - 1
    sums, listed = np.zeros(bin_ptr[-1]), np.zeros(len(abstains))
    hit, no_mass = np.zeros(len(scores), np.uint8), np.zeros(0)
    total, shift, n_chosen = state[0], state[1], int(state[2])
    for number in range(len(alpha)):
        slack = margin * total
        sum_entries(ptr, bins, potential, sums)
        best = find_best(bin_ptr, abstains, direction, defaults, upward, slack, sums, listed)
        best = step_back(
            best, bin_ptr, sums, listed, total, slack, smoothing, chosen, weight, n_chosen
        )
        gain, feature, cut, default = best
        if feature < 0:
            return number
        step = edge_weight(gain / total, smoothing)
        mark_hit(ptr, bins, bin_ptr, feature, cut, default, hit)
        level_potentials(
            scores, hit, step, True, *levels, True, 0, n_queries, shift, 1.0, *room, potential,
            no_mass,
        )  # fmt: skip
        total = room[-1].sum()
        shift += math.log(total)
        found[number, 0], found[number, 1], found[number, 2] = feature, cut, default
        alpha[number], log_weight[number] = step, shift
        whole = cut == 0 or cut == bin_ptr[feature + 1] - bin_ptr[feature]
        if upward or (signed and not whole):
            if direction[feature] == 0:
                direction[feature] = 1 if step > 0 else -1
            place = place_of(feature, cut, default, chosen, n_chosen)
            chosen[place] = found[number]
            weight[place] += step
            n_chosen = max(n_chosen, place + 1)
        state[0], state[1], state[2] = total, shift, n_chosen
    return len(alpha)
