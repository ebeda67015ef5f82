"""Features one by one: which rows have a value, in which order, and where bins begin.

A matrix is read column by column, so that nothing here needs a second copy of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray, Matrix
from rankwright.feedback.pair_weights import pointers, power_above
from rankwright.rankers import schema
from rankwright.runtime import Team, ranges

NUMBER, ONE_LEVEL, ORDERED = range(3)  # how a feature is split: see BinnedRows
FEW_LEVELS = 4  # up to so many, a split takes one level of a categorical feature
MISSING = 255  # the code of a missing value

MAX_BINS = schema.Constraint(
    "an integer from 2 to 255 or None",
    lambda value: value is None or (schema.at_least(2).test(value) and value <= 255),
)


@dataclass(frozen=True)
class SortedColumn:
    """One feature over the rows in use.

    Attributes
    ----------
    rows : (n_entries,) int32, rows that have a value, values descending
    values : (n_entries,) float64, their values
    starts : (n_entries,) bool, where a lower bin begins: a cut may come before this entry
    implied : int
        Rows without an entry have the value zero and come before this entry; -1: they abstain, or
        there are none.
    implied_starts : bool, whether a bin begins with that group
    absent : (n_absent,) int32, rows that abstain although ``implied >= 0``
    abstains : bool, whether any row lacks the feature
    """

    rows: NDArray[np.int32]
    values: FloatArray
    starts: BoolArray
    implied: int
    implied_starts: bool
    absent: NDArray[np.int32]
    abstains: bool

    def explicit(self, n_rows: int) -> SortedColumn:
        """The same with an entry for each row of the implied group."""
        if self.implied < 0:
            return self
        rest = np.ones(n_rows, bool)
        rest[self.rows] = False
        rest[self.absent] = False
        group = np.flatnonzero(rest).astype(np.int32)
        starts = np.zeros(len(group), bool)
        starts[0] = self.implied_starts

        def insert(entries: Any, of_group: Any) -> Any:  # np.insert takes several times as long
            return np.concatenate([entries[: self.implied], of_group, entries[self.implied :]])

        return SortedColumn(
            insert(self.rows, group),
            insert(self.values, np.zeros(len(group))),
            insert(self.starts, starts),
            -1,
            False,
            self.absent,
            self.abstains,
        )


class FeatureColumns:
    """The features of the rows in use, with their values in bins.

    Parameters
    ----------
    X : (n_items, n_features) float64 array, or CSR
    rows : (n_rows,) int64, the rows of X in use, in the order in which they are numbered
    mass : (n_rows,) float64, what each row counts when bins of equal mass are made
    max_bins : int or None for a bin per value
    absent_abstains : bool, whether a row abstains where a CSR matrix has no entry
    """

    def __init__(
        self,
        X: Any,
        rows: IntArray,
        mass: FloatArray,
        max_bins: int | None,
        absent_abstains: bool = False,
    ) -> None:
        self.is_sparse = hasattr(X, "tocsc")
        self.n_rows, self.n_features, self.max_bins = len(rows), int(X.shape[1]), max_bins
        self._X, self._rows, self._mass = X, rows, integer_mass(mass)
        self._absent_abstains = absent_abstains
        if self.is_sparse:
            self._sparse = X[rows].tocsc()
            self._sparse.sum_duplicates()
            if not absent_abstains:
                self._sparse.eliminate_zeros()

    def read(self, feature: int, stable: bool = True) -> SortedColumn:
        """One feature, sorted and binned; equal values keep the order of the rows if ``stable``."""
        rows, values, absent, n_implied = (
            self._read_sparse(feature) if self.is_sparse else self._read_dense(feature)
        )
        order = np.argsort(-values, kind="stable" if stable else None)
        values, sorted_rows = values[order], rows[order].astype(np.int32)
        implied = int(np.searchsorted(-values, 0.0)) if n_implied else -1
        starts, implied_starts = self._starts(sorted_rows, values, implied, absent)
        abstains = len(rows) + n_implied < self.n_rows
        return SortedColumn(
            sorted_rows, values, starts, implied, implied_starts, absent.astype(np.int32), abstains
        )

    @property
    def n_entries(self) -> int:
        """The number of values that are present; where zeros are left out, they are present too."""
        if not self.is_sparse:
            return int(self._X.size - np.count_nonzero(np.isnan(self._X)))
        known = int(self._sparse.nnz - np.count_nonzero(np.isnan(self._sparse.data)))
        n_zeros = 0 if self._absent_abstains else self.n_rows * self.n_features - self._sparse.nnz
        return known + n_zeros

    def entries(self) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
        """Every value that is not missing, row by row: where rows start, features, values."""
        if self.is_sparse:
            table = self._sparse.tocsr()
            row = np.repeat(np.arange(self.n_rows), np.diff(table.indptr))
            feature, value = table.indices, np.asarray(table.data, np.float64)
            known = ~np.isnan(value)
            row, feature, value = row[known], feature[known], value[known]
        else:
            table = self._X[self._rows]
            row, feature = np.nonzero(~np.isnan(table))
            value = table[row, feature]
        ptr = pointers(np.bincount(row, minlength=self.n_rows))
        return ptr, feature.astype(np.int32), value

    def values(self, feature: int, rows: list[int] | IntArray | slice) -> FloatArray:
        """The values of a feature in some of the rows."""
        if not self.is_sparse:
            return np.asarray(self._X[self._rows[rows], feature])
        return np.asarray(column(self._sparse, feature)[rows])

    def _read_dense(self, feature: int) -> tuple[IntArray, FloatArray, IntArray, int]:
        column = np.ascontiguousarray(self._X[:, feature])[self._rows]
        known = np.flatnonzero(~np.isnan(column))
        return known, column[known], np.zeros(0, np.int64), 0

    def _read_sparse(self, feature: int) -> tuple[IntArray, FloatArray, IntArray, int]:
        start, stop = self._sparse.indptr[feature : feature + 2]
        rows = self._sparse.indices[start:stop].astype(np.int64)
        values = np.asarray(self._sparse.data[start:stop], dtype=np.float64)
        known = ~np.isnan(values)
        n_implied = 0 if self._absent_abstains else self.n_rows - len(rows)
        absent = rows[~known] if n_implied else np.zeros(0, np.int64)
        return rows[known], values[known], absent, n_implied

    def _starts(
        self, rows: NDArray[np.int32], values: FloatArray, implied: int, absent: IntArray
    ) -> tuple[BoolArray, bool]:
        """Where bins begin among the entries, and whether one begins with the implied group."""
        starts = np.zeros(len(rows), bool)
        starts[1:] = values[1:] < values[:-1]
        if 0 <= implied < len(rows):
            starts[implied] = True
        distinct = np.flatnonzero(starts)
        if self.max_bins is None or len(distinct) + 2 <= self.max_bins:
            return starts, implied > 0
        from rankwright.rankers.boosting._kernels.binning import find_bins

        firsts = distinct if implied == 0 else np.concatenate([[0], distinct])
        mass = np.add.reduceat(self._mass[rows], firsts)
        group = int(np.searchsorted(firsts, implied)) if implied >= 0 else -1
        if group >= 0:
            left = self._mass.sum() - mass.sum() - self._mass[absent].sum()
            mass = np.insert(mass, group, max(left, 0))
        begins = np.zeros(len(mass), bool)
        find_bins(mass[::-1].astype(np.float64), self.max_bins, begins)
        # find_bins goes right and marks the first value of each bin; here bins go left.
        downward = np.concatenate([[False], begins[1:][::-1]])
        implied_starts = group >= 0 and bool(downward[group])
        starts[:] = False
        starts[firsts] = downward if group < 0 else np.delete(downward, group)
        return starts, implied_starts


def integer_mass(mass: FloatArray, peak: float | None = None, n: int | None = None) -> IntArray:
    """Masses rounded to integers, whose sums are the same in any order.

    ``peak`` and ``n`` are the largest and the number of all masses, if these are some of them.
    """
    peak = float(mass.max(initial=0.0)) if peak is None else peak
    scale = 2.0**61 / power_above(peak, len(mass) if n is None else n)
    return np.rint(mass * scale).astype(np.int64)


class SparseBins(NamedTuple):
    """The known values row by row, as numbers of bins; bins by feature, values descending."""

    ptr: IntArray  # (n_rows + 1,) where the entries of each row start
    bin: NDArray[np.uint32]  # (n_entries,) the bin of each entry
    bin_ptr: IntArray  # (n_features + 1,) where the bins of each feature start
    abstains: BoolArray  # (n_features,) whether any row lacks the feature
    value: FloatArray  # (n_bins,) the highest value of each bin

    @classmethod
    def read(cls, columns: FeatureColumns) -> Self:
        """A bin per value, unless a feature has more values than bins are allowed."""
        from rankwright.rankers.boosting._kernels.binning import sort_entries

        ptr, feature, value = columns.entries()
        order, starts = np.empty(len(value), np.int64), np.zeros(len(value), bool)
        first = pointers(np.bincount(feature, minlength=columns.n_features))
        sort_entries(feature, value, first, order, starts)
        n_bins = np.add.reduceat(np.append(starts, False), first[:-1], dtype=np.int64)
        n_bins[first[:-1] == first[1:]] = 0
        if columns.max_bins is not None:
            for number in np.flatnonzero(n_bins >= columns.max_bins).tolist():
                lower = slice(first[number] + 1, first[number + 1])
                starts[lower] = columns.read(number).starts[1:]
                n_bins[number] = 1 + starts[lower].sum()
        bin_of = np.empty(len(value), np.uint32)
        bin_of[order] = np.cumsum(starts) - 1
        abstains = np.diff(first) < columns.n_rows
        return cls(ptr, bin_of, pointers(n_bins), abstains, value[order[starts]])


class BinnedRows(NamedTuple):
    """Rows as codes of bins, four features to a word; code 255 is a missing value.

    Splits of a number send the codes above a threshold to the right. Those of a categorical feature
    with few levels send one level there. A feature with many levels is split as a number whose
    codes are in the order of a statistic of the levels, which each tree computes for itself; the
    side on the right must have the higher value.
    """

    codes: NDArray[np.uint32]  # (n_blocks, n_rows)
    n_bins: IntArray  # (n_features,) without the one of missing values
    kind: NDArray[np.uint8]  # (n_features,) NUMBER, ONE_LEVEL or ORDERED
    monotone: NDArray[np.int8]  # (n_features,) +1, -1 or 0: the direction that a feature must keep


@dataclass(frozen=True)
class QuantileBins:
    """What the bins of each feature are.

    Attributes
    ----------
    edges : list of (n_bins - 1,) float64, ascending
        A value is in the bin whose number is the count of edges below it. Of a categorical feature:
        its levels. A feature with few levels has a bin for each, and one after them for all other
        values; for those with more see :mod:`rankwright.rankers.boosting.categories`.
    categorical : (n_features,) bool
    """

    edges: list[FloatArray]
    categorical: BoolArray

    @property
    def ordered(self) -> BoolArray:
        """Which features are categorical with many levels."""
        many = np.array([len(edges) > FEW_LEVELS for edges in self.edges], bool)
        return many & self.categorical

    @classmethod
    def learn(
        cls,
        X: Matrix,
        rows: IntArray,
        count: IntArray,
        max_bins: int,
        categorical: BoolArray,
        pool: Team,
        max_levels: int | None = None,
    ) -> Self:
        """Bins of about as many rows each, with edges halfway between two values.

        count : (n_rows,) how many rows each of the rows counts as
        max_levels : the most levels of a categorical feature; None for all
        """
        X = X.tocsc() if hasattr(X, "tocsc") else X
        edges: list[FloatArray] = [np.zeros(0)] * X.shape[1]
        whole = len(rows) == X.shape[0] and bool((np.diff(rows) > 0).all())
        ones = bool((count == 1).all())

        def learn(bounds: tuple[int, int]) -> None:
            for feature in range(*bounds):
                values = column(X, feature)
                values = values if whole else values[rows]
                distinct, mass = distinct_values(values, None if ones else count)
                if categorical[feature]:
                    edges[feature] = find_levels(distinct, mass, max_levels)
                else:
                    edges[feature] = find_edges(distinct, mass, max_bins)

        pool.map(learn, ranges(X.shape[1], 4 * pool.threads))
        return cls(edges, categorical)

    def encode(self, X: Matrix, rows: IntArray | None, pool: Team) -> NDArray[np.uint32]:
        """The codes of rows of X (all of them without ``rows``), four features to a word.

        Those of features with many levels differ from tree to tree; here they are 0.
        """
        from rankwright.rankers.boosting._kernels.binning import encode_values

        X = X.tocsc() if hasattr(X, "tocsc") else X
        n_blocks, n = -(-len(self.edges) // 4), X.shape[0] if rows is None else len(rows)
        codes, ordered = np.zeros((n_blocks, n), np.uint32), self.ordered

        def encode(bounds: tuple[int, int]) -> None:
            for feature in range(4 * bounds[0], min(4 * bounds[1], len(self.edges))):
                if ordered[feature]:
                    continue
                values, known = column(X, feature), self.edges[feature]
                values = values if rows is None else values[rows]
                if self.categorical[feature]:
                    values = _level_codes(values, known)
                    known = np.arange(len(known), dtype=np.float64)
                encode_values(values, known, 8 * (feature % 4), codes[feature // 4])

        pool.map(encode, ranges(n_blocks, 2 * pool.threads))
        return codes

    def binned(self, X: Matrix, rows: IntArray, monotone: ArrayLike, pool: Team) -> BinnedRows:
        return self.coded(self.encode(X, rows, pool), monotone)

    def coded(self, codes: NDArray[np.uint32], monotone: ArrayLike) -> BinnedRows:
        """Rows whose codes are known."""
        sizes = np.array([len(edges) for edges in self.edges], np.int64)
        kind = np.where(self.categorical, np.where(self.ordered, ORDERED, ONE_LEVEL), NUMBER)
        return BinnedRows(
            codes,
            np.minimum(sizes + 1, MISSING),
            kind.astype(np.uint8),
            np.asarray(monotone, np.int8),
        )

    def name_split(
        self, feature: int, bin_threshold: int, goes_right: NDArray[np.uint8]
    ) -> tuple[float, FloatArray]:
        """The value that codes above the bin threshold exceed, and the levels that go right.

        ``goes_right`` is by code; for a categorical feature, by level.
        """
        edges = self.edges[feature]
        if self.categorical[feature]:
            return 0.0, edges[goes_right[: len(edges)] == 1]
        return (-np.inf if bin_threshold < 0 else float(edges[bin_threshold])), np.zeros(0)


def column(X: Matrix, feature: int) -> FloatArray:
    """One column of an array or a CSC matrix, where what is not stored is zero."""
    if isinstance(X, np.ndarray):
        return np.ascontiguousarray(X[:, feature])
    values = np.zeros(X.shape[0])
    entries = slice(*X.indptr[feature : feature + 2])
    values[X.indices[entries]] = X.data[entries]
    return values


def distinct_values(values: FloatArray, count: IntArray | None) -> tuple[FloatArray, FloatArray]:
    """The values that are not missing, in ascending order, and how many rows have each."""
    known = ~np.isnan(values)
    if count is None:
        ordered = np.sort(values if known.all() else values[known])
        if not len(ordered):
            return ordered, np.zeros(0)
        new = np.flatnonzero(np.concatenate([[True], ordered[1:] > ordered[:-1]]))
        return ordered[new], np.diff(np.append(new, len(ordered))).astype(np.float64)
    distinct, index = np.unique(values[known], return_inverse=True)
    return distinct, np.bincount(index, count[known], len(distinct)).astype(np.float64)


def find_edges(distinct: FloatArray, mass: FloatArray, max_bins: int) -> FloatArray:
    """The edges of bins of about as many rows each."""
    from rankwright.rankers.boosting._kernels.binning import find_bins

    if len(distinct) < 2:
        return np.zeros(0)
    starts = np.zeros(len(distinct), bool)
    find_bins(mass, max_bins, starts)
    upper = np.flatnonzero(starts)
    low, high = distinct[upper - 1], distinct[upper]
    middle = low / 2 + high / 2  # halves, because a sum of two finite numbers may be infinite
    return np.where((middle >= low) & (middle < high), middle, low)


def find_levels(distinct: FloatArray, mass: FloatArray, max_levels: int | None) -> FloatArray:
    """The most frequent levels, in ascending order of value."""
    frequent = np.argsort(-mass, kind="stable")[:max_levels]
    return np.asarray(distinct[np.sort(frequent)]) + 0.0  # there is one zero


def _level_codes(values: FloatArray, known: FloatArray) -> FloatArray:
    """The number of each value's level as a float; unknown: their number, missing: NaN."""
    index = np.searchsorted(known, values)
    hit = (
        known[np.minimum(index, len(known) - 1)] == values
        if len(known)
        else np.zeros(len(values), bool)
    )
    return np.where(np.isnan(values), np.nan, np.where(hit, index, len(known)).astype(np.float64))
