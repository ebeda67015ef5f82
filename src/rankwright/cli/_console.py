"""What verbs print and write: results on standard output or in a file, notes on standard error."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from stat import S_ISFIFO
from typing import TYPE_CHECKING, Any, BinaryIO

from rankwright.data.io.files import check_outputs, naming, write_lines
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    from rankwright.data.items import RankedItem

STDIN = "<stdin>"  # what "-" is called inside, and in errors
COPIES = "rankwright-pipe-"  # how folders with copies of pipes begin
common_inputs: list[str | None] = []  # the files of --config and --key-file; the run sets it

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


def shown(text: str) -> str:
    """Text about the copy of a pipe, as text about the pipe."""
    if COPIES not in text:
        return text
    from tempfile import gettempdir

    return re.sub(rf"{re.escape(gettempdir())}/{COPIES}\w+(/(?={STDIN}))?", "", text)


class Pipes(ExitStack):
    """Copies of standard input and named pipes, which can be read repeatedly; gone at the end.

    A copy is called as the pipe, in a folder of its own that :func:`shown` takes out of texts.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stdin_is_read = False

    def copied(self, value: Any) -> Any:
        """A path, several paths or a group of options, with copies instead of pipes."""
        if isinstance(value, tuple):
            return tuple(map(self.copied, value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = {name: self.copied(part) for name, part in vars(value).items()}
            return dataclasses.replace(value, **parts)
        if value == STDIN:
            return self._copy(sys.stdin.buffer, value)
        if isinstance(value, str) and os.path.exists(value) and S_ISFIFO(os.stat(value).st_mode):
            return self._copy(self.enter_context(open(value, "rb")), os.path.abspath(value))
        return value

    def _copy(self, pipe: BinaryIO, name: str) -> str:
        import tempfile

        if name == STDIN and self._stdin_is_read:
            raise ParameterError("- is standard input: only one of the files can come from it.")
        self._stdin_is_read |= name == STDIN
        folder = self.enter_context(tempfile.TemporaryDirectory(prefix=COPIES))
        path = os.path.join(folder, name.lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with naming(tempfile.gettempdir()), open(path, "wb") as copy:
            shutil.copyfileobj(pipe, copy)
        return path


def note(text: str) -> None:
    """Print a line to standard error; pipes carry results only."""
    print(escape_controls(shown(text)), file=sys.stderr, flush=True)


def note_content(path: str, content: Any) -> None:
    """Say what was read from a file."""
    note(f"{path}: {str(content).partition('(')[2].removesuffix(')')}")


def to_json(content: Any) -> str:
    """A result as JSON; NaN and infinite values become null, other objects are as they print."""
    return json.dumps(_plain(content), indent=1, ensure_ascii=False, default=repr) + "\n"


def answer(json: bool, text: Any, content: Mapping[str, Any], output: str | None = None) -> None:
    """Write a result: the text, or its content as JSON."""
    write_result([to_json(content) if json else shown(f"{text}\n")], output)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, str):
        return shown(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def next_command(*words: str) -> str:
    """A line with the next command to try, ready to be copied."""
    return f"next: rankwright {shlex.join(words)}"


def command() -> str:
    """This call, as typed."""
    return shlex.join(["rankwright", *sys.argv[1:]])


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what takes time: a spinner on a terminal, a line with the seconds otherwise."""
    from rich.console import Console

    start = time.perf_counter()
    with Console(stderr=True).status(f"{what} ...") if sys.stderr.isatty() else nullcontext():
        yield
    note(f"{what}: {time.perf_counter() - start:.1f} s")


def check_targets(*inputs: str | None, **outputs: str | None) -> None:
    """Refuse outputs, by option, that cannot be written or would replace what is read."""
    from rankwright.data.io.items import group_file

    for option, path in outputs.items():
        if path in ("-", STDIN):
            raise ParameterError(f"--{option} -: it is written to a file only. Give its name.")
    named = [(option if option == "TARGET" else f"--{option}", p) for option, p in outputs.items()]
    found = [group_file(path) for path in inputs if path is not None and os.path.isfile(path)]
    check_outputs([*inputs, *found, *common_inputs], named)


def file_name(path: str | None) -> str | None:
    """The file that an option names; None for standard output."""
    return None if path in ("-", STDIN) else path


def write_ranking(
    rows: Iterable[RankedItem], path: str | None, run_name: str | None, about: dict[str, Any] | None
) -> None:
    """Write ordered lists: as JSON with ``about``, as a TREC run with a name, else as a table."""
    from rankwright.data.io.trec import ranking_lines

    if about is None:
        write_result(ranking_lines(rows, run_name), path)
        return
    lists: dict[str, list[dict[str, Any]]] = {}
    for query, item, rank, score in rows:
        lists.setdefault(str(query), []).append({"item": item, "rank": rank, "score": score})
    write_result([to_json({**about, "queries": lists})], path)


def write_result(lines: Iterable[str], path: str | None = None) -> None:
    """Write lines to standard output, or to a file that appears when complete."""
    if path is None or file_name(path) is None:
        with naming("standard output"):
            sys.stdout.writelines(lines)
            sys.stdout.flush()
        return
    write_lines(path, lines)
    note(f"written: {path}")
