"""Text files as bytes safe to parse: unzipped, one kind of line end, errors that name a place."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from rankwright.exceptions import DataError, FileFormatError

__all__ = ["Text", "read_text"]


@dataclass(frozen=True, eq=False)
class Text:
    """The bytes of one text file, and where it came from.

    Examples
    --------
    >>> Text("a.txt", b"one\\ntwo").line(2)
    'two'
    """

    path: str
    data: bytes
    encoding: str = "utf-8"

    def line(self, number: int) -> str:
        """Line ``number``, counted from 1; empty beyond the end."""
        lines = self.data.split(b"\n", number)
        return lines[number - 1].decode(self.encoding, "replace") if number <= len(lines) else ""

    def refuse(self, line: int, column: int, reason: str, fix: str) -> NoReturn:
        """Raise the error that names file, line, column, reason and fix."""
        raise FileFormatError(self.path, line, column, reason, self.line(line), fix)

    def decode(self) -> str:
        """The text; a byte that is not of the encoding is refused by its line and column."""
        try:
            return self.data.decode(self.encoding)
        except UnicodeDecodeError as error:
            line, column = self._place(error.start)
            reason = f"byte 0x{self.data[error.start]:02x} is not {self.encoding}"
            self.refuse(
                line,
                column,
                reason,
                'convert the file, or read it with its encoding, often "latin-1"',
            )

    def _place(self, offset: int) -> tuple[int, int]:
        """Line and column of a byte."""
        start = self.data.rfind(b"\n", 0, offset) + 1
        column = len(self.data[start:offset].decode(self.encoding, "replace")) + 1
        return self.data.count(b"\n", 0, offset) + 1, column


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> Text:
    """Read a text file, gzipped or not (told by its first bytes, not by its name).

    CRLF becomes a newline and a UTF-8 byte order mark is dropped. UTF-16 and NUL bytes are refused
    by name, and so are an empty file and a gzip file that was cut off.
    """
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except IsADirectoryError:
        raise DataError(f"{name} is a folder: give a file inside it.") from None
    if data[:2] == b"\x1f\x8b":
        data = _unzip(name, data)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileFormatError(name, 1, 1, "the file is UTF-16", "", "convert it to UTF-8")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    text = Text(name, data, encoding)
    if not data.strip():
        text.refuse(1, 1, "the file is empty", "give a file with at least one line")
    nul = data.find(b"\x00")
    if nul >= 0:
        text.refuse(
            *text._place(nul), "a NUL byte", "the file is damaged or no text: fetch it again"
        )
    return text


def _unzip(name: str, data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"{name}: the gzip file is damaged or cut off ({error}). Fetch it again."
        ) from None
