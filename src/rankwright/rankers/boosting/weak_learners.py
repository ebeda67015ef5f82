"""Weak learners: given the distribution over pairs, a weak ranking and its weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._typing import FloatArray
from rankwright.parallel import Team
from rankwright.rankers.boosting.binning import Column, Columns
from rankwright.rankers.boosting.pair_weights import PairDistribution
from rankwright.rankers.boosting.query_splitting import GroupedScan
from rankwright.rankers.boosting.splitting import (
    Asked,
    BinnedScan,
    Candidate,
    Directions,
    Scan,
    SortedScan,
)

Curve = Callable[[float], tuple[float, float, float]]


def from_edge(r: float, smoothing: float) -> float:
    """Method 3 (eq. 6), from r, the weight of right pairs minus that of wrong ones.

    >>> round(from_edge(0.5, 1e-12), 6), from_edge(1.0, 0.05) == from_edge(0.9, 0.05)
    (0.549306, True)
    """
    limit = 1.0 - 2.0 * smoothing
    r = min(max(r, -limit), limit)
    return 0.5 * math.log((1.0 + r) / (1.0 - r))


def from_split(right: float, wrong: float, smoothing: float) -> float:
    """Method 2 (eq. 2), for 0/1 rankings, from the weights of right and wrong pairs.

    >>> round(from_split(0.75, 0.25, 1e-12), 6)
    0.549306
    """
    return 0.5 * math.log((right + smoothing) / (wrong + smoothing))


def from_curve(curve: Curve, width: float, smoothing: float, tolerance: float = 1e-12) -> float:
    """Method 1, for any real-valued ranking h: the minimum of Z, found by Newton in a bracket.

    Z(a) is a sum of exponentials, hence convex: its derivative crosses zero once. The crossing is
    first enclosed by doubling (smoothing makes Z grow on either side, so that ends), then every
    step is Newton's if that stays inside and halves the bracket's derivative, else the bracket is
    halved. Each step shrinks the bracket or the derivative by two: convergence is certain.

    Parameters
    ----------
    curve : function of the weight a, giving Z and its first two derivatives
    width : float > 0
        The range of h over the rows: smoothing adds ``s (exp(a width) + exp(-a width))``.

    Examples
    --------
    >>> split = lambda a: (
    ...     0.75 * math.exp(-a) + 0.25 * math.exp(a),
    ...     -0.75 * math.exp(-a) + 0.25 * math.exp(a),
    ...     0.75 * math.exp(-a) + 0.25 * math.exp(a),
    ... )
    >>> round(from_curve(split, 1.0, 1e-12), 6)
    0.549306
    """

    def slopes(a: float) -> tuple[float, float]:
        _, first, second = curve(a)
        up, down = smoothing * math.exp(a * width), smoothing * math.exp(-a * width)
        return first + width * (up - down), second + width * width * (up + down)

    first, second = slopes(0.0)
    if first == 0.0 or second <= 0.0:
        return 0.0
    sign = -1.0 if first > 0 else 1.0
    near, far, at_far = 0.0, 1.0 / width, -first
    while True:
        at_far = slopes(sign * far)[0] * sign
        if at_far >= 0:
            break
        near, far = far, 2.0 * far
    return sign * _enclosed(lambda a: _turned(slopes(sign * a), sign), near, far, tolerance)


def _turned(slopes: tuple[float, float], sign: float) -> tuple[float, float]:
    return sign * slopes[0], slopes[1]


def _enclosed(
    slopes: Callable[[float], tuple[float, float]], low: float, high: float, tolerance: float
) -> float:
    """The zero of an increasing derivative, negative at low and not negative at high."""
    a, last = low, math.inf
    while high - low > tolerance * max(1.0, high):
        first, second = slopes(a)
        if first == 0.0:
            return a
        if first < 0:
            low = a
        else:
            high = a
        step = a - first / second if second > 0 else math.inf
        if not low < step < high or abs(first) > 0.5 * last:
            step = 0.5 * (low + high)
        if abs(step - a) <= tolerance * max(1.0, abs(a)):
            return step
        a, last = step, abs(first)
    return 0.5 * (low + high)


class ValueScan(Scan):
    """The gain of every feature taken as it is; rows that lack it get the default, 0 or 1.

    With ``newton`` the gain is 1 - Z at the weight that minimizes Z (method 1 for each feature),
    else it is r (method 3). A feature has one cut, number 0.
    """

    def __init__(self, columns: Columns, team: Team, newton: bool, smoothing: float) -> None:
        super().__init__(columns, team)
        self._newton, self._smoothing = newton, smoothing
        self._low, self._scale = np.zeros(self.n_features), np.zeros(self.n_features)
        self._rows: list[Any] = [None] * self.n_features
        self._h: list[FloatArray] = [np.zeros(0)] * self.n_features
        self._absent: list[Any] = [None] * self.n_features
        self._implied = np.zeros(self.n_features)
        self.alpha = np.zeros((2, self.n_features))
        self._each_feature(lambda feature: self._read(feature, columns.read(feature)))

    def _read(self, feature: int, column: Column) -> None:
        values = np.append(column.values, 0.0) if column.implied >= 0 else column.values
        low = float(values.min()) if len(values) else 0.0
        # Halves, because the range of two finite numbers may be infinite.
        half = float(values.max()) / 2 - low / 2 if len(values) else 0.0
        self._low[feature] = low
        self._scale[feature] = 0.5 / half if half > 0 else 0.0
        self._rows[feature], self._absent[feature] = column.rows, column.absent
        self._h[feature] = (column.values - low) * self._scale[feature]
        self._implied[feature] = -low * self._scale[feature] if column.implied >= 0 else np.nan
        self.abstains[feature] = column.abstains

    def scan(self, pairs: PairDistribution, asked: Asked) -> FloatArray:
        gains = self.gains

        def one(feature: int) -> None:
            for default in range(2 if self.abstains[feature] else 1):
                both = [default] if self.abstains[feature] else [0, 1]
                gain = self._gain(feature, default, pairs) if self._scale[feature] else 0.0
                gains.top[both, feature] = gains.bottom[both, feature] = gain
                gains.top_cut[both, feature] = gains.bottom_cut[both, feature] = 0

        self._each_feature(one)
        feature, _, default = asked
        return np.asarray(gains.top[default, feature])

    def _gain(self, feature: int, default: int, pairs: PairDistribution) -> float:
        if not self._newton:
            return self._edge(feature, default, pairs.potential)
        h = self.h(feature, default)
        alpha = from_curve(lambda a: pairs.curve(h, a), 1.0, self._smoothing)
        self.alpha[[default] if self.abstains[feature] else [0, 1], feature] = alpha
        return float(np.sign(alpha) * (1.0 - pairs.curve(h, alpha)[0]) * pairs.total)

    def _edge(self, feature: int, default: int, potential: FloatArray) -> float:
        """r: potentials add up to zero, so that rows of one common value need not be visited."""
        from rankwright.rankers.boosting._kernels import cuts as _kernels

        implied, absent = self._implied[feature], self._absent[feature]
        base = float(default) if np.isnan(implied) else float(implied)
        listed = _kernels.weighted_sum(self._rows[feature], self._h[feature], base, potential)
        defaults = np.full(len(absent), float(default))
        return float(listed + _kernels.weighted_sum(absent, defaults, base, potential))

    def h(self, feature: int, default: int) -> FloatArray:
        """The weak ranking over the rows."""
        implied = self._implied[feature]
        h = np.full(self.n_rows, float(default) if np.isnan(implied) else implied)
        h[self._rows[feature]] = self._h[feature]
        h[self._absent[feature]] = default
        return h

    def hit(self, feature: int, cut: int, default: int) -> Any:
        return self.h(feature, default)

    def threshold(self, feature: int, cut: int) -> float:
        return float(self._low[feature])

    def scale(self, feature: int) -> float:
        """What the distance from the lowest value is multiplied by."""
        return float(self._scale[feature])

    def listing_cut(self, feature: int) -> int:
        return -1

    def empty_cut(self, feature: int) -> int:
        return -1


@dataclass(frozen=True)
class WeakRanking:
    """alpha * h, where h(x) = [x_feature > threshold], or the default if x lacks the feature.

    With a ``scale``, h(x) = (x_feature - threshold) * scale instead.
    """

    feature: int
    threshold: float
    default: int
    alpha: float
    scale: float = 0.0


@dataclass(frozen=True)
class Round:
    """What a callback is told after each round.

    Attributes
    ----------
    number : int, rounds so far
    weak : what was added: a WeakRanking, or a tree
    z : float, the factor by which the bound on the ranking loss fell
    bound : float, the product of all z so far: no more than this share of the pairs is misordered
    validation : float or None, the measure on the held-out queries
    """

    number: int
    weak: Any
    z: float
    bound: float
    validation: float | None = None


class WeakLearner(ABC):
    """Finds a weak ranking, moves the scores of the distribution by it, and says what it was."""

    @abstractmethod
    def learn(self, pairs: PairDistribution) -> Any:
        """One round; None where no weak ranking has any edge over guessing."""


class ThresholdLearner(WeakLearner):
    """WeakLearn.3 (criterion r), WeakLearn.2 (criterion z) and their .cum forms.

    For 0/1 rankings the minimum of Z is known in closed form, so ``newton`` is ``z`` here.
    """

    def __init__(
        self,
        columns: Columns,
        pairs: PairDistribution,
        team: Team,
        *,
        criterion: str,
        cumulative: Any,
        default: Any,
        smoothing: float,
    ) -> None:
        self._scan: Scan
        if criterion != "r":
            self._scan = GroupedScan(columns, team, pairs)
        elif columns.max_bins is None or columns.is_sparse:
            self._scan = SortedScan(columns, team)
        else:
            self._scan = BinnedScan(columns, team, pairs.parts)
        self._directions = Directions(cumulative, default, columns.n_features)
        self._by_edge = criterion == "r"
        self._smoothing = smoothing

    def learn(self, pairs: PairDistribution) -> WeakRanking | None:
        scan, directions = self._scan, self._directions
        asked_gain = scan.scan(pairs, directions.asked)

        def weigh(candidate: Candidate) -> float:
            if self._by_edge:
                return from_edge(candidate.gain / pairs.total, self._smoothing)
            return from_split(*pairs.split(scan.hit(*candidate[:3])), self._smoothing)

        chosen = directions.choose(scan, pairs, asked_gain, weigh)
        if chosen is None:
            return None
        alpha = weigh(chosen)
        pairs.move(scan.hit(*chosen[:3]), alpha, scan.begin(pairs))
        directions.record(scan, chosen, alpha)
        threshold = scan.threshold(chosen.feature, chosen.cut)
        return WeakRanking(chosen.feature, threshold, chosen.default, alpha)


class ValueLearner(WeakLearner):
    """Each feature as it is, scaled to 0 .. 1: methods 3 (criterion r) and 1 (newton)."""

    def __init__(
        self,
        columns: Columns,
        team: Team,
        *,
        criterion: str,
        cumulative: Any,
        default: Any,
        smoothing: float,
    ) -> None:
        self._scan = ValueScan(columns, team, criterion == "newton", smoothing)
        self._directions = Directions(cumulative, default, columns.n_features)
        self._by_edge = criterion == "r"
        self._smoothing = smoothing

    def learn(self, pairs: PairDistribution) -> WeakRanking | None:
        scan = self._scan
        asked_gain = scan.scan(pairs, self._directions.asked)

        def weigh(candidate: Candidate) -> float:
            if self._by_edge:
                return from_edge(candidate.gain / pairs.total, self._smoothing)
            return float(scan.alpha[candidate.default, candidate.feature])

        chosen = self._directions.choose(scan, pairs, asked_gain, weigh)
        if chosen is None:
            return None
        alpha = weigh(chosen)
        pairs.move_by(alpha * scan.h(chosen.feature, chosen.default))
        self._directions.record(scan, chosen, alpha)
        return WeakRanking(
            chosen.feature,
            scan.threshold(chosen.feature, 0),
            chosen.default,
            alpha,
            scan.scale(chosen.feature),
        )
