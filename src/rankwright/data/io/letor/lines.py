"""One line of a LETOR file: its format, and what to say about a line that breaks it.

This parser defines the format. The compiled kernel for large files (``_kernels.py``) accepts the
usual lines itself and leaves every other line to this parser, so that the two cannot disagree.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from math import inf, isinf, nan
from operator import lt
from typing import NamedTuple

from rankwright.data.io.files import atomic_write
from rankwright.data.items import BadLine
from rankwright.exceptions import FileFormatError, ParameterError

MAX_FEATURES = 2**31 - 1  # column numbers are 32-bit

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(rb"[^ \t]+")
_DOCID = re.compile(rb"[ \t]*docid[ \t]*=[ \t]*([^ \t]+)")
_BOM = b"\xef\xbb\xbf"
# What spreadsheets write in place of a label: not a comment, if features follow.
_SPREADSHEET_ERROR = re.compile(
    rb"[ \t]*(#(?:N/A|NA|NAME\?|NUM!|NULL!|DIV/0!|REF!|VALUE!))[ \t]+(?:qid:|[0-9]+:)"
)
# A line in its usual form: label, query id, features. Of the characters of a number float()
# accepts exactly what _NUMBER accepts.
_USUAL = re.compile(
    rb"([-+.0-9eE]++)(?: qid:([-_0-9A-Za-z]++))?+((?: [0-9]{1,9}+:(?:[-+.0-9eE]++|NULL))*+) *+"
)


class LineError(Exception):
    """What is wrong at one byte of a line, and how to fix it."""

    def __init__(self, offset: int, reason: str, fix: str) -> None:
        super().__init__(offset, reason, fix)
        self.offset, self.reason, self.fix = offset, reason, fix


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
        if mark and not body.strip(b" \t") and (error := _SPREADSHEET_ERROR.match(line)):
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
            raise LineError(offset, f"{reason}, the limit", fix)
        reason += f", the last of {self.n_features} features"
        raise LineError(offset, reason, "read the file with a larger n_features")


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


class BadLines:
    """Collects the bad lines of one file, or raises an error for the first."""

    def __init__(
        self, name: str, on_bad_line: str, max_bad: float, quarantine: str | os.PathLike[str] | None
    ) -> None:
        if on_bad_line not in ("error", "skip", "quarantine"):
            allowed = '"error", "skip" or "quarantine"'
            raise ParameterError(f"read_letor(on_bad_line={on_bad_line!r}): must be {allowed}.")
        if isinstance(max_bad, bool) or not isinstance(max_bad, int | float) or not max_bad >= 0:
            allowed = "a whole number >= 0, or a fraction of the lines between 0 and 1"
            raise ParameterError(f"read_letor(max_bad={max_bad!r}): must be {allowed}.")
        if quarantine is not None and on_bad_line != "quarantine":
            raise ParameterError(
                f"read_letor(quarantine={os.fspath(quarantine)!r}): a quarantine file needs "
                'on_bad_line="quarantine".'
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
            raise FileFormatError(self._name, number, column, error.reason, text, error.fix)
        if not line.lstrip(b" \t").startswith(b"#") or _SPREADSHEET_ERROR.match(line):
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
