"""The best cut of every feature from sums over bins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankwright.feedback.base import FloatArray
from rankwright.parallel import Team, ranges
from rankwright.rankers.boosting.columns import Columns
from rankwright.rankers.boosting.levels import Flags
from rankwright.rankers.boosting.scans import Asked, Parts, Scan, Weighted

__all__ = ["BinnedScan"]


class BinnedScan(Scan):
    """At most 255 bins a feature, a byte per value; cut c hits the bins above bin c."""

    def __init__(self, columns: Columns, team: Team, parts: Parts | None = None) -> None:
        super().__init__(columns, team)
        self.codes = np.full((self.n_features, self.n_rows), 255, np.uint8)
        self.n_cuts = np.zeros(self.n_features, np.int64)
        self._edges: list[FloatArray] = [np.zeros(0)] * self.n_features
        self._parts = parts or [(0, self.n_rows)]
        self._part_sums = np.zeros((len(self._parts), self.n_features, 256))
        self._sums = np.zeros((self.n_features, 256))
        self._summed = False
        # Blocks of whole fours: the kernel takes four columns at a time.
        fours = ranges(-(-self.n_features // 4), len(self.blocks))
        self._fours = [(4 * a, min(4 * b, self.n_features)) for a, b in fours]
        self._each_feature(self._write)

    def _write(self, feature: int) -> None:
        from rankwright.rankers.boosting._kernels import write_codes

        column = self._columns.read(feature, stable=False).spelled_out(self.n_rows)
        cuts = write_codes(column.rows, column.starts, self.codes[feature])
        self.n_cuts[feature], self.abstains[feature] = cuts, column.abstains
        lows = column.values[column.starts][::-1]
        self._edges[feature] = np.concatenate([lows, column.values[:1]])

    def begin(self, pairs: Weighted) -> Callable[[int], None] | None:
        if len(self._parts) < 2 * self._team.threads:
            return None  # there is more to share among threads by features
        self._summed = True
        return lambda part: self._sum(pairs, part, (0, self.n_features))

    def _sum(self, pairs: Weighted, part: int, features: tuple[int, int]) -> None:
        from rankwright.rankers.boosting.binned import _kernels

        rows = self._parts[part]
        _kernels.sum_bins(self.codes, pairs.potential, *rows, *features, self._part_sums[part])

    def scan(self, pairs: Weighted, asked: Asked) -> FloatArray:
        from rankwright.rankers.boosting.binned import _kernels

        summed, self._summed = self._summed, False

        def block(features: tuple[int, int]) -> None:
            if not summed:
                for part in range(len(self._parts)):
                    self._sum(pairs, part, features)
            _kernels.scan_bins(
                self._part_sums, pairs.whole, self.n_cuts, self.abstains, *features,
                0.1 * self.margin * pairs.total, self._sums, *self.gains.arrays,
            )  # fmt: skip

        alone = summed and self.n_features < 512  # done before another thread has woken up
        self._team.map(block, [(0, self.n_features)] if alone else self._fours)
        feature, cut, default = asked
        none_hit = cut == self.n_cuts[feature]
        above = np.where(none_hit, 0.0, self._sums[feature, np.minimum(cut + 1, 255)])
        return np.asarray(above - default * self.gains.listed[feature])

    def hit(self, feature: int, cut: int, default: int) -> Flags:
        codes = self.codes[feature]
        hit: Flags = (codes > cut).view(np.uint8)
        if self.abstains[feature] and default == 0:
            hit &= (codes != 255).view(np.uint8)
        return hit

    def threshold(self, feature: int, cut: int) -> float:
        return -np.inf if cut < 0 else float(self._edges[feature][cut])

    def listing_cut(self, feature: int) -> int:
        return -1

    def empty_cut(self, feature: int) -> int:
        return int(self.n_cuts[feature])
