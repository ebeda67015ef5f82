"""``-`` for standard input and output; a file on the disk is whole or not there."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rankwright.cli.config import STDIN
from rankwright.cli.console import note
from rankwright.data.io.files import atomic_write
from rankwright.exceptions import DataError, FileFormatError, ModelFileError, ParameterError


@contextmanager
def at_hand(path: str) -> Iterator[str]:
    """A path that can be opened as often as needed: ``-`` is read to its end into a file first.

    Errors raised inside the block name ``<stdin>``, not the file that nobody will find.
    """
    if path not in ("-", STDIN):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="rankwright-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        try:
            yield file.name
        except FileFormatError as error:
            parts = (error.line, error.column, error.reason, error.text, error.fix)
            raise FileFormatError(STDIN, *parts) from None
        except (DataError, ModelFileError) as error:
            raise type(error)(str(error).replace(file.name, STDIN)) from None


def check_targets(**paths: str | None) -> None:
    """Refuse options that name no place to write to, before hours of work and not after."""
    for option, path in paths.items():
        if path is None:
            continue
        if path in ("-", STDIN):
            raise ParameterError(f"--{option} -: it is written to a file only. Give its name.")
        _check_place(path)


def _check_place(path: str) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise ParameterError(f"{path} is a folder. Give the path of a file to write.")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {folder} is closed to you.")


def write_answer(lines: Iterable[str], path: str | None) -> None:
    """The answer of a verb, where ``--output`` asked for it; a file is announced."""
    write_text(lines, path)
    if path not in (None, "-", STDIN):
        note(f"written: {path}")


def write_text(lines: Iterable[str], path: str | None) -> None:
    """Write lines to standard output (None or ``-``), or to a file that appears when it is whole.

    A path that ends in ``.gz`` is zipped; a device such as ``/dev/null`` is written as it is.
    """
    if path in (None, "-", STDIN):
        for line in lines:
            sys.stdout.write(line)
        sys.stdout.flush()
        return
    assert path is not None
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        with open(path, "w", encoding="utf-8") as device:
            device.writelines(lines)
        return
    _check_place(path)
    with atomic_write(path, mode=0o666) as file:
        if path.endswith(".gz"):
            file.write(gzip.compress("".join(lines).encode(), mtime=0))
        else:
            for line in lines:
                file.write(line.encode())
