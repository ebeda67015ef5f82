"""Sweeps over sparse ratings: sums of vectors, posteriors of factors, nearest items.

A table of ratings is ptr, other, value: those of row u are other[ptr[u]:ptr[u + 1]], value[..].
Inner loops run along rows and add vectors, never a sum in one number, so they are vectorized
without leave to reorder sums: results are the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = 4  # rows whose systems are solved side by side: so many numbers fill a vector register


@njit(cache=True, nogil=True)
def add_rows(ptr, other, value, vector, start, stop, total):
    """total[u] = sum of value * vector[other] over the entries of row u: a sparse product.

    ptr, other, value  (n + 1,), (n_entries,), (n_entries,)
    vector       (n_others, d) float64
    start, stop  rows to do
    total        (n, d) float64                      written
    """
    d = vector.shape[1]
    for u in range(start, stop):
        mine = total[u]
        mine[:] = 0.0
        for entry in range(ptr[u], ptr[u + 1]):
            theirs, weight = vector[other[entry]], value[entry]
            for k in range(d):
                mine[k] += weight * theirs[k]


@njit(cache=True, nogil=True)
def update_factors(
    ptr,
    other,
    value,
    their_mean,
    moments,
    start,
    stop,
    prior,
    precision,
    noise,
    mean,
    new_moments,
    variance,
    error,
):
    """The posterior of each row's factor vector, given the vectors of what it is rated with.

    ptr, other, value  ratings less their mean
    their_mean   (n_others, d) float64
    moments      (n_others, d (d + 1) / 2) float32, their second moments, mean mean' + covariance,
                 upper triangles row by row; summing them is most of the work, and their last bits
                 are far below the noise
    start, stop  rows to update
    prior        (n, d) float64, prior mean of each row
    precision    (d,) float64, prior precision of each component
    noise        variance of a rating around the product of its two vectors
    mean         (n, d) float64                      written
    new_moments  (n, d (d + 1) / 2) float32          written: second moments of the rows
    variance     (n, d) float64                      written
    error        (n,) float64, expected squared error of the row's ratings, written
    """
    d = their_mean.shape[1]
    width = moments.shape[1]
    total, right, squares = np.zeros((LANES, width)), np.zeros((LANES, d)), np.zeros(LANES)
    system, inverse = np.zeros((d, d, LANES)), np.zeros((d, d, LANES))
    turned, weight = np.zeros((d, d, LANES)), np.zeros(LANES)
    wish, answer = np.zeros((d, LANES)), np.zeros((d, LANES))
    sure = 1.0 / noise
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
        at = 0  # a lane without a row does once more what it did for an earlier one
        for i in range(d):
            for lane in range(LANES):
                u = min(first + lane, stop - 1)
                wish[i, lane] = right[lane, i] * sure + precision[i] * prior[u, i]
                answer[i, lane] = 0.0
            for j in range(i, d):
                for lane in range(LANES):
                    system[i, j, lane] = total[lane, at] * sure
                at += 1
            for lane in range(LANES):
                system[i, i, lane] += precision[i]
        invert(system, inverse, turned, weight)
        for i in range(d):
            add_times(answer, wish[i], inverse[i], i + 1, d)
            for j in range(i, d):
                for lane in range(LANES):
                    answer[i, lane] += inverse[i, j, lane] * wish[j, lane]
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
    """The inverses of positive definite matrices, LANES at a time; only upper triangles count.

    system   (d, d, LANES) float64, afterwards their Cholesky factors U, system = U'U
    inverse  (d, d, LANES) float64                   written
    turned   (d, d, LANES) float64, afterwards the transposes of the inverses of U
    weight   (LANES,) float64, room to work in
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

    Written out: as a loop over lanes it is not kept in vector registers, and three times slower.
    """
    one, two, three, four = weight[0], weight[1], weight[2], weight[3]
    for k in range(start, stop):
        row[k, 0] += one * other[k, 0]
        row[k, 1] += two * other[k, 1]
        row[k, 2] += three * other[k, 2]
        row[k, 3] += four * other[k, 3]


@njit(cache=True, nogil=True)
def nearest_items(
    user_ptr,
    user_item,
    user_value,
    item_ptr,
    item_user,
    item_value,
    norm,
    start,
    stop,
    shrinkage,
    neighbor,
    similarity,
):
    """The items most alike to each item, by shrunk cosine of deviations.

    user_ptr, user_item, user_value  deviations by user, item_ptr, item_user, item_value by item
    norm         (n_items,) float64, length of each item's vector of deviations, > 0
    start, stop  items to do
    shrinkage    a pair rated by n users together counts n / (n + shrinkage)
    neighbor    (n_items, n_neighbors) int64        written, -1 where there are fewer
    similarity   (n_items, n_neighbors) float64      written, 0 where there are fewer
    """
    n_items = len(item_ptr) - 1
    k = neighbor.shape[1]
    sums = np.zeros((n_items, 2))  # product and number of users, side by side: one cache line
    touched = np.zeros(n_items, np.int64)
    for item in range(start, stop):
        n_touched = 0
        for entry in range(item_ptr[item], item_ptr[item + 1]):
            user, own = item_user[entry], item_value[entry]
            for place in range(user_ptr[user], user_ptr[user + 1]):
                other = user_item[place]
                if sums[other, 1] == 0.0:
                    touched[n_touched] = other
                    n_touched += 1
                sums[other, 0] += own * user_value[place]
                sums[other, 1] += 1.0
        scores = np.zeros(n_touched)
        for place in range(n_touched):
            other = touched[place]
            product, together = sums[other]
            if other != item:
                scores[place] = product / (norm[item] * norm[other])
                scores[place] *= together / (together + shrinkage)
            sums[other] = 0.0
        least = np.partition(scores, n_touched - k)[n_touched - k] if n_touched > k else 0.0
        n_kept = 0
        for place in range(n_touched):
            if scores[place] > 0.0 and scores[place] >= least and n_kept < k:
                neighbor[item, n_kept] = touched[place]
                similarity[item, n_kept] = scores[place]
                n_kept += 1
        neighbor[item, n_kept:] = -1
        similarity[item, n_kept:] = 0.0
