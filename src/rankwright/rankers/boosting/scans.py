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
        self._ptr = _pointers(pieces)
        self._order = _take_all(pieces)
        self._absent_ptr = _pointers(absent)
        self._absent = _take_all(absent)
        # Blocks of whole pairs: the kernel takes two columns at a time.
        twos = ranges(-(-self.n_features // 2), len(self.blocks))
        self._pairs = [(2 * a, min(2 * b, self.n_features)) for a, b in twos]
        self._marks = np.zeros((self.n_features, self.n_rows // 128 + 1, 3))

    def scan(self, pairs: Weighted, asked: Asked) -> FloatArray:
        from rankwright.rankers.boosting import _kernels

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
        self._levels = Levels(pairs.levels, self.n_rows)
        self._n_cuts = np.zeros(self.n_features, np.int64)
        self._dtype: Any = np.int32 if columns.max_bins is None else np.uint8
        members: list[NDArray[np.int32]] = [np.zeros(0, np.int32)] * self.n_features
        codes: list[NDArray[Any]] = [np.zeros(0, self._dtype)] * self.n_features
        self._runs = np.zeros((self.n_features, self._levels.n_queries + 1), np.int64)
        listed = len(pairs.pairs.lower) > 0
        self._code_of = np.full((self.n_features, self.n_rows) if listed else (0, 0), -1, np.int32)

        def read(feature: int) -> None:
            column = columns.read(feature).spelled_out(self.n_rows)
            self.abstains[feature] = column.abstains
            members[feature], codes[feature], code_of = self._group(feature, column)
            if listed:
                self._code_of[feature] = code_of

        self._each_feature(read)
        self._ptr = _pointers(members)
        self._runs += self._ptr[:-1, None]
        self._members, self._codes = _take_all(members), _take_all(codes)

    def _group(self, feature: int, column: Column) -> tuple[Any, Any, Any]:
        from rankwright.rankers.boosting import _kernels

        levels = self._levels
        code_of = np.full(self.n_rows, -1, np.int32)
        self._n_cuts[feature] = _kernels.write_codes(column.rows, column.starts, code_of)
        members = np.empty(len(levels.list), np.int32)
        codes = np.empty(len(levels.list), self._dtype)
        n = _kernels.group_by_query(
            column.rows, levels.ptr, levels.list, levels.query_of, self._runs[feature], code_of,
            members, codes,
        )  # fmt: skip
        return members[:n], codes[:n], code_of

    def scan(self, pairs: PairDistribution, asked: Asked) -> FloatArray:
        self._levels.prepare(pairs.unit)
        wanted = np.zeros(len(asked[0]))
        again = np.flatnonzero(self.abstains)
        features = np.concatenate([np.arange(self.n_features), again])
        defaults = np.repeat([0, 1], [self.n_features, len(again)])
        # Features of a block share the cache; all codes of all of them must fit beside it.
        fair = len(features) // (2 * self._team.threads)
        size = max(1, min(32, fair, 40_000 // (int(self._n_cuts.max()) + 2)))
        blocks = [
            (features[start : start + size], defaults[start : start + size])
            for start in range(0, len(features), size)
        ]
        self._team.map(lambda block: self._scan_block(*block, pairs, asked, wanted), blocks)
        return wanted

    def _scan_block(
        self,
        features: IntArray,
        defaults: IntArray,
        pairs: PairDistribution,
        asked: Asked,
        wanted: FloatArray,
    ) -> None:
        from rankwright.rankers.boosting import _kernels

        _kernels.gains_of_changes(
            features, defaults, self._n_cuts, self.abstains,
            *self._changes(features, defaults, pairs), 0.1 * self.margin * pairs.total,
            self.dust * pairs.total, *asked, wanted, *self.gains.arrays,
        )  # fmt: skip

    def _changes(self, features: IntArray, defaults: IntArray, pairs: PairDistribution) -> Any:
        """Per feature of a block: changes of the weights of right and wrong pairs by code."""
        from rankwright.rankers.boosting import _kernels

        bases = self._n_cuts[features] + 1
        sums = np.zeros((2, len(features), int(bases.max()) + 1))
        entries = features, self._members, self._codes, self._runs
        self._levels.add_changes(entries, (defaults == 1, bases, *sums))
        listed = pairs.pairs
        if len(listed.lower):
            for i, feature in enumerate(features.tolist()):
                _kernels.pair_changes(
                    self._code_of[feature], listed.lower, listed.upper, listed.share,
                    int(bases[i]) if defaults[i] else -1, *sums[:, i],
                )  # fmt: skip
        return sums

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


class Levels:
    """The levels of a distribution as the scan by query wants them.

    Queries with few levels have a table of factors between any two levels. For those with many
    the factor of two levels is a product of one for each; that loses weights below e**-700, which
    only matter where scores inside one query are that far apart.
    """

    def __init__(self, term: LevelTerm, n_rows: int) -> None:
        self._term = term
        self.n_queries = len(term.query_weight)
        n_levels = np.diff(term.query_ptr)
        level = np.repeat(np.arange(len(term.grade)), np.diff(term.level_ptr))
        self._query = np.repeat(np.arange(self.n_queries), n_levels)
        self.query_of = self._query[level]
        self._level_of = (level - term.query_ptr[self.query_of]).astype(np.int32)
        self.row_of = term.member
        self.list = np.argsort(term.member, kind="stable")
        self.ptr = np.searchsorted(term.member[self.list], np.arange(n_rows + 1))
        widths = np.array([4, 8, 32, 0])  # the tables that the kernel has loops for
        self._widths = widths[np.searchsorted(widths[:3], n_levels)]
        sizes = np.concatenate([[0], np.cumsum(2 * self._widths**2)]).astype(np.int64)
        self._table_ptr, self._tables = sizes[:-1], np.zeros(int(sizes[-1]))
        self._wide = np.flatnonzero(self._widths == 0)
        self._factors = np.zeros((2, len(term.grade)))

    def prepare(self, unit: float) -> None:
        """Compute the factors for the present scores; ``unit`` is the logarithm of the unit."""
        from rankwright.rankers.boosting import _kernels

        t = self._term
        _kernels.pair_factors(
            t.query_ptr, t.grade, t.query_weight, t.magnitude, unit, t.high, t.low, *self._table,
        )  # fmt: skip
        if len(self._wide):
            middle = np.maximum.reduceat(t.high, t.query_ptr[:-1])[self._query]
            low, up = t.high - middle, middle - t.low - unit
            self._factors[:] = np.exp(np.clip([low, up], -700.0, 700.0))
            self._factors[1] *= t.query_weight[self._query]

    @property
    def _table(self) -> tuple[Any, ...]:
        return self._widths, self._table_ptr, self._tables

    def add_changes(self, entries: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Add what the members of some features change, at their codes (see level_changes)."""
        from rankwright.rankers.boosting import _kernels

        t = self._term
        state = t.lower_sum, t.upper_sum, t.rising, t.falling
        place = self._level_of, t.level_ptr, t.query_ptr
        _kernels.level_changes(*entries, *place, *self._table, *state, *out)
        for query in self._wide.tolist():
            _kernels.wide_changes(
                query, *entries, *place, t.grade, t.magnitude, *self._factors, *state, *out
            )


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
