"""WeakLearn.2: the weights of the pairs that every cut of a feature orders rightly and wrongly.

Going down through the values of a feature, each row that is hit changes the two weights by sums
over the levels of its own query. So queries are gone through one by one, each in the order of
the feature; what a row changes is noted at its code, and a sum over codes gives all cuts at once.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def pair_factors(
    query_ptr, grade, query_weight, magnitude, shift, high, low, widths, table_ptr, tables
):
    """For each query with few levels: what a pair of its levels multiplies rising * falling by.

    widths     (n_queries,) int64: how many levels the tables of a query have room for; 0: no tables
    table_ptr  (n_queries,) int64: where the two tables (level, level) of a query start
    tables     [level, other] is the factor where the other level is the upper, then where it is
               the lower; zero elsewhere                                            written
    """
    for query in range(len(query_ptr) - 1):
        width, at = widths[query], table_ptr[query]
        if width == 0:
            continue
        start, n = query_ptr[query], query_ptr[query + 1] - query_ptr[query]
        for a in range(n):
            for b in range(a + 1, n):
                gap = grade[start + b] - grade[start + a] if magnitude[query] else 1.0
                factor = (
                    query_weight[query] * gap * np.exp(high[start + a] - low[start + b] - shift)
                )
                tables[at + a * width + b] = factor
                tables[at + width * width + b * width + a] = factor


def _run_of_width(width):
    """A loop over the entries of one query and feature, for tables with so many levels."""

    @njit(cache=True, nogil=True)
    def run(
        members, codes, begin, end, level_of, at, tables, rising, falling, below, above, all_below,
        all_above, right, wrong,
    ):  # fmt: skip
        """Hit the members one by one; add what that changes to right and wrong at their codes.

        below[l]  weight that a member of level l has as the upper of pairs whose lower is hit
        above[l]  weight that it has as the lower of pairs whose upper is hit
        all_*     the same, whether hit or not
        """
        for k in range(begin, end):
            member, code = members[k], codes[k]
            level, rise, fall = level_of[member], rising[member], falling[member]
            right[code] += fall * (all_below[level] - below[level]) - rise * above[level]
            wrong[code] += rise * (all_above[level] - above[level]) - fall * below[level]
            # Over all levels, most of them with factor zero: a loop of known length is unrolled.
            row = at + level * width
            for other in range(width):
                below[other] += tables[row + other] * rise
            for other in range(width):
                above[other] += tables[row + width * width + other] * fall

    return run


_run_4, _run_8, _run_32 = _run_of_width(4), _run_of_width(8), _run_of_width(32)


@njit(cache=True, nogil=True)
def _hit_absent(
    members, begin, end, level_of, level_ptr, first_level, n, width, at, tables, lower_sum,
    upper_sum, rising, falling, below, above, all_below, all_above,
):  # fmt: skip
    """Hit the members of a query that have no entry, level by level; what that changes."""
    right, wrong = 0.0, 0.0
    for level in range(n):
        left = level_ptr[first_level + level + 1] - level_ptr[first_level + level]
        rise, fall = lower_sum[first_level + level], upper_sum[first_level + level]
        for k in range(begin, end):
            if level_of[members[k]] == level:
                rise -= rising[members[k]]
                fall -= falling[members[k]]
                left -= 1
        if left == 0:  # what is left of the sums is rounding
            continue
        right += fall * (all_below[level] - below[level]) - rise * above[level]
        wrong += rise * (all_above[level] - above[level]) - fall * below[level]
        for other in range(n):
            below[other] += tables[at + level * width + other] * rise
            above[other] += tables[at + width * width + level * width + other] * fall
    return right, wrong


@njit(cache=True, nogil=True)
def level_changes(
    features, members, codes, run_ptr, level_of, level_ptr, query_ptr, widths, table_ptr, tables,
    lower_sum, upper_sum, rising, falling, absent_hit, bases, right, wrong,
):  # fmt: skip
    """Some features: how the weights of right and wrong pairs change at each code.

    Query by query, members are hit in the order of descending values; what each changes is added at
    its code. A few features together, so that a query's numbers are in the cache for all of them.

    features       (n,) int64
    members, codes (n_entries,): members by feature and query, codes descending
    run_ptr        (n_features, n_queries + 1) int64: where the entries of a query start
    level_of       (n_members,) int32: the level inside the query
    absent_hit     (n,) bool: whether members without entry are hit before all others, at the base
    bases          (n,) int64: the index for members without entry, one above the highest code
    right, wrong   (n, max(bases) + 1) float64, added to
    """
    below, above = np.zeros(32), np.zeros(32)
    all_below, all_above = np.zeros(32), np.zeros(32)
    for query in range(len(query_ptr) - 1):
        at, width = table_ptr[query], widths[query]
        if width == 0:
            continue
        base_level, n = query_ptr[query], query_ptr[query + 1] - query_ptr[query]
        for level in range(n):
            all_below[level], all_above[level] = 0.0, 0.0
            for other in range(n):
                row = at + level * width + other
                all_below[level] += tables[row + width * width] * lower_sum[base_level + other]
                all_above[level] += tables[row] * upper_sum[base_level + other]
        for i in range(len(features)):
            begin, end = run_ptr[features[i], query], run_ptr[features[i], query + 1]
            if begin == end:
                continue
            below[:] = 0.0
            above[:] = 0.0
            if absent_hit[i]:
                more, less = _hit_absent(
                    members, begin, end, level_of, level_ptr, base_level, n, width, at, tables,
                    lower_sum, upper_sum, rising, falling, below, above, all_below, all_above,
                )  # fmt: skip
                right[i, bases[i]] += more
                wrong[i, bases[i]] += less
            if width == 4:
                _run_4(
                    members, codes, begin, end, level_of, at, tables, rising, falling, below, above,
                    all_below, all_above, right[i], wrong[i],
                )  # fmt: skip
            elif width == 8:
                _run_8(
                    members, codes, begin, end, level_of, at, tables, rising, falling, below, above,
                    all_below, all_above, right[i], wrong[i],
                )  # fmt: skip
            else:
                _run_32(
                    members, codes, begin, end, level_of, at, tables, rising, falling, below, above,
                    all_below, all_above, right[i], wrong[i],
                )  # fmt: skip


@njit(cache=True, nogil=True)
def _add_at(trees, place, amount, y):
    """Add to two binary indexed trees: the amount, and the amount times y."""
    place += 1
    while place < trees.shape[1]:
        trees[0, place] += amount
        trees[1, place] += amount * y
        place += place & -place


@njit(cache=True, nogil=True)
def _gapped_before(trees, place, y, gaps):
    """The sum before a place, each amount times its gap to y (times one without gaps)."""
    plain, gapped = 0.0, 0.0
    while place > 0:
        plain += trees[0, place]
        gapped += trees[1, place]
        place -= place & -place
    return y * plain - gapped if gaps else plain


@njit(cache=True, nogil=True)
def _move_wide(level, n, y, gaps, as_low, as_up, rise, fall, lower, upper, all_lower, all_upper):
    """As _move_member, with sums over levels in binary indexed trees.

    lower, upper      (2, n + 1): what is hit; the upper ones count levels from the top, -y for y
    all_lower, all_upper   the same for all members
    """
    mirror = n - 1 - level
    below = as_up[level] * _gapped_before(lower, level, y[level], gaps)
    above = as_low[level] * _gapped_before(upper, mirror, -y[level], gaps)
    all_below = as_up[level] * _gapped_before(all_lower, level, y[level], gaps)
    all_above = as_low[level] * _gapped_before(all_upper, mirror, -y[level], gaps)
    _add_at(lower, level, as_low[level] * rise, y[level])
    _add_at(upper, mirror, as_up[level] * fall, -y[level])
    return fall * (all_below - below) - rise * above, rise * (all_above - above) - fall * below


@njit(cache=True, nogil=True)
def wide_changes(
    query, features, members, codes, run_ptr, level_of, level_ptr, query_ptr, grade, magnitude,
    as_low, as_up, lower_sum, upper_sum, rising, falling, absent_hit, bases, right, wrong,
):  # fmt: skip
    """As level_changes, for one query with many levels: O(log levels) a member.

    as_low, as_up  (n_levels,) float64: factors of a level as the lower and as the upper of pairs
    """
    first, n = query_ptr[query], query_ptr[query + 1] - query_ptr[query]
    y, gaps = grade[first : first + n] - grade[first], magnitude[query]
    low, up = as_low[first : first + n], as_up[first : first + n]
    all_lower, all_upper = np.zeros((2, n + 1)), np.zeros((2, n + 1))
    for level in range(n):
        _add_at(all_lower, level, low[level] * lower_sum[first + level], y[level])
        _add_at(all_upper, n - 1 - level, up[level] * upper_sum[first + level], -y[level])
    for i in range(len(features)):
        begin, end = run_ptr[features[i], query], run_ptr[features[i], query + 1]
        lower, upper = np.zeros((2, n + 1)), np.zeros((2, n + 1))
        if absent_hit[i]:
            rest_low = lower_sum[first : first + n].copy()
            rest_up = upper_sum[first : first + n].copy()
            left = np.diff(level_ptr[first : first + n + 1])
            for k in range(begin, end):
                level = level_of[members[k]]
                rest_low[level] -= rising[members[k]]
                rest_up[level] -= falling[members[k]]
                left[level] -= 1
            for level in range(n):
                if left[level] > 0:
                    more, less = _move_wide(
                        level, n, y, gaps, low, up, rest_low[level], rest_up[level], lower, upper,
                        all_lower, all_upper,
                    )  # fmt: skip
                    right[i, bases[i]] += more
                    wrong[i, bases[i]] += less
        for k in range(begin, end):
            member = members[k]
            more, less = _move_wide(
                level_of[member], n, y, gaps, low, up, rising[member], falling[member], lower,
                upper, all_lower, all_upper,
            )  # fmt: skip
            right[i, codes[k]] += more
            wrong[i, codes[k]] += less


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
def gains_of_changes(
    features, defaults, n_cuts, abstains, right, wrong, tolerance, dust, asked_feature, asked_cut,
    asked_default, asked_gain, top, top_cut, bottom, bottom_cut, listed,
):  # fmt: skip
    """The best cuts of some features from their changes, and the gains of the cuts asked for.

    features, defaults   (n,) int64, the rows of ``right`` and ``wrong`` (see level_changes)
    asked_*              (n_asked,) int64; asked_gain is written where it is of these features
    """
    for i in range(len(features)):
        feature, default, n = features[i], defaults[i], n_cuts[features[i]]
        none_hit = signed_gain(right[i, n + 1], wrong[i, n + 1], dust)
        high, high_cut, low, low_cut, all_hit = best_changes(right[i], wrong[i], n, tolerance, dust)
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
            asked_gain[a] = (
                none_hit if cut == n else signed_gain(right[i, cut + 1], wrong[i, cut + 1], dust)
            )


@njit(cache=True, nogil=True)
def group_by_query(order, member_ptr, member_list, query_of, query_start, codes, out, out_code):
    """The members of one feature, query by query, values descending inside each query.

    order        (n_listed,) rows, values descending
    member_ptr, member_list   the members of each row
    query_start  (n_queries + 1,) int64: where the members of each query start    written
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
    # Each start has moved to the end of its query, which is where the next one starts.
    for query in range(len(query_start) - 1, 0, -1):
        query_start[query] = query_start[query - 1]
    query_start[0] = 0
    return query_start[len(query_start) - 1]
