"""The errors and warnings of rankwright.

Each message says *where*, what was *found*, what is *needed* and what to *do*. Each class derives
from the builtin that a caller would expect.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Self


class Setting(NamedTuple):
    """A parameter in a message: ``qid='session'`` in Python, ``--qid session`` at a shell."""

    parameter: str
    value: Any = ...

    def __str__(self) -> str:
        return f"{self.parameter}=" + ("" if self.value is ... else f"{self.value!r}")


class Message(str):
    """A text in which parameters are marked, so that the command line can name its options.

    >>> message = Message("name the column of the query: ", Setting("qid", "NAME"))
    >>> print(message)
    name the column of the query: qid='NAME'
    >>> message.spelled(lambda setting: f"--{setting.parameter} {setting.value}")
    'name the column of the query: --qid NAME'
    """

    parts: tuple[str | Setting, ...]

    def __new__(cls, *parts: str | Setting) -> Self:
        message = super().__new__(cls, "".join(map(str, parts)))
        flat = [part.parts if isinstance(part, Message) else (part,) for part in parts]
        message.parts = tuple(piece for pieces in flat for piece in pieces)
        return message

    def spelled(self, spell: Callable[[Setting], str]) -> str:
        """The text with each parameter as ``spell`` writes it."""
        return "".join(spell(part) if isinstance(part, Setting) else part for part in self.parts)


class RankwrightError(Exception):
    """Base class of all errors of this package.

    Programs decide by the class and these attributes; the text is for people.

    Attributes
    ----------
    message : str
        What was found and what is needed.
    kind : str
        A word that tells errors of one class apart, or ``""``.
    file, line, column : the place in a file, as far as it is known, else None
    parameter : str or None
        The parameter whose value was refused.
    fix : str
        What to do, or ``""``.

    >>> error = DataError("no column is called grade.", file="a.csv", fix="Give y='NAME'.")
    >>> print(error)
    a.csv: no column is called grade. Give y='NAME'.
    """

    def __init__(
        self,
        *message: str | Setting,
        kind: str = "",
        file: str | os.PathLike[str] | None = None,
        line: int | None = None,
        column: int | None = None,
        parameter: str | None = None,
        fix: str = "",
    ) -> None:
        self.message = Message(*message)
        super().__init__(self.message)
        first = self.message.parts[0] if self.message.parts else ""
        self.parameter = first.parameter if isinstance(first, Setting) else parameter
        self.kind, self.line, self.column, self.fix = kind, line, column, fix
        self.file = None if file is None else os.fspath(file)

    def __reduce__(self) -> tuple[Any, ...]:
        """Class, arguments and fields, as by default.

        tblib, which Dask installs, copies a class without its own ``__reduce__`` by ``__new__``
        alone, and a MemoryLimitError cannot be made that way.
        """
        return tuple(super().__reduce__())

    def replaced(self, **fields: Any) -> Self:
        """The same error with other fields."""
        error = copy.copy(self)
        vars(error).update(fields)
        return error

    def in_file(self, file: str | os.PathLike[str]) -> Self:
        """The same error, in this file unless it names another one."""
        return self if self.file is not None else self.replaced(file=os.fspath(file))

    def text(self) -> Message:
        """The whole text: place, message and fix."""
        where = "" if self.file is None else f"{self.file}: "
        return Message(where, self.message, " " if self.fix else "", self.fix)

    def __str__(self) -> str:
        return str(self.text())


class ParameterError(RankwrightError, ValueError):
    """An argument has an invalid value."""


class UnknownParameterError(ParameterError, TypeError):
    """A class or a method has no parameter of this name."""


class DataError(RankwrightError, ValueError):
    """Arrays or files with invalid content."""


class FileFormatError(DataError):
    """A line of a file that cannot be parsed.

    Prints ``file:line:column: reason``, then the line with a mark under the column, then the fix.

    >>> text = "2 qid:1 1:x"
    >>> print(FileFormatError("a.txt", 3, 9, 'value "x" is not a number', text, "remove it"))
    a.txt:3:9: value "x" is not a number
      2 qid:1 1:x
              ^
      fix: remove it
    """

    file: str
    line: int
    column: int

    def __init__(
        self,
        file: str,
        line: int,
        column: int,
        message: str,
        source: str = "",
        fix: str = "",
        *,
        kind: str = "",
    ) -> None:
        super().__init__(message, kind=kind, file=file, line=line, column=column, fix=fix)
        self.source = source
        self.args = (file, line, column, message, source, fix)

    def text(self) -> Message:
        parts: list[str] = [f"{self.file}:{self.line}:{self.column}: ", self.message]
        if self.source:
            parts += [f"\n{line}" for line in _excerpt(self.source, self.column)]
        return Message(*parts, *(["\n  fix: ", self.fix] if self.fix else []))


def _excerpt(text: str, column: int) -> list[str]:
    """The part of a line around a column (1-based), and a mark under that column."""
    start = max(0, column - 39) if len(text) > 76 else 0
    shown = "".join(c if c.isprintable() else "?" for c in text[start : start + 76])
    return [f"  {shown}", " " * (2 + column - 1 - start) + "^"]


class CellError(DataError):
    """A cell of a table that is not of the kind that its column has.

    Attributes
    ----------
    name : str
        The column.
    row : int
        The row, from 0.
    value : the content of the cell
    needed : str
        What the column needs.
    n_words : int
        How many cells of the column are like it, as far as they were counted.

    >>> print(CellError("price", 3, "cheap", "a finite number"))
    price is 'cheap' in row 3; the column needs a finite number.
    """

    def __init__(
        self, name: str, row: int, value: object, needed: str, *, n_words: int = 1
    ) -> None:
        shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:40] + "..."
        super().__init__(
            f"{name} is {shown} in row {row}; the column needs {needed}.", kind="wrong cell"
        )
        self.name, self.row, self.value, self.needed = name, row, value, needed
        self.n_words, self.shown = n_words, shown
        self.args = (name, row, value, needed)


class FeedbackError(DataError):
    """Feedback about rows that do not exist, or of a type that the ranker does not support."""


class MemoryLimitError(RankwrightError, MemoryError):
    """A computation that needs more memory than is available; nothing was allocated."""


class MeasureError(RankwrightError, ValueError):
    """An unknown or malformed name of a measure."""


class DatasetError(RankwrightError, OSError):
    """A data set that is not on disk and cannot be downloaded."""


class ModelFileError(RankwrightError, ValueError):
    """A model file that is damaged, in another format, invalid or too new."""


class ClusterError(RankwrightError, RuntimeError):
    """A cluster that cannot be reached, lost its scheduler, or gave up on a task."""


class RankwrightWarning(UserWarning):
    """Base class of all warnings."""


class DegenerateDataWarning(RankwrightWarning):
    """Data without preferences to learn from or to evaluate; the message says why."""


class MissingQueryWarning(RankwrightWarning):
    """A ranker that was trained with queries is scored without them."""


class UnknownLevelWarning(RankwrightWarning):
    """Cells of text with levels that training did not have; they count as missing."""


class ClickBiasWarning(RankwrightWarning):
    """Clicks that teach the order in which items were shown, or its reverse."""


class StreamWarning(RankwrightWarning):
    """An order of rows, or scales of columns, that impair online learning."""


class ConvergenceWarning(RankwrightWarning):
    """A solver stopped at its iteration limit before it reached its tolerance."""


class LongListWarning(RankwrightWarning):
    """A query has so many rows that its pairs are sampled."""


class ClusterWarning(RankwrightWarning):
    """A cluster is used where one machine would be faster."""


def quoted(error: BaseException) -> str:
    """The first line of another library's error, to stand in the message of ours."""
    lines = f"{error}".splitlines()
    return (lines[0][:200] if lines else "").rstrip(".") or type(error).__name__


def install_advice(error: ModuleNotFoundError) -> str | None:
    """How to install the missing module: the smallest extra that brings it; None if none does."""
    import re
    from importlib import metadata

    package = (error.name or "").split(".")[0].replace("_", "-")
    extras: dict[str, list[str]] = {}
    for requirement in metadata.requires("rankwright") or []:
        if match := re.search("extra == ['\"](.+)['\"]", requirement):
            extras.setdefault(match[1], []).append(requirement.lower())
    sizes = [
        (len(needed), name)
        for name, needed in extras.items()
        if package and any(requirement.startswith(package) for requirement in needed)
    ]
    if not sizes:
        return None
    install = f"pip install 'rankwright[{min(sizes)[1]}]'"
    return f"this needs {error.name}, which is not installed. Run: {install}"
