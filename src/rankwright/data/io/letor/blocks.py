"""Blocks of LETOR lines become rows, and rows become a matrix, dense or sparse."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.io.letor.lines import BadLines, LineError, LineParser, docid_of
from rankwright.exceptions import DataError

SMALL = 2**20  # cells; up to this size a dense matrix is cheap
DENSITY = 0.25


@dataclass
class Block:
    """The rows of some lines as flat arrays.

    labels    (n_rows,) float64
    counts    (n_rows,) int64, features written in each row
    indices   (n_values,) int32, columns from 0, ascending in a row
    values    (n_values,) float64
    qids      the query id of each run of rows with the same id (empty if lines have none)
    runs      the length of each of those runs
    docids    the id of each row, or None
    comments  the comment of each row, or None
    """

    labels: FloatArray
    counts: IntArray
    indices: NDArray[np.int32]
    values: FloatArray
    qids: list[bytes] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    docids: list[str | None] = field(default_factory=list)
    comments: list[str | None] = field(default_factory=list)


class Growing:
    """A one-dimensional array that grows without a second copy of itself.

    It starts at the estimated final size: pages of zeros take no memory until they are written.
    If the estimate is too small, the array is resized in place.
    """

    def __init__(self, dtype: Any) -> None:
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


class Matrix:
    """Collects blocks as a dense matrix or as CSR; ``dense=None`` converts to the better one."""

    def __init__(self, dense: bool | None, n_features: int | None) -> None:
        self._choice, self._fixed = dense, n_features
        self._cells: _Dense | _Sparse = _Sparse() if dense is False else _Dense()
        self.n_columns = n_features or 0
        self.n_rows = self.n_written = 0

    def add(self, block: Block, share: float | None) -> None:
        self.n_rows += len(block.counts)
        self.n_written += len(block.values)
        if not self._fixed and len(block.values):
            self.n_columns = max(self.n_columns, int(block.indices.max()) + 1)
        # Twice the density, so that a file near the limit is not converted at every block.
        self._choose_layout(2 * DENSITY)
        self._cells.add(block, self.n_columns, share)

    def finish(self) -> Any:
        """The matrix: a NumPy array or a SciPy CSR array."""
        self._choose_layout(DENSITY)
        return self._cells.finish(self.n_columns)

    def _choose_layout(self, density: float) -> None:
        """Use a dense matrix if it is small or enough of its cells are in the file."""
        if self._choice is not None:
            return
        n_cells = self.n_rows * self.n_columns
        if isinstance(self._cells, _Dense):
            if n_cells > SMALL and self.n_written < DENSITY * n_cells:
                self._cells = self._cells.to_sparse()
        elif n_cells <= SMALL or self.n_written >= density * n_cells:
            self._cells = self._cells.to_dense(self.n_columns)


class _Dense:
    def __init__(self, width: int = 0) -> None:
        self.n_rows, self.width, self.cells = 0, width, Growing(np.float64)

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
        cells = Growing(np.float64)
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
        self.data, self.indices = Growing(np.float64), Growing(np.int32)
        self.counts = Growing(np.int64)

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


class LineBlocks:
    """The parser for small files: line by line, without numba and the second its import takes."""

    def __init__(self, lines: LineParser, bad: BadLines, comments: str) -> None:
        self._lines, self._bad, self._comments = lines, bad, comments

    def parse(self, data: bytes, first_line: int) -> Block:
        """The rows of some whole lines; the first is line ``first_line`` of the file."""
        labels, values, counts, indices = array("d"), array("d"), array("q"), array("i")
        qids: list[bytes] = []
        comments: list[bytes | None] = []
        for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), first_line):
            try:
                row = self._lines.parse(line)
            except LineError as error:
                self._bad.add(number, line, len(labels), error)
                continue
            if row is not None:
                labels.append(row.label)
                counts.append(len(row.values))
                indices.extend(row.indices)
                values.extend(row.values)
                comments.append(row.comment)
                if row.qid is not None:
                    qids.append(row.qid)
        block = Block(np.array(labels), np.array(counts), np.array(indices), np.array(values))
        for qid, rows in groupby(qids):
            block.qids.append(qid)
            block.runs.append(len(list(rows)))
        if self._comments != "drop":
            docids = [comment and docid_of(comment) for comment in comments]
            block.docids = [docid.decode() if docid else None for docid in docids]
        if self._comments == "keep":
            block.comments = [None if comment is None else comment.decode() for comment in comments]
        return block


class CompiledBlocks:
    """The parser for large files: a kernel, which leaves unusual lines to the line parser."""

    def __init__(self, lines: LineParser, bad: BadLines, comments: str) -> None:
        from rankwright.data.io.letor import _kernels

        self._kernels: Any = _kernels
        self._lines, self._bad, self._comments = lines, bad, comments
        self._rows: Any = None

    def parse(self, data: bytes, first_line: int) -> Block:
        """The rows of some whole lines; the first is line ``first_line`` of the file."""
        if not data.endswith(b"\n"):
            data += b"\n"
        text, cursor = np.frombuffer(data, np.uint8), np.zeros(3, np.int64)
        self._make_room(int(np.count_nonzero(text == ord("\n"))), len(data))
        try:
            data.decode()
            is_utf8 = True  # and so is every part between ASCII characters
        except UnicodeDecodeError:
            is_utf8 = False
        self._run_kernel(text, cursor, is_utf8)
        number, counted = first_line, 0
        while cursor[0] < len(data):
            start = int(cursor[0])
            number += data.count(b"\n", counted, start)
            counted = start
            self._parse_line(data, cursor, number)
            self._run_kernel(text, cursor, is_utf8)
        for start, stop, index in self._rows.deferred[: cursor[2]].tolist():
            self._rows.values[index] = float(data[start:stop])
        return self._block(data, int(cursor[1]))

    def _make_room(self, n_lines: int, n_bytes: int) -> None:
        """Allocate the buffers of a block, unless those of the last block are large enough."""
        rows, n_values = self._rows, n_bytes // 4 + 1  # the shortest feature: " 1:0"
        if rows is None or n_lines > len(rows.labels) or n_values > len(rows.values):
            self._rows = self._kernels.Rows(
                labels=np.empty(n_lines),
                ends=np.zeros(n_lines + 1, np.int64),
                indices=np.empty(n_values, np.int32),
                values=np.empty(n_values),
                spans=np.empty((n_lines, 6), np.int64),
                deferred=np.empty((n_values, 3), np.int64),
            )

    def _run_kernel(self, text: NDArray[np.uint8], cursor: IntArray, is_utf8: bool) -> None:
        """Let the kernel read on; the line parser reads the first item, to see if it has a qid."""
        lines = self._lines
        if lines.has_qid is None or cursor[0] >= len(text):
            return
        any_comment, first = is_utf8 or not lines.check_comments, 0 if lines.zero_based else 1
        options = lines.has_qid, first, lines.n_features, is_utf8, any_comment
        line_format = self._kernels.Format(*options)
        self._kernels.parse_lines(text, cursor, self._rows, line_format)

    def _parse_line(self, data: bytes, cursor: IntArray, number: int) -> None:
        """Give the current line to the line parser, which writes its row as the kernel would."""
        start, n_rows = int(cursor[0]), int(cursor[1])
        stop = data.index(b"\n", start)
        cursor[0] = stop + 1
        try:
            row = self._lines.parse(data[start:stop])
        except LineError as error:
            self._bad.add(number, data[start:stop], n_rows, error)
            return
        if row is None:
            return
        cursor[1] += 1
        rows, begin = self._rows, self._rows.ends[n_rows]
        end = rows.ends[n_rows + 1] = begin + len(row.values)
        rows.labels[n_rows] = row.label
        rows.indices[begin:end] = row.indices
        rows.values[begin:end] = row.values
        span = rows.spans[n_rows]
        span[:] = 0
        if row.qid is not None:
            span[0] = data.index(b"qid:", start) + 4
            span[1] = span[0] + len(row.qid)
        if row.comment is not None:
            span[2] = data.index(b"#", start) + 1
            span[3] = span[2] + len(row.comment)
            docid = docid_of(row.comment) or b""
            span[4] = data.index(docid, span[2])  # any occurrence will do
            span[5] = span[4] + len(docid)

    def _block(self, data: bytes, n_rows: int) -> Block:
        rows = self._rows
        spans, n_values = rows.spans[:n_rows], int(rows.ends[n_rows])
        block = Block(
            rows.labels[:n_rows],
            np.diff(rows.ends[: n_rows + 1]),
            rows.indices[:n_values],
            rows.values[:n_values],
        )
        if self._lines.has_qid and n_rows:
            heads = np.flatnonzero(np.diff(spans[:, 0], prepend=-1))
            block.qids = [data[start:stop] for start, stop in spans[heads, :2].tolist()]
            block.runs = np.diff(heads, append=n_rows).tolist()
        if self._comments != "drop":
            block.docids = [text or None for text in _cut(data, spans[:, 4:])]
        if self._comments == "keep":
            texts, starts = _cut(data, spans[:, 2:4]), spans[:, 2].tolist()
            block.comments = [t if start else None for t, start in zip(texts, starts, strict=True)]
        return block


def _cut(data: bytes, spans: NDArray[np.int64]) -> list[str]:
    pairs = zip(spans[:, 0].tolist(), spans[:, 1].tolist(), strict=True)
    if data.isascii():
        text = data.decode("ascii")
        return [text[start:stop] for start, stop in pairs]
    return [data[start:stop].decode() for start, stop in pairs]
