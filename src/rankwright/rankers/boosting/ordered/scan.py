"""The best cut of every feature, going down through its values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback.base import FloatArray
from rankwright.parallel import Team, ranges
from rankwright.rankers.boosting.columns import Columns
from rankwright.rankers.boosting.levels import Flags
from rankwright.rankers.boosting.scans import Asked, Scan, Weighted, take_all

__all__ = ["SortedScan"]


class SortedScan(Scan):
    """Rows sorted by each feature; cut c hits the first c of them (an implied group counts one)."""

    def __init__(self, columns: Columns, team: Team) -> None:
        super().__init__(columns, team)
        self._implied = np.full(self.n_features, -1, np.int64)
        self._implied_cut = np.zeros(self.n_features, bool)
        pieces: list[NDArray[np.int32]] = [np.zeros(0, np.int32)] * self.n_features
        absent: list[NDArray[np.int32]] = [np.zeros(0, np.int32)] * self.n_features

        def read(feature: int) -> None:
            column = columns.read(feature)
            pieces[feature] = np.where(column.starts, ~column.rows, column.rows)
            absent[feature] = column.absent
            self._implied[feature] = column.implied
            self._implied_cut[feature] = column.implied_starts
            self.abstains[feature] = column.abstains

        self._each_feature(read)
        self._ptr, self._order = take_all(pieces)
        self._absent_ptr, self._absent = take_all(absent)
        # Blocks of whole pairs: the kernel takes two columns at a time.
        twos = ranges(-(-self.n_features // 2), len(self.blocks))
        self._pairs = [(2 * a, min(2 * b, self.n_features)) for a, b in twos]
        self._marks = np.zeros((self.n_features, self.n_rows // 128 + 1, 3))

    def scan(self, pairs: Weighted, asked: Asked) -> FloatArray:
        from rankwright.rankers.boosting.ordered import _kernels

        groups = self._implied, self._implied_cut, self._absent_ptr, self._absent
        lists = self._order, self._ptr, *groups
        potential, whole = pairs.potential, pairs.whole

        def block(bounds: tuple[int, int]) -> None:
            _kernels.scan_sorted(
                *lists, potential, whole, self.abstains, *bounds,
                0.1 * self.margin * pairs.total, self._marks, *self.gains.arrays,
            )  # fmt: skip

        self._team.map(block, self._pairs)
        feature, cut, default = asked
        above = np.zeros(len(feature))
        _kernels.sums_above(*lists, potential, whole, self._marks, feature, cut, above)
        return np.asarray(above - default * self.gains.listed[feature])

    def _rows(self, feature: int) -> NDArray[np.int32]:
        marked = self._order[self._ptr[feature] : self._ptr[feature + 1]]
        return np.asarray(marked ^ (marked >> 31))

    def hit(self, feature: int, cut: int, default: int) -> Flags:
        rows, group = self._rows(feature), self._implied[feature]
        if 0 <= group < cut:
            hit = np.ones(self.n_rows, np.uint8)
            hit[rows[cut - 1 :]] = 0
        elif group >= 0:
            hit = np.zeros(self.n_rows, np.uint8)
            hit[rows[:cut]] = 1
        elif self.abstains[feature] or cut < len(rows) // 2:
            hit = np.full(self.n_rows, default if self.abstains[feature] else 0, np.uint8)
            if default and self.abstains[feature]:
                hit[rows] = 0
            hit[rows[:cut]] = 1
        else:
            hit = np.ones(self.n_rows, np.uint8)
            hit[rows[cut:]] = 0
        hit[self._absent[self._absent_ptr[feature] : self._absent_ptr[feature + 1]]] = default
        return hit

    def threshold(self, feature: int, cut: int) -> float:
        if cut == self.listing_cut(feature):
            return -np.inf
        group = self._implied[feature]
        if cut == group:
            return 0.0
        row = self._rows(feature)[cut - (0 <= group < cut)]
        return float(self._columns.values(feature, [row])[0])

    def listing_cut(self, feature: int) -> int:
        entries = self._ptr[feature + 1] - self._ptr[feature]
        return int(entries + (self._implied[feature] >= 0))

    def empty_cut(self, feature: int) -> int:
        return 0
