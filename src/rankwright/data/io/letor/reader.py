"""Read LETOR (svmlight) text files: ``label qid:<id> <feature>:<value> ... # docid = <id>``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.io.files import (
    TextFile,
    atomic_write,
    bounded,
    check_outputs,
    limit_from_environment,
    open_text,
    read_text,
)
from rankwright.data.io.letor.parser import (
    MAX_FEATURES,
    SPREADSHEET_ERROR,
    Block,
    CompiledBlocks,
    LineBlocks,
    LineError,
    LineParser,
)
from rankwright.data.items import BadLine, Items
from rankwright.exceptions import DataError, FileFormatError, Message, ParameterError, Setting

_BLOCK = 2**20  # bytes read at a time
_LARGE = 2**18  # bytes from which the compiled kernel pays off, once it is loaded
_LARGE_COLD = 16 * 2**20  # ... and from which it pays to import numba, which takes a second
_NO_ITEMS = re.compile(rb"(?:[ \t]*+(?:#(?![A-Z])[\t -~]*+)?+\n)*+")  # blank lines and comments
SMALL = 2**20  # cells; up to this size a dense matrix is cheap
DENSITY = 0.25  # share of the cells that are in the file, from which X is dense
USUAL_FEATURES = 10_000_000  # unless the caller says how many there are
_PLAIN_INTEGER = re.compile(rb"0|[1-9][0-9]{0,18}").fullmatch


@bounded
def read_letor(
    path: str | os.PathLike[str] | IO[Any],
    *,
    n_features: int | None = None,
    dense: bool | None = None,
    zero_based: bool = False,
    group: str | os.PathLike[str] | Sequence[int] | NDArray[Any] | None = None,
    comments: Literal["docid", "keep", "drop"] = "docid",
    on_bad_line: Literal["error", "skip", "quarantine"] = "error",
    max_bad: int | float = 100,
    quarantine: str | os.PathLike[str] | None = None,
    max_bytes: int | None = None,
) -> Items:
    """Read a LETOR (svmlight) file of graded items with numbered features, gzipped or not.

    A line is ``label qid:<id> <number>:<value> ... # comment``. Labels and values are finite
    decimal numbers, rounded as ``float`` does. The value ``NULL`` is a missing feature (NaN); a
    feature that is not written is 0. Feature numbers start at 1 and ascend. Every line has a qid,
    or none has; the rows of a query need not be adjacent. Blank lines and lines with only a
    comment are skipped. The text is UTF-8 with LF or CRLF; lines are at most 16 MiB.

    Parameters
    ----------
    path : path, or file open for reading
    n_features : int or None, default=None
        Number of columns of ``X``; None uses the largest feature number in the file, up to ten
        million or ``RANKWRIGHT_MAX_FEATURES``. A line with a larger number is invalid.
    dense : bool or None, default=None
        Whether ``X`` is a NumPy array or a SciPy CSR array without explicit zeros. None chooses a
        NumPy array for up to a million cells, or if at least a quarter of the cells is written.
    zero_based : bool, default=False
        Whether the first feature is number 0.
    group : path or sequence of int or None, default=None
        For files without qid: the number of lines of each query, or LightGBM's file of them.
    comments : {"docid", "keep", "drop"}, default="docid"
        Store the id after ``docid =`` (or a whole comment of another form) in ``docid``; also fill
        ``comment``; or ignore comments, even those that are not UTF-8.
    on_bad_line : {"error", "skip", "quarantine"}, default="error"
        Raise a FileFormatError with line, column, reason and fix; skip the line and record it with
        the reason in ``bad_lines``; or record its text as well (and write ``quarantine``).
    max_bad : int or float, default=100
        Maximum number of bad lines; below 1, a fraction of the lines with items.
    quarantine : path or None, default=None
        A file for the bad lines, if any, each after a comment with its location and reason.
    max_bytes : int or None
        Maximum number of bytes of text to read. None uses ``RANKWRIGHT_MAX_BYTES`` if set, and
        otherwise refuses only gzip files that unpack to more than 64 MiB and 32 times their size.

    Returns
    -------
    items : Items
        ``qid`` is int64 if all ids are whole numbers below 2**63 without leading zeros, else text.

    Examples
    --------
    >>> import io
    >>> items = read_letor(io.StringIO("2 qid:7 1:0.5 2:1 #docid = A\\n0 qid:7 2:NULL\\n"))
    >>> items.X.tolist(), items.qid, items.docid.tolist()
    ([[0.5, 1.0], [0.0, nan]], array([7, 7]), ['A', None])
    """
    _check_options(n_features, dense, comments)
    sizes = None if group is None else _read_groups(group)
    check_outputs([path, group], [("quarantine", quarantine)])
    usual = limit_from_environment("RANKWRIGHT_MAX_FEATURES") or USUAL_FEATURES
    limit = n_features or min(usual, MAX_FEATURES)
    with open_text(path) as file:
        bad = BadLines(file.name, on_bad_line, max_bad, quarantine)
        lines = LineParser(limit, zero_based, comments != "drop", is_limit=n_features is None)
        table = _FileColumns(dense, n_features)
        for block in _parse_blocks(file, lines, bad, comments):
            table.add(block, file.fraction_read())
            bad.end_block(table.n_rows)
        bad.write()
        table.check(file.name, bad.lines)
    qid = table.qid() if lines.has_qid else None
    if sizes is not None and lines.has_qid:
        raise DataError(f"{file.name} has a qid in every line: omit group.")
    if sizes is not None:
        qid = _qid_of_groups(sizes, file.name, table.n_rows, bad.items)
    return table.finish(qid, tuple(bad.lines))


def _check_options(n_features: Any, dense: object, comments: object) -> None:
    is_number = isinstance(n_features, int | np.integer) and not isinstance(n_features, bool)
    if n_features is not None and not (is_number and 1 <= n_features <= MAX_FEATURES):
        raise ParameterError(
            Setting("n_features", n_features), f": must be a whole number, 1 to {MAX_FEATURES}."
        )
    if dense not in (None, True, False):
        raise ParameterError(Setting("dense", dense), ": must be True, False or None.")
    if comments not in ("docid", "keep", "drop"):
        allowed = '"docid", "keep" or "drop"'
        raise ParameterError(Setting("comments", comments), f": must be {allowed}.")


def _parse_blocks(
    file: TextFile, lines: LineParser, bad: BadLines, comments: str
) -> Iterator[Block]:
    """The rows of a file, block by block; the compiled parser takes over once it pays off."""
    parser = LineBlocks(lines, bad.add, comments)
    n_read, tried = 0, False
    for data in file.blocks(_BLOCK):
        n_read += len(data)
        n_skipped = 0
        if lines.has_qid is None:  # the kernel waits for the first item: do not look line by line
            start = _NO_ITEMS.match(data).end()  # type: ignore[union-attr]
            n_skipped, data = data.count(b"\n", 0, start), data[start:]
        limit = _LARGE if "rankwright.data.io.letor._kernels" in sys.modules else _LARGE_COLD
        if not tried and max(n_read, file.size or 0) >= limit:
            tried = True
            with suppress(ImportError):
                parser = CompiledBlocks(lines, bad.add, comments)
        if data:
            yield parser.parse(data, file.line + 1 + n_skipped)


def _read_groups(group: str | os.PathLike[str] | Sequence[int] | NDArray[Any]) -> IntArray:
    if isinstance(group, str | os.PathLike) or hasattr(group, "read"):
        return _read_group_file(group)
    sizes = np.asarray(group)
    if sizes.ndim != 1 or (sizes.dtype.kind not in "iu" and len(sizes)):
        raise DataError("group must be a path or a list of whole numbers, one per query.")
    if (sizes < 1).any():
        query = int(np.argmax(sizes < 1))
        raise DataError(f"group[{query}] is {sizes[query]}: every query needs at least one item.")
    return sizes.astype(np.int64)


def _read_group_file(path: Any) -> IntArray:
    text = read_text(path)
    sizes: list[int] = []
    for number, line in enumerate(text.data.split(b"\n"), start=1):
        token = line.strip(b" \t")
        if not token:
            continue
        if not token.isdigit() or len(token) > 18 or int(token) < 1:
            reason = "the size of a group is not a whole number >= 1"
            fix = "write one number per line: how many items each query has"
            text.refuse(number, line.index(token) + 1, reason, fix)
        sizes.append(int(token))
    return np.array(sizes, dtype=np.int64)


def _qid_of_groups(sizes: IntArray, name: str, n_rows: int, left_out: list[int]) -> IntArray:
    """The query number of each row; ``left_out`` are the items that bad lines would have been."""
    qid = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    if len(qid) != n_rows + len(left_out):
        raise DataError(
            f"{name} has {n_rows + len(left_out):,} items, but the {len(sizes):,} sizes in group "
            f"add up to {len(qid):,}. Give the sizes that belong to this file."
        )
    return np.delete(qid, left_out)


class BadLines:
    """Collects the bad lines of one file, or raises an error for the first."""

    def __init__(
        self, name: str, on_bad_line: str, max_bad: float, quarantine: str | os.PathLike[str] | None
    ) -> None:
        if on_bad_line not in ("error", "skip", "quarantine"):
            allowed = '"error", "skip" or "quarantine"'
            raise ParameterError(Setting("on_bad_line", on_bad_line), f": must be {allowed}.")
        if isinstance(max_bad, bool) or not isinstance(max_bad, int | float) or not max_bad >= 0:
            allowed = "a whole number >= 0, or a fraction of the lines between 0 and 1"
            raise ParameterError(Setting("max_bad", max_bad), f": must be {allowed}.")
        if quarantine is not None and on_bad_line != "quarantine":
            raise ParameterError(
                Setting("quarantine", os.fspath(quarantine)),
                ": a quarantine file needs ",
                Setting("on_bad_line", "quarantine"),
                ".",
            )
        self._name, self._mode, self._limit, self._path = name, on_bad_line, max_bad, quarantine
        self._raw: list[bytes] = []
        self.lines: list[BadLine] = []
        self.items: list[int] = []  # which items, from 0 and good or bad, they would have been
        self.n_rows_before = 0  # good rows in all blocks before the current one

    def add(self, number: int, line: bytes, row: int, error: LineError) -> None:
        """Take line ``number``, which comes before good row ``row`` of its block."""
        column = len(line[: error.offset].decode("utf-8", "replace")) + 1
        text = line.decode("utf-8", "replace")
        if self._mode == "error":
            raise FileFormatError(
                self._name, number, column, error.reason, text, error.fix, kind=error.kind
            )
        if not line.lstrip(b" \t").startswith(b"#") or SPREADSHEET_ERROR.match(line):
            self.items.append(self.n_rows_before + row + len(self.items))
        kept = text if self._mode == "quarantine" else ""
        self.lines.append(BadLine(number, column, error.reason, kept))
        if self._path is not None:
            self._raw.append(line)
        if self._limit >= 1 or self._limit == 0:
            self._check_limit(int(self._limit), f"max_bad={self._limit}", text, error.fix)

    def end_block(self, n_rows: int) -> None:
        """Apply a limit that is a fraction of the lines; ``n_rows`` good ones have been read."""
        self.n_rows_before = n_rows
        if self.lines and 0 < self._limit < 1:
            n_lines = n_rows + len(self.lines)
            limit = f"max_bad={self._limit} of {n_lines:,} lines"
            self._check_limit(int(self._limit * n_lines), limit, "", "")

    def write(self) -> None:
        """Write the quarantine file, if there are bad lines to write."""
        if self._path is None or not self._raw:
            return
        name = self._name.replace("\n", "?").replace("\r", "?")
        with atomic_write(self._path, mode=0o666) as file:
            for bad, raw in zip(self.lines, self._raw, strict=True):
                comment = f"# {name}:{bad.line}:{bad.column}: {bad.reason}\n"
                file.write(comment.encode("utf-8", "replace") + raw + b"\n")

    def _check_limit(self, n_allowed: int, limit: str, text: str, fix: str) -> None:
        if len(self.lines) > n_allowed:
            last = self.lines[-1]
            reason = f"{last.reason}; this is bad line {len(self.lines):,}, more than {limit}"
            fix = fix or "correct the file, or allow more with max_bad"
            raise FileFormatError(self._name, last.line, last.column, reason, text, fix)


class _FileColumns:
    """The columns of a file while it is read; ``dense=None`` chooses the layout of X by its cells.

    Blocks are added to a dense matrix as long as it is small or enough of its cells are in the
    file, else to a sparse one.
    """

    def __init__(self, dense: bool | None, n_features: int | None) -> None:
        self._dense, self._fixed_width = dense, n_features
        self._cells: _Dense | _Sparse = _Sparse() if dense is False else _Dense()
        self._width, self._n_written = n_features or 0, 0
        self._labels = _Growing(np.float64)
        self._qids: list[bytes] = []
        self._runs: list[int] = []
        self._docids: list[str | None] = []
        self._comments: list[str | None] = []

    @property
    def n_rows(self) -> int:
        return self._labels.size

    def add(self, block: Block, share: float | None) -> None:
        """Add some rows; ``share`` is the part of the file read so far, None if unknown."""
        self._labels.append(block.labels, share)
        self._qids += block.qids
        self._runs += block.runs
        self._docids += block.docids
        self._comments += block.comments
        self._n_written += len(block.values)
        if not self._fixed_width and len(block.values):
            self._width = max(self._width, int(block.indices.max()) + 1)
        # Twice the density, so that a file near the limit is not converted at every block.
        self._choose_layout(2 * DENSITY)
        self._cells.add(block, self._width, share)

    def _choose_layout(self, density: float) -> None:
        """Use a dense matrix if it is small or enough of its cells are in the file."""
        if self._dense is not None:
            return
        n_cells = self.n_rows * self._width
        if isinstance(self._cells, _Dense):
            if n_cells > SMALL and self._n_written < DENSITY * n_cells:
                self._cells = self._cells.to_sparse()
        elif n_cells <= SMALL or self._n_written >= density * n_cells:
            self._cells = self._cells.to_dense(self._width)

    def check(self, name: str, bad: list[BadLine]) -> None:
        if self.n_rows == 0:
            line, column, reason = 1, 1, "the file has no items"
            if bad:
                line, column = bad[0].line, bad[0].column
                reason = f"{bad[0].reason}; none of the {len(bad):,} items can be read"
            fix = "check that this is the right file, and that it is complete"
            raise FileFormatError(name, line, column, reason, "", fix)
        if self._width == 0:
            fix = Message(
                "write features as number:value; pass a file of group sizes as ", Setting("group")
            )
            raise FileFormatError(name, 1, 1, "no line of the file has a feature", "", fix)

    def qid(self) -> NDArray[Any]:
        """Ids as int64 if all of them are plain whole numbers of 63 bits, else as text."""
        if all(_PLAIN_INTEGER(qid) and (len(qid) < 19 or int(qid) < 2**63) for qid in self._qids):
            return np.repeat(np.array(list(map(int, self._qids)), dtype=np.int64), self._runs)
        texts = np.empty(len(self._qids), dtype=object)
        texts[:] = [sys.intern(qid.decode()) for qid in self._qids]
        return np.repeat(texts, self._runs)

    def finish(self, qid: NDArray[Any] | None, bad_lines: tuple[BadLine, ...]) -> Items:
        self._choose_layout(DENSITY)
        return Items(
            self._cells.finish(self._width),
            self._labels.finish(),
            qid,
            docid=_texts(self._docids),
            comment=_texts(self._comments),
            bad_lines=bad_lines,
        )


def _texts(texts: list[str | None]) -> NDArray[Any] | None:
    """An object array, or None if every row is None."""
    if all(text is None for text in texts):
        return None
    column = np.empty(len(texts), dtype=object)
    column[:] = texts
    return column


class _Growing:
    """A one-dimensional array that grows without a second copy of itself.

    It starts at the estimated final size: pages of zeros take no memory until they are written.
    If the estimate is too small, the array is resized in place.
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self._array: NDArray[Any] = np.zeros(0, dtype)
        self.size = 0

    def reserve(self, n_more: int, share: float | None) -> None:
        """Make room; ``share`` is the part of the file read so far, None if unknown."""
        needed = self.size + n_more
        if needed <= len(self._array):
            return
        total = max(needed, int(needed / share * 1.02) if share else 0)
        more = needed + needed // 2
        if len(self._array) > 0:
            self._array.resize(min(total, more) if share else more, refcheck=False)
            return
        try:
            self._array = np.zeros(total if share else more, self._array.dtype)
        except MemoryError:  # the estimate does not fit, but what is needed now may
            self._array = np.zeros(needed, self._array.dtype)

    def append(self, values: NDArray[Any], share: float | None = None) -> None:
        self.reserve(len(values), share)
        self._array[self.size : self.size + len(values)] = values
        self.size += len(values)

    def extend_zeros(self, n: int, share: float | None) -> NDArray[Any]:
        """Add ``n`` zeros and return a view of them."""
        self.reserve(n, share)
        self.size += n
        return self._array[self.size - n : self.size]

    def view(self) -> NDArray[Any]:
        return self._array[: self.size]

    def finish(self) -> NDArray[Any]:
        """The array, cut to its size; nothing can be added afterwards."""
        array, self._array = self._array, np.zeros(0, self._array.dtype)
        array.resize(self.size, refcheck=False)
        return array


class _Dense:
    def __init__(self, width: int = 0) -> None:
        self.n_rows, self.width, self.cells = 0, width, _Growing(np.float64)

    def add(self, block: Block, width: int, share: float | None) -> None:
        try:
            self._widen(width)
            cells = self.cells.extend_zeros(len(block.counts) * width, share)
        except (MemoryError, ValueError, OverflowError):
            raise DataError(
                f"{self.n_rows + len(block.counts):,} rows of {width:,} features do not fit into "
                "memory as a dense matrix. Read the file with dense=False."
            ) from None
        self.n_rows += len(block.counts)
        _scatter(cells, block.counts, block.indices, block.values, width)

    def _widen(self, width: int) -> None:
        if width == self.width:
            return
        cells = _Growing(np.float64)
        wide = cells.extend_zeros(self.n_rows * width, None).reshape(self.n_rows, width)
        wide[:, : self.width] = self.cells.view().reshape(self.n_rows, self.width)
        self.cells, self.width = cells, width

    def to_sparse(self) -> _Sparse:
        matrix = self.cells.view().reshape(self.n_rows, self.width)
        rows, columns = np.nonzero(matrix)
        sparse = _Sparse()
        sparse.data.append(matrix[rows, columns])
        sparse.indices.append(columns.astype(np.int32))
        sparse.counts.append(np.bincount(rows, minlength=self.n_rows))
        return sparse

    def finish(self, width: int) -> Any:
        self._widen(width)
        return self.cells.finish().reshape(self.n_rows, width)


class _Sparse:
    """Rows of a CSR matrix, without the zeros written in a file."""

    def __init__(self) -> None:
        self.data, self.indices = _Growing(np.float64), _Growing(np.int32)
        self.counts = _Growing(np.int64)

    def add(self, block: Block, width: int, share: float | None) -> None:
        keep = block.values != 0
        self.data.append(block.values[keep], share)
        self.indices.append(block.indices[keep], share)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
        ends = np.cumsum(block.counts)
        self.counts.append(before[ends] - before[ends - block.counts], share)

    def to_dense(self, width: int) -> _Dense:
        dense, counts = _Dense(width), self.counts.view()
        dense.n_rows = len(counts)
        cells = dense.cells.extend_zeros(len(counts) * width, None)
        _scatter(cells, counts, self.indices.view(), self.data.view(), width)
        return dense

    def finish(self, width: int) -> Any:
        from scipy.sparse import csr_array

        counts = self.counts.finish()
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        if self.data.size < 2**31:
            ends = ends.astype(np.int32)
        parts = self.data.finish(), self.indices.finish(), ends
        matrix = csr_array(parts, shape=(len(counts), width), copy=False)
        matrix.has_canonical_format = True
        return matrix


def _scatter(
    cells: FloatArray, counts: IntArray, indices: NDArray[Any], values: FloatArray, width: int
) -> None:
    """Write the values of some rows into their cells, which hold zeros."""
    if len(values) == len(cells):  # ascending indices below width: every cell is written
        cells[:] = values
        return
    start = np.repeat(np.arange(len(counts), dtype=np.int64) * width, counts)
    start += indices
    cells[start] = values
