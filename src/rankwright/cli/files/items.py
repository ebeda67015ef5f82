"""Items from a file of any kind."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from cyclopts import Group, Parameter

import rankwright as rw
from rankwright.cli.console import note
from rankwright.cli.files.formats import tell_format
from rankwright.cli.files.pipes import at_hand
from rankwright.exceptions import DataError, FileFormatError

__all__ = ["TableOptions", "describe", "first_gap", "read_items", "remark_on_queries"]

READING = Group("How to read the data", sort_key=10)

# The names that columns of grades, queries and ids usually have; case, blanks, _ and - are ignored.
USUAL = {
    "y": (
        "grade", "label", "y", "relevance", "rel", "rating", "target", "judgement", "judgment",
    ),
    "qid": ("qid", "query", "queryid", "session", "sessionid", "searchid"),
    "docid": (
        "docid", "doc", "document", "documentid", "id", "itemid", "item", "productid", "product",
        "url",
    ),
}  # fmt: skip


@Parameter(name="*", group=READING)
@dataclass(frozen=True)
class TableOptions:
    """How to read the data.

    Parameters
    ----------
    read_as
        letor, csv, tsv, jsonl, parquet, run or qrels; by default the ending and the first line
        tell.
    y
        Column of the grade, by name or place from 0 (by default a usual name: grade, label, y,
        relevance, rel, rating, target, judgement).
    qid
        Column of the query (qid, query, query id, session, search id).
    docid
        Column of the id (docid, doc, document, id, item, item id, product, url).
    feature
        A column to use as a feature; may be repeated. By default all the others.
    one_hot
        A column of words; each word becomes a feature of 0 and 1. May be repeated.
    on_bad_line
        What to do with a bad line of a LETOR file: stop (error), or leave it out and say how many
        (skip).
    """

    read_as: str | None = None
    y: str | None = None
    qid: str | None = None
    docid: str | None = None
    feature: list[str] = dataclasses.field(default_factory=list)
    one_hot: list[str] = dataclasses.field(default_factory=list)
    on_bad_line: Literal["error", "skip"] = "error"

    def columns(self) -> list[str]:
        """The options that name columns, as they are typed: the next command needs them too."""
        given = {"--y": self.y, "--qid": self.qid, "--docid": self.docid}
        return [word for name, column in given.items() if column for word in (name, column)]


def read_items(
    path: str,
    options: TableOptions,
    *,
    graded: bool = True,
    n_features: int | None = None,
    names: Sequence[str] | None = None,
) -> rw.Items:
    """Read items; ``graded=False`` does not ask for grades, which then may all be 0.

    ``n_features`` and ``names`` are what a model wants. LETOR files get so many columns, and a line
    with a larger feature number is refused; of a table the columns of these names are taken.
    """
    with at_hand(path) as local:
        kind = tell_format(local, options.read_as)
        if kind == "letor":
            return rw.read_letor(local, n_features=n_features, on_bad_line=options.on_bad_line)
        if kind in ("csv", "tsv"):
            separator = "\t" if kind == "tsv" else None
            roles = _roles(_first_line(local, separator), options, path, graded, names)
            with _in_words_of_the_shell():
                return rw.read_table(local, separator=separator, **roles)
        if kind in ("jsonl", "parquet"):
            from rankwright.data.frames import read_parquet
            from rankwright.data.jsonl import read_jsonl
            from rankwright.data.tables import items_from_frame

            table = read_jsonl(local) if kind == "jsonl" else read_parquet(local)
            return items_from_frame(table, **_roles(list(table), options, path, graded, names))
    raise DataError(
        f"{path} is a {kind} file: items with features are needed (LETOR, CSV, TSV, JSONL, "
        "Parquet). Say --read-as if it is one of these."
    )


def describe(items: rw.Items, path: str) -> None:
    """Say on standard error what was read; refuse to learn from a single grade."""
    note(f"{path}: {str(items).removeprefix('Items(').removesuffix(')')}")
    if items.bad_lines:
        first = items.bad_lines[0]
        note(f"{len(items.bad_lines)} bad lines left out, first line {first.line}: {first.reason}")
    remark_on_queries(items, path)
    if items.y.min() == items.y.max():
        raise DataError(
            f"{path}: every item has the grade {items.y[0]:g}, so there is no order to learn. "
            "Check that this is the column of the grades (--y)."
        )


def remark_on_queries(items: rw.Items, path: str) -> None:
    """Nobody should find out late that a table was taken for one long list."""
    if items.qid is None and items.feature_names is not None:
        note(
            f"{path}: no column is called {', '.join(USUAL['qid'])}, so all items are taken as one "
            "list. Name the column of the query with --qid."
        )


def first_gap(X: Any, names: Sequence[str] | None) -> str | None:
    """Where the first unknown value is, in words; None where every value is known."""
    import numpy as np

    if isinstance(X, np.ndarray):
        rows, columns = np.isnan(X).nonzero()
    else:
        entries = X.tocoo()
        gaps = np.isnan(entries.data)
        rows, columns = entries.row[gaps], entries.col[gaps]
    if len(rows) == 0:
        return None
    row, column = min(zip(rows.tolist(), columns.tolist(), strict=True))
    name = f"feature {column + 1}" if names is None else names[column]
    return f"item {row + 1} has no value for {name} ({len(rows):,} values are unknown)"


@contextmanager
def _in_words_of_the_shell() -> Iterator[None]:
    """Advice that names arguments of a Python function, said with options instead."""
    try:
        yield
    except FileFormatError as error:
        _, found, name = error.fix.partition("one_hot=")
        if not found:
            raise
        column = name.strip("[]'\"")
        fix = (
            f"leave the cell empty where a value is unknown; if {column} names the query or the "
            "item, say --qid or --docid; if its words are values, --one-hot; or choose the "
            "features with --feature"
        )
        parts = (error.path, error.line, error.column, error.reason, error.text)
        raise FileFormatError(*parts, fix) from None


def _roles(
    columns: list[str],
    options: TableOptions,
    path: str,
    graded: bool,
    names: Sequence[str] | None,
) -> dict[str, Any]:
    """Which columns play which part."""
    roles: dict[str, Any] = {
        role: _usual(role, columns) if asked is None else _given(asked, columns)
        for role, asked in (("y", options.y), ("qid", options.qid), ("docid", options.docid))
    }
    if roles["y"] is None and graded:
        if not columns:
            fix = "check that this is the right file, and that it was written to the end"
            raise FileFormatError(path, 1, 1, "the file is empty", fix=fix)
        raise DataError(
            f"{path}: no column is called {', '.join(USUAL['y'])}: say which one holds the grade "
            f"with --y. Columns: {', '.join(columns[:12])}{' ...' if len(columns) > 12 else ''}."
        )
    features: list[str | int] = [_given(name, columns) for name in options.feature]
    words: list[str | int] = [_given(name, columns) for name in options.one_hot]
    if names is not None and not features and not words:  # what a model has learned
        features = [name for name in names if name in columns]
        words = _columns_of_words(names, columns)
    if words:
        roles["one_hot"] = words
    if features or (words and not options.one_hot):
        roles["features"] = [*features, *(column for column in words if column not in features)]
    return roles


def _columns_of_words(names: Sequence[str], columns: list[str]) -> list[str | int]:
    """The columns whose words a model knows: it calls them ``column=word``."""
    parts = (name.partition("=")[0] for name in names if name not in columns)
    return list(dict.fromkeys(column for column in parts if column in columns))


def _given(column: str, names: list[str]) -> str | int:
    if column not in names and column.removeprefix("-").isdigit():
        return int(column)
    return column


def _usual(role: str, names: list[str]) -> str | None:
    known = {re.sub(r"[\s_-]", "", name.lower()): name.strip() for name in reversed(names)}
    return next((known[name] for name in USUAL[role] if name in known), None)


def _first_line(path: str, separator: str | None) -> list[str]:
    with open(path, "rb") as file:
        head = file.read(1 << 20)
    if head[:2] == b"\x1f\x8b":
        with gzip.open(path, "rb") as unzipped:
            try:
                head = unzipped.read(1 << 20)
            except (EOFError, OSError):
                return []  # the reader says what is wrong with it
    line = next((line for line in head.splitlines() if line.strip()), b"")
    text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    if separator is None:
        separator = next((mark for mark in ",;\t|" if mark in text), ",")
    return [name.strip() for name in next(csv.reader([text], delimiter=separator), [])]
