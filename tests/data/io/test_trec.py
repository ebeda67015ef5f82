"""TREC runs and qrels come back as written; a bad line is refused by its number."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.io.trec import read_qrels, read_run, write_qrels, write_run
from rankwright.data.runs import Qrels, Run
from rankwright.exceptions import DataError, FileFormatError

ID = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\x0b\x0c\x00\ufeff"),
    min_size=1,
    max_size=6,
)
SCORES = st.floats(allow_nan=False, allow_infinity=False)
RUNS = st.dictionaries(
    ID, st.dictionaries(ID, SCORES, min_size=1, max_size=6), min_size=1, max_size=4
)
GRADES = st.integers(-(2**53), 2**53)
QRELS = st.dictionaries(
    ID, st.dictionaries(ID, GRADES, min_size=1, max_size=6), min_size=1, max_size=4
)


@given(RUNS, ID, st.booleans())
def test_a_run_that_was_written_reads_back_the_same(tmp_path_factory, nested, name, zipped):
    path = tmp_path_factory.getbasetemp() / ("run.gz" if zipped else "run")
    write_run(Run.from_dict(nested, name=name), path)
    back = read_run(path)
    assert (back.to_dict(), back.name) == (nested, name)


@given(QRELS, st.booleans())
def test_qrels_that_were_written_read_back_the_same(tmp_path_factory, nested, zipped):
    path = tmp_path_factory.getbasetemp() / ("qrels.gz" if zipped else "qrels")
    write_qrels(Qrels.from_dict(nested), path)
    assert read_qrels(path).to_dict() == nested


def test_a_run_is_written_best_first_with_ranks_from_one(tmp_path):
    write_run(Run.from_dict({"q": {"a": 0.1, "b": 0.3}}, name="x"), tmp_path / "run")
    assert (tmp_path / "run").read_text() == "q Q0 b 1 0.3 x\nq Q0 a 2 0.1 x\n"


@pytest.mark.parametrize(
    "text",
    [
        "q Q0 d 1 0.5 x",
        "q\tQ0\td\t1\t0.5\tx\n",
        "  q Q0 d   1 0.5 x  \n",
        "\n\nq Q0 d 1 0.5 x\n\n",
        "q Q0 d 1 0.5 x\r\n",
        "\ufeffq Q0 d 1 0.5 x\n",
        "q 0 d 1 +5e-1 x\n",
        "q Q0 d 1 .5 x\n",
        "q Q0 d 0001 0.5 x\n",
        "q Q0 d -3 0.5 x\n",
    ],
)
def test_every_lawful_spelling_of_a_run_is_read(tmp_path, text):
    (tmp_path / "run").write_bytes(text.encode())
    assert read_run(tmp_path / "run").to_dict() == {"q": {"d": 0.5}}


def test_ids_stay_text_and_unicode_blanks_stay_inside_them(tmp_path):
    (tmp_path / "qrels").write_text("007 0 caf\xe9\xa0noir 1\n")
    assert read_qrels(tmp_path / "qrels").to_dict() == {"007": {"caf\xe9\xa0noir": 1}}


def test_qrels_of_three_fields_are_read(tmp_path):
    (tmp_path / "qrels").write_text("OHSU1\t91226903\t1\nOHSU1\t90320756\t2\n")
    assert read_qrels(tmp_path / "qrels").to_dict() == {"OHSU1": {"91226903": 1, "90320756": 2}}


GOOD_RUN = "q1 Q0 d1 1 0.9 x\nq1 Q0 d2 2 0.8 x\n"

# the third line -> the column and part of the reason
BAD_RUN_LINES = [
    *[(line, column, "fields, not 6") for line, column in [
        ("q1 Q0 d3 3 0.7", 15), ("q1 Q0 d3 0.7 x", 15), ("q1 d3 3 0.7 x", 14), ("q1 Q0 d3 3", 11),
        ("q1 Q0 d3", 9), ("q1 Q0", 6), ("q1 Q0 d3 3 0.7 x y", 18), ("q1 Q0 a doc 3 0.7 x", 19),
        ("q1 Q0 d3 3 0.7 my run", 19), ("q1,Q0,d3,3 0.7 x", 17), ("q1 Q0 d3 3 0 . 7 x", 16),
        ("# a comment", 12), ("q1 Q0 d3 3 0.7 x # why", 18), ("q1\u00a0Q0 d3 3 0.7 x", 17),
        ("q1 Q0 d3 3 0.7 x q1 Q0 d4 4 0.6 x", 18),
    ]],
    *[(line, len(line) + 1, "1 field, not 6") for line in [
        "q1", "q1,Q0,d3,3,0.7,x", "q1;Q0;d3;3;0.7;x", "-", "<top>", "{}", "\u00a0",
    ]],
    *[(f"q1 Q0 d3 3 {score} x", 12, "is not a finite number") for score in [
        "nan", "NaN", "inf", "-inf", "Infinity", "1e999", "-1e999", "abc", "1,5", "1_000", "0x1p3",
        "0x10", "--1", "1e", "e5", "1.2.3", "\uff11", "1-2", "+", ".", "None", "1f", "0.7%",
        '"0.7"', "(0.7)", "1e5.5", "1.0e+", "\u00bd", "\u2212", "NULL",
    ]],
    *[(f"q1 Q0 d3 {rank} 0.7 x", 10, "is not a whole number") for rank in [
        "1.0", "one", "1e0", "-", "1_0", "0x1", "\u0663", "nan", "1,", "99999999999999999999",
    ]],
    ("q1 Q0 d1 3 0.7 x", 7, "document d1 appears in query q1 a second time"),
    ("q1 Q0 d2 3 0.7 x", 7, "a second time"),
    ("q1 Q0 d3 3 0.7 y", 16, 'run name "y" after "x"'),
    ("q1 Q0 d3 3 0.7 X", 16, 'run name "X" after "x"'),
]  # fmt: skip


@pytest.mark.parametrize("ending", ["\n", ""])
@pytest.mark.parametrize("line, column, reason", BAD_RUN_LINES)
def test_a_bad_line_of_a_run_is_refused_by_line_and_column(tmp_path, line, column, reason, ending):
    (tmp_path / "bad.run").write_bytes((GOOD_RUN + line + ending).encode())
    with pytest.raises(FileFormatError) as caught:
        read_run(tmp_path / "bad.run")
    assert (caught.value.line, caught.value.column) == (3, column)
    assert reason in caught.value.message
    assert caught.value.fix
    assert caught.value.source == line.rstrip("\r")


GOOD_QRELS = "q1 0 d1 1\nq1 0 d2 0\n"

BAD_QRELS_LINES = [
    *[(line, column, "fields, not 4") for line, column in [
        ("q1 0 d3", 8), ("q1 d3 1", 8), ("q1 0", 5), ("q1 0 d3 1 x", 11), ("q1 0 a doc 1", 12),
        ("q1 0 d3 1 # why", 11), ("q1 Q0 d3 3 0.7 x", 12), ("q1 0 d3 1 q1 0 d4 0", 11),
        ("# a comment", 12), ("q1 0 d3 1 1", 11), ("q1,0 d3 1", 10), ("q1\u00a00 d3 1", 10),
    ]],
    *[(line, len(line) + 1, "1 field, not 4") for line in [
        "q1", "q1,0,d3,1", "q1;0;d3;1", "-", "<num>", "{}", "\u00a0", "q1|0|d3|1",
    ]],
    *[(f"q1 0 d3 {grade}", 9, "is not a whole number") for grade in [
        "1.0", "0.5", "one", "1e0", "-", "+", "1_0", "0x1", "\u0663", "\uff11", "nan", "inf", "1,",
        "NULL", "99999999999999999999", "-99999999999999999999", "9223372036854775808", '"1"',
        "(1)", "1-", "--1", "1.", "1e", "True", "yes", "rel", "\u00bd", "1/2", "1;", "1\u00b2",
        "None", "~", ".1", "\u2212",
    ]],
    ("q1 0 d1 1", 6, "document d1 appears in query q1 a second time"),
    ("q1 0 d2 2", 6, "a second time"),
    ("q1 1 d1 0", 6, "a second time"),
    ("q1\t0\td1\t1", 6, "a second time"),
    ("  q1 0 d1 1", 8, "a second time"),
    ("q1 0 d1 -1", 6, "a second time"),
]  # fmt: skip


@pytest.mark.parametrize("ending", ["\n", ""])
@pytest.mark.parametrize("line, column, reason", BAD_QRELS_LINES)
def test_a_bad_line_of_qrels_is_refused_by_line_and_column(tmp_path, line, column, reason, ending):
    (tmp_path / "bad.qrels").write_bytes((GOOD_QRELS + line + ending).encode())
    with pytest.raises(FileFormatError) as caught:
        read_qrels(tmp_path / "bad.qrels")
    assert (caught.value.line, caught.value.column) == (3, column)
    assert reason in caught.value.message
    assert caught.value.fix


def test_there_are_sixty_bad_lines_of_each_kind():
    assert len(BAD_RUN_LINES) >= 60
    assert len(BAD_QRELS_LINES) >= 60


@pytest.mark.parametrize("read, good", [(read_run, GOOD_RUN), (read_qrels, GOOD_QRELS)])
@pytest.mark.parametrize(
    "spoil, line, reason",
    [
        (lambda text: b"", 1, "empty"),
        (lambda text: b" \n\n ", 1, "empty"),
        (lambda text: b"\xef\xbb\xbf", 1, "empty"),
        (lambda text: text.decode().encode("utf-16"), 1, "UTF-16"),
        (lambda text: text + b"\x00", 3, "NUL"),
        (lambda text: text.replace(b"d2", b"d\x00"), 2, "NUL"),
        (lambda text: text.replace(b"d2", b"d\xe9"), 2, "not utf-8"),
        (lambda text: text.replace(b"\n", b"\r"), 1, "CR alone"),
    ],
)
def test_a_file_that_is_no_text_of_ours_is_refused(tmp_path, read, good, spoil, line, reason):
    (tmp_path / "bad").write_bytes(spoil(good.encode()))
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path / "bad")
    assert caught.value.line == line
    assert reason in caught.value.message


@pytest.mark.parametrize("read", [read_run, read_qrels])
def test_a_gzip_file_that_was_cut_off_is_refused(tmp_path, read):
    (tmp_path / "bad.gz").write_bytes(gzip.compress(GOOD_RUN.encode() * 50)[:-12])
    with pytest.raises(DataError, match="damaged or cut off"):
        read(tmp_path / "bad.gz")


@pytest.mark.parametrize("read", [read_run, read_qrels])
def test_a_folder_and_a_missing_file_are_refused_as_such(tmp_path, read):
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["", "two words", "tab\there", "nul\x00"])
def test_an_id_that_a_trec_file_cannot_say_is_not_written(tmp_path, name):
    with pytest.raises(DataError, match="cannot be written to a TREC file"):
        write_run(Run.from_dict({name: {"d": 1.0}}), tmp_path / "run")
    with pytest.raises(DataError, match="cannot be written to a TREC file"):
        write_qrels(Qrels.from_dict({"q": {name: 1}}), tmp_path / "qrels")
    assert list(Path(tmp_path).iterdir()) == []
