"""Passes of a normal belief about (weights, thresholds) over rows, compiled.

Rows and answers are those of the other online passes: see ``rankers.online._kernels``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankwright.rankers.online._kernels.prank import inner_product, row_dot, row_norm


@njit(cache=True, nogil=True)
def tail_ratio(t):
    """The normal density over the normal distribution function, at t."""
    if t > -6.0:
        return 0.3989422804014327 * math.exp(-0.5 * t * t) / (0.5 * math.erfc(-t * math.sqrt(0.5)))
    a = 1.0 / (t * t)  # both vanish: the quotient of their asymptotic series
    return -t / (1.0 - a * (1.0 - 3.0 * a * (1.0 - 5.0 * a * (1.0 - 7.0 * a))))


@njit(cache=True, nogil=True)
def belief_change(mean, variance, side):
    """How one threshold's answer moves a normal belief about score - threshold.

    The answer is the sign of (score - threshold + standard normal noise). Matching mean and
    variance of the belief after it: mean += first * covariance, covariance -= second * (outer
    product of itself).
    """
    spread = math.sqrt(1.0 + variance)
    t = side * mean / spread
    ratio = tail_ratio(t)
    return side * ratio / spread, max(ratio * (ratio + t), 0.0) / (1.0 + variance)


@njit(cache=True, nogil=True)
def cuts_below(cuts, score):
    """How many thresholds, in any order, lie at or below the score: the predicted grade."""
    place = 0
    for r in range(cuts.shape[0]):
        place += cuts[r] <= score
    return place


@njit(cache=True, nogil=True)
def first_scale(X, data, indices, indptr, row):
    """1 / squared length of the row, which fits the prior to number and scale of the features."""
    square = row_norm(X, data, indices, indptr, row)
    return 1.0 / square if 1e-300 < square < 1e300 else 0.0


@njit(cache=True, nogil=True)
def begin_prior(X, data, indices, indptr, row, variances, n_features, scale, prior):
    """At the first row other than zero, give the weights their prior variances."""
    if scale[0] == 0.0:
        scale[0] = first_scale(X, data, indices, indptr, row)
        for f in range(n_features):
            variances[f] = prior * scale[0]


@njit(cache=True, nogil=True)
def belief_pass(
    X, data, indices, indptr, grade, order, mean, covariance, n_features, scale, prior, predicted
):
    """Update a normal belief about (weights, thresholds) with each row; full covariance.

    mean        (n_features + n_thresholds,)   changed in place
    covariance  square table of the same       changed in place
    scale       (1,) the scale of the prior, 0 until a row other than zero has come

    The answers of all thresholds to one row share the product of the covariance and the row;
    their changes of the covariance are applied together at the end.
    """
    size = mean.shape[0]
    n_cuts = size - n_features
    weights = mean[:n_features]
    along = np.empty(size)  # covariance @ (row, 0)
    gains = np.empty((n_cuts, size))  # covariance @ (row, -e_r), as of threshold r's turn
    factors = np.empty(n_cuts)
    variances = np.empty(n_features)
    mistakes, skipped = 0, 0
    for visit in range(order.shape[0]):
        row = order[visit]
        if scale[0] == 0.0:
            begin_prior(X, data, indices, indptr, row, variances, n_features, scale, prior)
            for f in range(n_features):
                covariance[f, f] = variances[f] if scale[0] > 0.0 else 0.0
        score = row_dot(X, data, indices, indptr, row, weights)
        predicted[visit] = cuts_below(mean[n_features:], score)
        mistakes += predicted[visit] != grade[row]
        for a in range(size):
            along[a] = row_dot(X, data, indices, indptr, row, covariance[a, :n_features])
        spread = row_dot(X, data, indices, indptr, row, along[:n_features])
        if not (math.isfinite(score) and math.isfinite(spread)):
            skipped += 1
            continue
        for r in range(n_cuts):
            at = n_features + r
            gain = gains[r]
            for a in range(size):
                gain[a] = along[a] - covariance[a, at]
            for s in range(r):
                back = factors[s] * gains[s, at]
                for a in range(size):
                    gain[a] += back * gains[s, a]
            variance = max(spread - along[at] - gain[at], 0.0)
            side = 1.0 if grade[row] > r else -1.0
            step, factors[r] = belief_change(score - mean[at], variance, side)
            for a in range(size):
                mean[a] += step * gain[a]
            inner = row_dot(X, data, indices, indptr, row, gain[:n_features])
            score += step * inner
            spread -= factors[r] * inner * inner
            for a in range(size):
                along[a] -= factors[r] * inner * gain[a]
        for r in range(n_cuts):
            for a in range(size):
                back = factors[r] * gains[r, a]
                for b in range(size):
                    covariance[a, b] -= back * gains[r, b]
    return mistakes, skipped


@njit(cache=True, nogil=True)
def row_spread(X, data, indices, indptr, row, variances):
    """The sum of variance * value ** 2 over the features of a row."""
    total = 0.0
    if X is not None:
        for f in range(X.shape[1]):
            total += variances[f] * X[row, f] * X[row, f]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            total += variances[indices[e]] * data[e] * data[e]
    return total


@njit(cache=True, nogil=True)
def row_learn(X, data, indices, indptr, row, mean, variances, step, factor):
    """Move the mean along the row and shrink the variances of its features."""
    if X is not None:
        for f in range(X.shape[1]):
            gain = variances[f] * X[row, f]
            mean[f] += step * gain
            variances[f] -= factor * gain * gain
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            f = indices[e]
            gain = variances[f] * data[e]
            mean[f] += step * gain
            variances[f] -= factor * gain * gain


@njit(cache=True, nogil=True)
def diagonal_belief_pass(
    X, data, indices, indptr, grade, order, mean, variances, n_features, scale, prior, predicted
):
    """The same with a variance for each weight and threshold and no covariances."""
    n_cuts = mean.shape[0] - n_features
    weights = mean[:n_features]
    mistakes, skipped = 0, 0
    for visit in range(order.shape[0]):
        row = order[visit]
        begin_prior(X, data, indices, indptr, row, variances, n_features, scale, prior)
        score = row_dot(X, data, indices, indptr, row, weights)
        predicted[visit] = cuts_below(mean[n_features:], score)
        mistakes += predicted[visit] != grade[row]
        for r in range(n_cuts):
            at = n_features + r
            if r > 0:
                score = row_dot(X, data, indices, indptr, row, weights)
            spread = row_spread(X, data, indices, indptr, row, variances)
            if not (math.isfinite(score) and math.isfinite(spread)):
                skipped += r == 0
                break
            side = 1.0 if grade[row] > r else -1.0
            step, factor = belief_change(score - mean[at], spread + variances[at], side)
            row_learn(X, data, indices, indptr, row, weights, variances, step, factor)
            mean[at] -= step * variances[at]
            variances[at] -= factor * variances[at] * variances[at]
    return mistakes, skipped


@njit(cache=True, nogil=True)
def scaled_row(X, data, indices, indptr, row, roots, out):
    """out = roots * row, where the row has values (zeros elsewhere)."""
    for f in range(out.shape[0]):
        out[f] = 0.0
    if X is not None:
        for f in range(X.shape[1]):
            out[f] = roots[f] * X[row, f]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            out[indices[e]] = roots[indices[e]] * data[e]


@njit(cache=True, nogil=True)
def compress(factors, variances, rank):
    """Keep the ``rank`` strongest directions; the rest goes into the variances.

    The covariance is D (I - F'F) D with D the roots of ``variances`` and F ``factors``. What the
    dropped directions had taken from each parameter's own variance is kept exactly, by making D
    smaller; the covariance stays positive.
    """
    n, size = factors.shape
    gram = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            gram[i, j] = inner_product(factors[i], factors[j])
            gram[j, i] = gram[i, j]
    vectors = np.linalg.eigh(gram)[1]
    kept = np.zeros((rank, size))
    for i in range(rank):
        for j in range(n):
            weight = vectors[j, n - rank + i]
            for f in range(size):
                kept[i, f] += weight * factors[j, f]
    for f in range(size):
        before, after = 1.0, 1.0
        for j in range(n):
            before -= factors[j, f] * factors[j, f]
        for i in range(rank):
            after -= kept[i, f] * kept[i, f]
        variances[f] *= min(max(before, 1e-9) / max(after, 1e-9), 1.0)
    factors[:] = 0.0
    factors[:rank] = kept


@njit(cache=True, nogil=True)
def low_rank_belief_pass(
    X, data, indices, indptr, grade, order, mean, variances, n_features, scale, prior, predicted,
    factors, count, rank,
):  # fmt: skip
    """The same with variances and a few directions in which more is known.

    factors  (capacity, n_parameters); the first count[0] rows are in use   changed in place
    rank     how many directions are kept when the capacity is reached
    """
    size = mean.shape[0]
    n_cuts = size - n_features
    weights = mean[:n_features]
    roots, along, gain = np.empty(size), np.empty(size), np.empty(size)
    mistakes, skipped = 0, 0
    for visit in range(order.shape[0]):
        row = order[visit]
        begin_prior(X, data, indices, indptr, row, variances, n_features, scale, prior)
        score = row_dot(X, data, indices, indptr, row, weights)
        predicted[visit] = cuts_below(mean[n_features:], score)
        mistakes += predicted[visit] != grade[row]
        if not math.isfinite(score):
            skipped += 1
            continue
        for r in range(n_cuts):
            at = n_features + r
            for f in range(size):
                roots[f] = math.sqrt(variances[f])
            scaled_row(X, data, indices, indptr, row, roots, along)
            along[at] = -roots[at]
            gain[:] = along
            for j in range(count[0]):
                back = inner_product(factors[j], along)
                for f in range(size):
                    gain[f] -= back * factors[j, f]
            variance = max(inner_product(gain, along), 0.0)
            if not math.isfinite(variance):
                skipped += r == 0
                break
            if r > 0:
                score = row_dot(X, data, indices, indptr, row, weights)
            side = 1.0 if grade[row] > r else -1.0
            step, factor = belief_change(score - mean[at], variance, side)
            take = math.sqrt(factor)
            for f in range(size):
                mean[f] += step * roots[f] * gain[f]
                factors[count[0], f] = take * gain[f]
            count[0] += 1
            if count[0] == factors.shape[0]:
                compress(factors, variances, rank)
                count[0] = rank
    return mistakes, skipped
