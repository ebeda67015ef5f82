"""What all scans over features share: bins and codes of a feature, and which cut is taken.

A *cut* splits the values of a feature; rows above it are hit (h = 1), rows below are not, rows of
which the feature says nothing get a default. The *gain* of a cut is signed: positive where higher
values belong higher. A scan reports for each feature the best gain of either sign; which of them
may be used, and with which default, is decided afterwards by ``pick_cut``.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def better_of(
    best, feature, top, top_else, bottom, bottom_else, listed, abstains, direction, defaults,
    upward, margin,
):  # fmt: skip
    """The better of ``best`` (gain, feature, kind, default) and what one feature has to offer.

    top, bottom            its best gains upwards and downwards where rows that lack it get 0
    top_else, bottom_else  the same where they get 1 (no cut: -inf upwards, inf downwards)
    """
    for default in range(2):
        if not defaults[default]:
            continue
        if default == 1 and not abstains and defaults[0]:
            continue
        gain = top_else if default else top
        if direction >= 0 and gain > abs(best[0]) + margin:
            best = (gain, feature, 0, default)
        gain = bottom_else if default else bottom
        if direction <= 0 and -gain > abs(best[0]) + margin:
            best = (gain, feature, 1, default)
    if abstains:
        if defaults[0] and (listed > 0 or not upward) and abs(listed) > abs(best[0]) + margin:
            best = (listed, feature, 2, 0)
        if defaults[1] and (listed < 0 or not upward) and abs(listed) > abs(best[0]) + margin:
            best = (-listed, feature, 3, 1)
    return best


@njit(cache=True, nogil=True)
def pick_cut(top, bottom, listed, abstains, direction, defaults, upward, margin):
    """The best cut that may be used: (gain, feature, kind, default); gain 0 where there is none.

    direction  (n_features,) int8: +1 / -1 where only this sign may be used, 0 where both may
    defaults   (2,) bool: which defaults may be used
    upward     bool: whether "has the feature" may count upwards only, too
    margin     float: how much better a later candidate must be, so that rounding decides nothing
    kind       0 the top cut, 1 the bottom cut, 2 every row that has the feature, 3 every row
               that has it not
    """
    best = (0.0, -1, 0, 0)
    for feature in range(len(direction)):
        best = better_of(
            best, feature, top[0, feature], top[1, feature], bottom[0, feature],
            bottom[1, feature], listed[feature], abstains[feature], direction[feature], defaults,
            upward, margin,
        )  # fmt: skip
    return best


@njit(cache=True, nogil=True)
def weighted_sum(rows, values, base, potential):
    """The sum of potential * (value - base) over some rows, one after the other."""
    total = 0.0
    for k in range(len(rows)):
        total += potential[rows[k]] * (values[k] - base)
    return total


@njit(cache=True, nogil=True)
def find_bins(mass, max_bins, starts):
    """Cut distinct values (ascending) into at most max_bins bins of about equal mass.

    A value that fills a bin by itself gets one of its own.
    starts  (n_values,) bool: set where a new bin begins
    """
    n = len(mass)
    starts[:] = False
    if n <= max_bins:
        starts[1:] = True
        return
    total = mass.sum()
    fair = total / max_bins
    left, room = total, max_bins
    for i in range(n):
        if mass[i] >= fair:
            left -= mass[i]
            room -= 1
    big = fair
    fair = left / max(room, 1)
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
                room -= 1
                fair = left / max(room, 1)


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
