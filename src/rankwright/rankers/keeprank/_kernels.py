"""Walks over blocks of visits, and kernel values in single precision."""

from __future__ import annotations

import numpy as np
from numba import njit

LOG2E = np.float32(1.4426950408889634)
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(-2.12194440e-4)
# exp(r) on |r| <= ln(2) / 2, as in Cephes' expf
P0 = np.float32(1.9875691500e-4)
P1 = np.float32(1.3981999507e-3)
P2 = np.float32(8.3334519073e-3)
P3 = np.float32(4.1665795894e-2)
P4 = np.float32(1.6666665459e-1)
P5 = np.float32(5.0000001201e-1)
ONE = np.float32(1.0)
HALF = np.float32(0.5)
LEAST = np.float32(-87.0)
ZERO = np.float32(0.0)
BIAS = np.float32(127.0)
MANTISSA = np.float32(8388608.0)
TILE = 1024
# No NaN or infinity can come in: rows are checked, and exponents are cut at LEAST.
DOT = {"reassoc", "contract", "nsz", "arcp", "nnan", "ninf"}


@njit(cache=True, nogil=True, fastmath=DOT)
def exp_tile(exponent, bits, values, n):
    """values = exp(exponent), exponents <= 0; bits is scratch, seen as float32 by ``values``' side.

    exponent  (TILE,) float32
    bits      (TILE,) int32      scratch
    values    (TILE,) float32    written
    """
    power = bits.view(np.float32)
    for j in range(n):
        x = exponent[j] if exponent[j] > LEAST else LEAST
        k = np.floor(x * LOG2E + HALF)
        r = x - k * LN2_HIGH - k * LN2_LOW
        y = ((((P0 * r + P1) * r + P2) * r + P3) * r + P4) * r + P5
        values[j] = (y * r) * r + r + ONE
        bits[j] = np.int32((k + BIAS) * MANTISSA)
    for j in range(n):
        values[j] *= power[j]


@njit(cache=True, nogil=True, fastmath=DOT)
def rbf_scores(products, left, right, coef, gamma, first, last, scores):
    """scores[b] += sum_s coef[s] exp(-gamma |x_b - x_s|^2) for rows first .. last - 1.

    products  (n_rows, n_support) float32, x_b . x_s
    left      (n_rows,) float32, |x_b|^2
    right     (n_support,) float32, |x_s|^2
    coef      (n_support,) float32
    scores    (n_rows,) float64   changed in place
    """
    n = products.shape[1]
    exponent = np.empty(TILE, np.float32)
    bits = np.empty(TILE, np.int32)
    values = np.empty(TILE, np.float32)
    two = np.float32(2.0)
    for b in range(first, last):
        total = 0.0
        for start in range(0, n, TILE):
            size = min(TILE, n - start)
            # Slices, so that the compiler sees indices that cannot be negative, and vectorizes.
            row, norms = products[b, start : start + size], right[start : start + size]
            own = left[b]
            for j in range(size):
                square = own + norms[j] - two * row[j]
                exponent[j] = -gamma * (square if square > ZERO else ZERO)
            exp_tile(exponent, bits, values, size)
            part = ZERO
            weights = coef[start : start + size]
            for j in range(size):
                part += values[j] * weights[j]
            total += part
        scores[b] += total


@njit(cache=True, nogil=True, fastmath=DOT)
def rbf_values(products, left, right, gamma, first, last):
    """Turn products x_b . x_s into exp(-gamma |x_b - x_s|^2), rows first .. last - 1, in place."""
    n = products.shape[1]
    exponent = np.empty(TILE, np.float32)
    bits = np.empty(TILE, np.int32)
    values = np.empty(TILE, np.float32)
    two = np.float32(2.0)
    for b in range(first, last):
        for start in range(0, n, TILE):
            size = min(TILE, n - start)
            # Slices, so that the compiler sees indices that cannot be negative, and vectorizes.
            row, norms = products[b, start : start + size], right[start : start + size]
            own = left[b]
            for j in range(size):
                square = own + norms[j] - two * row[j]
                exponent[j] = -gamma * (square if square > ZERO else ZERO)
            exp_tile(exponent, bits, values, size)
            row[:] = values[:size]


@njit(cache=True, nogil=True)
def violation(score, code, thresholds, margin, pull):
    """How much a row of this grade must rise, and which thresholds must move with it.

    Without thresholds: grade code 0 belongs below -margin, all others above +margin. With them:
    ``margin`` above every lower threshold and below every other one; ``pull[r]`` is set to what
    threshold r lacks (signed: > 0 where the row must rise). Returns the sum of what is lacking
    (signed), the sum of its squares and the number of violated margins.
    """
    if len(thresholds) == 0:
        label = 1.0 if code > 0 else -1.0
        lack = margin - label * score
        if lack < 0.0:
            return 0.0, 0.0, 0
        return label * lack, lack * lack, 1
    total, squares, n_active = 0.0, 0.0, 0
    for r in range(len(thresholds)):
        label = 1.0 if code > r else -1.0
        lack = margin - label * (score - thresholds[r])
        pull[r] = 0.0
        if lack >= 0.0:
            pull[r] = label * lack
            total += label * lack
            squares += lack * lack
            n_active += 1
    return total, squares, n_active


@njit(cache=True, nogil=True)
def weakest_row(dual, sizes):
    """The place of the nonzero coefficient that weighs least, |dual| * size."""
    best, place = np.inf, -1
    for e in range(len(dual)):
        if dual[e] != 0.0 and abs(dual[e]) * sizes[e] < best:
            best, place = abs(dual[e]) * sizes[e], e
    return place


@njit(cache=True, nogil=True)
def relaxation_walk(
    gram,
    upper,
    lower,
    code,
    weight,
    slot,
    scores,
    steps,
    lags,
    thresholds,
    threshold_lags,
    dual,
    drift,
    sizes,
    others,
    margin,
    step,
    unit,
    clock,
    budget,
):
    """Show the visits of one block, one after the other.

    gram        (n_rows, n_rows): how the score of row a changes per unit step along row b
    upper       (n_visits,) int64, the row shown, of the block's rows
    lower       (n_visits,) int64, the row that belongs below it; -1 where grades are shown
    code        (n_visits,) int64, the grade shown (not read for pairs)
    weight      (n_visits,) float64; a weight of 2.5 is two visits and a half one
    slot        (n_rows,) int64, the place of each row in dual (read with a budget only)
    scores      (n_rows,) float64                      changed in place, as all that follow
    steps       (n_rows,) float64, sum of the steps along each row
    lags        (n_rows,) float64, sum of step * time of the step
    thresholds, threshold_lags   (n_thresholds,) float64
    dual, drift (n_support,) float64, coefficients of all rows kept; with a budget only
    sizes       (n_support,) float64, sqrt K(s, s)
    others      (n_rows, n_support), kernel of the block's rows with the rows kept
    unit        squared length of a unit of threshold, to be compared with gram[a, a]
    budget      the most rows kept; 0 = no limit

    Returns the time after the last visit, the sum of squared violations, and their number.
    """
    pull = np.zeros(len(thresholds))
    squares, n_violations = 0.0, 0
    n_kept = 0
    for e in range(len(dual)):
        if dual[e] != 0.0:
            n_kept += 1
    for v in range(len(upper)):
        a, b = upper[v], lower[v]
        rest = weight[v]
        length = gram[a, a]
        if b >= 0:
            length += gram[b, b] - 2.0 * gram[a, b]
        while rest > 0.0:
            part = min(rest, 1.0)
            if b >= 0:
                lack = margin - (scores[a] - scores[b])
                total, found, n_active = max(lack, 0.0), max(lack, 0.0) ** 2, 1 if lack >= 0 else 0
            else:
                total, found, n_active = violation(scores[a], code[v], thresholds, margin, pull)
            if n_active == 0 or found < 1e-24 * margin * margin or length <= 0.0:
                clock += rest
                break
            squares += part * found
            n_violations += 1
            change = step * part * total / length
            if b < 0 and len(thresholds):
                # n_active margins pull at the score, and one each at a threshold, whose unit of
                # length is the same for all rows: steps in one fixed geometry cannot drift away.
                whole = step * part / (n_active * length + unit)
                change = whole * total
                for r in range(len(thresholds)):
                    thresholds[r] -= whole * unit * pull[r]
                    threshold_lags[r] -= whole * unit * pull[r] * clock
            n_kept = step_along(
                gram, a, change, clock, slot, scores, steps, lags, dual, drift, n_kept, budget
            )
            if b >= 0:
                n_kept = step_along(
                    gram, b, -change, clock, slot, scores, steps, lags, dual, drift, n_kept, budget
                )
            while budget > 0 and n_kept > budget:
                e = weakest_row(dual, sizes)
                for i in range(len(scores)):
                    scores[i] -= dual[e] * others[i, e]
                dual[e] = 0.0
                drift[e] = 0.0
                n_kept -= 1
            clock += part
            rest -= part
    return clock, squares, n_violations


@njit(cache=True, nogil=True)
def step_along(gram, a, change, clock, slot, scores, steps, lags, dual, drift, n_kept, budget):
    """Move along one row of the block; returns the number of rows kept."""
    for i in range(len(scores)):
        scores[i] += change * gram[a, i]
    steps[a] += change
    lags[a] += change * clock
    if budget > 0:
        e = slot[a]
        if dual[e] != 0.0:
            n_kept -= 1
        dual[e] += change
        drift[e] += change * clock
        if dual[e] != 0.0:
            n_kept += 1
    return n_kept
