"""Read what can be read of a file: bad lines and columns of words are listed, not raised."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import IntArray
from rankwright.data.io.fields import likely_separator, quoted_rows
from rankwright.data.io.files import Text, is_parquet, open_text
from rankwright.data.io.items import detect_format, read_items, word_columns, words_advice
from rankwright.data.io.letor.reader import read_letor
from rankwright.data.io.ratings import read_ratings
from rankwright.data.io.tables import Words
from rankwright.data.io.trec import read_qrels, read_run
from rankwright.data.items import Items
from rankwright.exceptions import DataError, FileFormatError

MAX_BAD_LINES, MAX_SAME_FIX = 20, 5


class BadPlace(NamedTuple):
    """A line or column that cannot be read: where, why and what to do."""

    line: int | None
    reason: str
    fix: str = ""


class Readable(NamedTuple):
    """What can be read of a file (None: nothing), the line of each row, and the bad places."""

    data: Any
    lines: IntArray | None
    bad: list[BadPlace]


def read_what_is_readable(path: str, kind: str, **options: Any) -> Readable:
    """Read a file of this kind (items, ratings, run, qrels) with the options of its reader."""
    if kind == "items":
        kind = options.pop("format", None) or detect_format(path) or "letor"
    if not is_parquet(path):
        try:
            _content(path)
        except FileFormatError as error:  # not text, or damaged gzip
            return Readable(None, None, [BadPlace(error.line, error.reason, error.fix)])
    words: list[Words] = []
    read = _reader(kind, options, words)
    with TemporaryDirectory() as folder:
        data, local, bad_lines = _read_around(path, kind, read, os.path.join(folder, "copy"))
        bad = [*bad_lines, *(_word_column(column, local, kind) for column in words)]
        lines = None if data is None else _lines_of_rows(local, kind, data)
    return Readable(data, lines, sorted(bad, key=lambda place: place.line or 10**12))


def _reader(kind: str, options: dict[str, Any], words: list[Words]) -> Callable[[str], Any]:
    if kind in ("run", "qrels"):
        return read_run if kind == "run" else read_qrels
    if kind == "ratings":
        return partial(read_ratings, duplicates="keep", **options)
    if kind == "letor":
        return partial(read_letor, on_bad_line="skip", max_bad=10**9)
    return partial(_read_numbers, kind=kind, options=options, words=words)


def _read_numbers(path: str, kind: str, options: dict[str, Any], words: list[Words]) -> Any:
    """Items without the columns of words, which are added to ``words``; None without grades."""
    drop = [*options.get("drop", ()), *(column.column for column in words)]
    try:
        return read_items(path, **{**options, "format": kind, "drop": drop})
    except DataError:
        try:
            new = word_columns(path, kind, **{**options, "drop": drop})
        except DataError:  # a line cannot be cut into cells: the reader has said so
            new = []
        if not new:
            raise
    words += new
    if any(column.is_grade for column in words):
        return None
    return _read_numbers(path, kind, options, words)


def _read_around(
    path: str, kind: str, read: Callable[[str], Any], copy: str
) -> tuple[Any, str, list[BadPlace]]:
    """The data, the file that they were read from in the end, and the bad lines."""
    bad: dict[int | None, BadPlace] = {}
    data, local, more = None, path, ""
    while not _enough(bad.values()):
        try:
            data = read(local)
            break
        except FileFormatError as error:
            if error.line in bad:  # nothing is left of the file
                break
            bad[error.line] = BadPlace(error.line, error.reason, error.fix)
            is_header = kind in ("csv", "tsv", "ratings") and error.line == 1
            if error.line is None or is_header or kind == "parquet":
                break
            _blank_record(local, kind, error.line, copy)
            local = copy
        except DataError as error:
            bad[None] = BadPlace(None, str(error).replace(local, path))
            break
    else:
        more = "there may be more bad lines than these"
    skipped = getattr(data, "bad_lines", ())
    for line in skipped[:MAX_BAD_LINES]:
        bad[line.line] = BadPlace(line.line, line.reason, "correct the line or remove it")
    if len(skipped) > MAX_BAD_LINES:
        more = f"{len(skipped) - MAX_BAD_LINES} more lines are bad"
    return data, local, [*bad.values(), *([BadPlace(None, more)] if more else [])]


def _enough(bad: Iterable[BadPlace]) -> bool:
    fixes = Counter(bad_place.fix for bad_place in bad)
    return fixes.total() >= MAX_BAD_LINES or max(fixes.values(), default=0) >= MAX_SAME_FIX


def _word_column(words: Words, path: str, kind: str) -> BadPlace:
    line = words.line
    if line is None:
        line = words.row + 1 if kind == "parquet" else _record_lines(path, kind)[0][words.row]
    reason = (
        f"column {words.column} holds words: {words.n_words:,} of {words.n_known:,} cells are not "
        f'numbers, first "{words.word}"'
    )
    fix = words_advice(words.column)
    if words.is_grade:
        fix = "write the grades as numbers, higher is better, or give another column: y='NAME'"
    return BadPlace(line, reason, fix)


def _blank_record(path: str, kind: str, number: int, copy: str) -> None:
    """Write a copy in which a record is blank, so that the other lines keep their numbers."""
    starts, end = _record_lines(path, kind)
    stop = next((start for start in starts if start > number), end)
    if number not in starts:  # broken quotes: the end of the record is unknown
        stop = number + 1
    lines = _content(path).split(b"\n")
    lines = [b"" if number <= k < stop else line for k, line in enumerate(lines, 1)]
    with open(copy, "wb") as file:
        file.write(b"\n".join(lines))


def _lines_of_rows(path: str, kind: str, data: Any) -> IntArray | None:
    """The line (or row, from 1) of each item or rating; None if a line holds several ratings."""
    rows = np.arange(1, len(data) + 1)
    if kind in ("run", "qrels") or is_parquet(path):
        return rows
    starts = _record_lines(path, kind)[0]
    if kind == "ratings":
        n_more = len(starts) - len(data)  # perhaps a header
        return np.array(starts[n_more:]) if n_more in (0, 1) else None
    skipped = {bad.line for bad in data.bad_lines} if isinstance(data, Items) else set()
    numbers = [number for number in starts if number not in skipped]
    if kind in ("csv", "tsv"):
        numbers, rows = numbers[1:], rows + 1  # the header
    return np.array(numbers) if len(numbers) == len(data) else rows


def _record_lines(path: str, kind: str) -> tuple[list[int], int]:
    """The lines on which records (not comments) begin, and the line after the last one."""
    content = _content(path)
    if kind in ("csv", "tsv", "ratings") and b'"' in content:
        text, starts = Text(path, content), list[int]()
        separator = "\t" if kind == "tsv" else likely_separator(text) or ","
        try:
            starts.extend(line for _, line in quoted_rows(text, separator))
        except FileFormatError as error:
            return starts, error.line
        return starts, content.count(b"\n") + 2
    comment = b"#" if kind == "letor" else b"\n"
    lines = content.split(b"\n")
    starts = [k for k, line in enumerate(lines, 1) if line.strip() and line.lstrip()[:1] != comment]
    return starts, len(lines) + 1


def _content(path: str) -> bytes:
    with open_text(path) as file:
        return file.read()
