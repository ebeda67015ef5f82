"""Histograms of trees: sums of gradients and Hessians per feature and bin, as integers.

Gradients and Hessians are rounded to integers before they are added, so a sum is the same in any
order, on any number of threads. A row adds two numbers to a bin: its gradient, and its Hessian
shifted left by ``bits`` plus the number of rows it counts as.

codes  (n_blocks, n_rows) uint32: four features to a word, a byte each; 255 where a value is missing
sums   (n, 2) int64: per feature and bin. A feature has 256 bins, of which the last is that of
       missing values, or only those in use and that one: most of a million columns have few values

Indices that are computed are unsigned: numba asks of any other whether it counts from the end,
which makes loops half as fast.

The codes of a small leaf are scattered: each would cost a cache line for every four features. So
its rows are first copied side by side, from a second copy of the codes that is stored by row.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from rankwright.runtime.kernels import njit

AHEAD = 32  # how many rows are copied while the codes of as many more are fetched from memory
MANY_ROWS = 512  # from so many on, rows are added to two histograms in turns
WORDS = 64  # how many words of a row are copied at a time


def _add_quad(typing_context, sums, word, pairs, k):
    """sums[f, byte f of word] += pairs[k] for f in 0 .. 3: four additions of two integers each.

    Gradient and Hessian are neighbors in memory, so one vector instruction adds both; numba does
    not find it.
    """
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
            index = builder.add(byte, ir.Constant(integer, 256 * feature))
            at = builder.gep(target, [index])
            builder.store(builder.add(builder.load(at, align=8), pair), at, align=8)
        return context.get_dummy_value()

    return signature, generate


def _prefetch(typing_context, values, index):
    """Fetch the cache line of values[index] from memory; no result depends on it."""

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        at = builder.bitcast(builder.gep(array.data, [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        # to read, to be kept in all caches, data
        builder.call(function, [at, *(ir.Constant(word, option) for option in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(values, types.intp), generate


if config.DISABLE_JIT:

    def add_quad(sums, word, pairs, k):
        for feature in range(4):
            sums[feature, (int(word) >> (8 * feature)) & 255] += pairs[k]

    def prefetch(values, index):
        pass
else:
    add_quad, prefetch = intrinsic(_add_quad), intrinsic(_prefetch)


@njit(cache=True, nogil=True, error_model="numpy")
def quantize(gradient, hessian, count, scales, bits, pairs):
    """Write the integers of each row, and return their sums.

    Hessian and count share a word: the sum of all counts is below 2**bits, so it never carries into
    the Hessians above it.

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


@njit(cache=True, nogil=True, error_model="numpy")
def gather(pairs, rows, out):
    """Copy the pairs of some rows side by side."""
    for k in range(len(rows)):
        row = np.uint32(rows[k])
        out[k, 0] = pairs[row, 0]
        out[k, 1] = pairs[row, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def turn_codes(codes, by_row):
    """Write codes (n_blocks, n_rows) to by_row (n_rows, n_blocks)."""
    for first in range(0, codes.shape[1], 16):  # a cache line of each block at a time
        for block in range(len(codes)):
            for row in range(first, min(first + 16, codes.shape[1])):
                by_row[row, block] = codes[block, row]


@njit(cache=True, nogil=True, error_model="numpy")
def copy_codes(by_row, rows, out):
    """Copy the codes of some rows side by side.

    by_row  (n_rows, n_blocks) uint32
    out     (n_blocks, >= len(rows)) uint32   written
    """
    n_words, n = by_row.shape[1], len(rows)
    flat, width = by_row.ravel(), np.uint64(n_words)
    for first in range(0, n_words, WORDS):
        stop = min(first + WORDS, n_words)
        for start in range(0, n, AHEAD):
            # The rows of a leaf are at random distances, which the processor cannot predict.
            for k in range(start + AHEAD, min(start + 2 * AHEAD, n)):
                ahead = np.int64(rows[k]) * n_words
                for word in range(first, stop, 16):
                    prefetch(flat, ahead + word)
            for word in range(first, stop):
                column = out[word]
                for k in range(start, min(start + AHEAD, n)):
                    column[np.uint64(k)] = flat[np.uint64(rows[k]) * width + np.uint64(word)]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_block(words, rows, pairs, sums, second):
    """Sums of the rows of one leaf for four features; sums (4, 256, 2) are overwritten.

    Where most values of a feature are equal, each addition waits for the one before it in the same
    bin. So the second half of many rows is added to sums of its own, in turns with the first half:
    in integers that makes no difference.

    second  (4, 256, 2) int64   overwritten
    """
    sums[:] = 0
    half = len(rows) // 2 if len(rows) >= MANY_ROWS else 0
    in_order = len(rows) == len(words)
    if half:
        second[:] = 0
        if in_order:
            for k in range(half):
                add_quad(sums, words[k], pairs, k)
                add_quad(second, words[half + k], pairs, half + k)
        else:
            for k in range(half):
                add_quad(sums, words[np.uint32(rows[k])], pairs, k)
                add_quad(second, words[np.uint32(rows[half + k])], pairs, half + k)
        one, two = sums.ravel(), second.ravel()
        for i in range(len(one)):
            one[i] += two[i]
    for k in range(2 * half, len(rows)):
        add_quad(sums, words[k] if in_order else words[np.uint32(rows[k])], pairs, k)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_narrow_block(words, rows, pairs, starts, sums):
    """As ``sum_block`` for features with few bins.

    starts  (5,) int64: where the sums of each feature start, and where the last ones end
    sums    (n, 2) int64: those of the four features   overwritten
    """
    sums[:] = 0
    in_order = len(rows) == len(words)
    for feature in range(4):
        start, missing = starts[feature] - starts[0], starts[feature + 1] - starts[0] - 1
        shift = np.uint32(8 * feature)
        for k in range(len(rows)):
            word = words[k] if in_order else words[np.uint32(rows[k])]
            at = min(start + np.int64((word >> shift) & np.uint32(255)), missing)
            sums[at, 0] += pairs[k, 0]
            sums[at, 1] += pairs[k, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def subtract_block(sums, both):
    """Turn the sums of two leaves into those of the second, given those of the first.

    Only the rows of the smaller child are added up; its sibling is the parent minus it. With
    integers that is exact.
    """
    one, two = sums.ravel(), both.ravel()
    for i in range(len(one)):
        two[i] -= one[i]


@njit(cache=True, nogil=True, error_model="numpy")
def divide_rows(words, shift, goes_right, rows, buffer):
    """Write the rows that go left, and from the end on the others; returns how many go left.

    words   (n_rows,) uint32, shift: which byte of them holds the codes of the feature
    goes_right  (256,) uint8: which codes go right
    buffer  (n_leaf_rows,) int32     written
    """
    left, right, one = np.uint64(0), np.uint64(len(rows) - 1), np.uint64(1)
    for k in range(len(rows)):
        row = rows[k]
        goes = np.uint64(goes_right[(words[np.uint32(row)] >> np.uint32(shift)) & np.uint32(255)])
        # Both places are written and one of them goes on: a branch could not be predicted.
        buffer[left] = row
        buffer[right] = row
        left += one - goes
        right -= goes
    return np.int64(left)


@njit(cache=True, nogil=True, error_model="numpy")
def place_rows(divided, n_left, rows, left, right):
    """Copy what ``divide_rows`` wrote to both sides of a leaf, from their places on."""
    goes_left, goes_right = rows[left : left + n_left], rows[right : right + len(divided) - n_left]
    for k in range(n_left):
        goes_left[k] = divided[k]
    last = np.uint64(len(divided) - 1)
    for k in range(len(goes_right)):
        goes_right[k] = divided[last - np.uint64(k)]
