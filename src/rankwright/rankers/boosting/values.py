"""Features themselves as weak rankings: h(x) = (x - lowest) / (highest - lowest)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.feedback.base import FloatArray
from rankwright.parallel import Team
from rankwright.rankers.boosting import alpha as methods
from rankwright.rankers.boosting.columns import Column, Columns
from rankwright.rankers.boosting.distribution import PairDistribution
from rankwright.rankers.boosting.scans import Asked, Scan

__all__ = ["ValueScan"]


class ValueScan(Scan):
    """The gain of every feature taken as it is; rows that lack it get the default, 0 or 1.

    With ``newton`` the gain is 1 - Z at the weight that minimises Z (method 1 for each feature),
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
        alpha = methods.from_curve(lambda a: pairs.curve(h, a), 1.0, self._smoothing)
        self.alpha[[default] if self.abstains[feature] else [0, 1], feature] = alpha
        return float(np.sign(alpha) * (1.0 - pairs.curve(h, alpha)[0]) * pairs.total)

    def _edge(self, feature: int, default: int, potential: FloatArray) -> float:
        """r: potentials add up to zero, so that rows of one common value need not be visited."""
        from rankwright.rankers.boosting import _kernels

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
