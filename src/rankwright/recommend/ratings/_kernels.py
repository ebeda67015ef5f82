"""Sweeps over RatingRows.

Inner loops add vectors, never into one number: they are vectorized without permission to reorder
sums, and results are the same on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.runtime.kernels import njit

LANES = 4  # rows whose systems are solved side by side: as many numbers as a vector register holds


class Posterior(NamedTuple):
    """Gaussian posteriors of the vectors of n users or items."""

    mean: NDArray[np.float64]  # (n, d)
    # (n, d (d + 1) / 2) second moments, mean mean' + covariance, upper triangles row by row.
    # Summing them is most of the work, so they are float32; their last bits are below the noise.
    moments: NDArray[np.float32]
    variance: NDArray[np.float64]  # (n, d)


class Prior(NamedTuple):
    """Gaussian priors of the same vectors."""

    mean: NDArray[np.float64]  # (n, d)
    precision: NDArray[np.float64]  # (d,)


@njit(cache=True, nogil=True)
def add_rows(table, vector, start, stop, total):
    """Rows start .. stop of total (n, d) = the sparse matrix table times vector (n_others, d)."""
    ptr, other, value = table.ptr, table.other, table.value
    for u in range(start, stop):
        row = total[u]
        row[:] = 0.0
        for entry in range(ptr[u], ptr[u + 1]):
            term, weight = vector[other[entry]], value[entry]
            for k in range(len(row)):
                row[k] += weight * term[k]


@njit(cache=True, nogil=True)
def update_factors(table, others, prior, noise, start, stop, posterior, error):
    """The posterior of each row's vector, given the vectors of what it is rated with.

    table        ratings less their mean
    others       Posterior of the other side; variance is not read
    prior        Prior of the rows
    noise        variance of a rating around the product of its two vectors
    start, stop  rows to update
    posterior    Posterior of the rows               written
    error        (n,) float64, expected squared error of the row's ratings, written
    """
    ptr, other, value = table.ptr, table.other, table.value
    their_mean, moments = others.mean, others.moments
    mean, new_moments, variance = posterior
    prior_mean, precision = prior
    d, width = their_mean.shape[1], moments.shape[1]
    total, right, squares = np.zeros((LANES, width)), np.zeros((LANES, d)), np.zeros(LANES)
    system, inverse = np.zeros((d, d, LANES)), np.zeros((d, d, LANES))
    turned, weight = np.zeros((d, d, LANES)), np.zeros(LANES)
    right_side, answer = np.zeros((d, LANES)), np.zeros((d, LANES))
    certainty = 1.0 / noise
    for first in range(start, stop, LANES):
        n_lanes = min(LANES, stop - first)
        for lane in range(n_lanes):
            sums, products, square = total[lane], right[lane], 0.0
            sums[:] = 0.0
            products[:] = 0.0
            for entry in range(ptr[first + lane], ptr[first + lane + 1]):
                i, r = other[entry], value[entry]
                square += r * r
                for k in range(d):
                    products[k] += r * their_mean[i, k]
                for at in range(width):
                    sums[at] += moments[i, at]
            squares[lane] = square
        at = 0  # a lane without a row repeats the last row
        for i in range(d):
            for lane in range(LANES):
                u = min(first + lane, stop - 1)
                right_side[i, lane] = right[lane, i] * certainty + precision[i] * prior_mean[u, i]
                answer[i, lane] = 0.0
            for j in range(i, d):
                for lane in range(LANES):
                    system[i, j, lane] = total[lane, at] * certainty
                at += 1
            for lane in range(LANES):
                system[i, i, lane] += precision[i]
        invert(system, inverse, turned, weight)
        for i in range(d):
            add_times(answer, right_side[i], inverse[i], i + 1, d)
            for j in range(i, d):
                for lane in range(LANES):
                    answer[i, lane] += inverse[i, j, lane] * right_side[j, lane]
        for lane in range(n_lanes):
            u, square, sums = first + lane, squares[lane], total[lane]
            at = 0
            for i in range(d):
                mean[u, i] = answer[i, lane]
                variance[u, i] = inverse[i, i, lane]
                row = -2.0 * right[lane, i] * answer[i, lane]
                for j in range(i, d):
                    moment = answer[i, lane] * answer[j, lane] + inverse[i, j, lane]
                    new_moments[u, at] = moment
                    row += (1.0 if i == j else 2.0) * moment * sums[at]
                    at += 1
                square += row
            error[u] = square


@njit(cache=True, nogil=True)
def invert(system, inverse, turned, weight):
    """The inverses of positive definite matrices, LANES at a time; only upper triangles are read.

    system   (d, d, LANES) float64, on return their Cholesky factors U, system = U'U
    inverse  (d, d, LANES) float64                   written
    turned   (d, d, LANES) float64, on return the transposes of the inverses of U
    weight   (LANES,) float64, workspace
    """
    d = len(system)
    for j in range(d):
        row = system[j]
        for lane in range(LANES):
            weight[lane] = 1.0 / np.sqrt(row[j, lane])
        for k in range(j, d):
            for lane in range(LANES):
                row[k, lane] *= weight[lane]
        for i in range(j + 1, d):
            for lane in range(LANES):
                weight[lane] = -row[i, lane]
            add_times(system[i], weight, row, i, d)
    for i in range(d - 1, -1, -1):  # row i of the inverse of U, from the rows below
        inverse[i, i:] = 0.0
        for k in range(i + 1, d):
            for lane in range(LANES):
                weight[lane] = -(1.0 / system[i, i, lane]) * system[i, k, lane]
            add_times(inverse[i], weight, inverse[k], k, d)
        for lane in range(LANES):
            inverse[i, i, lane] = 1.0 / system[i, i, lane]
    for i in range(d):
        for k in range(i, d):
            for lane in range(LANES):
                turned[k, i, lane] = inverse[i, k, lane]
                inverse[i, k, lane] = 0.0
    for k in range(d):
        for i in range(k + 1):
            add_times(inverse[i], turned[k, i], turned[k], i, k + 1)


@njit(cache=True, nogil=True, inline="always")
def add_times(row, weight, other, start, stop):
    """row[k] += weight * other[k] for k from start to stop, in each of the LANES.

    Unrolled, because a loop over lanes does not stay in vector registers: three times slower.
    """
    one, two, three, four = weight[0], weight[1], weight[2], weight[3]
    for k in range(start, stop):
        row[k, 0] += one * other[k, 0]
        row[k, 1] += two * other[k, 1]
        row[k, 2] += three * other[k, 2]
        row[k, 3] += four * other[k, 3]


@njit(cache=True, nogil=True)
def nearest_items(by_user, by_item, norm, shrinkage, start, stop, neighbor, similarity):
    """The items most similar to each item, by shrunk cosine of deviations.

    by_user, by_item  Tables of deviations
    norm         (n_items,) float64, length of each item's vector of deviations, > 0
    shrinkage    a pair with n common users counts n / (n + shrinkage)
    start, stop  items to do
    neighbor     (n_items, n_neighbors) int64        written, -1 where there are fewer
    similarity   (n_items, n_neighbors) float64      written, 0 where there are fewer
    """
    n_items, k = neighbor.shape
    sums = np.zeros((n_items, 2))  # product and number of users, side by side: one cache line
    touched = np.zeros(n_items, np.int64)
    for item in range(start, stop):
        n_touched = 0
        for entry in range(by_item.ptr[item], by_item.ptr[item + 1]):
            user, own = by_item.other[entry], by_item.value[entry]
            for position in range(by_user.ptr[user], by_user.ptr[user + 1]):
                other = by_user.other[position]
                if sums[other, 1] == 0.0:
                    touched[n_touched] = other
                    n_touched += 1
                sums[other, 0] += own * by_user.value[position]
                sums[other, 1] += 1.0
        scores = np.zeros(n_touched)
        for index in range(n_touched):
            other = touched[index]
            product, n_common = sums[other]
            if other != item:
                scores[index] = product / (norm[item] * norm[other])
                scores[index] *= n_common / (n_common + shrinkage)
            sums[other] = 0.0
        least = np.partition(scores, n_touched - k)[n_touched - k] if n_touched > k else 0.0
        n_kept = 0
        for index in range(n_touched):
            if scores[index] > 0.0 and scores[index] >= least and n_kept < k:
                neighbor[item, n_kept] = touched[index]
                similarity[item, n_kept] = scores[index]
                n_kept += 1
        neighbor[item, n_kept:] = -1
        similarity[item, n_kept:] = 0.0
