"""What verbs print: results on standard output, remarks on standard error."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def note(text: str) -> None:
    """A remark for the person at the terminal; pipes carry results only."""
    print(text, file=sys.stderr, flush=True)


def as_json(content: Any) -> str:
    """The result for another program; NaN, which JSON cannot say, is null."""
    return json.dumps(_plain(content), indent=1, ensure_ascii=False) + "\n"


def print_json(content: Any) -> None:
    """The same on standard output."""
    print(as_json(content), end="")


def plain_values(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters for JSON: numbers and words as they are, other objects as they print."""
    plain = (str, int, float, bool, type(None), list)
    return {key: v if isinstance(v, plain) else repr(v) for key, v in params.items()}


def suggest(*words: str) -> None:
    """The next command to try, ready to be copied."""
    print(f"next: rankwright {shlex.join(words)}")


@contextmanager
def working(what: str, *, spins: bool = True) -> Iterator[None]:
    """Say what takes time: a spinner on a terminal, a plain line with the seconds otherwise.

    ``spins=False`` where the work draws a bar of its own.
    """
    began = time.perf_counter()
    if spins and sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(f"{what} ..."):
            yield
    else:
        yield
    note(f"{what}: {time.perf_counter() - began:.1f} s")


def _plain(value: Any) -> Any:
    """The same with Python's own types."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
