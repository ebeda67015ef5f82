"""Passes of the online rankers over rows, compiled.

Rows come as ``(X, data, indices, indptr)``: a dense matrix is ``(X, None, None, None)``, a CSR
matrix ``(None, data, indices, indptr)``; numba drops the branch whose argument is None. ``order``
lists the rows to show, so rows may be shown in any order and any number of times. Each pass does
for one row what it does for a million, in the same order of operations: results do not depend on
how a stream is cut into calls.

Every pass answers ``(mistakes, skipped)``: visits at which the predicted grade was wrong, and
visits at which the score was not a finite number, so that nothing could be learned.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# Sums may be reordered (SIMD); not a number stays not a number.
SUMS = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True, fastmath=SUMS)
def inner_product(a, b):
    total = 0.0
    for f in range(a.shape[0]):
        total += a[f] * b[f]
    return total


@njit(cache=True, nogil=True, fastmath=SUMS)
def row_dot(X, data, indices, indptr, row, weights):
    """The product of one row and the weights."""
    total = 0.0
    if X is not None:
        for f in range(weights.shape[0]):
            total += X[row, f] * weights[f]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            total += data[e] * weights[indices[e]]
    return total


@njit(cache=True, nogil=True, fastmath=SUMS)
def row_norm(X, data, indices, indptr, row):
    """The squared length of one row."""
    total = 0.0
    if X is not None:
        for f in range(X.shape[1]):
            total += X[row, f] * X[row, f]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            total += data[e] * data[e]
    return total


@njit(cache=True, nogil=True)
def row_add(X, data, indices, indptr, row, weights, factor):
    """weights += factor * row."""
    if X is not None:
        for f in range(weights.shape[0]):
            weights[f] += factor * X[row, f]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            weights[indices[e]] += factor * data[e]


@njit(cache=True, nogil=True)
def thresholds_passed(thresholds, score):
    """How many of the ascending thresholds lie at or below the score: the predicted grade."""
    place = 0
    while place < thresholds.shape[0] and thresholds[place] <= score:
        place += 1
    return place


@njit(cache=True, nogil=True)
def move_thresholds(thresholds, score, grade):
    """PRank's a_r: move every threshold on the wrong side of the score by one.

    Returns the sum of a_r, by which the row is then added to the weights.
    """
    total = 0
    for r in range(thresholds.shape[0]):
        side = 1 if grade > r else -1
        if (score - thresholds[r]) * side <= 0.0:
            thresholds[r] -= side
            total += side
    return total


@njit(cache=True, nogil=True)
def prank_pass(
    X, data, indices, indptr, grade, order, weights, thresholds, drift, drift_thresholds, seen,
    asked, predicted,
):  # fmt: skip
    """Show PRank the rows of ``order``, one after the other.

    grade             (n_rows,) int64, 0 .. n_grades - 1
    order             (n_visits,) int64, rows to show
    weights           (n_features,) float64             changed in place
    thresholds        (n_grades - 1,) float64, sorted   changed in place
    drift             (n_features,) or (0,): sum over updates of (rounds before it) * change,
                      from which the average over time is the last rule minus drift / rounds
    drift_thresholds  the same for the thresholds
    seen              rounds before this pass
    predicted         (n_visits,) int64, out: the grade predicted before learning (by the average,
                      if averages are kept)
    """
    mistakes, skipped = 0, 0
    averaging = drift.shape[0] > 0
    before = np.empty_like(thresholds)
    for visit in range(order.shape[0]):
        row = order[visit]
        score = row_dot(X, data, indices, indptr, row, weights)
        place = thresholds_passed(thresholds, score)
        predicted[visit] = place
        if averaging and asked and seen + visit > 0:
            rounds = float(seen + visit)
            mean = score - row_dot(X, data, indices, indptr, row, drift) / rounds
            predicted[visit] = 0
            for r in range(thresholds.shape[0]):
                predicted[visit] += thresholds[r] - drift_thresholds[r] / rounds <= mean
        if not math.isfinite(score):
            skipped += 1
            continue
        if place == grade[row]:
            continue
        mistakes += 1
        before[:] = thresholds
        step = move_thresholds(thresholds, score, grade[row])
        row_add(X, data, indices, indptr, row, weights, float(step))
        if averaging:
            rounds = float(seen + visit)
            row_add(X, data, indices, indptr, row, drift, rounds * step)
            for r in range(thresholds.shape[0]):
                drift_thresholds[r] += rounds * (thresholds[r] - before[r])
    return mistakes, skipped


@njit(cache=True, nogil=True, fastmath=SUMS)
def squared_length(weights, thresholds):
    total = 0.0
    for f in range(weights.shape[0]):
        total += weights[f] * weights[f]
    for r in range(thresholds.shape[0]):
        total += thresholds[r] * thresholds[r]
    return total


@njit(cache=True, nogil=True)
def romma_step(X, data, indices, indptr, row, score, grade, weights, thresholds, margin):
    """The shortest rule that keeps the old one's half space and puts this row right by ``margin``.

    With v = (weights, -thresholds) and z the mean over the wrong thresholds of side * (row, e_r),
    the new rule is alpha v + beta z; thresholds are then sorted, which changes no length.
    """
    place = thresholds_passed(thresholds, score)
    side = 1.0 if grade > place else -1.0
    low, high = min(place, grade), max(place, grade)
    count = high - low
    inner = 0.0
    for r in range(low, high):
        inner += side * (score - thresholds[r])
    inner /= count
    length = squared_length(weights, thresholds)
    reach = row_norm(X, data, indices, indptr, row) + 1.0 / count
    if length == 0.0:
        alpha, beta = 1.0, margin / reach
    else:
        room = reach * length - inner * inner
        if not room > 1e-12 * reach * length:
            return  # this row contradicts the rule outright: no rule satisfies both
        alpha = (reach * length - margin * inner) / room
        beta = length * (margin - inner) / room
    for f in range(weights.shape[0]):
        weights[f] *= alpha
    for r in range(thresholds.shape[0]):
        thresholds[r] *= alpha
    row_add(X, data, indices, indptr, row, weights, beta * side)
    for r in range(low, high):
        thresholds[r] -= beta * side / count
    thresholds.sort()


@njit(cache=True, nogil=True)
def romma_pass(
    X, data, indices, indptr, grade, order, weights, thresholds, drift, drift_thresholds, seen,
    asked, predicted, margin,
):  # fmt: skip
    """Show the rows to PRank with ROMMA's update; ``margin`` is a (1,) array, see PRank.margin_.

    ``drift`` and ``drift_thresholds`` hold sums over rounds of the rule scaled to length 1 (a rule
    of this kind grows without end on noisy rows, its length says nothing).
    """
    mistakes, skipped = 0, 0
    averaging = drift.shape[0] > 0
    for visit in range(order.shape[0]):
        row = order[visit]
        score = row_dot(X, data, indices, indptr, row, weights)
        place = thresholds_passed(thresholds, score)
        predicted[visit] = place
        if averaging and asked:
            mean = row_dot(X, data, indices, indptr, row, drift)
            predicted[visit] = thresholds_passed(drift_thresholds, mean)
        if not math.isfinite(score):
            skipped += 1
        elif place != grade[row]:
            mistakes += 1
            romma_step(
                X, data, indices, indptr, row, score, grade[row], weights, thresholds, margin[0]
            )
            length = squared_length(weights, thresholds)
            if length > 1e60:  # a power of two scales without rounding
                margin[0] *= 2.0**-90
                for f in range(weights.shape[0]):
                    weights[f] *= 2.0**-90
                for r in range(thresholds.shape[0]):
                    thresholds[r] *= 2.0**-90
        if averaging:
            length = math.sqrt(squared_length(weights, thresholds))
            if length > 0.0:
                for f in range(weights.shape[0]):
                    drift[f] += weights[f] / length
                for r in range(thresholds.shape[0]):
                    drift_thresholds[r] += thresholds[r] / length
    return mistakes, skipped


@njit(cache=True, nogil=True)
def voted_pass(
    X, data, indices, indptr, grade, order, weights, thresholds, kept, kept_thresholds, votes,
    state, extra, predicted,
):  # fmt: skip
    """Show PRank the rows and keep every rule that has a vote.

    kept, kept_thresholds, votes  (capacity, ...) the rules kept so far, and their votes
    state  (3,) int64: rules kept, rounds the present rule was right, rules dropped
    extra  votes of a rule beyond the rounds at which it was right, 0 or 1
    When all places are taken the rule with the fewest votes goes (the oldest of them).
    """
    mistakes, skipped = 0, 0
    for visit in range(order.shape[0]):
        row = order[visit]
        score = row_dot(X, data, indices, indptr, row, weights)
        place = thresholds_passed(thresholds, score)
        predicted[visit] = place
        if not math.isfinite(score):
            skipped += 1
            continue
        if place == grade[row]:
            state[1] += 1
            continue
        mistakes += 1
        if state[1] + extra > 0:
            keep_rule(weights, thresholds, kept, kept_thresholds, votes, state, extra)
        state[1] = 0
        step = move_thresholds(thresholds, score, grade[row])
        row_add(X, data, indices, indptr, row, weights, float(step))
    return mistakes, skipped


@njit(cache=True, nogil=True)
def keep_rule(weights, thresholds, kept, kept_thresholds, votes, state, extra):
    slot = state[0]
    if slot == votes.shape[0]:
        state[2] += 1
        slot = 0
        for s in range(1, votes.shape[0]):
            if votes[s] < votes[slot]:
                slot = s
        if votes[slot] > state[1] + extra:
            return
        for s in range(slot, votes.shape[0] - 1):  # keep the order of age
            kept[s, :] = kept[s + 1, :]
            kept_thresholds[s, :] = kept_thresholds[s + 1, :]
            votes[s] = votes[s + 1]
        slot = votes.shape[0] - 1
    else:
        state[0] += 1
    kept[slot, :] = weights
    kept_thresholds[slot, :] = thresholds
    votes[slot] = state[1] + extra


@njit(cache=True, nogil=True)
def widrow_hoff_pass(
    X, data, indices, indptr, grade, order, weights, target, middles, step, limit, predicted
):
    """Gradient steps on the squared error: weights -= step * (score - target) * row.

    target   (n_grades,) float64: the value of each grade; middles: half way between neighbors
    limit    an error beyond it is a divergence: the visit is skipped
    """
    mistakes, skipped = 0, 0
    for visit in range(order.shape[0]):
        row = order[visit]
        score = row_dot(X, data, indices, indptr, row, weights)
        place = thresholds_passed(middles, score)
        predicted[visit] = place
        mistakes += place != grade[row]
        error = score - target[grade[row]]
        if not abs(error) <= limit:
            skipped += 1
            continue
        row_add(X, data, indices, indptr, row, weights, -step * error)
    return mistakes, skipped


@njit(cache=True, nogil=True)
def multiclass_pass(X, data, indices, indptr, grade, order, prototypes, predicted):
    """On a wrong grade add the row to the right prototype and take it from the predicted one."""
    mistakes, skipped = 0, 0
    for visit in range(order.shape[0]):
        row = order[visit]
        best, place, finite = -np.inf, 0, True
        for r in range(prototypes.shape[0]):
            score = row_dot(X, data, indices, indptr, row, prototypes[r])
            finite = finite and math.isfinite(score)
            if score > best:
                best, place = score, r
        predicted[visit] = place
        if not finite:
            skipped += 1
        elif place != grade[row]:
            mistakes += 1
            row_add(X, data, indices, indptr, row, prototypes[grade[row]], 1.0)
            row_add(X, data, indices, indptr, row, prototypes[place], -1.0)
    return mistakes, skipped
