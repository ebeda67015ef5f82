"""Passes of an ensemble of PRanks over rows, compiled.

Two layouts. ``rows`` keeps each member's weights together and makes one product per member that
sees the row; ``lanes`` keeps each feature's weights of all members together and serves all members
at once, which pays for few features and for sparse rows. Members never talk to each other: a block
of members runs through many rows by itself and leaves only whole numbers behind (how far its
members moved, together), so the result is the same for any number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankwright.rankers.online._kernels.prank import SUMS, row_add, row_dot, thresholds_passed

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
BLOCK = 64  # rows that stay in cache while the members take turns


@njit(cache=True, nogil=True)
def mix(z):
    """The finisher of splitmix64: neighbors in, unrelated 64-bit words out."""
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
def showings(key, example, cutoffs):
    """How often a member sees an example: the number of cutoffs (descending) above the draw."""
    bits = draw(key, example)
    times = 0
    while times < cutoffs.shape[0] and bits < cutoffs[times]:
        times += 1
    return times


@njit(cache=True, nogil=True)
def showings_of_member(seed, member, first, n, cutoffs):
    """The showings of n examples in a row, (n,) int64."""
    times = np.empty(n, np.int64)
    key = member_key(seed, member)
    for t in range(n):
        times[t] = showings(key, first + t, cutoffs)
    return times


@njit(cache=True, nogil=True)
def oap_rows(
    X, grade, order, weights, thresholds, correct, survived, low, high, seed, first, cutoffs,
    moved, moved_thresholds, votes,
):  # fmt: skip
    """Show members low .. high - 1 the rows they draw; dense rows, one product per showing.

    weights, thresholds        (n_estimators, n_features / n_grades - 1)   changed in place
    correct                    (n_estimators,) int64: showings at which the member was right
    survived                   (n_estimators,) int64: those since its last change, and one
    first                      how many examples came before this pass
    moved, moved_thresholds    (n_visits,), (n_visits, n_grades - 1) int64: steps, summed
    votes                      (n_visits, 3, n_grades) int64, or no rows: members that predict each
                               grade before the visit, counted once / by correct / by survived
    Returns the number of showings at which the member was wrong.
    """
    n_visits = order.shape[0]
    mistakes = 0
    seen = np.empty(BLOCK, np.int64)
    for start in range(0, n_visits, BLOCK):
        stop = min(start + BLOCK, n_visits)
        for member in range(low, high):
            key = member_key(seed, member)
            n_seen = 0
            for visit in range(start, stop):  # no branch: which rows are drawn cannot be guessed
                seen[n_seen] = visit
                n_seen += np.int64(draw(key, first + visit) < cutoffs[0])
            asked = start
            for s in range(n_seen):
                visit = seen[s]
                if votes.shape[0] > 0:
                    cast_votes(
                        X, order, weights, thresholds, member, correct, survived, asked, visit + 1,
                        votes,
                    )  # fmt: skip
                    asked = visit + 1
                row = order[visit]
                times = 1
                if cutoffs.shape[0] > 1:
                    times = showings(key, first + visit, cutoffs)
                for _ in range(times):
                    score = row_dot(X, None, None, None, row, weights[member])
                    if thresholds_passed(thresholds[member], score) == grade[row]:
                        correct[member] += 1
                        survived[member] += 1
                        continue
                    mistakes += 1
                    survived[member] = 1
                    step = 0
                    for r in range(thresholds.shape[1]):
                        side = 1 if grade[row] > r else -1
                        if (score - thresholds[member, r]) * side <= 0.0:
                            thresholds[member, r] -= side
                            moved_thresholds[visit, r] += side
                            step += side
                    moved[visit] += step
                    row_add(X, None, None, None, row, weights[member], float(step))
            if votes.shape[0] > 0:
                cast_votes(
                    X, order, weights, thresholds, member, correct, survived, asked, stop, votes
                )
    return mistakes


@njit(cache=True, nogil=True)
def cast_votes(X, order, weights, thresholds, member, correct, survived, start, stop, votes):
    """What one member says of the rows from ``start`` on, before it learns from the last."""
    for visit in range(start, stop):
        score = row_dot(X, None, None, None, order[visit], weights[member])
        place = thresholds_passed(thresholds[member], score)
        votes[visit, 0, place] += 1
        votes[visit, 1, place] += correct[member]
        votes[visit, 2, place] += survived[member]


@njit(cache=True, nogil=True)
def oap_lanes(
    X, data, indices, indptr, grade, order, weights, thresholds, correct, survived, low, high,
    seed, first, cutoffs, moved, moved_thresholds, votes,
):  # fmt: skip
    """The same as ``oap_rows`` for all members of the block at once; dense or sparse rows."""
    n_estimators, n_features = high - low, weights.shape[1]
    n_cuts = thresholds.shape[1]
    lanes = (n_estimators + 7) // 8 * 8  # whole vectors; the lanes beyond the members see nothing
    w = np.zeros((n_features, lanes))
    c = np.zeros((n_cuts, lanes))
    hits = np.zeros(lanes)  # whole numbers, exact; one type of lane vectorizes best
    lives = np.zeros(lanes)
    keys = np.zeros(lanes, np.uint64)
    alive = np.zeros(lanes)
    for m in range(n_estimators):
        for f in range(n_features):
            w[f, m] = weights[low + m, f]
        for r in range(n_cuts):
            c[r, m] = thresholds[low + m, r]
        hits[m], lives[m] = correct[low + m], survived[low + m]
        keys[m] = member_key(seed, low + m)
        alive[m] = 1.0
    score = np.empty(lanes)
    step = np.empty(lanes)
    bits = np.empty(lanes, np.uint64)
    wrong = np.empty(lanes)
    lowest, highest = np.full(lanes, -np.inf), np.full(lanes, np.inf)
    mistakes = 0
    for visit in range(order.shape[0]):
        row = order[visit]
        y = grade[row]
        shift = GOLDEN * np.uint64(first + visit + 1)
        for m in range(lanes):
            bits[m] = mix(keys[m] + shift) >> np.uint64(11)
        if votes.shape[0] > 0:
            lane_scores(X, data, indices, indptr, row, w, score)
            for m in range(n_estimators):
                place = 0
                for r in range(n_cuts):
                    place += score[m] >= c[r, m]
                votes[visit, 0, place] += 1
                votes[visit, 1, place] += hits[m]
                votes[visit, 2, place] += lives[m]
        for q in range(cutoffs.shape[0]):
            lane_scores(X, data, indices, indptr, row, w, score)
            low_cut = c[y - 1] if y > 0 else lowest  # thresholds being sorted, two of them tell
            high_cut = c[y] if y < n_cuts else highest
            shown, n_wrong = lane_misses(
                score, low_cut, high_cut, bits, cutoffs[q], alive, wrong, hits, lives
            )
            if shown == 0.0:
                break
            if n_wrong == 0.0:
                continue
            mistakes += np.int64(n_wrong)
            for m in range(lanes):
                step[m] = 0.0
            for r in range(n_cuts):
                total = lane_moves(score, c[r], 1.0 if y > r else -1.0, wrong, step)
                moved_thresholds[visit, r] += total
                moved[visit] += total
            lane_add(X, data, indices, indptr, row, w, step)
    for m in range(n_estimators):
        for f in range(n_features):
            weights[low + m, f] = w[f, m]
        for r in range(n_cuts):
            thresholds[low + m, r] = c[r, m]
        correct[low + m], survived[low + m] = hits[m], lives[m]
    return mistakes


@njit(cache=True, nogil=True)
def lane_scores(X, data, indices, indptr, row, w, score):
    lanes = score.shape[0]
    for m in range(lanes):
        score[m] = 0.0
    if X is not None:
        for f in range(w.shape[0]):
            value = X[row, f]
            for m in range(lanes):
                score[m] += value * w[f, m]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            value, f = data[e], indices[e]
            for m in range(lanes):
                score[m] += value * w[f, m]


@njit(cache=True, nogil=True, fastmath=SUMS)
def lane_misses(score, low, high, bits, cutoff, alive, wrong, hits, lives):
    """Which members see the row and rank it wrongly: outside low <= score < high."""
    shown, misses = 0.0, 0.0
    for m in range(score.shape[0]):
        see = alive[m] * np.float64(bits[m] < cutoff)
        miss = see * np.float64((score[m] < low[m]) | (score[m] >= high[m]))
        hits[m] += see - miss
        lives[m] += see - miss * lives[m]  # a rule that was changed has survived its first row
        wrong[m] = miss
        shown += see
        misses += miss
    return shown, misses


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
    lanes = step.shape[0]
    if X is not None:
        for f in range(w.shape[0]):
            value = X[row, f]
            for m in range(lanes):
                w[f, m] += value * step[m]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            value, f = data[e], indices[e]
            for m in range(lanes):
                w[f, m] += value * step[m]


@njit(cache=True, nogil=True)
def oap_sum_pass(
    X, data, indices, indptr, order, moved, moved_thresholds, weights, thresholds, predicted
):
    """Replay the members' steps on the sum of their weights and thresholds.

    predicted  (n_visits,) int64, or no entries: the grade by the sum before each visit
    """
    wanted = predicted.shape[0] > 0
    for visit in range(order.shape[0]):
        row = order[visit]
        if wanted:
            score = row_dot(X, data, indices, indptr, row, weights)
            predicted[visit] = thresholds_passed(thresholds, score)
        for r in range(thresholds.shape[0]):
            thresholds[r] -= moved_thresholds[visit, r]
        if moved[visit] != 0:
            row_add(X, data, indices, indptr, row, weights, float(moved[visit]))
