"""LETOR text to rows: the parser of single lines, and the parsers of blocks of lines.

The parser of single lines defines the format. The compiled kernel for large files (``_kernels.py``)
accepts the usual lines itself and leaves every other line to this parser, so that the two cannot
disagree.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from math import inf, isinf, nan
from operator import lt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray

MAX_FEATURES = 2**31 - 1  # column numbers are 32-bit

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(rb"[^ \t]+")
_DOCID = re.compile(rb"[ \t]*docid[ \t]*=[ \t]*([^ \t]+)")
_BOM = b"\xef\xbb\xbf"
# What spreadsheets write in place of a label: not a comment, if features follow.
SPREADSHEET_ERROR = re.compile(
    rb"[ \t]*(#(?:N/A|NA|NAME\?|NUM!|NULL!|DIV/0!|REF!|VALUE!))[ \t]+(?:qid:|[0-9]+:)"
)
# A line in its usual form: label, query id, features. Of the characters of a number float()
# accepts exactly what _NUMBER accepts.
_USUAL = re.compile(
    rb"([-+.0-9eE]++)(?: qid:([-_0-9A-Za-z]++))?+((?: [0-9]{1,9}+:(?:[-+.0-9eE]++|NULL))*+) *+"
)


class LineError(Exception):
    """What is wrong at one byte of a line, and how to fix it."""

    def __init__(self, offset: int, reason: str, fix: str, kind: str = "") -> None:
        super().__init__(offset, reason, fix, kind)
        self.offset, self.reason, self.fix, self.kind = offset, reason, fix, kind


class Row(NamedTuple):
    """The item of one line."""

    label: float
    qid: bytes | None
    indices: list[int]  # columns of X, from 0
    values: list[float]
    comment: bytes | None


@dataclass
class LineParser:
    """Parses single lines; the first item decides whether every line has a query id or none has.

    >>> LineParser().parse(b"2 qid:7 1:0.5 3:NULL #docid = D1")
    Row(label=2.0, qid=b'7', indices=[0, 2], values=[0.5, nan], comment=b'docid = D1')
    >>> LineParser().parse(b"# only a comment") is None
    True
    """

    n_features: int = MAX_FEATURES
    zero_based: bool = False
    check_comments: bool = True  # whether comments must be UTF-8, because they are kept
    has_qid: bool | None = None  # None before the first item
    is_limit: bool = True  # whether n_features only limits what a file may ask for
    _tokens: list[bytes] = field(default_factory=list, repr=False)
    _indices: list[int] = field(default_factory=list, repr=False)

    def parse(self, line: bytes) -> Row | None:
        """The item of a line (without its newline), or None for a blank or comment-only line."""
        _check_bytes(line)
        body, mark, comment = line.partition(b"#")
        if mark and not body.strip(b" \t") and (error := SPREADSHEET_ERROR.match(line)):
            reason = f"label {_show(error[1])} is not a number"
            raise LineError(error.start(1), reason, "start the line with a finite number")
        if self.check_comments and not comment.isascii():
            _check_utf8(comment, len(body) + 1, "the comment", 'comments="drop"')
        row = self._parse_usual(body, comment if mark else None)
        if row is not None:
            return row
        tokens = [(match.start(), match.group()) for match in _TOKEN.finditer(body)]
        if not tokens:
            return None
        label = _parse_label(*tokens[0])
        qid = _parse_qid(tokens)
        if self.has_qid not in (None, qid is not None):
            offset = tokens[1][0] if len(tokens) > 1 else tokens[0][0] + len(tokens[0][1])
            here, before = ("no qid", "have one") if self.has_qid else ("a qid", "have none")
            reason = f"the line has {here}, but the lines before it {before}"
            fix = "write qid:<id> after the label of every line, or of none"
            raise LineError(offset, reason, fix)
        indices, values = self._parse_features(tokens[1:] if qid is None else tokens[2:])
        self.has_qid = qid is not None
        return Row(label, qid, indices, values, comment if mark else None)

    def _parse_usual(self, body: bytes, comment: bytes | None) -> Row | None:
        """The same at five times the speed, or None where the tokens must be read one by one."""
        match = _USUAL.fullmatch(body)
        if match is None:
            return None
        label, qid, features = match.groups()
        if self.has_qid != (qid is not None):
            return None
        pieces = features.replace(b"NULL", b"nan").replace(b":", b" ").split()
        try:
            values = [float(label), *map(float, pieces[1::2])]
        except ValueError:
            return None
        if inf in values or -inf in values or not self._accept_numbers(pieces[::2]):
            return None
        return Row(values[0], qid, self._indices, values[1:], comment)

    def _accept_numbers(self, tokens: list[bytes]) -> bool:
        """Whether feature numbers ascend and are in range; sets ``_indices`` to their columns."""
        if tokens == self._tokens:  # most lines have the features of the line before
            return True
        first = 0 if self.zero_based else 1
        indices = [int(token) - first for token in tokens]
        in_range = not indices or (indices[0] >= 0 and indices[-1] < self.n_features)
        if not in_range or not all(map(lt, indices, indices[1:])):
            return False
        self._tokens, self._indices = tokens, indices
        return True

    def _parse_features(self, tokens: list[tuple[int, bytes]]) -> tuple[list[int], list[float]]:
        indices: list[int] = []
        values: list[float] = []
        for offset, token in tokens:
            number, colon, value = token.partition(b":")
            if not colon:
                reason = f"feature {_show(token)} has no colon"
                raise LineError(offset, reason, "write features as number:value")
            index = self._parse_index(offset, number)
            if indices and index <= indices[-1]:
                first = 0 if self.zero_based else 1
                if index in indices:
                    reason = f"feature {index + first} appears twice"
                    raise LineError(offset, reason, "keep one of them")
                reason = f"feature {index + first} comes after feature {indices[-1] + first}"
                raise LineError(offset, reason, "write the features of a line in ascending order")
            indices.append(index)
            values.append(_parse_value(offset + len(number) + 1, value))
        return indices, values

    def _parse_index(self, offset: int, token: bytes) -> int:
        first = 0 if self.zero_based else 1
        if not token:
            raise LineError(offset, "no feature number before the colon", "write number:value")
        if not token.isdigit():
            problem = (
                "negative" if token[:1] == b"-" and token[1:].isdigit() else "not a whole number"
            )
            fix = f"number the features {first}, {first + 1}, {first + 2}, ..."
            raise LineError(offset, f"feature number {_show(token)} is {problem}", fix)
        digits = token.lstrip(b"0") or b"0"
        index = (int(digits) if len(digits) <= 10 else MAX_FEATURES + 1) - first
        if index < 0:
            reason = "feature number 0, but features are numbered from 1"
            fix = "read the file with zero_based=True, or add 1 to every feature number"
            raise LineError(offset, reason, fix)
        if index < self.n_features:
            return index
        reason = f"feature number {_show(token)} is above {self.n_features - 1 + first}"
        if self.is_limit:
            fix = (
                "number the features from 1 without gaps; if the number is right, allow it: "
                "n_features=, or RANKWRIGHT_MAX_FEATURES at a shell"
            )
            raise LineError(offset, f"{reason}, the limit", fix, "too many features")
        reason += f", the last of {self.n_features} features"
        fix = "read the file with a larger n_features"
        raise LineError(offset, reason, fix, "too many features")


def parse_number(token: bytes) -> float:
    """A finite decimal number (not hexadecimal, ``nan`` or ``1_000``); ValueError for others."""
    value = float(token) if _NUMBER.fullmatch(token) else inf
    if isinf(value):
        raise ValueError
    return value


def docid_of(comment: bytes) -> bytes | None:
    """The document id in the comment of a line: what follows ``docid =``, else all of it.

    >>> docid_of(b"docid = GX000-00-0000000 inc = 1 prob = 0.02"), docid_of(b" 1A "), docid_of(b" ")
    (b'GX000-00-0000000', b'1A', None)
    """
    match = _DOCID.match(comment)
    return match.group(1) if match else (comment.strip(b" \t") or None)


def _check_bytes(line: bytes) -> None:
    if b"\0" in line:
        fix = "the file is damaged or not text: copy it again"
        raise LineError(line.index(b"\0"), "a NUL byte", fix)
    if b"\r" in line:
        # The writer may have meant the end of a line: a comment would swallow the next item.
        fix = "end lines with LF or CRLF (tr '\\r' '\\n' converts a file with CR only)"
        raise LineError(line.index(b"\r"), "a carriage return inside a line", fix)


def _check_utf8(text: bytes, offset: int, what: str, option: str = "") -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        fix = "convert the file to UTF-8" + (f", or read it with {option}" if option else "")
        reason = f"byte 0x{text[error.start]:02x} in {what} is not UTF-8"
        raise LineError(offset + error.start, reason, fix) from None


def _parse_label(offset: int, token: bytes) -> float:
    try:
        return parse_number(token)
    except ValueError:
        pass
    if token.startswith(_BOM):
        fix = "remove it; it probably marks where files were joined"
        raise LineError(offset, "a byte order mark inside the file", fix)
    if b":" in token:
        reason = f"the label is missing before {_show(token)}"
        raise LineError(offset, reason, "start every line with its label")
    reason = f"label {_show(token)} is {_why_not(token)}"
    raise LineError(offset, reason, "start the line with a finite number")


def _parse_qid(tokens: list[tuple[int, bytes]]) -> bytes | None:
    """The id of the second token, if it is a qid; a qid anywhere else is refused."""
    for offset, token in tokens[2:]:
        if token[:4].lower() == b"qid:":
            twice = tokens[1][1].startswith(b"qid:")
            reason = "a second qid" if twice else "the qid comes after a feature"
            raise LineError(offset, reason, "write one qid, right after the label")
    if len(tokens) < 2 or tokens[1][1][:3].lower() != b"qid":
        return None
    offset, token = tokens[1]
    if not token.startswith(b"qid:"):
        raise LineError(offset, f"{_show(token)} is not a qid", "write qid:<id>, in lower case")
    qid = token[4:]
    if not qid:
        raise LineError(offset + 4, "the qid is empty", "write qid:<id> without a space inside")
    _check_utf8(qid, offset + 4, "the qid")
    control = next((i for i, c in enumerate(qid) if c < 32 or c == 127), None)
    if control is not None:
        reason = f"control character 0x{qid[control]:02x} in the qid"
        raise LineError(offset + 4 + control, reason, "remove it")
    return qid


def _parse_value(offset: int, token: bytes) -> float:
    if token == b"NULL":
        return nan
    try:
        return parse_number(token)
    except ValueError:
        pass
    if not token:
        raise LineError(offset, "no value after the colon", "write number:value")
    fix = "write a finite number, or NULL for a missing value"
    raise LineError(offset, f"value {_show(token)} is {_why_not(token)}", fix)


def _why_not(token: bytes) -> str:
    """Why a token is not a finite number."""
    if _NUMBER.fullmatch(token):
        return "too large for a 64-bit float"
    unsigned = token.lower().lstrip(b"+-")
    if unsigned in (b"nan", b"inf", b"infinity"):
        return "not finite"
    return "hexadecimal, not decimal" if unsigned.startswith(b"0x") else "not a number"


def _show(token: bytes, width: int = 40) -> str:
    text = token.decode("utf-8", "replace")
    return f'"{text}"' if len(text) <= width else f'"{text[:width]}..."'


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


# What is done about a bad line: its number, its text, the good rows before it in its block, why.
OnBadLine = Callable[[int, bytes, int, LineError], None]


class LineBlocks:
    """The parser for small files: line by line, without numba and the second its import takes."""

    def __init__(self, lines: LineParser, on_bad: OnBadLine, comments: str) -> None:
        self._lines, self._on_bad, self._comments = lines, on_bad, comments

    def parse(self, data: bytes, first_line: int) -> Block:
        """The rows of some whole lines; the first is line ``first_line`` of the file."""
        labels, values, counts, indices = array("d"), array("d"), array("q"), array("i")
        qids: list[bytes] = []
        comments: list[bytes | None] = []
        for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), first_line):
            try:
                row = self._lines.parse(line)
            except LineError as error:
                self._on_bad(number, line, len(labels), error)
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


class CompiledBlocks(LineBlocks):
    """The parser for large files: a kernel, which leaves unusual lines to the line parser."""

    def __init__(self, lines: LineParser, on_bad: OnBadLine, comments: str) -> None:
        from rankwright.data.io.letor import _kernels

        super().__init__(lines, on_bad, comments)
        self._kernels: Any = _kernels
        self._rows: Any = None

    def parse(self, data: bytes, first_line: int) -> Block:
        """The rows of some whole lines; the first is line ``first_line`` of the file."""
        if not data.endswith(b"\n"):
            data += b"\n"
        text, cursor = np.frombuffer(data, np.uint8), np.zeros(2, np.int64)
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
        return self._block(data, int(cursor[1]))

    def _make_room(self, n_lines: int, n_bytes: int) -> None:
        """Allocate the buffers of a block, unless those of the last block are large enough."""
        rows, n_values = self._rows, n_bytes // 4 + 1  # the shortest feature: " 1:0"
        if rows is None or n_lines > len(rows.labels) or n_values > len(rows.values):
            self._rows = self._kernels.ParsedRows(
                labels=np.empty(n_lines),
                ends=np.zeros(n_lines + 1, np.int64),
                indices=np.empty(n_values, np.int32),
                values=np.empty(n_values),
                spans=np.empty((n_lines, 6), np.int64),
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
            self._on_bad(number, data[start:stop], n_rows, error)
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
