"""Bytes of a text file, unzipped, in blocks of whole lines; what is not text is refused by name."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, cast

import numpy as np

from rankwright.exceptions import DataError, FileFormatError, ParameterError

__all__ = ["MAX_LINE", "Source", "open_source"]

MAX_LINE = 16 * 2**20  # bytes; a longer line means that the file is something else

_BOM = b"\xef\xbb\xbf"
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
        return first.removeprefix(_BOM)

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
