"""Kernel values and the walk of a kernel PRank through a block of rows, compiled.

Every kernel value and every score is summed in an order that depends on its two rows and on the
support alone, not on the block: results do not depend on how a stream is cut into calls.
"""

from __future__ import annotations

import math

from numba import njit

SUMS = {"reassoc", "contract", "nsz", "arcp"}
LINEAR, POLY, RBF = 0, 1, 2


@njit(cache=True, nogil=True, fastmath=SUMS)
def product(a, b):
    total = 0.0
    for f in range(a.shape[0]):
        total += a[f] * b[f]
    return total


@njit(cache=True, nogil=True, fastmath=SUMS)
def distance(a, b):
    total = 0.0
    for f in range(a.shape[0]):
        total += (a[f] - b[f]) * (a[f] - b[f])
    return total


@njit(cache=True, nogil=True)
def kernel_block(rows, support, kind, gamma, degree, coef0, values, first):
    """values[i, first + s] = kernel of row i and support row s."""
    for i in range(rows.shape[0]):
        a = rows[i]
        for s in range(support.shape[0]):
            if kind == RBF:
                values[i, first + s] = math.exp(-gamma * distance(a, support[s]))
            elif kind == LINEAR:
                values[i, first + s] = product(a, support[s])
            else:
                base = gamma * product(a, support[s]) + coef0
                power = 1.0
                for _ in range(degree):
                    power *= base
                values[i, first + s] = power


@njit(cache=True, nogil=True, fastmath=SUMS)
def expansion(values, columns, dual, size):
    total = 0.0
    for s in range(size):
        total += dual[s] * values[columns[s]]
    return total


@njit(cache=True, nogil=True)
def walk_block(values, grade, start, thresholds, columns, dual, size, most, predicted):
    """Show the rows of a block from ``start`` on, until the support outgrows ``most``.

    values     (n_rows, n_old + n_rows): kernels with the old support, then with the block itself
    columns    (capacity,) int64: the column of each support row   changed in place
    dual       (capacity,) float64: its coefficient                changed in place
    Returns the next row to show, the size of the support, mistakes and skips.
    """
    mistakes, skipped = 0, 0
    n_old = values.shape[1] - values.shape[0]
    for i in range(start, values.shape[0]):
        score = expansion(values[i], columns, dual, size)
        place = 0
        while place < thresholds.shape[0] and thresholds[place] <= score:
            place += 1
        predicted[i] = place
        if not math.isfinite(score):
            skipped += 1
            continue
        if place == grade[i]:
            continue
        mistakes += 1
        step = 0
        for r in range(thresholds.shape[0]):
            side = 1 if grade[i] > r else -1
            if (score - thresholds[r]) * side <= 0.0:
                thresholds[r] -= side
                step += side
        columns[size], dual[size] = n_old + i, step
        size += 1
        if size > most:
            return i + 1, size, mistakes, skipped
    return values.shape[0], size, mistakes, skipped
