"""The container of items: immutable, checked once, cut and joined without surprises."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array, csr_matrix

from rankwright.data.items import Items


def small(**columns: object) -> Items:
    return Items([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]], [2, 0, 1], **columns)


def test_the_caller_s_arrays_are_neither_copied_nor_locked() -> None:
    X, y = np.ones((2, 2)), np.zeros(2)
    items = Items(X, y)
    X[0, 0] = 5
    assert items.X[0, 0] == 5


def test_the_arrays_handed_out_cannot_be_written() -> None:
    items = small(qid=[1, 1, 2], docid=["a", "b", "c"])
    for array in (items.X, items.y, items.qid, items.docid):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_sparse_matrix_handed_out_cannot_be_written_and_the_caller_s_can() -> None:
    X = csr_array(np.eye(2))
    items = Items(X, [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        items.X.data[0] = 5
    X.data[0] = 7
    assert items.X[0, 0] == 7


def test_fields_cannot_be_replaced() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        small().y = np.zeros(3)


@pytest.mark.parametrize("kind", [csr_array, csr_matrix, coo_array])
def test_any_sparse_matrix_becomes_csr(kind: type) -> None:
    items = Items(kind(np.array([[0, 2], [3, 0]])), [0, 1])
    assert items.is_sparse
    assert items.X.dtype == np.float64
    assert items.X.has_canonical_format
    assert items.X.toarray().tolist() == [[0, 2], [3, 0]]


def test_duplicate_cells_are_summed_in_a_copy() -> None:
    X = csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    assert Items(X, [0]).X[0, 0] == 3
    assert X.data.tolist() == [1, 2]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_come_in(frame: type) -> None:
    items = Items(frame({"a": [1, 2], "b": [3, 4]}), frame({"y": [0, 1]})["y"])
    assert items.X.tolist() == [[1, 3], [2, 4]]


def test_float32_features_stay_float32() -> None:
    assert Items(np.ones((1, 1), np.float32), [1]).X.dtype == np.float32


def test_rows_are_taken_by_mask_by_number_and_by_slice() -> None:
    items = small(qid=["a", "a", "b"], docid=["x", "y", "z"], feature_names=["f", "g"])
    for rows in ([False, True, True], [1, 2], slice(1, None), np.array([-2, -1])):
        part = items.take(rows)
        assert part.y.tolist() == [0, 1]
        assert part.docid.tolist() == ["y", "z"]
        assert part.qid.tolist() == ["a", "b"]
        assert part.feature_names == ("f", "g")


def test_no_rows_can_be_taken() -> None:
    part = small(qid=[1, 1, 2]).take([])
    assert (len(part), part.n_features, part.n_queries) == (0, 2, 0)


@given(st.lists(st.integers(0, 2), min_size=0, max_size=8))
def test_sparse_rows_are_taken_as_dense_rows(rows: list[int]) -> None:
    dense = small()
    sparse = Items(csr_array(dense.X), dense.y)
    assert np.array_equal(sparse.take(rows).X.toarray(), dense.take(rows).X)


def test_joined_rows_keep_their_order_and_shared_columns() -> None:
    left, right = small(qid=[1, 1, 2], docid=["a", "b", "c"]), small(qid=[7, 7, 8])
    joined = Items.concat([left, right])
    assert joined.y.tolist() == [2, 0, 1, 2, 0, 1]
    assert joined.qid.tolist() == [1, 1, 2, 7, 7, 8]
    assert joined.docid is None


def test_joined_ids_of_different_types_stay_different() -> None:
    joined = Items.concat([small(qid=[1, 1, 1]), small(qid=["1", "1", "1"])])
    assert joined.n_queries == 2


def test_dense_and_sparse_parts_join_as_sparse() -> None:
    joined = Items.concat([small(), Items(csr_array(small().X), [0, 0, 0])])
    assert joined.is_sparse
    assert joined.X.toarray()[:3].tolist() == joined.X.toarray()[3:].tolist()


def test_without_qid_all_rows_are_one_query() -> None:
    assert small().n_queries == 1
    assert small().queries.sizes.tolist() == [3]


def test_items_survive_pickling() -> None:
    items = pickle.loads(pickle.dumps(small(qid=[1, 1, 2])))
    assert items.queries.sizes.tolist() == [2, 1]


def test_the_printed_form_says_what_is_inside() -> None:
    assert repr(Items(csr_array(np.eye(2)), [0, 1], [5, 5])) == (
        "Items(2 items, 2 features, 1 queries, grades 0 to 1, sparse)"
    )
