"""Gradients and Hessians of listwise losses, in time that grows with the rows, not the pairs.

queries  GradedQueries: ptr, grade, weight, query_weight
out      (2, n) float64: minus the gradient, and the Hessian   written

Sums over a query are sums of integers, so the order of its rows changes no bit.
"""

from __future__ import annotations

import math

import numpy as np

from rankwright.runtime.kernels import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
def exact_sum(values, n):
    """The sum of the first n values, the same in any order: of integers in units of the largest."""
    largest = 0.0
    for i in range(n):
        value = abs(values[i])
        largest = value if value > largest else largest  # vectorized, as max() is not
    if largest < 1e-290:
        return 0.0
    scale = math.ldexp(1.0, 61 - above(largest) - above(float(n)))  # |value| * scale <= 2**61 / n
    total = 0
    for i in range(n):
        total += np.int64(np.rint(values[i] * scale))
    return total / scale


@njit(cache=True, nogil=True, error_model="numpy")
def above(value):
    """The exponent of the least power of two that is not below a value."""
    fraction, exponent = math.frexp(value)
    return exponent - (fraction == 0.5)


@njit(cache=True, nogil=True, error_model="numpy")
def query_rmse_gradients(scores, queries, first, last, out):
    """Squared error of grades after each query's own best shift of the scores.

    Rows count the same, whatever the size of their query.
    """
    widest = 0
    for q in range(first, last):
        widest = max(widest, queries.ptr[q + 1] - queries.ptr[q])
    error = np.empty(widest)
    for q in range(first, last):
        start, stop = queries.ptr[q], queries.ptr[q + 1]
        m, weight = stop - start, queries.weight[start:stop]
        for i in range(m):
            error[i] = weight[i] * (queries.grade[start + i] - scores[start + i])
        mean = exact_sum(error, m) / exact_sum(weight, m)
        for i in range(m):
            w = queries.query_weight[q] * weight[i]
            out[0, start + i] = w * (queries.grade[start + i] - scores[start + i] - mean)
            out[1, start + i] = w


@njit(cache=True, nogil=True, error_model="numpy")
def xendcg_gradients(scores, queries, gain, keys, salt, first, last, out):
    """Cross entropy between softmax of the scores and gains, with its three orders of terms.

    The gradient is a series in which the Hessian's inverse is approximated (Bruch, 2021), as in
    LightGBM: a row's term of each order is its softmax times the sum of the terms before, over the
    other rows of the query, each divided by 1 minus its softmax.

    gain        (n,) float64: 2 ** grade; what ``uniform`` draws is subtracted
    keys, salt  (n,) uint64, and uint64: of ``uniform``
    """
    widest = 0
    for q in range(first, last):
        widest = max(widest, queries.ptr[q + 1] - queries.ptr[q])
    rho, slope, gains = np.empty(widest), np.empty(widest), np.empty(widest)
    part, others = np.empty(widest), np.empty(widest)
    for q in range(first, last):
        own = slice(queries.ptr[q], queries.ptr[q + 1])  # indices from 0 on are vectorized
        score, weight, key, target = scores[own], queries.weight[own], keys[own], gain[own]
        gradient, hessian, m = out[0, own], out[1, own], len(score)
        top = -np.inf
        for i in range(m):
            top = max(top, score[i])
        for i in range(m):
            rho[i] = math.exp(score[i] - top)
        for i in range(m):
            part[i] = weight[i] * rho[i]
            gains[i] = target[i] - uniform(key[i], salt)
        whole = exact_sum(part, m)
        for i in range(m):
            rho[i] /= whole
            others[i] = 1.0 - rho[i] if 1.0 - rho[i] > 1e-10 else 1e-10
            part[i] = weight[i] * gains[i]
        whole = max(exact_sum(part, m), 1e-10)
        for i in range(m):
            slope[i] = gains[i] / whole - rho[i]
            part[i] = weight[i] * slope[i] / others[i]
        for _ in range(2):
            total = exact_sum(part, m)
            for i in range(m):
                term = rho[i] * (total - part[i] / weight[i])
                slope[i] += term
                part[i] = weight[i] * term / others[i]
        for i in range(m):
            w = queries.query_weight[q] * weight[i]
            gradient[i] = w * slope[i]
            hessian[i] = w * rho[i] * (1.0 - rho[i])


@njit(cache=True, nogil=True, error_model="numpy")
def uniform(key, salt):
    """A number from 0 to 1, the same for a key and a salt: ``mix`` of both, of data.vocabulary."""
    bits = (key ^ salt) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((bits ^ (bits >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
