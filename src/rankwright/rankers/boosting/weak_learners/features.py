"""Weak learners: given the distribution over pairs, a weak ranking and its weight alpha."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import BoolArray, FloatArray
from rankwright.feedback.pair_weights import Curve, PairDistribution
from rankwright.parallel import Team
from rankwright.rankers.boosting.weak_learners.binning import Column, Columns
from rankwright.rankers.boosting.weak_learners.query_splitting import PerQueryScan
from rankwright.rankers.boosting.weak_learners.splitting import (
    BinnedScan,
    Cuts,
    Scan,
    SortedScan,
    Weighted,
)

DEFAULTS = {"learned": (True, True), 0: (True, False), 1: (False, True)}


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


class ValueScan(Scan):
    """Features as weak rankings, scaled to 0 .. 1; rows that lack one get the default, 0 or 1.

    With ``newton`` the gain is 1 - Z at the weight that minimizes Z (method 1 for each feature),
    otherwise it is r (method 3). A feature has one cut, number 0.
    """

    def __init__(self, columns: Columns, pool: Team, newton: bool, smoothing: float) -> None:
        super().__init__(columns, pool)
        self._newton, self._smoothing = newton, smoothing
        self._low, self.scale = np.zeros(self.n_features), np.zeros(self.n_features)
        self._rows: list[Any] = [None] * self.n_features
        self._h: list[FloatArray] = [np.zeros(0)] * self.n_features
        self._absent: list[Any] = [None] * self.n_features
        self._implied = np.zeros(self.n_features)  # h of rows without an entry; NaN: the default
        self.alpha = np.zeros((2, self.n_features))
        self._each_feature(lambda feature: self._read(feature, columns.read(feature)))

    def _read(self, feature: int, column: Column) -> None:
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

    def scan(self, pairs: PairDistribution, earlier: Cuts) -> FloatArray:
        gains = self.gains

        def scan_feature(feature: int) -> None:
            for default in range(2 if self.abstains[feature] else 1):
                both = [default] if self.abstains[feature] else [0, 1]
                gain, alpha = self._gain(feature, default, pairs)
                gains.top[both, feature] = gains.bottom[both, feature] = gain
                gains.top_cut[both, feature] = gains.bottom_cut[both, feature] = 0
                self.alpha[both, feature] = alpha

        self._each_feature(scan_feature)
        return np.asarray(gains.top[earlier.default, earlier.feature])

    def _gain(self, feature: int, default: int, pairs: PairDistribution) -> tuple[float, float]:
        """The gain of a feature, and its weight."""
        if not self.scale[feature]:
            return 0.0, 0.0
        if not self._newton:
            gain = self._edge(feature, default, pairs.potential)
            return gain, edge_alpha(gain / pairs.total, self._smoothing)
        curve = pairs.curve(self.h(feature, 0, default))
        alpha = newton_alpha(curve, 1.0, self._smoothing)
        return float(np.sign(alpha) * (1.0 - curve(alpha)[0]) * pairs.total), alpha

    def _edge(self, feature: int, default: int, potential: FloatArray) -> float:
        """r: potentials add up to zero, so rows of one common value need not be visited."""
        from rankwright.rankers.boosting._kernels.cuts import weighted_sum

        implied, absent = self._implied[feature], self._absent[feature]
        base = float(default) if np.isnan(implied) else float(implied)
        present = weighted_sum(self._rows[feature], self._h[feature], base, potential)
        defaults = np.full(len(absent), float(default))
        return float(present + weighted_sum(absent, defaults, base, potential))

    def h(self, feature: int, cut: int, default: int) -> FloatArray:
        implied = self._implied[feature]
        h = np.full(self.n_rows, float(default) if np.isnan(implied) else implied)
        h[self._rows[feature]] = self._h[feature]
        h[self._absent[feature]] = default
        return h

    def threshold(self, feature: int, cut: int) -> float:
        return float(self._low[feature])

    def empty_cut(self, feature: int) -> int:
        return -1


class Candidate(NamedTuple):
    """A weak ranking that a scan found; its gain has the sign of its weight."""

    feature: int
    cut: int
    default: int
    gain: float


class Allowed(NamedTuple):
    """Which cuts may be used."""

    direction: Any  # (n_features,) int8: +1 / -1 where only this sign may be used, 0 where both may
    defaults: BoolArray  # (2,) which defaults may be used
    upward: bool  # whether "has the feature" may count upward only, too


class Directions:
    """The choice of the best cut under the paper's .cum constraint and its relatives.

    ``True``: a weak ranking may be chosen only if its cumulative weight stays positive, so that
    every feature counts upward. ``"signed"``: the first threshold of a feature that is chosen
    fixes the direction in which the feature counts; its weak rankings keep cumulative weights of
    that sign. What "has a value at all" adds is a contribution of its own and not bound by the
    direction. ``False``: no constraint.

    """

    def __init__(self, cumulative: Any, default: Any, n_features: int) -> None:
        self._kind, upward = cumulative, cumulative is True
        direction = np.full(n_features, int(upward), np.int8)
        self.allowed = Allowed(direction, np.array(DEFAULTS[default]), upward)
        self._cuts, self._weight = np.zeros((3, 0), np.int64), np.zeros(0)
        self._index: dict[tuple[int, int, int], int] = {}

    @property
    def earlier(self) -> Cuts:
        """The cuts chosen so far, of which part of the weight may be taken back."""
        return Cuts(*self._cuts)

    def choose(
        self,
        scan: Scan,
        pairs: Weighted,
        earlier_gain: FloatArray,
        alpha: Callable[[Candidate], float],
    ) -> Candidate | None:
        """The best candidate allowed, or None where no ranking has any edge."""
        from rankwright.rankers.boosting._kernels.cuts import pick_cut

        margin = scan.margin * pairs.total
        gain, feature, kind, default = pick_cut(scan.gains, scan.abstains, self.allowed, margin)
        best = None
        if feature >= 0:
            cut = (
                scan.gains.top_cut[default, feature],
                scan.gains.bottom_cut[default, feature],
                scan.present_cut(feature),
                scan.empty_cut(feature),
            )[kind]
            best = Candidate(int(feature), int(cut), int(default), float(gain))
        return self._step_back(earlier_gain, abs(gain) + margin, alpha) or best

    def candidates(self, scan: Scan) -> list[Candidate]:
        """The best cut of every feature in each direction that it may have."""
        gains, found = scan.gains, []
        for feature in range(scan.n_features):
            for default in np.flatnonzero(self.allowed.defaults).tolist():
                for best, cuts, sign in (
                    (gains.top, gains.top_cut, 1),
                    (gains.bottom, gains.bottom_cut, -1),
                ):
                    gain, cut = float(best[default, feature]), int(cuts[default, feature])
                    turned = sign * self.allowed.direction[feature] < 0
                    useless = default and not scan.abstains[feature]
                    if cut >= 0 and sign * gain > 0 and not turned and not useless:
                        found.append(Candidate(feature, cut, default, gain))
        return found

    def _step_back(
        self, gain: FloatArray, least: float, alpha: Callable[[Candidate], float]
    ) -> Candidate | None:
        """The best earlier ranking to take weight from without turning its sign, if any exceeds
        ``least``."""
        better = np.flatnonzero((np.abs(gain) > least) & (gain * self._weight < 0))
        for i in better[np.argsort(-np.abs(gain[better]), kind="stable")].tolist():
            feature, cut, default = self._cuts[:, i].tolist()
            candidate = Candidate(feature, cut, default, float(gain[i]))
            if abs(alpha(candidate)) < abs(self._weight[i]):
                return candidate
        return None

    def record(self, scan: Scan, chosen: Candidate, alpha: float) -> None:
        """Remember what was chosen."""
        feature, cut = chosen[:2]
        if self._kind is False:
            return
        if self._kind == "signed":
            if cut in (scan.present_cut(feature), scan.empty_cut(feature)):
                return
            if self.allowed.direction[feature] == 0:
                self.allowed.direction[feature] = 1 if alpha > 0 else -1
        i = self._index.setdefault(chosen[:3], len(self._index))
        if i == len(self._weight):
            self._cuts = np.concatenate([self._cuts, np.array([chosen[:3]]).T], axis=1)
            self._weight = np.concatenate([self._weight, [0.0]])
        self._weight[i] += alpha


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


class WeakLearner(ABC):
    """Finds a weak ranking and moves the scores of the distribution by it."""

    @abstractmethod
    def learn(self, pairs: PairDistribution) -> Any:
        """One round: the weak ranking, or None where none has any edge over guessing."""


class FeatureLearner(WeakLearner):
    """One feature a round: WeakLearn.3 (criterion r), WeakLearn.2 (criterion z), their .cum forms.

    With ``values`` a feature is a weak ranking as it is (criterion r or newton), otherwise its
    thresholds are. For those the minimum of Z is known in closed form, so ``newton`` is ``z``.
    """

    def __init__(
        self,
        columns: Columns,
        pairs: PairDistribution,
        pool: Team,
        *,
        values: bool,
        criterion: str,
        cumulative: Any,
        default: Any,
        smoothing: float,
        rate: float,
        draw: Iterator[Any],
    ) -> None:
        self._rate, self._draw = rate, draw
        self._scan: Scan
        if values:
            self._scan = ValueScan(columns, pool, criterion == "newton", smoothing)
        elif criterion != "r":
            self._scan = PerQueryScan(columns, pool, pairs)
        elif columns.max_bins is None or columns.is_sparse:
            self._scan = SortedScan(columns, pool)
        else:
            self._scan = BinnedScan(columns, pool, pairs.parts)
        self._directions = Directions(cumulative, default, columns.n_features)
        self._smoothing = smoothing

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

        earlier = self._directions.earlier
        earlier_gain = scan.scan(pairs, earlier)
        if (features := next(self._draw)) is not None:
            scan.gains.leave_out(~features)
            earlier_gain = np.where(features[earlier.feature], earlier_gain, 0.0)
        chosen = self._directions.choose(scan, pairs, earlier_gain, alpha_of)
        if chosen is None:
            return None
        feature, cut, default, _ = chosen
        alpha = alpha_of(chosen)
        pairs.move(scan.h(feature, cut, default), alpha, scan.part_callback(pairs))
        self._directions.record(scan, chosen, alpha)
        scale = float(scan.scale[feature]) if isinstance(scan, ValueScan) else 0.0
        return WeakRanking(feature, scan.threshold(feature, cut), default, alpha, scale)
