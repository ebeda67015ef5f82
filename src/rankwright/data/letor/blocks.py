"""Blocks of lines become rows: in plain Python, for small files."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from operator import lt
from typing import Protocol

import numpy as np

from rankwright.data.letor.line import LineError, LineParser, Row, docid_of, parse_number
from rankwright.data.letor.table import Block

__all__ = ["BlockParser", "Columns", "PlainBlocks", "Refuse"]

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
        self._labels: dict[bytes, float] = {}
        self._token, self._qid = b"", b""  # the query of the line before, as written and its id
        self._numbers: list[bytes] = []  # the feature numbers of the line before, as written
        self._indices = array("i")  # ... and as columns

    def parse(self, data: bytes, first_line: int) -> Block:
        usual = not (b"\0" in data or b"\r" in data)
        block, bad = self._parse(data, first_line, usual)
        if usual and np.isinf(block.values).any():  # a number that overflows, such as 1e999
            block, bad = self._parse(data, first_line, usual=False)
        for refused in bad:
            self._refuse(*refused)
        return block

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
            if row is not None:
                label, qid, found, numbers, comment = row
                labels.append(label)
                counts.append(len(numbers))
                indices.extend(found)
                values.extend(numbers)
                columns.add(qid, comment)
        block = Block(
            np.array(labels), np.array(counts), np.array(indices), np.array(values),
            columns.qids, columns.runs, columns.docids, columns.comments,
        )  # fmt: skip
        return block, bad

    def _usual_row(self, line: bytes) -> _Fields | None:
        """The item of a line in the usual form, or None where the line parser must judge."""
        body, mark, comment = line.partition(b"#")
        if self._lines.has_qid is None or (mark and not comment.isascii()):
            return None
        token, _, rest = body.rstrip(b" ").partition(b" ")
        try:
            label = self._label(token)
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

    def _label(self, token: bytes) -> float:
        label = self._labels.get(token)
        if label is None:
            label = parse_number(token)
            if len(self._labels) < 1000:
                self._labels[token] = label
        return label

    def _accept_qid(self, token: bytes) -> bool:
        qid = token[4:]
        if token[:4] != b"qid:" or not qid.isalnum():
            return False
        self._token, self._qid = token, qid
        return True

    def _features(self, text: bytes) -> list[float] | None:
        """The values; the columns they belong to are left in ``_indices``."""
        plain = text
        if b"N" in text:
            plain, text = text.replace(b":NULL", b":0"), text.replace(b":NULL", b":nan")
        colons = plain.translate(None, _NUMERIC)
        pieces = text.replace(b":", b" ").split()
        # Each token holds one colon, and something on both sides of it.
        if not _COLONS.startswith(colons) or len(pieces) != len(colons) + (len(pieces) > 0):
            return None
        numbers = pieces[::2]
        if numbers != self._numbers and not self._accept_numbers(numbers):
            return None
        return list(map(float, pieces[1::2]))

    def _accept_numbers(self, numbers: list[bytes]) -> bool:
        if not all(map(bytes.isdigit, numbers)):
            return False
        first = 0 if self._lines.zero_based else 1
        columns = [int(number) - first for number in numbers]
        if columns and (columns[0] < 0 or columns[-1] >= self._lines.n_features):
            return False
        if not all(map(lt, columns, columns[1:])):
            return False
        self._numbers, self._indices = numbers, array("i", columns)
        return True
