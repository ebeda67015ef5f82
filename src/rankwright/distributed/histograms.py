"""Bins and histograms of trees over shards; every sum is one of integers.

What workers hold is a :class:`Block`: codes of bins and pairs of some queries. Which rows are in
which leaf is worked out from the splits so far. A worker keeps that between tasks of one tree as a
shortcut; without it (another worker took over) it starts from the root, with the same result.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.distributed.base import Engine, Handles, tree_reduce
from rankwright.distributed.shards import Shard
from rankwright.parallel import Team
from rankwright.rankers.boosting.weak_learners.quantile_bins import (
    BinnedRows,
    QuantileBins,
    column,
    distinct_values,
    find_categories,
    find_edges,
)

VALUES = 1 << 23  # values of features that are counted at a time

Counts = list[tuple[FloatArray, FloatArray]]  # per feature: values, how many rows have them


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


def count_values(shards: list[Shard], used: list[Used], first: int, last: int) -> Counts:
    """How many rows have each value of features first .. last - 1, in a block of shards."""
    tables = [s.X.tocsc() if hasattr(s.X, "tocsc") else s.X for s in shards]
    count = np.concatenate([u.copies for u in used])
    counts: Counts = []
    for feature in range(first, last):
        parts = [column(X, feature)[u.rows] for X, u in zip(tables, used, strict=True)]
        counts.append(distinct_values(np.concatenate(parts), count))
    return counts


def merge_counts(one: Counts, other: Counts) -> Counts:
    return [_merged(*a, *b) for a, b in zip(one, other, strict=True)]


def _merged(
    values: FloatArray, mass: FloatArray, values2: FloatArray, mass2: FloatArray
) -> tuple[FloatArray, FloatArray]:
    both = np.concatenate([values, values2])
    order = np.argsort(both, kind="stable")  # merges two runs
    both, masses = both[order], np.concatenate([mass, mass2])[order]
    if not len(both):
        return both, masses
    new = np.flatnonzero(np.concatenate([[True], both[1:] > both[:-1]]))
    return both[new], np.add.reduceat(masses, new)


def learn_edges(
    engine: Engine,
    count: Any,
    find: Any,
    held: tuple[Handles, ...],
    size: tuple[int, int],
    *arguments: Any,
) -> list[FloatArray]:
    """``find(feature, values, mass)`` of every feature of (n_rows, n_features) rows.

    ``count`` gives the values of some features in a block. Each worker gets the counts of a share
    of the features from all others, so only what ``find`` makes of them comes back.
    """
    n_rows, n_features = size
    n_values = VALUES if engine.memory is None else min(VALUES, engine.memory // 64)
    step = max(1, n_values // max(n_rows, 1)) * (engine.threads if engine.is_cluster else 1)
    edges: list[FloatArray] = []
    for first in range(0, n_features, step):
        last = min(first + step, n_features)
        counted = engine.map_blocks(count, held, first, last, *arguments)
        if not engine.is_cluster:
            counts = engine.reduce(counted, merge_counts)
            edges += [find(feature, *count) for feature, count in enumerate(counts, first)]
            continue
        merge = partial(_find_share, find=find, first=first, last=last)
        edges += engine.gather(engine.exchange(counted, _split_features, merge, last - first))
    return edges


def _split_features(counts: Counts, n_blocks: int) -> list[Counts]:
    cuts = [len(counts) * block // n_blocks for block in range(n_blocks + 1)]
    return [counts[start:stop] for start, stop in pairwise(cuts)]


def _find_share(
    pieces: list[Counts], block: int, n_blocks: int, find: Any, first: int, last: int
) -> list[FloatArray]:
    start = first + (last - first) * block // n_blocks
    counts: Counts = tree_reduce(pieces, merge_counts)
    return [find(start + number, *count) for number, count in enumerate(counts)]


def learn_bins(
    engine: Engine, held: tuple[Handles, Handles], n_rows: int, max_bins: int, categorical: Any
) -> QuantileBins:
    """The bins of ``QuantileBins.learn`` on all rows, from exact counts of values."""
    find, size = partial(_find_bins, max_bins, categorical), (n_rows, len(categorical))
    return QuantileBins(learn_edges(engine, count_values, find, held, size), categorical)


def _find_bins(
    max_bins: int, categorical: Any, feature: int, values: FloatArray, mass: FloatArray
) -> FloatArray:
    return (find_categories if categorical[feature] else find_edges)(values, mass, max_bins)


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


class Gradients(NamedTuple):
    """The gradients and Hessians of the rows of a block; they are not changed."""

    gradient: FloatArray
    hessian: FloatArray


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
        from rankwright.rankers.boosting._kernels.tree import quantize

        n = len(block.copies)
        self.gradients = gradients  # kept, so that no other array can have its address
        self.rows, self.buffer = drawn_rows(block, request.draw), np.zeros(n, np.int32)
        self.pairs = np.zeros((n, 2), np.int64)
        quantize(*gradients, block.copies, request.scales, request.bits, self.pairs)
        self.bounds = [(0, len(self.rows))]

    def follow(self, block: Block, splits: list[tuple[int, int, bytes]]) -> None:
        """Make the splits that were not made yet."""
        from rankwright.rankers.boosting._kernels.tree import partition_rows

        for leaf, feature, up in splits[len(self.bounds) // 2 :]:
            start, stop = self.bounds[leaf]
            codes, goes = block.codes[feature >> 2], np.frombuffer(bytearray(up), np.uint8)
            rows, shift = self.rows[start:stop], 8 * (feature & 3)
            n_down, _, _ = partition_rows(codes, shift, goes, rows, self.pairs, self.buffer)
            self.bounds += [(start, start + n_down), (start + n_down, stop)]

    def histogram(self, block: Block, leaf: int, sums: IntArray) -> None:
        from rankwright.rankers.boosting._kernels.tree import gather, sum_block

        rows = self.rows[slice(*self.bounds[leaf])]
        pairs = self.pairs
        if len(rows) < len(pairs):
            pairs = np.zeros((len(rows), 2), np.int64)
            gather(self.pairs, rows, pairs)
        four = np.zeros((4, 256, 2), np.int64)
        for word in range(len(block.codes)):
            sum_block(block.codes[word], rows, pairs, four)
            sums[4 * word : 4 * word + 4] += four


_PARTITIONS: dict[int, _Partition] = {}  # of this process, by the address of their gradients


def histograms(
    block: Block, gradients: Gradients, request: Request, total: Any
) -> tuple[IntArray, IntArray]:
    """(n_new, 2) rows on both sides of the new splits; (n_leaves, n_features, 256, 2) sums.

    They are added to ``total`` unless that is None.
    """
    known = _PARTITIONS.pop(id(gradients.gradient), None)
    stale = known is None or known.gradients.gradient is not gradients.gradient
    if known is None or stale or len(known.bounds) > 2 * len(request.splits) + 1:
        known = _Partition(block, gradients, request)
    known.follow(block, request.splits)
    shape = len(request.leaves), 4 * len(block.codes), 256, 2
    before, sums = (0, np.zeros(shape, np.int64)) if total is None else total
    for number, leaf in enumerate(request.leaves):
        known.histogram(block, leaf, sums[number])
    sizes = np.diff(np.array(known.bounds)).ravel()[len(known.bounds) - 2 * request.n_new :]
    _PARTITIONS[id(gradients.gradient)] = known
    return before + sizes.reshape(-1, 2).astype(np.int64), sums


def add_pairs(one: Any, other: Any) -> Any:
    return one[0] + other[0], one[1] + other[1]


def forget(gradients: Gradients) -> None:
    """The tree on these gradients is done."""
    _PARTITIONS.pop(id(gradients.gradient), None)


def no_rows(bins: QuantileBins, monotone: Any) -> BinnedRows:
    """The bins without a row, for what needs histograms only."""
    n_features = len(bins.edges)
    return bins.binned(np.zeros((0, n_features)), np.zeros(0, np.int64), monotone, Team(1))
