"""Ids as given become dense numbers and come back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.vocabulary import Vocabulary, as_ids, encode
from rankwright.exceptions import DataError

IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.integers(0, 20)),
    st.lists(st.text(max_size=4)),
    st.lists(st.one_of(st.integers(), st.text(max_size=2), st.tuples(st.integers()))),
)


@given(IDS)
def test_encoding_then_looking_up_gives_every_id_back(ids):
    column = as_ids(ids)
    number, distinct = encode(column)
    assert distinct[number].tolist() == column.tolist()


@given(IDS)
def test_numbers_follow_the_order_of_first_appearance(ids):
    number, distinct = encode(as_ids(ids))
    assert distinct.tolist() == list(dict.fromkeys(as_ids(ids).tolist()))
    assert number.tolist() == [distinct.tolist().index(key) for key in as_ids(ids).tolist()]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "f8", "M8[ns]", "U3", "S3", "?"])
def test_every_dtype_is_encoded_and_kept(dtype):
    ids = np.array([1, 0, 1, 1, 0]).astype(dtype)
    number, distinct = encode(ids)
    assert distinct.dtype == ids.dtype
    assert (distinct[number] == ids).all()


def test_the_widest_whole_numbers_do_not_overflow():
    ids = np.array([-128, 127, -128], dtype=np.int8)
    assert encode(ids)[0].tolist() == [0, 1, 0]
    ids = np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], dtype=np.uint64)
    assert encode(ids)[1].tolist() == [2**64 - 1, 2**64 - 2]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, np.datetime64("NaT")])
def test_a_missing_id_is_named_by_its_row(missing):
    with pytest.raises(DataError, match=r"item is .* in row 1"):
        as_ids(np.array(["a", missing], dtype=object), "item")


def test_a_nul_at_the_end_of_an_id_is_kept():
    assert encode(as_ids(["a", "a\0"]))[0].tolist() == [0, 1]


def test_an_unknown_id_is_an_error_or_the_number_asked_for():
    vocabulary = Vocabulary(np.array(["a", "b"]), "film")
    assert vocabulary.numbers(["b", "z"], unknown=-1).tolist() == [1, -1]
    with pytest.raises(DataError, match="film 'z' is not one of the 2 known ids"):
        vocabulary.numbers(["b", "z"])


@pytest.mark.parametrize("ids, kind", [([np.int64(3), 5], "i"), ([np.str_("a"), "b"], "U")])
def test_scalars_of_numpy_beside_those_of_python_are_ids_of_one_type(ids, kind) -> None:
    # An array of objects cannot be saved in a model file.
    assert as_ids(ids).dtype.kind == kind
    assert as_ids(ids).tolist() == ids
