"""Growing a tree on binned features.

codes  (n_features, n_rows) uint8: bin of each value, 255 where the feature abstains
sums   (n_features, 256, 3) float64: per bin the potential, the mass and the count of rows
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sum_leaf(codes, rows, potential, mass, count, first, last, sums):
    """Sums of the rows of one leaf, for features first .. last, two at a time.

    rows                    (n_leaf_rows,) int32
    potential, mass, count  (n_leaf_rows,) float64, of these rows
    """
    sums[first:last] = 0.0
    for feature in range(first, last - 1, 2):
        column, column2 = codes[feature], codes[feature + 1]
        at, at2 = sums[feature], sums[feature + 1]
        for k in range(len(rows)):
            row, p, m, c = np.uint32(rows[k]), potential[k], mass[k], count[k]
            code, code2 = column[row], column2[row]
            at[code, 0] += p
            at[code, 1] += m
            at[code, 2] += c
            at2[code2, 0] += p
            at2[code2, 1] += m
            at2[code2, 2] += c
    if (last - first) % 2:
        column, at = codes[last - 1], sums[last - 1]
        for k in range(len(rows)):
            code = column[np.uint32(rows[k])]
            at[code, 0] += potential[k]
            at[code, 1] += mass[k]
            at[code, 2] += count[k]


@njit(cache=True, nogil=True)
def _worth(potential, mass, ridge):
    return potential * potential / (max(mass, 0.0) + ridge)


@njit(cache=True, nogil=True)
def best_splits(sums, n_cuts, defaults, ridge, min_samples_leaf, first, last, gains, cuts, sides):
    """The best split of a leaf for each feature first .. last.

    A row goes up if its code is above the cut; rows that lack the feature go up if the side is 1.
    The gain is what the split adds to the sum over leaves of potential**2 / (mass + ridge).

    defaults  (2,) bool: which sides may be used
    gains, cuts, sides   (n_features,)   written
    """
    for feature in range(first, last):
        at = sums[feature]
        none, none_mass, none_rows = at[255, 0], at[255, 1], at[255, 2]
        whole, whole_mass, whole_rows = 0.0, 0.0, 0.0
        for code in range(n_cuts[feature] + 1):
            whole += at[code, 0]
            whole_mass += at[code, 1]
            whole_rows += at[code, 2]
        whole, whole_mass, whole_rows = whole + none, whole_mass + none_mass, whole_rows + none_rows
        start = _worth(whole, whole_mass, ridge)
        best, best_cut, best_side = 0.0, -2, 0
        above, above_mass, above_rows = 0.0, 0.0, 0.0
        for cut in range(n_cuts[feature] - 1, -2, -1):
            above += at[cut + 1, 0]
            above_mass += at[cut + 1, 1]
            above_rows += at[cut + 1, 2]
            for side in range(2):
                if not defaults[side] or (none_rows <= 0 and side == 1 and defaults[0]):
                    continue
                up = above + side * none
                up_mass = above_mass + side * none_mass
                up_rows = above_rows + side * none_rows
                if up_rows < min_samples_leaf or whole_rows - up_rows < min_samples_leaf:
                    continue
                gain = (
                    _worth(up, up_mass, ridge)
                    + _worth(whole - up, whole_mass - up_mass, ridge)
                    - start
                )
                if gain > best * (1.0 + 1e-9):
                    best, best_cut, best_side = gain, cut, side
        gains[feature], cuts[feature], sides[feature] = best, best_cut, best_side


@njit(cache=True, nogil=True)
def part_rows(column, rows, cut, side, room):
    """Put the rows that go down first, those that go up after; returns how many go down.

    rows  (n_leaf_rows,) int32   rearranged, each side keeps its order
    room  (n_leaf_rows,) int32   working room
    """
    down, up = 0, 0
    for k in range(len(rows)):
        code = column[rows[k]]
        goes_up = side == 1 if code == 255 else code > cut
        if goes_up:
            room[up] = rows[k]
            up += 1
        else:
            rows[down] = rows[k]
            down += 1
    for k in range(up):
        rows[down + k] = room[k]
    return down


@njit(cache=True, nogil=True)
def sum_levels(leaf, rows, level_ptr, rising, falling, sums):
    """What the members of each leaf weigh on each level.

    leaf  (n_rows,) int32
    sums  (n_levels, n_leaves, 2) float64: sums of rising and of falling   written
    """
    sums[:] = 0.0
    for level in range(len(level_ptr) - 1):
        for k in range(level_ptr[level], level_ptr[level + 1]):
            at = leaf[rows[k]]
            sums[level, at, 0] += rising[k]
            sums[level, at, 1] += falling[k]


@njit(cache=True, nogil=True)
def leaf_curve(sums, value, distance, query_ptr, grade, query_weight, magnitude, ratio, chain):
    """The weight of all pairs if the rows of each leaf moved by ``distance * value``, with its
    first two derivatives.

    value         (n_leaves,) float64
    ratio, chain  as in rankwright.feedback._kernels.levels.level_factors
    """
    weight, first, second = 0.0, 0.0, 0.0
    n_leaves = len(value)
    grow, shrink = np.exp(distance * value), np.exp(-distance * value)
    for query in range(len(query_ptr) - 1):
        start, gaps = query_ptr[query], magnitude[query]
        a0, a1, a2, b0, b1, b2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0  # lower levels: plain, times gaps
        for level in range(start, query_ptr[query + 1]):
            low0, low1, low2, up0, up1, up2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for leaf in range(n_leaves):
                rise, fall = sums[level, leaf, 0] * grow[leaf], sums[level, leaf, 1] * shrink[leaf]
                v = value[leaf]
                low0, low1, low2 = low0 + rise, low1 + rise * v, low2 + rise * v * v
                up0, up1, up2 = up0 + fall, up1 + fall * v, up2 + fall * v * v
            if level > start:
                gap = grade[level] - grade[level - 1]
                b0, b1, b2 = b0 + gap * a0, b1 + gap * a1, b2 + gap * a2
                factor = ratio * query_weight[query] * chain[2, level]
                c0, c1, c2 = (b0, b1, b2) if gaps else (a0, a1, a2)
                weight += factor * c0 * up0
                first += factor * (c1 * up0 - c0 * up1)
                second += factor * (c2 * up0 - 2.0 * c1 * up1 + c0 * up2)
            keep, join = chain[0, level], chain[1, level]
            a0, a1, a2 = a0 * keep + low0 * join, a1 * keep + low1 * join, a2 * keep + low2 * join
            b0, b1, b2 = b0 * keep, b1 * keep, b2 * keep
    return weight, first, second
