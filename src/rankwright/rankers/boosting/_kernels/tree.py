"""Growing a tree on binned features: histograms of integers, the best split, the rows of leaves.

Gradients and Hessians are rounded to integers before they are added, so a sum is the same in any
order, on any number of threads. A row adds two numbers to a bin: its gradient, and its Hessian
shifted left by ``bits`` plus the number of rows it counts as.

codes  (n_blocks, n_rows) uint32: four features to a word, a byte each; 255 where a value is missing
sums   (4 * n_blocks, 256, 2) int64: per feature and bin

The codes of a small leaf lie far apart: each would cost a cache line for every four features. So
its rows are first copied side by side, from a second copy of the codes that is stored by row.
"""

from __future__ import annotations

import math
import os

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

from rankwright.rankers.boosting._kernels import atomics

MISSING = 255
# The words of a job: its number times 2**32 plus the next task, how many tasks are done, the rows
# of the first leaf, the slots of the sums of both leaves, how many leaves there are, and how many
# tasks copy rows. Those come first; each of the others scans a block of features. The first two
# words change all the time and have cache lines of their own.
TICKET, DONE, START, STOP, FIRST, SECOND, N_LEAVES, N_COPIES = 0, 8, 16, 17, 18, 19, 20, 21
JOB_WORDS = 22
COPIED = 2048  # rows that a task copies
AHEAD = 8  # how many rows ahead of the one that is copied codes are fetched from memory
WORDS = 64  # how many words of a row are copied at a time
# Tickets without a task to take: WAITING, with the number of the job that is done, until the next
# job, CLOSED between trees. WAITING must be written before a thread is asked to help: a ticket of 0
# would offer the tasks of a job that nobody has opened, and a thread that finished one of them
# after the first job set DONE to 0 would leave DONE wrong for good.
WAITING, CLOSED = 0xFFFFFFFF, -1
SHARES = os.name == "posix" and not config.DISABLE_JIT  # whether threads may share a job
# How often a thread looks for work before it gives way to other threads (about 0.1 ms), and before
# it sleeps between two looks (about 1 ms more).
SPINS, YIELDS = 100_000, 2_000


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


def _prefetch(typing_context, values, place):
    """Fetch the cache line of values[place] from memory; no result depends on it."""

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

    def prefetch(values, place):
        pass
else:
    add_quad, prefetch = intrinsic(_add_quad), intrinsic(_prefetch)


@njit(cache=True, nogil=True, error_model="numpy")
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
    n_words, last = by_row.shape[1], len(rows) - 1
    flat = by_row.ravel()
    for first in range(0, n_words, WORDS):
        stop = min(first + WORDS, n_words)
        for k in range(len(rows)):
            ahead = np.int64(rows[min(k + AHEAD, last)]) * n_words
            for word in range(first, stop, 16):
                prefetch(flat, ahead + word)
            row = by_row[np.uint32(rows[k])]
            for word in range(first, stop):
                out[word, k] = row[word]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_block(words, rows, pairs, sums):
    """Sums of the rows of one leaf for four features; sums (4, 256, 2) are overwritten."""
    sums[:] = 0
    add_block(words, rows, pairs, sums)


@njit(cache=True, nogil=True, error_model="numpy")
def add_block(words, rows, pairs, sums):
    """Add the pairs of the rows of one leaf to the sums of four features."""
    if len(rows) == len(words):
        for k in range(len(rows)):
            add_quad(sums, words[k], pairs, k)
    else:
        for k in range(len(rows)):
            add_quad(sums, words[np.uint32(rows[k])], pairs, k)


@njit(cache=True, nogil=True, error_model="numpy")
def add_leaf(codes, rows, pairs, sums):
    """Add the rows of one leaf to its histogram of all features.

    codes  (n_words, n_rows) uint32
    pairs  (n_rows, 2) int64: of all rows, not of those of the leaf
    sums   (4 * n_words, 256, 2) int64   changed
    """
    own = pairs
    if len(rows) < len(pairs):
        own = np.empty((len(rows), 2), np.int64)
        gather(pairs, rows, own)
    for word in range(len(codes)):
        add_block(codes[word], rows, own, sums[4 * word : 4 * word + 4])


@njit(cache=True, nogil=True, error_model="numpy")
def subtract_block(sums, both):
    """Turn the sums of two leaves into those of the second, given those of the first."""
    one, two = sums.ravel(), both.ravel()
    for i in range(len(one)):
        two[i] -= one[i]


@njit(cache=True, nogil=True, error_model="numpy")
def scan_leaves(bins, shared, growth, leads):
    """Histograms of one or two new leaves and their best splits, a block of features at a time.

    The thread that leads opens the job and returns when all tasks are done; other threads take
    tasks of one job after the other, until the grower closes them. Whoever comes first takes a
    task, so nobody waits for a thread that has not started. No block is scanned before all rows are
    copied. The words of a job change only when every task of the last one is done and its ticket
    has none left, so the task that a thread takes is one of the job whose words it reads.

    bins    BinnedRows, of binning
    shared  Shared, of grower: its leaves and job are read, its sums and best are written. The
            first leaf's sums are those of its rows; the second leaf's hold the sums of both, and
            those of the first are subtracted
    growth  Growth, of grower
    """
    job, n_blocks, idle = shared.job, len(bins.codes), 0
    scratch = (np.empty(256, np.int64), np.empty((4, 256)))
    if leads:
        atomics.write(job, DONE, 0)
        atomics.write(job, TICKET, ((job[TICKET] >> 32) + 1) << 32)
    while True:
        ticket, done = atomics.read(job, TICKET), atomics.read(job, DONE)
        task, n_copies = ticket & 0xFFFFFFFF, atomics.read(job, N_COPIES)
        if task < n_copies or (task < n_copies + n_blocks and done >= n_copies):
            idle = 0
            if atomics.replace(job, TICKET, ticket, ticket + 1):
                if task < n_copies:
                    copy_rows(shared, task)
                else:
                    scan_block(bins, shared, growth, task - n_copies, scratch)
                atomics.add(job, DONE, 1)
        elif leads and done == n_copies + n_blocks:
            atomics.write(job, TICKET, ticket | WAITING)
            return
        elif ticket < 0:
            return
        else:
            idle += 1
            if idle > SPINS + YIELDS:
                atomics.sleep()
            elif idle > SPINS:
                atomics.give_way()


@njit(cache=True, nogil=True, error_model="numpy")
def copy_rows(shared, task):
    """Copy pairs of the first leaf side by side, and codes if the leaf is small."""
    job = shared.job
    first = task * COPIED
    last = min(first + COPIED, job[STOP] - job[START])
    rows = shared.rows[job[START] + first : job[START] + last]
    gather(shared.pairs, rows, shared.gathered[first:last])
    if job[STOP] - job[START] <= shared.copied.shape[1]:
        copy_codes(shared.by_row, rows, shared.copied[:, first:last])


@njit(cache=True, nogil=True, error_model="numpy")
def scan_block(bins, shared, growth, block, scratch):
    """One block of ``scan_leaves``."""
    job, leaves, best = shared.job, shared.leaves, shared.best
    start, stop, n_leaves = job[START], job[STOP], job[N_LEAVES]
    features = slice(4 * block, 4 * block + 4)
    used = False
    for leaf in range(n_leaves):
        best.gain[block, leaf], best.feature[block, leaf] = 0.0, -1
        for feature in range(4 * block, min(4 * block + 4, len(bins.n_bins))):
            used |= leaves.allowed[leaf, feature]
    if not used:
        return
    pairs = shared.pairs if stop - start == len(shared.rows) else shared.gathered
    first, second = shared.sums[job[FIRST]], shared.sums[job[SECOND]]
    words = bins.codes[block]
    if job[N_COPIES] > 0 and stop - start <= shared.copied.shape[1]:
        words = shared.copied[block, : stop - start]
    sum_block(words, shared.rows[start:stop], pairs, first[features])
    if n_leaves > 1:
        subtract_block(first[features], second[features])
    for leaf in range(n_leaves):
        sums = second if leaf else first
        for feature in range(4 * block, min(4 * block + 4, len(bins.n_bins))):
            if leaves.wanted[leaf] and leaves.allowed[leaf, feature]:
                find_split(sums[feature], feature, bins, leaves, leaf, growth, best, scratch)


@njit(cache=True, nogil=True, error_model="numpy")
def find_split(at, feature, bins, leaves, leaf, growth, best, scratch):
    """Keep the best split of a leaf on one feature, if it beats those of the block so far.

    Codes are put in an order, and some first ones of them go up: from the highest bin down, or
    categories by gradient / Hessian.

    at       (256, 2) int64: the histogram
    best     Best, of grower: the row of the feature's block is written
    scratch  (order (256,) int64, side (4, 256) float64)
    """
    order, side = scratch
    block, categorical = feature >> 2, bins.categorical[feature]
    if categorical:
        n = order_categories(at, bins.n_categories[feature], growth, order)
    else:
        n = bins.n_bins[feature]
        for k in range(n):
            order[k] = n - 1 - k
    for default in range(2):
        lacks = at[MISSING, 1] != 0
        if not growth.defaults[default] or (default and not lacks and growth.defaults[0]):
            continue
        add_up(at, order, n, default, growth.bits, side)
        most = cut_gains(side, n, feature, bins, leaves, leaf, growth)
        if most <= best.gain[block, leaf] * (1.0 + 1e-9):
            continue
        last = 0  # the first that is the largest but for rounding
        while side[3, last] < most * (1.0 - 1e-9):
            last += 1
        best.gain[block, leaf], best.feature[block, leaf] = most, feature
        best.cut[block, leaf] = -2 if categorical else n - 2 - last
        best.lacks[block, leaf] = lacks
        up = best.up[block, leaf]
        up[:] = 0
        for k in range(last + 1):
            up[order[k]] = 1
        for code in range(n, 0 if categorical else MISSING):
            up[code] = 1
        up[MISSING] = default


@njit(cache=True, nogil=True, error_model="numpy")
def order_categories(at, n_categories, growth, order):
    """Put the codes of categories in order of gradient / Hessian; returns how many there are.

    The last code may stand for rare categories: those go down, as unknown ones do.
    """
    key, n = np.empty(256), 0
    for code in range(n_categories):
        if at[code, 1] == 0:
            continue
        mass = float(at[code, 1] >> growth.bits)
        value, k = float(at[code, 0]) / (mass + growth.category_ridge), n
        while k > 0 and key[k - 1] < value:
            key[k], order[k] = key[k - 1], order[k - 1]
            k -= 1
        key[k], order[k] = value, code
        n += 1
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def add_up(at, order, n, default, bits, side):
    """Write the sums over the first codes: gradient, Hessian, rows; with missing values or not."""
    first, second = default * at[MISSING, 0], default * at[MISSING, 1]
    mask = (np.int64(1) << bits) - 1
    for k in range(n):
        first += at[np.uint64(order[k]), 0]
        second += at[np.uint64(order[k]), 1]
        side[0, k], side[1, k], side[2, k] = first, second >> bits, second & mask


@njit(cache=True, nogil=True, error_model="numpy")
def cut_gains(side, n, feature, bins, leaves, leaf, growth):
    """Write what each cut gains to side[3], 0 where rows are few; returns the largest gain."""
    bits = growth.bits
    gradient, mass = float(leaves.total[leaf, 0]), float(leaves.total[leaf, 1] >> bits)
    n_rows = leaves.total[leaf, 1] & ((np.int64(1) << bits) - 1)
    least, most = float(growth.min_samples), float(n_rows - growth.min_samples)
    if growth.bounded:
        limits = leaves.bounds[leaf, 0], leaves.bounds[leaf, 1], float(bins.monotone[feature])
        return bounded_gains(side, n, (gradient, mass), growth.ridge, least, most, limits)
    return free_gains(side, n, (gradient, mass), growth.ridge, least, most)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
def free_gains(side, n, total, ridge, least, most):
    """Gains of cuts with ``least`` to ``most`` rows above them."""
    gradient, mass = total
    start, best = gradient * gradient / (mass + ridge), 0.0
    for k in range(n):  # vectorized: no branch, no call, one division
        up, down = side[0, k], gradient - side[0, k]
        above, below = side[1, k] + ridge, (mass - side[1, k]) + ridge
        gain = (up * up * below + down * down * above) / (above * below) - start
        side[3, k] = gain if (side[2, k] >= least) & (side[2, k] <= most) else 0.0
    for k in range(n):
        best = max(best, side[3, k])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def bounded_gains(side, n, total, ridge, least, most, limits):
    """As ``free_gains`` where values have bounds; limits (bounds of the leaf, sign of the feature).

    The gain is 0 where the values of the two sides are in the wrong order.
    """
    low, high, sign = limits
    gradient, mass = total
    start, best = _worth(gradient, mass, ridge, low, high)[0], 0.0
    for k in range(n):
        upper, v_up = _worth(side[0, k], side[1, k], ridge, low, high)
        lower, v_down = _worth(gradient - side[0, k], mass - side[1, k], ridge, low, high)
        usable = least <= side[2, k] <= most and sign * (v_up - v_down) >= 0
        side[3, k] = upper + lower - start if usable else 0.0
        best = max(best, side[3, k])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _worth(gradient, hessian, ridge, low, high):
    """Twice what a leaf gains at its best value between two bounds, and that value."""
    value = min(max(gradient / (hessian + ridge), low), high)
    return (2.0 * gradient - (hessian + ridge) * value) * value, value


@njit(cache=True, nogil=True, error_model="numpy")
def partition_rows(words, shift, up, rows, buffer):
    """Put the rows that go down first, those that go up after; returns how many go down.

    words   (n_rows,) uint32, shift: which byte of them holds the codes of the feature
    up      (256,) uint8: which codes go up
    rows    (n_leaf_rows,) int32     rearranged, each side keeps its order
    buffer  (n_leaf_rows,) int32     overwritten
    """
    n_down, n_up = 0, 0
    for k in range(len(rows)):
        row = rows[k]
        goes = np.int64(up[(words[np.uint32(row)] >> np.uint32(shift)) & np.uint32(255)])
        # Both places are written and one count goes on: a branch could not be predicted.
        rows[n_down] = row
        buffer[n_up] = row
        n_up += goes
        n_down += 1 - goes
    for k in range(n_up):
        rows[n_down + k] = buffer[k]
    return n_down


@njit(cache=True, nogil=True, error_model="numpy")
def add_values(rows, starts, values, out):
    """Add the value of each leaf i to its rows, rows[starts[i] : starts[i + 1]]."""
    for leaf in range(len(values)):
        for k in range(starts[leaf], starts[leaf + 1]):
            out[rows[k]] += values[leaf]


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def write_codes(values, edges, shift, words):
    """Write the code of each value, the number of edges below it, into a byte of the words."""
    padded = np.empty(256)
    for k in range(256):
        padded[k] = edges[k] if k < len(edges) else np.inf
    for i in range(len(values)):
        x = values[i]
        # Binary search in eight steps without a branch, which could not be predicted.
        code = np.uint32(0)
        for step in (128, 64, 32, 16, 8, 4, 2, 1):
            code += np.uint32(step) * np.uint32(padded[code + np.uint32(step - 1)] < x)
        if math.isnan(x):
            code = np.uint32(MISSING)
        words[i] |= code << np.uint32(shift)
