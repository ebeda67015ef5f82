"""Reading and writing LETOR files: layouts, queries by size, bad lines, files of all kinds."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwright as rw
from rankwright.data.io.letor import reader as read
from rankwright.data.items import BadLine, Items
from rankwright.exceptions import DataError, FileFormatError

SMALL = b"""\
2 qid:10 1:0.5 2:0.25 #docid = A inc = 1
0 qid:10 2:1 #docid = B
1 qid:7 1:NULL #docid = C
"""


@pytest.fixture(params=["plain", "kernel"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    large = 0 if request.param == "kernel" else 2**62
    monkeypatch.setattr(read, "_LARGE", large)
    monkeypatch.setattr(read, "_LARGE_COLD", large)
    return request.param


def load(text: bytes | str, **options: object) -> Items:
    return rw.read_letor(io.BytesIO(text if isinstance(text, bytes) else text.encode()), **options)


def with_bad_lines(n_good: int, n_bad: int) -> bytes:
    """Every bad line has a good one before and after it."""
    good = [b"1 qid:%d 1:%d\n" % (i // 3, i) for i in range(n_good)]
    for i in range(n_bad):
        good.insert(2 * i + 1, b"1 qid:0 1:bad%d\n" % i)
    return b"".join(good)


# ---- what is read


def test_a_file_becomes_features_grades_queries_and_ids(parser: str) -> None:
    items = load(SMALL)
    assert np.array_equal(items.X, [[0.5, 0.25], [0, 1], [np.nan, 0]], equal_nan=True)
    assert items.y.tolist() == [2, 0, 1]
    assert items.qid.tolist() == [10, 10, 7]
    assert items.qid.dtype == np.int64
    assert items.docid.tolist() == ["A", "B", "C"]
    assert items.comment is None
    assert items.queries.sizes.tolist() == [2, 1]


def test_whole_comments_are_kept_on_request(parser: str) -> None:
    items = load(SMALL + b"1 qid:7 1:1\n1 qid:7 1:1 #\n", comments="keep")
    assert items.comment.tolist() == [
        "docid = A inc = 1", "docid = B", "docid = C", None, "",
    ]  # fmt: skip
    assert items.docid.tolist() == ["A", "B", "C", None, None]


def test_comments_are_dropped_on_request(parser: str) -> None:
    assert load(SMALL, comments="drop").docid is None


def test_a_path_a_binary_file_a_text_file_and_a_stream_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(SMALL)

    class Stream:
        """Gives few bytes at a time and cannot seek."""

        def __init__(self) -> None:
            self._file = io.BytesIO(gzip.compress(SMALL))

        def read(self, n: int) -> bytes:
            return self._file.read(min(n, 5))

    with open(path, "rb") as binary, open(path) as text:
        sources = [path, str(path), binary, text, io.StringIO(SMALL.decode()), Stream()]
        results = [rw.read_letor(source) for source in sources]
    assert all(np.array_equal(r.X, results[0].X, equal_nan=True) for r in results)
    assert all(r.docid.tolist() == ["A", "B", "C"] for r in results)


def test_gzip_is_told_by_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(gzip.compress(SMALL))
    (tmp_path / "b.gz").write_bytes(SMALL)
    assert len(rw.read_letor(tmp_path / "a.txt")) == len(rw.read_letor(tmp_path / "b.gz")) == 3


# ---- dense and sparse


def test_a_large_matrix_with_few_cells_written_becomes_sparse(parser: str) -> None:
    text = b"".join(b"1 %d:1 5000:2\n" % (i + 1) for i in range(1000))
    items = load(text)
    assert items.is_sparse
    assert items.X.nnz == 2000
    assert items.X[7, 7] == 1
    assert items.X.has_canonical_format


def test_a_small_matrix_is_dense_however_empty(parser: str) -> None:
    assert not load(b"1 5000:1\n").is_sparse


def test_the_layout_can_be_chosen(parser: str) -> None:
    dense, sparse = load(SMALL, dense=True), load(SMALL, dense=False)
    assert np.array_equal(dense.X, sparse.X.toarray(), equal_nan=True)
    assert sparse.X.indices.dtype == np.int32


def test_zeros_that_are_written_are_not_stored_in_a_sparse_matrix(parser: str) -> None:
    items = load(b"1 1:0 2:5\n0 1:0\n", dense=False)
    assert items.X.nnz == 1
    assert items.X.shape == (2, 2)


def full(n_columns: int) -> bytes:
    """A line with every feature."""
    return b"1 " + b" ".join(b"%d:2" % (i + 1) for i in range(n_columns)) + b"\n"


LAYOUTS = {
    "sparse, then dense": [b"1 2000:1\n"] * 700 + [full(2000)] * 400,
    "dense, then sparse": [full(200)] * 300 + [b"1 4000:1\n"] * 900,
    "dense in the end only": [b"1 2000:1\n"] * 700 + [full(2000)] * 300,
    "columns appear late": [b"1\n"] * 50 + [b"1 1:1\n"] * 50 + [b"1 1:1 20:3\n"] * 50,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_depends_on_the_file_and_not_on_the_blocks(
    name: str, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"".join(LAYOUTS[name])
    whole = load(text)
    monkeypatch.setattr(read, "_BLOCK", 16_384)
    pieces = load(text)
    assert whole.is_sparse == pieces.is_sparse
    left, right = (i.X.toarray() if i.is_sparse else i.X for i in (whole, pieces))
    assert np.array_equal(left, right)
    assert left.sum() == sum(
        float(v.split(b":")[1]) for line in LAYOUTS[name] for v in line.split()[1:]
    )


def test_reading_needs_less_than_twice_the_memory_of_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "_LARGE", 0)
    monkeypatch.setattr(read, "_LARGE_COLD", 0)
    line = b"1 qid:1 " + b" ".join(b"%d:0.%d" % (i, i) for i in range(1, 137)) + b"\n"
    plain, zipped = tmp_path / "a.txt", tmp_path / "a.gz"
    plain.write_bytes(line * 40_000)
    zipped.write_bytes(gzip.compress(line * 40_000, 1))
    load(SMALL)  # the kernel's own code is not counted
    for path in (plain, zipped):
        tracemalloc.start()
        items = rw.read_letor(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert items.X.shape == (40_000, 136)
        assert peak < 2 * items.X.nbytes


# ---- queries by size


def test_group_sizes_number_the_queries(parser: str, tmp_path: Path) -> None:
    side = tmp_path / "train.query"
    side.write_bytes(b"2\r\n1\r\n\r\n")
    text = b"1 1:1\n0 1:2\n2 1:3\n"
    assert load(text, group=side).qid.tolist() == [0, 0, 1]
    assert load(text, group=[1, 2]).qid.tolist() == [0, 1, 1]
    assert load(text, group=np.array([3])).qid.tolist() == [0, 0, 0]


def test_group_sizes_stay_in_step_when_bad_lines_are_skipped(parser: str) -> None:
    text = b"1 1:1\n0 1:x\n#\n2 1:3\n0 1:y\n1 1:4\n"
    items = load(text, group=[2, 2, 1], on_bad_line="skip")
    assert items.qid.tolist() == [0, 1, 2]


# ---- bad lines


def test_skipped_lines_are_noted_without_their_text(parser: str) -> None:
    items = load(with_bad_lines(4, 2), on_bad_line="skip")
    assert len(items) == 4
    assert items.bad_lines == (
        BadLine(2, 11, 'value "bad0" is not a number', ""),
        BadLine(4, 11, 'value "bad1" is not a number', ""),
    )


def test_quarantined_lines_are_kept_and_can_be_mended(parser: str, tmp_path: Path) -> None:
    path, quarantine = tmp_path / "a.txt", tmp_path / "bad.txt"
    path.write_bytes(with_bad_lines(4, 2))
    items = rw.read_letor(path, on_bad_line="quarantine", quarantine=quarantine)
    assert [bad.text for bad in items.bad_lines] == ["1 qid:0 1:bad0", "1 qid:0 1:bad1"]
    assert quarantine.read_text() == (
        f'# {path}:2:11: value "bad0" is not a number\n1 qid:0 1:bad0\n'
        f'# {path}:4:11: value "bad1" is not a number\n1 qid:0 1:bad1\n'
    )
    quarantine.write_bytes(quarantine.read_bytes().replace(b"1:bad", b"1:"))
    assert rw.read_letor(quarantine).X[:, 0].tolist() == [0, 1]


def test_no_quarantine_file_appears_without_bad_lines(tmp_path: Path) -> None:
    load(SMALL, on_bad_line="quarantine", quarantine=tmp_path / "bad.txt")
    assert not (tmp_path / "bad.txt").exists()


def test_more_bad_lines_than_allowed_stop_the_reading(parser: str) -> None:
    text = with_bad_lines(10, 4)
    assert len(load(text, on_bad_line="skip", max_bad=4)) == 10
    with pytest.raises(FileFormatError, match="bad line 4, more than max_bad=3") as caught:
        load(text, on_bad_line="skip", max_bad=3)
    assert caught.value.line == 8


def test_a_fraction_of_bad_lines_is_of_all_lines(parser: str) -> None:
    text = with_bad_lines(90, 10)
    assert len(load(text, on_bad_line="skip", max_bad=0.1)) == 90
    with pytest.raises(FileFormatError, match=r"more than max_bad=0.09 of 100 lines"):
        load(text, on_bad_line="skip", max_bad=0.09)


def test_no_bad_line_is_allowed_with_a_limit_of_zero(parser: str) -> None:
    with pytest.raises(FileFormatError, match="more than max_bad=0"):
        load(with_bad_lines(2, 1), on_bad_line="skip", max_bad=0)


def test_a_file_of_bad_lines_only_is_refused(parser: str) -> None:
    with pytest.raises(FileFormatError, match="none of the 2 items can be read") as refusal:
        load(b"# no item\n1 qid:1 1:0,5\nb\n", on_bad_line="skip")
    assert (refusal.value.line, refusal.value.column) == (2, 11)
    assert refusal.value.message.startswith('value "0,5" is not a number; ')


def test_ten_thousand_bad_lines_keep_their_places(parser: str) -> None:
    text = with_bad_lines(20_000, 10_000)
    items = load(text, on_bad_line="skip", max_bad=10_000)
    assert [bad.line for bad in items.bad_lines] == list(range(2, 20_001, 2))
    assert items.X[:, 0].tolist() == list(range(20_000))


# ---- small and large files


def test_a_small_file_is_read_without_numba_and_scipy(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(SMALL * 1000)
    code = (
        "import sys, rankwright as rw\n"
        f"rw.read_letor({str(path)!r})\n"
        "assert not {'numba', 'scipy', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_large_stream_changes_over_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_LARGE", 10_000)
    monkeypatch.setattr(read, "_LARGE_COLD", 10_000)
    monkeypatch.setattr(read, "_BLOCK", 2_000)
    text = b"".join(b"%d qid:%d 1:%d #docid = D%d\n" % (i % 3, i // 9, i, i) for i in range(3000))
    items = load(text)
    assert items.X[:, 0].tolist() == list(range(3000))
    assert items.qid.tolist() == [i // 9 for i in range(3000)]
    assert items.docid.tolist() == [f"D{i}" for i in range(3000)]


# ---- writing


def test_a_file_is_written_as_it_would_be_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    rw.write_letor(
        Items([[0.5, -0.0], [np.nan, 1e-7]], [2, 0.5], ["a", "b"], docid=["D1", None]), path
    )
    assert path.read_text() == "2 qid:a 1:0.5 2:-0 #docid = D1\n0.5 qid:b 1:NULL 2:1e-07\n"


def test_whole_comments_are_written_back(tmp_path: Path) -> None:
    items = load(SMALL, comments="keep")
    rw.write_letor(items, tmp_path / "a.txt")
    again = rw.read_letor(tmp_path / "a.txt", comments="keep")
    assert again.comment.tolist() == items.comment.tolist()


def test_an_id_with_blanks_is_written_as_the_whole_comment(tmp_path: Path) -> None:
    rw.write_letor(Items([[1.0]], [1], docid=["my document"]), tmp_path / "a.txt")
    assert rw.read_letor(tmp_path / "a.txt").docid.tolist() == ["my document"]


def test_a_sparse_matrix_keeps_its_width(tmp_path: Path) -> None:
    X = csr_array(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]))
    rw.write_letor((X, [1, 0]), tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "1 2:2 3:0\n0\n"
    assert np.array_equal(rw.read_letor(tmp_path / "a.txt", dense=False).X.toarray(), X.toarray())


def test_equal_items_make_equal_gzip_files(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        rw.write_letor(load(SMALL), tmp_path / name)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).startswith(b"2 qid:10 1:0.5")


@pytest.mark.parametrize(
    "items, words",
    [
        (Items(np.zeros((0, 2)), []), "at least one item"),
        (Items(np.zeros((2, 0)), [1, 2]), "at least one item"),
        (Items([[1.0]], [np.nan]), "y is nan in row 0"),
        (Items([[1.0], [np.inf]], [1, 2]), "row 1, column 0"),
        (Items(csr_array([[0, -np.inf]]), [1]), "row 0, column 1"),
        (Items([[1.0]], [1], ["a b"]), "qid 'a b' cannot be written"),
        (Items([[1.0]], [1], ["a#b"]), "qid 'a#b'"),
        (Items([[1.0]], [1], [""]), "qid ''"),
        (Items([[1.0], [1.0]], [1, 1], [1, "1"]), "would both be written as 1"),
        (Items([[1.0]], [1], docid=[""]), "docid '' in row 0"),
        (Items([[1.0]], [1], docid=[" a"]), "docid ' a' in row 0"),
        (Items([[1.0]], [1], docid=["a\nb"]), "line end"),
        (Items([[1.0]], [1], docid=["\ud800"]), "half of a surrogate pair"),
        (Items([[1.0]], [1], comment=["a\rb"]), "line end"),
    ],
)
def test_what_no_file_can_say_is_refused_and_the_old_file_stays(
    tmp_path: Path, items: Items, words: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(DataError, match=words):
        rw.write_letor(items, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
