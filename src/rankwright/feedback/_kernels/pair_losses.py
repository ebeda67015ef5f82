"""Sums of smooth losses over all pairs of graded rows, one query after the other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from rankwright._typing import FloatArray, IntArray


class GradedQueries(NamedTuple):
    """Graded rows, query by query."""

    ptr: IntArray  # (n_queries + 1,) where the rows of each query start
    grade: FloatArray  # (n,)
    weight: FloatArray  # (n,) > 0
    query_weight: FloatArray  # (n_queries,)
    magnitude: bool  # whether a pair also weighs the difference of its grades


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
    """Write exp(score - middle) of each row; return whether it stays far from overflow."""
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
def pair_loss_sums(scores, queries, first, last, gain, code, slope):
    """Weighted loss over all pairs of queries first .. last - 1.

    scores   (n,) float64
    queries  GradedQueries
    gain     (n,) float64: pairs also weigh |delta NDCG|; empty: they do not
    slope    (n,) float64   increased by the derivative

    Returns the sum of weighted losses and the sum of weights.
    """
    value, mass = 0.0, 0.0
    by_ndcg = len(gain) > 0
    for q in range(first, last):
        start, stop = queries.ptr[q], queries.ptr[q + 1]
        s, y, w = scores[start:stop], queries.grade[start:stop], queries.weight[start:stop]
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
                share = queries.query_weight[q] * w[i] * w[j]
                if queries.magnitude:
                    share *= y[i] - y[j]
                if by_ndcg:
                    share *= (g[i] - g[j]) * abs(discount[i] - discount[j]) / ideal
                if moderate:
                    loss, bend = odds_loss(odds[i], odds[j], code)
                else:
                    loss, bend = pair_loss(s[i] - s[j], code)
                value += share * loss
                mass += share
                slope[start + i] += share * bend
                slope[start + j] -= share * bend
    return value, mass


@njit(cache=True, nogil=True)
def pair_slope_split(scores, h, queries, first, last, code):
    """Sums of weighted |slope| over pairs of queries first .. last - 1 that h (uint8) orders.

    Returns the sum over pairs with h(upper) > h(lower), and over those with h(upper) < h(lower).
    """
    right, wrong = 0.0, 0.0
    grade, weight = queries.grade, queries.weight
    for q in range(first, last):
        start, stop = queries.ptr[q], queries.ptr[q + 1]
        odds = np.empty(stop - start)
        moderate = exp_scores(scores[start:stop], odds)
        for i in range(start, stop):
            for j in range(start, stop):
                if h[i] == h[j] or grade[i] <= grade[j]:
                    continue
                share = queries.query_weight[q] * weight[i] * weight[j]
                if queries.magnitude:
                    share *= grade[i] - grade[j]
                if moderate:
                    _, bend = odds_loss(odds[i - start], odds[j - start], code)
                else:
                    _, bend = pair_loss(scores[i] - scores[j], code)
                if h[i]:
                    right -= share * bend
                else:
                    wrong -= share * bend
    return right, wrong
