"""Weak learners: given the distribution over pairs, a weak ranking and its weight alpha."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from rankwright._typing import FloatArray
from rankwright.feedback.pair_weights import Curve, PairDistribution
from rankwright.rankers.boosting.binning import FeatureColumns, SortedColumn
from rankwright.rankers.boosting.weak_learners.query_splitting import (
    MANY_FEATURES,
    GainBounds,
    PerQueryScan,
)
from rankwright.rankers.boosting.weak_learners.splitting import (
    DEFAULTS,
    Candidate,
    Cuts,
    Directions,
    Scan,
    threshold_scan,
)
from rankwright.runtime import Team

REAL_STEPS, REAL_LIMIT = 60, 300.0  # of Newton's method for a real default, and its largest weight


def edge_alpha(r: float, smoothing: float) -> float:
    """Method 3 (eq. 6), from r, the weight of right pairs minus that of wrong ones.

    >>> round(edge_alpha(0.5, 1e-12), 6), edge_alpha(1.0, 0.05) == edge_alpha(0.9, 0.05)
    (0.549306, True)
    """
    limit = 1.0 - 2.0 * smoothing
    r = min(max(r, -limit), limit)
    return 0.5 * math.log((1.0 + r) / (1.0 - r))


def split_alpha(right: float, wrong: float, smoothing: float) -> float:
    """Method 2 (eq. 2), for 0/1 rankings, from the weights of right and wrong pairs.

    >>> round(split_alpha(0.75, 0.25, 1e-12), 6)
    0.549306
    """
    return 0.5 * math.log((right + smoothing) / (wrong + smoothing))


def newton_alpha(curve: Curve, width: float, smoothing: float, tolerance: float = 1e-12) -> float:
    """Method 1, for any real-valued ranking h: the minimum of Z, found by Newton in a bracket.

    Z(a) is a sum of exponentials, hence convex: its derivative crosses zero once. The crossing is
    first bracketed by doubling, which ends because smoothing makes Z grow on either side. Then each
    step is Newton's, if that stays inside and halves the derivative; otherwise it is a bisection.

    Parameters
    ----------
    curve : function of the weight a that returns Z and its first two derivatives
    width : float > 0
        The range of h over the rows: smoothing adds ``s (exp(a width) + exp(-a width))``.

    Examples
    --------
    >>> def curve(a):
    ...     right, wrong = 0.75 * math.exp(-a), 0.25 * math.exp(a)
    ...     return right + wrong, wrong - right, right + wrong
    >>> round(newton_alpha(curve, 1.0, 1e-12), 6)
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
    low, high = 0.0, 1.0 / width
    while sign * slopes(sign * high)[0] < 0:
        low, high = high, 2.0 * high
    a, last = low, math.inf
    while high - low > tolerance * max(1.0, high):
        first, second = slopes(sign * a)
        first *= sign
        if first == 0.0:
            return sign * a
        low, high = (a, high) if first < 0 else (low, a)
        step = a - first / second if second > 0 else math.inf
        if not low < step < high or abs(first) > 0.5 * last:
            step = 0.5 * (low + high)
        if abs(step - a) <= tolerance * max(1.0, abs(a)):
            return sign * step
        a, last = step, abs(first)
    return sign * 0.5 * (low + high)


def real_default(
    pairs: PairDistribution, h: FloatArray, lacks: FloatArray, smoothing: float, start: Any
) -> tuple[float, float] | None:
    """The weight and the default that minimize Z together, unless the default would be 0 or 1.

    If scores move by ``a h + b lacks``, Z is convex in (a, b), where the default is b / a. Its
    minimum is found by Newton's method, with steps halved until Z falls. If the default there is
    not between 0 and 1, the best one allowed is 0 or 1, because a convex function has its minimum
    over a cone on one of its edges: the answer is None.

    Parameters
    ----------
    h : (n_rows,) float64, the weak ranking with the default 0
    lacks : (n_rows,) float64, 1 for rows that lack the feature
    start : (a, b) to start from
    """
    directions = h, lacks, h + lacks

    def value(point: FloatArray) -> float:
        Z = pairs.curve(h, point[0] * h + point[1] * lacks)(0.0)[0]
        return float(Z + 2.0 * smoothing * np.cosh(point[0]))

    point = np.array(start, dtype=np.float64)
    for _ in range(REAL_STEPS):
        moved = point[0] * h + point[1] * lacks
        (Z, slope_a, curve_a), (_, slope_b, curve_b), (_, _, curve_sum) = (
            pairs.curve(along, moved)(0.0) for along in directions
        )
        up, down = smoothing * np.exp(point[0]), smoothing * np.exp(-point[0])
        slope = np.array([slope_a + up - down, slope_b])
        cross = (curve_sum - curve_a - curve_b) / 2  # (a + b)'' = a'' + 2 ab'' + b''
        hessian = np.array([[curve_a + up + down, cross], [cross, curve_b]])
        hessian += 1e-14 * np.trace(hessian) * np.eye(2)  # so that it is not singular
        step = -np.linalg.solve(hessian, slope) if np.trace(hessian) > 0 else np.zeros(2)
        fall, size, present = -float(slope @ step), 1.0, Z + up + down
        while size > 1e-6 and value(point + size * step) > present - 1e-4 * size * fall:
            size /= 2
        if size <= 1e-6 or np.abs(point + size * step).max() > REAL_LIMIT:
            break
        point = point + size * step
        if fall <= 1e-15 * present:
            break
    a, b = point.tolist()
    return (a, b / a) if a != 0.0 and 0.0 < b / a < 1.0 else None


class ValueScan(Scan):
    """Features as weak rankings, scaled to 0 .. 1; rows that lack one get the default.

    With ``newton`` the gain is 1 - Z at the weight that minimizes Z (method 1 for each feature),
    otherwise it is r (method 3). A feature has one cut, number 0. ``defaults`` are the defaults to
    try; with ``real`` the better one is replaced by a number between them that is better still.
    """

    def __init__(
        self,
        columns: FeatureColumns,
        pool: Team,
        newton: bool,
        smoothing: float,
        defaults: tuple[float, ...] = (0.0, 1.0),
        real: bool = False,
    ) -> None:
        super().__init__(columns, pool)
        self._newton, self._smoothing, self._real = newton, smoothing, real
        self._defaults = np.array(defaults)
        self.default = np.zeros((2, self.n_features))  # the values of defaults number 0 and 1
        self._low, self.scale = np.zeros(self.n_features), np.zeros(self.n_features)
        self._rows: list[Any] = [None] * self.n_features
        self._h: list[FloatArray] = [np.zeros(0)] * self.n_features
        self._absent: list[Any] = [None] * self.n_features
        self._implied = np.zeros(self.n_features)  # h of rows without an entry; NaN: the default
        self.alpha = np.zeros((2, self.n_features))
        self._bounds: GainBounds | None = None
        self.may_leave_out = newton and columns.is_sparse and self.n_features > MANY_FEATURES
        self._each_feature(lambda feature: self._read(feature, columns.read(feature)))

    def _read(self, feature: int, column: SortedColumn) -> None:
        values = np.append(column.values, 0.0) if column.implied >= 0 else column.values
        low = float(values.min()) if len(values) else 0.0
        # Halves, because the range of two finite numbers may be infinite.
        half = float(values.max()) / 2 - low / 2 if len(values) else 0.0
        scale = 0.5 / half if half > 0 else 0.0
        self._low[feature], self.scale[feature] = low, scale
        self._rows[feature], self._absent[feature] = column.rows, column.absent
        self._h[feature] = (column.values - low) * scale
        self._implied[feature] = -low * scale if column.implied >= 0 else np.nan
        self.abstains[feature] = column.abstains

    def scan(
        self, pairs: PairDistribution, earlier: Cuts, best_gain: Callable[[], float] | None = None
    ) -> FloatArray:
        """As in ``Scan``; ``best_gain`` gives the gain of the best feature that may be used."""
        gains = self.gains

        def scan_feature(feature: int) -> None:
            several = self.abstains[feature] and len(self._defaults) == 2
            for number in range(2 if several else 1):
                both = [number] if several else [0, 1]
                gain, alpha = self._gain(feature, float(self._defaults[number]), pairs)
                gains.top[both, feature] = gains.bottom[both, feature] = gain
                gains.top_cut[both, feature] = gains.bottom_cut[both, feature] = 0
                self.alpha[both, feature] = alpha
                self.default[both, feature] = self._defaults[number]
            if self._real and several:
                self._improve(feature, pairs)

        if best_gain is not None and self.may_leave_out:
            self._scan_best(scan_feature, pairs, earlier, best_gain)
        else:
            self._each_feature(scan_feature)
        return np.asarray(gains.top[earlier.default, earlier.feature])

    def _scan_best(
        self,
        scan_feature: Callable[[int], None],
        pairs: PairDistribution,
        earlier: Cuts,
        best_gain: Callable[[], float],
    ) -> None:
        """Scan features by descending bound until no other can be best; those gain 0 here."""
        if self._bounds is None:
            both = zip(self._rows, self._absent, strict=True)
            self._bounds = GainBounds([np.concatenate(rows) for rows in both], pairs)
        self.gains.top[:], self.gains.bottom[:] = 0.0, 0.0
        for features in self._bounds.candidates(pairs, earlier, best_gain):
            self._pool.map(scan_feature, features.tolist())

    def _improve(self, feature: int, pairs: PairDistribution) -> None:
        """Replace the better one of two defaults by the best one between them."""
        top, h = self.gains.top[:, feature], self.h(feature, 0, 0.0)
        better = int(abs(top[1]) > abs(top[0]))
        alpha = float(self.alpha[better, feature])
        start, lacks = (alpha, alpha * better), self.h(feature, 0, 1.0) - h
        minimum = real_default(pairs, h, lacks, self._smoothing, start)
        if minimum is None:
            return
        alpha, default = minimum
        weight = pairs.curve(h + default * lacks)(alpha)[0]
        gain = float(np.sign(alpha) * (1.0 - weight) * pairs.total)
        if abs(gain) > abs(top[better]):
            self.gains.top[better, feature] = self.gains.bottom[better, feature] = gain
            self.alpha[better, feature], self.default[better, feature] = alpha, default

    def _gain(self, feature: int, default: float, pairs: PairDistribution) -> tuple[float, float]:
        """The gain of a feature, and its weight."""
        if not self.scale[feature]:
            return 0.0, 0.0
        if not self._newton:
            gain = self._edge(feature, default, pairs.potential)
            return gain, edge_alpha(gain / pairs.total, self._smoothing)
        curve = pairs.curve(self.h(feature, 0, default))
        alpha = newton_alpha(curve, 1.0, self._smoothing)
        return float(np.sign(alpha) * (1.0 - curve(alpha)[0]) * pairs.total), alpha

    def _edge(self, feature: int, default: float, potential: FloatArray) -> float:
        """r: potentials add up to zero, so rows of one common value need not be visited."""
        from rankwright.rankers.boosting._kernels.splitting import weighted_sum

        implied, absent = self._implied[feature], self._absent[feature]
        base = default if np.isnan(implied) else float(implied)
        present = weighted_sum(self._rows[feature], self._h[feature], base, potential)
        defaults = np.full(len(absent), default)
        return float(present + weighted_sum(absent, defaults, base, potential))

    def h(self, feature: int, cut: int, default: float) -> FloatArray:
        implied = self._implied[feature]
        h = np.full(self.n_rows, float(default) if np.isnan(implied) else implied)
        h[self._rows[feature]] = self._h[feature]
        h[self._absent[feature]] = default
        return h

    def threshold(self, feature: int, cut: int) -> float:
        return float(self._low[feature])

    def empty_cut(self, feature: int) -> int:
        return -1


@dataclass(frozen=True)
class WeakRanking:
    """alpha * h, where h(x) = [x_feature > threshold], or the default if x lacks the feature.

    With a ``scale``, h(x) = (x_feature - threshold) * scale instead.
    """

    feature: int
    threshold: float
    default: float
    alpha: float
    scale: float = 0.0


class WeakLearner(ABC):
    """Finds a weak ranking and moves the scores of the distribution by it."""

    @abstractmethod
    def learn(self, pairs: PairDistribution) -> Any:
        """One round: the weak ranking, or None where none has any edge over guessing."""


def draw_features(model: BaseEstimator, n_features: int) -> Iterator[Any]:
    """The features that each round may use; None for all."""
    if model.colsample_bytree == 1.0:
        return repeat(None)
    rng = np.random.default_rng(check_random_state(model.random_state).randint(2**31 - 1))
    size = max(1, round(model.colsample_bytree * n_features))
    return (np.isin(np.arange(n_features), rng.permutation(n_features)[:size]) for _ in count())


def feature_scan(
    model: BaseEstimator,
    columns: FeatureColumns,
    pairs: PairDistribution,
    pool: Team,
    smoothing: float,
) -> Scan:
    """The search for weak rankings that the parameters of a RankBoost ask for.

    With ``estimator="value"`` a feature is a weak ranking as it is, otherwise its thresholds are.
    For those the minimum of Z is known in closed form, so the criterion ``newton`` is ``z``.
    """
    if model.estimator == "value":
        learned = model.default in ("learned", "real", 0, 1)
        defaults = (0.0, 1.0) if learned else (float(model.default),)
        newton, real = model.criterion == "newton", model.default == "real"
        return ValueScan(columns, pool, newton, smoothing, defaults, real)
    if model.criterion != "r":
        return PerQueryScan(columns, pool, pairs)
    return threshold_scan(columns, pool, pairs.parts)


class FeatureLearner(WeakLearner):
    """One feature a round: WeakLearn.3 (criterion r), WeakLearn.2 (criterion z), their .cum forms.

    ``model`` is a RankBoost, ``scan`` its :func:`feature_scan`.
    """

    def __init__(self, model: BaseEstimator, scan: Scan, smoothing: float) -> None:
        self._rate: float = model.learning_rate
        self._default, self._smoothing = model.default, smoothing
        self._scan, self._draw = scan, draw_features(model, scan.n_features)
        self._directions = Directions(model.cumulative, model.default, scan.n_features)

    @property
    def reads_mass(self) -> bool:
        """Whether bounds on gains need ``pairs.mass``."""
        return isinstance(self._scan, ValueScan | PerQueryScan) and self._scan.may_leave_out

    def learn(self, pairs: PairDistribution) -> WeakRanking | None:
        scan = self._scan

        def alpha_of(candidate: Candidate) -> float:
            if isinstance(scan, ValueScan):
                alpha = float(scan.alpha[candidate.default, candidate.feature])
            elif isinstance(scan, PerQueryScan):
                alpha = split_alpha(*pairs.split(scan.h(*candidate[:3])), self._smoothing)
            else:
                alpha = edge_alpha(candidate.gain / pairs.total, self._smoothing)
            return self._rate * alpha

        earlier, features = self._directions.earlier, next(self._draw)
        if isinstance(scan, ValueScan | PerQueryScan) and features is None:
            best_gain = partial(self._directions.best_gain, scan, pairs)
            earlier_gain = scan.scan(pairs, earlier, best_gain)
        else:
            earlier_gain = scan.scan(pairs, earlier)
        if self._default not in ("learned", "real", 0, 1) and not isinstance(scan, ValueScan):
            earlier_gain = self._at_default(scan, earlier, earlier_gain)
        if features is not None:
            scan.gains.leave_out(~features)
            earlier_gain = np.where(features[earlier.feature], earlier_gain, 0.0)
        chosen = self._directions.choose(scan, pairs, earlier_gain, alpha_of)
        if chosen is None:
            return None
        feature, cut, number, _ = chosen
        alpha, default = self._default_of(chosen, alpha_of(chosen), pairs)
        h = scan.h(feature, cut, number)
        if default != number:  # h is linear in the default
            h = (1.0 - default) * scan.h(feature, cut, 0) + default * scan.h(feature, cut, 1)
        pairs.move(h, alpha, scan.part_callback(pairs))
        self._directions.record(scan, chosen, alpha)
        scale = float(scan.scale[feature]) if isinstance(scan, ValueScan) else 0.0
        return WeakRanking(feature, scan.threshold(feature, cut), default, alpha, scale)

    def _at_default(self, scan: Scan, earlier: Cuts, earlier_gain: FloatArray) -> FloatArray:
        """Turn gains for the default 0 into those for the given one, in which r is linear."""
        gains, lacking = scan.gains, np.where(scan.abstains, scan.gains.present, 0.0)
        gains.top[0] -= self._default * lacking
        gains.bottom[0] -= self._default * lacking
        gains.present[:] = (1.0 - self._default) * lacking
        return np.asarray(earlier_gain - self._default * lacking[earlier.feature])

    def _default_of(
        self, chosen: Candidate, alpha: float, pairs: PairDistribution
    ) -> tuple[float, float]:
        """The weight of a cut and the value of its default."""
        feature, cut, number, _ = chosen
        scan, default = self._scan, self._default
        if isinstance(scan, ValueScan):
            return alpha, float(scan.default[number, feature])
        if default in DEFAULTS or not scan.abstains[feature]:
            return alpha, number
        if default != "real":
            return alpha, float(default)
        # Weight that is taken back from an earlier cut is left as it is.
        if alpha * self._directions.allowed.direction[feature] >= 0:
            h = scan.h(feature, cut, 0).astype(np.float64)
            start = alpha / self._rate, number * alpha / self._rate
            minimum = real_default(pairs, h, scan.h(feature, cut, 1) - h, self._smoothing, start)
            if minimum is not None and minimum[0] * alpha > 0:
                return self._rate * minimum[0], minimum[1]
        return alpha, number
