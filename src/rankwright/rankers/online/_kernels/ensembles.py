"""Passes of an ensemble of PRanks over examples, compiled.

Two layouts. ``rows`` keeps each member's weights together and computes one product per member that
draws the row; ``lanes`` keeps each feature's weights of all members together and serves all members
at once, which pays off for few features and for sparse rows. Members are independent: a block of
members makes its pass by itself and returns only whole numbers (how far its members moved,
together), so the result is the same for any number of threads.

members  ``Members``: (coef, thresholds, correct, survived)      changed in place
draws    ``Draws``: (seed, examples before this pass, cutoffs)
moves    ``Moves``: (weights, thresholds, votes)                 changed in place

of ``rankers.online.members``, as tuples; ``examples`` is that of ``_kernels.prank``.
"""

from __future__ import annotations

import numpy as np

from rankwright.rankers.online._kernels.prank import SUMS, row_add, row_dot, thresholds_passed
from rankwright.runtime.kernels import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
BLOCK = 64  # rows that stay in cache while the members learn from them one by one
NEVER = np.uint64(0xFFFFFFFFFFFFFFFF)  # above every cutoff


@njit(cache=True, nogil=True)
def mix(z):
    """The finisher of splitmix64: neighbors in, unrelated 64-bit numbers out."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def member_key(seed, member):
    return mix(np.uint64(seed) + GOLDEN * np.uint64(member + 1))


@njit(cache=True, nogil=True)
def draw(key, example):
    """53 random bits that depend on (seed, member, example) only."""
    return mix(key + GOLDEN * np.uint64(example + 1)) >> np.uint64(11)


@njit(cache=True, nogil=True)
def draw_count(key, example, cutoffs):
    """How often a member draws an example: the number of cutoffs (descending) above the draw."""
    bits = draw(key, example)
    count = 0
    while count < cutoffs.shape[0] and bits < cutoffs[count]:
        count += 1
    return count


@njit(cache=True, nogil=True)
def draw_counts(seed, member, first, n, cutoffs):
    """How often a member draws each of n examples in sequence, (n,) int64."""
    counts = np.empty(n, np.int64)
    key = member_key(seed, member)
    for t in range(n):
        counts[t] = draw_count(key, first + t, cutoffs)
    return counts


@njit(cache=True, nogil=True)
def oap_rows(examples, members, low, high, draws, moves):
    """Members low .. high - 1 learn from the rows they draw; dense rows, one product per draw.

    Returns the number of wrong predictions of rows that were drawn.
    """
    X, data, _, _, grade, order = examples
    coef, thresholds, correct, survived = members
    seed, first, cutoffs = draws
    moved, moved_thresholds, votes = moves
    voting = votes.shape[0] > 0
    mistakes = 0
    drawn = np.empty(BLOCK, np.int64)
    for start in range(0, order.shape[0], BLOCK):
        stop = min(start + BLOCK, order.shape[0])
        for m in range(low, high):
            key = member_key(seed, m)
            n_drawn = 0
            for t in range(start, stop):  # no branch: draws cannot be predicted
                drawn[n_drawn] = t
                n_drawn += np.int64(draw(key, first + t) < cutoffs[0])
            unvoted = start
            for d in range(n_drawn):
                t = drawn[d]
                if voting:
                    counts = (correct[m], survived[m])
                    cast_votes(X, order, coef[m], thresholds[m], counts, unvoted, t + 1, votes)
                    unvoted = t + 1
                row = order[t]
                times = draw_count(key, first + t, cutoffs) if cutoffs.shape[0] > 1 else 1
                for _ in range(times):
                    score = row_dot(X, None, None, None, row, coef[m])
                    if thresholds_passed(thresholds[m], score) == grade[row]:
                        correct[m] += 1
                        survived[m] += 1
                        continue
                    mistakes += 1
                    survived[m] = 1
                    step = 0
                    for r in range(thresholds.shape[1]):
                        side = 1 if grade[row] > r else -1
                        if (score - thresholds[m, r]) * side <= 0.0:
                            thresholds[m, r] -= side
                            moved_thresholds[t, r] += side
                            step += side
                    moved[t] += step
                    row_add(X, data, None, None, row, coef[m], float(step))
            if voting:
                counts = (correct[m], survived[m])
                cast_votes(X, order, coef[m], thresholds[m], counts, unvoted, stop, votes)
    return mistakes


@njit(cache=True, nogil=True)
def cast_votes(X, order, coef, thresholds, counts, start, stop, votes):
    """One member's predictions for examples start .. stop - 1, added to ``votes``."""
    for t in range(start, stop):
        guess = thresholds_passed(thresholds, row_dot(X, None, None, None, order[t], coef))
        votes[t, 0, guess] += 1
        votes[t, 1, guess] += counts[0]
        votes[t, 2, guess] += counts[1]


@njit(cache=True, nogil=True)
def oap_lanes(examples, members, low, high, draws, moves, tables):
    """The same as ``oap_rows`` for all members of the block at once; dense or sparse rows.

    tables  as ``_tables`` of ``rankers.online.members`` makes them   overwritten
    """
    X, data, indices, indptr, grade, order = examples
    coef, thresholds, correct, survived = members
    w, c, work, words = tables
    seed, first, cutoffs = draws
    moved, moved_thresholds, votes = moves
    n_members, n_lanes, n_thresholds = high - low, w.shape[1], c.shape[0]
    n_correct, n_survived = work[0], work[1]  # whole numbers, exact; one type vectorizes best
    score, step, wrong, lowest, highest = work[2], work[3], work[4], work[5], work[6]
    keys, bits = words[0], words[1]
    lowest[:], highest[:] = -np.inf, np.inf
    for m in range(n_members):
        for f in range(w.shape[0]):
            w[f, m] = coef[low + m, f]
        for r in range(n_thresholds):
            c[r, m] = thresholds[low + m, r]
        n_correct[m], n_survived[m] = correct[low + m], survived[low + m]
        keys[m] = member_key(seed, low + m)
    mistakes = 0
    for t in range(order.shape[0]):
        row = order[t]
        y = grade[row]
        shift = GOLDEN * np.uint64(first + t + 1)
        for m in range(n_lanes):
            bits[m] = mix(keys[m] + shift) >> np.uint64(11)
        for m in range(n_members, n_lanes):
            bits[m] = NEVER
        if votes.shape[0] > 0:
            lane_scores(X, data, indices, indptr, row, w, score)
            for m in range(n_members):
                guess = 0
                for r in range(n_thresholds):
                    guess += score[m] >= c[r, m]
                votes[t, 0, guess] += 1
                votes[t, 1, guess] += n_correct[m]
                votes[t, 2, guess] += n_survived[m]
        for q in range(cutoffs.shape[0]):
            lane_scores(X, data, indices, indptr, row, w, score)
            below = c[y - 1] if y > 0 else lowest  # thresholds are sorted: two of them suffice
            above = c[y] if y < n_thresholds else highest
            drawn, n_wrong = lane_misses(
                score, below, above, bits, cutoffs[q], wrong, n_correct, n_survived
            )
            if drawn == 0.0:
                break
            if n_wrong == 0.0:
                continue
            mistakes += np.int64(n_wrong)
            step[:] = 0.0
            for r in range(n_thresholds):
                total = lane_moves(score, c[r], 1.0 if y > r else -1.0, wrong, step)
                moved_thresholds[t, r] += total
                moved[t] += total
            lane_add(X, data, indices, indptr, row, w, step)
    for m in range(n_members):
        for f in range(w.shape[0]):
            coef[low + m, f] = w[f, m]
        for r in range(n_thresholds):
            thresholds[low + m, r] = c[r, m]
        correct[low + m], survived[low + m] = n_correct[m], n_survived[m]
    return mistakes


@njit(cache=True, nogil=True)
def lane_scores(X, data, indices, indptr, row, w, score):
    """score = row @ w, in place."""
    score[:] = 0.0
    if X is not None:
        for f in range(w.shape[0]):
            value = X[row, f]
            for m in range(score.shape[0]):
                score[m] += value * w[f, m]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            value, f = data[e], indices[e]
            for m in range(score.shape[0]):
                score[m] += value * w[f, m]


@njit(cache=True, nogil=True, fastmath=SUMS)
def lane_misses(score, below, above, bits, cutoff, wrong, n_correct, n_survived):
    """Which members draw the row and rank it wrongly: outside of below <= score < above.

    ``wrong`` is set to 1 for these, ``n_correct`` and ``n_survived`` count the others. Returns how
    many members drew the row and how many of them were wrong.
    """
    drawn, misses = 0.0, 0.0
    for m in range(score.shape[0]):
        draws = np.float64(bits[m] < cutoff)
        miss = draws * np.float64((score[m] < below[m]) | (score[m] >= above[m]))
        n_correct[m] += draws - miss
        n_survived[m] += draws - miss * n_survived[m]  # a changed member has survived one row
        wrong[m] = miss
        drawn += draws
        misses += miss
    return drawn, misses


@njit(cache=True, nogil=True, fastmath=SUMS)
def lane_moves(score, c, side, wrong, step):
    """Move one threshold of every member that ranked wrongly, if it is on the wrong side."""
    total = 0.0
    for m in range(score.shape[0]):
        move = wrong[m] * np.float64((score[m] - c[m]) * side <= 0.0)
        c[m] -= side * move
        step[m] += side * move
        total += move
    return np.int64(side * total)


@njit(cache=True, nogil=True)
def lane_add(X, data, indices, indptr, row, w, step):
    """w += outer product of row and step, in place; see ``row_add``."""
    if X is not None:
        table = X if data is None else data
        for f in range(w.shape[0]):
            value = table[row, f]
            for m in range(step.shape[0]):
                w[f, m] += value * step[m]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            value, f = data[e], indices[e]
            for m in range(step.shape[0]):
                w[f, m] += value * step[m]


@njit(cache=True, nogil=True)
def oap_sum_pass(examples, moves, weights, thresholds, predicted):
    """Replay the members' steps on the sum of their weights and thresholds, in place.

    predicted  (n_examples,) int64, or no entries, out: the grade by the sum before each example
    """
    X, data, indices, indptr, _, order = examples
    moved, moved_thresholds, _ = moves
    for t in range(order.shape[0]):
        row = order[t]
        if predicted.shape[0] > 0:
            score = row_dot(X, data, indices, indptr, row, weights)
            predicted[t] = thresholds_passed(thresholds, score)
        for r in range(thresholds.shape[0]):
            thresholds[r] -= moved_thresholds[t, r]
        if moved[t] != 0:
            row_add(X, data, indices, indptr, row, weights, float(moved[t]))
