"""Ratings are flat, read-only and complete, whatever they are made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.behavior.ratings import Ratings
from rankwright.exceptions import DataError

PAIRS = st.dictionaries(
    st.tuples(st.integers(0, 6), st.text("abcd", min_size=1, max_size=2)),
    st.floats(-10, 10, allow_subnormal=False),
)
ROWS = {"user": ["u", "v", "u"], "item": [7, 7, 8], "value": [5.0, 3.0, 4.0]}


def as_dict(ratings: Ratings) -> dict:
    users, items = ratings.users[ratings.user].tolist(), ratings.items[ratings.item].tolist()
    return dict(zip(zip(users, items, strict=True), ratings.value.tolist(), strict=True))


def ratings_of(pairs: dict) -> Ratings:
    return Ratings.from_arrays([u for u, _ in pairs], [i for _, i in pairs], list(pairs.values()))


@given(PAIRS)
def test_every_rating_comes_back_from_the_flat_arrays(pairs):
    assert as_dict(ratings_of(pairs)) == pairs


@given(PAIRS)
def test_the_view_by_user_holds_each_row_once_and_with_its_user(pairs):
    ratings = ratings_of(pairs)
    groups = ratings.by_user
    assert sorted(groups.order.tolist()) == list(range(len(ratings)))
    for user in range(ratings.n_users):
        rows = groups.order[groups.ptr[user] : groups.ptr[user + 1]]
        assert (ratings.user[rows] == user).all()
        assert (np.diff(rows) > 0).all()


@given(PAIRS)
def test_the_sparse_matrix_holds_each_value_at_user_and_item(pairs):
    ratings = ratings_of(pairs)
    matrix = ratings.to_csr()
    assert matrix.shape == (ratings.n_users, ratings.n_items)
    assert matrix.nnz == len(ratings)  # a rating of 0 is stored
    dense = matrix.toarray()
    assert (dense[ratings.user, ratings.item] == ratings.value).all()


@given(PAIRS, st.data())
def test_taking_rows_then_compacting_changes_no_rating(pairs, data):
    ratings = ratings_of(pairs)
    mask = data.draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    part = ratings.take(np.array(mask, dtype=bool)).compact()
    kept = [pair for pair, keep in zip(pairs.items(), mask, strict=True) if keep]
    assert as_dict(part) == dict(kept)
    assert (part.user_counts > 0).all()
    assert (part.item_counts > 0).all()


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame(ROWS), pl.DataFrame(ROWS), pl.DataFrame(ROWS).lazy(), pa.table(ROWS), ROWS],
    ids=["pandas", "polars", "polars-lazy", "pyarrow", "dict"],
)
def test_every_kind_of_frame_gives_the_same_ratings(frame):
    assert as_dict(Ratings.from_frame(frame)) == {("u", 7): 5.0, ("v", 7): 3.0, ("u", 8): 4.0}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_frame_are_found_by_their_usual_names(make) -> None:
    frame = make({"userId": ["u", "v"], "movie_id": [7, 8], "rating": [5.0, 3.0], "other": [1, 2]})
    assert as_dict(Ratings.from_frame(frame)) == {("u", 7): 5.0, ("v", 8): 3.0}


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint32, np.uint64])
def test_whole_number_ids_are_int64_whatever_their_width(dtype) -> None:
    ratings = Ratings.from_arrays(np.array([1, 2], dtype), np.array([3, 4], dtype), [5, 4])
    assert ratings.users.dtype == ratings.items.dtype == np.int64


def test_ids_beyond_int64_stay_as_they_are() -> None:
    ratings = Ratings.from_arrays(np.array([1, 2**63 + 1], np.uint64), [3, 4], [5, 4])
    assert ratings.users.tolist() == [1, 2**63 + 1]


@pytest.mark.parametrize(
    "rule, expected", [("first", [1, 2]), ("last", [2, 5]), ("mean", [2, 3]), ("keep", [1, 2, 5])]
)
def test_a_pair_that_stands_twice_is_settled_as_asked(rule, expected):
    ratings = Ratings.from_arrays(["u", "v", "u"], ["i", "i", "i"], [1, 2, 5], duplicates=rule)
    assert sorted(ratings.value) == expected


def test_arrays_cannot_be_written_and_the_callers_own_still_can():
    value = np.array([1.0, 2.0])
    ratings = Ratings.from_arrays([1, 2], [3, 4], value)
    with pytest.raises(ValueError, match="read-only"):
        ratings.value[0] = 9
    value[0] = 1.5  # ours to change


def test_numbers_that_are_no_place_of_an_id_are_refused():
    with pytest.raises(DataError, match=r"item is .* in row .*give numbers in 0 \.\. 0"):
        Ratings(np.array([1]), np.array([1]), np.array([0]), np.array([1]), np.array([1.0]))


def test_no_rating_at_all_is_a_legal_container():
    ratings = Ratings.from_arrays([], [], [])
    assert (len(ratings), ratings.n_users, ratings.to_csr().shape) == (0, 0, (0, 0))
    assert repr(ratings) == "Ratings(0 ratings, 0 users, 0 items)"


def test_some_users_and_items_can_be_kept_by_id():
    ratings = Ratings.from_arrays(["u", "v", "u"], [7, 7, 8], [5, 3, 4])
    assert as_dict(ratings.only(users=["u"], items=[8])) == {("u", 8): 4.0}


@pytest.mark.parametrize("rows", [[0.5], [3], [-4], [True], "a", [[0]]])
def test_rows_that_do_not_exist_are_refused(rows):
    ratings = Ratings.from_arrays(["u", "v", "u"], [7, 7, 8], [5, 3, 4])
    with pytest.raises(DataError):
        ratings.take(rows)
