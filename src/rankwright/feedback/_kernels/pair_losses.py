"""Sums of smooth losses over all pairs of graded rows, one query after the other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit


class GradedQueries(NamedTuple):
    """Rows grouped by query."""

    ptr: Any  # (n_queries + 1,) int64, where each query starts
    grade: Any  # (n,) float64
    weight: Any  # (n,) float64, > 0
    query_weight: Any  # (n_queries,) float64


@njit(cache=True, nogil=True)
def pair_loss(difference, code):
    """Loss and slope of one pair; code 0 is cross entropy, 1 is fidelity."""
    small = math.exp(-abs(difference))
    chance = 1.0 / (1.0 + small) if difference >= 0 else small / (1.0 + small)
    wrong = small / (1.0 + small) if difference >= 0 else 1.0 / (1.0 + small)
    if code == 0:
        return max(-difference, 0.0) + math.log1p(small), -wrong
    root = math.sqrt(chance)
    return 1.0 - root, -0.5 * root * wrong


@njit(cache=True, nogil=True)
def odds_loss(upper, lower, code):
    """The same from exp(score) of the two rows: no exponential for each pair."""
    share = 1.0 / (upper + lower)
    if code == 0:
        return -math.log(upper * share), -lower * share
    root = math.sqrt(upper * share)
    return 1.0 - root, -0.5 * root * lower * share


@njit(cache=True, nogil=True)
def exp_scores(scores, odds):
    """Write exp(score - middle) of each row; return whether that is far from overflow."""
    low, high = np.min(scores), np.max(scores)
    if high - low > 600.0:
        return False
    for i in range(len(scores)):
        odds[i] = math.exp(scores[i] - 0.5 * (low + high))
    return True


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


@njit(cache=True, nogil=True)
def pair_loss_sums(queries, first, last, scores, gain, code, magnitude, slope):
    """The sums of weighted losses and of weights over all pairs of queries first .. last - 1.

    queries    GradedQueries of n rows
    gain       (n,) float64: a pair is also weighted by |delta NDCG|; empty: it is not
    code       which loss, as in ``pair_loss``
    magnitude  whether a pair is also weighted by its difference of grades
    slope      (n,) float64   increased by the derivative
    """
    ptr, grade, weight, query_weight = queries
    value, mass = 0.0, 0.0
    for q in range(first, last):
        start, stop = ptr[q], ptr[q + 1]
        s, y, w = scores[start:stop], grade[start:stop], weight[start:stop]
        by_ndcg = len(gain) > 0
        discount = np.zeros(stop - start)
        ideal = 1.0
        g = gain[start:stop] if by_ndcg else discount
        if by_ndcg:
            position_discounts(np.argsort(-g, kind="mergesort"), w, discount)
            ideal = np.sum(g * discount * w)
            position_discounts(np.argsort(-s, kind="mergesort"), w, discount)
        odds = np.empty(stop - start)
        moderate = exp_scores(s, odds)
        for i in range(stop - start):
            for j in range(stop - start):
                if y[i] <= y[j]:
                    continue
                pair_weight = query_weight[q] * w[i] * w[j]
                if magnitude:
                    pair_weight *= y[i] - y[j]
                if by_ndcg:
                    pair_weight *= (g[i] - g[j]) * abs(discount[i] - discount[j]) / ideal
                if moderate:
                    loss, derivative = odds_loss(odds[i], odds[j], code)
                else:
                    loss, derivative = pair_loss(s[i] - s[j], code)
                value += pair_weight * loss
                mass += pair_weight
                slope[start + i] += pair_weight * derivative
                slope[start + j] -= pair_weight * derivative
    return value, mass


@njit(cache=True, nogil=True)
def pair_slope_split(queries, first, last, scores, h, code, magnitude):
    """Sums of weighted |slope| over pairs with h(upper) > h(lower), and h(upper) < h(lower).

    h  (n,) uint8, a weak ranking; the rest as in pair_loss_sums
    """
    ptr, grade, weight, query_weight = queries
    right, wrong = 0.0, 0.0
    for q in range(first, last):
        start, stop = ptr[q], ptr[q + 1]
        odds = np.empty(stop - start)
        moderate = exp_scores(scores[start:stop], odds)
        for i in range(start, stop):
            for j in range(start, stop):
                if h[i] == h[j] or grade[i] <= grade[j]:
                    continue
                pair_weight = query_weight[q] * weight[i] * weight[j]
                if magnitude:
                    pair_weight *= grade[i] - grade[j]
                if moderate:
                    _, derivative = odds_loss(odds[i - start], odds[j - start], code)
                else:
                    _, derivative = pair_loss(scores[i] - scores[j], code)
                if h[i]:
                    right -= pair_weight * derivative
                else:
                    wrong -= pair_weight * derivative
    return right, wrong
