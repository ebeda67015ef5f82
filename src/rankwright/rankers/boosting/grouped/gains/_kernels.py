"""From the changes at each code to the best cuts, and to the gains of cuts asked for."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def signed_gain(right, wrong, dust):
    """1 - Z of a weak ranking with these weights of pairs, with the sign of its alpha.

    Weights below ``dust`` are rounding, of which a root would make something: they count as zero.
    """
    right, wrong = right if right > dust else 0.0, wrong if wrong > dust else 0.0
    gain = right + wrong - 2.0 * np.sqrt(right * wrong)
    return gain if right > wrong else -gain


@njit(cache=True, nogil=True)
def best_changes(change, n_cuts, tolerance, dust):
    """The best cut of either sign from the changes at each code, which become sums above.

    After the call ``change[c + 1]`` holds the weights at cut c; cut -1 hits all.
    """
    above, below = change[n_cuts + 1, 0], change[n_cuts + 1, 1]
    high, high_cut, low, low_cut = 0.0, -2, 0.0, -2
    for cut in range(n_cuts - 1, -2, -1):
        above += change[cut + 1, 0]
        below += change[cut + 1, 1]
        change[cut + 1, 0], change[cut + 1, 1] = above, below
        if cut < 0:
            break
        # 1 - Z > least needs right + wrong - least > 2 sqrt(right wrong): no root in vain.
        right, wrong = above if above > dust else 0.0, below if below > dust else 0.0
        rest = right + wrong - tolerance - (high if right > wrong else -low)
        if rest > 0.0 and rest * rest > 3.999999 * right * wrong:
            gain = signed_gain(above, below, dust)
            if gain > high + tolerance:
                high, high_cut = gain, cut
            elif gain < low - tolerance:
                low, low_cut = gain, cut
    return high, high_cut, low, low_cut, signed_gain(above, below, dust)


@njit(cache=True, nogil=True)
def gains_of_changes(
    features, defaults, n_cuts, abstains, changes, tolerance, dust, asked_feature, asked_cut,
    asked_default, asked_gain, top, top_cut, bottom, bottom_cut, listed,
):  # fmt: skip
    """The best cuts of some features from their changes, and the gains of the cuts asked for.

    features, defaults   (n,) int64, the rows of ``changes`` (see level_changes)
    asked_*              (n_asked,) int64; asked_gain is written where it is of these features
    """
    for i in range(len(features)):
        feature, default, n = features[i], defaults[i], n_cuts[features[i]]
        none_hit = signed_gain(changes[i, n + 1, 0], changes[i, n + 1, 1], dust)
        high, high_cut, low, low_cut, all_hit = best_changes(changes[i], n, tolerance, dust)
        for q in range(2):
            if q == default or not abstains[feature]:
                top[q, feature], top_cut[q, feature] = high, high_cut
                bottom[q, feature], bottom_cut[q, feature] = low, low_cut
        if default == 0:
            listed[feature] = all_hit
        for a in range(len(asked_feature)):
            if asked_feature[a] != feature or (abstains[feature] and asked_default[a] != default):
                continue
            cut = asked_cut[a]
            weights = changes[i, cut + 1]
            asked_gain[a] = none_hit if cut == n else signed_gain(weights[0], weights[1], dust)
