"""Blocks of lines become rows: in plain Python, for small files."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from rankwright.data.letor.line import LineError, LineParser, Row, docid_of, parse_number
from rankwright.data.letor.table import Block

__all__ = ["BlockParser", "Columns", "PlainBlocks", "Refuse", "is_utf8"]

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
