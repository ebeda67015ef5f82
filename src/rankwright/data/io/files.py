"""Files that are either the old one or the new one, never half of each."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from rankwright.exceptions import DataError, FileFormatError, ParameterError


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


_SUFFIX = ".rw-tmp"
_STRAY_AFTER = 3600.0  # seconds since the last byte was written to it


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` only when it has been written whole.

    The bytes go to a temporary file in the same folder; leaving the block flushes it to the disk
    (fsync), renames it over ``path`` in one step and flushes the folder. After an exception, a
    kill or a power cut, ``path`` holds what it held before. A kill leaves the temporary file
    behind: the next write into that folder removes such files once they are an hour old.

    Parameters
    ----------
    path : path
        A regular file, or nothing yet. A symbolic link is followed, so the link stays.
    mode : int, default=0o600
        Permissions of a new file, less the umask. A file that is replaced passes on its own.

    Yields
    ------
    file : binary file, open for writing

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "scores.txt"
    >>> with atomic_write(path) as file:
    ...     _ = file.write(b"0.5")
    >>> path.read_bytes()
    b'0.5'
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(target.parent))
    old_mode = _mode_of(target)
    sweep_strays(target.parent)
    stray = target.parent / f".{target.name[:80]}.{os.urandom(8).hex()}{_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(stray, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if old_mode is not None:
                os.chmod(stray, old_mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(stray, target)
    except BaseException:
        with suppress(OSError):
            stray.unlink()
        raise
    _sync_folder(target.parent)


def sweep_strays(folder: Path) -> int:
    """Remove the temporary files that killed writers left in a folder; returns how many."""
    now, removed = time.time(), 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.name.startswith(".") and entry.name.endswith(_SUFFIX)):
                continue
            with suppress(OSError):  # another writer may sweep at the same moment
                if now - entry.stat(follow_symlinks=False).st_mtime > _STRAY_AFTER:
                    os.unlink(entry.path)
                    removed += 1
    return removed


def _mode_of(target: Path) -> int | None:
    """The permissions of the file about to be replaced, or None where there is none."""
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):  # renaming over a device or a pipe would remove it
        kind = "a folder" if stat.S_ISDIR(found) else "not a regular file"
        raise ParameterError(f"{target} is {kind}. Give the path of a file to write.")
    return stat.S_IMODE(found)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut (where the system lets a folder be synced)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems refuse
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
