"""Weak learners: given the distribution over pairs, a weak ranking and its weight."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from rankwright.parallel import Team
from rankwright.rankers.boosting import alpha as methods
from rankwright.rankers.boosting.binned import BinnedScan
from rankwright.rankers.boosting.choice import Candidate, Directions
from rankwright.rankers.boosting.columns import Columns
from rankwright.rankers.boosting.distribution import PairDistribution
from rankwright.rankers.boosting.grouped import GroupedScan
from rankwright.rankers.boosting.ordered import SortedScan
from rankwright.rankers.boosting.scans import Scan
from rankwright.rankers.boosting.values import ValueScan

__all__ = ["Round", "ThresholdLearner", "ValueLearner", "WeakLearner", "WeakRanking"]


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
                return methods.from_edge(candidate.gain / pairs.total, self._smoothing)
            return methods.from_split(*pairs.split(scan.hit(*candidate[:3])), self._smoothing)

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
                return methods.from_edge(candidate.gain / pairs.total, self._smoothing)
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
