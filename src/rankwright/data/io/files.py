"""Read text files, gzipped or not; write files atomically."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn, ParamSpec, TypeVar, cast

from rankwright.exceptions import DataError, FileFormatError, ParameterError

if TYPE_CHECKING:
    from rankwright._typing import FilePath

MAX_LINE = 16 * 2**20  # bytes; a longer line means that this is another kind of file
# Text in a gzip file without a limit of its own: this much, or this many times its size.
MAX_UNZIPPED, MAX_RATIO = 2**26, 32

P = ParamSpec("P")
R = TypeVar("R")
_max_bytes: ContextVar[int | None] = ContextVar("max_bytes", default=None)

_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
# first bytes -> what the file is, what to do
_SIGNATURES = [
    (b"\xff\xfe", "UTF-16 text", "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"),
    (b"\xfe\xff", "UTF-16 text", "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"),
    (_GZIP, "gzip inside gzip", "decompress it once (gunzip)"),
    (b"PK\x03\x04", "a zip archive", "unpack it (unzip)"),
    (b"BZh", "a bzip2 file", "decompress it (bunzip2)"),
    (b"\xfd7zXZ\x00", "an xz file", "decompress it (unxz)"),
    (b"PAR1", "a Parquet file", "read it with read_table or read_ratings"),
]


STDIN = "<stdin>"  # the path of standard input, also in errors


class PipedFile(str):
    """The path of a pipe, with its content: readers open a file twice, a pipe gives it once."""

    data: bytes


def read_pipe(path: str) -> str:
    """Read standard input or a named pipe; the path of any other file stays as it is.

    >>> read_pipe("train.txt")
    'train.txt'
    """
    piped = PipedFile(path)
    if path == STDIN:
        piped.data = sys.stdin.buffer.read()
    elif os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode):
        piped.data = Path(path).read_bytes()
    else:
        return path
    return piped


class RemoteFile(str):
    """The URL of a file that fsspec reads, such as ``s3://bucket/part-0.parquet``."""

    __slots__ = ("options",)

    options: Mapping[str, Any]  # of its file system: credentials, endpoints

    def __new__(cls, url: str, options: Mapping[str, Any] | None = None) -> RemoteFile:
        file = super().__new__(cls, url)
        file.options = dict(options or {})
        return file

    def __reduce__(self) -> Any:
        return RemoteFile, (str(self), self.options)

    def system(self) -> tuple[Any, str]:
        """The file system, and the name of the file in it."""
        try:
            from fsspec.core import url_to_fs

            found: tuple[Any, str] = url_to_fs(str(self), **self.options)
        except ImportError as error:  # fsspec itself, or the package of a protocol
            raise ParameterError(
                f"{self}: {error}. Install what reads this protocol, such as fsspec and s3fs."
            ) from None
        except ValueError as error:  # an unknown protocol
            raise ParameterError(f"{self}: {error}.") from None
        return found


def is_url(path: object) -> bool:
    """Whether a path is a URL that fsspec reads.

    >>> is_url("s3://bucket/part-*.parquet"), is_url("C:/data.csv")
    (True, False)
    """
    return isinstance(path, str) and "://" in path


def open_binary(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading, also one that came through a pipe or that fsspec reads."""
    if isinstance(path, PipedFile):
        return cast(BinaryIO, io.BufferedReader(io.BytesIO(path.data)))
    if isinstance(path, RemoteFile):
        system, name = path.system()
        return cast(BinaryIO, io.BufferedReader(system.open(name, "rb")))
    if os.path.isdir(path):
        fix = "Give the path of a file in it."
        raise DataError("it is a folder.", file=path, fix=fix)
    return open(path, "rb")


def bounded(read: Callable[P, R]) -> Callable[P, R]:
    """Make the keyword ``max_bytes`` of a reader the limit of every text that it reads."""

    @wraps(read)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        given: Any = kwargs.get("max_bytes")
        if given is None:
            return read(*args, **kwargs)
        token = _max_bytes.set(_whole_number(given, "max_bytes="))
        try:
            return read(*args, **kwargs)
        finally:
            _max_bytes.reset(token)

    return wrapper


def limit_from_environment(name: str) -> int | None:
    """The whole number in an environment variable that raises or lowers a limit, or None."""
    text = os.environ.get(name, "").strip()
    return _whole_number(text, f"{name}=") if text else None


def _whole_number(value: Any, what: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1 or isinstance(value, bool | float):
        raise ParameterError(f"{what}{value!r}: give a whole number >= 1.")
    return number


class TextFile:
    """An open text file, gzipped or not, read as a whole or in blocks of lines.

    Reading stops with an error at ``max_bytes`` of text (see :func:`bounded`), else at the number
    in ``RANKWRIGHT_MAX_BYTES``. Without either, gzip files have a limit that only files made to
    fill the memory exceed.

    CRLF becomes LF, and a UTF-8 byte order mark is dropped. A file that is clearly something else
    (UTF-16, a zip archive, ...) is refused by name.
    """

    def __init__(self, raw: BinaryIO, name: str, n_bytes: int | None) -> None:
        self._raw, self._n_bytes, self._stream = raw, n_bytes, cast(IO[bytes], raw)
        self._n_read, self._limit = 0, _max_bytes.get()
        if self._limit is None:
            self._limit = limit_from_environment("RANKWRIGHT_MAX_BYTES")
        self.name, self.line = name, 0  # lines in all blocks before the current one
        self.size = n_bytes  # bytes of text, an estimate for gzip
        if raw.peek(2)[:2] == _GZIP:  # type: ignore[attr-defined]
            self._stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
            self.size = n_bytes and 4 * n_bytes

    def fraction_read(self) -> float | None:
        """How much of the file has been read, 0 to 1; None where its size is unknown."""
        return min(1.0, self._raw.tell() / self._n_bytes) if self._n_bytes else None

    def read(self) -> bytes:
        """The whole text."""
        if self._stream is self._raw and self._limit is None:
            return _with_bare_newlines(self._check_start(self._read(-1)))
        text = io.BytesIO()
        while chunk := self._read(2**24):
            text.write(chunk)
        return _with_bare_newlines(self._check_start(text.getvalue()))

    def blocks(self, n_bytes: int) -> Iterator[bytes]:
        """The text, about ``n_bytes`` at a time; each block but the last ends with a newline."""
        carry = self._check_start(self._read(n_bytes))
        ended = not carry
        while not ended:
            chunk = self._read(n_bytes)
            ended = not chunk
            data = carry + chunk if chunk else carry
            cut = len(data) if ended else data.rfind(b"\n") + 1
            self._check_length(data, cut)
            block, carry = data[:cut], data[cut:]
            if block:
                yield _with_bare_newlines(block)
                self.line += block.count(b"\n")

    def _check_start(self, data: bytes) -> bytes:
        for signature, kind, fix in _SIGNATURES:
            if data.startswith(signature):
                self._refuse(f"the file is {kind}", fix)
        head = data[:64]
        if len(head) >= 4 and (not any(head[1::2]) or not any(head[0::2])):
            fix = "convert it to UTF-8 (iconv -f UTF-16LE -t UTF-8, or UTF-16BE)"
            self._refuse("the file looks like UTF-16 text: every other byte is NUL", fix)
        return data.removeprefix(_UTF8_MARK)

    def _refuse(self, reason: str, fix: str) -> NoReturn:
        raise FileFormatError(self.name, self.line + 1, 1, reason, "", fix) from None

    def _read(self, n_bytes: int) -> bytes:
        try:
            data = self._stream.read(n_bytes)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason = f"the gzip data are damaged or cut off at or after this line ({error})"
            self._refuse(reason, "download or copy the file again")
        self._n_read += len(data)
        self._check_limit()
        return data

    def _check_limit(self) -> None:
        limit, zipped = self._limit, "more than"
        if limit is None and self._stream is not self._raw:
            limit = max(MAX_UNZIPPED, MAX_RATIO * self._n_zipped())
            zipped = "the gzip file unpacks to more than"
        if limit is not None and self._n_read > limit:
            fix = "if the file is right, allow more: max_bytes=, or RANKWRIGHT_MAX_BYTES at a shell"
            self._refuse(f"{zipped} {limit:,} bytes of text", fix)

    def _n_zipped(self) -> int:
        """Bytes of the gzip file: all of them, or those read so far from a stream."""
        if self._n_bytes is not None:
            return self._n_bytes
        return int(getattr(self._raw.raw, "n_bytes", 0))  # type: ignore[attr-defined]

    def _check_length(self, data: bytes, cut: int) -> None:
        """Refuse a line that is too long; only the first one of a block can be."""
        if len(data) <= MAX_LINE:
            return
        end = data.find(b"\n", 0, cut)
        if (end if end >= 0 else len(data)) > MAX_LINE:
            fix = "check that this is a text file with one item per line"
            self._refuse(f"the line is longer than {MAX_LINE // 2**20} MiB", fix)


def _with_bare_newlines(block: bytes) -> bytes:
    if b"\r" not in block:
        return block
    # The last line of a file may end in CR, where the LF was cut off.
    return block.replace(b"\r\n", b"\n").removesuffix(b"\r")


def file_size(file: BinaryIO) -> int:
    """The number of bytes of an open file, which is then at its start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


@contextmanager
def open_text(path: Any) -> Iterator[TextFile]:
    """Open a path, or wrap a file that is open already (which stays open)."""
    if hasattr(path, "read"):
        name = getattr(path, "name", None)
        raw = cast(BinaryIO, io.BufferedReader(_Reader(path), 2**16))
        yield TextFile(raw, name if isinstance(name, str) else "<file>", None)
        return
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(
            f"path is {path!r}: give a path or a file open for reading.", parameter="path"
        )
    name = os.fspath(path)
    with open_binary(name) as file:
        yield TextFile(file, name, file_size(file))


class _Reader(io.RawIOBase):
    """The bytes of any object with a ``read(n)`` method; text is encoded as UTF-8."""

    def __init__(self, file: IO[Any]) -> None:
        self._file, self._rest, self.n_bytes = file, b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._rest or self._file.read(len(buffer)) or b""
        data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
        n = min(len(data), len(buffer))
        self.n_bytes += n
        buffer[:n] = data[:n]
        self._rest = data[n:]
        return n


@dataclass(frozen=True, eq=False)
class Text:
    """The bytes of one text file, and its path for error messages."""

    path: str
    data: bytes
    encoding: str = "utf-8"

    @property
    def first_line(self) -> bytes:
        """The first line that is not blank, or nothing."""
        match = re.search(rb"[^\n]*\S[^\n]*", self.data)
        return match[0] if match else b""

    def line(self, number: int) -> str:
        """Line ``number``, counted from 1; empty after the end."""
        lines = self.data.split(b"\n", number)
        return lines[number - 1].decode(self.encoding, "replace") if number <= len(lines) else ""

    def refuse(self, line: int, column: int, reason: str, fix: str, kind: str = "") -> NoReturn:
        raise FileFormatError(self.path, line, column, reason, self.line(line), fix, kind=kind)

    def refuse_byte(self, offset: int, reason: str, fix: str) -> NoReturn:
        start = self.data.rfind(b"\n", 0, offset) + 1
        column = len(self.data[start:offset].decode(self.encoding, "replace")) + 1
        self.refuse(self.data.count(b"\n", 0, offset) + 1, column, reason, fix)

    def decode(self) -> str:
        """The text; a byte that is not valid in the encoding is refused with line and column."""
        try:
            return self.data.decode(self.encoding)
        except UnicodeDecodeError as error:
            reason = f"byte 0x{self.data[error.start]:02x} is not {self.encoding}"
            fix = 'convert the file, or pass its encoding, often "latin-1"'
            self.refuse_byte(error.start, reason, fix)


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> Text:
    """Read a text file whole (see :class:`TextFile`); an empty file and NUL bytes are refused."""
    with open_text(path) as file:
        text = Text(file.name, file.read(), encoding)
    if not text.data.strip():
        text.refuse(1, 1, "the file is empty", "give a file with at least one line")
    nul = text.data.find(b"\x00")
    if nul >= 0:
        text.refuse_byte(nul, "a NUL byte", "the file is damaged or not text: copy it again")
    if b"\n" not in text.data and b"\r" in text.data.strip():
        fix = "convert the line ends, for example with tr '\\r' '\\n'"
        text.refuse_byte(text.data.strip().index(b"\r"), "lines end with CR alone", fix)
    return text


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether the content of a file is Parquet."""
    with open_binary(path) as file:
        return file.read(4) == b"PAR1"


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines, each with its newline, as UTF-8; gzipped (without a time) for ``.gz``.

    A device or a pipe, such as ``/dev/null``, is written directly.
    """
    if _is_device(path):
        with naming(path), open(path, "w", encoding="utf-8") as device:
            device.writelines(lines)
        return
    with atomic_write(path, mode=0o666) as file:
        if not os.fspath(path).endswith(".gz"):
            file.writelines(line.encode() for line in lines)
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped:
            zipped.writelines(line.encode() for line in lines)


_SUFFIX = ".rw-tmp"
_STALE_AFTER = 3600.0  # seconds since the last byte was written to it


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` only when it has been written completely.

    The bytes go to a temporary file in the same folder, which is flushed to disk (fsync) and
    renamed over ``path`` in one step. After an exception, a kill or a power failure, ``path`` holds
    what it held before. Later writes remove a killed process's temporary file after an hour.

    Parameters
    ----------
    path : path
        A regular file, or a new one. A symbolic link is followed, and stays a link.
    mode : int, default=0o600
        Permissions of a new file, minus the umask. A file that is replaced keeps its own.

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
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    old_mode = _mode_of(target)
    remove_stale_files(target.parent)
    short = os.fsencode(target.name)[:80].decode("utf-8", "ignore")  # names have 255 bytes at most
    temporary = target.parent / f".{short}.{os.urandom(8).hex()}{_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with naming(target), os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            if old_mode is not None:
                os.chmod(temporary, old_mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:  # also an interrupt right after the file was made
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the path into an OSError that has none, such as "No space left on device"."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def check_outputs(inputs: Iterable[Any], outputs: Iterable[tuple[str, Any]]) -> None:
    """Refuse outputs that cannot be written, are read as well, or are one file: before any work.

    Files are the same if they are one file on disk, whatever their paths: also through symbolic
    and hard links. Pipes and devices (``/dev/null``) may be given several times.

    Parameters
    ----------
    inputs : paths; None and open files are ignored
    outputs : pairs of what to call the output, and its path or None

    >>> check_outputs(["a.txt"], [("--output", "./a.txt")])
    Traceback (most recent call last):
    ...
    rankwright.exceptions.ParameterError: --output ./a.txt is also an input file and would be ...
    """
    is_read = {key for path in inputs for key in _identity(path)}
    written: dict[Any, str] = {}
    outputs = [(name, path) for name, path in outputs if path is not None]
    for _, path in outputs:
        _check_writable(path)
    for name, path in outputs:
        for key in _identity(path):
            shown = f"{name} {os.fspath(path)}".strip()
            if key in is_read:
                raise ParameterError(
                    f"{shown} is also an input file and would be overwritten. Give the output "
                    "another name."
                )
            if written.setdefault(key, name) != name:
                raise ParameterError(
                    f"{shown} is also the output file of {written[key]}. Give them different names."
                )


def _is_device(path: str | os.PathLike[str]) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _check_writable(path: str | os.PathLike[str]) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise ParameterError(f"{path} is a folder. Give the path of a file to write.")
    if _is_device(path):
        return
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path}: permission denied to write in the folder {folder}.")


def _identity(path: FilePath | IO[Any]) -> list[Any]:
    """What tells a file from others: its number on disk, or the full path of a new one."""
    if not isinstance(path, str | os.PathLike):
        return []
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return [os.path.normcase(os.path.realpath(path))]
    return [(status.st_dev, status.st_ino)] if stat.S_ISREG(status.st_mode) else []


def remove_stale_files(folder: Path) -> int:
    """Remove temporary files that killed processes left in a folder; returns how many."""
    now, removed = time.time(), 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.name.startswith(".") and entry.name.endswith(_SUFFIX)):
                continue
            with suppress(OSError):  # another process may remove it at the same time
                if now - entry.stat(follow_symlinks=False).st_mtime > _STALE_AFTER:
                    os.unlink(entry.path)
                    removed += 1
    return removed


def _mode_of(target: Path) -> int | None:
    """The permissions of the file to be replaced, or None if there is no file yet."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):  # renaming over a device or a pipe would remove it
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise ParameterError(f"{target} is {kind}. Give the path of a file to write.")
    return stat.S_IMODE(mode)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power failure, where the system can sync a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems refuse
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
