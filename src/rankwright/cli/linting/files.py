"""A file under every rule for its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory

from rankwright.cli.files.items import TABLES, TableOptions, find_words, read_items
from rankwright.cli.files.ratings import RatingsOptions, read_ratings
from rankwright.cli.files.systems import read_like
from rankwright.cli.linting.findings import Finding
from rankwright.cli.linting.items import check_against, check_items
from rankwright.cli.linting.ratings import check_ratings
from rankwright.cli.linting.reading import Reader, lines_of_items, lines_of_ratings, readable
from rankwright.data.io.letor import read_letor
from rankwright.data.io.tables import Words
from rankwright.data.io.trec import read_qrels, read_run
from rankwright.data.items import Items
from rankwright.exceptions import DataError, ParameterError


def check_file(
    path: str, kind: str, table: TableOptions, ratings: RatingsOptions, against: str | None
) -> list[Finding]:
    """Every rule on a file of this kind; ``against`` is a second file of items."""
    if kind in ("run", "qrels", "ratings") and against is not None:
        raise ParameterError(f"--against {against}: it is for items, and {path} is a {kind} file.")
    with TemporaryDirectory() as folder:
        if kind in ("run", "qrels"):
            return readable(path, kind, read_run if kind == "run" else read_qrels, folder).findings
        if kind == "ratings":
            return _ratings(path, ratings, folder)
        return _items(path, kind, table, against, folder)


def _ratings(path: str, options: RatingsOptions, folder: str) -> list[Finding]:
    found = readable(path, "ratings", partial(read_ratings, options=options), folder)
    if found.data is None:
        return found.findings
    lines = lines_of_ratings(found.path, found.data)
    return [*found.findings, *check_ratings(found.data, lines)]


def _items(
    path: str, kind: str, table: TableOptions, against: str | None, folder: str
) -> list[Finding]:
    words: list[Words] = []
    if kind in TABLES:
        options = replace(table, read_as=kind)
        read: Reader = partial(_read_numbers, options=options, words=words)
    else:
        read = partial(read_letor, on_bad_line="skip", max_bad=10**9)
    found = readable(path, kind, read, folder, words)
    if found.data is None:
        return found.findings
    lines = lines_of_items(found.path, kind, found.data)
    findings = [*found.findings, *check_items(found.data, lines)]
    if against is not None:
        named = found.data.feature_names is not None
        other = read_like(found.data, against, table) if named else read_items(against, table)
        findings.append(check_against(found.data, other, against, lines))
    return findings


def _read_numbers(path: str, options: TableOptions, words: list[Words]) -> Items | None:
    """Items of a table without its columns of words, which are added to ``words`` when found.

    None where the grades are words: they cannot be left out.
    """
    names = [each.column for each in words]
    try:
        return read_items(path, options, leave_out=names)
    except DataError:
        new = _found(partial(find_words, path, options, names))
        if not new:
            raise
        words += new
    if any(each.is_grade for each in words):
        return None
    return _read_numbers(path, options, words)


def _found(look: Callable[[], list[Words]]) -> list[Words]:
    """Nothing where a line cannot even be cut into cells: the reader has said so already."""
    try:
        return look()
    except DataError:
        return []
