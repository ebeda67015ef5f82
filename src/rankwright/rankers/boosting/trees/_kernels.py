"""Growing a tree on binned features.

codes  (n_features, n_rows) uint8: bin of each value, 255 where the feature abstains
sums   (n_features, 256, 3) float64: per bin the potential, the mass and the count of rows
"""

from numba import njit


@njit(cache=True, nogil=True)
def sum_leaf(codes, rows, potential, mass, count, first, last, sums):
    """Sums of the rows of one leaf, for features first .. last.

    rows                    (n_leaf_rows,) int32
    potential, mass, count  (n_leaf_rows,) float64, of these rows
    """
    for feature in range(first, last):
        column, at = codes[feature], sums[feature]
        at[:] = 0.0
        for k in range(len(rows)):
            code = column[rows[k]]
            at[code, 0] += potential[k]
            at[code, 1] += mass[k]
            at[code, 2] += count[k]


@njit(cache=True, nogil=True)
def _worth(potential, mass, ridge):
    return potential * potential / (max(mass, 0.0) + ridge)


@njit(cache=True, nogil=True)
def best_splits(sums, n_cuts, defaults, ridge, min_items, first, last, gains, cuts, sides):
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
                if up_rows < min_items or whole_rows - up_rows < min_items:
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
