"""Growing a tree on binned features: histograms of integers, the best split, the rows of leaves.

Gradients and Hessians are rounded to integers before they are added, so a sum is the same in any
order, on any number of threads. A row adds two numbers to a bin: its gradient, and its Hessian
shifted left by ``bits`` plus the number of rows it counts as.

codes  (n_blocks, n_rows) uint32: four features to a word, a byte each; 255 where a value is missing
sums   (4 * n_blocks, 256, 2) int64: per feature and bin
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

MISSING = 255


def _add_quad(typing_context, sums, word, pairs, k):
    """sums[f, byte f of word] += pairs[k] for f in 0 .. 3: four additions of two integers each."""
    signature = types.void(sums, word, pairs, k)

    def generate(context, builder, signature, args):
        integer, two = ir.IntType(64), ir.VectorType(ir.IntType(64), 2)

        def data(i):
            array = context.make_array(signature.args[i])(context, builder, args[i])
            return builder.bitcast(array.data, two.as_pointer())

        pair = builder.load(builder.gep(data(2), [args[3]]), align=8)
        target = data(0)
        for feature in range(4):
            byte = builder.lshr(args[1], ir.Constant(args[1].type, 8 * feature))
            byte = builder.zext(builder.and_(byte, ir.Constant(byte.type, 255)), integer)
            place = builder.add(byte, ir.Constant(integer, 256 * feature))
            at = builder.gep(target, [place])
            builder.store(builder.add(builder.load(at, align=8), pair), at, align=8)
        return context.get_dummy_value()

    return signature, generate


if config.DISABLE_JIT:

    def add_quad(sums, word, pairs, k):
        for feature in range(4):
            sums[feature, (int(word) >> (8 * feature)) & 255] += pairs[k]
else:
    add_quad = intrinsic(_add_quad)


@njit(cache=True, nogil=True)
def quantize(gradient, hessian, count, scales, bits, pairs):
    """Write the integers of each row, and return their sums.

    scales  (2,) float64: what gradients and Hessians are multiplied by
    pairs   (n_rows, 2) int64   written
    """
    first, second = 0, 0
    for i in range(len(gradient)):
        pairs[i, 0] = np.int64(np.rint(gradient[i] * scales[0]))
        pairs[i, 1] = (np.int64(np.rint(hessian[i] * scales[1])) << bits) + count[i]
        first += pairs[i, 0]
        second += pairs[i, 1]
    return first, second


@njit(cache=True, nogil=True)
def gather(pairs, rows, out):
    """Copy the pairs of some rows side by side."""
    for k in range(len(rows)):
        row = np.uint32(rows[k])
        out[k, 0] = pairs[row, 0]
        out[k, 1] = pairs[row, 1]


@njit(cache=True, nogil=True)
def sum_block(words, rows, pairs, sums):
    """Sums of the rows of one leaf for four features; sums (4, 256, 2) are overwritten."""
    sums[:] = 0
    if len(rows) == len(words):
        for k in range(len(rows)):
            add_quad(sums, words[k], pairs, k)
    else:
        for k in range(len(rows)):
            add_quad(sums, words[np.uint32(rows[k])], pairs, k)


@njit(cache=True, nogil=True)
def scan_leaves(bins, rows, pairs, sums, leaves, growth, features, best):
    """Histograms of one or two new leaves and their best splits, for blocks of four features.

    bins      BinnedRows, of binning
    rows      (n,) int32, of the first leaf; pairs (n, 2) int64, theirs
    sums      two of (4 * n_blocks, 256, 2) int64: written for the first leaf; for the second it
              holds the sums of both leaves, and those of the first are subtracted
    leaves    Leaves, of grower: the one or two leaves
    growth    Growth, of grower
    features  (first block, last block)
    best      Best, of grower, of these features   written
    """
    best.gain[:] = 0.0
    best.feature[:] = -1
    scratch = (np.empty((2, 256), np.int64), np.empty((2, 256)))
    for block in range(features[0], features[1]):
        start, stop = 4 * block, min(4 * block + 4, len(bins.n_bins))
        if not np.any(leaves.allowed[:, start:stop]):
            continue
        sum_block(bins.codes[block], rows, pairs, sums[0][4 * block : 4 * block + 4])
        if len(leaves.total) > 1:
            one = sums[0][4 * block : 4 * block + 4].ravel()
            two = sums[1][4 * block : 4 * block + 4].ravel()
            for i in range(len(one)):
                two[i] -= one[i]
        for leaf in range(len(leaves.total)):
            if not leaves.wanted[leaf]:
                continue
            for feature in range(start, stop):
                if not leaves.allowed[leaf, feature] or bins.n_bins[feature] == 0:
                    continue
                at = sums[leaf][feature]
                if bins.categorical[feature]:
                    scan_categories(at, feature, bins, leaves, leaf, growth, best, scratch)
                else:
                    scan_cuts(at, feature, bins, leaves, leaf, growth, best, scratch)


@njit(cache=True, nogil=True)
def _worth(gradient, hessian, ridge, low, high):
    """Twice what a leaf gains at its best value between two bounds, and that value."""
    value = min(max(gradient / (hessian + ridge), low), high)
    return (2.0 * gradient - (hessian + ridge) * value) * value, value


@njit(cache=True, nogil=True)
def cut_gains(above, lack, total, n_rows, growth, gains):
    """Write the gain of each cut, if missing values add ``lack`` above it; 0 where rows are few.

    above   (2, n) int64: the sums above each cut
    total   (gradient, Hessian) of the leaf as floats, n_rows: its rows
    """
    ridge, bits, least = growth.ridge, growth.bits, growth.min_samples
    mask = (np.int64(1) << bits) - 1
    start = total[0] * total[0] / (total[1] + ridge)
    for k in range(above.shape[1]):  # vectorized: no branch, no call
        packed = above[1, k] + lack[1]
        n_up = packed & mask
        up, mass = float(above[0, k] + lack[0]), float(packed >> bits)
        other, rest = total[0] - up, total[1] - mass
        gain = up * up / (mass + ridge) + other * other / (rest + ridge) - start
        gains[k] = gain if (n_up >= least) & (n_rows - n_up >= least) else 0.0


@njit(cache=True, nogil=True)
def bounded_gains(above, lack, total, n_rows, growth, limits, gains):
    """As ``cut_gains`` where values have bounds; limits (bounds of the leaf, sign of the feature).

    The gain is 0 where the values of the two sides are in the wrong order.
    """
    low, high, sign = limits
    ridge, bits, least = growth.ridge, growth.bits, growth.min_samples
    mask = (np.int64(1) << bits) - 1
    start = _worth(total[0], total[1], ridge, low, high)[0]
    for k in range(above.shape[1]):
        packed = above[1, k] + lack[1]
        n_up = packed & mask
        up, mass = float(above[0, k] + lack[0]), float(packed >> bits)
        upper, v_up = _worth(up, mass, ridge, low, high)
        lower, v_down = _worth(total[0] - up, total[1] - mass, ridge, low, high)
        usable = n_up >= least and n_rows - n_up >= least and sign * (v_up - v_down) >= 0
        gains[k] = upper + lower - start if usable else 0.0


@njit(cache=True, nogil=True)
def scan_sums(above, lack, feature, bins, leaves, leaf, growth, gains):
    """The gains (2, n) of all cuts for both ways of missing values; returns which may be used."""
    bits = growth.bits
    n_rows = leaves.total[leaf, 1] & ((np.int64(1) << bits) - 1)
    total = (float(leaves.total[leaf, 0]), float(leaves.total[leaf, 1] >> bits))
    limits = (leaves.bounds[leaf, 0], leaves.bounds[leaf, 1], float(bins.monotone[feature]))
    for default in range(2):
        gains[default, :] = 0.0
        if not growth.defaults[default] or (lack[1] == 0 and default and growth.defaults[0]):
            continue
        added = (lack[0], lack[1]) if default else (np.int64(0), np.int64(0))
        if growth.bounded:
            bounded_gains(above, added, total, n_rows, growth, limits, gains[default])
        else:
            cut_gains(above, added, total, n_rows, growth, gains[default])


@njit(cache=True, nogil=True)
def first_best(gains, least):
    """(gain, cut, default) of the first gain that is the largest but for rounding; cut -1: none."""
    found = (least, -1, 0)
    for k in range(gains.shape[1]):
        for default in range(2):
            if gains[default, k] > found[0] * (1.0 + 1e-9):
                found = (gains[default, k], k, default)
    return found


@njit(cache=True, nogil=True)
def scan_cuts(at, feature, bins, leaves, leaf, growth, best, scratch):
    """The best cut of one numeric feature: a row goes up if its code is above the cut."""
    n = bins.n_bins[feature]
    above, gains = scratch[0][:, :n], scratch[1][:, :n]
    first, second = np.int64(0), np.int64(0)
    for k in range(n):  # from the highest bin down
        first += at[n - 1 - k, 0]
        second += at[n - 1 - k, 1]
        above[0, k], above[1, k] = first, second
    scan_sums(above, at[MISSING], feature, bins, leaves, leaf, growth, gains)
    gain, k, default = first_best(gains, best.gain[leaf])
    if k >= 0:
        cut = n - 2 - k
        best.gain[leaf], best.feature[leaf] = gain, feature
        best.cut[leaf], best.lacks[leaf] = cut, at[MISSING, 1] != 0
        for code in range(MISSING):
            best.up[leaf, code] = code > cut
        best.up[leaf, MISSING] = default


@njit(cache=True, nogil=True)
def scan_categories(at, feature, bins, leaves, leaf, growth, best, scratch):
    """The best set of categories to go up, among the heads of their list by gradient / Hessian.

    The last code may stand for rare categories: those go down, as unknown ones do.
    """
    key, ranked, n = np.empty(256), np.empty(256, np.int64), 0
    for code in range(bins.n_categories[feature]):
        if at[code, 1] != 0:
            ranked[n] = code
            mass = float(at[code, 1] >> growth.bits)
            key[n] = -float(at[code, 0]) / (mass + growth.category_ridge)
            n += 1
    order = ranked[np.argsort(key[:n], kind="mergesort")]
    above, gains = scratch[0][:, :n], scratch[1][:, :n]
    first, second = np.int64(0), np.int64(0)
    for k in range(n):
        first += at[order[k], 0]
        second += at[order[k], 1]
        above[0, k], above[1, k] = first, second
    scan_sums(above, at[MISSING], feature, bins, leaves, leaf, growth, gains)
    gain, last, default = first_best(gains, best.gain[leaf])
    if last >= 0:
        best.gain[leaf], best.feature[leaf] = gain, feature
        best.cut[leaf], best.lacks[leaf] = -2, at[MISSING, 1] != 0
        best.up[leaf, :] = 0
        for k in range(last + 1):
            best.up[leaf, order[k]] = 1
        best.up[leaf, MISSING] = default


@njit(cache=True, nogil=True)
def partition_rows(words, shift, up, rows, pairs, buffer):
    """Put the rows that go down first, those that go up after.

    words   (n_rows,) uint32, shift: which byte of them holds the codes of the feature
    up      (256,) uint8: which codes go up
    rows    (n_leaf_rows,) int32     rearranged, each side keeps its order
    pairs   (n_rows, 2) int64
    buffer  (n_leaf_rows,) int32     overwritten

    Returns how many go down, and the sums of the pairs of those that go up.
    """
    n_down, n_up = 0, 0
    first, second = np.int64(0), np.int64(0)
    for k in range(len(rows)):
        row = rows[k]
        goes = up[(words[np.uint32(row)] >> np.uint32(shift)) & np.uint32(255)]
        # Both places are written and one count goes on: a branch could not be predicted.
        rows[n_down] = row
        buffer[n_up] = row
        n_up += goes
        n_down += 1 - goes
    for k in range(n_up):
        row = np.uint32(buffer[k])
        rows[n_down + k] = buffer[k]
        first += pairs[row, 0]
        second += pairs[row, 1]
    return n_down, first, second


@njit(cache=True, nogil=True)
def add_values(rows, starts, values, out):
    """Add the value of each leaf i to its rows, rows[starts[i] : starts[i + 1]]."""
    for leaf in range(len(values)):
        for k in range(starts[leaf], starts[leaf + 1]):
            out[rows[k]] += values[leaf]


@njit(cache=True, nogil=True)
def walk_tree(codes, nodes, rate, first, last, out):
    """Add rate times the value of a tree to rows first .. last.

    nodes  Nodes, of grower
    """
    for row in range(first, last):
        node = 0
        while nodes.feature[node] >= 0:
            feature = nodes.feature[node]
            word = codes[feature >> 2, row] >> np.uint32(8 * (feature & 3))
            node = nodes.children[node, nodes.up[node, word & np.uint32(255)]]
        out[row] += rate * nodes.value[node]


@njit(cache=True, nogil=True)
def write_codes(values, edges, shift, words):
    """Write the code of each value, the number of edges below it, into a byte of the words."""
    padded = np.full(256, np.inf)
    padded[: len(edges)] = edges
    for i in range(len(values)):
        x = values[i]
        # Binary search in eight steps without a branch, which could not be predicted.
        code = np.uint32(0)
        for step in (128, 64, 32, 16, 8, 4, 2, 1):
            code += np.uint32(step) * np.uint32(padded[code + np.uint32(step - 1)] < x)
        if math.isnan(x):
            code = np.uint32(MISSING)
        words[i] |= code << np.uint32(shift)
