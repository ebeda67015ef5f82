"""Queries: ids of any type become dense numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.queries import Queries

ids = st.one_of(
    st.lists(st.integers(-3, 3)),
    st.lists(st.text("aé0 ", max_size=2)),
    st.lists(st.tuples(st.integers(0, 2), st.text("aé0 ", max_size=1))),
    st.lists(st.one_of(st.integers(0, 2), st.sampled_from(["0", "1"]))),
)


@given(ids)
def test_codes_point_back_at_the_ids_in_order_of_first_appearance(qid: list[object]) -> None:
    queries = Queries.from_ids(qid)
    assert [queries.ids.tolist()[code] for code in queries.codes] == qid
    assert queries.ids.tolist() == list(dict.fromkeys(qid))


@given(ids)
def test_order_groups_the_rows_and_keeps_their_order_inside_a_query(qid: list[object]) -> None:
    queries = Queries.from_ids(qid)
    rows = np.split(queries.order, queries.ptr[1:-1]) if qid else []
    for code, group in enumerate(rows):
        np.testing.assert_array_equal(group, np.flatnonzero(queries.codes == code))
    assert queries.sizes.sum() == len(qid)


def test_a_number_and_its_text_are_two_queries() -> None:
    assert Queries.from_ids([1, "1"]).n_queries == 2


def test_columns_of_data_frames_are_taken() -> None:
    wanted = [0, 0, 1]
    for column in (pd.Series(["a", "a", "b"]), pl.Series(["a", "a", "b"]), pd.Series([4, 4, 1])):
        assert Queries.from_ids(column).codes.tolist() == wanted


def test_none_is_one_query() -> None:
    queries = Queries.from_ids(None, 3)
    assert (queries.n_queries, queries.codes.tolist()) == (1, [0, 0, 0])
