"""A collection of texts in files: documents, queries, and judgments that join them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.inputs import read_parquet
from rankwright.data.io.files import read_text
from rankwright.data.io.items import COLUMN_NAMES, detect_format
from rankwright.data.io.json_lines import json_rows
from rankwright.data.io.trec import read_qrels, read_run
from rankwright.exceptions import DataError

Path = str | os.PathLike[str]
Row = dict[str, Any]

DOCUMENT_IDS = ("id", *COLUMN_NAMES["docid"])
QUERY_IDS = ("id", *COLUMN_NAMES["qid"], "topic")


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV, TSV, JSONL or Parquet file; those of JSONL may have different fields.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "docs.csv"
    >>> _ = path.write_text("id,title\\n1,A\\n2,\\n")
    >>> read_rows(path)
    [{'id': '1', 'title': 'A'}, {'id': '2', 'title': ''}]
    """
    format = detect_format(path)
    if format == "parquet":
        columns = {name: column.tolist() for name, column in read_parquet(path).items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    text = read_text(path)
    if format == "jsonl" or text.first_line.lstrip()[:1] == b"{":
        return [content for _, content in json_rows(text)]
    separator = b"\t" if b"\t" in text.first_line else b","
    reader = csv.DictReader(io.StringIO(text.decode(), newline=""), delimiter=separator.decode())
    rows = []
    try:
        for row in reader:
            if None in row or None in row.values():
                reason = "another number of columns than line 1"
                text.refuse(reader.line_num, 1, reason, "quote cells that hold a separator")
            rows.append(row)
    except csv.Error as error:
        text.refuse(reader.line_num + 1, 1, f"not CSV ({error})", "shorten the text, or use JSONL")
    return rows


def read_documents(path: Path) -> dict[str, list[Any]]:
    """The fields of documents, with their ids as text in ``id``."""
    rows = read_rows(path)
    if not rows:
        raise DataError("there are no documents.", file=path, fix="Write one on each line.")
    key = _key(rows, DOCUMENT_IDS, path)
    names = dict.fromkeys(name for row in rows for name in row if name != key)
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        name = _id(row.get(key))
        if not name:
            raise DataError(f"document {number} has no {key}.", file=path)
        if name in seen:
            raise DataError(
                f"the documents {seen[name]} and {number} have the same {key} {name[:80]!r}.",
                file=path,
                fix="Keep one of them.",
            )
        seen[name] = number
    return {"id": list(seen), **{name: [row.get(name) for row in rows] for name in names}}


def read_queries(path: Path) -> dict[str, Row]:
    """The fields of queries by their ids; lines of a query id, a tab and the text give ``text``.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "queries.csv"
    >>> _ = path.write_text("q1\\tred shoes\\n")
    >>> read_queries(path)
    {'q1': {'text': 'red shoes'}}
    """
    text = read_text(path)
    queries: dict[str, Row] = {}
    first = text.first_line.decode(text.encoding, "replace").strip()
    cells = [cell.strip().lower() for cell in first.replace("\t", ",").split(",")]
    if first[:1] == "{" or (len(cells) > 1 and cells[0] in QUERY_IDS):
        rows = read_rows(path)
        key = _key(rows, QUERY_IDS, path)
        for row in rows:
            fields = {name: cell for name, cell in row.items() if name != key}
            if "text" not in fields and "query" in fields:
                fields["text"] = fields.pop("query")
            _add(queries, _id(row.get(key)), fields, path)
        return queries
    for number, line in enumerate(text.decode().splitlines(), 1):
        if line.strip():
            query, tab, query_text = line.partition("\t")
            if not tab:
                text.refuse(number, 1, "no tab", "write: query id, a tab, the text of the query")
            _add(queries, query.strip(), {"text": query_text.strip()}, path)
    return queries


def _add(queries: dict[str, Row], query: str, fields: Row, path: Path) -> None:
    if query in queries and queries[query] != fields:
        raise DataError(
            f"the query {query[:80]!r} is there twice, with different fields.", file=path
        )
    queries[query] = fields


@dataclass(frozen=True, eq=False)
class JudgedPairs:
    """Queries and documents by id, with grades if they were judged.

    Attributes
    ----------
    path : str
    query, document : list of str
    grade : (n_rows,) float64 or None
    """

    path: str
    query: list[str]
    document: list[str]
    grade: FloatArray | None

    def joined(
        self, documents: Mapping[str, Sequence[Any]], queries: Mapping[str, Row]
    ) -> dict[str, list[Any]]:
        """A table with the fields of document and query in each row.

        A query whose id is not listed is its own text, if no query is listed at all.
        """
        number = {name: k for k, name in enumerate(documents["id"])}
        for row, name in enumerate(self.document):
            if name not in number:
                raise DataError(
                    f"row {row + 1} has the document {name[:80]!r}, which is not among the "
                    f"{len(number):,} documents.",
                    file=self.path,
                    fix="Give the file that the judgments are about.",
                )
        rows = [number[name] for name in self.document]
        table = {name: [cells[k] for k in rows] for name, cells in documents.items()}
        if not queries:
            return {**table, "query.text": list(self.query)}
        for row, name in enumerate(self.query):
            if name not in queries:
                raise DataError(
                    f"row {row + 1} has the query {name[:80]!r}, which is not among the "
                    f"{len(queries):,} queries.",
                    file=self.path,
                    fix="Give the file with its text.",
                )
        fields = dict.fromkeys(field for query in queries.values() for field in query)
        for field in fields:
            table[f"query.{field}"] = [queries[name].get(field) for name in self.query]
        return table


def read_judgments(path: Path, *, graded: bool = True) -> JudgedPairs:
    """Read the columns ``query``, ``document`` and ``grade`` of a table, TREC qrels, or a run."""
    name, format = os.fspath(path), detect_format(path)
    if format == "qrels":
        qrels = read_qrels(path)
        queries, docs = qrels.queries[qrels.query].tolist(), qrels.docs[qrels.doc].tolist()
        return JudgedPairs(
            name, list(map(str, queries)), list(map(str, docs)), qrels.grade.astype(np.float64)
        )
    if format == "run":
        run = read_run(path)
        queries, docs = run.queries[run.query].tolist(), run.docs[run.doc].tolist()
        return JudgedPairs(name, list(map(str, queries)), list(map(str, docs)), None)
    rows = read_rows(path)
    if not rows:
        raise DataError("there are no judgments.", file=path)
    query, document = _key(rows, QUERY_IDS[1:], path), _key(rows, DOCUMENT_IDS[1:], path)
    grades = None
    if graded:
        column = _key(rows, (*COLUMN_NAMES["y"], "rating"), path)
        grades = np.array([_grade(path, k, row.get(column)) for k, row in enumerate(rows, 1)])
    return JudgedPairs(
        name,
        [_id(row.get(query)) for row in rows],
        [_id(row.get(document)) for row in rows],
        grades,
    )


def _grade(path: Path, number: int, cell: Any) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = np.nan
    if not np.isfinite(value):
        raise DataError(f"row {number} has the grade {cell!r}; give a number.", file=path)
    return value


def _key(rows: Sequence[Row], names: Sequence[str], path: Path) -> str:
    """The column with one of these names; case, blanks, _ and - are ignored."""
    if not rows:
        raise DataError("there are no rows.", file=path)
    plain = {"".join(c for c in name.lower() if c not in " _-"): name for name in rows[0]}
    found = next((plain[name] for name in names if name in plain), None)
    if found is None:
        raise DataError(
            f"no column is called {names[0]}. There are: {', '.join(rows[0])}.", file=path
        )
    return found


def _id(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return "" if cell is None or cell != cell else str(cell).strip()
