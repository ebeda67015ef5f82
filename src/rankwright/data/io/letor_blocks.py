"""Blocks of lines become rows: with a compiled kernel, for large files."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.io.letor_lines import LineError, LineParser, Row, docid_of, parse_number
from rankwright.exceptions import DataError

SMALL = 2**20  # cells; below that a dense matrix costs nothing worth saving
DENSITY = 0.25


@dataclass
class Block:
    """The rows of some lines, as flat arrays.

    labels    (n_rows,) float64
    counts    (n_rows,) int64, features written in each row
    indices   (n_values,) int32, columns from 0, ascending in a row
    values    (n_values,) float64
    qids      the query id of each run of rows with the same one (empty if lines have none)
    runs      how many rows each of those runs has
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

    Its first room is a guess of all that is to come: pages of zeros cost nothing until they are
    written. Should the guess be too small, the array is resized where it stands.
    """

    def __init__(self, dtype: Any) -> None:
        self._array: NDArray[Any] = np.zeros(0, dtype)
        self.size = 0

    def reserve(self, n_more: int, share: float | None) -> None:
        """Make room; ``share`` is how much of all that is to come will then be there, if known."""
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
        except MemoryError:  # of the guess, perhaps not of what is needed
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
        """The array, cut to its size; nothing can be added after that."""
        array, self._array = self._array, np.zeros(0, self._array.dtype)
        array.resize(self.size, refcheck=False)
        return array


def wants_dense(n_rows: int, n_columns: int, n_written: int, density: float = DENSITY) -> bool:
    """Whether a matrix is better dense: it is small, or enough of its cells stand in the file."""
    cells = n_rows * n_columns
    return cells <= SMALL or n_written >= density * cells


class Matrix:
    """Collects blocks as a dense matrix or as CSR, and changes over when the other fits better.

    Parameters
    ----------
    dense : bool or None
        The layout; None chooses it by :func:`wants_dense`, which depends on the whole file only.
    n_features : int or None
        The number of columns; None takes the largest seen.
    """

    def __init__(self, dense: bool | None, n_features: int | None) -> None:
        self._choice, self._fixed = dense, n_features
        self._cells: _Dense | _Sparse = _Sparse() if dense is False else _Dense()
        self.n_columns = n_features or 0
        self.n_rows = self.n_written = 0

    def add(self, block: Block, share: float | None) -> None:
        """Append the rows of a block; ``share`` is how much of the file has then been read."""
        self.n_rows += len(block.counts)
        self.n_written += len(block.values)
        if not self._fixed and len(block.values):
            self.n_columns = max(self.n_columns, int(block.indices.max()) + 1)
        self._choose_layout()
        self._cells.add(block, self.n_columns, share)

    def finish(self) -> Any:
        """The matrix: a NumPy array or a SciPy CSR array."""
        if (
            isinstance(self._cells, _Sparse)
            and self._choice is None
            and wants_dense(self.n_rows, self.n_columns, self.n_written)
        ):
            self._cells = self._cells.to_dense(self.n_columns)
        return self._cells.finish(self.n_columns)

    def _choose_layout(self) -> None:
        if self._choice is not None:
            return
        size = self.n_rows, self.n_columns, self.n_written
        if isinstance(self._cells, _Dense):
            if not wants_dense(*size):
                self._cells = self._cells.to_sparse()
        # Twice the density, so that a file near the limit does not change over at every block.
        elif wants_dense(*size, 2 * DENSITY):
            self._cells = self._cells.to_dense(self.n_columns)


class _Dense:
    """Rows of a dense matrix."""

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
    """Rows of a CSR matrix, without the zeros a file may write out."""

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
    """Write the values of some rows into their cells, which are zero before."""
    if len(values) == len(cells):  # ascending indices below width: every cell is written
        cells[:] = values
        return
    start = np.repeat(np.arange(len(counts), dtype=np.int64) * width, counts)
    start += indices
    cells[start] = values


# line number, line, rows of the block before it, what is wrong with it
Refuse = Callable[[int, bytes, int, LineError], None]

# What is left of "1:0.5 2:7" without the characters of its numbers: one colon per feature.
_NUMERIC = b"0123456789.+-eE"
_COLONS = b": " * 2**16


# label, query id, columns, values, comment: a Row without the cost of building one
_Fields = tuple[float, bytes | None, "array[int]", list[float], bytes | None]


class BlockParser(Protocol):
    """Turns the bytes of whole lines into rows; lines that cannot be read go to ``refuse``."""

    def parse(self, data: bytes, first_line: int) -> Block: ...


class Columns:
    """What is noted of each row beside its numbers: its query (as runs), its id, its comment."""

    def __init__(self, keep_docid: bool, keep_comment: bool) -> None:
        self._keep_docid, self._keep_comment = keep_docid, keep_comment
        self.qids: list[bytes] = []
        self.runs: list[int] = []
        self.docids: list[str | None] = []
        self.comments: list[str | None] = []

    def add(self, qid: bytes | None, comment: bytes | None) -> None:
        if qid is not None:
            if self.qids and self.qids[-1] == qid:
                self.runs[-1] += 1
            else:
                self.qids.append(qid)
                self.runs.append(1)
        if self._keep_docid:
            docid = None if comment is None else docid_of(comment)
            self.docids.append(None if docid is None else docid.decode())
        if self._keep_comment:
            self.comments.append(None if comment is None else comment.decode())


class _Known(dict[bytes, Any]):
    """Tokens seen before and what they mean: a look is several times cheaper than a conversion."""

    def __init__(self, convert: Callable[[bytes], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, token: bytes) -> Any:
        value = self._convert(token)
        if len(self) < 2**16:
            self[token] = value
        return value


def _whole_number(token: bytes) -> int:
    if not token.isdigit():
        raise ValueError
    return int(token)


class PlainBlocks:
    """The parser for small files: it needs neither numba nor its half second of import.

    A line in the usual form (single spaces, no control characters) is split and converted by a few
    calls on the whole line; every other line is left to the line parser.
    """

    def __init__(
        self, lines: LineParser, refuse: Refuse, keep_docid: bool, keep_comment: bool
    ) -> None:
        self._lines, self._refuse = lines, refuse
        self._keep = keep_docid, keep_comment
        self._known_labels = _Known(parse_number)
        self._known_values = _Known(float)
        self._known_numbers = _Known(_whole_number)
        self._n_values, self._rare = 0, False
        self._token, self._qid = b" ", b""  # the query of the line before, as written and its id
        self._numbers: list[bytes] = []  # the feature numbers of the line before, as written
        self._indices = array("i")  # ... and as numbers
        self._first = 0 if lines.zero_based else 1
        self._is_utf8 = False  # whether no byte of a comment can be wrong

    def parse(self, data: bytes, first_line: int) -> Block:
        self._is_utf8 = is_utf8(data) or not self._lines.check_comments
        usual, has_qid = not (b"\0" in data or b"\r" in data), self._lines.has_qid
        block, bad = self._parse(data, first_line, usual)
        if usual and not self._is_sound(block):
            self._lines.has_qid = has_qid  # as if the lines had not been seen
            block, bad = self._parse(data, first_line, usual=False)
        for refused in bad:
            self._refuse(*refused)
        return block

    def _is_sound(self, block: Block) -> bool:
        """Whether values are finite, and columns in range and ascending within each row."""
        if np.isinf(block.values).any():
            return False
        if len(block.indices) == 0:
            return True
        ascending = np.diff(block.indices) > 0
        heads = np.cumsum(block.counts)[:-1]
        ascending[heads[(heads > 0) & (heads < len(block.indices))] - 1] = True
        inside = block.indices.min() >= 0 and block.indices.max() < self._lines.n_features
        return bool(inside and ascending.all())

    def _parse(
        self, data: bytes, first_line: int, usual: bool
    ) -> tuple[Block, list[tuple[int, bytes, int, LineError]]]:
        labels, values, counts, indices = array("d"), array("d"), array("q"), array("i")
        columns = Columns(*self._keep)
        bad: list[tuple[int, bytes, int, LineError]] = []
        for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), first_line):
            row: _Fields | Row | None = self._usual_row(line) if usual else None
            if row is None:
                try:
                    row = self._lines.parse(line)
                except LineError as error:
                    bad.append((number, line, len(labels), error))
                else:
                    row = row and self._known_row(row)
            if row is not None:
                label, qid, found, numbers, comment = row
                labels.append(label)
                counts.append(len(numbers))
                indices.extend(found)
                values.extend(numbers)
                columns.add(qid, comment)
        block = Block(
            np.array(labels), np.array(counts), np.array(indices) - self._first, np.array(values),
            columns.qids, columns.runs, columns.docids, columns.comments,
        )  # fmt: skip
        return block, bad

    def _usual_row(self, line: bytes) -> _Fields | None:
        """The item of a line in the usual form, or None where the line parser must judge."""
        body, mark, comment = line.partition(b"#")
        if self._lines.has_qid is None or (mark and not self._is_utf8):
            return None
        token, _, rest = body.rstrip(b" ").partition(b" ")
        try:
            label = self._known_labels[token]
            if self._lines.has_qid:
                token, _, rest = rest.partition(b" ")
                if token != self._token and not self._accept_qid(token):
                    return None
            values = self._features(rest)
        except ValueError:
            return None
        if values is None:
            return None
        qid = self._qid if self._lines.has_qid else None
        return label, qid, self._indices, values, comment if mark else None

    def _known_row(self, row: Row) -> Row:
        """A row of the line parser, with feature numbers for columns; its query is known now."""
        if row.qid is not None:
            self._token, self._qid = b"qid:" + row.qid, row.qid
        return row._replace(indices=[column + self._first for column in row.indices])

    def _accept_qid(self, token: bytes) -> bool:
        qid = token[4:]
        if token[:4] != b"qid:" or not qid.isalnum():
            return False
        self._token, self._qid = token, qid
        return True

    def _features(self, text: bytes) -> list[float] | None:
        """The values; the numbers of their features are left in ``_indices``."""
        plain = text
        if b"N" in text:
            plain, text = text.replace(b":NULL", b":0"), text.replace(b":NULL", b":nan")
        colons = plain.translate(None, _NUMERIC)
        pieces = text.replace(b":", b" ").split()
        # Each token holds one colon, and something on both sides of it.
        if colons.endswith(b" ") or not _COLONS.startswith(colons):
            return None
        if len(pieces) != (len(colons) + 1 if colons else 0):
            return None
        numbers = pieces[::2]
        if numbers != self._numbers and not self._accept_numbers(numbers):
            return None
        if self._rare:
            return list(map(float, pieces[1::2]))
        self._n_values += len(numbers)
        if len(self._known_values) > 300:  # where most values are new, looking them up is in vain
            self._rare = self._n_values < 2 * len(self._known_values)
        return list(map(self._known_values.__getitem__, pieces[1::2]))

    def _accept_numbers(self, numbers: list[bytes]) -> bool:
        """Whether these are whole numbers; their order is checked for the block as a whole."""
        try:
            self._indices = array("i", map(self._known_numbers.__getitem__, numbers))
        except OverflowError:
            return False
        self._numbers = numbers
        return True


def is_utf8(data: bytes) -> bool:
    """Whether all of a block is UTF-8; then every piece between ASCII characters is.

    >>> is_utf8("é".encode()), is_utf8("é".encode("latin-1"))
    (True, False)
    """
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Rows:
    """Room for the rows of one block, used again for the next one."""

    def __init__(self, n_lines: int, n_values: int) -> None:
        self.n_lines, self.n_values = n_lines, n_values
        self.labels = np.empty(n_lines)
        self.ends = np.zeros(n_lines + 1, np.int64)
        self.spans = np.empty((n_lines, 6), np.int64)
        self.indices = np.empty(n_values, np.int32)
        self.values = np.empty(n_values)
        self.left = np.empty((n_values, 3), np.int64)


class CompiledBlocks:
    """The parser for large files.

    The kernel reads line after line; a line that it does not understand is judged by the line
    parser, and the kernel goes on behind it.
    """

    def __init__(
        self, lines: LineParser, refuse: Refuse, keep_docid: bool, keep_comment: bool
    ) -> None:
        from rankwright.data.io._kernels import POWERS_OF_FIVE, parse_lines

        self._kernel, self._powers = parse_lines, POWERS_OF_FIVE
        self._lines, self._refuse = lines, refuse
        self._keep_docid, self._keep_comment = keep_docid, keep_comment
        self._rows, self._is_utf8 = _Rows(0, 0), False

    def parse(self, data: bytes, first_line: int) -> Block:
        if not data.endswith(b"\n"):
            data += b"\n"
        text, state = np.frombuffer(data, np.uint8), np.zeros(3, np.int64)
        self._make_room(int(np.count_nonzero(text == 10)), len(data))
        self._is_utf8 = is_utf8(data)
        self._run(text, state)
        number, counted = first_line, 0
        while state[0] < len(data):
            start = int(state[0])
            number += data.count(b"\n", counted, start)
            counted = start
            self._judge(data, state, number)
            self._run(text, state)
        for start, stop, place in self._rows.left[: state[2]].tolist():
            self._rows.values[place] = float(data[start:stop])
        return self._block(data, int(state[1]))

    def _judge(self, data: bytes, state: NDArray[np.int64], number: int) -> None:
        """Give the line at hand to the line parser, and step over it."""
        start = int(state[0])
        stop = data.index(b"\n", start)
        state[0] = stop + 1
        try:
            row = self._lines.parse(data[start:stop])
        except LineError as error:
            self._refuse(number, data[start:stop], int(state[1]), error)
            return
        if row is not None:
            self._put(int(state[1]), row, data, start)
            state[1] += 1

    def _put(self, place: int, row: Row, data: bytes, start: int) -> None:
        """Write a row of the line parser where the kernel would have written it."""
        rows = self._rows
        begin = rows.ends[place]
        end = rows.ends[place + 1] = begin + len(row.values)
        rows.labels[place] = row.label
        rows.indices[begin:end] = row.indices
        rows.values[begin:end] = row.values
        span = rows.spans[place]
        span[:] = 0
        if row.qid is not None:
            span[0] = data.index(b"qid:", start) + 4
            span[1] = span[0] + len(row.qid)
        if row.comment is not None:
            span[2] = data.index(b"#", start) + 1
            span[3] = span[2] + len(row.comment)
            docid = docid_of(row.comment) or b""
            span[4] = data.index(docid, span[2])  # any place that says the same
            span[5] = span[4] + len(docid)

    def _make_room(self, n_lines: int, n_bytes: int) -> None:
        n_values = n_bytes // 4 + 1  # the shortest feature: " 1:0"
        if n_lines > self._rows.n_lines or n_values > self._rows.n_values:
            self._rows = _Rows(max(n_lines, self._rows.n_lines), max(n_values, self._rows.n_values))

    def _run(self, text: NDArray[np.uint8], state: NDArray[np.int64]) -> None:
        """Let the kernel read on; the first line with an item is the line parser's."""
        lines, rows = self._lines, self._rows
        if lines.has_qid is None or state[0] >= len(text):
            return
        self._kernel(
            text, state, self._powers, rows.labels, rows.ends, rows.indices, rows.values,
            rows.spans, rows.left, lines.has_qid, 0 if lines.zero_based else 1, lines.n_features,
            self._is_utf8, self._is_utf8 or not lines.check_comments,
        )  # fmt: skip

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
        if self._keep_docid:
            block.docids = [text or None for text in _cut(data, spans[:, 4:])]
        if self._keep_comment:
            texts, starts = _cut(data, spans[:, 2:4]), spans[:, 2].tolist()
            block.comments = [
                text if start else None for text, start in zip(texts, starts, strict=True)
            ]
        return block


def _cut(data: bytes, spans: NDArray[np.int64]) -> list[str]:
    pairs = zip(spans[:, 0].tolist(), spans[:, 1].tolist(), strict=True)
    if data.isascii():
        text = data.decode("ascii")
        return [text[start:stop] for start, stop in pairs]
    return [data[start:stop].decode() for start, stop in pairs]
