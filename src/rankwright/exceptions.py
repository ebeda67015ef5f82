"""Every error and warning that rankwright raises on purpose.

Each error says *where*, what was *found*, what is *needed* and what to *do*, and derives from the
builtin a caller would expect::

    RankwrightError
    ├── ParameterError (ValueError)     a constructor or function argument is out of its range
    ├── DataError (ValueError)          arrays or files that cannot be what they claim to be
    │   ├── FileFormatError             ... with the file, line and column
    │   └── FeedbackError               a feedback that names rows which do not exist
    ├── MeasureError (ValueError)       an unknown or malformed name of a measure
    ├── DatasetError (OSError)          a named data set that is neither here nor to be had
    └── ModelFileError (ValueError)     a model file that is damaged, foreign, unsafe or too new

    RankwrightWarning (UserWarning)
    ├── DegenerateDataWarning           there is nothing to learn here, and why
    ├── MissingQueryWarning             a ranker that learned with queries is scored without them
    └── ConvergenceWarning              a solver stopped at its limit
"""

from __future__ import annotations


class RankwrightError(Exception):
    """Base of all errors raised on purpose."""


class ParameterError(RankwrightError, ValueError):
    """An argument is out of its range."""


class DataError(RankwrightError, ValueError):
    """Data that cannot be what they claim to be."""


class FileFormatError(DataError):
    """A line of a file that cannot be read.

    Prints as ``file:line:column: reason``, the line with a mark under the column, and the fix.

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

    def __str__(self) -> str:
        parts = [f"{self.path}:{self.line}:{self.column}: {self.reason}"]
        if self.text:
            parts += _excerpt(self.text, self.column)
        if self.fix:
            parts.append(f"  fix: {self.fix}")
        return "\n".join(parts)


def _excerpt(text: str, column: int, width: int = 76) -> list[str]:
    """The part of a line around a column (1-based), and a mark under that column."""
    start = max(0, column - 1 - width // 2) if len(text) > width else 0
    shown = "".join(c if c.isprintable() else "?" for c in text[start : start + width])
    return [f"  {shown}", " " * (2 + column - 1 - start) + "^"]


class FeedbackError(DataError):
    """A feedback that refers to rows that do not exist, or cannot be used by this ranker."""


class MeasureError(RankwrightError, ValueError):
    """An unknown or malformed name of a measure."""


class DatasetError(RankwrightError, OSError):
    """A named data set that is neither here nor to be had."""


class ModelFileError(RankwrightError, ValueError):
    """A model file that is damaged, foreign, unsafe or too new."""


class RankwrightWarning(UserWarning):
    """Base of all warnings."""


class DegenerateDataWarning(RankwrightWarning):
    """There is nothing to learn (or to measure) in some of these data; the text says why."""


class MissingQueryWarning(RankwrightWarning):
    """A ranker that learned with queries is scored without them."""


class ConvergenceWarning(RankwrightWarning):
    """A solver stopped at its limit of steps before its target precision."""
