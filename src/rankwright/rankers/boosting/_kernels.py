"""Scans over features for the threshold that orders the weighted pairs best.

A *cut* splits the values of a feature; rows above it are hit (h = 1), rows below are not, rows of
which the feature says nothing get a default. The *gain* of a cut is signed: positive where higher
values belong higher. A scan reports for each feature the best gain of either sign; which of them
may be used, and with which default, is decided afterwards by ``pick_cut``.

    potential   (n_rows,) float64
    codes       (n_features, n_rows) uint8: bin of each value, 255 where the feature abstains;
                cut c hits the codes > c
    order       (n_entries,) int32: rows by feature, values descending; ~row where a cut may come
                before the row
    ptr         (n_features + 1,) int64: where the entries of each feature start
    tolerance   float: gains that differ by less are the same, and the first one is kept
"""

import numpy as np
from numba import njit

ABSTAINS = 255


@njit(cache=True, nogil=True)
def sum_bins(codes, potential, first, last, sums):
    """Per feature first .. last and bin: the sum of the potentials. Four features at a time."""
    n = potential.shape[0]
    feature = first
    while feature + 4 <= last:
        a, b, c, d = codes[feature], codes[feature + 1], codes[feature + 2], codes[feature + 3]
        at_a, at_b = sums[feature], sums[feature + 1]
        at_c, at_d = sums[feature + 2], sums[feature + 3]
        at_a[:] = 0.0
        at_b[:] = 0.0
        at_c[:] = 0.0
        at_d[:] = 0.0
        for i in range(n):
            p = potential[i]
            at_a[a[i]] += p
            at_b[b[i]] += p
            at_c[c[i]] += p
            at_d[d[i]] += p
        feature += 4
    while feature < last:
        column, at = codes[feature], sums[feature]
        at[:] = 0.0
        for i in range(n):
            at[column[i]] += potential[i]
        feature += 1


@njit(cache=True, nogil=True)
def scan_bins(
    codes, potential, whole, n_cuts, abstains, first, last, tolerance, sums,
    top, top_cut, bottom, bottom_cut, listed,
):  # fmt: skip
    """WeakLearn.3 on bins.

    whole     float: the sum of all potentials (zero, where they come from pairs)
    n_cuts    (n_features,) int64
    abstains  (n_features,) bool: whether any row lacks the feature
    sums      (n_features, 256) float64: becomes the sum of the potentials above each cut
    top, top_cut, bottom, bottom_cut   (2, n_features), one row for each default   written
    listed    (n_features,): the gain of hitting every row that has the feature    written
    """
    sum_bins(codes, potential, first, last, sums)
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


@njit(cache=True, nogil=True)
def _scan_part(
    order, potential, start, begin, end, shift, tolerance, asked_cut, asked_sum, asked, asked_end,
    above, high, high_cut, low, low_cut,
):  # fmt: skip
    """Entries begin .. end of one feature; the state comes in and goes out."""
    k = begin
    while True:
        stop = end
        if asked < asked_end:
            stop = min(end, start + asked_cut[asked] - shift)
        for j in range(k, stop):
            entry = order[j]
            if entry < 0:
                if above > high + tolerance:
                    high, high_cut = above, j - start + shift
                if above < low - tolerance:
                    low, low_cut = above, j - start + shift
            above += potential[entry ^ (entry >> 31)]
        k = stop
        while asked < asked_end and start + asked_cut[asked] - shift == k:
            asked_sum[asked] = above
            asked += 1
        if k == end:
            return asked, above, high, high_cut, low, low_cut


@njit(cache=True, nogil=True)
def scan_sorted(
    order, ptr, implied, absent_ptr, absent_rows, potential, whole, abstains, first, last,
    tolerance, asked_ptr, asked_cut, asked_sum, top, top_cut, bottom, bottom_cut, listed,
):  # fmt: skip
    """WeakLearn.3 on every value (or on the values that are marked as cuts).

    implied      (n_features,) int64: before which entry the rows without entry come, as one group
                 of value zero; -1 where there are none, or where they abstain
    absent_ptr, absent_rows   rows that abstain although rows without entry do not
    whole        float: the sum of all potentials
    asked_*      further cuts whose sum above is wanted, by feature, ascending     asked_sum written

    Cut c hits the first c entries; the implied group counts as one entry.
    """
    for feature in range(first, last):
        start, stop, group = ptr[feature], ptr[feature + 1], implied[feature]
        asked, asked_end = asked_ptr[feature], asked_ptr[feature + 1]
        above, high, low, high_cut, low_cut = 0.0, -np.inf, np.inf, -2, -2
        begin, shift = start, 0
        if group >= 0:
            asked, above, high, high_cut, low, low_cut = _scan_part(
                order, potential, start, start, start + group, 0, tolerance, asked_cut, asked_sum,
                asked, asked_end, above, high, high_cut, low, low_cut,
            )  # fmt: skip
            begin, shift = start + group, 1
            if group > 0:
                if above > high + tolerance:
                    high, high_cut = above, group
                if above < low - tolerance:
                    low, low_cut = above, group
            # The potentials of all rows are known to add up to so much: the group is what is left.
            above = whole
            for k in range(absent_ptr[feature], absent_ptr[feature + 1]):
                above -= potential[absent_rows[k]]
            for k in range(begin, stop):
                above -= potential[order[k] ^ (order[k] >> 31)]
        asked, above, high, high_cut, low, low_cut = _scan_part(
            order, potential, start, begin, stop, shift, tolerance, asked_cut, asked_sum,
            asked, asked_end, above, high, high_cut, low, low_cut,
        )  # fmt: skip
        # Without abstention the sum is known but for rounding: that must not decide anything.
        all_listed = above if abstains[feature] else whole
        listed[feature] = all_listed
        for default in range(2):
            top[default, feature] = high - default * all_listed
            bottom[default, feature] = low - default * all_listed
            top_cut[default, feature] = high_cut
            bottom_cut[default, feature] = low_cut


@njit(cache=True, nogil=True)
def pair_factors(query_ptr, grade, query_weight, magnitude, shift, high, low, factor_ptr, factor):
    """For each query with few levels: what a pair of its levels multiplies rising * falling by.

    factor_ptr  (n_queries + 1,) int64: where the table (lower level, upper level) of a query
                starts; an empty table for queries with many levels
    """
    for query in range(len(query_ptr) - 1):
        if factor_ptr[query] == factor_ptr[query + 1]:
            continue
        start, n = query_ptr[query], query_ptr[query + 1] - query_ptr[query]
        for a in range(n):
            for b in range(a + 1, n):
                gap = grade[start + b] - grade[start + a] if magnitude[query] else 1.0
                factor[factor_ptr[query] + a * n + b] = (
                    query_weight[query] * gap * np.exp(high[start + a] - low[start + b] - shift)
                )


@njit(cache=True, nogil=True)
def _move_level(level, n, factor, at, rise, fall, lower_in, upper_in, lower_all, upper_all):
    """How the weights of rightly and wrongly ordered pairs change when this much of a level is hit.

    ``rise`` and ``fall`` of the level move from not hit to hit; other levels stay as they are.
    """
    right, wrong = 0.0, 0.0
    for a in range(level):
        c = factor[at + a * n + level] * fall
        right += c * (lower_all[a] - lower_in[a])
        wrong -= c * lower_in[a]
    for b in range(level + 1, n):
        c = factor[at + level * n + b] * rise
        right -= c * upper_in[b]
        wrong += c * (upper_all[b] - upper_in[b])
    lower_in[level] += rise
    upper_in[level] += fall
    return right, wrong


@njit(cache=True, nogil=True)
def _changes_of_query(
    members, codes, begin, end, level_of, level_ptr, first_level, n, factor, at, lower_sum,
    upper_sum, rising, falling, absent_hit, base, right, wrong,
):  # fmt: skip
    """Hit the members of one query, highest value first; add each change at the member's code.

    With ``absent_hit`` the members without an entry are hit before all others, at code ``base``.
    """
    lower_all, upper_all = np.empty(n), np.empty(n)
    lower_in, upper_in = np.zeros(n), np.zeros(n)
    for a in range(n):
        lower_all[a], upper_all[a] = lower_sum[first_level + a], upper_sum[first_level + a]
    if absent_hit:
        lower_out, upper_out = np.zeros(n), np.zeros(n)
        count = np.zeros(n, np.int64)
        for k in range(begin, end):
            a = level_of[members[k]] - first_level
            lower_out[a] += rising[members[k]]
            upper_out[a] += falling[members[k]]
            count[a] += 1
        for a in range(n):
            size = level_ptr[first_level + a + 1] - level_ptr[first_level + a]
            if count[a] < size:
                more, less = _move_level(
                    a, n, factor, at, lower_all[a] - lower_out[a], upper_all[a] - upper_out[a],
                    lower_in, upper_in, lower_all, upper_all,
                )  # fmt: skip
                right[base] += more
                wrong[base] += less
    for k in range(begin, end):
        member = members[k]
        more, less = _move_level(
            level_of[member] - first_level, n, factor, at, rising[member], falling[member],
            lower_in, upper_in, lower_all, upper_all,
        )  # fmt: skip
        right[codes[k]] += more
        wrong[codes[k]] += less


@njit(cache=True, nogil=True)
def level_changes(
    members, codes, start, stop, level_of, query_of, level_ptr, query_ptr, factor_ptr, factor,
    lower_sum, upper_sum, rising, falling, absent_hit, base, right, wrong,
):  # fmt: skip
    """One feature: how the two weights change at each code, query by query.

    members, codes   (n_entries,): members by feature and query, codes descending
    right, wrong     (base + 1,) float64, added to: index = code, ``base`` for rows that abstain
    """
    begin = start
    while begin < stop:
        query = query_of[members[begin]]
        end = begin + 1
        while end < stop and query_of[members[end]] == query:
            end += 1
        _changes_of_query(
            members, codes, begin, end, level_of, level_ptr, query_ptr[query],
            query_ptr[query + 1] - query_ptr[query], factor, factor_ptr[query], lower_sum,
            upper_sum, rising, falling, absent_hit, base, right, wrong,
        )  # fmt: skip
        begin = end


@njit(cache=True, nogil=True)
def pair_changes(code_of, lower, upper, share, absent_code, right, wrong):
    """The same for a list of pairs.

    code_of      (n_rows,) int32: the code of each row, -1 where the feature abstains
    absent_code  the code that abstention stands for: -1 (not hit) or the base (hit first)
    """
    for p in range(len(lower)):
        down, up = code_of[lower[p]], code_of[upper[p]]
        if down < 0:
            down = absent_code
        if up < 0:
            up = absent_code
        if up > down:
            right[up] += share[p]
            if down >= 0:
                right[down] -= share[p]
        elif down > up:
            wrong[down] += share[p]
            if up >= 0:
                wrong[up] -= share[p]


@njit(cache=True, nogil=True)
def signed_gain(right, wrong, dust):
    """1 - Z of a weak ranking with these weights of pairs, with the sign of its alpha.

    Weights below ``dust`` are rounding, of which a root would make something: they count as zero.
    """
    right, wrong = right if right > dust else 0.0, wrong if wrong > dust else 0.0
    gain = right + wrong - 2.0 * np.sqrt(right * wrong)
    return gain if right > wrong else -gain


@njit(cache=True, nogil=True)
def best_changes(right, wrong, n_cuts, tolerance, dust):
    """The best cut of either sign from the changes at each code, which become sums above.

    After the call ``right[c + 1]`` and ``wrong[c + 1]`` are the weights at cut c; cut -1 hits all.
    """
    above, below = right[n_cuts + 1], wrong[n_cuts + 1]
    high, high_cut, low, low_cut = 0.0, -2, 0.0, -2
    for cut in range(n_cuts - 1, -2, -1):
        above += right[cut + 1]
        below += wrong[cut + 1]
        right[cut + 1], wrong[cut + 1] = above, below
        if cut < 0:
            break
        # 1 - Z is never more than the difference of the weights: no root is taken in vain.
        if above - below > high + tolerance:
            gain = signed_gain(above, below, dust)
            if gain > high + tolerance:
                high, high_cut = gain, cut
        elif above - below < low - tolerance:
            gain = signed_gain(above, below, dust)
            if gain < low - tolerance:
                low, low_cut = gain, cut
    return high, high_cut, low, low_cut, signed_gain(above, below, dust)


@njit(cache=True, nogil=True)
def pick_cut(
    top, top_cut, bottom, bottom_cut, listed, abstains, direction, defaults, upward, margin
):
    """The best cut that may be used: (gain, feature, kind, default); gain 0 where there is none.

    direction  (n_features,) int8: +1 / -1 where only this sign may be used, 0 where both may
    defaults   (2,) bool: which defaults may be used
    upward     bool: whether "has the feature" may count upwards only, too
    margin     float: how much better a later candidate must be, so that rounding decides nothing
    kind       0 the top cut, 1 the bottom cut, 2 every row that has the feature, 3 every row
               that has it not
    """
    best, feature_at, kind_at, default_at = 0.0, -1, 0, 0
    for feature in range(len(direction)):
        for default in range(2):
            if not defaults[default]:
                continue
            if default == 1 and not abstains[feature] and defaults[0]:
                continue
            gain = top[default, feature]
            if direction[feature] >= 0 and top_cut[default, feature] >= 0:
                if gain > abs(best) + margin:
                    best, feature_at, kind_at, default_at = gain, feature, 0, default
            gain = bottom[default, feature]
            if direction[feature] <= 0 and bottom_cut[default, feature] >= 0:
                if -gain > abs(best) + margin:
                    best, feature_at, kind_at, default_at = gain, feature, 1, default
        if not abstains[feature]:
            continue
        gain = listed[feature]
        if defaults[0] and (gain > 0 or not upward) and abs(gain) > abs(best) + margin:
            best, feature_at, kind_at, default_at = gain, feature, 2, 0
        if defaults[1] and (gain < 0 or not upward) and abs(gain) > abs(best) + margin:
            best, feature_at, kind_at, default_at = -gain, feature, 3, 1
    return best, feature_at, kind_at, default_at


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


@njit(cache=True, nogil=True)
def group_by_query(order, member_ptr, member_list, query_of, query_start, codes, out, out_code):
    """The members of one feature, query by query, values descending inside each query.

    order        (n_listed,) rows, values descending
    member_ptr, member_list   the members of each row
    query_start  (n_queries + 1,) int64: working room, zeroed here
    """
    query_start[:] = 0
    for k in range(len(order)):
        row = order[k]
        for m in range(member_ptr[row], member_ptr[row + 1]):
            query_start[query_of[member_list[m]] + 1] += 1
    for query in range(1, len(query_start)):
        query_start[query] += query_start[query - 1]
    for k in range(len(order)):
        row = order[k]
        for m in range(member_ptr[row], member_ptr[row + 1]):
            member = member_list[m]
            at = query_start[query_of[member]]
            out[at] = member
            out_code[at] = codes[row]
            query_start[query_of[member]] += 1
    return query_start[len(query_start) - 1]
