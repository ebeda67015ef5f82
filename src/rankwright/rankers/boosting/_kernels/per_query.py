"""Criterion z: the weights of the pairs that each cut orders rightly and wrongly, query by query.

Going down through the values of a feature, documents are *raised* (h becomes 1) one by one. A pair
with both documents raised is ordered neither way: so raising a document changes the weight of the
right (wrong) pairs by that of its pairs as upper (lower), less that of its pairs with documents
raised before. Queries with few levels keep that as a few numbers, those with many in Fenwick trees,
O(log levels) a document.

The weight of a pair is rising * falling * factor: ``rising`` belongs to the lower document,
``falling`` to the upper one, the factor to their two levels. So the numbers of a query are sums
over its raised documents. A document reads some of them and adds to some; which ones depends on its
level alone. ``describe_documents`` writes these coefficients once a round, four numbers to a row of
``quads``; then every feature runs through its documents with multiplications and additions only.

levels, state  GradeGroups and LevelState, of rankwright.feedback.pair_weights
effects        Effects, of query_splitting
block          FeatureBlock, of query_splitting
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwright._typing import FloatArray
from rankwright.feedback._kernels.levels import add_at, gapped_before
from rankwright.runtime.kernels import njit

MAX_LEVELS = 8  # of a query that is described by a few numbers; the others have trees


@njit(cache=True, nogil=True)
def _read_write(number, level, n, rise, fall, factors):
    """How a document of a level reads and writes one of the numbers that are kept of a query.

    Of n levels there are 2n - 2 numbers: for each level but the lowest, the weight per unit of
    ``falling`` of the pairs down to raised documents; for each but the highest, the weight per unit
    of ``rising`` of the pairs up to raised documents.
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
def describe_documents(levels, state, effects, shift, first, last):
    """Queries first .. last: write all that raising a document does to ``effects``."""
    query_ptr, level_ptr, grade = levels.query_ptr, levels.level_ptr, levels.grade
    rising, falling, quads = state.rising, state.falling, effects.quads
    for query in range(first, last):
        start, n = query_ptr[query], query_ptr[query + 1] - query_ptr[query]
        begin, end = effects.factor_ptr[query], effects.factor_ptr[query + 1]
        if begin == end:
            continue
        factors = effects.factors[begin:end].reshape(n, n)
        for a in range(n):
            for b in range(a + 1, n):
                gap = grade[start + b] - grade[start + a] if levels.magnitude[query] else 1.0
                exponent = state.high[start + a] - state.low[start + b] - shift
                factors[a, b] = levels.query_weight[query] * gap * np.exp(exponent)
        first_document, n_documents = level_ptr[start], level_ptr[start + n] - level_ptr[start]
        for level in range(n):
            below, above = 0.0, 0.0
            for other in range(level):
                below += factors[other, level] * state.lower_sum[start + other]
            for other in range(level + 1, n):
                above += factors[level, other] * state.upper_sum[start + other]
            begin, end = level_ptr[start + level], level_ptr[start + level + 1]
            for k in range(begin, end):
                effects.sides[k, 0], effects.sides[k, 1] = falling[k] * below, rising[k] * above
            for number in range(n // 2 * 4):
                by_rise = _read_write(number, level, n, 1.0, 0.0, factors)
                by_fall = _read_write(number, level, n, 0.0, 1.0, factors)
                offset = effects.quad_ptr[query] + number // 4 * n_documents - first_document
                column = number % 4
                for k in range(begin, end):
                    at = k + offset
                    quads[at, column] = by_rise[0] * rising[k] + by_fall[0] * falling[k]
                    quads[at, column + 4] = by_rise[1] * rising[k] + by_fall[1] * falling[k]


@njit(cache=True, nogil=True)
def _raise_absent(documents, query, levels, state, effects, numbers):
    """Raise the documents of a query that lack the feature, level by level; what that changes.

    documents  those of the query that have the feature
    numbers    (4 * MAX_LEVELS,) float64: updated
    """
    first = levels.query_ptr[query]
    n = levels.query_ptr[query + 1] - first
    factors = effects.factors[effects.factor_ptr[query] : effects.factor_ptr[query + 1]]
    factors = factors.reshape(n, n)
    right, wrong = 0.0, 0.0
    for level in range(n):
        left = levels.level_ptr[first + level + 1] - levels.level_ptr[first + level]
        rise, fall = state.lower_sum[first + level], state.upper_sum[first + level]
        for document in documents:
            if effects.level_of[document] == level:
                rise -= state.rising[document]
                fall -= state.falling[document]
                left -= 1
        if left == 0:  # what is left of the sums is rounding
            continue
        for other in range(level):
            right += fall * factors[other, level] * state.lower_sum[first + other]
        for other in range(level + 1, n):
            wrong += rise * factors[level, other] * state.upper_sum[first + other]
        both = 0.0
        for number in range(2 * n - 2):
            read, write = _read_write(number, level, n, rise, fall, factors)
            both += read * numbers[number]
            numbers[number] += write
        right -= both
        wrong -= both
    return right, wrong


@njit(cache=True, nogil=True)
def _raise_run(documents, begin, end, quads, offset, numbers, both):
    """Set h = 1 one by one; add to ``both`` the weight of the pairs with documents raised before.

    quads    the four numbers of a document are in row ``document + offset``
    numbers  (4,) how the numbers start
    """
    a, b, c, d = numbers[0], numbers[1], numbers[2], numbers[3]
    for k in range(begin, end):
        # Unsigned: an index that cannot be negative is cheaper.
        at = np.uint64(documents[k] + offset)
        both[k - begin] += (quads[at, 0] * a + quads[at, 1] * b) + (
            quads[at, 2] * c + quads[at, 3] * d
        )
        a += quads[at, 4]
        b += quads[at, 5]
        c += quads[at, 6]
        d += quads[at, 7]


@njit(cache=True, nogil=True)
def level_changes(block, entries, levels, state, effects):
    """Queries with few levels: add to ``block.changes``, by code.

    entries  PresentEntries, of query_splitting
    """
    level_ptr, query_ptr, documents = levels.level_ptr, levels.query_ptr, entries.document
    quads, sides, changes = effects.quads, effects.sides, block.changes
    n_queries = len(query_ptr) - 1
    longest = 0
    for query in range(n_queries):
        n = level_ptr[query_ptr[query + 1]] - level_ptr[query_ptr[query]]
        longest = max(longest, n)
    both, numbers = np.empty(longest), np.zeros(4 * MAX_LEVELS)
    # A few queries at a time: then both they and the codes of a feature stay in the cache.
    for group in range(0, n_queries, 8):
        for i in range(len(block.feature)):
            ptr = entries.query_ptr[block.feature[i]]
            for query in range(group, min(group + 8, n_queries)):
                begin, end = ptr[query], ptr[query + 1]
                if begin == end or effects.factor_ptr[query + 1] == effects.factor_ptr[query]:
                    continue
                n = query_ptr[query + 1] - query_ptr[query]
                first, last = level_ptr[query_ptr[query]], level_ptr[query_ptr[query + 1]]
                numbers[:] = 0.0
                if block.default[i] == 1:
                    more, less = _raise_absent(
                        documents[begin:end], query, levels, state, effects, numbers
                    )
                    changes[i, block.base[i], 0] += more
                    changes[i, block.base[i], 1] += less
                both[: end - begin] = 0.0
                for quad in range(n // 2):
                    offset = effects.quad_ptr[query] + quad * (last - first) - first
                    _raise_run(documents, begin, end, quads, offset, numbers[4 * quad :], both)
                for k in range(begin, end):
                    document, code = np.uint32(documents[k]), np.uint32(entries.code[k])
                    changes[i, code, 0] += sides[document, 0] - both[k - begin]
                    changes[i, code, 1] += sides[document, 1] - both[k - begin]


@njit(cache=True, nogil=True)
def pair_changes(code_of, pairs, absent_code, change):
    """As level_changes, for one feature and a PairList.

    code_of      (n_rows,) int32: the code of each row, -1 where the feature abstains
    absent_code  the code of abstention: -1 (h = 0) or the base (raised first)
    change       (n_codes, 2) float64: added to
    """
    for p in range(len(pairs.lower)):
        share, down, up = pairs.share[p], code_of[pairs.lower[p]], code_of[pairs.upper[p]]
        if down < 0:
            down = absent_code
        if up < 0:
            up = absent_code
        if up > down:
            change[up, 0] += share
            if down >= 0:
                change[down, 0] -= share
        elif down > up:
            change[down, 1] += share
            if up >= 0:
                change[up, 1] -= share


@njit(cache=True, nogil=True)
def group_by_query(order, documents_of, query_of, query_start, codes, out, out_code):
    """The documents of one feature, query by query, values descending within each query.

    order         (n_present,) rows, values descending
    documents_of  (ptr, documents) of each row
    query_start   (n_queries + 1,) int64: where the documents of each query start   written
    """
    ptr, documents = documents_of
    query_start[:] = 0
    for k in range(len(order)):
        row = order[k]
        for m in range(ptr[row], ptr[row + 1]):
            query_start[query_of[documents[m]] + 1] += 1
    for query in range(1, len(query_start)):
        query_start[query] += query_start[query - 1]
    for k in range(len(order)):
        row = order[k]
        for m in range(ptr[row], ptr[row + 1]):
            document = documents[m]
            at = query_start[query_of[document]]
            out[at] = document
            out_code[at] = codes[row]
            query_start[query_of[document]] += 1
    # Each start has moved to the end of its query, which is where the next one starts.
    for query in range(len(query_start) - 1, 0, -1):
        query_start[query] = query_start[query - 1]
    query_start[0] = 0
    return query_start[len(query_start) - 1]


@njit(cache=True, nogil=True)
def signed_gain(right, wrong, rounding):
    """1 - Z of a weak ranking with these weights of pairs, with the sign of its alpha.

    Weights below ``rounding`` count as zero: a square root would magnify them.
    """
    right, wrong = right if right > rounding else 0.0, wrong if wrong > rounding else 0.0
    gain = right + wrong - 2.0 * np.sqrt(right * wrong)
    return gain if right > wrong else -gain


@njit(cache=True, nogil=True)
def best_changes(change, n_cuts, tolerance, rounding):
    """The best cut of either sign from the changes at each code, which become sums above.

    After the call ``change[c + 1]`` holds the weights at cut c; at cut -1 all rows have h = 1.
    """
    above, below = change[n_cuts + 1, 0], change[n_cuts + 1, 1]
    high, high_cut, low, low_cut = 0.0, -2, 0.0, -2
    for cut in range(n_cuts - 1, -2, -1):
        above += change[cut + 1, 0]
        below += change[cut + 1, 1]
        change[cut + 1, 0], change[cut + 1, 1] = above, below
        if cut < 0:
            break
        # 1 - Z > least needs right + wrong - least > 2 sqrt(right wrong): skip useless roots.
        right, wrong = above if above > rounding else 0.0, below if below > rounding else 0.0
        rest = right + wrong - tolerance - (high if right > wrong else -low)
        if rest > 0.0 and rest * rest > 3.999999 * right * wrong:
            gain = signed_gain(above, below, rounding)
            if gain > high + tolerance:
                high, high_cut = gain, cut
            elif gain < low - tolerance:
                low, low_cut = gain, cut
    return high, high_cut, low, low_cut, signed_gain(above, below, rounding)


@njit(cache=True, nogil=True)
def gains_of_changes(block, bins, tolerance, rounding, earlier, earlier_gain, gains):
    """The best cuts of the features of a block from their changes, and the gains of earlier cuts.

    bins          Bins, of splitting
    earlier       Cuts, of splitting
    earlier_gain  (n_earlier,) float64: written where the cut is of this block
    gains         Gains, of splitting: written
    """
    changes, abstains = block.changes, bins.abstains
    for i in range(len(block.feature)):
        feature, default = block.feature[i], block.default[i]
        n = bins.n_cuts[feature]
        none = signed_gain(changes[i, n + 1, 0], changes[i, n + 1, 1], rounding)
        high, high_cut, low, low_cut, present = best_changes(changes[i], n, tolerance, rounding)
        for q in range(2):
            if q == default or not abstains[feature]:
                gains.top[q, feature], gains.top_cut[q, feature] = high, high_cut
                gains.bottom[q, feature], gains.bottom_cut[q, feature] = low, low_cut
        if default == 0:
            gains.present[feature] = present
        for e in range(len(earlier.feature)):
            if earlier.feature[e] != feature or (
                abstains[feature] and earlier.default[e] != default
            ):
                continue
            cut = earlier.cut[e]
            weights = changes[i, cut + 1]
            earlier_gain[e] = none if cut == n else signed_gain(weights[0], weights[1], rounding)


class ManyGrades(NamedTuple):
    """A query with many levels: sums over levels in Fenwick trees, (2, n + 1) each.

    The trees of ``upper`` count levels from the top, with -y for y.
    """

    y: FloatArray  # (n,) grades from the lowest
    gaps: bool
    as_low: FloatArray  # (n,) factors of a level as the lower of pairs
    as_up: FloatArray
    lower: FloatArray  # raised documents
    upper: FloatArray
    all_lower: FloatArray  # all documents
    all_upper: FloatArray


@njit(cache=True, nogil=True)
def _raise_document(query, level, rise, fall):
    """Raise a document of a query with many levels: what that changes."""
    y, mirror = query.y[level], len(query.y) - 1 - level
    as_up, as_low = query.as_up[level], query.as_low[level]
    below = as_up * gapped_before(query.lower, level, y, query.gaps)
    above = as_low * gapped_before(query.upper, mirror, -y, query.gaps)
    all_below = as_up * gapped_before(query.all_lower, level, y, query.gaps)
    all_above = as_low * gapped_before(query.all_upper, mirror, -y, query.gaps)
    add_at(query.lower, level, as_low * rise, y)
    add_at(query.upper, mirror, as_up * fall, -y)
    return fall * (all_below - below) - rise * above, rise * (all_above - above) - fall * below


@njit(cache=True, nogil=True)
def many_level_changes(number, block, entries, levels, state, effects):
    """As level_changes, for the query of this number, which has many levels."""
    first, last = levels.query_ptr[number], levels.query_ptr[number + 1]
    n, changes = last - first, block.changes
    query = ManyGrades(
        levels.grade[first:last] - levels.grade[first],
        levels.magnitude[number],
        effects.as_low[first:last],
        effects.as_up[first:last],
        np.zeros((2, n + 1)),
        np.zeros((2, n + 1)),
        np.zeros((2, n + 1)),
        np.zeros((2, n + 1)),
    )
    for level in range(n):
        low, up = state.lower_sum[first + level], state.upper_sum[first + level]
        add_at(query.all_lower, level, query.as_low[level] * low, query.y[level])
        add_at(query.all_upper, n - 1 - level, query.as_up[level] * up, -query.y[level])
    for i in range(len(block.feature)):
        ptr = entries.query_ptr[block.feature[i]]
        documents = entries.document[ptr[number] : ptr[number + 1]]
        query.lower[:] = 0.0
        query.upper[:] = 0.0
        if block.default[i] == 1:
            rest_low = state.lower_sum[first:last].copy()
            rest_up = state.upper_sum[first:last].copy()
            left = np.diff(levels.level_ptr[first : last + 1])
            for document in documents:
                level = effects.level_of[document]
                rest_low[level] -= state.rising[document]
                rest_up[level] -= state.falling[document]
                left[level] -= 1
            for level in range(n):
                if left[level] > 0:
                    more, less = _raise_document(query, level, rest_low[level], rest_up[level])
                    changes[i, block.base[i], 0] += more
                    changes[i, block.base[i], 1] += less
        for k in range(len(documents)):
            document, code = documents[k], entries.code[ptr[number] + k]
            more, less = _raise_document(
                query, effects.level_of[document], state.rising[document], state.falling[document]
            )
            changes[i, code, 0] += more
            changes[i, code, 1] += less
