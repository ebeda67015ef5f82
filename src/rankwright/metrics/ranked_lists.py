"""Queries as rows of a matrix, sorted by score once for all measures.

Measures work on :class:`RankedLists`: a block of queries of similar size, each a row sorted from
the best score to the worst and padded with NaN. A block fits in the processor's cache, and memory
stays bounded for any number of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.queries import Queries

BLOCK_CELLS = 1 << 16  # half a megabyte per matrix: several fit in the second-level cache
FEW_CELLS = 1 << 14  # up to so many, padding costs less than another block


def group_begins(ordered: NDArray[Any]) -> BoolArray:
    """Where a new group of equal values begins in sorted rows (NaN never equals NaN)."""
    begins = np.ones(ordered.shape, np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    return begins


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Which ranks of each row share one score; every array has the shape of the block."""

    number: IntArray  # the group of each rank, counted through the whole block
    first: IntArray  # the rank (0-based) at which its group begins
    size: IntArray  # how many items the group holds

    @classmethod
    def of(cls, begins: BoolArray) -> TieGroups:
        """Groups from the marks "a new group begins here" (always true in the first column)."""
        number = (np.cumsum(begins) - 1).reshape(begins.shape)
        start = np.flatnonzero(begins)
        size = np.diff(start, append=begins.size)
        return cls(number, (start % begins.shape[1])[number], size[number])

    @classmethod
    def of_sorted(cls, ordered: NDArray[Any]) -> TieGroups:
        """Groups of equal values in sorted rows."""
        return cls.of(group_begins(ordered))

    def sum(self, values: NDArray[Any]) -> FloatArray:
        """The sum over its group, at every rank."""
        weights = values.reshape(-1).astype(np.float64, copy=False)
        totals: NDArray[Any] = np.bincount(self.number.reshape(-1), weights=weights)
        return totals[self.number]


@dataclass(frozen=True, eq=False)
class RankedLists:
    """A block of queries, one per row, each sorted from the best score to the worst."""

    query: IntArray  # (n_rows,) which query each row is
    sizes: IntArray  # (n_rows,) how many items it has; NaN follows
    scores: FloatArray  # (n_rows, width)
    grades: FloatArray  # (n_rows, width), in the order of the scores
    others: Mapping[str, FloatArray] = field(default_factory=dict)  # "predictions", "judged"
    ties: TieGroups | None = None  # to average over; None without ties, or if a rule broke them
    block: QueryBlock | None = None  # where the lists come from
    row: IntArray | None = None  # which rows of the block they are; None if all
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def width(self) -> int:
        return int(self.grades.shape[1])

    @property
    def predictions(self) -> FloatArray:
        """Predictions in the units of the grades; the scores where none were given."""
        return self.others.get("predictions", self.scores)

    @property
    def judged(self) -> FloatArray:
        """1.0 for items that were judged (all, unless some are marked), 0.0 for others, padding."""
        judged = self.others.get("judged", np.ones_like(self.grades))
        return np.where(np.isnan(self.grades), 0.0, judged)

    @cached_property
    def inside(self) -> BoolArray | None:
        """Which ranks are items, not padding; None when all are."""
        if self.sizes.min(initial=self.width) == self.width:
            return None
        return np.arange(self.width) < self.sizes[:, None]

    @cached_property
    def _not_retrieved(self) -> BoolArray | None:
        """Which items were not retrieved (score -inf); None when all were."""
        mask = np.isneginf(self.scores)
        return mask if mask.any() else None

    @property
    def all_retrieved(self) -> bool:
        return self._not_retrieved is None

    def zero_unretrieved(self, values: FloatArray) -> FloatArray:
        """The values with 0 for items that were not retrieved."""
        return values if self._not_retrieved is None else np.where(self._not_retrieved, 0.0, values)

    @cached_property
    def ranks(self) -> FloatArray:
        """1, 2, 3, ... along a row."""
        return np.arange(1.0, self.width + 1.0)

    def cached(self, key: object, make: Callable[[], Any]) -> Any:
        """The result of ``make()``, computed once for each key."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def of_grades(self, key: object, make: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """A value per list that no order changes: ``make`` of the grades of the whole block.

        It is computed once for each key, however often the block is sorted.
        """
        if self.block is None:
            return make(self.grades)
        known = self.block.known
        if key not in known:
            known[key] = make(self.block.columns["grades"])
        return known[key] if self.row is None else known[key][self.row]

    def expected(self, values: FloatArray) -> FloatArray:
        """The mean value at each rank over random orders of the ties."""
        return values if self.ties is None else self.ties.sum(values) / self.ties.size

    @cached_property
    def score_ties(self) -> TieGroups:
        """The groups of equal scores, whatever the tie rule."""
        return self.ties or TieGroups.of_sorted(self.scores)

    @cached_property
    def grade_codes(self) -> IntArray:
        """Grades as integers 0, 1, ... in the same order, -1 for padding."""
        order = np.argsort(self.grades, axis=1)
        begins = group_begins(np.take_along_axis(self.grades, order, axis=1))
        codes = np.empty(order.shape, np.int64)
        np.put_along_axis(codes, order, np.cumsum(begins, axis=1) - 1, axis=1)
        if self.inside is not None:
            codes[~self.inside] = -1
        return codes

    def rows(self, index: NDArray[Any], ties: TieGroups | None) -> RankedLists:
        """Some of the rows, without cached results."""
        others = {name: values[index] for name, values in self.others.items()}
        kept = (self.query[index], self.sizes[index], self.scores[index], self.grades[index])
        return RankedLists(*kept, others, ties, self.block, index)


@dataclass(frozen=True, eq=False)
class QueryBlock:
    """A block of queries before it is sorted, for one or several scores of the same items."""

    query: IntArray  # (n_rows,) which query each row is
    sizes: IntArray  # (n_rows,) how many items it has
    items: IntArray  # (n_rows, width) where the items are; -1 is padding
    columns: dict[str, FloatArray]  # (n_rows, width) grades and others, in the order given
    known: dict[Any, FloatArray] = field(default_factory=dict, repr=False)

    def ranked(self, scores: NDArray[Any], ties: str = "expected") -> Iterator[RankedLists]:
        """The lists sorted by these scores; those without ties first."""
        cut = {"scores": _cut(scores, self.items), **self.columns}
        yield from _split(_sort(self, cut, ties), ties)


def list_blocks(queries: Queries, columns: Mapping[str, NDArray[Any]]) -> Iterator[QueryBlock]:
    """Blocks of queries of similar size, with these columns: grades, and others."""
    for query in query_blocks(queries):
        items = _rows(queries, query)
        cut = {name: _cut(column, items) for name, column in columns.items()}
        yield QueryBlock(query, queries.sizes[query], items, cut)


def ranked_lists(
    scores: FloatArray,
    grades: FloatArray,
    queries: Queries,
    *,
    ties: str = "expected",
    tie_key: NDArray[Any] | None = None,
    others: Mapping[str, NDArray[Any]] | None = None,
) -> Iterator[RankedLists]:
    """Sort every query by score, block by block.

    Under ``ties="expected"`` a block either has no tied scores or says where they are; under
    "stable" (the order given), "best", "worst" and "key" (ascending ``tie_key``) ties are broken.
    """
    columns = {"grades": grades, **(others or {})}
    if tie_key is not None:
        columns["tie_key"] = tie_key
    for block in list_blocks(queries, columns):
        yield from block.ranked(scores, ties)


def query_blocks(queries: Queries) -> Iterator[IntArray]:
    """Queries of similar size together, so that there is little padding; a few of any size."""
    by_size = np.argsort(queries.sizes, kind="stable")
    by_size = by_size[np.searchsorted(queries.sizes[by_size], 1) :]  # a query may have no items
    sizes = queries.sizes[by_size]
    start = 0
    while start < len(sizes):
        widest = int(sizes[start] * 1.25) + 4
        stop = int(np.searchsorted(sizes, widest, side="right"))
        stop = min(stop, start + max(1, BLOCK_CELLS // max(1, int(sizes[stop - 1]))))
        few = sizes[start:] * np.arange(1, len(sizes) - start + 1) <= FEW_CELLS
        stop = max(stop, start + int(few.sum()))
        yield by_size[start:stop]
        start = stop


def _rows(queries: Queries, query: IntArray) -> IntArray:
    """Where the items of these queries are, a row for each query; -1 is padding."""
    sizes, start = queries.sizes[query], queries.ptr[query]
    width = int(sizes.max())
    index = start[:, None] + np.arange(width)
    inside = np.arange(width) < sizes[:, None]
    np.copyto(index, 0, where=~inside)
    if not queries.is_contiguous:
        index = queries.order[index]
    np.copyto(index, -1, where=~inside)
    return index


def _cut(column: NDArray[Any], rows: IntArray) -> FloatArray:
    """The values of a block as a float64 matrix, padded with NaN."""
    values = column[rows].astype(np.float64)
    np.copyto(values, np.nan, where=rows < 0)
    return values


def _sort(block: QueryBlock, cut: dict[str, FloatArray], ties: str) -> RankedLists:
    key = -cut["scores"]
    filled = np.isnan(key) if block.sizes.min() < key.shape[1] else None
    if filled is not None and not np.isposinf(key).any():
        # NumPy's vector sort is several times slower with NaN; but with scores of -inf, only NaN
        # keeps the padding last.
        key[filled] = np.inf
    order = np.argsort(key, axis=1)
    ranked = _take(cut["scores"], order)
    if ties != "expected":
        tied = np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).any(axis=1))
        if len(tied):
            order[tied] = _break_ties(key[tied], {n: c[tied] for n, c in cut.items()}, ties)
    rest = {n: _take(c, order) for n, c in cut.items() if n not in ("scores", "tie_key")}
    lists = (block.query, block.sizes, ranked, rest.pop("grades"), rest)
    return RankedLists(*lists, block=block)


def _break_ties(key: FloatArray, cut: dict[str, FloatArray], ties: str) -> IntArray:
    if ties == "stable":
        return np.argsort(key, axis=1, kind="stable")
    second = {"worst": cut["grades"], "best": -cut["grades"], "key": cut.get("tie_key")}[ties]
    assert second is not None
    return np.lexsort((second, key), axis=1)


def _take(values: FloatArray, order: IntArray) -> FloatArray:
    offsets = np.arange(0, values.size, values.shape[1])[:, None]
    return np.take(values.reshape(-1), order + offsets)


def _split(lists: RankedLists, ties: str) -> Iterator[RankedLists]:
    """Rows without ties and rows with ties: the former are computed faster."""
    begins = group_begins(lists.scores) if ties == "expected" else None
    tied = None if begins is None else ~begins.all(axis=1)
    if begins is None or tied is None or not tied.any():
        yield lists
        return
    if not tied.all():
        yield lists.rows(np.flatnonzero(~tied), None)
    yield lists.rows(np.flatnonzero(tied), TieGroups.of(begins[tied]))
