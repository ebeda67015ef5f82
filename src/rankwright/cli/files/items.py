"""Items from a file of any kind."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import re
import shlex
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Group, Parameter

import rankwright as rw
from rankwright.cli.console import note
from rankwright.cli.files.formats import tell_format
from rankwright.cli.files.pipes import at_hand
from rankwright.exceptions import DataError, FileFormatError, ParameterError

if TYPE_CHECKING:
    from rankwright.data.io.tables import Words


READING = Group("How to read the data", sort_key=10)
TABLES = ("csv", "tsv", "jsonl", "parquet")

# The names that columns of grades, queries and ids usually have; case, blanks, _ and - are ignored.
USUAL = {
    "y": (
        "grade", "label", "y", "relevance", "rel", "rating", "target", "judgment", "judgment",
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
        letor, csv, tsv, jsonl, parquet, run, qrels or ratings; by default the ending and the first
        line tell.
    y
        Column of the grade, by name or place from 0 (by default a usual name: grade, label, y,
        relevance, rel, rating, target, judgment).
    qid
        Column of the query (qid, query, query id, session, search id).
    docid
        Column of the id (docid, doc, document, id, item, item id, product, url).
    feature
        A column to use as a feature; may be repeated. By default all the others.
    drop
        A column to leave out of the features; may be repeated.
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
    drop: list[str] = dataclasses.field(default_factory=list)
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
    leave_out: Sequence[str] = (),
) -> rw.Items:
    """Read items; ``graded=False`` does not ask for grades, which then may all be 0.

    ``n_features`` and ``names`` are what a model wants. LETOR files get so many columns, and a line
    with a larger feature number is refused; of a table the columns of these names are taken.
    ``leave_out`` names columns that are no features, whatever the options say.
    """
    with at_hand(path) as local:
        kind = tell_format(local, options.read_as)
        if kind == "letor":
            return rw.read_letor(local, n_features=n_features, on_bad_line=options.on_bad_line)
        if kind in TABLES:
            from rankwright.data.io.tables import items_from_frame

            source, columns, how = _opened(local, kind)
            roles = _roles(columns, options, path, graded, names) | how
            roles["drop"] = [*roles["drop"], *leave_out]
            with _in_words_of_the_shell():
                if isinstance(source, str):
                    return rw.read_table(source, **roles)
                return items_from_frame(source, **roles)
    raise DataError(
        f"{path} is a {kind} file: items with features are needed (LETOR, CSV, TSV, JSONL, "
        "Parquet). Say --read-as if it is one of these."
    )


def find_words(path: str, options: TableOptions, leave_out: Sequence[str]) -> list[Words]:
    """The columns of a table that hold words where numbers are needed."""
    from rankwright.data.io import tables

    source, columns, how = _opened(path, tell_format(path, options.read_as))
    roles = _roles(columns, options, path, True, None) | how
    return tables.find_words(source, **{**roles, "drop": [*roles["drop"], *leave_out]})


def _opened(path: str, kind: str) -> tuple[Any, list[str], dict[str, Any]]:
    """A table (CSV: its path), the names of its columns, and how to cut its lines."""
    if kind in ("csv", "tsv"):
        how = {"separator": "\t" if kind == "tsv" else None}
        return path, first_line(path, how["separator"]), how
    from rankwright.data.frames import read_parquet
    from rankwright.data.io.tables import read_jsonl

    table = read_jsonl(path) if kind == "jsonl" else read_parquet(path)
    return table, list(table), {}


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


def advice_on_words(column: str) -> str:
    """What to do about a column of words."""
    name = shlex.quote(column)
    return (
        f"if {column} names the query or the item, say --qid {name} or --docid {name}; if its "
        f"words are values, --one-hot {name}; to leave it out, --drop {name}"
    )


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
        fix = f"leave the cell empty where a value is unknown; {advice_on_words(column)}"
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
    for column in options.drop:
        both = [name for name in ("feature", "one_hot") if column in getattr(options, name)]
        if both:
            other = both[0].replace("_", "-")
            raise ParameterError(f"--drop {column} and --{other} {column}: give one of them.")
    roles["drop"] = [_given(name, columns) for name in options.drop]
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


def first_line(path: str, separator: str | None) -> list[str]:
    """The fields of the first line, which are the names of columns if there are any."""
    from rankwright.data.io.fields import likely_separator
    from rankwright.data.io.files import Text, read_text

    with open(path, "rb") as file:
        head = file.read(1 << 20)
    if head[:2] == b"\x1f\x8b":
        with gzip.open(path, "rb") as unzipped:
            try:
                head = unzipped.read(1 << 20)
            except (EOFError, OSError, zlib.error):
                read_text(path)  # says what is wrong with it
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        read_text(path)
    line = next((line for line in head.splitlines() if line.strip()), b"")
    text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    separator = separator or likely_separator(Text(path, line)) or ","
    return [name.strip() for name in next(csv.reader([text], delimiter=separator), [])]
