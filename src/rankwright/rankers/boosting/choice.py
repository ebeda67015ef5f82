"""Which weak rankings may still be chosen, and the best of those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rankwright.rankers.boosting.distribution import PairDistribution
from rankwright.rankers.boosting.scans import Asked, Scan

__all__ = ["Candidate", "Directions"]

DEFAULTS = {"learned": (True, True), 0: (True, False), 1: (False, True)}


class Candidate(NamedTuple):
    """A weak ranking a scan found; its gain has the sign of its weight."""

    feature: int
    cut: int
    default: int
    gain: float


class Directions:
    """The paper's .cum constraint and its kin.

    ``True``: a weak ranking may be chosen only if its cumulative weight stays positive, so that
    every feature counts upwards. ``"signed"``: the first threshold of a feature that is chosen
    fixes the direction in which the feature counts; its weak rankings keep cumulative weights of
    that sign. What "has a value at all" adds is a contribution of its own and not bound by the
    direction. ``False``: no constraint.
    """

    def __init__(self, cumulative: Any, default: Any, n_features: int) -> None:
        self._kind = cumulative
        self._direction = np.full(n_features, 1 if cumulative is True else 0, np.int8)
        self._defaults = np.array(DEFAULTS[default])
        self._place: dict[tuple[int, int, int], int] = {}
        self._keys = np.zeros((3, 16), np.int64)
        self._weight = np.zeros(16)

    @property
    def asked(self) -> Asked:
        """The rankings chosen so far, of which a part of the weight may be taken back."""
        feature, cut, default = self._keys[:, : len(self._place)]
        return feature, cut, default

    def choose(
        self,
        scan: Scan,
        pairs: PairDistribution,
        asked_gain: Any,
        alpha: Callable[[Candidate], float],
    ) -> Candidate | None:
        """The best candidate allowed, or None where no ranking has any edge."""
        from rankwright.rankers.boosting import _kernels

        margin = scan.margin * pairs.total
        gain, feature, kind, default = _kernels.pick_cut(
            scan.gains.top, scan.gains.bottom, scan.gains.listed, scan.abstains, self._direction,
            self._defaults, self._kind is True, margin,
        )  # fmt: skip
        best = None
        if feature >= 0:
            cut = (
                scan.gains.top_cut[default, feature],
                scan.gains.bottom_cut[default, feature],
                scan.listing_cut(feature),
                scan.empty_cut(feature),
            )[kind]
            best = Candidate(int(feature), int(cut), int(default), float(gain))
        return self._step_back(asked_gain, abs(gain) + margin, alpha) or best

    def _step_back(
        self, asked_gain: Any, least: float, alpha: Callable[[Candidate], float]
    ) -> Candidate | None:
        """The best ranking against its direction that keeps its sign, if better than ``least``."""
        n = len(asked_gain)
        weight = self._weight[:n]
        better = np.flatnonzero((np.abs(asked_gain) > least) & (asked_gain * weight < 0))
        for place in better[np.argsort(-np.abs(asked_gain[better]), kind="stable")]:
            feature, cut, default = self._keys[:, place].tolist()
            candidate = Candidate(feature, cut, default, float(asked_gain[place]))
            if abs(alpha(candidate)) < abs(weight[place]):
                return candidate
        return None

    def record(self, scan: Scan, chosen: Candidate, alpha: float) -> None:
        """Remember what was chosen."""
        if self._kind is False:
            return
        feature, cut, default = chosen[:3]
        whole = cut in (scan.listing_cut(feature), scan.empty_cut(feature))
        if self._kind == "signed":
            if whole:
                return
            if self._direction[feature] == 0:
                self._direction[feature] = 1 if alpha > 0 else -1
        place = self._place.setdefault((feature, cut, default), len(self._place))
        if place == len(self._weight):
            self._weight = np.concatenate([self._weight, np.zeros(place)])
            self._keys = np.concatenate([self._keys, np.zeros((3, place), np.int64)], axis=1)
        self._keys[:, place] = feature, cut, default
        self._weight[place] += alpha
