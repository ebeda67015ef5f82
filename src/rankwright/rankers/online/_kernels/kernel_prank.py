"""Kernel values and the walk of a kernel PRank through a block of rows, compiled.

Every kernel value and every score is summed in an order that depends on its two rows and on the
support alone, not on the block: results do not depend on how a stream is cut into calls.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankwright.rankers.online._kernels.ensembles import member_key, showings
from rankwright.rankers.online._kernels.prank import (
    SUMS,
    inner_product,
    move_thresholds,
    thresholds_passed,
)

LINEAR, POLY, RBF = 0, 1, 2


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
                values[i, first + s] = inner_product(a, support[s])
            else:
                base = gamma * inner_product(a, support[s]) + coef0
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
def walk_block(values, start, columns, dual, size, most, grade, thresholds, predicted):
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
        predicted[i] = thresholds_passed(thresholds, score)
        if not math.isfinite(score):
            skipped += 1
            continue
        if predicted[i] == grade[i]:
            continue
        mistakes += 1
        columns[size], dual[size] = n_old + i, move_thresholds(thresholds, score, grade[i])
        size += 1
        if size > most:
            return i + 1, size, mistakes, skipped
    return values.shape[0], size, mistakes, skipped


@njit(cache=True, nogil=True)
def member_expansions(values, columns, dual, size, scores):
    """The scores of all members; each is summed in the order of the support."""
    for m in range(scores.shape[0]):
        scores[m] = 0.0
    for s in range(size):
        value = values[columns[s]]
        for m in range(scores.shape[0]):
            scores[m] += value * dual[s, m]


@njit(cache=True, nogil=True)
def walk_members(
    values, start, columns, dual, size, most, grade, thresholds, correct, survived, seed, first,
    cutoffs, predicted, votes,
):  # fmt: skip
    """The same for an ensemble: each member learns from the rows that it draws.

    dual               (capacity, n_estimators): a row that any member got wrong supports all
    thresholds         (n_estimators, n_grades - 1)                  changed in place
    correct, survived  (n_estimators,) int64, as in the other passes of an ensemble
    first              how many examples came before this block
    predicted          (n_rows,) int64: the grade by the mean of the members' rules
    votes              (n_rows, 3, n_grades) int64, see ``oap_rows``
    """
    mistakes, skipped = 0, 0
    n_old, n_estimators = values.shape[1] - values.shape[0], thresholds.shape[0]
    scores = np.empty(n_estimators)
    for i in range(start, values.shape[0]):
        member_expansions(values[i], columns, dual, size, scores)
        total = scores.sum()
        predicted[i] = 0
        for r in range(thresholds.shape[1]):
            predicted[i] += thresholds[:, r].sum() <= total
        known = size
        for m in range(n_estimators):
            place = thresholds_passed(thresholds[m], scores[m])
            votes[i, 0, place] += 1
            votes[i, 1, place] += correct[m]
            votes[i, 2, place] += survived[m]
            for _ in range(showings(member_key(seed, m), first + i, cutoffs)):
                if not math.isfinite(scores[m]):
                    skipped += 1
                    continue
                if thresholds_passed(thresholds[m], scores[m]) == grade[i]:
                    correct[m] += 1
                    survived[m] += 1
                    continue
                mistakes += 1
                survived[m] = 1
                if size == known:
                    columns[size] = n_old + i
                    dual[size, :] = 0.0
                    size += 1
                step = move_thresholds(thresholds[m], scores[m], grade[i])
                dual[known, m] += step
                scores[m] += step * values[i, n_old + i]
        if size > most:
            return i + 1, size, mistakes, skipped
    return values.shape[0], size, mistakes, skipped
