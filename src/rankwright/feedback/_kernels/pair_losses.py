"""Sums of smooth losses over all pairs of graded rows, one query after the other.

A pair (upper u, lower l) costs ``loss(s_u - s_l)``: logistic, log(1 + exp(-d)), or fidelity,
1 - sqrt(P) with P = 1 / (1 + exp(-d)). Few rows are summed pair by pair. Many are cut in two by
grade, again and again: each half is replaced by charges on the nodes of cells of width 1, and the
other half reads the sums off its own nodes. The losses have no singularity within pi of the real
axis, so 12 Chebyshev nodes a cell give 13 digits. That takes O(m (log m + cells)) for m rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rankwright.feedback.losses import LOGISTIC
from rankwright.runtime.kernels import njit

NODES = 12
REACH = 80  # in cells: of pairs farther apart, a term is zero or the limit that it tends to
WIDE = 600.0  # a spread of scores whose exponentials may overflow


class GradedQueries(NamedTuple):
    """Rows grouped by query."""

    ptr: Any  # (n_queries + 1,) int64, where each query starts
    grade: Any  # (n,) float64
    weight: Any  # (n,) float64, > 0
    query_weight: Any  # (n_queries,) float64


class Rows(NamedTuple):
    """The rows of one query, sorted by grade."""

    score: Any  # (m,) float64
    grade: Any  # (m,) float64
    upper: Any  # (m,) float64, the weight as the upper row of a pair
    lower: Any  # (m,) float64, the weight as the lower row


class Nodes(NamedTuple):
    """Cells of width 1 over the scores, with NODES nodes each."""

    n_cells: Any
    cell: Any  # (m,) int64, of each row
    share: Any  # (m, NODES) of each row, what it gives to the nodes of its cell
    at: Any  # (NODES,) where in a cell the nodes are
    table: Any  # (n_terms, 2 REACH + 1, NODES, NODES) by the distance of two cells and two nodes


@njit(cache=True, nogil=True, error_model="numpy")
def smooth_terms(difference, loss):
    """Minus the slope, the curvature and the value of the loss of a pair."""
    small = math.exp(-abs(difference))
    wrong = (small if difference >= 0 else 1.0) / (1.0 + small)
    right = (1.0 if difference >= 0 else small) / (1.0 + small)
    if loss == LOGISTIC:
        return wrong, wrong * right, max(-difference, 0.0) + math.log1p(small)
    root = math.sqrt(right)
    slope = 0.5 * root * wrong
    return slope, slope * (0.25 + 0.75 * right * right), wrong / (1.0 + root)


@njit(cache=True, nogil=True, error_model="numpy")
def odds_terms(upper, lower, loss):
    """The same from exp(score) of the two rows: no exponential for each pair."""
    share = 1.0 / (upper + lower)
    wrong, right = lower * share, upper * share
    if loss == LOGISTIC:
        return wrong, wrong * right, -math.log(right)
    root = math.sqrt(right)
    slope = 0.5 * root * wrong
    return slope, slope * (0.25 + 0.75 * right * right), wrong / (1.0 + root)


@njit(cache=True, nogil=True, error_model="numpy")
def exp_scores(scores, odds):
    """Write exp(score - middle) of each row; return whether that is far from overflow."""
    low, high = np.min(scores), np.max(scores)
    if high - low > WIDE:
        return False
    for i in range(len(scores)):
        odds[i] = math.exp(scores[i] - 0.5 * (low + high))
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def add_pairs(rows, odds, loss, gaps, first, last, out):
    """Add the terms of the pairs among rows first .. last - 1 one by one (see ``smooth_sums``)."""
    n_terms, moderate, stop = len(out), len(odds) > 0, first
    for i in range(first, last):
        if rows.grade[i] > rows.grade[stop]:
            stop = i  # rows before it have lower grades
        pull, curvature, cost = 0.0, 0.0, 0.0
        for j in range(first, stop):
            w = rows.upper[i] * rows.lower[j]
            if w == 0.0:
                continue
            if gaps:
                w *= rows.grade[i] - rows.grade[j]
            if moderate:
                slope, curve, value = odds_terms(odds[i], odds[j], loss)
            else:
                slope, curve, value = smooth_terms(rows.score[i] - rows.score[j], loss)
            pull += w * slope
            out[0, j] -= w * slope
            if n_terms > 1:
                curvature += w * curve
                out[1, j] += w * curve
            if n_terms > 2:
                cost += w * value
        out[0, i] += pull
        if n_terms > 1:
            out[1, i] += curvature
        if n_terms > 2:
            out[2, i] += cost


@njit(cache=True, nogil=True, error_model="numpy")
def lay_nodes(score, n_cells, loss, n_terms):
    """The nodes of a query: each row's shares are the Lagrange polynomials of its cell's nodes."""
    m, low = len(score), score.min()
    at, scale = np.empty(NODES), np.ones(NODES)
    for a in range(NODES):
        at[a] = 0.5 - 0.5 * math.cos((2 * a + 1) * math.pi / (2 * NODES))
    for a in range(NODES):
        for b in range(NODES):
            if b != a:
                scale[a] /= at[a] - at[b]
    cell, share = np.empty(m, np.int64), np.empty((m, NODES))
    for i in range(m):
        cell[i] = int(score[i] - low)
        x = score[i] - low - cell[i]
        for a in range(NODES):
            product = scale[a]
            for b in range(NODES):
                if b != a:
                    product *= x - at[b]
            share[i, a] = product
    reach = min(REACH, n_cells - 1)
    table = np.zeros((n_terms, 2 * REACH + 1, NODES, NODES))
    for apart in range(-reach, reach + 1):
        for a in range(NODES):
            for b in range(NODES):
                terms = smooth_terms(apart + at[a] - at[b], loss)
                for term in range(n_terms):
                    table[term, apart + REACH, a, b] = terms[term]
    return Nodes(n_cells, cell, share, at, table)


@njit(cache=True, nogil=True, error_model="numpy")
def read_charges(nodes, charge, loss, read):
    """Write at each node the sum of terms with it as the upper row and ``charge`` as lower ones.

    charge  (n_cells, NODES)
    read    (n_terms, n_cells, NODES)   written
    """
    n_cells, n_terms = nodes.n_cells, len(read)
    far, moment = 0.0, 0.0  # of charges more than REACH cells above
    read[:] = 0.0
    for c in range(n_cells - 1, -1, -1):
        beyond = c + REACH + 1
        if beyond < n_cells:
            for b in range(NODES):
                far += charge[beyond, b]
                moment += charge[beyond, b] * (beyond + nodes.at[b])
        for term in range(n_terms):
            for e in range(max(0, c - REACH), min(n_cells, beyond)):
                block = nodes.table[term, c - e + REACH]
                for a in range(NODES):
                    total = 0.0
                    for b in range(NODES):
                        total += block[a, b] * charge[e, b]
                    read[term, c, a] += total
        for a in range(NODES):
            if loss == LOGISTIC:
                read[0, c, a] += far
            if n_terms > 2:
                score = c + nodes.at[a]
                read[2, c, a] += moment - score * far if loss == LOGISTIC else far


@njit(cache=True, nogil=True, error_model="numpy")
def add_halves(rows, nodes, loss, gaps, bounds, out):
    """Add the terms of the pairs between rows first .. middle - 1 and middle .. last - 1."""
    first, middle, last = bounds
    n_terms, n_cells = len(out), nodes.n_cells
    read = np.empty((n_terms, n_cells, NODES))
    for as_upper in (True, False):
        # For rows that are the lower ones the axis of the scores is turned around.
        charge = np.zeros((2, n_cells, NODES))
        charged, weight = (rows.lower, rows.upper) if as_upper else (rows.upper, rows.lower)
        sources, readers, sign = (first, middle), (middle, last), 1.0
        if not as_upper:
            sources, readers, sign = readers, sources, -1.0
        for i in range(sources[0], sources[1]):
            cell = nodes.cell[i] if as_upper else n_cells - 1 - nodes.cell[i]
            for k in range(NODES):
                part = charged[i] * nodes.share[i, k if as_upper else NODES - 1 - k]
                charge[0, cell, k] += part
                charge[1, cell, k] += part * rows.grade[i]
        for by_grade in range(2 if gaps else 1):
            read_charges(nodes, charge[by_grade], loss, read)
            for i in range(readers[0], readers[1]):
                w = weight[i]
                if gaps:
                    w *= -sign if by_grade else sign * rows.grade[i]
                cell = nodes.cell[i] if as_upper else n_cells - 1 - nodes.cell[i]
                for term in range(n_terms if as_upper else min(n_terms, 2)):
                    total = 0.0
                    for k in range(NODES):
                        own = nodes.share[i, k if as_upper else NODES - 1 - k]
                        total += own * read[term, cell, k]
                    out[term, i] += (sign if term == 0 else 1.0) * w * total


@njit(cache=True, nogil=True, error_model="numpy")
def smooth_sums(rows, loss, gaps, out):
    """Write the sums over the pairs of a query: ``upper_u lower_l gap loss(s_u - s_l)``.

    gaps  whether a pair is weighted by the difference of its grades
    out   (1 to 3, m) float64: minus the slope by the score of each row; the curvature, added to
          both rows of a pair; the loss, added to the upper row   written
    """
    m = len(rows.score)
    spread = rows.score.max() - rows.score.min()
    odds = np.empty(m if spread <= WIDE else 0)
    if len(odds):
        exp_scores(rows.score, odds)
    out[:] = 0.0
    cost = 250.0 * (spread + 1.0) * min(spread + 1.0, 2.0 * REACH)  # of nodes, in pairs
    if not float(m) * m > cost:
        add_pairs(rows, odds, loss, gaps, 0, m, out)
        return
    nodes = lay_nodes(rows.score, int(spread) + 1, loss, len(out))
    stack = [(0, m)]
    while len(stack) > 0:
        first, last = stack.pop()
        if rows.grade[first] == rows.grade[last - 1]:
            continue
        if float(last - first) ** 2 <= cost:
            add_pairs(rows, odds, loss, gaps, first, last, out)
            continue
        half = rows.grade[(first + last) // 2]  # the cut is at a change of grades near the middle
        before = first + np.searchsorted(rows.grade[first:last], half)
        after = first + np.searchsorted(rows.grade[first:last], half, side="right")
        middle = before if before - first >= last - after else after
        add_halves(rows, nodes, loss, gaps, (first, middle, last), out)
        stack.append((first, middle))
        stack.append((middle, last))


@njit(cache=True, nogil=True, error_model="numpy")
def sum_queries(queries, first, last, scores, lower, codes, out):
    """The sums of queries first .. last - 1, whose rows are sorted by grade (see ``smooth_sums``).

    lower  (n,) float64, weights as lower rows; queries.weight are those as upper rows
    codes  (loss, gaps)
    """
    for q in range(first, last):
        part = slice(queries.ptr[q], queries.ptr[q + 1])
        rows = Rows(scores[part], queries.grade[part], queries.weight[part], lower[part])
        smooth_sums(rows, codes[0], codes[1], out[:, part])
        for term in range(len(out)):  # loops: numba compiles 3 s of messages for out[:, part] *= w
            own = out[term, part]
            for k in range(len(own)):
                own[k] *= queries.query_weight[q]


@njit(cache=True, nogil=True)
def position_discounts(order, weight, discount):
    """The mean discount 1 / log2(position + 1) of the positions that each row takes in this order.

    A row of weight 2 takes two positions; a fraction of a position counts as that fraction.
    """
    position = 0.0
    for t in range(len(order)):
        i = order[t]
        stop = position + weight[i]
        total, p = 0.0, position
        while stop - p > 1e-12:
            whole = math.floor(p + 1e-12)
            part = min(stop, whole + 1.0) - p
            total += part / math.log2(whole + 2.0)
            p += part
        discount[i] = total / weight[i]
        position = stop


@njit(cache=True, nogil=True, error_model="numpy")
def ndcg_sums(queries, first, last, scores, gain, codes, slope):
    """The sums of weighted losses and of weights over all pairs of queries first .. last - 1.

    A pair is also weighted by |delta NDCG|, which depends on the order: pair by pair.

    queries  GradedQueries of n rows, sorted by grade
    gain     (n,) float64
    codes    (loss, whether a pair is also weighted by its difference of grades)
    slope    (n,) float64   increased by minus the slope
    """
    value, mass = 0.0, 0.0
    for q in range(first, last):
        part = slice(queries.ptr[q], queries.ptr[q + 1])
        s, y, w = scores[part], queries.grade[part], queries.weight[part]
        g, pull = gain[part], slope[part]
        discount, odds, m = np.zeros(len(s)), np.empty(len(s)), len(s)
        position_discounts(np.argsort(-g, kind="mergesort"), w, discount)
        ideal = np.sum(g * discount * w)
        position_discounts(np.argsort(-s, kind="mergesort"), w, discount)
        moderate = exp_scores(s, odds)
        for i in range(m):
            for j in range(i):
                if y[i] == y[j]:
                    break
                weight = queries.query_weight[q] * w[i] * w[j] / ideal
                weight *= (g[i] - g[j]) * abs(discount[i] - discount[j])
                if codes[1]:
                    weight *= y[i] - y[j]
                if moderate:
                    terms = odds_terms(odds[i], odds[j], codes[0])
                else:
                    terms = smooth_terms(s[i] - s[j], codes[0])
                value += weight * terms[2]
                mass += weight
                pull[i] += weight * terms[0]
                pull[j] -= weight * terms[0]
    return value, mass
