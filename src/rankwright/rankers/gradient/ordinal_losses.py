"""Losses of scores against the thresholds that suit them best, for ``newton.solve``.

A loss of scores s and thresholds t is minimized over t exactly, so that a function of s is left:
its slope is the partial one at the best t, its curvature the Schur complement of t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solveh_banded

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.rankers.gradient.newton import Terms, curvature_moments, diagonal

NEWTON_STEPS = 100  # for the thresholds of one vector of scores


class Grading(NamedTuple):
    """The grade of each row as a number 0 .. n_grades - 1, and its weight; the weights sum to 1."""

    code: IntArray
    weight: FloatArray

    @property
    def n_thresholds(self) -> int:
        return int(self.code.max(initial=0))


class _Cut(NamedTuple):
    """A threshold: the rows that must lie above (side 1) or below it (-1), and its own price."""

    rows: IntArray
    side: FloatArray
    weight: FloatArray
    price: float


@dataclass(eq=False)
class ThresholdPoint:
    """A ``LossPoint``: curvature of the rows, and the pools of entries that share a threshold."""

    X: Any
    value: float
    hinge: float
    slope: FloatArray  # (n_items,)
    entry_rows: IntArray
    entry_pool: IntArray
    entry_curvature: FloatArray

    @cached_property
    def gradient(self) -> FloatArray:
        return np.asarray(self.X.T @ self.slope)

    def product(self, vector: FloatArray) -> FloatArray:
        values, n = np.asarray(self.X @ vector), len(self.slope)
        moved = self.entry_curvature * values[self.entry_rows]
        mass = np.bincount(self.entry_pool, self.entry_curvature)
        mean = np.bincount(self.entry_pool, moved) / np.where(mass > 0, mass, 1.0)
        moved = moved - self.entry_curvature * mean[self.entry_pool]
        return np.asarray(self.X.T @ np.bincount(self.entry_rows, moved, n))

    def diagonal(self) -> FloatArray:
        curvature = np.bincount(self.entry_rows, self.entry_curvature, len(self.slope))
        return diagonal(curvature_moments(self.X, np.asarray(curvature, dtype=np.float64)))


class MarginLosses:
    """Hinge losses of neighboring grades at the threshold between them, or at its two edges.

    With fixed margins a row of the grade below threshold t costs max(0, 1 - (t - s)), one of the
    grade above it max(0, 1 - (s - t)). With the sum of margins there are two edges a <= b for each
    threshold, which cost a - b, rows of the grade below cost max(0, s - a) and of that above
    max(0, b - s). Losses are means over each grade, times C; thresholds or edges must ascend.
    """

    weight = 1.0
    C = 1.0  # set before use

    def __init__(self, X: Matrix, grading: Grading, *, fixed: bool) -> None:
        self.X, self.n_features = X, X.shape[1]
        self.shift = 0.0 if fixed else 1.0  # of the margin: no distance from an edge is needed
        mass = np.bincount(grading.code, grading.weight)
        share = grading.weight / mass[grading.code]
        rows = [np.flatnonzero(grading.code == r) for r in range(grading.n_thresholds + 1)]

        def cut(below: IntArray, above: IntArray, price: float) -> _Cut:
            both = np.concatenate([below, above])
            side = np.repeat([-1.0, 1.0], [len(below), len(above)])
            return _Cut(both, side, share[both], price)

        none = np.zeros(0, np.int64)
        self.cuts: list[_Cut] = []
        for below, above in pairwise(rows):
            edges = [(below, above, 0.0)] if fixed else [(below, none, 1.0), (none, above, -1.0)]
            self.cuts += [cut(*edge) for edge in edges]

    def scores(self, coef: FloatArray) -> FloatArray:
        return np.asarray(self.X @ coef)

    def at(self, scores: FloatArray, terms: Terms) -> ThresholdPoint:
        pools = self._pools(scores, terms)
        all_of = [_joined(self.cuts[first:stop]) for first, stop, _ in pools]
        entries, sizes = _joined(all_of), [len(cut.rows) for cut in all_of]
        threshold = np.repeat([pool[2] for pool in pools], sizes)
        distance = entries.side * (scores[entries.rows] - threshold) + self.shift
        price = float(sum(cut.price * pool[2] for cut, pool in zip(all_of, pools, strict=True)))
        value, slope, curvature = price, np.zeros(len(threshold)), np.zeros(len(threshold))
        for factor, margin in terms:
            room = np.maximum(margin - distance, 0.0)
            value += factor * float(entries.weight @ (room * room))
            slope -= 2.0 * factor * entries.weight * entries.side * room
            curvature += 2.0 * factor * entries.weight * (room > 0.0)
        hinge = float(entries.weight @ np.maximum(1.0 - distance, 0.0)) + price / self.C
        by_row = np.bincount(entries.rows, slope, len(scores)).astype(np.float64)
        pool_of = np.repeat(np.arange(len(pools)), sizes)
        return ThresholdPoint(self.X, value, hinge, by_row, entries.rows, pool_of, curvature)

    def slope(self, scores: FloatArray, steps: FloatArray, terms: Terms) -> float:
        return float(self.at(scores, terms).slope @ steps)

    def thresholds(self, scores: FloatArray, width: float) -> FloatArray:
        """The best thresholds, or pairs of edges, for the hinge smoothed over the width."""
        terms = [(0.5 * self.C / width, 1.0), (-0.5 * self.C / width, 1.0 - width)]
        pools = self._pools(scores, terms)
        return np.repeat([t for _, _, t in pools], [stop - first for first, stop, _ in pools])

    def _pools(self, scores: FloatArray, terms: Terms) -> list[tuple[int, int, float]]:
        """(first, stop, value) of cuts with the same best value; values ascend (pool adjacent)."""
        pools: list[tuple[int, int, float]] = []
        for number in range(len(self.cuts)):
            first, best = number, self._best(scores, terms, number, number + 1)
            while pools and pools[-1][2] > best:
                first = pools.pop()[0]
                best = self._best(scores, terms, first, number + 1)
            pools.append((first, number + 1, best))
        return pools

    def _best(self, scores: FloatArray, terms: Terms, first: int, stop: int) -> float:
        """Where the slope of the loss along a common value of these cuts is 0.

        The slope is piecewise linear and ascends; where it is 0 on an interval, the middle.
        """
        cut = _joined(self.cuts[first:stop])
        own = scores[cut.rows]
        center = float(own @ cut.weight / cut.weight.sum())
        # A term of a row bends the slope where its margin ends; rows that belong below the cut
        # (side -1) have theirs to the left of that.
        ends = np.concatenate([own - center - cut.side * (m - self.shift) for _, m in terms])
        bend = np.concatenate([2.0 * factor * cut.side * cut.weight for factor, _ in terms])
        to_left = np.tile(cut.side < 0, len(terms))
        order = np.argsort(ends, kind="stable")
        ends, bend, to_left = ends[order], bend[order], to_left[order]
        slope = cut.price - bend[to_left].sum() * ends + bend[to_left] @ ends[to_left]
        slope += np.cumsum(bend) * ends - np.cumsum(bend * ends)
        noise = 1e-14 * float(np.abs(bend) @ np.abs(ends))
        rising = np.flatnonzero(slope > noise)
        falling = np.flatnonzero(slope < -noise)
        high = int(rising[0]) if len(rising) else len(slope) - 1
        low = int(falling[falling < high][-1]) if (falling < high).any() else 0
        if high - low > 1:  # the slope is 0 at the ends between
            return center + 0.5 * float(ends[low + 1] + ends[high - 1])
        step = slope[high] - slope[low]
        share = -slope[low] / step if step > 0 else 0.5
        return center + float(ends[low] + share * (ends[high] - ends[low]))


def _joined(cuts: Sequence[_Cut]) -> _Cut:
    if len(cuts) == 1:
        return cuts[0]
    if not cuts:
        return _Cut(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), 0.0)
    rows, side, weight, price = zip(*cuts, strict=True)
    return _Cut(np.concatenate(rows), np.concatenate(side), np.concatenate(weight), sum(price))


class OddsLosses:
    """Mean negative log-likelihood of proportional odds: P(grade <= r) = sigmoid(t_r - s).

    With u = t_y - s and v = t_{y-1} - s a row costs -log(sigmoid(u) - sigmoid(v)), computed as
    softplus(-u) + softplus(v) - log(1 - exp(v - u)).
    """

    weight = 1.0

    def __init__(self, X: Matrix, grading: Grading) -> None:
        self.X, self.n_features = X, X.shape[1]
        self.code, self.mass = grading.code, grading.weight
        below = np.cumsum(np.bincount(grading.code, grading.weight))[:-1]
        self._start = np.log(below / (1.0 - below))  # the best for scores of 0

    def scores(self, coef: FloatArray) -> FloatArray:
        return np.asarray(self.X @ coef)

    def at(self, scores: FloatArray, terms: Terms) -> OddsPoint:
        factor = terms[0][0]
        thresholds = self.thresholds(scores)
        odds = self._odds(scores, thresholds)
        slope = factor * self.mass * (odds.above - odds.below)
        return OddsPoint(self.X, factor * odds.value, odds.value, slope, self, odds, factor)

    def slope(self, scores: FloatArray, steps: FloatArray, terms: Terms) -> float:
        return float(self.at(scores, terms).slope @ steps)

    def thresholds(self, scores: FloatArray) -> FloatArray:
        """The most likely thresholds, by Newton steps that keep them ascending."""
        t = self._start + float(scores @ self.mass)
        if not len(t):
            return t
        odds = self._odds(scores, t)
        for _ in range(NEWTON_STEPS):
            slope, bands = self._threshold_slope(odds), self._threshold_curvature(odds)
            step, size = _solve_bands(bands, slope), 1.0
            decrease = float(slope @ step)
            if decrease <= 1e-15 * (1.0 + abs(odds.value)):
                break
            while size > 1e-10:
                moved = t - size * step
                if (np.diff(moved) > 0).all():
                    after = self._odds(scores, moved)
                    if after.value <= odds.value - 1e-4 * size * decrease:
                        break
                size *= 0.5
            else:
                break
            t, odds = moved, after
        return t

    def _odds(self, scores: FloatArray, thresholds: FloatArray) -> _Odds:
        edges = np.concatenate([[-np.inf], thresholds, [np.inf]])
        u, v = edges[self.code + 1] - scores, edges[self.code] - scores
        gap = np.diff(edges)[self.code]
        between = np.where(np.isinf(gap), 0.0, 1.0 / np.expm1(np.minimum(gap, 700.0)))
        loss = np.logaddexp(0.0, -u) + np.logaddexp(0.0, v) - np.log(-np.expm1(-gap))
        above, below = sigmoid(-u), sigmoid(v)
        return _Odds(float(self.mass @ loss), above, below, between * (1.0 + between), between)

    def _threshold_slope(self, odds: _Odds) -> FloatArray:
        n = len(self._start)
        upper = np.bincount(self.code, self.mass * -(odds.above + odds.between), n + 1)[:n]
        lower = np.bincount(self.code, self.mass * (odds.below + odds.between), n + 1)[1:]
        return np.asarray(upper + lower)

    def _threshold_curvature(self, odds: _Odds) -> FloatArray:
        """The tridiagonal second derivative by the thresholds, as ``solveh_banded`` takes it."""
        n = len(self._start)
        inner = self.mass * odds.inner
        upper = np.bincount(self.code, self.mass * odds.above_bend + inner, n + 1)[:n]
        lower = np.bincount(self.code, self.mass * odds.below_bend + inner, n + 1)[1:]
        beside = np.bincount(self.code, inner, n + 1)[1:n]
        return np.stack([np.append(0.0, -beside), upper + lower])


def _solve_bands(bands: FloatArray, right: FloatArray) -> FloatArray:
    """The solution of a tridiagonal system, which may be singular far away from all scores."""
    main = bands[1] + 1e-12 * bands[1].max() + 1e-200
    if len(right) == 1:  # SciPy wants two
        return np.asarray(right / main)
    return np.asarray(solveh_banded(np.stack([bands[0], main]), right))


class _Odds(NamedTuple):
    """The model at given scores and thresholds; arrays have one value for each row."""

    value: float
    above: FloatArray  # sigmoid(-u): the probability of a higher grade
    below: FloatArray  # sigmoid(v): of a lower one
    inner: FloatArray  # second derivative of -log(1 - exp(v - u)) by u or v
    between: FloatArray  # 1 / (exp(u - v) - 1)

    @property
    def above_bend(self) -> FloatArray:
        return np.asarray(self.above * (1.0 - self.above))

    @property
    def below_bend(self) -> FloatArray:
        return np.asarray(self.below * (1.0 - self.below))


@dataclass(eq=False)
class OddsPoint:
    """A ``LossPoint`` of the proportional odds model."""

    X: Any
    value: float
    hinge: float
    slope: FloatArray
    losses: OddsLosses
    odds: _Odds
    factor: float

    @cached_property
    def gradient(self) -> FloatArray:
        return np.asarray(self.X.T @ self.slope)

    def product(self, vector: FloatArray) -> FloatArray:
        values, losses, odds = np.asarray(self.X @ vector), self.losses, self.odds
        upper, lower = losses.mass * odds.above_bend, losses.mass * odds.below_bend
        result, n = (upper + lower) * values, len(losses._start)
        if n:
            mixed: FloatArray = (
                np.bincount(losses.code, upper * values, n + 1)[:n]
                + np.bincount(losses.code, lower * values, n + 1)[1:]
            ).astype(np.float64)
            moved = _solve_bands(losses._threshold_curvature(odds), mixed)
            padded = np.concatenate([[0.0], moved, [0.0]])
            result -= upper * padded[losses.code + 1] + lower * padded[losses.code]
        return np.asarray(self.X.T @ (self.factor * result))

    def diagonal(self) -> FloatArray:
        curvature = self.factor * self.losses.mass * (self.odds.above_bend + self.odds.below_bend)
        return diagonal(curvature_moments(self.X, curvature))


def sigmoid(values: FloatArray) -> FloatArray:
    """1 / (1 + exp(-values)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))
