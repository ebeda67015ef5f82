"""Kernel values, and passes of kernel PRanks over a block of examples, compiled.

Every kernel value and every score is summed in an order that depends on its two rows and on the
support alone, not on the block: results do not depend on how a stream is split into calls.

``expansion`` is ``(values, columns, dual)``:

values   (n_examples, n_old + n_examples): kernels of the block's rows with the old support, then
         with each other
columns  (capacity,) int64: the column of ``values`` of each support row   changed in place
dual     (capacity,) or (capacity, n_estimators) float64: its coefficient   changed in place

A pass stops after the example that fills ``columns``, so that the caller can drop a support row.
It returns the next example, the size of the support, mistakes and skipped examples.
"""

from __future__ import annotations

import math

import numpy as np

from rankwright.rankers.online._kernels.ensembles import draw_count, member_key
from rankwright.rankers.online._kernels.prank import (
    SUMS,
    copy_values,
    inner_product,
    keep_model,
    move_thresholds,
    thresholds_passed,
)
from rankwright.runtime.kernels import njit

LINEAR, POLY, RBF = 0, 1, 2


@njit(cache=True, nogil=True, fastmath=SUMS)
def squared_distance(a, b):
    total = 0.0
    for f in range(a.shape[0]):
        total += (a[f] - b[f]) * (a[f] - b[f])
    return total


@njit(cache=True, nogil=True)
def kernel_block(rows, support, kind, gamma, degree, coef0, values):
    """values[i, s] = kernel of row i and support row s."""
    for i in range(rows.shape[0]):
        a = rows[i]
        for s in range(support.shape[0]):
            if kind == RBF:
                values[i, s] = math.exp(-gamma * squared_distance(a, support[s]))
            elif kind == LINEAR:
                values[i, s] = inner_product(a, support[s])
            else:
                base = gamma * inner_product(a, support[s]) + coef0
                power = 1.0
                for _ in range(degree):
                    power *= base
                values[i, s] = power


@njit(cache=True, nogil=True, fastmath=SUMS)
def expansion_score(values, columns, dual, size):
    total = 0.0
    for s in range(size):
        total += dual[s] * values[columns[s]]
    return total


@njit(cache=True, nogil=True)
def kernel_prank_pass(expansion, start, size, grade, thresholds, predicted):
    """PRank's update from example ``start`` of the block on.

    grade       (n_examples,) int64
    thresholds  (n_grades - 1,) float64, ascending   changed in place
    predicted   (n_examples,) int64, out: the grade predicted before learning
    """
    values, columns, dual = expansion
    mistakes, skipped = 0, 0
    n_old = values.shape[1] - values.shape[0]
    for i in range(start, values.shape[0]):
        score = expansion_score(values[i], columns, dual, size)
        predicted[i] = thresholds_passed(thresholds, score)
        if not math.isfinite(score):
            skipped += 1
            continue
        if predicted[i] == grade[i]:
            continue
        mistakes += 1
        columns[size], dual[size] = n_old + i, move_thresholds(thresholds, score, grade[i])
        size += 1
        if size == columns.shape[0]:
            return i + 1, size, mistakes, skipped
    return values.shape[0], size, mistakes, skipped


@njit(cache=True, nogil=True)
def averaged_kernel_pass(expansion, start, size, grade, thresholds, time, predict, predicted):
    """The same, with what the mean of the model over time needs.

    ``dual`` has two columns: the coefficients, and the sum over updates of (examples before it) *
    change. The mean over ``time`` examples is the first minus the second over ``time``.

    thresholds  (2, n_grades - 1) float64: the same for the thresholds   changed in place
    time        examples before this block
    predict     whether ``predicted`` must come from the mean
    """
    values, columns, dual = expansion
    mistakes, skipped = 0, 0
    n_old = values.shape[1] - values.shape[0]
    before = np.empty(thresholds.shape[1])
    for i in range(start, values.shape[0]):
        score = expansion_score(values[i], columns, dual[:, 0], size)
        guess = thresholds_passed(thresholds[0], score)
        predicted[i] = guess
        seen = float(time + i)
        if predict and seen > 0.0:
            mean = score - expansion_score(values[i], columns, dual[:, 1], size) / seen
            predicted[i] = 0
            for r in range(thresholds.shape[1]):
                predicted[i] += thresholds[0, r] - thresholds[1, r] / seen <= mean
        if not math.isfinite(score):
            skipped += 1
            continue
        if guess == grade[i]:
            continue
        mistakes += 1
        copy_values(thresholds[0], before)
        columns[size], dual[size, 0] = n_old + i, move_thresholds(thresholds[0], score, grade[i])
        dual[size, 1] = seen * dual[size, 0]
        for r in range(thresholds.shape[1]):
            thresholds[1, r] += seen * (thresholds[0, r] - before[r])
        size += 1
        if size == columns.shape[0]:
            return i + 1, size, mistakes, skipped
    return values.shape[0], size, mistakes, skipped


@njit(cache=True, nogil=True)
def voted_kernel_pass(expansion, start, size, grade, model, extra, classes, expected):
    """The same, keeping every past model that has a vote.

    ``dual`` has a column for the present model, then one for each of ``capacity`` past models.

    model     (thresholds, past thresholds, votes, counts), see ``prank.voted_pass``
                                                                    changed in place
    extra     votes of a model beyond the examples that it got right, 0 or 1
    classes   (n_grades,) float64
    expected  (n_examples,) float64, out: the mean grade before learning; no entries: not needed
    """
    values, columns, dual = expansion
    thresholds, past_thresholds, votes, counts = model
    mistakes, skipped = 0, 0
    n_old = values.shape[1] - values.shape[0]
    scores = np.empty(dual.shape[1])
    for i in range(start, values.shape[0]):
        score = expansion_score(values[i], columns, dual[:, 0], size)
        if expected.shape[0] > 0:
            member_scores(values[i], columns, dual, size, scores)
            expected[i] = mean_vote(scores, model, extra, classes)
        if not math.isfinite(score):
            skipped += 1
            continue
        if thresholds_passed(thresholds, score) == grade[i]:
            counts[1] += 1
            continue
        mistakes += 1
        if counts[1] + extra > 0:
            past = (dual[:size, 1:].T, past_thresholds, votes)
            keep_model(dual[:size, 0], thresholds, past, counts, extra)
        counts[1] = 0
        dual[size, :] = 0.0
        columns[size], dual[size, 0] = n_old + i, move_thresholds(thresholds, score, grade[i])
        size += 1
        if size == columns.shape[0]:
            return i + 1, size, mistakes, skipped
    return values.shape[0], size, mistakes, skipped


@njit(cache=True, nogil=True)
def mean_vote(scores, model, extra, classes):
    """The grades of the past models and the present one, averaged by their votes."""
    thresholds, past_thresholds, votes, counts = model
    total, summed = 0.0, 0.0
    for m in range(counts[0]):
        total += votes[m]
        summed += votes[m] * classes[thresholds_passed(past_thresholds[m], scores[m + 1])]
    own = counts[1] + extra
    if total + own == 0:
        own = 1  # no correct prediction yet: only the present model votes
    summed += own * classes[thresholds_passed(thresholds, scores[0])]
    return summed / (total + own)


@njit(cache=True, nogil=True)
def member_scores(values, columns, dual, size, scores):
    """The scores of all members; each is summed in the order of the support."""
    scores[:] = 0.0
    for s in range(size):
        value = values[columns[s]]
        for m in range(scores.shape[0]):
            scores[m] += value * dual[s, m]


@njit(cache=True, nogil=True)
def kernel_members_pass(expansion, start, size, grade, members, draws, predicted, votes):
    """The same for an ensemble: every member learns from the examples that it draws.

    A row that any member got wrong becomes a support row of all.

    members    (thresholds, correct, survived) of ``ensembles.Members``   changed in place
    draws      (seed, examples before this block, cutoffs): ``ensembles.Draws``
    predicted  (n_examples,) int64, out: the grade by the mean of the members
    votes      (n_examples, 3, n_grades) int64, out: see ``oap_rows``
    """
    values, columns, dual = expansion
    thresholds, correct, survived = members
    seed, first, cutoffs = draws
    mistakes, skipped = 0, 0
    n_old, n_estimators = values.shape[1] - values.shape[0], thresholds.shape[0]
    scores = np.empty(n_estimators)
    for i in range(start, values.shape[0]):
        member_scores(values[i], columns, dual, size, scores)
        total = scores.sum()
        predicted[i] = 0
        for r in range(thresholds.shape[1]):
            predicted[i] += thresholds[:, r].sum() <= total
        slot = size
        for m in range(n_estimators):
            guess = thresholds_passed(thresholds[m], scores[m])
            votes[i, 0, guess] += 1
            votes[i, 1, guess] += correct[m]
            votes[i, 2, guess] += survived[m]
            for _ in range(draw_count(member_key(seed, m), first + i, cutoffs)):
                if not math.isfinite(scores[m]):
                    skipped += 1
                    continue
                if thresholds_passed(thresholds[m], scores[m]) == grade[i]:
                    correct[m] += 1
                    survived[m] += 1
                    continue
                mistakes += 1
                survived[m] = 1
                if size == slot:
                    columns[size] = n_old + i
                    dual[size, :] = 0.0
                    size += 1
                step = move_thresholds(thresholds[m], scores[m], grade[i])
                dual[slot, m] += step
                scores[m] += step * values[i, n_old + i]
        if size == columns.shape[0]:
            return i + 1, size, mistakes, skipped
    return values.shape[0], size, mistakes, skipped
