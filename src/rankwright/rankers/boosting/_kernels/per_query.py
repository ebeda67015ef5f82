"""Queries with many levels: sums over levels in binary indexed trees, O(log levels) a member."""

from __future__ import annotations

import numpy as np
from numba import njit

MAX_LEVELS = 8  # of a query that is described by a few numbers; the others have trees


@njit(cache=True, nogil=True)
def _read_write(number, level, n, rise, fall, factors):
    """How a member of a level reads and writes one of the numbers that a scan keeps of a query.

    Of n levels it keeps 2n - 2 numbers: for each level but the lowest, the weight per unit of
    ``falling`` of the pairs down to members that were hit; for each but the highest, the weight per
    unit of ``rising`` of the pairs up to members that were hit.
    """
    if number < n - 1:
        upper = number + 1
        return (fall if level == upper else 0.0), (
            factors[level, upper] * rise if level < upper else 0.0
        )
    lower = number - (n - 1)
    if lower >= n - 1:
        return 0.0, 0.0
    return (rise if level == lower else 0.0), (
        factors[lower, level] * fall if level > lower else 0.0
    )


@njit(cache=True, nogil=True)
def describe_members(
    first, last, level_ptr, query_ptr, grade, query_weight, magnitude, shift, high, low, lower_sum,
    upper_sum, rising, falling, factor_ptr, all_factors, quad_ptr, quads, sides,
):  # fmt: skip
    """Queries first .. last: all that hitting a member does, as a few numbers to read and write.

    factor_ptr  (n_queries + 1,) int64: where the factors of a query start; it has none if it has
                too many levels for this
    all_factors [lower level, upper level] is what rising * falling is multiplied by    written
    quad_ptr    (n_queries,) int64: where the quads of a query start: those for its first four
                numbers, one for each member, then those for the next four
    quads       (n_quads, 8) float64: what a member reads of four numbers by, what it adds  written
    sides       (n_members, 2) float64: the weight of all pairs as upper, and as lower      written
    """
    for query in range(first, last):
        start, n = query_ptr[query], query_ptr[query + 1] - query_ptr[query]
        if factor_ptr[query + 1] == factor_ptr[query]:
            continue
        factors = all_factors[factor_ptr[query] : factor_ptr[query + 1]].reshape(n, n)
        for a in range(n):
            for b in range(a + 1, n):
                gap = grade[start + b] - grade[start + a] if magnitude[query] else 1.0
                factors[a, b] = (
                    query_weight[query] * gap * np.exp(high[start + a] - low[start + b] - shift)
                )
        first_member, n_members = level_ptr[start], level_ptr[start + n] - level_ptr[start]
        for level in range(n):
            below, above = 0.0, 0.0
            for other in range(level):
                below += factors[other, level] * lower_sum[start + other]
            for other in range(level + 1, n):
                above += factors[level, other] * upper_sum[start + other]
            begin, end = level_ptr[start + level], level_ptr[start + level + 1]
            for k in range(begin, end):
                sides[k, 0], sides[k, 1] = falling[k] * below, rising[k] * above
            for number in range(n // 2 * 4):
                by_rise = _read_write(number, level, n, 1.0, 0.0, factors)
                by_fall = _read_write(number, level, n, 0.0, 1.0, factors)
                offset = quad_ptr[query] + number // 4 * n_members - first_member
                column = number % 4
                for k in range(begin, end):
                    at = k + offset
                    quads[at, column] = by_rise[0] * rising[k] + by_fall[0] * falling[k]
                    quads[at, column + 4] = by_rise[1] * rising[k] + by_fall[1] * falling[k]


@njit(cache=True, nogil=True)
def _hit_absent(
    members, begin, end, level_of, level_ptr, first_level, factors, lower_sum, upper_sum, rising,
    falling, state,
):  # fmt: skip
    """Hit the members of a query that have no entry, level by level; what that changes."""
    right, wrong, n = 0.0, 0.0, len(factors)
    state[:] = 0.0
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
        for other in range(level):
            right += fall * factors[other, level] * lower_sum[first_level + other]
        for other in range(level + 1, n):
            wrong += rise * factors[level, other] * upper_sum[first_level + other]
        both = 0.0
        for number in range(2 * n - 2):
            read, write = _read_write(number, level, n, rise, fall, factors)
            both += read * state[number]
            state[number] += write
        right -= both
        wrong -= both
    return right, wrong


@njit(cache=True, nogil=True)
def _hit_run(members, begin, end, quads, shift, state, number, both):
    """Hit members one by one; adds to ``both`` the weight of their pairs with those hit before.

    quads  the four numbers of a member are in row ``member + shift``
    state  how the numbers start; these four from ``number`` on
    """
    a, b, c, d = state[number], state[number + 1], state[number + 2], state[number + 3]
    for k in range(begin, end):
        at = np.uint64(members[k] + shift)  # unsigned: an index that cannot be negative is cheaper
        both[k - begin] += (quads[at, 0] * a + quads[at, 1] * b) + (
            quads[at, 2] * c + quads[at, 3] * d
        )
        a += quads[at, 4]
        b += quads[at, 5]
        c += quads[at, 6]
        d += quads[at, 7]


@njit(cache=True, nogil=True)
def level_changes(
    features, members, codes, run_ptr, level_of, level_ptr, query_ptr, factor_ptr, all_factors,
    quad_ptr, quads, sides, lower_sum, upper_sum, rising, falling, absent_hit, bases, changes,
):  # fmt: skip
    """Some features: how the weights of right and wrong pairs change at each code.

    Query by query, members are hit in the order of descending values; what each changes is added at
    its code. A pair of which both are hit is neither right nor wrong any more: so a member changes
    the two weights by that of its pairs as upper (as lower), less that of its pairs with members
    that were hit before.

    features       (n,) int64
    members, codes (n_entries,): members by feature and query, codes descending
    run_ptr        (n_features, n_queries + 1) int64: where the entries of a query start
    level_of       (n_members,) int32: the level inside the query
    absent_hit     (n,) bool: whether members without entry are hit before all others, at the base
    bases          (n,) int64: the index for members without entry, one above the highest code
    changes        (n, max(bases) + 1, 2) float64, added to
    """
    n_queries = len(query_ptr) - 1
    longest = 0
    for query in range(n_queries):
        n = level_ptr[query_ptr[query + 1]] - level_ptr[query_ptr[query]]
        longest = max(longest, n)
    both, state = np.empty(longest), np.zeros(4 * MAX_LEVELS)
    # A few queries at a time: then both they and the codes of a feature stay in the cache.
    for block in range(0, n_queries, 8):
        for i in range(len(features)):
            for query in range(block, min(block + 8, n_queries)):
                begin, end = run_ptr[features[i], query], run_ptr[features[i], query + 1]
                n = query_ptr[query + 1] - query_ptr[query]
                if begin == end or factor_ptr[query + 1] == factor_ptr[query]:
                    continue
                first_level = query_ptr[query]
                first, last = level_ptr[first_level], level_ptr[first_level + n]
                state[:] = 0.0
                if absent_hit[i]:
                    factors = all_factors[factor_ptr[query] : factor_ptr[query + 1]].reshape(n, n)
                    more, less = _hit_absent(
                        members, begin, end, level_of, level_ptr, first_level, factors, lower_sum,
                        upper_sum, rising, falling, state,
                    )  # fmt: skip
                    changes[i, bases[i], 0] += more
                    changes[i, bases[i], 1] += less
                both[: end - begin] = 0.0
                for quad in range(n // 2):
                    shift = quad_ptr[query] + quad * (last - first) - first
                    _hit_run(members, begin, end, quads, shift, state, 4 * quad, both)
                for k in range(begin, end):
                    member, code = np.uint32(members[k]), np.uint32(codes[k])
                    changes[i, code, 0] += sides[member, 0] - both[k - begin]
                    changes[i, code, 1] += sides[member, 1] - both[k - begin]


@njit(cache=True, nogil=True)
def pair_changes(code_of, lower, upper, share, absent_code, change):
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
            change[up, 0] += share[p]
            if down >= 0:
                change[down, 0] -= share[p]
        elif down > up:
            change[down, 1] += share[p]
            if up >= 0:
                change[up, 1] -= share[p]


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
    """Hit a member, with sums over levels in binary indexed trees: what that changes.

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
    as_low, as_up, lower_sum, upper_sum, rising, falling, absent_hit, bases, changes,
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
                    changes[i, bases[i], 0] += more
                    changes[i, bases[i], 1] += less
        for k in range(begin, end):
            member = members[k]
            more, less = _move_wide(
                level_of[member], n, y, gaps, low, up, rising[member], falling[member], lower,
                upper, all_lower, all_upper,
            )  # fmt: skip
            changes[i, codes[k], 0] += more
            changes[i, codes[k], 1] += less
