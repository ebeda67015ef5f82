"""Shards hold whole queries, and rows in an order that the input does not set."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from rankwright.data.vocabulary import hash_ids, hash_rows
from rankwright.distributed import shards as module
from rankwright.distributed.base import block_bounds, tree_nodes, tree_reduce
from rankwright.distributed.shards import N_SHARDS, LooseRows, by_shard, merge_shards, split_rows

IDS = {
    "ints": np.arange(30),
    "negative": -np.arange(30),
    "text": np.array([f"query {i}" for i in range(30)]),
    "objects": np.array([(i, "a") for i in range(30)] + [None], dtype=object)[:30],
}


def rows_of(ids: np.ndarray, seed: int = 0, n: int = 300) -> LooseRows:
    rng = np.random.default_rng(seed)
    X, own = rng.normal(size=(n, 2)), np.ones(n)
    grades, queries = rng.integers(0, 3, n).astype(float), ids[rng.integers(0, len(ids), n)]
    return LooseRows(X, grades, queries, own, own, np.arange(n))


def shards_of(parts: list[LooseRows], n_blocks: int) -> list[module.Shard]:
    pieces = [split_rows(part, n_blocks) for part in parts]
    merged = [merge_shards([p[i] for p in pieces], i, n_blocks) for i in range(n_blocks)]
    return [shard for block in merged for shard in block]


@pytest.mark.parametrize("kind", IDS)
def test_rows_in_the_order_of_shards_are_cut_into_views(kind):
    rows = rows_of(IDS[kind])
    ordered = by_shard(rows)
    for n_blocks in (1, 3, 64):
        pieces = split_rows(ordered, n_blocks)
        assert all(np.shares_memory(p.X, ordered.X) for p, _ in pieces if len(p.y))
        for (piece, hashes), (other, expected) in zip(
            pieces, split_rows(rows, n_blocks), strict=True
        ):
            assert sorted(piece.row.tolist()) == sorted(other.row.tolist())
            assert sorted(hashes.tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize("kind", IDS)
def test_a_query_is_in_one_shard_whatever_the_partition(kind):
    rows = rows_of(IDS[kind])
    whole = shards_of([rows], 1)
    assert len(whole) == N_SHARDS
    places = [i for i, shard in enumerate(whole) for _ in shard.ids]
    ids = [str(i) for shard in whole for i in shard.ids.tolist()]
    assert len(places) == len(ids) == len(set(ids))
    order = np.random.default_rng(2).permutation(300)
    for n_blocks in (3, 8):
        torn = shards_of([rows.take(part) for part in np.array_split(order, 7)], n_blocks)
        for one, other in zip(whole, torn, strict=True):
            for a, b in zip(one, other, strict=True):
                assert np.array_equal(a, b)


def test_many_rows_have_enough_shards_for_a_thousand_workers():
    assert module.n_shards(module.MANY_ROWS - 1) == N_SHARDS
    count = module.n_shards(module.MANY_ROWS)
    pieces = split_rows(rows_of(np.arange(300)), 100, count)
    merged = [merge_shards([piece], i, 100, count) for i, piece in enumerate(pieces)]
    assert [len(block) for block in merged[:4]] == [10, 10, 10, 10]
    assert sum(len(shard.y) for block in merged for shard in block) == 300
    assert sum(len(block) for block in merged) == count


@pytest.mark.parametrize("n", [1, 2, 5, 13, 64])
def test_blocks_of_any_size_give_the_tree_of_all_values(n):
    def combine(one, other):
        return f"({one}{other})"

    values = [f"{i}," for i in range(n)]
    for n_blocks in (1, 2, 3, 5, n):
        bounds = block_bounds(n, n_blocks)
        nodes = {}
        for start, stop in pairwise(bounds):
            own = {(0, i): values[i] for i in range(start, stop)}
            nodes |= tree_nodes(own, n, combine)
        assert list(tree_nodes(nodes, n, combine).values()) == [tree_reduce(values, combine)]


def test_ids_hash_by_value():
    assert np.array_equal(hash_ids([1, 2]), hash_ids(np.array([1.0, 2.0], np.float32)))
    assert np.array_equal(hash_ids(np.array([1, 2], np.uint8)), hash_ids(np.array([1, 2], object)))
    assert hash_ids(["a"]).tolist() == [3405396810240292928]  # on every machine


def test_sparse_and_dense_rows_hash_alike():
    X = np.array([[0.0, 1.0, 0.0], [np.nan, 0.0, 2.0]])
    assert np.array_equal(hash_rows(X), hash_rows(csr_array(X)))
    assert len(set(hash_rows(np.eye(4)).tolist())) == 4


def test_one_query_and_no_rows():
    one = shards_of([rows_of(np.array([7]))], 4)
    assert [len(s.y) for s in one if len(s.y)] == [300]
    none = shards_of([rows_of(np.array([7])).take(slice(0, 0))], 4)
    assert [len(s.y) for s in none] == [0] * N_SHARDS
