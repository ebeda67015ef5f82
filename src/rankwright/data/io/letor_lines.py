"""One line of a LETOR file: what may stand in it, and what to say when something else does.

This parser is the definition of the format. The fast ones (``blocks.py``, ``_kernels.py``) accept
some lines themselves and leave every other line to it, so that they cannot disagree with it.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isinf, nan
from typing import IO, Any, BinaryIO, NamedTuple, cast

import numpy as np

from rankwright.exceptions import DataError, FileFormatError, ParameterError

MAX_LINE = 16 * 2**20  # bytes; a longer line means that the file is something else

_UTF8_MARK = b"\xef\xbb\xbf"
# first bytes -> what the file is, what to do; longer marks before their own beginnings
_SIGNATURES = [
    (b"\xff\xfe\x00\x00", "UTF-32 text", "convert it to UTF-8"),
    (b"\x00\x00\xfe\xff", "UTF-32 text", "convert it to UTF-8"),
    (b"\xff\xfe", "UTF-16 text", "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"),
    (b"\xfe\xff", "UTF-16 text", "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"),
    (b"\x1f\x8b", "gzip inside gzip", "unzip it once"),
    (b"PK\x03\x04", "a zip archive", "unzip it"),
    (b"BZh", "a bzip2 file", "unzip it (bunzip2), or pass bz2.open(path)"),
    (b"\xfd7zXZ\x00", "an xz file", "unzip it (unxz), or pass lzma.open(path)"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unzip it (unzstd)"),
    (b"PAR1", "a Parquet file", "read it as a table"),
    (b"\x89HDF", "an HDF5 file", "read it as a table"),
    (b"\x93NUMPY", "a NumPy file", "read it with numpy.load"),
    (b"\x80\x04", "a pickle", "write the data as text"),
]


class Source:
    """An open file of lines.

    Attributes
    ----------
    name : str
        The file, as errors name it.
    size : int or None
        Bytes of text, as far as known before reading (a guess where they are zipped).
    line : int
        Lines in the blocks handed out so far.
    """

    def __init__(self, raw: BinaryIO, name: str, size: int | None) -> None:
        self._raw, self.name, self.line = raw, name, 0
        self._disk = size
        self._stream: IO[bytes] = raw
        zipped = _peek(raw)[:2] == b"\x1f\x8b"
        if zipped:
            self._stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
        self.size = size and size * (4 if zipped else 1)

    def fraction_read(self) -> float | None:
        """How much of the file has been read, 0 to 1, where its size is known."""
        if not self._disk:
            return None
        return min(1.0, self._raw.tell() / self._disk)

    def blocks(self, n_bytes: int) -> Iterator[bytes]:
        """About ``n_bytes`` at a time, ending with a newline (the last block need not).

        CRLF becomes LF, and a byte order mark at the start is dropped. ``line`` counts the lines
        of all blocks before the one at hand.
        """
        carry = self._begin(self._read(n_bytes))
        ended = not carry
        while not ended:
            chunk = self._read(n_bytes)
            ended = not chunk
            data = carry + chunk if chunk else carry
            cut = len(data) if ended else data.rfind(b"\n") + 1
            self._check_length(data, carry, cut)
            block, carry = data[:cut], data[cut:]
            if block:
                yield _with_bare_newlines(block)
                self.line += int(np.count_nonzero(np.frombuffer(block, np.uint8) == 10))

    def _begin(self, first: bytes) -> bytes:
        for mark, kind, fix in _SIGNATURES:
            if first.startswith(mark):
                raise FileFormatError(self.name, 1, 1, f"the file is {kind}", "", fix)
        head = first[:64]
        if len(head) >= 4 and (not any(head[1::2]) or not any(head[0::2])):
            fix = "convert it to UTF-8 (iconv -f UTF-16LE -t UTF-8, or UTF-16BE)"
            reason = "the file looks like UTF-16 text: every other byte is NUL"
            raise FileFormatError(self.name, 1, 1, reason, "", fix)
        return first.removeprefix(_UTF8_MARK)

    def _read(self, n_bytes: int) -> bytes:
        try:
            return self._stream.read(n_bytes)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FileFormatError(
                self.name, self.line + 1, 1,
                f"the gzip data are damaged or cut off at or after this line ({error})", "",
                "fetch the file again",
            ) from None  # fmt: skip

    def _check_length(self, data: bytes, carry: bytes, cut: int) -> None:
        """Only the line that began in an earlier block can be too long."""
        if len(data) <= MAX_LINE:
            return
        end = data.find(b"\n", 0, cut)
        if (end if end >= 0 else len(data)) > MAX_LINE:
            reason = f"the line is longer than {MAX_LINE // 2**20} MiB"
            fix = "check that this is a LETOR file with one item a line"
            raise FileFormatError(self.name, self.line + 1, 1, reason, "", fix)


@contextmanager
def open_source(path: Any) -> Iterator[Source]:
    """Open a path, or wrap a file that is open already (which stays open)."""
    if hasattr(path, "read"):
        name = getattr(path, "name", None)
        raw = cast(BinaryIO, io.BufferedReader(_Reader(path), 2**16))
        yield Source(raw, name if isinstance(name, str) else "<file>", None)
        return
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"path is {path!r}: give a path or a file open for reading.")
    name = os.fspath(path)
    if os.path.isdir(name):
        raise DataError(f"{name} is a folder: give the file inside it.")
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        yield Source(file, name, size)


class _Reader(io.RawIOBase):
    """The bytes of any object that can ``read(n)``; text is encoded."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._left or self._file.read(len(buffer))
        data = (
            data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data or b"")
        )
        n = min(len(data), len(buffer))
        buffer[:n] = data[:n]
        self._left = data[n:]
        return n


def _peek(raw: BinaryIO) -> bytes:
    return raw.peek(2)  # type: ignore[attr-defined, no-any-return]


def _with_bare_newlines(block: bytes) -> bytes:
    if b"\r" not in block:
        return block
    block = block.replace(b"\r\n", b"\n")
    return block.removesuffix(b"\r")  # the last line of a file may lack the newline alone


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
