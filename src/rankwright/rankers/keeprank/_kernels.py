"""Relaxation passes over blocks of examples, and kernel values in single precision."""

from __future__ import annotations

import numpy as np

from rankwright.runtime.kernels import njit

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
TWO = np.float32(2.0)
BIAS = np.float32(127.0)
MANTISSA = np.float32(8388608.0)
TILE = 1024
# No NaN or infinity can come in: rows are checked, and exponents are cut at LEAST.
DOT = {"reassoc", "contract", "nsz", "arcp", "nnan", "ninf"}


@njit(cache=True, nogil=True, fastmath=DOT)
def exp_tile(exponent, bits, values, n):
    """values = exp(exponent), exponents <= 0.

    exponent  (TILE,) float32
    bits      (TILE,) int32, scratch: powers of two, by their bits
    values    (TILE,) float32, out
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
def rbf_tile(products, square, squares, gamma, exponent, bits, values):
    """values[j] = exp(-gamma |x - x_j|^2) from products x . x_j, |x|^2 and |x_j|^2.

    ``exponent``, ``bits`` and ``values`` are those of ``exp_tile``.
    """
    for j in range(products.shape[0]):
        distance = square + squares[j] - TWO * products[j]
        exponent[j] = -gamma * (distance if distance > ZERO else ZERO)
    exp_tile(exponent, bits, values, products.shape[0])


@njit(cache=True, nogil=True, fastmath=DOT)
def rbf_scores(products, left, right, coef, gamma, first, last, scores):
    """scores[b] += sum_s coef[s] exp(-gamma |x_b - x_s|^2) for rows first .. last - 1.

    products  (n_rows, n_support) float32, x_b . x_s
    left      (n_rows,) float32, |x_b|^2
    right     (n_support,) float32, |x_s|^2
    coef      (n_support,) float32
    scores    (n_rows,) float64   changed in place
    """
    exponent, values = np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    bits = np.empty(TILE, np.int32)
    for b in range(first, last):
        total = 0.0
        for start in range(0, products.shape[1], TILE):
            # Slices, so that the compiler sees indices that cannot be negative, and vectorizes.
            row, norms = products[b, start : start + TILE], right[start : start + TILE]
            rbf_tile(row, left[b], norms, gamma, exponent, bits, values)
            part = ZERO
            weights = coef[start : start + TILE]
            for j in range(weights.shape[0]):
                part += values[j] * weights[j]
            total += part
        scores[b] += total


@njit(cache=True, nogil=True, fastmath=DOT)
def rbf_values(products, left, right, gamma, first, last):
    """Turn products x_b . x_s into exp(-gamma |x_b - x_s|^2), rows first .. last - 1, in place."""
    exponent, values = np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    bits = np.empty(TILE, np.int32)
    for b in range(first, last):
        for start in range(0, products.shape[1], TILE):
            row, norms = products[b, start : start + TILE], right[start : start + TILE]
            rbf_tile(row, left[b], norms, gamma, exponent, bits, values)
            row[:] = values[: row.shape[0]]


@njit(cache=True, nogil=True)
def violation(score, code, thresholds, margin, pull):
    """How much a row of this grade must rise, and which thresholds must move with it.

    The row belongs ``margin`` above every threshold below its grade and ``margin`` below every
    other one; ``pull[r]`` is set to what threshold r lacks (signed: > 0 if the row must rise).
    Returns the sum of what is lacking (signed), the sum of its squares and the number of violated
    margins.
    """
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
    """The index of the nonzero coefficient with the least |dual| * size."""
    best, index = np.inf, -1
    for e in range(len(dual)):
        if dual[e] != 0.0 and abs(dual[e]) * sizes[e] < best:
            best, index = abs(dual[e]) * sizes[e], e
    return index


@njit(cache=True, nogil=True)
def relaxation_pass(gram, examples, changes, thresholds, stored, settings, clock):
    """Learn from the examples of one block, one after the other.

    gram        (n_rows, n_rows): how the score of row a changes per unit step along row b
    examples    ``base.RowsAndPairs``: (upper, lower, code, weight); a weight of 2.5 counts as two
                examples and half of one
    changes     (scores, steps, lags), each (n_rows,) float64: the scores of the rows, the sum of
                the steps along each row, the sum of step * time of the step   changed in place
    thresholds  (last values, sums of step * time), each (n_thresholds,)       changed in place
    stored      ``base.Stored``; read and changed in place with a budget only
    settings    (margin, learning rate, squared length of a unit of threshold)

    Returns the time after the last example, the sum of squared violations, and their number.
    """
    upper, lower, code, weight = examples
    scores, steps, lags = changes
    values, value_lags = thresholds
    slot, dual, drift, sizes, kernel, budget = stored
    margin, step, unit = settings
    cuts = values if len(values) else np.zeros(1)  # binary levels: relevant rows belong above 0
    pull = np.zeros(len(cuts))
    squares, n_violations = 0.0, 0
    n_stored = np.count_nonzero(dual)
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
                total, square, n_active = max(lack, 0.0), max(lack, 0.0) ** 2, 1 if lack >= 0 else 0
            else:
                total, square, n_active = violation(scores[a], code[v], cuts, margin, pull)
            if n_active == 0 or square < 1e-24 * margin * margin or length <= 0.0:
                clock += rest
                break
            squares += part * square
            n_violations += 1
            change = step * part * total / length
            if b < 0 and len(values):
                # n_active margins pull at the score, and one each at a threshold, whose unit of
                # length is the same for all rows: steps in one fixed geometry cannot drift away.
                whole = step * part / (n_active * length + unit)
                change = whole * total
                for r in range(len(values)):
                    values[r] -= whole * unit * pull[r]
                    value_lags[r] -= whole * unit * pull[r] * clock
            step_along(gram, a, change, clock, scores, steps, lags)
            if b >= 0:
                step_along(gram, b, -change, clock, scores, steps, lags)
            if budget > 0:
                n_stored += step_stored(dual, drift, slot[a], change, clock)
                if b >= 0:
                    n_stored += step_stored(dual, drift, slot[b], -change, clock)
                while n_stored > budget:
                    e = weakest_row(dual, sizes)
                    for i in range(len(scores)):
                        scores[i] -= dual[e] * kernel[i, e]
                    dual[e] = 0.0
                    drift[e] = 0.0
                    n_stored -= 1
            clock += part
            rest -= part
    return clock, squares, n_violations


@njit(cache=True, nogil=True)
def step_along(gram, a, change, clock, scores, steps, lags):
    """Move along row a of the block, in place."""
    for i in range(len(scores)):
        scores[i] += change * gram[a, i]
    steps[a] += change
    lags[a] += change * clock


@njit(cache=True, nogil=True)
def step_stored(dual, drift, e, change, clock):
    """Change one stored coefficient; by how much the number of nonzero coefficients grew."""
    before = dual[e] != 0.0
    dual[e] += change
    drift[e] += change * clock
    return np.int64(dual[e] != 0.0) - np.int64(before)
