"""Passes of the online rankers over examples, compiled.

``examples`` is ``rankers.online.base.Examples``, as a tuple. A dense matrix is its ``X``; a CSR
matrix is ``data``, ``indices`` and ``indptr``. The fields of the other one are None, and numba
drops the branch whose argument is None. Where weights are multiplied with one table and move along
another (the monomials of a polynomial kernel without and with its coefficients), the first is ``X``
and the second, of the same shape, is ``data``. Each pass unpacks ``examples`` before its loop:
reading a field inside of the loop would count a reference for every row.

A pass does for one example what it does for a million, in the same order of operations: results do
not depend on how a stream is split into calls.

Every pass returns ``(mistakes, skipped)``: examples with a wrong predicted grade, and examples that
taught nothing because their score was not finite.
"""

from __future__ import annotations

import math

import numpy as np

from rankwright.runtime.kernels import njit

# Sums may be reordered (SIMD); NaN stays NaN.
SUMS = {"reassoc", "contract", "nsz", "arcp"}
ROMMA, MIRA, ALMA = 0, 1, 2  # updates of ``large_margin_pass``


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
    """weights += factor * row; of ``data``, if there are two tables."""
    if X is not None:
        table = X if data is None else data
        for f in range(weights.shape[0]):
            weights[f] += factor * table[row, f]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            weights[indices[e]] += factor * data[e]


@njit(cache=True, nogil=True)
def copy_values(source, target):
    """target[:] = source, for which numba compiles 1 s of error messages."""
    for i in range(target.shape[0]):
        target[i] = source[i]


@njit(cache=True, nogil=True)
def thresholds_passed(thresholds, score):
    """The predicted grade: how many of the ascending thresholds lie at or below the score."""
    grade = 0
    while grade < thresholds.shape[0] and thresholds[grade] <= score:
        grade += 1
    return grade


@njit(cache=True, nogil=True)
def move_thresholds(thresholds, score, grade):
    """Move every threshold on the wrong side of the score by one (PRank's a_r), in place.

    Returns the sum of a_r, the factor of the row in the update of the weights.
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
    examples, weights, thresholds, drift, drift_thresholds, n_before, predict, predicted
):
    """PRank's update after every example with a wrong grade.

    weights           (n_features,) float64                  changed in place
    thresholds        (n_grades - 1,) float64, ascending     changed in place
    drift             (n_features,), or (0,) without averages: the sum over updates of
                      (examples before it) * change; the average over time is the last value
                      minus drift / examples                 changed in place
    drift_thresholds  the same for the thresholds            changed in place
    n_before          examples before this pass
    predict           whether ``predicted`` must come from the averages
    predicted         (n_examples,) int64, out: the grade predicted before learning
    """
    X, data, indices, indptr, grade, order = examples
    mistakes, skipped = 0, 0
    averaging = drift.shape[0] > 0
    before = np.empty_like(thresholds)
    for t in range(order.shape[0]):
        row = order[t]
        score = row_dot(X, data, indices, indptr, row, weights)
        guess = thresholds_passed(thresholds, score)
        predicted[t] = guess
        time = float(n_before + t)
        if averaging and predict and time > 0.0:
            mean = score - row_dot(X, data, indices, indptr, row, drift) / time
            predicted[t] = 0
            for r in range(thresholds.shape[0]):
                predicted[t] += thresholds[r] - drift_thresholds[r] / time <= mean
        if not math.isfinite(score):
            skipped += 1
            continue
        if guess == grade[row]:
            continue
        mistakes += 1
        copy_values(thresholds, before)
        step = move_thresholds(thresholds, score, grade[row])
        row_add(X, data, indices, indptr, row, weights, float(step))
        if averaging:
            row_add(X, data, indices, indptr, row, drift, time * step)
            for r in range(thresholds.shape[0]):
                drift_thresholds[r] += time * (thresholds[r] - before[r])
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
def scale(values, factor):
    """values *= factor, in place."""
    for i in range(values.shape[0]):
        values[i] *= factor


@njit(cache=True, nogil=True)
def romma_step(score, grade, norm, weights, thresholds, margin):
    """The shortest model that keeps the old half space and puts the row right by ``margin``.

    With v = (weights, -thresholds) and z the mean over the wrong thresholds of side * (row, e_r),
    the new model is alpha v + beta z; its thresholds are then sorted, which changes no length.
    Weights and thresholds are changed in place, except for the row itself (of squared length
    ``norm``): the caller adds it to the weights with the factor that is returned.
    """
    guess = thresholds_passed(thresholds, score)
    side = 1.0 if grade > guess else -1.0
    low, high = min(guess, grade), max(guess, grade)
    count = high - low
    inner = 0.0
    for r in range(low, high):
        inner += side * (score - thresholds[r])
    inner /= count
    length = squared_length(weights, thresholds)
    reach = norm + 1.0 / count
    if length == 0.0:
        alpha, beta = 1.0, margin / reach
    else:
        room = reach * length - inner * inner
        if not room > 1e-12 * reach * length:
            return 0.0  # the row contradicts the model outright: no model satisfies both
        alpha = (reach * length - margin * inner) / room
        beta = length * (margin - inner) / room
    scale(weights, alpha)
    scale(thresholds, alpha)
    for r in range(low, high):
        thresholds[r] -= beta * side / count
    thresholds.sort()
    return beta * side


@njit(cache=True, nogil=True)
def is_below(thresholds, cap, grade, score, norm, moved):
    """Whether MIRA's new score lies below ``moved``.

    The new score u solves u = score + norm * sum_r side_r * clip(1 - side_r (u - c_r), 0, cap);
    the right side falls in u, so one value of it tells on which side of the root it is.
    """
    value = score
    for r in range(thresholds.shape[0]):
        side = 1.0 if grade > r else -1.0
        value += norm * side * min(max(1.0 - side * (moved - thresholds[r]), 0.0), cap)
    return value < moved


@njit(cache=True, nogil=True)
def mira_step(score, grade, norm, thresholds, state):
    """The closest model that ranks the row with margin 1, but no step exceeds the cap.

    Thresholds and the count of corrections (see ``large_margin_pass``) are changed in place;
    thresholds stay sorted. Returns the factor of the row in the weights.
    """
    n, cap, corrected = thresholds.shape[0], state[1], False
    low, high = score - norm * cap * n, score + norm * cap * n
    # Between two of these ends of clipped pieces the equation of ``is_below`` is linear.
    for r in range(n):
        side = 1.0 if grade > r else -1.0
        for end in (thresholds[r] + side, thresholds[r] + side * (1.0 - cap)):
            if low < end < high:
                if is_below(thresholds, cap, grade, score, norm, end):
                    high = end
                else:
                    low = end
    middle, moved, slope = 0.5 * (low + high), score, 1.0
    for r in range(n):
        side = 1.0 if grade > r else -1.0
        step = 1.0 - side * (middle - thresholds[r])
        if step >= cap:
            moved += norm * side * cap
        elif step > 0.0:
            moved += norm * (side + thresholds[r])
            slope += norm
    moved /= slope
    total = 0.0
    for r in range(n):
        before = thresholds[r]
        if grade > r:
            thresholds[r] = min(before, max(moved - 1.0, before - cap))
        else:
            thresholds[r] = max(before, min(moved + 1.0, before + cap))
        total += before - thresholds[r]
        corrected = corrected or before != thresholds[r]
    state[2] += corrected
    return total


@njit(cache=True, nogil=True)
def alma_step(score, grade, norm, thresholds, state):
    """A step toward the right side of all thresholds that are nearer than ALMA's margin.

    Thresholds and the count of corrections (see ``large_margin_pass``) are changed in place;
    thresholds are sorted, which changes no length. Returns the factor of the row in the weights.
    The caller scales the model to length 1.
    """
    alpha, reach, root = state[1], math.sqrt(norm + 1.0), math.sqrt(state[2] + 1.0)
    margin = (1.0 - alpha) * math.sqrt(8.0) / (alpha * root) * reach
    n_near = 0
    for r in range(thresholds.shape[0]):
        side = 1.0 if grade > r else -1.0
        n_near += side * (score - thresholds[r]) <= margin
    if n_near == 0:
        return 0.0
    total, step = 0.0, math.sqrt(2.0) / (root * reach * n_near)
    for r in range(thresholds.shape[0]):
        side = 1.0 if grade > r else -1.0
        if side * (score - thresholds[r]) <= margin:
            thresholds[r] -= side * step
            total += side * step
    thresholds.sort()
    state[2] += 1.0
    return total


@njit(cache=True, nogil=True)
def large_margin_pass(
    examples, weights, thresholds, total, total_thresholds, state, predict, predicted
):
    """PRank with the update of ROMMA, MIRA or ALMA.

    total, total_thresholds  sums of the model over time (of ROMMA's, scaled to length 1), or (0,)
                             without averages   changed in place
    state  (3,) float64: which update, its parameter (ROMMA: see PRank.margin_, MIRA: the largest
           step, ALMA: alpha), corrections so far   changed in place
    The other arguments are those of ``prank_pass``.
    """
    X, data, indices, indptr, grade, order = examples
    mistakes, skipped = 0, 0
    averaging = total.shape[0] > 0
    update = int(state[0])
    for t in range(order.shape[0]):
        row = order[t]
        score = row_dot(X, data, indices, indptr, row, weights)
        guess = thresholds_passed(thresholds, score)
        predicted[t] = guess
        if averaging and predict:
            mean = row_dot(X, data, indices, indptr, row, total)
            predicted[t] = thresholds_passed(total_thresholds, mean)
        wrong = guess != grade[row]
        if not math.isfinite(score):
            skipped += 1
        elif wrong or update != ROMMA:
            mistakes += wrong
            norm = row_norm(X, data, indices, indptr, row)
            if update == ROMMA:
                factor = romma_step(score, grade[row], norm, weights, thresholds, state[1])
            elif update == MIRA:
                factor = mira_step(score, grade[row], norm, thresholds, state)
            else:
                factor = alma_step(score, grade[row], norm, thresholds, state)
            if factor != 0.0:
                row_add(X, data, indices, indptr, row, weights, factor)
            length = squared_length(weights, thresholds)
            if update == ALMA and length > 1.0:
                scale(weights, 1.0 / math.sqrt(length))
                scale(thresholds, 1.0 / math.sqrt(length))
            elif update == ROMMA and length > 1e60:
                # On noisy rows it grows without end. A power of two scales without rounding.
                state[1] *= 2.0**-90
                scale(weights, 2.0**-90)
                scale(thresholds, 2.0**-90)
        if averaging:
            length = math.sqrt(squared_length(weights, thresholds)) if update == ROMMA else 1.0
            if length > 0.0:
                for f in range(weights.shape[0]):
                    total[f] += weights[f] / length
                for r in range(thresholds.shape[0]):
                    total_thresholds[r] += thresholds[r] / length
    return mistakes, skipped


@njit(cache=True, nogil=True)
def voted_pass(examples, weights, thresholds, past, counts, extra):
    """PRank's update, keeping every past model that has a vote.

    past    (weights, thresholds, votes) of the past models, tables of ``capacity`` rows
                                                                            changed in place
    counts  (3,) int64: past models, examples that the present model got right, models dropped
                                                                            changed in place
    extra   votes of a model beyond the examples that it got right, 0 or 1
    When the tables are full, the model with the fewest votes goes (the oldest of them).
    """
    X, data, indices, indptr, grade, order = examples
    mistakes, skipped = 0, 0
    for t in range(order.shape[0]):
        row = order[t]
        score = row_dot(X, data, indices, indptr, row, weights)
        if not math.isfinite(score):
            skipped += 1
            continue
        if thresholds_passed(thresholds, score) == grade[row]:
            counts[1] += 1
            continue
        mistakes += 1
        if counts[1] + extra > 0:
            keep_model(weights, thresholds, past, counts, extra)
        counts[1] = 0
        step = move_thresholds(thresholds, score, grade[row])
        row_add(X, data, indices, indptr, row, weights, float(step))
    return mistakes, skipped


@njit(cache=True, nogil=True)
def keep_model(weights, thresholds, past, counts, extra):
    """Append the model to the past ones; ``past`` and ``counts`` are those of ``voted_pass``."""
    past_weights, past_thresholds, votes = past
    slot = counts[0]
    if slot == votes.shape[0]:
        counts[2] += 1
        slot = 0
        for s in range(1, votes.shape[0]):
            if votes[s] < votes[slot]:
                slot = s
        if votes[slot] > counts[1] + extra:
            return
        for s in range(slot, votes.shape[0] - 1):  # oldest first
            copy_values(past_weights[s + 1], past_weights[s])
            copy_values(past_thresholds[s + 1], past_thresholds[s])
            votes[s] = votes[s + 1]
        slot = votes.shape[0] - 1
    else:
        counts[0] += 1
    copy_values(weights, past_weights[slot])
    copy_values(thresholds, past_thresholds[slot])
    votes[slot] = counts[1] + extra


@njit(cache=True, nogil=True)
def widrow_hoff_pass(examples, weights, targets, thresholds, step, limit, predicted):
    """Gradient steps on the squared error: weights -= step * (score - target) * row, in place.

    targets     (n_grades,) float64: the value of each grade
    thresholds  (n_grades - 1,) float64: half way between neighboring targets
    limit       an error beyond it is a divergence: the example is skipped
    predicted   (n_examples,) int64, out: the grade predicted before learning
    """
    X, data, indices, indptr, grade, order = examples
    mistakes, skipped = 0, 0
    for t in range(order.shape[0]):
        row = order[t]
        score = row_dot(X, data, indices, indptr, row, weights)
        predicted[t] = thresholds_passed(thresholds, score)
        mistakes += predicted[t] != grade[row]
        error = score - targets[grade[row]]
        if not abs(error) <= limit:
            skipped += 1
            continue
        row_add(X, data, indices, indptr, row, weights, -step * error)
    return mistakes, skipped


@njit(cache=True, nogil=True)
def multiclass_pass(examples, prototypes, predicted):
    """On a wrong grade add the row to the right prototype, subtract it from the predicted one.

    prototypes  (n_grades, n_features) float64   changed in place
    predicted   (n_examples,) int64, out: the grade predicted before learning
    """
    X, data, indices, indptr, grade, order = examples
    mistakes, skipped = 0, 0
    for t in range(order.shape[0]):
        row = order[t]
        best, guess, finite = -np.inf, 0, True
        for r in range(prototypes.shape[0]):
            score = row_dot(X, data, indices, indptr, row, prototypes[r])
            finite = finite and math.isfinite(score)
            if score > best:
                best, guess = score, r
        predicted[t] = guess
        if not finite:
            skipped += 1
        elif guess != grade[row]:
            mistakes += 1
            row_add(X, data, indices, indptr, row, prototypes[grade[row]], 1.0)
            row_add(X, data, indices, indptr, row, prototypes[guess], -1.0)
    return mistakes, skipped
