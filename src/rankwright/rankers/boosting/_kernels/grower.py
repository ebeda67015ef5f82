"""Best splits of the leaves of a tree.

See histogram for ``codes`` and ``sums``, and scheduler for how threads share the work.
"""

from __future__ import annotations

import numpy as np

from rankwright.rankers.boosting._kernels.binning import MISSING
from rankwright.rankers.boosting._kernels.histogram import (
    copy_codes,
    gather,
    subtract_block,
    sum_block,
    sum_narrow_block,
)
from rankwright.rankers.boosting._kernels.scheduler import (
    FIRST,
    N_COPIES,
    N_LEAVES,
    SECOND,
    SPLIT,
    START,
    STEP,
    STOP,
    SUM,
    finish_task,
    next_task,
    open_job,
)
from rankwright.rankers.boosting.binning import NUMBER, ONE_LEVEL, ORDERED
from rankwright.runtime.kernels import njit

COPIED = 2048  # rows that a task copies


@njit(cache=True, nogil=True, error_model="numpy")
def scan_leaves(bins, shared, growth, is_leader):
    """Histograms of one or two new leaves and their best splits, a block of features at a time.

    The leader opens the job and returns when all tasks are done; other threads take tasks of one
    job after the other, until the grower closes them. The first tasks copy rows, each of the others
    scans a block of features.

    bins    BinnedRows, of binning
    shared  Shared, of grower: its leaves and job are read, its sums and best are written. The
            first leaf's sums are those of its rows; the second leaf's hold the sums of both, and
            those of the first are subtracted
    growth  Growth, of grower
    """
    job, n_blocks, scratch = shared.job, len(bins.codes), np.empty((4, 256))
    if is_leader:
        open_job(job)
    while True:
        task = next_task(job, n_blocks, is_leader)
        if task < 0:
            return
        if task < job[N_COPIES]:
            copy_rows(shared, task)
        else:
            scan_block(bins, shared, growth, task - job[N_COPIES], scratch)
        finish_task(job)


@njit(cache=True, inline="always")
def copy_rows(shared, task):
    """Copy pairs of the first leaf side by side, and codes if the leaf is small."""
    job = shared.job
    first = task * COPIED
    last = min(first + COPIED, job[STOP] - job[START])
    rows = shared.rows[job[START] + first : job[START] + last]
    gather(shared.pairs, rows, shared.gathered[first:last])
    if job[STOP] - job[START] <= shared.copied.shape[1]:
        copy_codes(shared.by_row, rows, shared.copied[:, first:last])


@njit(cache=True, inline="always")
def scan_block(bins, shared, growth, block, scratch):
    """One block of ``scan_leaves``."""
    job, leaves, best = shared.job, shared.leaves, shared.best
    start, stop, n_leaves = job[START], job[STOP], job[N_LEAVES]
    starts = shared.starts[4 * block : 4 * block + 5]
    used = False
    for leaf in range(n_leaves):
        best.gain[block, leaf], best.feature[block, leaf] = 0.0, -1
        for feature in range(4 * block, min(4 * block + 4, len(bins.n_bins))):
            used |= leaves.allowed[leaf, feature] | leaves.summed[feature]
    if not used:
        return
    pairs = shared.pairs if stop - start == len(shared.rows) else shared.gathered
    first, second = shared.sums[job[FIRST]], shared.sums[job[SECOND]]
    words = bins.codes[block]
    if job[N_COPIES] > 0 and stop - start <= shared.copied.shape[1]:
        words = shared.copied[block, : stop - start]
    own = first[starts[0] : starts[4]]
    if job[STEP] == SPLIT:
        pass  # the sums are those of all machines
    elif len(own) == 4 * 256:
        sum_block(words, shared.rows[start:stop], pairs, own.reshape(4, 256, 2))
    else:
        sum_narrow_block(words, shared.rows[start:stop], pairs, starts, own)
    if job[STEP] == SUM:
        return
    if n_leaves > 1:
        subtract_block(own, second[starts[0] : starts[4]])
    for leaf in range(n_leaves):
        sums = second if leaf else first
        for feature in range(4 * block, min(4 * block + 4, len(bins.n_bins))):
            if leaves.can_split[leaf] and leaves.allowed[leaf, feature]:
                at = sums[shared.starts[feature] : shared.starts[feature + 1]]
                plain = not (growth.bounded or growth.symmetric)
                if len(at) < 256 and plain and bins.kind[feature] == NUMBER:
                    # Most of many features are worse than one of another block: they need no closer
                    # look. Gains that `first_best` calls equal are kept, so that the result does
                    # not depend on which block another thread has finished.
                    least = max(best.gain[block, leaf], best.leader[leaf] * (1.0 - 1e-6))
                    if narrow_gain(at, leaves.total[leaf], growth) <= least:
                        continue
                find_split(at, feature, bins, shared, leaf, growth, scratch)
        if best.feature[block, leaf] >= 0:
            feature = best.feature[block, leaf]
            at = sums[shared.starts[feature] : shared.starts[feature + 1]]
            add_right(at, best.goes_right[block, leaf], best.total[block, leaf])
        if best.gain[block, leaf] > best.leader[leaf]:
            best.leader[leaf] = best.gain[block, leaf]


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


@njit(cache=True, inline="always")
def find_split(at, feature, bins, shared, leaf, growth, side):
    """Keep the best split of a leaf on one feature, if it beats those of the block so far.

    Candidate k sends the k + 1 highest bins to the right, or one level, that of code k. Of a
    symmetric tree, the gains of the leaf are added to those of its level.

    at      (n, 2) int64: the histogram, missing values last
    shared  Shared, of grower: the row of the feature's block in ``best``, or ``level`` is written
    side    (4, 256) float64   overwritten
    """
    leaves, best, level = shared.leaves, shared.best, shared.level
    block, one_level = feature >> 2, bins.kind[feature] == ONE_LEVEL
    start, n = shared.starts[feature], bins.n_bins[feature] - np.int64(one_level)
    has_missing = at[len(at) - 1, 1] != 0
    if growth.symmetric:
        if level.is_first[0]:
            level.has_missing[feature] = has_missing
        has_missing = level.has_missing[feature]
    for default in range(2):
        if not growth.defaults[default] or (default and not has_missing and growth.defaults[0]):
            continue
        add_up(at, n, one_level, default, growth.bits, side)
        most = cut_gains(side, n, feature, bins, leaves, leaf, growth)
        if growth.symmetric:
            for k in range(n):
                level.gain[default, start + k] += side[3, k]
            continue
        if most <= best.gain[block, leaf] * (1.0 + 1e-9):
            continue
        last = 0  # the first that is the largest up to rounding
        while side[3, last] < most * (1.0 - 1e-9):
            last += 1
        best.gain[block, leaf], best.feature[block, leaf] = most, feature
        best.bin_threshold[block, leaf] = n - 2 - last
        best.has_missing[block, leaf] = has_missing
        goes_right = best.goes_right[block, leaf]
        for code in range(MISSING):
            goes_right[code] = code == last if one_level else code > n - 2 - last
        goes_right[MISSING] = default


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


@njit(cache=True, inline="always")
def cut_gains(side, n, feature, bins, leaves, leaf, growth):
    """Write what each cut gains to side[3], 0 where it may not be; returns the largest gain."""
    bits, ordered = growth.bits, bins.kind[feature] == ORDERED
    gradient, mass = float(leaves.total[leaf, 0]), float(leaves.total[leaf, 1] >> bits)
    n_rows = leaves.total[leaf, 1] & ((np.int64(1) << bits) - 1)
    least, most = float(growth.min_samples), float(n_rows - growth.min_samples)
    ridges = growth.ridge, growth.ridge + (growth.category_ridge if ordered else 0.0)
    if growth.bounded:
        limits = leaves.bounds[leaf, 0], leaves.bounds[leaf, 1], float(bins.monotone[feature])
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
