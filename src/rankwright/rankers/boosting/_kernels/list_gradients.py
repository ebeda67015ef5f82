"""Gradients and Hessians of listwise losses, in time that grows with the rows, not the pairs.

queries  GradedQueries: ptr, grade, weight, query_weight
out      (2, n) float64: minus the gradient, and the Hessian   written

Sums over a query are sums of integers, so the order of its rows changes no bit.
"""

from __future__ import annotations

import math

import numpy as np

from rankwright.runtime.kernels import njit


@njit(cache=True, nogil=True, error_model="numpy")
def exact_sum(values, n):
    """The sum of the first n values, the same in any order: of integers in units of the largest."""
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(values[i]))
    if largest < 1e-290:
        return 0.0
    # |value| * scale <= 2**61 / n
    scale = 2.0 ** (61.0 - math.ceil(math.log2(largest)) - math.ceil(math.log2(n)))
    total = 0
    for i in range(n):
        total += np.int64(np.rint(values[i] * scale))
    return total / scale


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
def xendcg_gradients(scores, queries, gain, first, last, out):
    """Cross entropy between softmax of the scores and gains, with its three orders of terms.

    The gradient is a series in which the Hessian's inverse is approximated (Bruch, 2021), as in
    LightGBM: a row's term of each order is its softmax times the sum of the terms before, over the
    other rows of the query, each divided by 1 minus its softmax.

    gain  (n,) float64: 2 ** grade - u, u uniform in 0 .. 1
    """
    widest = 0
    for q in range(first, last):
        widest = max(widest, queries.ptr[q + 1] - queries.ptr[q])
    rho, part, slope = np.empty(widest), np.empty(widest), np.empty(widest)
    for q in range(first, last):
        start, stop = queries.ptr[q], queries.ptr[q + 1]
        m, weight = stop - start, queries.weight[start:stop]
        top = -np.inf
        for i in range(m):
            top = max(top, scores[start + i])
        for i in range(m):
            rho[i] = math.exp(scores[start + i] - top)
            part[i] = weight[i] * rho[i]
        whole = exact_sum(part, m)
        for i in range(m):
            rho[i] /= whole
            part[i] = weight[i] * gain[start + i]
        gains = max(exact_sum(part, m), 1e-10)
        for i in range(m):
            slope[i] = gain[start + i] / gains - rho[i]
            part[i] = weight[i] * slope[i] / max(1.0 - rho[i], 1e-10)
        for _ in range(2):
            total = exact_sum(part, m)
            for i in range(m):
                term = rho[i] * (total - part[i] / weight[i])
                slope[i] += term
                part[i] = weight[i] * term / max(1.0 - rho[i], 1e-10)
        for i in range(m):
            w = queries.query_weight[q] * weight[i]
            out[0, start + i] = w * slope[i]
            out[1, start + i] = w * rho[i] * (1.0 - rho[i])
