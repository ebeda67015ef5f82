"""Shards: whole queries, hashed into a fixed number of parts, in an order that rows do not set.

The number of shards never depends on the cluster. A query goes to the shard that the first bits of
the hash of its id say. Ids hash by value: 7, 7.0 and ``np.int8(7)`` are one id, text hashes as
UTF-8 and bytes as they are, other ids by their ``repr``. Inside a shard rows are in the order of
the hashes of query and content, so the order in which rows were given, or spread over files, does
not matter: equal rows are the only ones that may change places.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import as_ids, encode
from rankwright.distributed.engines import Handles
from rankwright.feedback.grades import Grades
from rankwright.rankers.early_stopping import EvalSet

N_SHARDS = 64
BITS = N_SHARDS.bit_length() - 1
Hashes = NDArray[np.uint64]


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


class Rows(NamedTuple):
    """Rows before the shuffle, or on their way."""

    X: Any
    y: FloatArray
    qid: NDArray[Any]  # (n,) ids
    sample_weight: FloatArray
    query_weight: FloatArray  # (n,)
    row: IntArray

    def take(self, index: Any) -> Rows:
        return Rows(*(field[index] for field in self))


@dataclass(frozen=True)
class ShardedRows:
    """The shards of a fit and what is known of all rows."""

    shards: Handles
    n_rows: int
    n_queries: int
    n_features: int
    eval_set: EvalSet | None = None


def mix(keys: Any) -> Hashes:
    """Spread 64 bits (the finalizer of splitmix64).

    >>> mix(np.array([1, 2])).tolist()
    [10451216379200822465, 10905525725756348110]
    """
    bits = np.atleast_1d(keys).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def hash_ids(ids: Any) -> Hashes:
    """A stable hash of ids of any type, the same on every machine and in every process.

    >>> a, b = hash_ids([7, 8]), hash_ids(np.array([7.0, 8.0]))
    >>> bool((a == b).all())
    True
    >>> bool(hash_ids(["x"])[0] == hash_ids([b"x"])[0])
    True
    """
    ids = as_ids(ids)
    if ids.dtype.kind in "iub":
        return mix(ids.astype(np.int64).view(np.uint64) if ids.dtype.kind != "u" else ids)
    if (
        ids.dtype.kind == "f"
        and bool((ids == np.rint(ids)).all())
        and np.abs(ids).max(initial=0) < 2**53
    ):
        return mix(ids.astype(np.int64).view(np.uint64))
    codes, distinct = encode(ids)
    return np.array([_hash_id(i) for i in distinct.tolist()], np.uint64)[codes]


def _hash_id(value: Any) -> int:
    if isinstance(value, bool | int | float) and value == value // 1:
        return int(mix(np.array([int(value) & (2**64 - 1)], np.uint64))[0])
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    data = value if isinstance(value, bytes) else repr(value).encode()
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def hash_rows(X: Any, *columns: FloatArray) -> Hashes:
    """A hash of the content of each row; zeros count nothing, so CSR and dense rows agree."""
    total = np.zeros(X.shape[0], np.uint64)
    if hasattr(X, "tocsr"):
        table = X.tocsr()
        row = np.repeat(np.arange(X.shape[0]), np.diff(table.indptr))
        np.add.at(total, row, _hash_values(table.data, mix(table.indices + 1)))
    else:
        for feature in range(X.shape[1]):
            total += _hash_values(X[:, feature], mix(feature + 1))
    for number, column in enumerate(columns, start=1):
        total += _hash_values(column, mix(-number & (2**64 - 1)))
    return total


def _hash_values(values: Any, salt: Any) -> Hashes:
    known = np.asarray(values, np.float64) + 0.0  # there is one zero
    bits = np.where(np.isnan(known), np.uint64(1), known.view(np.uint64))
    return np.where(bits == 0, np.uint64(0), mix(bits ^ salt))


def split_rows(rows: Rows, n_blocks: int) -> list[tuple[Rows, Hashes]]:
    """Cut rows into blocks of shards: one pass, no sort of the values."""
    hashes = hash_ids(rows.qid)
    block = (hashes >> np.uint64(64 - BITS)).astype(np.int64) * n_blocks // N_SHARDS
    order = np.argsort(block, kind="stable")
    cuts = np.searchsorted(block[order], np.arange(1, n_blocks))
    return [(rows.take(part), hashes[part]) for part in np.split(order, cuts)]


def merge_shards(pieces: list[tuple[Rows, Hashes]], block: int, n_blocks: int) -> list[Shard]:
    """The shards of one block, from what all parts of the input gave to it."""
    rows, hashes = join_rows([rows for rows, _ in pieces]), np.concatenate([h for _, h in pieces])
    content = hash_rows(rows.X, rows.y, rows.sample_weight)
    order = np.lexsort((rows.row, content, hashes))
    number = (hashes[order] >> np.uint64(64 - BITS)).astype(np.int64)
    size = N_SHARDS // n_blocks
    cuts = np.searchsorted(number, np.arange(block * size + 1, (block + 1) * size))
    return [_shard(rows.take(part)) for part in np.split(order, cuts)]


def _shard(rows: Rows) -> Shard:
    codes, ids = encode(rows.qid)
    weight = np.ones(len(ids))
    weight[codes] = rows.query_weight
    return Shard(rows.X, rows.y, codes, ids, rows.sample_weight, weight, rows.row)


def join_rows(parts: list[Rows]) -> Rows:
    """Rows of several parts as one."""
    if len(parts) == 1:
        return parts[0]
    X, y, qid, *others = zip(*parts, strict=True)
    ids = np.concatenate(
        qid if len({i.dtype.kind for i in qid}) == 1 else [i.astype(object) for i in qid]
    )
    return Rows(join_matrices(list(X)), np.concatenate(y), ids, *map(np.concatenate, others))


def join_matrices(parts: list[Any]) -> Any:
    if any(hasattr(part, "tocsr") for part in parts):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")
    return np.concatenate(parts)


def count_shard(shard: Shard) -> IntArray:
    """The number of rows, of queries, and of rows of the largest query."""
    largest = np.bincount(shard.query, minlength=1).max()
    return np.array([len(shard.y), len(shard.ids), largest], np.int64)
