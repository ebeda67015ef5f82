"""The best cut of every feature, found in one pass: three ways to keep the features for it.

``BinnedScan``   a byte per value; the fastest, for dense data and the criterion r
``SortedScan``   rows in the order of each feature: every threshold, and sparse data
``GroupedScan``  the same order inside each query: the criterion z (WeakLearn.2)

All answer with ``Gains``; cuts are numbered by each scan in its own way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback.base import FloatArray, IntArray
from rankwright.parallel import Team, ranges
from rankwright.rankers.boosting.columns import Column, Columns
from rankwright.rankers.boosting.distribution import PairDistribution
from rankwright.rankers.boosting.terms import Flags, LevelTerm

__all__ = ["BinnedScan", "Gains", "GroupedScan", "Scan", "SortedScan", "Weighted"]

Asked = tuple[IntArray, IntArray, IntArray]  # features, cuts, defaults


class Weighted(Protocol):
    """What a scan over potentials needs to know: ``whole`` is their sum, ``total`` their scale."""

    potential: FloatArray
    total: float
    whole: float


class Gains:
    """Per feature: the best gain upwards and downwards, for either default, and their cuts."""

    def __init__(self, n_features: int) -> None:
        self.top, self.bottom = np.full((2, n_features), -np.inf), np.full((2, n_features), np.inf)
        self.top_cut = np.full((2, n_features), -2, np.int64)
        self.bottom_cut = np.full((2, n_features), -2, np.int64)
        self.listed = np.zeros(n_features)

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.top, self.top_cut, self.bottom, self.bottom_cut, self.listed


class Scan(ABC):
    """What boosting asks of the features each round."""

    n_features: int
    abstains: NDArray[np.bool_]
    margin = 1e-12  # by how much one gain must exceed another, so that rounding decides nothing

    def __init__(self, columns: Columns, team: Team) -> None:
        self.n_features, self.n_rows = columns.n_features, columns.n_rows
        self._columns, self._team = columns, team
        self.abstains = np.zeros(self.n_features, bool)
        self.gains = Gains(self.n_features)
        # More blocks than threads, so that a thread with easy features takes more of them.
        self.blocks = ranges(self.n_features, 1 if team.threads == 1 else 2 * team.threads)

    @abstractmethod
    def scan(self, pairs: Any, asked: Asked) -> FloatArray:
        """Update ``gains``; return the gains of the cuts that were asked for."""

    @abstractmethod
    def hit(self, feature: int, cut: int, default: int) -> Flags:
        """Which rows a cut hits."""

    @abstractmethod
    def threshold(self, feature: int, cut: int) -> float:
        """The value that rows must exceed to be hit."""

    @abstractmethod
    def listing_cut(self, feature: int) -> int:
        """The cut that hits every row that has the feature."""

    @abstractmethod
    def empty_cut(self, feature: int) -> int:
        """The cut that hits none of them."""

    def _each_feature(self, function: Any) -> None:
        def block(bounds: tuple[int, int]) -> None:
            for feature in range(*bounds):
                function(feature)

        self._team.map(block, self.blocks)


class BinnedScan(Scan):
    """At most 255 bins a feature, a byte per value; cut c hits the bins above bin c."""

    def __init__(self, columns: Columns, team: Team) -> None:
        super().__init__(columns, team)
        self.codes = np.full((self.n_features, self.n_rows), 255, np.uint8)
        self.n_cuts = np.zeros(self.n_features, np.int64)
        self._edges: list[FloatArray] = [np.zeros(0)] * self.n_features
        self._sums = np.zeros((self.n_features, 256))
        # Blocks of whole fours: the kernel takes four columns at a time.
        fours = ranges(-(-self.n_features // 4), len(self.blocks))
        self._fours = [(4 * a, min(4 * b, self.n_features)) for a, b in fours]
        self._each_feature(self._write)

    def _write(self, feature: int) -> None:
        from rankwright.rankers.boosting import _kernels

        column = self._columns.read(feature).spelled_out(self.n_rows)
        cuts = _kernels.write_codes(column.rows, column.starts, self.codes[feature])
        self.n_cuts[feature], self.abstains[feature] = cuts, column.abstains
        lows = column.values[column.starts][::-1]
        self._edges[feature] = np.concatenate([lows, column.values[:1]])

    def scan(self, pairs: Weighted, asked: Asked) -> FloatArray:
        from rankwright.rankers.boosting import _kernels

        def block(bounds: tuple[int, int]) -> None:
            _kernels.scan_bins(
                self.codes, pairs.potential, pairs.whole, self.n_cuts, self.abstains, *bounds,
                0.1 * self.margin * pairs.total, self._sums, *self.gains.arrays,
            )  # fmt: skip

        self._team.map(block, self._fours)
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


class SortedScan(Scan):
    """Rows sorted by each feature; cut c hits the first c of them (an implied group counts one)."""

    def __init__(self, columns: Columns, team: Team) -> None:
        super().__init__(columns, team)
        self._implied = np.full(self.n_features, -1, np.int64)
        pieces: list[NDArray[np.int32]] = [np.zeros(0, np.int32)] * self.n_features
        absent: list[NDArray[np.int32]] = [np.zeros(0, np.int32)] * self.n_features

        def read(feature: int) -> None:
            column = columns.read(feature)
            pieces[feature] = np.where(column.starts, ~column.rows, column.rows)
            absent[feature] = column.absent
            self._implied[feature] = column.implied
            self.abstains[feature] = column.abstains

        self._each_feature(read)
        self._ptr = _pointers(pieces)
        self._order = _take_all(pieces)
        self._absent_ptr = _pointers(absent)
        self._absent = _take_all(absent)

    def scan(self, pairs: Weighted, asked: Asked) -> FloatArray:
        from rankwright.rankers.boosting import _kernels

        feature, cut, default = asked
        order = np.lexsort((cut, feature))
        ptr = np.searchsorted(feature[order], np.arange(self.n_features + 1))
        cuts, sums = cut[order], np.zeros(len(order))

        def block(bounds: tuple[int, int]) -> None:
            _kernels.scan_sorted(
                self._order, self._ptr, self._implied, self._absent_ptr, self._absent,
                pairs.potential, pairs.whole, self.abstains, *bounds,
                0.1 * self.margin * pairs.total, ptr, cuts, sums, *self.gains.arrays,
            )  # fmt: skip

        self._team.map(block, self.blocks)
        above = np.empty(len(order))
        above[order] = sums
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
        else:
            hit = np.full(self.n_rows, default, np.uint8)
            hit[rows] = 0
            hit[rows[:cut]] = 1
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


class GroupedScan(Scan):
    """Rows sorted by each feature inside each query, for the exact weights of the pairs that a
    cut orders rightly and wrongly; cut c hits the codes above c."""

    margin = 1e-9  # gains hold the root of a weight, which magnifies rounding
    dust = 1e-13

    def __init__(self, columns: Columns, team: Team, pairs: PairDistribution) -> None:
        super().__init__(columns, team)
        self._levels = _Levels(pairs.levels, self.n_rows)
        self._n_cuts = np.zeros(self.n_features, np.int64)
        small = columns.max_bins is not None
        self._dtype: Any = np.uint8 if small else np.int32
        members: list[NDArray[np.int32]] = [np.zeros(0, np.int32)] * self.n_features
        codes: list[NDArray[Any]] = [np.zeros(0, self._dtype)] * self.n_features
        keep_codes = len(pairs.pairs.lower) > 0
        shape = (self.n_features, self.n_rows) if keep_codes else (0, 0)
        self._code_of = np.full(shape, -1, np.int32)

        def read(feature: int) -> None:
            column = columns.read(feature).spelled_out(self.n_rows)
            self.abstains[feature] = column.abstains
            members[feature], codes[feature], code_of = self._group(feature, column)
            if keep_codes:
                self._code_of[feature] = code_of

        self._each_feature(read)
        self._ptr = _pointers(members)
        self._members, self._codes = _take_all(members), _take_all(codes)

    def _group(self, feature: int, column: Column) -> tuple[Any, Any, Any]:
        from rankwright.rankers.boosting import _kernels

        levels = self._levels
        code_of = np.full(self.n_rows, -1, np.int32)
        self._n_cuts[feature] = _kernels.write_codes(column.rows, column.starts, code_of)
        members = np.empty(len(levels.list), np.int32)
        codes = np.empty(len(levels.list), self._dtype)
        room = np.zeros(levels.n_queries + 1, np.int64)
        n = _kernels.group_by_query(
            column.rows, levels.ptr, levels.list, levels.query_of, room, code_of, members, codes
        )
        return members[:n], codes[:n], code_of

    def scan(self, pairs: PairDistribution, asked: Asked) -> FloatArray:
        self._levels.prepare(pairs)
        wanted = np.zeros(len(asked[0]))
        by_feature: dict[int, list[int]] = {}
        for place, feature in enumerate(asked[0].tolist()):
            by_feature.setdefault(feature, []).append(place)
        self._each_feature(
            lambda feature: self._scan_feature(
                feature, pairs, asked, by_feature.get(feature, []), wanted
            )
        )
        return wanted

    def _scan_feature(
        self, feature: int, pairs: PairDistribution, asked: Asked, places: list[int], wanted: Any
    ) -> None:
        from rankwright.rankers.boosting import _kernels

        gains, n_cuts = self.gains, int(self._n_cuts[feature])
        dust, tolerance = self.dust * pairs.total, 0.1 * self.margin * pairs.total
        for default in range(2 if self.abstains[feature] else 1):
            right, wrong = self._changes(feature, pairs, default)
            none_hit = _kernels.signed_gain(right[n_cuts + 1], wrong[n_cuts + 1], dust)
            high, high_cut, low, low_cut, listed = _kernels.best_changes(
                right, wrong, n_cuts, tolerance, dust
            )
            both = [default] if self.abstains[feature] else [0, 1]
            gains.top[both, feature], gains.top_cut[both, feature] = high, high_cut
            gains.bottom[both, feature], gains.bottom_cut[both, feature] = low, low_cut
            if default == 0:
                gains.listed[feature] = listed
            for place in places:
                cut, same = int(asked[1][place]), asked[2][place] in both
                if same:
                    wanted[place] = (
                        none_hit
                        if cut == n_cuts
                        else _kernels.signed_gain(right[cut + 1], wrong[cut + 1], dust)
                    )

    def _changes(
        self, feature: int, pairs: PairDistribution, default: int
    ) -> tuple[FloatArray, FloatArray]:
        from rankwright.rankers.boosting import _kernels

        base = int(self._n_cuts[feature]) + 1
        right, wrong = np.zeros(base + 1), np.zeros(base + 1)
        if len(pairs.levels.member):
            _kernels.level_changes(
                self._members, self._codes, *self._ptr[feature : feature + 2],
                *self._levels.arrays, default == 1, base, right, wrong,
            )  # fmt: skip
        if len(pairs.pairs.lower):
            _kernels.pair_changes(
                self._code_of[feature], pairs.pairs.lower, pairs.pairs.upper, pairs.pairs.share,
                base if default else -1, right, wrong,
            )  # fmt: skip
        return right, wrong

    def hit(self, feature: int, cut: int, default: int) -> Flags:
        rows, codes = self._entries(feature)
        hit = np.full(self.n_rows, default, np.uint8)
        hit[rows] = 0
        hit[rows[codes > cut]] = 1
        return hit

    def _entries(self, feature: int) -> tuple[Any, Any]:
        """The rows that have the feature (perhaps more than once), and their codes."""
        if len(self._code_of):
            rows = np.flatnonzero(self._code_of[feature] >= 0)
            return rows, self._code_of[feature][rows]
        entries = slice(*self._ptr[feature : feature + 2])
        return self._levels.row_of[self._members[entries]], self._codes[entries].astype(np.int64)

    def threshold(self, feature: int, cut: int) -> float:
        if cut < 0:
            return -np.inf
        rows, codes = self._entries(feature)
        return float(self._columns.values(feature, rows[codes == cut]).max())

    def listing_cut(self, feature: int) -> int:
        return -1

    def empty_cut(self, feature: int) -> int:
        return int(self._n_cuts[feature])


class _Levels:
    """The levels of a distribution as the scan by query wants them."""

    def __init__(self, term: LevelTerm, n_rows: int) -> None:
        self._term = term
        self.n_queries = len(term.query_weight)
        n_levels = np.diff(term.query_ptr)
        self.level_of = np.repeat(np.arange(len(term.grade)), np.diff(term.level_ptr))
        self.query_of = np.repeat(np.arange(self.n_queries), n_levels)[self.level_of]
        self.row_of = term.member
        self.list = np.argsort(term.member, kind="stable")
        self.ptr = np.searchsorted(term.member[self.list], np.arange(n_rows + 1))
        self._factor_ptr = np.concatenate([[0], np.cumsum(n_levels**2)]).astype(np.int64)
        self._factor = np.zeros(int(self._factor_ptr[-1]))

    def prepare(self, pairs: PairDistribution) -> None:
        from rankwright.rankers.boosting import _kernels

        t = self._term
        _kernels.pair_factors(
            t.query_ptr, t.grade, t.query_weight, t.magnitude, pairs.unit, t.high, t.low,
            self._factor_ptr, self._factor,
        )  # fmt: skip

    @property
    def arrays(self) -> tuple[Any, ...]:
        t = self._term
        return (
            self.level_of, self.query_of, t.level_ptr, t.query_ptr, self._factor_ptr, self._factor,
            t.lower_sum, t.upper_sum, t.rising, t.falling,
        )  # fmt: skip


def _pointers(pieces: list[Any]) -> IntArray:
    return np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)


def _take_all(pieces: list[Any]) -> Any:
    """All pieces in one array; each is let go as soon as it is copied."""
    ptr = _pointers(pieces)
    out = np.empty(int(ptr[-1]), pieces[0].dtype)
    for i in range(len(pieces)):
        out[ptr[i] : ptr[i + 1]] = pieces[i]
        pieces[i] = pieces[i][:0].copy()
    return out
