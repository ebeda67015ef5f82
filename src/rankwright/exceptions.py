"""The errors and warnings of rankwright.

Each message says *where*, what was *found*, what is *needed* and what to *do*. Each class derives
from the builtin that a caller would expect.
"""

from __future__ import annotations


class RankwrightError(Exception):
    """Base class of all errors of this package."""


class ParameterError(RankwrightError, ValueError):
    """An argument has an invalid value."""


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

    def __init__(
        self, path: str, line: int, column: int, reason: str, text: str = "", fix: str = ""
    ) -> None:
        self.path, self.line, self.column = path, line, column
        self.reason, self.text, self.fix = reason, text, fix
        super().__init__(path, line, column, reason, text, fix)

    def with_fix(self, fix: str) -> FileFormatError:
        """The same error with other advice."""
        return FileFormatError(self.path, self.line, self.column, self.reason, self.text, fix)

    def __str__(self) -> str:
        parts = [f"{self.path}:{self.line}:{self.column}: {self.reason}"]
        if self.text:
            parts += _excerpt(self.text, self.column)
        if self.fix:
            parts.append(f"  fix: {self.fix}")
        return "\n".join(parts)


def _excerpt(text: str, column: int) -> list[str]:
    """The part of a line around a column (1-based), and a mark under that column."""
    start = max(0, column - 39) if len(text) > 76 else 0
    shown = "".join(c if c.isprintable() else "?" for c in text[start : start + 76])
    return [f"  {shown}", " " * (2 + column - 1 - start) + "^"]


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


class ClickBiasWarning(RankwrightWarning):
    """Clicks that teach the order in which items were shown, or its reverse."""


class StreamWarning(RankwrightWarning):
    """An order of rows, or scales of columns, that impair online learning."""


class ConvergenceWarning(RankwrightWarning):
    """A solver stopped at its iteration limit before it reached its tolerance."""


class ClusterWarning(RankwrightWarning):
    """A cluster is used where one machine would be faster."""


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
