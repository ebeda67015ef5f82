"""What verbs print and write: results on standard output or in a file, notes on standard error."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rankwright.data.io.files import naming, refuse_overwriting, write_lines
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    from rankwright.data.items import RankedItem

STDIN = "<stdin>"  # what "-" is called inside, and in errors


# Control characters but tab and newline, and those that turn the direction of text around.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    r"""Text from data that cannot command a terminal.

    >>> print(escape_controls("red \x1b[31m"))
    red \x1b[31m
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


class Terminal:
    """A terminal that shows control characters instead of obeying them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(escape_controls(text)))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def note(text: str) -> None:
    """Print a line to standard error; pipes carry results only."""
    print(escape_controls(text), file=sys.stderr, flush=True)


def to_json(content: Any) -> str:
    """A result as JSON; NaN and infinite values, which JSON does not have, become null."""
    return json.dumps(_plain(content), indent=1, ensure_ascii=False) + "\n"


def print_json(content: Any) -> None:
    print(to_json(content), end="")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_values(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters for JSON: numbers and texts as they are, other objects as they print."""
    plain = (str, int, float, bool, type(None), list)
    return {key: v if isinstance(v, plain) else repr(v) for key, v in params.items()}


def suggest(*words: str) -> None:
    """Print the next command to try, ready to be copied."""
    print(f"next: rankwright {shlex.join(words)}")


def command() -> str:
    """This call, as typed."""
    return shlex.join(["rankwright", *sys.argv[1:]])


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what takes time: a spinner on a terminal, a line with the seconds otherwise."""
    start = time.perf_counter()
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(f"{what} ..."):
            yield
    else:
        yield
    note(f"{what}: {time.perf_counter() - start:.1f} s")


def check_targets(*inputs: str | None, **outputs: str | None) -> None:
    """Refuse a file that cannot be written, is read as well, or is written twice: before any work.

    ``inputs`` are all files that a verb reads, ``outputs`` those that it writes, by option.
    """
    for option, path in outputs.items():
        if path in ("-", STDIN):
            raise ParameterError(f"--{option} -: it is written to a file only. Give its name.")
        if path is not None:
            _check_target(path)
    named = [(option if option == "TARGET" else f"--{option}", p) for option, p in outputs.items()]
    refuse_overwriting([path for path in inputs if path not in ("-", STDIN)], named)


def file_name(path: str | None) -> str | None:
    """The file that an option names; None for standard output."""
    return None if path in ("-", STDIN) else path


def _check_target(path: str) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise ParameterError(f"{path} is a folder. Give the path of a file to write.")
    if os.path.exists(path) and not os.path.isfile(path):
        return  # a device
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path}: permission denied to write in the folder {folder}.")


def write_ranking(
    rows: Iterable[RankedItem],
    path: str | None,
    *,
    run_name: str | None = None,
    about: dict[str, Any] | None = None,
) -> None:
    """Write ordered lists: as JSON with ``about``, as a TREC run with a name, else as a table."""
    lines: Iterable[str]
    if about is not None:
        lists: dict[str, list[dict[str, Any]]] = {}
        for query, item, rank, score in rows:
            entry = {"item": item, "rank": rank, "score": score}
            lists.setdefault(str(query), []).append(entry)
        lines = [to_json({**about, "queries": lists})]
    elif run_name is not None:
        from rankwright.data.io.trec import run_lines

        lines = run_lines(rows, run_name)
    else:
        lines = (f"{query}\t{rank}\t{item}\t{score:.6g}\n" for query, item, rank, score in rows)
    write_result(lines, path)


def write_result(lines: Iterable[str], path: str | None = None) -> None:
    """Write lines to standard output (None or ``-``), or to a file that appears when complete.

    A path that ends in ``.gz`` is gzipped; a device such as ``/dev/null`` is written directly.
    """
    if path is None or path in ("-", STDIN):
        with naming("standard output"):
            sys.stdout.writelines(lines)
            sys.stdout.flush()
        return
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        with naming(path), open(path, "w", encoding="utf-8") as device:
            device.writelines(lines)
        return
    _check_target(path)
    write_lines(path, lines)
    note(f"written: {path}")
