"""Errors carry fields, and their text is made of them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

import rankwright as rw
from rankwright.exceptions import DataError, FileFormatError, Message, ParameterError, Setting

FIELDS = ("kind", "file", "line", "column", "parameter", "fix")


def fields(error: rw.exceptions.RankwrightError) -> dict[str, object]:
    return {name: getattr(error, name) for name in FIELDS}


def test_an_error_without_fields_is_its_message() -> None:
    error = DataError("X has no rows.")
    assert str(error) == "X has no rows."
    assert fields(error) == {**dict.fromkeys(FIELDS), "kind": "", "fix": ""}


def test_the_text_is_place_message_and_fix() -> None:
    fix = Message("Give ", Setting("y", "NAME"), ".")
    error = DataError("no column of grades.", file=Path("a.csv"), fix=fix)
    assert str(error) == "a.csv: no column of grades. Give y='NAME'."


def test_a_message_that_starts_with_a_parameter_is_about_it() -> None:
    assert ParameterError(Setting("alpha", 2), ": too large.").parameter == "alpha"


def copy_by_dask(error):
    """Dask lets tblib copy errors, in this process for good; here by hand."""
    pickling_support = pytest.importorskip("tblib.pickling_support")
    rebuild, arguments, *state = pickling_support.pickle_exception(error)
    other = rebuild(*arguments)
    vars(other).update(*state)
    return other


def copy_by_pickle(error):
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize("copied", [copy.copy, copy_by_pickle, copy_by_dask])
@pytest.mark.parametrize(
    "error",
    [
        DataError("odd.", kind="k", file="f", line=3, fix=Message("Say ", Setting("qid", "a"))),
        FileFormatError("a.txt", 3, 9, "odd", "1 qid:1 1:x", Message(Setting("qid")), kind="k"),
        rw.exceptions.DatasetError("no such data set.", file="folder"),
        rw.exceptions.MemoryLimitError(Setting("memory", 3), " is too little."),
    ],
)
def test_copies_have_the_same_fields(error, copied) -> None:
    other = copied(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert fields(other) == fields(error)
    assert other.text().parts == error.text().parts


def test_the_first_file_that_is_named_stays() -> None:
    assert DataError("odd.").in_file("a").in_file("b").file == "a"


def test_a_reader_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("query,title,grade\n1,Heat,1\n1,Alien,good\n")
    with pytest.raises(FileFormatError) as words:
        rw.read_items(path)
    assert fields(words.value) | {"fix": ""} == {
        "kind": "bad grade",
        "file": str(path),
        "line": 3,
        "column": 9,
        "parameter": None,
        "fix": "",
    }
    with pytest.raises(ParameterError) as refused:
        rw.read_items(path, format="xls")
    assert refused.value.parameter == "format"
