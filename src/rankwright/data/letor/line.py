"""One line of a LETOR file: what may stand in it, and what to say when something else does.

This parser is the definition of the format. The fast ones (``blocks.py``, ``_kernels.py``) accept
some lines themselves and leave every other line to it, so that they cannot disagree with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isinf, nan
from typing import NamedTuple

__all__ = ["MAX_FEATURES", "LineError", "LineParser", "Row", "docid_of", "parse_number"]

MAX_FEATURES = 2**31 - 1  # column numbers are 32-bit

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(rb"[^ \t]+")
_DOCID = re.compile(rb"[ \t]*docid[ \t]*=[ \t]*([^ \t]+)")
_BOM = b"\xef\xbb\xbf"


class LineError(Exception):
    """What is wrong at one byte of a line, and how to mend it."""

    def __init__(self, offset: int, reason: str, fix: str) -> None:
        super().__init__(offset, reason, fix)
        self.offset, self.reason, self.fix = offset, reason, fix


class Row(NamedTuple):
    """One item as a line says it."""

    label: float
    qid: bytes | None
    indices: list[int]  # columns of X, from 0
    values: list[float]
    comment: bytes | None


@dataclass
class LineParser:
    """Reads single lines; the first one with an item settles whether lines carry a query id.

    Parameters
    ----------
    n_features : int
        The largest number of columns allowed.
    zero_based : bool
        Whether the first feature is number 0 (else it is 1, as in LETOR).
    check_comments : bool
        Whether comments must be UTF-8, because they are kept.
    has_qid : bool or None
        Whether each line has a query id; None until the first line has been read.

    Examples
    --------
    >>> LineParser().parse(b"2 qid:7 1:0.5 3:NULL #docid = D1")
    Row(label=2.0, qid=b'7', indices=[0, 2], values=[0.5, nan], comment=b'docid = D1')
    >>> LineParser().parse(b"# only a comment") is None
    True
    """

    n_features: int = MAX_FEATURES
    zero_based: bool = False
    check_comments: bool = True
    has_qid: bool | None = None

    def parse(self, line: bytes) -> Row | None:
        """The item of a line (without its newline), or None for a blank or comment-only line."""
        _check_bytes(line)
        body, mark, comment = line.partition(b"#")
        if mark and self.check_comments:
            _check_utf8(comment, len(body) + 1, "the comment", 'comments="drop"')
        tokens = [(match.start(), match.group()) for match in _TOKEN.finditer(body)]
        if not tokens:
            return None
        label = _parse_label(*tokens[0])
        qid = _parse_qid(tokens)
        self._check_presence(qid, tokens)
        features = tokens[1:] if qid is None else tokens[2:]
        indices, values = self._parse_features(features)
        self.has_qid = qid is not None
        return Row(label, qid, indices, values, comment if mark else None)

    def _check_presence(self, qid: bytes | None, tokens: list[tuple[int, bytes]]) -> None:
        if self.has_qid is None or self.has_qid == (qid is not None):
            return
        offset = tokens[1][0] if len(tokens) > 1 else tokens[0][0] + len(tokens[0][1])
        if self.has_qid:
            raise LineError(
                offset, "the line has no qid, but the lines before it have one", "write qid:<id> "
                "after the label of every line, or of none"
            )  # fmt: skip
        raise LineError(
            offset, "the line has a qid, but the lines before it have none", "write qid:<id> "
            "after the label of every line, or of none"
        )  # fmt: skip

    def _parse_features(self, tokens: list[tuple[int, bytes]]) -> tuple[list[int], list[float]]:
        indices: list[int] = []
        values: list[float] = []
        for offset, token in tokens:
            number, colon, value = token.partition(b":")
            if not colon:
                raise LineError(
                    offset, f"feature {_show(token)} has no colon", "write features as number:value"
                )
            index = self._parse_index(offset, number)
            if indices and index <= indices[-1]:
                raise _order_error(offset, index, indices, self.zero_based)
            indices.append(index)
            values.append(_parse_value(offset + len(number) + 1, value))
        return indices, values

    def _parse_index(self, offset: int, token: bytes) -> int:
        first = 0 if self.zero_based else 1
        if not (token.isdigit() and token.isascii()):
            raise _index_error(offset, token, first)
        digits = token.lstrip(b"0") or b"0"
        index = (int(digits) if len(digits) <= 10 else MAX_FEATURES + 1) - first
        if index < 0:
            raise LineError(
                offset, "features are numbered from 1, and here is number 0",
                "read the file with zero_based=True, or add 1 to every number",
            )  # fmt: skip
        if index < self.n_features:
            return index
        if self.n_features == MAX_FEATURES:
            raise LineError(
                offset, f"feature number {_show(token)} is above {MAX_FEATURES - 1 + first}",
                "number the features from 1 without gaps",
            )  # fmt: skip
        raise LineError(
            offset, f"feature number {_show(token)} is above {self.n_features - 1 + first}, the "
            f"last of {self.n_features} features", "read the file with a larger n_features"
        )  # fmt: skip


def parse_number(token: bytes) -> float:
    """A finite decimal number, rounded as ``float`` does; ValueError for anything else.

    Hexadecimal, ``nan``, ``inf``, ``1_000`` and numbers that overflow are not numbers here.

    >>> parse_number(b"-2.5e-1")
    -0.25
    """
    if not _NUMBER.fullmatch(token):
        raise ValueError
    value = float(token)
    if isinf(value):
        raise ValueError
    return value


def docid_of(comment: bytes) -> bytes | None:
    """The id of a document in the comment of its line: ``docid = <id> ...``, else all of it.

    >>> docid_of(b"docid = GX000-00-0000000 inc = 1 prob = 0.02"), docid_of(b" 1A "), docid_of(b" ")
    (b'GX000-00-0000000', b'1A', None)
    """
    found = _DOCID.match(comment)
    return found.group(1) if found else (comment.strip(b" \t") or None)


def _check_bytes(line: bytes) -> None:
    """Refuse bytes that no text has, wherever they stand."""
    if b"\0" in line:
        raise LineError(
            line.index(b"\0"), "a NUL byte", "the file is damaged or not text: fetch it again"
        )
    if b"\r" in line:
        # It may be the end of a line to whoever wrote it: a comment would swallow what follows.
        raise LineError(
            line.index(b"\r"), "a carriage return inside a line",
            "end lines with LF or CRLF (tr '\\r' '\\n' mends a file with CR only)",
        )  # fmt: skip


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
        raise LineError(
            offset,
            "a byte order mark inside the file",
            "remove it; it shows where files were joined",
        )
    if b":" in token:
        raise LineError(offset, f"the label is missing before {_show(token)}", "write it first")
    raise LineError(
        offset, f"label {_show(token)} is {_why_not(token)}", "start the line with a finite number"
    )


def _parse_qid(tokens: list[tuple[int, bytes]]) -> bytes | None:
    """The id of the second token, if it is a qid; a qid anywhere else is refused."""
    for offset, token in tokens[2:]:
        if token[:4].lower() == b"qid:":
            twice = tokens[1][1].startswith(b"qid:")
            reason = "a second qid" if twice else "the qid stands after a feature"
            raise LineError(offset, reason, "write one qid, right after the label")
    if len(tokens) < 2 or tokens[1][1][:3].lower() != b"qid":
        return None
    offset, token = tokens[1]
    if not token.startswith(b"qid:"):
        raise LineError(offset, f"{_show(token)} is not a qid", "write qid:<id>, in small letters")
    qid = token[4:]
    if not qid:
        raise LineError(offset + 4, "the qid is empty", "write qid:<id> without a space inside")
    _check_utf8(qid, offset + 4, "the qid")
    control = next((i for i, c in enumerate(qid) if c < 32 or c == 127), None)
    if control is not None:
        raise LineError(
            offset + 4 + control, f"control character 0x{qid[control]:02x} in the qid", "remove it"
        )
    return qid


def _parse_value(offset: int, token: bytes) -> float:
    if token == b"NULL":
        return nan
    try:
        return parse_number(token)
    except ValueError:
        pass
    if not token:
        raise LineError(offset, "the value is missing after the colon", "write number:value")
    fix = "write a finite number, or NULL where the feature abstains"
    raise LineError(offset, f"value {_show(token)} is {_why_not(token)}", fix)


def _index_error(offset: int, token: bytes, first: int) -> LineError:
    if not token:
        return LineError(offset, "the feature number is missing before the colon", "number:value")
    reason = f"feature number {_show(token)} is not a whole number"
    if token[:1] == b"-" and token[1:].isdigit():
        reason = f"feature number {_show(token)} is negative"
    return LineError(offset, reason, f"number the features {first}, {first + 1}, {first + 2}, ...")


def _order_error(offset: int, index: int, before: list[int], zero_based: bool) -> LineError:
    first = 0 if zero_based else 1
    if index in before:
        return LineError(offset, f"feature {index + first} is given twice", "keep one of them")
    return LineError(
        offset, f"feature {index + first} stands after feature {before[-1] + first}",
        "write the features of a line in ascending order",
    )  # fmt: skip


def _why_not(token: bytes) -> str:
    """Why a token is not a finite number."""
    if _NUMBER.fullmatch(token):
        return "too large for a 64-bit float"
    plain = token.lower().lstrip(b"+-")
    if plain in (b"nan", b"inf", b"infinity"):
        return "not finite"
    if plain == b"null":
        return "not a number"
    if plain.startswith(b"0x"):
        return "hexadecimal, not decimal"
    return "not a number"


def _show(token: bytes, width: int = 40) -> str:
    text = token.decode("utf-8", "replace")
    return f'"{text}"' if len(text) <= width else f'"{text[:width]}..."'
