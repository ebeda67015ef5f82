"""Sweeps over sparse ratings: sums of vectors, posteriors of factors, nearest items.

A table of ratings is ptr, other, value: those of row u are other[ptr[u]:ptr[u + 1]], value[..].
Inner loops run along rows and add vectors, never a sum in one number, so they are vectorised
without leave to reorder sums: results are the same on every machine.
"""

import numpy as np
from numba import njit


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
def pack_moments(mean, covariance, moments):
    """E[v v'] of each row, upper triangle row by row: mean mean' + covariance.

    mean        (n, d) float64
    covariance  (n, d (d + 1) / 2) float64, packed
    moments     (n, d (d + 1) / 2) float32          written; summing them is most of the work, and
                                                    their last bits are far below the noise
    """
    n, d = mean.shape
    for i in range(n):
        at = 0
        for k in range(d):
            for m in range(k, d):
                moments[i, at] = mean[i, k] * mean[i, m] + covariance[i, at]
                at += 1


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
    covariance,
    error,
):
    """The posterior of each row's factor vector, given the vectors of what it is rated with.

    ptr, other, value  ratings less their mean
    their_mean   (n_others, d) float64
    moments      (n_others, d (d + 1) / 2) float32, packed second moments of the others
    start, stop  rows to update
    prior        (n, d) float64, prior mean of each row
    precision    (d,) float64, prior precision of each component
    noise        variance of a rating around the product of its two vectors
    mean         (n, d) float64                      written
    covariance   (n, d (d + 1) / 2) float64          written
    error        (n,) float64, expected squared error of the row's ratings, written
    """
    d = their_mean.shape[1]
    width = moments.shape[1]
    total, right, wish = np.zeros(width), np.zeros(d), np.zeros(d)
    system, inverse, turned = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    for u in range(start, stop):
        total[:] = 0.0
        right[:] = 0.0
        squares = 0.0
        for entry in range(ptr[u], ptr[u + 1]):
            i, r = other[entry], value[entry]
            squares += r * r
            for k in range(d):
                right[k] += r * their_mean[i, k]
            for at in range(width):
                total[at] += moments[i, at]
        at = 0
        for i in range(d):
            for j in range(i, d):
                system[i, j] = total[at] / noise
                at += 1
            system[i, i] += precision[i]
            wish[i] = right[i] / noise + precision[i] * prior[u, i]
        invert(system, inverse, turned)
        for i in range(d):
            mean[u, i] = 0.0
        at = 0
        for i in range(d):
            for j in range(i, d):
                covariance[u, at] = inverse[i, j]
                mean[u, i] += inverse[i, j] * wish[j]
                if j > i:
                    mean[u, j] += inverse[i, j] * wish[i]
                at += 1
        at = 0
        for i in range(d):
            squares -= 2.0 * right[i] * mean[u, i]
            for j in range(i, d):
                term = (mean[u, i] * mean[u, j] + covariance[u, at]) * total[at]
                squares += term if i == j else 2.0 * term
                at += 1
        error[u] = squares


@njit(cache=True, nogil=True)
def invert(system, inverse, turned):
    """The inverse of a positive definite matrix; only upper triangles are read and written.

    system   (d, d) float64, afterwards its Cholesky factor U, system = U'U
    inverse  (d, d) float64                          written
    turned   (d, d) float64, afterwards the transpose of the inverse of U
    """
    d = len(system)
    for j in range(d):
        scale = 1.0 / np.sqrt(system[j, j])
        for k in range(j, d):
            system[j, k] *= scale
        for i in range(j + 1, d):
            weight = system[j, i]
            for k in range(i, d):
                system[i, k] -= weight * system[j, k]
    for i in range(d - 1, -1, -1):  # row i of the inverse of U, from the rows below
        row = inverse[i]
        scale = 1.0 / system[i, i]
        for k in range(i, d):
            row[k] = 0.0
        for k in range(i + 1, d):
            weight = -scale * system[i, k]
            for m in range(k, d):
                row[m] += weight * inverse[k, m]
        row[i] = scale
    for i in range(d):
        for k in range(i, d):
            turned[k, i] = inverse[i, k]
            inverse[i, k] = 0.0
    for k in range(d):
        for i in range(k + 1):
            weight = turned[k, i]
            for j in range(i, k + 1):
                inverse[i, j] += weight * turned[k, j]


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
    neighbour,
    similarity,
):
    """The items most alike to each item, by shrunk cosine of deviations.

    user_ptr, user_item, user_value  deviations by user, item_ptr, item_user, item_value by item
    norm         (n_items,) float64, length of each item's vector of deviations, > 0
    start, stop  items to do
    shrinkage    a pair rated by n users together counts n / (n + shrinkage)
    neighbour    (n_items, n_neighbours) int64        written, -1 where there are fewer
    similarity   (n_items, n_neighbours) float64      written, 0 where there are fewer
    """
    n_items = len(item_ptr) - 1
    k = neighbour.shape[1]
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
                neighbour[item, n_kept] = touched[place]
                similarity[item, n_kept] = scores[place]
                n_kept += 1
        neighbour[item, n_kept:] = -1
        similarity[item, n_kept:] = 0.0
