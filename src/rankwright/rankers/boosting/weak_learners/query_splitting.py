"""Criterion z: the best cut of every feature by the exact weights of the pairs that it orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.feedback.pair_weights import Binary, GradeGroups, PairDistribution, pointers
from rankwright.rankers.boosting.binning import FeatureColumns, SortedColumn
from rankwright.rankers.boosting.weak_learners.splitting import (
    Bins,
    Cuts,
    Int32Array,
    Scan,
    concatenate,
)
from rankwright.runtime import Team, ranges

MANY_FEATURES = 1000  # of sparse rows, above which those that cannot be best are left out
SCANNED = 64  # features between two looks at the best gain so far
TIED = 4e-9  # gains that differ by less may count as equal


class PresentEntries(NamedTuple):
    """The documents that have each feature, query by query, values descending."""

    document: Int32Array  # (n_entries,)
    code: NDArray[Any]  # (n_entries,) uint8 or int32
    query_ptr: IntArray  # (n_features, n_queries + 1) where the entries of a query start


class FeatureBlock(NamedTuple):
    """Some features, each with a default, and what their codes change."""

    feature: IntArray  # (n,)
    default: IntArray  # (n,) 1: documents that lack the feature are raised first, at the base
    base: IntArray  # (n,) one above the highest code
    changes: FloatArray  # (n, max(base) + 1, 2) of the weight of right and of wrong pairs


class Effects(NamedTuple):
    """What raising a document (h = 1) changes: its numbers, or those of its level (per_query.py).

    For queries with many levels, the factor of two levels is a product of one for each. That loses
    weights below e**-700, which only matter where scores within one query are that far apart.
    """

    level_of: Int32Array  # (n_documents,) the level inside the query
    factor_ptr: IntArray  # (n_queries + 1,) no factors for a query with many levels
    factors: FloatArray  # [lower level, upper level] what rising * falling is multiplied by
    quad_ptr: IntArray  # (n_queries + 1,) first four numbers of all documents, then the next four
    quads: FloatArray  # (n_quads, 8) what a document reads of four numbers by, and what it adds
    sides: FloatArray  # (n_documents, 2) the weight of all pairs as upper, and as lower
    as_low: FloatArray  # (n_levels,) factor of a level with many others, as the lower of pairs
    as_up: FloatArray  # (n_levels,)

    @classmethod
    def empty(cls, levels: GradeGroups) -> Self:
        from rankwright.rankers.boosting._kernels.per_query import MAX_LEVELS

        heights, level = np.diff(levels.query_ptr), levels.level
        few = heights <= MAX_LEVELS
        factor_ptr = pointers(np.where(few, heights**2, 0))
        sizes = np.diff(levels.level_ptr[levels.query_ptr])
        quad_ptr = pointers(np.where(few, heights // 2, 0) * sizes)
        return cls(
            (level - levels.query_ptr[levels.query[level]]).astype(np.int32),
            factor_ptr,
            np.zeros(int(factor_ptr[-1])),
            quad_ptr,
            np.zeros((int(quad_ptr[-1]), 8)),
            np.zeros((len(level), 2)),
            np.zeros(len(levels.grade)),
            np.zeros(len(levels.grade)),
        )


class GainBounds:
    """Upper bounds on the gain 1 - Z of features in which few rows differ from all others.

    A row that moves by x multiplies the weight ``up`` of its pairs as upper by exp(-x), and the
    weight ``low`` of its pairs as lower by exp(x): Z falls by (sqrt(up) - sqrt(low))**2 at most.
    What rows of different queries gain adds up. Rows of one query have pairs in common, where one
    may undo what the other loses: each gains max(up, low) at most.

    Parameters
    ----------
    rows : list of (n,) arrays, for each feature the rows that differ from the others
    """

    def __init__(self, rows: list[Any], pairs: PairDistribution) -> None:
        self._rows, levels = np.concatenate(rows), pairs.levels
        self._feature = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
        self._in_common = np.ones(len(self._rows), bool)
        if levels.direct and not len(pairs.pairs.lower):
            query = levels.query[levels.level][self._rows]
            cell = self._feature * len(levels.query_weight) + query
            _, number, count = np.unique(cell, return_inverse=True, return_counts=True)
            self._in_common = count[number] > 1
        self._n_features = len(rows)

    def at(self, pairs: PairDistribution) -> FloatArray:
        """The bounds at the present weights, in the unit of the potentials."""
        up, low = (np.maximum(pairs.mass + sign * pairs.potential, 0.0) / 2 for sign in (1, -1))
        # A root magnifies the rounding of the difference.
        alone = np.square(np.sqrt(up) - np.sqrt(low)) + 1e-7 * pairs.mass
        fall = np.where(self._in_common, np.maximum(up, low)[self._rows], alone[self._rows])
        return np.bincount(self._feature, fall, self._n_features).astype(np.float64)

    def candidates(
        self, pairs: PairDistribution, earlier: Cuts, best_gain: Callable[[], float]
    ) -> Iterator[IntArray]:
        """Features by descending bound until no other can be best; first those chosen earlier."""
        bounds = self.at(pairs)
        order = np.argsort(-bounds, kind="stable")
        yield np.unique(earlier.feature).astype(np.int64)
        for start in range(0, self._n_features, SCANNED):
            least = (1.0 - 1e-9) * best_gain() - TIED * pairs.total
            if bounds[order[start]] < least:
                break
            yield order[start : start + SCANNED]


class PerQueryScan(Scan):
    """Rows sorted by each feature within each query, for the exact weights of the pairs that a
    cut orders rightly and wrongly (criterion z); cut c has h = 1 for the codes above c."""

    margin = 1e-9  # gains hold the root of a weight, which magnifies rounding
    rounding = 1e-13

    def __init__(self, columns: FeatureColumns, pool: Team, pairs: PairDistribution) -> None:
        super().__init__(columns, pool)
        levels = pairs.levels
        self._effects = Effects.empty(levels)
        self._many = np.flatnonzero(np.diff(self._effects.factor_ptr) == 0).tolist()
        n_queries = len(levels.query_weight)
        self._query_parts = ranges(n_queries, pool.threads)
        self._bins = Bins(
            np.zeros((0, 0), np.uint32), np.zeros(self.n_features, np.int64), self.abstains
        )
        self._dtype: Any = np.int32 if columns.max_bins is None else np.uint8
        self._document_row = levels.row
        documents = np.argsort(levels.row, kind="stable")
        ptr = np.searchsorted(levels.row[documents], np.arange(self.n_rows + 1))
        self._documents_of = ptr, documents
        self._query_of = levels.query[levels.level]
        pieces: list[Any] = [None] * self.n_features
        codes: list[Any] = [None] * self.n_features
        query_ptr = np.zeros((self.n_features, n_queries + 1), np.int64)
        has_pairs = len(pairs.pairs.lower) > 0
        shape = (self.n_features, self.n_rows) if has_pairs else (0, 0)
        self._code_of = np.full(shape, -1, np.int32)  # by row, which only lists of pairs need

        self._bounds: GainBounds | None = None
        self.may_leave_out = columns.is_sparse and self.n_features > MANY_FEATURES
        different: list[Any] = [None] * self.n_features

        def read(feature: int) -> None:
            column = columns.read(feature)
            if self.may_leave_out:
                different[feature] = np.concatenate([column.rows, column.absent])
            column = column.explicit(self.n_rows)
            self.abstains[feature] = column.abstains
            pieces[feature], codes[feature], code_of = self._group(
                feature, column, query_ptr[feature]
            )
            if has_pairs:
                self._code_of[feature] = code_of

        self._each_feature(read)
        self._ptr, document = concatenate(pieces)
        query_ptr += self._ptr[:-1, None]
        self._entries = PresentEntries(document, concatenate(codes)[1], query_ptr)
        if self.may_leave_out:
            self._bounds = GainBounds(different, pairs)
        self._tasks = self._cut_tasks(np.arange(self.n_features))
        self._shape = len(self._tasks[0][0]), int(self._bins.n_cuts.max()) + 2, 2
        self._free: list[FloatArray] = []  # buffers for changes, one for each thread

    def _group(
        self, feature: int, column: SortedColumn, query_ptr: IntArray
    ) -> tuple[Any, Any, Any]:
        from rankwright.rankers.boosting._kernels.binning import write_codes
        from rankwright.rankers.boosting._kernels.per_query import group_by_query

        code_of = np.full(self.n_rows, -1, np.int32)
        self._bins.n_cuts[feature] = write_codes(column.rows, column.starts, code_of)
        documents = np.empty(len(self._query_of), np.int32)
        codes = np.empty(len(documents), self._dtype)
        n = group_by_query(
            column.rows, self._documents_of, self._query_of, query_ptr, code_of, documents, codes
        )
        return documents[:n], codes[:n], code_of

    def _cut_tasks(self, features: IntArray) -> list[tuple[IntArray, IntArray]]:
        """Features with the defaults to try, in blocks."""
        again = features[self.abstains[features]]
        defaults = np.repeat([0, 1], [len(features), len(again)])
        features = np.concatenate([features, again])
        # The features of a block share the cache: all their codes must fit in it.
        fair = len(features) // (2 * self._pool.threads)
        size = max(1, min(32, fair, 40_000 // (int(self._bins.n_cuts.max()) + 2)))
        return [
            (features[start : start + size], defaults[start : start + size])
            for start in range(0, len(features), size)
        ]

    def scan(
        self, pairs: PairDistribution, earlier: Cuts, best_gain: Callable[[], float] | None = None
    ) -> FloatArray:
        """As in ``Scan``; ``best_gain`` gives the gain of the best feature that may be used."""
        from rankwright.rankers.boosting._kernels import per_query as _kernels

        self._describe(pairs)
        earlier_gain = np.zeros(len(earlier.feature))

        def scan_block(task: tuple[IntArray, IntArray]) -> None:
            buffer = self._free.pop() if self._free else np.empty(self._shape)
            block = FeatureBlock(*task, self._bins.n_cuts[task[0]] + 1, buffer[: len(task[0])])
            self._add_changes(block, pairs)
            _kernels.gains_of_changes(
                block, self._bins, 0.1 * self.margin * pairs.total, self.rounding * pairs.total,
                earlier, earlier_gain, self.gains,
            )  # fmt: skip
            self._free.append(buffer)

        if best_gain is None or self._bounds is None:
            self._pool.map(scan_block, self._tasks)
            return earlier_gain
        for values in (self.gains.top, self.gains.bottom, self.gains.present):
            values[:] = 0.0
        for features in self._bounds.candidates(pairs, earlier, best_gain):
            self._pool.map(scan_block, self._cut_tasks(features))
        return earlier_gain

    def _describe(self, pairs: PairDistribution) -> None:
        """Compute the effects at the present scores."""
        from rankwright.rankers.boosting._kernels.per_query import describe_documents

        levels, state, effects = pairs.levels, pairs.state, self._effects
        self._pool.map(
            lambda part: describe_documents(levels, state, effects, pairs.unit, *part),
            self._query_parts,
        )
        if self._many:
            middle = np.maximum.reduceat(state.high, levels.query_ptr[:-1])[levels.query]
            effects.as_low[:] = np.exp(np.clip(state.high - middle, -700.0, 700.0))
            effects.as_up[:] = np.exp(np.clip(middle - state.low - pairs.unit, -700.0, 700.0))
            effects.as_up[:] *= levels.query_weight[levels.query]

    def _add_changes(self, block: FeatureBlock, pairs: PairDistribution) -> None:
        from rankwright.rankers.boosting._kernels import per_query as _kernels

        block.changes[:] = 0.0
        arrays = block, self._entries, pairs.levels, pairs.state, self._effects
        _kernels.level_changes(*arrays)
        for query in self._many:
            _kernels.many_level_changes(query, *arrays)
        if len(pairs.pairs.lower):
            for i, feature in enumerate(block.feature.tolist()):
                absent_code = int(block.base[i]) if block.default[i] else -1
                _kernels.pair_changes(
                    self._code_of[feature], pairs.pairs, absent_code, block.changes[i]
                )

    def h(self, feature: int, cut: int, default: int) -> Binary:
        rows, codes = self._codes(feature)
        h = np.full(self.n_rows, default, np.uint8)
        h[rows] = 0
        h[rows[codes > cut]] = 1
        return h

    def _codes(self, feature: int) -> tuple[Any, Any]:
        """The rows that have the feature (perhaps more than once), and their codes."""
        if len(self._code_of):
            rows = np.flatnonzero(self._code_of[feature] >= 0)
            return rows, self._code_of[feature][rows]
        entries = slice(*self._ptr[feature : feature + 2])
        document, code, _ = self._entries
        return self._document_row[document[entries]], code[entries].astype(np.int64)

    def threshold(self, feature: int, cut: int) -> float:
        if cut < 0:
            return -np.inf
        rows, codes = self._codes(feature)
        return float(self._columns.values(feature, rows[codes == cut]).max())

    def empty_cut(self, feature: int) -> int:
        return int(self._bins.n_cuts[feature])
