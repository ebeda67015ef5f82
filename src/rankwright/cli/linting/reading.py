"""Reading what can be read: bad lines and columns of words become findings."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from io import BufferedReader
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.cli.files.items import advice_on_words
from rankwright.cli.linting.findings import Finding
from rankwright.data.io.fields import likely_separator, quoted_rows
from rankwright.data.io.files import Text
from rankwright.data.io.tables import Words
from rankwright.data.items import Items
from rankwright.data.ratings import Ratings
from rankwright.exceptions import DataError, FileFormatError

Reader = Callable[[str], Any]
MOST_BAD_LINES, MOST_ALIKE = 20, 5


class Readable(NamedTuple):
    """What can be read (None: nothing), the file it came from, and what is wrong with the rest."""

    data: Any
    path: str
    findings: list[Finding]


def readable(
    path: str, kind: str, read: Reader, folder: str, words: Sequence[Words] = ()
) -> Readable:
    """Read what can be read; ``words`` are the columns that the reader finds unfit on its way.

    A bad line is blanked in a copy and the reading goes on, so that one look shows them all.
    """
    if _is_damaged(path):
        reason, fix = "the gzip file is damaged or cut off", "fetch it again"
        return Readable(None, path, [Finding("readable", "FAIL", reason, None, fix)])
    bad: dict[int | None, Finding] = {}
    found, local, more = None, path, ""
    while not _enough(bad.values()):
        try:
            found = read(local)
            break
        except FileFormatError as error:
            if error.line in bad:  # nothing is left of the file
                break
            bad[error.line] = Finding("readable", "FAIL", error.reason, error.line, error.fix)
            head = kind in ("csv", "tsv", "ratings") and error.line == 1
            if error.line is None or head or kind == "parquet":
                break
            local = _without_record(local, kind, error.line, folder)
        except DataError as error:
            bad[None] = Finding("readable", "FAIL", str(error).replace(local, path))
            break
    else:
        more = "there may be more bad lines than these"
    skipped = getattr(found, "bad_lines", [])
    for line in skipped[:MOST_BAD_LINES]:
        fix = "mend the line or leave it out"
        bad[line.line] = Finding("readable", "FAIL", line.reason, line.line, fix)
    if len(skipped) > MOST_BAD_LINES:
        more = f"{len(skipped) - MOST_BAD_LINES} more lines are bad"
    columns = [_column(each, local, kind) for each in words]
    findings = sorted([*columns, *bad.values()], key=lambda finding: finding.line or 0)
    if more:
        findings.append(Finding("readable", "FAIL", more))
    return Readable(found, local, findings or [Finding("readable", "PASS", str(found))])


def _enough(findings: Iterable[Finding]) -> bool:
    """Whether more of the same would help nobody."""
    fixes = Counter(finding.fix for finding in findings)
    return fixes.total() >= MOST_BAD_LINES or max(fixes.values(), default=0) >= MOST_ALIKE


def _column(words: Words, path: str, kind: str) -> Finding:
    line = words.line
    if line is None:
        line = words.row + 1 if kind == "parquet" else _beginnings(path, kind)[0][words.row]
    reason = (
        f"column {words.column} holds words: {words.n_words:,} of {words.n_known:,} cells are no "
        f'numbers, first "{words.word}"'
    )
    fix = advice_on_words(words.column)
    if words.is_grade:
        fix = "write the grades as numbers, higher is better; or name another column with --y"
    return Finding("readable", "FAIL", reason, line, fix)


def _without_record(path: str, kind: str, number: int, folder: str) -> str:
    """A copy in which a line is blank, so that the others keep their numbers.

    A quoted cell may hold line ends: then all lines of the record are blank.
    """
    starts, end = _beginnings(path, kind)
    stop = next((start for start in starts if start > number), end)
    if number not in starts:  # broken quotes: nobody knows where the record ends
        stop = number + 1
    lines = _bytes(path).split(b"\n")
    lines = [b"" if number <= place < stop else line for place, line in enumerate(lines, 1)]
    copy = os.path.join(folder, "copy")
    with open(copy, "wb") as file:
        file.write(b"\n".join(lines))
    return copy


def lines_of_items(path: str, kind: str, items: Items) -> NDArray[np.int64]:
    """The line on which each item begins, where that is certain; else its row, from 1."""
    rows = np.arange(1, items.n_items + 1)
    if kind == "parquet":
        return rows
    skipped = {bad.line for bad in items.bad_lines}
    numbers = [number for number in _beginnings(path, kind)[0] if number not in skipped]
    if kind in ("csv", "tsv"):
        numbers, rows = numbers[1:], rows + 1  # the header
    return np.array(numbers) if len(numbers) == items.n_items else rows


def lines_of_ratings(path: str, ratings: Ratings) -> NDArray[np.int64] | None:
    """The line of each rating, where a line is a rating (and the first perhaps a header)."""
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    if is_parquet:
        return np.arange(1, len(ratings) + 1)
    numbers, _ = _beginnings(path, "ratings")
    n_more = len(numbers) - len(ratings)
    return np.array(numbers[n_more:]) if n_more in (0, 1) else None


def _beginnings(path: str, kind: str) -> tuple[list[int], int]:
    """The lines that begin an item or a rating, and the line after the last that was looked at.

    Not lines inside a quoted cell, and not the comments of LETOR.
    """
    if kind in ("csv", "tsv", "ratings"):
        text = Text(path, _bytes(path))
        if b'"' in text.data:
            return _quoted_beginnings(text, kind)
    comment = b"#" if kind == "letor" else b"\n"
    starts, number = [], 0
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip() and line.lstrip()[:1] != comment:
                starts.append(number)
    return starts, number + 1


def _quoted_beginnings(text: Text, kind: str) -> tuple[list[int], int]:
    starts: list[int] = []
    try:
        separator = "\t" if kind == "tsv" else likely_separator(text) or ","
        starts += (line for _, line in quoted_rows(text, separator))
    except FileFormatError as error:
        return starts, error.line
    return starts, text.data.count(b"\n") + 2


def _is_damaged(path: str) -> bool:
    try:
        with _opened(path) as file:
            while isinstance(file, gzip.GzipFile) and file.read(1 << 20):
                pass
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return True
    return False


def _bytes(path: str) -> bytes:
    with _opened(path) as file:
        return file.read().removeprefix(b"\xef\xbb\xbf")


def _opened(path: str) -> gzip.GzipFile | BufferedReader:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")
