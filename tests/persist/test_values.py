"""Values survive the trip through JSON and arrays unchanged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rankwright import ParameterError
from rankwright.persist.codec import Packer, Unpacker
from rankwright.persist.format import FORMAT, Manifest, ModelNode, Refused, read_file, write_file

SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
ARRAYS = st.sampled_from(["<f8", "<f4", "<i8", "<i4", "u1", "?", ">f8", ">i4"]).flatmap(
    lambda dtype: arrays.arrays(dtype, SHAPES)
)
TEXTS = st.lists(st.text(max_size=5), max_size=4).map(lambda found: np.array(found, dtype=object))
KEYS = st.text(max_size=5) | st.sampled_from(["array", "float"])
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**80), 2**80), st.floats(), st.text(max_size=8)
)
VALUES = st.recursive(
    PLAIN | ARRAYS | TEXTS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(
            st.text(max_size=5) | st.sampled_from(["array", "float"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        plain = left.dtype.newbyteorder("=")
        return (
            isinstance(right, np.ndarray)
            and right.dtype == plain
            and right.shape == left.shape
            and (plain.kind == "O" or left.astype(plain).tobytes() == right.tobytes())
            and (plain.kind != "O" or left.tolist() == right.tolist())
        )
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, float):
        return math.isnan(right) if math.isnan(left) else left.hex() == right.hex()
    return bool(left == right)


def through_a_file(value: Any, path: Path) -> Any:
    packer = Packer()
    node = ModelNode("any", {"value": packer.pack(value, "value")}, {})
    write_file(path, Manifest(FORMAT, "0", node, None, None, packer.stored), packer.arrays)
    manifest, found = read_file(path)
    return Unpacker(found, {}, own=True).unpack(manifest.model.params["value"])


@given(value=VALUES)
def test_any_value_comes_back_as_it_was(
    value: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert equal(value, through_a_file(value, tmp_path_factory.getbasetemp() / "value.rw"))


def test_the_order_in_memory_is_kept_since_the_last_bit_of_a_product_hangs_on_it(
    tmp_path: Path,
) -> None:
    table = np.asfortranarray(np.random.default_rng(0).normal(size=(4, 3)))
    found = through_a_file(table, tmp_path / "table.rw")
    assert found.flags.f_contiguous
    assert np.array_equal(found, table)


def test_numpy_scalars_become_plain_numbers(tmp_path: Path) -> None:
    found = through_a_file([np.float64(0.1), np.int32(3), np.bool_(True)], tmp_path / "x.rw")
    assert found == [0.1, 3, True]
    assert [type(value) for value in found] == [float, int, bool]


def test_a_set_becomes_a_sorted_tuple(tmp_path: Path) -> None:
    assert through_a_file([{3, 1}, {2}], tmp_path / "x.rw") == [(1, 3), (2,)]


def test_equal_arrays_of_a_loaded_model_are_not_the_same_array(tmp_path: Path) -> None:
    one, two = through_a_file([np.zeros(3), np.zeros(3)], tmp_path / "x.rw")
    one[0] = 1.0
    assert two[0] == 0.0


@pytest.mark.parametrize(
    "value, words",
    [
        (lambda a, b: a @ b.T, "the function '<lambda>'.*'rbf'"),
        (np.array([{}], dtype=object), "Python objects"),
        (np.zeros(2, dtype=complex), "complex128"),
        ({1: 2}, "is a dict"),
        (object(), "is a object"),
    ],
    ids=["function", "objects", "complex", "numbered dict", "object"],
)
def test_what_cannot_be_kept_is_refused_by_place_and_reason(value: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=f"model.kernel.*{words}"):
        Packer().pack(value, "model.kernel")


def test_texts_with_ends_in_disorder_are_refused() -> None:
    packer = Packer()
    packed = packer.pack(np.array(["ab", "c"], dtype=object), "x")
    for ends in ([3, 2], [2, 9], [-1, 3], []):
        broken = {**packer.arrays, "x.ends": np.array(ends, dtype=np.int64)}
        with pytest.raises((Refused, ValueError)):
            Unpacker(broken, {}, own=False).unpack(packed)
    assert json.dumps(packed)
