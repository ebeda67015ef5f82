"""Items from a file of any kind."""

from __future__ import annotations

import csv
import dataclasses
import gzip
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from rankwright.cli.files.formats import tell_format
from rankwright.cli.files.pipes import at_hand
from rankwright.data.items import Items
from rankwright.exceptions import DataError

__all__ = ["TableOptions", "read_items"]

READING = Group("How to read the data", sort_key=10)

# The names that columns of grades, queries and ids usually have.
USUAL = {
    "y": ("grade", "label", "y", "relevance", "rel", "rating", "target"),
    "qid": ("qid", "query", "query_id", "queryid", "session"),
    "docid": ("docid", "doc_id", "document", "document_id", "doc", "id", "item_id"),
}


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
        Column of the grade, by name or place from 0 (by default the usual names: grade, label, y,
        relevance, rel, rating, target).
    qid
        Column of the query (qid, query, query_id, queryid, session).
    docid
        Column of the id (docid, doc_id, document, document_id, doc, id, item_id).
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
    feature: Annotated[list[str], Parameter(negative="")] = dataclasses.field(default_factory=list)
    one_hot: Annotated[list[str], Parameter(negative="")] = dataclasses.field(default_factory=list)
    on_bad_line: Literal["error", "skip"] = "error"


def read_items(
    path: str, options: TableOptions, *, graded: bool = True, n_features: int | None = None
) -> Items:
    """Read items; ``graded=False`` does not ask for grades, which then may all be 0.

    ``n_features`` is what a model wants: LETOR files get so many columns, and a line with a larger
    feature number is refused.
    """
    with at_hand(path) as local:
        kind = tell_format(local, options.read_as)
        if kind == "letor":
            from rankwright.data.letor import read_letor

            return read_letor(local, n_features=n_features, on_bad_line=options.on_bad_line)
        if kind in ("csv", "tsv"):
            from rankwright.data.tables import read_table

            separator = "\t" if kind == "tsv" else None
            names = _first_line(local, separator)
            return read_table(local, separator=separator, **_roles(names, options, path, graded))
        if kind in ("jsonl", "parquet"):
            from rankwright.data.frames import read_parquet
            from rankwright.data.jsonl import read_jsonl
            from rankwright.data.tables import items_from_frame

            table = read_jsonl(local) if kind == "jsonl" else read_parquet(local)
            return items_from_frame(table, **_roles(list(table), options, path, graded))
    raise DataError(
        f"{path} is a {kind} file: items with features are needed (LETOR, CSV, TSV, JSONL, "
        "Parquet). Say --read-as if it is one of these."
    )


def _roles(names: list[str], options: TableOptions, path: str, graded: bool) -> dict[str, Any]:
    """Which columns play which part."""
    y = _given(options.y, names) if options.y is not None else _usual("y", names)
    if y is None and graded:
        raise DataError(
            f"{path}: no column is called {', '.join(USUAL['y'])}: say which one holds the grade "
            f"with --y. Columns: {', '.join(names[:12])}{' ...' if len(names) > 12 else ''}."
        )
    qid = _given(options.qid, names) if options.qid is not None else _usual("qid", names)
    docid = _given(options.docid, names) if options.docid is not None else _usual("docid", names)
    roles: dict[str, Any] = {"y": y, "qid": qid, "docid": docid}
    if options.feature:
        roles["features"] = [_given(name, names) for name in options.feature]
    if options.one_hot:
        roles["one_hot"] = [_given(name, names) for name in options.one_hot]
    return roles


def _given(column: str, names: list[str]) -> str | int:
    if column not in names and column.removeprefix("-").isdigit():
        return int(column)
    return column


def _usual(role: str, names: list[str]) -> str | None:
    lower = {name.strip().lower(): name.strip() for name in reversed(names)}
    return next((lower[name] for name in USUAL[role] if name in lower), None)


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
