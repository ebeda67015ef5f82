"""What all searches for thresholds share: bins of a feature, and the choice of the best cut.

A *cut* splits the values of a feature: h = 1 above it, h = 0 below it, and a default for the rows
that lack the feature. The *gain* of a cut is signed: positive where higher values belong higher. A
scan reports for each feature the best gain of either sign; ``pick_cut`` decides which of them may
be used, and with which default.
"""

from __future__ import annotations

from numba import njit


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
        # the feature the data say nothing of it, and it is 0.)
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
    best = (0.0, -1, 0, 0)
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
def find_bins(mass, max_bins, starts):
    """Group distinct values (ascending) into at most max_bins bins of about equal mass.

    A value that fills a bin by itself gets its own.
    starts  (n_values,) bool: set where a new bin begins
    """
    n = len(mass)
    starts[:] = False
    if n <= max_bins:
        starts[1:] = True
        return
    total = mass.sum()
    fair = total / max_bins
    left, n_left = total, max_bins
    for i in range(n):
        if mass[i] >= fair:
            left -= mass[i]
            n_left -= 1
    big = fair
    fair = left / max(n_left, 1)
    held, used = 0.0, 1
    for i in range(n - 1):
        held += mass[i]
        alone = mass[i] >= big
        if not alone:
            left -= mass[i]
        if alone or held >= fair or (mass[i + 1] >= big and held >= 0.5 * fair):
            starts[i + 1] = True
            used += 1
            held = 0.0
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
