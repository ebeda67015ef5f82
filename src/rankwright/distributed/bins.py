"""Bins of features over shards, from exact counts of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.distributed.base import Engine, ShardedValues, side_by_side
from rankwright.distributed.shards import Shard
from rankwright.rankers.boosting.binning import (
    QuantileBins,
    column,
    find_edges,
    find_levels,
)
from rankwright.runtime import ranges

VALUES = 1 << 23  # values of features that a worker counts at a time

Counted = tuple[FloatArray, IntArray]  # values of a feature and the mass of each, whole numbers
ReadColumn = Callable[[int], Counted]


class Used(NamedTuple):
    """The rows of a shard that are in some pair."""

    rows: IntArray
    copies: IntArray  # how many rows each counts as
    grades: tuple[float, float]  # the lowest and the highest
    n_queries: int


class Totals(NamedTuple):
    """Of all rows in use: how many, as how many they count, the span of grades, and queries."""

    n_rows: int
    n_copies: int
    span: tuple[float, float]
    n_queries: int


# read(*block, *arguments)(feature) gives values and their mass; find(feature, values, mass) edges.
ReadColumns: TypeAlias = Callable[..., Callable[[int], tuple[FloatArray, IntArray]]]
FindEdges: TypeAlias = Callable[..., FloatArray]


def add_totals(one: Totals, other: Totals) -> Totals:
    (low, high), (low2, high2) = one.span, other.span
    span = min(low, low2), max(high, high2)
    n_rows, n_copies = one.n_rows + other.n_rows, one.n_copies + other.n_copies
    return Totals(n_rows, n_copies, span, one.n_queries + other.n_queries)


def totals(used: Used) -> Totals:
    return Totals(len(used.rows), int(used.copies.sum()), used.grades, used.n_queries)


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


def add_up(
    parts: list[tuple[FloatArray, IntArray]], kind: Literal["stable"] | None = None
) -> Counted:
    """Distinct values that are not missing, in ascending order, and the sum of the mass of each.

    If each part is in ascending order, ``kind="stable"`` merges them instead of sorting again.
    """
    values, mass = parts[0]
    if len(parts) > 1:
        values, mass = (np.concatenate(side) for side in zip(*parts, strict=True))
    known = ~np.isnan(values)
    if not known.all():
        values, mass = values[known], mass[known]
    if (mass == 1).all():
        values = np.sort(values, kind=kind)
        new = _starts(values)
        if len(new) == len(values):
            return values, np.ones(len(values), np.uint8)
        return values[new], _narrow(np.diff(np.append(new, len(values))))
    order = np.argsort(values, kind="stable")
    values = values[order]
    new = _starts(values)
    return values[new], _narrow(np.add.reduceat(mass[order], new, dtype=np.int64))


def _narrow(mass: IntArray) -> IntArray:
    """The same in the smallest type, since workers send it to each other."""
    return mass.astype(np.min_scalar_type(mass.max(initial=0)))


def _starts(ordered: FloatArray) -> IntArray:
    first = np.ones(min(len(ordered), 1), bool)
    return np.flatnonzero(np.concatenate([first, ordered[1:] > ordered[:-1]]))


def learn_edges(
    engine: Engine,
    read: ReadColumns,
    find: FindEdges,
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
    bounds: tuple[int, int],
    read: ReadColumns,
    find: FindEdges,
    blocks: Sequence[tuple[Any, ...]],
    arguments: tuple[Any, ...],
) -> list[FloatArray]:
    columns = [read(*block, *arguments) for block in blocks]
    features = range(*bounds)
    return [find(f, *add_up([get(f) for get in columns])) for f in features]


def _count(read: ReadColumns, *values: Any) -> list[Counted]:
    *block, first, last, arguments = values
    get = read(*block, *arguments)
    return [add_up([get(feature)]) for feature in range(first, last)]


def _split_features(counts: list[Counted], n_blocks: int) -> list[list[Counted]]:
    cuts = [len(counts) * block // n_blocks for block in range(n_blocks + 1)]
    return [counts[start:stop] for start, stop in pairwise(cuts)]


def _find_share(
    pieces: list[list[Counted]], block: int, n_blocks: int, find: FindEdges, first: int, last: int
) -> list[FloatArray]:
    start = first + (last - first) * block // n_blocks
    columns = zip(*pieces, strict=True)
    return [
        find(start + number, *add_up(list(parts), "stable")) for number, parts in enumerate(columns)
    ]


def learn_bins(
    engine: Engine,
    held: tuple[ShardedValues, ShardedValues],
    n_rows: int,
    max_bins: int,
    categorical: BoolArray,
    max_levels: int | None,
) -> QuantileBins:
    """The bins of ``QuantileBins.learn`` on all rows, from exact counts of values."""
    find, size = partial(_find_bins, max_bins, max_levels, categorical), (n_rows, len(categorical))
    return QuantileBins(learn_edges(engine, read_columns, find, held, size), categorical)


def _find_bins(
    max_bins: int,
    max_levels: int | None,
    categorical: BoolArray,
    feature: int,
    values: FloatArray,
    mass: IntArray,
) -> FloatArray:
    if categorical[feature]:
        return find_levels(values, mass.astype(np.float64), max_levels)
    return find_edges(values, mass.astype(np.float64), max_bins)
