"""The jobs that grow a tree: dividing the rows of a leaf, histograms, best splits.

See histogram for ``codes`` and ``sums``, and barrier for how threads share the work.
"""

from __future__ import annotations

import numpy as np

from rankwright.rankers.boosting._kernels.barrier import meet, next_task
from rankwright.rankers.boosting._kernels.binning import MISSING
from rankwright.rankers.boosting._kernels.histogram import (
    copy_codes,
    divide_rows,
    gather,
    place_rows,
    subtract_block,
    sum_block,
    sum_narrow_block,
)
from rankwright.rankers.boosting.binning import NUMBER, ONE_LEVEL, ORDERED
from rankwright.rankers.boosting.grower import (
    DIVIDE,
    FEATURE,
    FIRST,
    FIRST_CHILD,
    N_LEAVES,
    N_LEFT,
    SECOND,
    SPLIT,
    START,
    STEPS,
    STOP,
    SUM,
)
from rankwright.runtime.kernels import njit

# A kernel that is called is compiled again with its caller, and with the caller of that. So what
# ``work`` alone calls is inlined, which saves a tenth of the time to compile.
PART = 2048  # rows that a task divides or copies, at least


@njit(cache=True, nogil=True, error_model="numpy")
def work(bins, shared, growth, leads):
    """One job, by the thread that leads; all jobs of a tree, by the others.

    bins    BinnedRows, of binning
    shared  Shared, of grower: its job and leaves are read, all else is written. The first leaf's
            sums are those of its rows; the second leaf's hold the sums of both, and those of the
            first are subtracted
    growth  Growth, of grower
    """
    team, job, side = shared.team, shared.job, np.empty((4, 256))
    second = np.empty((4, 256, 2), np.int64)
    while meet(team):
        steps, start, stop = job[STEPS], job[START], job[STOP]
        if steps & DIVIDE:
            words, shift = bins.codes[job[FEATURE] >> 2], 8 * (job[FEATURE] & 3)
            n_left = share_rows(
                team, words, shift, shared.goes_right, shared.counts,
                shared.rows[start:stop], shared.buffer[start:stop],
            )  # fmt: skip
            if leads:
                job[N_LEFT] = n_left
            if job[FIRST_CHILD] == 0:
                stop = start + n_left
            else:
                start += n_left
        if steps & SUM and stop - start < len(shared.rows):
            copy_rows(
                team, shared.rows[start:stop], shared.pairs, shared.gathered, shared.by_row,
                shared.copied,
            )  # fmt: skip
        if steps & (SUM | SPLIT):
            block = next_task(team)
            while block < len(bins.codes):
                scan_block(bins, shared, growth, block, start, stop, side, second)
                block = next_task(team)
        meet(team)
        if leads:
            return


@njit(cache=True, inline="always")  # called once
def share_rows(team, words, shift, goes_right, counts, rows, buffer):
    """Put the rows that go left first; returns how many there are. Each side keeps its order.

    counts  (n_parts,) int64   overwritten
    """
    n, n_left = len(rows), 0
    size = max(PART, -(-n // len(counts)))
    n_parts = -(-n // size)
    part = next_task(team)
    while part < n_parts:
        own = slice(part * size, min(part * size + size, n))
        counts[part] = divide_rows(words, shift, goes_right, rows[own], buffer[own])
        part = next_task(team)
    meet(team)
    for part in range(n_parts):
        n_left += counts[part]
    part = next_task(team)
    while part < n_parts:
        left = np.int64(0)  # a literal 0 would compile place_rows a second time
        for before in range(part):
            left += counts[before]
        own = buffer[part * size : min(part * size + size, n)]
        place_rows(own, counts[part], rows, left, n_left + part * size - left)
        part = next_task(team)
    meet(team)
    return n_left


@njit(cache=True, inline="always")  # called once
def copy_rows(team, rows, pairs, gathered, by_row, copied):
    """Copy pairs of a leaf side by side, and codes if the leaf is small."""
    part = next_task(team)
    while part * PART < len(rows):
        first, last = part * PART, min(part * PART + PART, len(rows))
        gather(pairs, rows[first:last], gathered[first:last])
        if len(rows) <= copied.shape[1]:
            copy_codes(by_row, rows[first:last], copied[:, first:last])
        part = next_task(team)
    meet(team)


@njit(cache=True, inline="always")  # called once
def scan_block(bins, shared, growth, block, start, stop, side, second):
    """Histograms and best splits of one or two leaves for a block of four features."""
    job, starts, allowed = shared.job, shared.starts, shared.leaves.allowed
    n_leaves, first, last = job[N_LEAVES], 4 * block, min(4 * block + 4, len(bins.n_bins))
    used = False
    for feature in range(first, last):
        used |= allowed[0, feature] | allowed[1, feature] | allowed[2, feature]
    for leaf in range(n_leaves):
        shared.best.gain[block, leaf] = 0.0
    if not used:
        return
    here = slice(starts[first], starts[first + 4])
    own, other = shared.sums[job[FIRST]][here], shared.sums[job[SECOND]][here]
    if job[STEPS] & SUM:  # otherwise the sums are those of all machines
        rows, pairs, words = shared.rows[start:stop], shared.pairs, bins.codes[block]
        if len(rows) < len(shared.rows):
            pairs = shared.gathered
            if len(rows) <= shared.copied.shape[1]:
                words = shared.copied[block, : len(rows)]
        if len(own) == 4 * 256:
            sum_block(words, rows, pairs, own.reshape(4, 256, 2), second)
        else:
            sum_narrow_block(words, rows, pairs, starts[first : first + 5], own)
    if job[STEPS] & SPLIT:
        if n_leaves > 1:
            subtract_block(own, other)
        for leaf in range(n_leaves):
            split_leaf(bins, shared.leaves, shared.best, shared.level, starts,
                       other if leaf else own, leaf, growth, block, side)  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def split_leaf(bins, leaves, best, level, starts, sums, leaf, growth, block, side):
    """Write the best split of a leaf on a block of features.

    Candidate k sends the k + 1 highest bins to the right, or one level, that of code k. Of a
    symmetric tree, the gains of the leaf are added to those of its level.

    sums  (n, 2) int64: the histograms of the block's features
    side  (4, 256) float64   overwritten
    """
    gain, found, candidate, way, found_missing = 0.0, -1, 0, 0, False
    total, bounds = leaves.total[leaf], leaves.bounds[leaf]
    for feature in range(4 * block, min(4 * block + 4, len(bins.n_bins))):
        if not leaves.allowed[leaf, feature]:
            continue
        kind, start = bins.kind[feature], starts[feature]
        at = sums[start - starts[4 * block] : starts[feature + 1] - starts[4 * block]]
        if len(at) < 256 and kind == NUMBER and not (growth.bounded or growth.symmetric):
            # Most of many features are worse than one of another block: they need no closer look.
            # Another thread may change the leader now: it is the gain of some split of this leaf
            # all the same. Gains that `first_best` calls equal are kept, so that the result does
            # not depend on which block another thread has finished.
            if narrow_gain(at, total, growth) <= max(gain, best.leader[leaf] * (1.0 - 1e-6)):
                continue
        n = bins.n_bins[feature] - np.int64(kind == ONE_LEVEL)
        has_missing = at[len(at) - 1, 1] != 0
        if growth.symmetric:
            if level.is_first[0]:
                level.has_missing[feature] = has_missing
            has_missing = level.has_missing[feature]
        for default in range(2):
            if not growth.defaults[default] or (default and not has_missing and growth.defaults[0]):
                continue
            add_up(at, n, kind == ONE_LEVEL, default, growth.bits, side)
            most = cut_gains(side, n, kind, bins.monotone[feature], total, bounds, growth)
            if growth.symmetric:
                for k in range(n):
                    level.gain[default, start + k] += side[3, k]
            elif most > gain * (1.0 + 1e-9):
                gain, found, way, found_missing = most, feature, default, has_missing
                candidate = 0  # the first that is the largest up to rounding
                while side[3, candidate] < most * (1.0 - 1e-9):
                    candidate += 1
    if found >= 0:
        one_level = bins.kind[found] == ONE_LEVEL
        threshold = bins.n_bins[found] - np.int64(one_level) - 2 - candidate
        goes_right = best.goes_right[block, leaf]
        for code in range(MISSING):
            goes_right[code] = code == candidate if one_level else code > threshold
        goes_right[MISSING] = way
        at = sums[starts[found] - starts[4 * block] : starts[found + 1] - starts[4 * block]]
        split = best.split[block, leaf]
        split[0], split[1], split[2] = found, threshold, found_missing
        add_right(at, goes_right, split[3:])
        best.gain[block, leaf] = gain
        best.leader[leaf] = max(best.leader[leaf], gain)


@njit(cache=True, nogil=True, error_model="numpy")
def add_right(at, goes_right, total):
    """Write the sums of the rows that go right."""
    total[:] = 0
    missing = len(at) - 1
    for code in range(len(at)):
        if goes_right[MISSING if code == missing else code]:
            total[0] += at[code, 0]
            total[1] += at[code, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def narrow_gain(at, total, growth):
    """The largest gain of a cut, in the bits of ``free_gains``; infinite if values are missing."""
    if at[len(at) - 1, 1] != 0:
        return np.inf
    mask, largest, first, second = (np.int64(1) << growth.bits) - 1, 0.0, 0, 0
    gradient, mass, n_rows = float(total[0]), float(total[1] >> growth.bits), total[1] & mask
    start = gradient * gradient / (mass + growth.ridge)
    for code in range(len(at) - 2, 0, -1):
        first += at[code, 0]
        second += at[code, 1]
        if growth.min_samples <= second & mask <= n_rows - growth.min_samples:
            right, hessian = float(first), float(second >> growth.bits)
            left, above = gradient - right, hessian + growth.ridge
            below = (mass - hessian) + growth.ridge
            gain = (right * right * below + left * left * above) / (above * below) - start
            largest = max(largest, gain)
    return largest


@njit(cache=True, nogil=True, error_model="numpy")
def add_up(at, n, one_level, default, bits, side):
    """Write the sums of what goes right: gradient, Hessian, rows; with missing values or not.

    ``second`` holds Hessian and rows, see histogram; both are exact until they become floats.
    """
    first, second = default * at[len(at) - 1, 0], default * at[len(at) - 1, 1]
    mask = (np.int64(1) << bits) - 1
    if one_level:
        for k in range(n):
            right, rest = first + at[k, 0], second + at[k, 1]
            side[0, k], side[1, k], side[2, k] = right, rest >> bits, rest & mask
        return
    for k in range(n):
        first += at[n - 1 - k, 0]
        second += at[n - 1 - k, 1]
        side[0, k], side[1, k], side[2, k] = first, second >> bits, second & mask


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def cut_gains(side, n, kind, monotone, total, bounds, growth):
    """Write what each cut gains to side[3], 0 where it may not be; returns the largest gain."""
    bits, ordered = growth.bits, kind == ORDERED
    gradient, mass = float(total[0]), float(total[1] >> bits)
    n_rows = total[1] & ((np.int64(1) << bits) - 1)
    least, most = float(growth.min_samples), float(n_rows - growth.min_samples)
    ridges = growth.ridge, growth.ridge + (growth.category_ridge if ordered else 0.0)
    if growth.bounded:
        limits = bounds[0], bounds[1], float(monotone)
        best = bounded_gains(side, n, (gradient, mass), ridges, least, most, limits)
    else:
        best = free_gains(side, n, (gradient, mass), ridges, least, most)
    if not ordered:
        return best
    best = 0.0
    for k in range(n):
        right, above = side[0, k], side[1, k] + growth.ridge
        left, below = gradient - right, (mass - side[1, k]) + growth.ridge
        if right * below < left * above:  # the side with the higher statistic has a lower value
            side[3, k] = 0.0
        best = max(best, side[3, k])
    return best


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
def free_gains(side, n, total, ridges, least, most):
    """Gains of cuts with ``least`` to ``most`` rows above them.

    ridges  what is added to the Hessian of the leaf, and to that of each side
    """
    (gradient, mass), ridge = total, ridges[1]
    start, best = gradient * gradient / (mass + ridges[0]), 0.0
    # right**2 / above + left**2 / below as one fraction: vectorized, no branch, one division.
    for k in range(n):
        right, left = side[0, k], gradient - side[0, k]
        above, below = side[1, k] + ridge, (mass - side[1, k]) + ridge
        gain = (right * right * below + left * left * above) / (above * below) - start
        side[3, k] = gain if (side[2, k] >= least) & (side[2, k] <= most) else 0.0
    for k in range(n):
        best = max(best, side[3, k])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def bounded_gains(side, n, total, ridges, least, most, limits):
    """As ``free_gains`` where values have bounds; limits (bounds of the leaf, sign of the feature).

    The gain is 0 where the values of the two sides are in the wrong order.
    """
    low, high, sign = limits
    (gradient, mass), ridge = total, ridges[1]
    start, best = _worth(gradient, mass, ridges[0], low, high)[0], 0.0
    for k in range(n):
        upper, v_right = _worth(side[0, k], side[1, k], ridge, low, high)
        lower, v_left = _worth(gradient - side[0, k], mass - side[1, k], ridge, low, high)
        usable = least <= side[2, k] <= most and sign * (v_right - v_left) >= 0
        side[3, k] = upper + lower - start if usable else 0.0
        best = max(best, side[3, k])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _worth(gradient, hessian, ridge, low, high):
    """Twice what a leaf gains at its best value between two bounds, and that value."""
    value = min(max(gradient / (hessian + ridge), low), high)
    return (2.0 * gradient - (hessian + ridge) * value) * value, value
