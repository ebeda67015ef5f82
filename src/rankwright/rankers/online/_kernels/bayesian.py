"""Passes of a normal posterior of (weights, thresholds) over examples, compiled.

Arguments and results are those of the other passes: see ``_kernels.prank``.
"""

from __future__ import annotations

import math

import numpy as np

from rankwright.rankers.online._kernels.prank import copy_values, inner_product, row_dot, row_norm
from rankwright.runtime.kernels import njit


@njit(cache=True, nogil=True)
def tail_ratio(t):
    """The normal density over the normal distribution function, at t."""
    if t > -6.0:
        return 0.3989422804014327 * math.exp(-0.5 * t * t) / (0.5 * math.erfc(-t * math.sqrt(0.5)))
    a = 1.0 / (t * t)  # both underflow: the quotient of their asymptotic series
    return -t / (1.0 - a * (1.0 - 3.0 * a * (1.0 - 5.0 * a * (1.0 - 7.0 * a))))


@njit(cache=True, nogil=True)
def posterior_change(mean, variance, side):
    """How the answer of one threshold changes a normal posterior of score - threshold.

    The answer ``side`` is the sign of (score - threshold + standard normal noise). Returns (first,
    second) that match mean and variance after it: mean += first * covariance, covariance -= second
    * (outer product of itself).
    """
    spread = math.sqrt(1.0 + variance)
    t = side * mean / spread
    ratio = tail_ratio(t)
    return side * ratio / spread, max(ratio * (ratio + t), 0.0) / (1.0 + variance)


@njit(cache=True, nogil=True)
def count_below(thresholds, score):
    """The predicted grade: how many thresholds, in any order, lie at or below the score."""
    grade = 0
    for r in range(thresholds.shape[0]):
        grade += thresholds[r] <= score
    return grade


@njit(cache=True, nogil=True)
def prior_scale(X, data, indices, indptr, row):
    """1 / squared length of the row: fits the prior to the number and the scale of the features."""
    square = row_norm(X, data, indices, indptr, row)
    return 1.0 / square if 1e-300 < square < 1e300 else 0.0


@njit(cache=True, nogil=True)
def full_pass(examples, mean, covariance, n_features, scale, prior, predicted):
    """Update the posterior with every example; full covariance.

    mean        (n_features + n_thresholds,) float64       changed in place
    covariance  square table of the same size              changed in place
    scale       (1,) scale of the prior, 0 until the first row other than zero   changed in place
    predicted   (n_examples,) int64, out: the grade predicted before learning

    The answers of all thresholds to one row share the product of the covariance and the row;
    their changes of the covariance are applied together at the end.
    """
    X, data, indices, indptr, grade, order = examples
    size = mean.shape[0]
    n_thresholds = size - n_features
    weights = mean[:n_features]
    along = np.empty(size)  # covariance @ (row, 0)
    gains = np.empty((n_thresholds, size))  # covariance @ (row, -e_r) before threshold r's answer
    factors = np.empty(n_thresholds)
    mistakes, skipped = 0, 0
    for t in range(order.shape[0]):
        row = order[t]
        if scale[0] == 0.0:
            scale[0] = prior_scale(X, data, indices, indptr, row)
            for f in range(n_features):
                covariance[f, f] = prior * scale[0]
        score = row_dot(X, data, indices, indptr, row, weights)
        predicted[t] = count_below(mean[n_features:], score)
        mistakes += predicted[t] != grade[row]
        for a in range(size):
            along[a] = row_dot(X, data, indices, indptr, row, covariance[a, :n_features])
        spread = row_dot(X, data, indices, indptr, row, along[:n_features])
        if not (math.isfinite(score) and math.isfinite(spread)):
            skipped += 1
            continue
        for r in range(n_thresholds):
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
            step, factors[r] = posterior_change(score - mean[at], variance, side)
            for a in range(size):
                mean[a] += step * gain[a]
            inner = row_dot(X, data, indices, indptr, row, gain[:n_features])
            score += step * inner
            spread -= factors[r] * inner * inner
            for a in range(size):
                along[a] -= factors[r] * inner * gain[a]
        for r in range(n_thresholds):
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
def row_learn(X, data, indices, indptr, row, mean, variances, change):
    """Move the mean along the row and shrink the variances of its features, in place."""
    step, factor = change
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
def diagonal_pass(examples, mean, variances, n_features, scale, prior, predicted):
    """The same with one variance for each weight and threshold and no covariances."""
    X, data, indices, indptr, grade, order = examples
    n_thresholds = mean.shape[0] - n_features
    weights = mean[:n_features]
    mistakes, skipped = 0, 0
    for t in range(order.shape[0]):
        row = order[t]
        if scale[0] == 0.0:
            scale[0] = prior_scale(X, data, indices, indptr, row)
            variances[:n_features] = prior * scale[0]
        score = row_dot(X, data, indices, indptr, row, weights)
        predicted[t] = count_below(mean[n_features:], score)
        mistakes += predicted[t] != grade[row]
        for r in range(n_thresholds):
            at = n_features + r
            if r > 0:
                score = row_dot(X, data, indices, indptr, row, weights)
            spread = row_spread(X, data, indices, indptr, row, variances)
            if not (math.isfinite(score) and math.isfinite(spread)):
                skipped += r == 0
                break
            side = 1.0 if grade[row] > r else -1.0
            change = posterior_change(score - mean[at], spread + variances[at], side)
            row_learn(X, data, indices, indptr, row, weights, variances, change)
            mean[at] -= change[0] * variances[at]
            variances[at] -= change[1] * variances[at] * variances[at]
    return mistakes, skipped


@njit(cache=True, nogil=True)
def scaled_row(X, data, indices, indptr, row, roots, out):
    """out = roots * row, zero beyond the row's values."""
    out[:] = 0.0
    if X is not None:
        for f in range(X.shape[1]):
            out[f] = roots[f] * X[row, f]
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            out[indices[e]] = roots[indices[e]] * data[e]


@njit(cache=True, nogil=True)
def row_product(indices, indptr, row, last, a, b):
    """The inner product over the columns of a sparse row and the column ``last`` behind them."""
    total = 0.0
    if indices is not None:
        for e in range(indptr[row], indptr[row + 1]):
            total += a[indices[e]] * b[indices[e]]
    return total + a[last] * b[last]


@njit(cache=True, nogil=True)
def ordered_product(a, b):
    """The inner product summed from left to right: columns of zeros do not change its bits."""
    total = 0.0
    for f in range(a.shape[0]):
        total += a[f] * b[f]
    return total


@njit(cache=True, nogil=True)
def compress(factors, variances, rank, ordered):
    """Keep the ``rank`` strongest directions; the rest goes into the variances (in place).

    The covariance is D (I - F'F) D with D the roots of ``variances`` and F ``factors``. What the
    dropped directions had taken from each parameter's own variance is kept exactly, by making D
    smaller; the covariance stays positive.
    """
    n, size = factors.shape
    gram = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            if ordered:
                gram[i, j] = ordered_product(factors[i], factors[j])
            else:
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
    for i in range(rank):
        copy_values(kept[i], factors[i])


@njit(cache=True, nogil=True)
def low_rank_pass(examples, mean, covariance, n_features, scale, prior, predicted):
    """The same with variances and a few directions about which more is known.

    covariance  (variances, factors, count, ordered), the first three changed in place. ``factors``
                has 2 rank + 1 rows, of which the first count[0] are used; ``rank`` are kept when
                all are. ``ordered`` sums of sparse rows do not depend on columns of zeros.
    """
    X, data, indices, indptr, grade, order = examples
    variances, factors, count, ordered = covariance
    rank = factors.shape[0] // 2
    size = mean.shape[0]
    n_thresholds = size - n_features
    weights = mean[:n_features]
    roots, along, gain = np.empty(size), np.empty(size), np.empty(size)
    mistakes, skipped = 0, 0
    for t in range(order.shape[0]):
        row = order[t]
        if scale[0] == 0.0:
            scale[0] = prior_scale(X, data, indices, indptr, row)
            variances[:n_features] = prior * scale[0]
        score = row_dot(X, data, indices, indptr, row, weights)
        predicted[t] = count_below(mean[n_features:], score)
        mistakes += predicted[t] != grade[row]
        if not math.isfinite(score):
            skipped += 1
            continue
        for r in range(n_thresholds):
            at = n_features + r
            for f in range(size):
                roots[f] = math.sqrt(variances[f])
            scaled_row(X, data, indices, indptr, row, roots, along)
            along[at] = -roots[at]
            copy_values(along, gain)
            for j in range(count[0]):
                if ordered:
                    back = row_product(indices, indptr, row, at, factors[j], along)
                else:
                    back = inner_product(factors[j], along)
                for f in range(size):
                    gain[f] -= back * factors[j, f]
            if ordered:
                variance = max(row_product(indices, indptr, row, at, gain, along), 0.0)
            else:
                variance = max(inner_product(gain, along), 0.0)
            if not math.isfinite(variance):
                skipped += r == 0
                break
            if r > 0:
                score = row_dot(X, data, indices, indptr, row, weights)
            side = 1.0 if grade[row] > r else -1.0
            step, factor = posterior_change(score - mean[at], variance, side)
            take = math.sqrt(factor)
            for f in range(size):
                mean[f] += step * roots[f] * gain[f]
                factors[count[0], f] = take * gain[f]
            count[0] += 1
            if count[0] == factors.shape[0]:
                compress(factors, variances, rank, ordered)
                count[0] = rank
    return mistakes, skipped
