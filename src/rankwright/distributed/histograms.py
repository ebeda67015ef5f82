"""Bins and histograms of trees over shards; every sum is one of integers.

What workers hold is a :class:`Block`: codes of bins and pairs of some queries. Which rows are in
which leaf is worked out from the splits so far. A worker keeps that between tasks of one tree as a
shortcut; without it (another worker took over) it starts from the root, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.distributed.base import Engine, ShardedValues, side_by_side
from rankwright.distributed.shards import Shard
from rankwright.rankers.boosting.binning import (
    BinnedRows,
    QuantileBins,
    column,
    find_categories,
    find_edges,
)
from rankwright.runtime import Team, ranges

VALUES = 1 << 23  # values of features that a worker counts at a time

Counted = tuple[FloatArray, IntArray]  # values of a feature and the mass of each, whole numbers
ReadColumn = Callable[[int], Counted]


class Used(NamedTuple):
    """The rows of a shard that are in some pair."""

    rows: IntArray
    copies: IntArray  # how many rows each counts as
    grades: tuple[float, float]  # the lowest and the highest


class Totals(NamedTuple):
    """Of all rows in use: how many, how many they count as, and the span of their grades."""

    n_rows: int
    n_copies: int
    span: tuple[float, float]


def add_totals(one: Totals, other: Totals) -> Totals:
    (low, high), (low2, high2) = one.span, other.span
    span = min(low, low2), max(high, high2)
    return Totals(one.n_rows + other.n_rows, one.n_copies + other.n_copies, span)


def totals(used: Used) -> Totals:
    return Totals(len(used.rows), int(used.copies.sum()), used.grades)


def by_columns(shard: Shard) -> Shard:
    """The same with the values of a feature side by side, so that files are read once."""
    return shard if hasattr(shard.X, "tocsr") else shard._replace(X=np.asfortranarray(shard.X))


def read_columns(shards: list[Shard], used: list[Used]) -> ReadColumn:
    """A function of a feature: its value of each row in use, and as how many rows that counts."""
    tables = [s.X.tocsc() if hasattr(s.X, "tocsc") else s.X for s in shards]
    copies = np.concatenate([u.copies for u in used])

    def read(feature: int) -> tuple[FloatArray, IntArray]:
        parts = [column(X, feature)[u.rows] for X, u in zip(tables, used, strict=True)]
        return np.concatenate(parts), copies

    return read


def add_up(parts: list[tuple[FloatArray, IntArray]]) -> Counted:
    """Distinct values that are not missing, in ascending order, and the sum of the mass of each."""
    values, mass = (np.concatenate(side) for side in zip(*parts, strict=True))
    known = ~np.isnan(values)
    if not known.all():
        values, mass = values[known], mass[known]
    if (mass == 1).all():
        values = np.sort(values)
        new = _starts(values)
        return values[new], np.diff(np.append(new, len(values)))
    order = np.argsort(values, kind="stable")  # merges runs, if parts are in order
    values = values[order]
    new = _starts(values)
    return values[new], np.add.reduceat(mass[order], new)


def _starts(ordered: FloatArray) -> IntArray:
    first = np.ones(min(len(ordered), 1), bool)
    return np.flatnonzero(np.concatenate([first, ordered[1:] > ordered[:-1]]))


def learn_edges(
    engine: Engine,
    read: Any,
    find: Any,
    held: tuple[ShardedValues, ...],
    size: tuple[int, int],
    *arguments: Any,
) -> list[FloatArray]:
    """``find(feature, values, mass)`` of every feature of (n_rows, n_features) rows.

    ``read(*values of a block, *arguments)`` gives a function that reads a feature of the block.
    Each worker gets the counts of a share of the features from all others, so only what ``find``
    makes of them comes back.
    """
    n_rows, n_features = size
    if not engine.is_cluster:  # a thread reads one feature after the other
        room = engine.threads if engine.memory is None else engine.memory // (48 * n_rows + 1)
        jobs = engine.scatter(ranges(n_features, max(1, min(engine.threads, room))))
        parts = engine.map(_find_all, jobs, read, find, side_by_side(held), arguments)
        return [edges for part in engine.gather(parts) for edges in part]
    step = max(1, VALUES // max(n_rows, 1)) * engine.threads
    edges: list[FloatArray] = []
    for first in range(0, n_features, step):
        last = min(first + step, n_features)
        counted = engine.map_blocks(partial(_count, read), held, first, last, arguments)
        merge = partial(_find_share, find=find, first=first, last=last)
        edges += engine.gather(engine.exchange(counted, _split_features, merge, last - first))
    return edges


def _find_all(
    bounds: tuple[int, int], read: Any, find: Any, blocks: Any, arguments: Any
) -> list[FloatArray]:
    columns = [read(*block, *arguments) for block in blocks]
    features = range(*bounds)
    return [find(f, *add_up([get(f) for get in columns])) for f in features]


def _count(read: Any, *values: Any) -> list[Counted]:
    *block, first, last, arguments = values
    get = read(*block, *arguments)
    return [add_up([get(feature)]) for feature in range(first, last)]


def _split_features(counts: list[Counted], n_blocks: int) -> list[list[Counted]]:
    cuts = [len(counts) * block // n_blocks for block in range(n_blocks + 1)]
    return [counts[start:stop] for start, stop in pairwise(cuts)]


def _find_share(
    pieces: list[list[Counted]], block: int, n_blocks: int, find: Any, first: int, last: int
) -> list[FloatArray]:
    start = first + (last - first) * block // n_blocks
    columns = zip(*pieces, strict=True)
    return [find(start + number, *add_up(list(parts))) for number, parts in enumerate(columns)]


def learn_bins(
    engine: Engine,
    held: tuple[ShardedValues, ShardedValues],
    n_rows: int,
    max_bins: int,
    categorical: Any,
) -> QuantileBins:
    """The bins of ``QuantileBins.learn`` on all rows, from exact counts of values."""
    find, size = partial(_find_bins, max_bins, categorical), (n_rows, len(categorical))
    return QuantileBins(learn_edges(engine, read_columns, find, held, size), categorical)


def _find_bins(
    max_bins: int, categorical: Any, feature: int, values: FloatArray, mass: IntArray
) -> FloatArray:
    find = find_categories if categorical[feature] else find_edges
    return find(values, mass.astype(np.float64), max_bins)


class Block(NamedTuple):
    """The rows in use of a block of shards, in bins, and what gives their gradients."""

    codes: NDArray[np.uint32]  # (n_words, n_rows)
    copies: IntArray  # how many rows each counts as
    losses: Any
    start: FloatArray  # the scores that boosting starts from
    keys: Any  # hashes of the queries of rows, or None if every tree is grown on all of them


def encode_shards(shards: list[Shard], used: list[Used], bins: QuantileBins) -> Any:
    with Team(1) as alone:
        pairs = zip(shards, used, strict=True)
        return np.concatenate([bins.encode(s.X, u.rows, alone) for s, u in pairs], axis=1)


class Request(NamedTuple):
    """What a round asks of workers."""

    draw: Any  # which queries the tree is grown on
    scales: FloatArray
    bits: int
    splits: list[tuple[int, int, bytes]]  # leaf, feature, which codes go up: all so far
    n_new: int  # how many of the last splits to count the rows of
    leaves: list[int]  # whose histograms to make


@dataclass(eq=False)
class Gradients:
    """The gradients and Hessians of the rows of a block, and how far their tree has grown.

    ``partition`` saves the next request the splits before it. It stays in the process that made
    it: another worker makes the splits again.
    """

    gradient: FloatArray
    hessian: FloatArray
    partition: _Partition | None = None

    def __reduce__(self) -> Any:
        return Gradients, (self.gradient, self.hessian)


def measure(block: Block, gradients: Gradients, draw: Any) -> tuple[FloatArray, int]:
    """The largest gradient and Hessian, and on how many rows the tree is grown."""
    largest = np.abs(gradients.gradient).max(initial=0), gradients.hessian.max(initial=0)
    return np.array(largest), len(drawn_rows(block, draw))


def join_measures(one: Any, other: Any) -> tuple[FloatArray, int]:
    return np.maximum(one[0], other[0]), one[1] + other[1]


def drawn_rows(block: Block, draw: Any) -> NDArray[np.int32]:
    rows: NDArray[np.int32] = (
        np.arange(len(block.copies), dtype=np.int32) if draw is None else draw.rows(block.keys)
    )
    return rows


class _Partition:
    """The rows of each leaf; leaf 0 is the root, split k makes leaves 2 k + 1 and 2 k + 2."""

    def __init__(self, block: Block, gradients: Gradients, request: Request) -> None:
        from rankwright.rankers.boosting._kernels.histogram import quantize

        n = len(block.copies)
        self.rows, self.buffer = drawn_rows(block, request.draw), np.zeros(n, np.int32)
        self.pairs = np.zeros((n, 2), np.int64)
        values = gradients.gradient, gradients.hessian
        quantize(*values, block.copies, request.scales, request.bits, self.pairs)
        self.bounds = [(0, len(self.rows))]

    def follow(self, block: Block, splits: list[tuple[int, int, bytes]]) -> None:
        """Make the splits that were not made yet."""
        from rankwright.rankers.boosting._kernels.histogram import partition_rows

        for leaf, feature, up in splits[len(self.bounds) // 2 :]:
            start, stop = self.bounds[leaf]
            codes, goes = block.codes[feature >> 2], np.frombuffer(bytearray(up), np.uint8)
            rows, shift = self.rows[start:stop], 8 * (feature & 3)
            n_down = partition_rows(codes, shift, goes, rows, self.buffer)
            self.bounds += [(start, start + n_down), (start + n_down, stop)]


def histograms(
    block: Block, gradients: Gradients, request: Request, total: Any
) -> tuple[IntArray, IntArray]:
    """(n_new, 2) rows on both sides of the new splits; (n_leaves, n_features, 256, 2) sums.

    They are added to ``total`` unless that is None.
    """
    from rankwright.rankers.boosting._kernels.histogram import add_leaf

    known, gradients.partition = gradients.partition, None
    if known is None or len(known.bounds) > 2 * len(request.splits) + 1:
        known = _Partition(block, gradients, request)
    known.follow(block, request.splits)
    shape = len(request.leaves), 4 * len(block.codes), 256, 2
    before, sums = (0, np.zeros(shape, np.int64)) if total is None else total
    for number, leaf in enumerate(request.leaves):
        rows = known.rows[slice(*known.bounds[leaf])]
        add_leaf(block.codes, rows, known.pairs, sums[number])
    sizes = np.diff(np.array(known.bounds)).ravel()[len(known.bounds) - 2 * request.n_new :]
    gradients.partition = known
    return before + sizes.reshape(-1, 2).astype(np.int64), sums


def add_pairs(one: Any, other: Any) -> Any:
    return one[0] + other[0], one[1] + other[1]


def no_rows(bins: QuantileBins, monotone: Any) -> BinnedRows:
    """The bins without a row, for what needs histograms only."""
    n_features = len(bins.edges)
    return bins.binned(np.zeros((0, n_features)), np.zeros(0, np.int64), monotone, Team(1))
