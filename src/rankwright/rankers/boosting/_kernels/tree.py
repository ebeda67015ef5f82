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
def best_splits(sums, n_cuts, defaults, ridge, min_samples_leaf, splits):
    """The best split of a leaf for each feature.

    A row goes up if its code is above the cut; rows that lack the feature go up if the default is
    1. The gain is what the split adds to the sum over leaves of potential**2 / (mass + ridge).

    n_cuts    (n_features,) int64
    defaults  (2,) bool: which defaults may be used
    splits    Splits, of grower   written
    """
    for feature in range(len(n_cuts)):
        at = sums[feature]
        none, none_mass, none_rows = at[255, 0], at[255, 1], at[255, 2]
        whole, whole_mass, whole_rows = 0.0, 0.0, 0.0
        for code in range(n_cuts[feature] + 1):
            whole += at[code, 0]
            whole_mass += at[code, 1]
            whole_rows += at[code, 2]
        whole, whole_mass, whole_rows = whole + none, whole_mass + none_mass, whole_rows + none_rows
        start = _worth(whole, whole_mass, ridge)
        best, best_cut, best_default = 0.0, -2, 0
        above, above_mass, above_rows = 0.0, 0.0, 0.0
        for cut in range(n_cuts[feature] - 1, -2, -1):
            above += at[cut + 1, 0]
            above_mass += at[cut + 1, 1]
            above_rows += at[cut + 1, 2]
            for default in range(2):
                if not defaults[default] or (none_rows <= 0 and default == 1 and defaults[0]):
                    continue
                up = above + default * none
                up_mass = above_mass + default * none_mass
                up_rows = above_rows + default * none_rows
                if up_rows < min_samples_leaf or whole_rows - up_rows < min_samples_leaf:
                    continue
                gain = (
                    _worth(up, up_mass, ridge)
                    + _worth(whole - up, whole_mass - up_mass, ridge)
                    - start
                )
                if gain > best * (1.0 + 1e-9):
                    best, best_cut, best_default = gain, cut, default
        splits.gain[feature], splits.cut[feature] = best, best_cut
        splits.default[feature] = best_default


@njit(cache=True, nogil=True)
def partition_rows(column, rows, cut, default, buffer):
    """Put the rows that go down first, those that go up after; returns how many go down.

    rows    (n_leaf_rows,) int32   rearranged, each side keeps its order
    buffer  (n_leaf_rows,) int32   overwritten
    """
    down, up = 0, 0
    for k in range(len(rows)):
        code = column[rows[k]]
        goes_up = default == 1 if code == 255 else code > cut
        if goes_up:
            buffer[up] = rows[k]
            up += 1
        else:
            rows[down] = rows[k]
            down += 1
    for k in range(up):
        rows[down + k] = buffer[k]
    return down
