"""Sweeps over sparse ratings: posterior of factors, similarities between items."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def pack_moments(mean, covariance, moments):
    """E[v v'] of each row, lower triangle row by row: mean mean' + covariance.

    mean        (n, d) float64
    covariance  (n, d (d + 1) / 2) float64, packed
    moments     (n, d (d + 1) / 2) float64          written
    """
    n, d = mean.shape
    for i in range(n):
        at = 0
        for k in range(d):
            for m in range(k + 1):
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

    ptr, other, value  ratings of row u are other[ptr[u]:ptr[u + 1]], value[..]
    their_mean   (n_others, d) float64
    moments      (n_others, d (d + 1) / 2) float64, packed second moments of the others
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
    total, right = np.zeros(width), np.zeros(d)
    lower, inverse = np.zeros((d, d)), np.zeros((d, d))
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
        for i in range(d):  # Cholesky of total / noise + diag(precision)
            for j in range(i + 1):
                s = total[at] / noise
                at += 1
                if i == j:
                    s += precision[i]
                for k in range(j):
                    s -= lower[i, k] * lower[j, k]
                lower[i, j] = np.sqrt(s) if i == j else s / lower[j, j]
        for j in range(d):  # inverse[j, i] holds entry (i, j) of the inverse of ``lower``
            inverse[j, j] = 1.0 / lower[j, j]
            for i in range(j + 1, d):
                s = 0.0
                for k in range(j, i):
                    s -= lower[i, k] * inverse[j, k]
                inverse[j, i] = s / lower[i, i]
        for k in range(d):
            mean[u, k] = 0.0
        at = 0
        for i in range(d):
            mine = right[i] / noise + precision[i] * prior[u, i]
            for j in range(i + 1):
                s = 0.0
                for k in range(i, d):
                    s += inverse[i, k] * inverse[j, k]
                covariance[u, at] = s
                mean[u, i] += s * (right[j] / noise + precision[j] * prior[u, j])
                if j < i:
                    mean[u, j] += s * mine
                at += 1
        at = 0
        for i in range(d):
            squares -= 2.0 * right[i] * mean[u, i]
            for j in range(i + 1):
                term = (mean[u, i] * mean[u, j] + covariance[u, at]) * total[at]
                squares += term if i == j else 2.0 * term
                at += 1
        error[u] = squares


@njit(cache=True, nogil=True)
def nearest_items(
    user_ptr,
    user_item,
    user_value,
    item_ptr,
    item_user,
    item_value,
    start,
    stop,
    shrinkage,
    neighbour,
    similarity,
):
    """The items most alike to each item, by shrunk correlation of deviations.

    user_ptr, user_item, user_value  deviations by user, item_ptr, item_user, item_value by item
    start, stop  items to do
    shrinkage    a pair rated by n users together counts n / (n + shrinkage)
    neighbour    (n_items, n_neighbours) int64        written, -1 where there are fewer
    similarity   (n_items, n_neighbours) float64      written, descending
    """
    n_items = len(item_ptr) - 1
    k = neighbour.shape[1]
    product, mine, theirs = np.zeros(n_items), np.zeros(n_items), np.zeros(n_items)
    together = np.zeros(n_items, np.int64)
    touched = np.zeros(n_items, np.int64)
    for item in range(start, stop):
        n_touched = 0
        for entry in range(item_ptr[item], item_ptr[item + 1]):
            user, own = item_user[entry], item_value[entry]
            for place in range(user_ptr[user], user_ptr[user + 1]):
                other, value = user_item[place], user_value[place]
                if together[other] == 0:
                    touched[n_touched] = other
                    n_touched += 1
                together[other] += 1
                product[other] += own * value
                mine[other] += own * own
                theirs[other] += value * value
        scores = np.zeros(n_touched)
        for place in range(n_touched):
            other = touched[place]
            length = np.sqrt(mine[other] * theirs[other])
            if other != item and length > 0.0:
                shrunk = together[other] / (together[other] + shrinkage)
                scores[place] = product[other] / length * shrunk
        order = np.argsort(-scores)
        for place in range(k):
            neighbour[item, place], similarity[item, place] = -1, 0.0
            if place < n_touched and scores[order[place]] > 0.0:
                neighbour[item, place] = touched[order[place]]
                similarity[item, place] = scores[order[place]]
        for place in range(n_touched):
            other = touched[place]
            product[other], mine[other], theirs[other], together[other] = 0.0, 0.0, 0.0, 0
