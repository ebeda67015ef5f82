"""The best cut of every feature by the exact weights of the pairs that it orders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.parallel import Team, ranges
from rankwright.rankers.boosting.binning import Column, Columns
from rankwright.rankers.boosting.pair_weights import Flags, LevelTerm, PairDistribution, pointers
from rankwright.rankers.boosting.splitting import Asked, Scan, take_all


class Levels:
    """The levels of a distribution as the scan by query wants them.

    Queries with few levels have factors between any two levels. For those with many the factor of
    two levels is a product of one for each; that loses weights below e**-700, which only matter
    where scores inside one query are that far apart.
    """

    def __init__(self, term: LevelTerm, n_rows: int, team: Team) -> None:
        from rankwright.rankers.boosting._kernels.per_query import MAX_LEVELS

        self._term, self._team = term, team
        self.n_queries = len(term.query_weight)
        n_levels = np.diff(term.query_ptr)
        level = np.repeat(np.arange(len(term.grade)), np.diff(term.level_ptr))
        self._query = np.repeat(np.arange(self.n_queries), n_levels)
        self.query_of = self._query[level]
        self._level_of = (level - term.query_ptr[self.query_of]).astype(np.int32)
        self.row_of = term.member
        self.list = np.argsort(term.member, kind="stable")
        self.ptr = np.searchsorted(term.member[self.list], np.arange(n_rows + 1))
        few = n_levels <= MAX_LEVELS
        self._wide, self._wide_factors = np.flatnonzero(~few), np.zeros((2, len(term.grade)))
        self._factor_ptr = pointers(np.where(few, n_levels**2, 0))
        self._factors = np.zeros(int(self._factor_ptr[-1]))
        n_quads = np.where(few, n_levels // 2, 0) * np.diff(term.level_ptr[term.query_ptr])
        self._quad_ptr = pointers(n_quads)
        self._quads = np.zeros((int(self._quad_ptr[-1]), 8))
        self._sides = np.zeros((len(term.member), 2))

    def prepare(self, unit: float) -> None:
        """Compute the factors for the present scores; ``unit`` is the logarithm of the unit."""
        from rankwright.rankers.boosting._kernels import per_query as _kernels

        t = self._term

        def block(bounds: tuple[int, int]) -> None:
            _kernels.describe_members(
                *bounds, t.level_ptr, t.query_ptr, t.grade, t.query_weight, t.magnitude, unit,
                t.high, t.low, *self._sums, *self._described,
            )  # fmt: skip

        self._team.map(block, ranges(self.n_queries, self._team.threads))
        if len(self._wide):
            middle = np.maximum.reduceat(t.high, t.query_ptr[:-1])[self._query]
            low, up = t.high - middle, middle - t.low - unit
            self._wide_factors[:] = np.exp(np.clip([low, up], -700.0, 700.0))
            self._wide_factors[1] *= t.query_weight[self._query]

    @property
    def _sums(self) -> tuple[Any, ...]:
        t = self._term
        return t.lower_sum, t.upper_sum, t.rising, t.falling

    @property
    def _described(self) -> tuple[Any, ...]:
        return self._factor_ptr, self._factors, self._quad_ptr, self._quads, self._sides

    def add_changes(self, entries: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Add what the members of some features change, at their codes (see level_changes)."""
        from rankwright.rankers.boosting._kernels import per_query as _kernels
        from rankwright.rankers.boosting._kernels.per_query import wide_changes

        t = self._term
        place = self._level_of, t.level_ptr, t.query_ptr
        _kernels.level_changes(*entries, *place, *self._described, *self._sums, *out)
        for query in self._wide.tolist():
            wide_changes(
                query, *entries, *place, t.grade, t.magnitude, *self._wide_factors, *self._sums,
                *out,
            )  # fmt: skip


class GroupedScan(Scan):
    """Rows sorted by each feature inside each query, for the exact weights of the pairs that a
    cut orders rightly and wrongly; cut c hits the codes above c."""

    margin = 1e-9  # gains hold the root of a weight, which magnifies rounding
    dust = 1e-13

    def __init__(self, columns: Columns, team: Team, pairs: PairDistribution) -> None:
        super().__init__(columns, team)
        self._levels = Levels(pairs.levels, self.n_rows, team)
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
        self._ptr, self._members = take_all(members)
        _, self._codes = take_all(codes)
        self._runs += self._ptr[:-1, None]
        self._tasks = self._cut_tasks()
        self._room_shape = len(self._tasks[0][0]), int(self._n_cuts.max()) + 2, 2
        self._rooms: list[FloatArray] = []  # one for each thread, made when it is first wanted

    def _group(self, feature: int, column: Column) -> tuple[Any, Any, Any]:
        from rankwright.rankers.boosting._kernels import per_query as _kernels
        from rankwright.rankers.boosting._kernels.cuts import write_codes

        levels = self._levels
        code_of = np.full(self.n_rows, -1, np.int32)
        self._n_cuts[feature] = write_codes(column.rows, column.starts, code_of)
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
        self._team.map(lambda block: self._scan_block(*block, pairs, asked, wanted), self._tasks)
        return wanted

    def _cut_tasks(self) -> list[tuple[IntArray, IntArray]]:
        """Features with the defaults to try, in blocks."""
        again = np.flatnonzero(self.abstains)
        features = np.concatenate([np.arange(self.n_features), again])
        defaults = np.repeat([0, 1], [self.n_features, len(again)])
        # Features of a block share the cache; all codes of all of them must fit beside it.
        fair = len(features) // (2 * self._team.threads)
        size = max(1, min(32, fair, 40_000 // (int(self._n_cuts.max()) + 2)))
        return [
            (features[start : start + size], defaults[start : start + size])
            for start in range(0, len(features), size)
        ]

    def _scan_block(
        self,
        features: IntArray,
        defaults: IntArray,
        pairs: PairDistribution,
        asked: Asked,
        wanted: FloatArray,
    ) -> None:
        from rankwright.rankers.boosting._kernels.per_query import gains_of_changes

        room = self._rooms.pop() if self._rooms else np.empty(self._room_shape)
        gains_of_changes(
            features, defaults, self._n_cuts, self.abstains,
            self._changes(features, defaults, pairs, room), 0.1 * self.margin * pairs.total,
            self.dust * pairs.total, *asked, wanted, *self.gains.arrays,
        )  # fmt: skip
        self._rooms.append(room)

    def _changes(
        self, features: IntArray, defaults: IntArray, pairs: PairDistribution, room: FloatArray
    ) -> FloatArray:
        """Per feature of a block: changes of the weights of right and wrong pairs by code."""
        from rankwright.rankers.boosting._kernels import per_query as _kernels

        bases = self._n_cuts[features] + 1
        changes = room[: len(features)]
        changes[:] = 0.0
        entries = features, self._members, self._codes, self._runs
        self._levels.add_changes(entries, (defaults == 1, bases, changes))
        listed = pairs.pairs
        if len(listed.lower):
            for i, feature in enumerate(features.tolist()):
                _kernels.pair_changes(
                    self._code_of[feature], listed.lower, listed.upper, listed.share,
                    int(bases[i]) if defaults[i] else -1, changes[i],
                )  # fmt: skip
        return changes

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
