"""Shards: whole queries, hashed into a fixed number of parts, in an order independent of rows.

The number of shards depends on the number of rows only, never on the cluster. A query goes to the
shard that the first bits of the hash of its id say (see :mod:`rankwright.data.vocabulary`). Inside
a shard rows are in the order of the hashes of query and content, so the order in which rows were
given, or spread over files, does not matter: only equal rows may be swapped.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import Hashes, encode, hash_ids, hash_rows
from rankwright.distributed.base import MANY_SHARDS, ShardedValues, block_bounds
from rankwright.feedback.base import Grades
from rankwright.rankers.early_stopping import EvalSet

if TYPE_CHECKING:
    from rankwright.distributed.checkpoints import SavedFit

N_SHARDS = 64
MANY_ROWS = 4_000_000  # from here on there are more shards, so that more workers have some


class Shard(NamedTuple):
    """The rows of some queries; all rows of a query are in one shard. Empty shards have no rows."""

    X: Any  # (n, n_features) float64 or CSR
    y: FloatArray  # (n,)
    query: IntArray  # (n,) numbers of queries, 0 .. len(ids) - 1
    ids: NDArray[Any]  # (n_queries,)
    sample_weight: FloatArray  # (n,)
    query_weight: FloatArray  # (n_queries,)
    row: IntArray  # (n,) numbers of the rows in the input, in the order in which it was given

    @property
    def feedback(self) -> Grades:
        return Grades(
            self.y,
            Queries(self.query.copy(), self.ids.copy()),
            sample_weight=self.sample_weight,
            query_weight=self.query_weight,
        )


class LooseRows(NamedTuple):
    """Rows before the shuffle, or on their way."""

    X: Any
    y: FloatArray
    qid: NDArray[Any]  # (n,) ids
    sample_weight: FloatArray
    query_weight: FloatArray  # (n,)
    row: IntArray

    def take(self, index: Any) -> LooseRows:
        return LooseRows(*(field[index] for field in self))


@dataclass(frozen=True)
class ShardedRows:
    """The shards of a fit, with properties of all rows."""

    shards: ShardedValues
    n_rows: int
    n_queries: int
    n_features: int
    eval_set: EvalSet | None = None
    saved: SavedFit | None = None  # what an interrupted fit has learned


def n_shards(n_rows: int) -> int:
    """How many shards there are of so many rows: a power of two."""
    return N_SHARDS if n_rows < MANY_ROWS else MANY_SHARDS


def _shard_numbers(hashes: Hashes, count: int) -> IntArray:
    """The shard of each query: the first bits of its hash."""
    numbers: IntArray = (hashes >> np.uint64(65 - count.bit_length())).astype(np.int64)
    return numbers


def split_rows(
    rows: LooseRows, n_blocks: int, count: int = N_SHARDS
) -> list[tuple[LooseRows, Hashes]]:
    """Cut rows into blocks of ``count`` shards: one pass, no sort of the values.

    The pieces of rows that are in the order of their shards are views.
    """
    hashes = hash_ids(rows.qid)
    bounds = np.array(block_bounds(count, n_blocks))
    block = np.searchsorted(bounds, _shard_numbers(hashes, count), side="right") - 1
    if (block[1:] >= block[:-1]).all():
        ends = [0, *np.searchsorted(block, np.arange(1, n_blocks)).tolist(), len(block)]
        return [(rows.take(slice(*one)), hashes[slice(*one)]) for one in pairwise(ends)]
    order = np.argsort(block, kind="stable")
    cuts = np.searchsorted(block[order], np.arange(1, n_blocks))
    return [(rows.take(part), hashes[part]) for part in np.split(order, cuts)]


def by_shard(rows: LooseRows) -> LooseRows:
    """Rows in the order of their shards, however many there will be."""
    return rows.take(np.argsort(hash_ids(rows.qid), kind="stable"))


def merge_shards(
    pieces: list[tuple[LooseRows, Hashes]], block: int, n_blocks: int, count: int = N_SHARDS
) -> list[Shard]:
    """The shards of one block, from what all parts of the input gave to it."""
    rows, hashes = join_rows([rows for rows, _ in pieces]), np.concatenate([h for _, h in pieces])
    content = hash_rows(rows.X, rows.y, rows.sample_weight)
    order = np.lexsort((rows.row, content, hashes))
    start, stop = block_bounds(count, n_blocks)[block : block + 2]
    cuts = np.searchsorted(_shard_numbers(hashes[order], count), np.arange(start + 1, stop))
    if start == stop:  # fewer shards than blocks
        return []
    return [_shard(rows.take(part)) for part in np.split(order, cuts)]


def _shard(rows: LooseRows) -> Shard:
    codes, ids = encode(rows.qid)
    weight = np.ones(len(ids))
    weight[codes] = rows.query_weight
    return Shard(rows.X, rows.y, codes, ids, rows.sample_weight, weight, rows.row)


def join_rows(parts: list[LooseRows]) -> LooseRows:
    """Rows of several parts as one."""
    if len(parts) == 1:
        return parts[0]
    X, y, qid, *others = zip(*parts, strict=True)
    return LooseRows(
        join_matrices(list(X)), np.concatenate(y), join_ids(list(qid)), *map(np.concatenate, others)
    )


def join_ids(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Ids of several parts as one array; numbers and texts stay what they are."""
    some = [part for part in parts if len(part)] or parts[:1]
    kinds = {part.dtype.kind for part in some}
    return np.concatenate(some if len(kinds) == 1 else [part.astype(object) for part in some])


def join_matrices(parts: list[Any]) -> Any:
    if any(hasattr(part, "tocsr") for part in parts):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")
    return np.concatenate(parts)


def join_grades(shards: list[Shard]) -> Grades:
    """The feedback of the rows of several shards, one after the other."""
    first = np.cumsum([0] + [len(shard.ids) for shard in shards])
    codes = np.concatenate([s.query + n for s, n in zip(shards, first[:-1], strict=True)])
    return Grades(
        np.concatenate([shard.y for shard in shards]),
        Queries(codes, join_ids([shard.ids for shard in shards])),
        sample_weight=np.concatenate([shard.sample_weight for shard in shards]),
        query_weight=np.concatenate([shard.query_weight for shard in shards]),
    )


def count_shard(shard: Shard) -> IntArray:
    """The number of rows, of queries, and of rows of the largest query."""
    largest = np.bincount(shard.query, minlength=1).max()
    return np.array([len(shard.y), len(shard.ids), largest], np.int64)
