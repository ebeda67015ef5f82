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
    ranked = np.empty(256, np.int64)
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
                    scan_categories(at, feature, bins, leaves, leaf, growth, best, ranked)
                else:
                    scan_cuts(at, feature, bins, leaves, leaf, growth, best)


@njit(cache=True, nogil=True)
def _worth(gradient, hessian, ridge, low, high):
    """Twice what a leaf gains at its best value between two bounds, and that value."""
    value = min(max(gradient / (hessian + ridge), low), high)
    return (2.0 * gradient - (hessian + ridge) * value) * value, value


@njit(cache=True, nogil=True)
def _split_gain(up, up_mass, total, leaves, leaf, growth, sign):
    """The gain of a split where a bound on values holds; -inf where values are in wrong order."""
    low, high = leaves.bounds[leaf, 0], leaves.bounds[leaf, 1]
    down, down_mass = total[0] - up, total[1] - up_mass
    upper, v_up = _worth(up, up_mass, growth.ridge, low, high)
    lower, v_down = _worth(down, down_mass, growth.ridge, low, high)
    if sign * (v_up - v_down) < 0:
        return -np.inf
    return upper + lower - _worth(total[0], total[1], growth.ridge, low, high)[0]


@njit(cache=True, nogil=True)
def scan_cuts(at, feature, bins, leaves, leaf, growth, best):
    """The best cut of one numeric feature: a row goes up if its code is above the cut."""
    ridge, bits = growth.ridge, growth.bits
    mask = (np.int64(1) << bits) - 1
    whole, packed = leaves.total[leaf, 0], leaves.total[leaf, 1]
    n_rows, least = packed & mask, growth.min_samples
    total = (float(whole), float(packed >> bits))
    start = total[0] * total[0] / (total[1] + ridge)
    lack, lack_packed = at[MISSING, 0], at[MISSING, 1]
    n_lack = lack_packed & mask
    above, above_packed = np.int64(0), np.int64(0)
    found, found_cut, found_default = best.gain[leaf], -2, 0
    for cut in range(bins.n_bins[feature] - 2, -2, -1):
        here = at[cut + 1, 1]
        if here == 0:
            continue
        above += at[cut + 1, 0]
        above_packed += here
        for default in range(2):
            if not growth.defaults[default] or (n_lack == 0 and default and growth.defaults[0]):
                continue
            up, up_packed = above, above_packed
            if default:
                up, up_packed = above + lack, above_packed + lack_packed
            n_up = up_packed & mask
            if n_up < least or n_rows - n_up < least:
                continue
            g, h = float(up), float(up_packed >> bits)
            if growth.bounded:
                gain = _split_gain(g, h, total, leaves, leaf, growth, bins.monotone[feature])
                if gain > found * (1.0 + 1e-9):
                    found, found_cut, found_default = gain, cut, default
                continue
            # Compared without a division: g**2 / h + g'**2 / h' > found + start.
            other, rest = total[0] - g, total[1] - h + ridge
            h += ridge
            if g * g * rest + other * other * h > (found * (1.0 + 1e-9) + start) * (h * rest):
                found = g * g / h + other * other / rest - start
                found_cut, found_default = cut, default
    if found_cut > -2:
        best.gain[leaf], best.feature[leaf] = found, feature
        best.cut[leaf], best.lacks[leaf] = found_cut, n_lack > 0
        for code in range(MISSING):
            best.up[leaf, code] = code > found_cut
        best.up[leaf, MISSING] = found_default


@njit(cache=True, nogil=True)
def scan_categories(at, feature, bins, leaves, leaf, growth, best, ranked):
    """The best set of categories to go up, among the heads of their list by gradient / Hessian.

    The last code may stand for rare categories: those go down, as unknown ones do.
    """
    bits = growth.bits
    mask = (np.int64(1) << bits) - 1
    whole, packed = leaves.total[leaf, 0], leaves.total[leaf, 1]
    n_rows, least = packed & mask, growth.min_samples
    total = (float(whole), float(packed >> bits))
    lack, lack_packed = at[MISSING, 0], at[MISSING, 1]
    n_lack, n = lack_packed & mask, 0
    key = np.empty(256)
    for code in range(bins.n_categories[feature]):
        if at[code, 1] != 0:
            ranked[n] = code
            key[n] = -float(at[code, 0]) / (float(at[code, 1] >> bits) + growth.category_ridge)
            n += 1
    order = np.argsort(key[:n], kind="mergesort")
    above, above_packed = np.int64(0), np.int64(0)
    found, found_n, found_default = best.gain[leaf], 0, 0
    for k in range(n):
        above += at[ranked[order[k]], 0]
        above_packed += at[ranked[order[k]], 1]
        for default in range(2):
            if not growth.defaults[default] or (n_lack == 0 and default and growth.defaults[0]):
                continue
            up, up_packed = above, above_packed
            if default:
                up, up_packed = above + lack, above_packed + lack_packed
            n_up = up_packed & mask
            if n_up < least or n_rows - n_up < least:
                continue
            g, h = float(up), float(up_packed >> bits)
            gain = _split_gain(g, h, total, leaves, leaf, growth, 0)
            if gain > found * (1.0 + 1e-9):
                found, found_n, found_default = gain, k + 1, default
    if found_n:
        best.gain[leaf], best.feature[leaf] = found, feature
        best.cut[leaf], best.lacks[leaf] = -2, n_lack > 0
        best.up[leaf, :] = 0
        for k in range(found_n):
            best.up[leaf, ranked[order[k]]] = 1
        best.up[leaf, MISSING] = found_default


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
    n = len(edges)
    for i in range(len(values)):
        x = values[i]
        if math.isnan(x):
            code = MISSING
        else:
            # Binary search without a branch, which could not be predicted.
            code, width = 0, n
            while width > 0:
                half = (width + 1) >> 1
                code += half * (edges[code + half - 1] < x)
                width -= half
        words[i] |= np.uint32(code) << np.uint32(shift)
