"""Sums over all pairs of a query in O(m log m), and errors of pairs that are left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.runtime.kernels import njit

# Up to so many terms are added one by one: a difference of two prefix sums would lose the digits
# that a short range needs.
SHORT = 32


class Copies(NamedTuple):
    """Rows grouped by query. A row of weight k is k copies, of which one is left out."""

    codes: NDArray[np.int64]  # (n_rows,) query of each row, ascending
    ptr: NDArray[np.int64]  # (n_queries + 1,)
    weight: NDArray[np.float64]  # (n_rows,) number of copies
    row_root: NDArray[np.float64]  # (n_rows,) root of the share that one copy has in its row
    query_share: NDArray[np.float64]  # (n_queries,) share that one copy has in its query
    root: NDArray[np.float64]  # (n_rows,) root of the mass of one copy
    unit: NDArray[np.float64]  # (n_rows,) unit vector of each query, see Sample.unit


class Zones(NamedTuple):
    """Where the excess t = |r_i - r_j| - epsilon of sorted residuals is 0, small or large.

    In the query of row i: t > mu before near[i] and from far[i] on; 0 < t <= mu from near[i] to
    low[i] and from high[i] to far[i]; t <= 0 between low[i] and high[i].
    """

    near: NDArray[np.int64]  # (n_rows,) each
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    far: NDArray[np.int64]


@njit(cache=True, nogil=True)
def left_out_pairs(block, first_row, first_column, rows, diagonal, error, sums):
    """Cost of each pair of a block of rows, had the model been trained without the pair.

    block     (n, .) float64: R + unit unit' at row first_row + a, column first_column + b; only
              columns before the row are read
    rows      Copies
    diagonal  (n_rows,) float64, of R among single copies
    error     (n_rows,) float64, of single copies
    sums      (n_queries,) float64, costs over pairs j < i, weighted by the numbers of copies
              changed in place
    """
    row_root, root, unit = rows.row_root, rows.root, rows.unit
    for a in range(block.shape[0]):
        i = first_row + a
        q = rows.codes[i]
        start = rows.ptr[q]
        two = rows.ptr[q + 1] - start == 2
        total = 0.0
        for j in range(start, i):
            r = rows.query_share[q] * block[a, j - first_column] - unit[i] * unit[j]
            r = row_root[i] * row_root[j] * r
            if two and row_root[i] == 1.0 and row_root[j] == 1.0:
                # Nothing of the query is left and R is singular along the roots: its
                # pseudo-inverse gives the difference.
                u, v = root[i], root[j]
                form = v * v * diagonal[i] - 2.0 * u * v * r + u * u * diagonal[j]
                gap = (v * error[i] - u * error[j]) / form * (u * u + v * v) / (u * v)
            else:
                det = diagonal[i] * diagonal[j] - r * r
                left = (diagonal[j] * error[i] - r * error[j]) / root[i]
                right = (diagonal[i] * error[j] - r * error[i]) / root[j]
                gap = (left - right) / det
            total += rows.weight[i] * rows.weight[j] * gap * gap
        sums[q] += total


@njit(cache=True, nogil=True)
def left_out_pairs_approximately(inverse, codes, ptr, diagonal, shift, residual, offset, sums):
    """The paper's approximation of the same costs (after eq 26), for rows of equal mass.

    inverse    (n_rows, n_rows) float64: (I + Kbar)^-1; only columns before the row are read
    codes      (n_rows,) int64, query of each row, ascending
    ptr        (n_queries + 1,) int64
    diagonal   (n_rows,) float64, of (I + Kbar)^-1
    shift      (n_rows,) float64, the mean of each column of U over the rows of its query
    residual   (n_rows,) float64, h(x) - y
    offset     (n_queries,) float64, mean of h minus mean of y
    sums       (n_queries,) float64                                           changed in place
    """
    for i in range(len(codes)):
        q = codes[i]
        m = ptr[q + 1] - ptr[q]
        total = 0.0
        for j in range(ptr[q], i):
            entry = inverse[i, j]
            if m == 2:  # no row is left to average over: the exact form
                form = diagonal[i] - 2.0 * entry + diagonal[j]
                gap = 2.0 * (residual[i] - residual[j]) / form
                total += gap * gap
                continue
            uii, ujj = 1.0 - diagonal[i] + shift[i], 1.0 - diagonal[j] + shift[j]
            uij, uji = -entry + shift[j], -entry + shift[i]
            vii = ((m - 1) * uii + uij) / (m - 2)
            vjj = ((m - 1) * ujj + uji) / (m - 2)
            vij = ((m - 1) * uij + uii) / (m - 2)
            vji = ((m - 1) * uji + ujj) / (m - 2)
            left, right = vii + vij, vji + vjj
            top = (1.0 - left) * residual[j] - (1.0 - right) * residual[i]
            top -= ((1.0 - left) * right - (1.0 - right) * left) * offset[q]
            gap = top / ((1.0 - vjj) * (1.0 - vii) - vij * vji)
            total += gap * gap
        sums[q] += total


@njit(cache=True, nogil=True)
def sweep(table, square, target, ridge, rate, is_gram, alpha, product):
    """One round of section 2.5: every dual coefficient once.

    table    (n_rows, n_columns) float64: the centered Gram matrix K, or the centered rows
    square   (n_rows,) float64, K_ii
    target   (n_rows,) float64, centered grades
    ridge    m / (2 C)
    rate     the constant eta of the paper, or 0: the best step, 1 / (2 K_ii + m / C)
    alpha    (n_rows,) float64                      changed in place
    product  (n_columns,) float64, table' alpha     changed in place

    Returns the growth of the dual objective (eq 16).
    """
    n, d = table.shape
    growth = 0.0
    for i in range(n):
        score = 0.0
        if is_gram:
            score = product[i]
        else:
            for k in range(d):
                score += table[i, k] * product[k]
        slope, bend = target[i] - score - ridge * alpha[i], square[i] + ridge
        if rate == 0.0:
            step = slope / bend
            growth += step * step * bend
        else:
            step = 2.0 * rate * slope
            growth += step * (2.0 * slope - step * bend)
        if step != 0.0:
            alpha[i] += step
            for k in range(d):
                product[k] += step * table[i, k]
    return growth


@njit(cache=True, nogil=True)
def rows_beyond(residual, ptr, theta, low, high):
    """Which residuals of a query are more than theta below or above each one.

    residual   (n_rows,) float64, ascending within each query
    low, high  (n_rows,) int64: rows ptr[q] .. low - 1 and high .. ptr[q + 1] - 1   changed in place
    """
    for q in range(len(ptr) - 1):
        below = above = ptr[q]
        for i in range(ptr[q], ptr[q + 1]):
            while below < i and residual[i] - residual[below] > theta:
                below += 1
            above = max(above, i)
            while above < ptr[q + 1] and residual[above] - residual[i] <= theta:
                above += 1
            low[i] = below
            high[i] = above


@njit(cache=True, nogil=True)
def squared_excess(residual, weight, ptr, theta, low, high, slope):
    """Sums over ordered pairs of w_i w_j (|r_i - r_j| - theta), and of its square, where positive.

    residual  (n_rows,) float64, ascending within each query; most accurate near 0
    weight    (n_rows,) float64
    low, high (n_rows,) int64, from rows_beyond at theta
    slope     (n_rows,) float64, gradient of the sum of squares   changed in place

    Returns the sum of the first powers and the sum of the squares. The gradient is linear in the
    residuals for given low and high: with a vector instead, and theta = 0, slope is the product of
    the Hessian and that vector.
    """
    first = second = 0.0
    for q in range(len(ptr) - 1):
        count = moment = 0.0
        j = ptr[q]
        for i in range(ptr[q], ptr[q + 1]):
            while j < low[i]:
                count += weight[j]
                moment += weight[j] * residual[j]
                j += 1
            slope[i] = count * (residual[i] - theta) - moment
            first += 2.0 * weight[i] * slope[i]
        count = moment = 0.0
        j = ptr[q + 1] - 1
        for i in range(ptr[q + 1] - 1, ptr[q] - 1, -1):
            while j >= high[i]:
                count += weight[j]
                moment += weight[j] * residual[j]
                j -= 1
            slope[i] -= moment - count * (residual[i] + theta)
            slope[i] *= 4.0 * weight[i]
            second += 0.5 * slope[i] * residual[i]
    return first, second - theta * first


@njit(cache=True, nogil=True)
def smoothed_excess(residual, weight, ptr, epsilon, mu, zones, slope):
    """Sums over ordered pairs of w_i w_j times the smoothed excess t = |r_i - r_j| - epsilon.

    residual  (n_rows,) float64, ascending within each query; most accurate near 0
    weight    (n_rows,) float64
    zones     Zones at epsilon and mu
    slope     (n_rows,) float64, gradient of the sum of t^2 / (2 mu) or t - mu / 2
              changed in place

    Returns the sum of t, and the sum of t (1 - t / mu) where 0 < t < mu.
    """
    n = len(residual)
    count = np.zeros(n + 1)  # prefix sums of w, w r and w r^2
    first = np.zeros(n + 1)
    second = np.zeros(n + 1)
    for i in range(n):
        count[i + 1] = count[i] + weight[i]
        first[i + 1] = first[i] + weight[i] * residual[i]
        second[i + 1] = second[i] + weight[i] * residual[i] * residual[i]
    plain = slack = 0.0
    for q in range(len(ptr) - 1):
        start, stop = ptr[q], ptr[q + 1]
        for i in range(start, stop):
            # Rows below i: far ones pull with full weight, those in the zone with t / mu.
            near, low = zones.near[i], zones.low[i]
            top = residual[i] - epsilon
            zone = squares = 0.0
            if low - near <= SHORT:
                for j in range(near, low):
                    t = residual[i] - residual[j] - epsilon
                    zone += weight[j] * t
                    squares += weight[j] * t * t
            else:
                c = count[low] - count[near]
                f = first[low] - first[near]
                zone = top * c - f
                squares = top * top * c - 2.0 * top * f + second[low] - second[near]
            c = count[near] - count[start]
            plain += weight[i] * (top * c - (first[near] - first[start]) + zone)
            slack += weight[i] * max(zone - squares / mu, 0.0)
            pull = c + zone / mu
            # Rows above i, the same.
            high, far = zones.high[i], zones.far[i]
            zone = 0.0
            if far - high <= SHORT:
                for j in range(high, far):
                    zone += weight[j] * (residual[j] - residual[i] - epsilon)
            else:
                zone = first[far] - first[high]
                zone -= (count[far] - count[high]) * (residual[i] + epsilon)
            pull -= count[stop] - count[far] + zone / mu
            slope[i] = 2.0 * weight[i] * pull
    return 2.0 * plain, 2.0 * slack


@njit(cache=True, nogil=True)
def smoothed_hessian_product(vector, weight, mu, zones, result):
    """The Hessian of the smoothed sum times a vector, all in sorted order.

    result  (n_rows,) float64   changed in place
    """
    near, low, high, far = zones
    n = len(vector)
    count = np.zeros(n + 1)
    moment = np.zeros(n + 1)
    for i in range(n):
        count[i + 1] = count[i] + weight[i]
        moment[i + 1] = moment[i] + weight[i] * vector[i]
    for i in range(n):
        c = count[low[i]] - count[near[i]] + count[far[i]] - count[high[i]]
        s = moment[low[i]] - moment[near[i]] + moment[far[i]] - moment[high[i]]
        result[i] = 2.0 * weight[i] * (c * vector[i] - s) / mu
