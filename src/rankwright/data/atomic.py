"""Files that are either the old one or the new one, never half of each."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rankwright.exceptions import ParameterError

__all__ = ["atomic_write", "sweep_strays"]

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
