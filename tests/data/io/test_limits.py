"""Readers take one file, as much memory as it deserves, and say what is wrong with it."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.io import files
from rankwright.data.io.files import atomic_write
from rankwright.data.io.items import group_file
from rankwright.exceptions import DataError, FileFormatError, ParameterError

Reader = Callable[..., Any]

BOMBS: dict[str, tuple[Reader, bytes]] = {
    "a.csv.gz": (rw.read_items, b"grade,x\n"),
    "a.jsonl.gz": (rw.read_items, b'{"grade": 1, "x": 2}\n'),
    "a.run.gz": (rw.read_run, b"q1 Q0 d1 1 1.0 x\n"),
    "a.qrels.gz": (rw.read_qrels, b"q1 0 d1 1\n"),
    "ratings.csv.gz": (rw.read_ratings, b"1,2,3\n"),
    "events.csv.gz": (rw.read_interactions, b"1,2\n"),
    "log.csv.gz": (rw.read_log, b"q,d,1\n"),
    "a.txt.gz": (rw.read_letor, b"1 qid:1 1:2\n"),
    "newlines.txt.gz": (rw.read_letor, b"\n"),
    "comments.txt.gz": (rw.read_letor, b"# nothing\n"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_gzip_bomb_is_refused_and_the_limit_can_be_raised(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_UNZIPPED", 2**20)
    read, line = BOMBS[name]
    path = tmp_path / name
    path.write_bytes(gzip.compress(line * (2**21 // len(line))))
    with pytest.raises(
        FileFormatError, match=r"(?s)unpacks to more than 1,048,576.*MAX_BYTES"
    ) as told:
        read(path)
    assert told.value.file == str(path)
    with pytest.raises(FileFormatError, match="more than 1,000 bytes"):
        read(path, max_bytes=1000)
    monkeypatch.setenv("RANKWRIGHT_MAX_BYTES", "2000")
    with pytest.raises(FileFormatError, match="more than 2,000 bytes"):
        read(path)


def test_a_gzip_file_within_its_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"\n# x\n" * 2**18 + b"1 qid:1 1:2\n" * 2**14))
    assert rw.read_letor(path).n_items == 2**14
    assert rw.read_letor(path, max_bytes=2**30).n_items == 2**14


def test_a_feature_number_beyond_the_limit_needs_to_be_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 qid:1 1:1\n0 qid:1 2147483647:1\n")
    with pytest.raises(
        FileFormatError, match=r"(?s)a\.txt:2:9: .*n_features=, or RANKWRIGHT_MAX_FEA"
    ):
        rw.read_letor(path)
    assert rw.read_letor(path, n_features=2**31 - 1).n_features == 2**31 - 1
    monkeypatch.setenv("RANKWRIGHT_MAX_FEATURES", str(2**31))
    assert rw.read_items(path).n_features == 2**31 - 1


NAMES = ["train[1].parquet", "a*.parquet", "what?.parquet", "grade=7/x=3.parquet", "it's {a}.pq"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("library", ["duckdb", "polars", "pyarrow", "pandas"])
def test_a_parquet_path_is_one_file_and_its_folders_are_no_columns(
    name: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rankwright.data import inputs

    pytest.importorskip(library)
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    for other in ("train1.parquet", "ab.parquet", "whata.parquet", "its a.pq"):
        rw.data.write_items(rw.Items([[5.0]], [9]), tmp_path / other, format="parquet")
    rw.data.write_items(rw.Items([[1.5]], [2]), path, format="parquet")
    monkeypatch.setattr(inputs, "find_spec", lambda name: name == library or None)
    assert rw.read_items(path).y.tolist() == [2.0]
    assert inputs.parquet_names(path) == ["grade", "f1"]


@pytest.mark.parametrize("name", ["none.parquet", "none*.parquet"])
def test_a_parquet_file_that_is_not_there_is_not_called_damaged(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        rw.read_items(tmp_path / name)


def test_what_is_wrong_in_a_parquet_file_names_the_file(tmp_path: Path) -> None:
    frame = pytest.importorskip("pandas").DataFrame({"y": [1, 0], "x": [[1, 2], [3]]})
    frame.to_parquet(tmp_path / "w.pq")
    with pytest.raises(DataError, match=r"w\.pq: .*x is .*1.*2.* one value"):
        rw.data.read_table(tmp_path / "w.pq", y="y")


def test_a_log_in_parquet_is_one_file(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "query=7").mkdir()
    for name, item in (("log[1].parquet", 1), ("log1.parquet", 2), ("query=7/a.parquet", 3)):
        table = duckdb.sql(f"SELECT 1 AS query, {item} AS item, 1 AS clicks")
        table.write_parquet(str(tmp_path / "new"))
        os.rename(tmp_path / "new", tmp_path / name)
    assert rw.read_log(tmp_path / "log[1].parquet").items.tolist() == [1]
    assert rw.read_log(tmp_path / "query=7" / "a.parquet").queries.tolist() == [1]


GOOD = '{"qid": 1, "grade": 1, "x": 0.5}\n'
BAD_JSON = {
    "beyond float64": '{"qid": 1, "grade": 1, "x": 1e400}',
    "occurs twice": '{"qid": 1, "grade": 1, "x": 1, "grade": 0}',
    "beyond 64 bits": '{"qid": 99999999999999999999, "grade": 1, "x": 1}',
    r"0000\.\.\. is beyond": '{"qid": 1' + "0" * 5000 + ', "grade": 1, "x": 1}',
    "surrogate": '{"qid": "\\ud800", "grade": 1, "x": 1}',
    "not JSON": "\x1f" * 9,
}


@pytest.mark.parametrize("reason", BAD_JSON)
def test_a_json_value_that_is_none_is_refused_at_its_line(reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{GOOD}\n{BAD_JSON[reason]}\n")
    for read in (rw.read_items, rw.read_log):
        with pytest.raises(FileFormatError, match=reason) as told:
            read(path)
        assert (told.value.file, told.value.line) == (str(path), 3)


def test_a_file_of_separators_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\x1f" * 9)
    with pytest.raises(FileFormatError, match="not JSON"):
        rw.read_items(path)


@pytest.mark.parametrize("grade", ["9" * 5000, "0" * 5000, "-" + "0" * 5000 + "1"])
def test_a_grade_of_5000_digits_is_refused(grade: str, tmp_path: Path) -> None:
    path = tmp_path / "a.qrels"
    path.write_text(f"q 0 d 1\nq 0 e {grade}\n")
    with pytest.raises(FileFormatError, match=r"a\.qrels:2:7: .*not a whole number") as told:
        rw.read_qrels(path)
    assert len(told.value.message) < 100


def test_a_long_text_in_quotes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('grade,x,text\n1,2,"' + "long, " * 50_000 + '"\n')
    assert rw.read_items(path, drop=["text"]).X.tolist() == [[2.0]]


@pytest.mark.parametrize("name", ["字" * 85, os.fsdecode(b"caf\xe9.txt"), "a\nb.txt", " "])
def test_every_legal_name_of_a_file_can_be_written_and_read(name: str, tmp_path: Path) -> None:
    rw.write_letor(rw.Items([[1.5]], [1]), tmp_path / name)
    assert rw.read_items(tmp_path / name).X.tolist() == [[1.5]]
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open
    full = lambda path, flags, mode=0: real("/dev/full", os.O_WRONLY)  # noqa: E731
    path = tmp_path / "a"
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match=r"No space left on device: .*a'"), atomic_write(path) as file:
        file.write(b"1")


def test_a_quarantine_over_the_file_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 1:2\nx 1:2\n")
    os.link(path, tmp_path / "b.txt")
    with pytest.raises(ParameterError, match="would be overwritten"):
        rw.read_letor(path, on_bad_line="quarantine", quarantine=tmp_path / "b.txt")
    assert path.read_text() == "1 1:2\nx 1:2\n"


def test_group_sizes_of_lightgbm_are_read_and_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rank.train"
    path.write_text("1 1:2\n0 1:1\n2 1:3\n")
    assert group_file(path) is None
    sizes = tmp_path / "rank.train.query"
    sizes.write_text("2\n1\n")
    assert group_file(path) == str(sizes)
    for group in (sizes, str(sizes), "auto", [2, 1], np.array([2, 1])):
        assert rw.read_items(path, group=group).qid.tolist() == [0, 0, 1]
    assert rw.read_items(path).qid is None
    packed = tmp_path / "rank.train.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert group_file(packed) == str(sizes)
    assert rw.read_items(packed, group="auto").qid.tolist() == [0, 0, 1]
    path.write_text("1 qid:4 1:2\n0 qid:4 1:1\n")
    assert group_file(path) is None
    with pytest.raises(DataError, match="omit group"):
        rw.read_items(path, group=sizes)
    (tmp_path / "a.csv").write_text("grade,x\n1,2\n")
    with pytest.raises(ParameterError, match="only LETOR files"):
        rw.read_items(tmp_path / "a.csv", group=[1])
