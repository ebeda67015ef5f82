"""What is to be judged: documents of queries, from CSV, JSONL or a TREC run plus document texts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.io.collection import read_rows
from rankwright.data.io.files import read_text
from rankwright.data.io.items import COLUMN_NAMES, detect_format
from rankwright.data.io.tables import read_jsonl_rows
from rankwright.data.io.trec import read_run
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError, ParameterError
from rankwright.features.base import Feature
from rankwright.features.feature_set import FeatureSet
from rankwright.features.fitted import FittedFeatures
from rankwright.features.text_features import BM25, FieldLength, TermCoverage
from rankwright.features.value_features import Column

Path = str | os.PathLike[str]
Row = dict[str, Any]

GRADE_NAMES = {
    2: ("Not relevant", "Relevant"),
    3: ("Not relevant", "Possibly relevant", "Definitely relevant"),
    4: ("Not relevant", "Slightly relevant", "Fairly relevant", "Highly relevant"),
    5: (
        "Not relevant", "Slightly relevant", "Fairly relevant", "Highly relevant",
        "Perfectly relevant",
    ),
}  # fmt: skip

# Usual names of columns; case, blanks, _ and - are ignored.
_COLUMNS = {
    "query": (*COLUMN_NAMES["qid"], "topic"),
    "id": tuple(name for name in COLUMN_NAMES["docid"] if name != "url"),
    "query_text": ("querytext", "querytitle", "topictext", "question"),
    "title": ("title", "name", "heading"),
    "text": ("snippet", "text", "body", "abstract", "description", "summary", "content"),
    "url": ("url", "link", "href"),
    "image": ("image", "imageurl", "img", "thumbnail", "picture"),
}


class Document(NamedTuple):
    """A document of a query, as a judge sees it."""

    query: str
    id: str
    title: str = ""
    text: str = ""
    url: str = ""
    image: str = ""


@dataclass(frozen=True, eq=False)
class Queue:
    """Documents to judge, and the features that a model learns from.

    Attributes
    ----------
    documents : tuple of Document, no two with the same query and id
    query_texts : dict of query id to what the user searched for
    X : (n_documents, n_features) array, NaN where a value is missing
    feature_names : tuple of str
    guidelines : str, Markdown
    grade_names : tuple of str, for the grades 0, 1, ...
    name : str
    encoding : FittedFeatures or None
        What computed the features, if they were made of the texts.
    """

    documents: tuple[Document, ...]
    query_texts: Mapping[str, str]
    X: FloatArray
    feature_names: tuple[str, ...]
    guidelines: str = ""
    grade_names: tuple[str, ...] = GRADE_NAMES[5]
    name: str = "queue"
    encoding: FittedFeatures | None = None

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        *,
        query_texts: Mapping[str, str] | None = None,
        guidelines: str = "",
        n_grades: int = 5,
        name: str = "queue",
    ) -> Queue:
        """A queue of rows with the keys query, id, title, text, url, image, query_text.

        The other keys with numbers are features. Without any but a score or a rank, features of the
        texts are added, such as BM25 and the share of the query's words in the title.

        >>> rows = [{"query": "q1", "id": "d1", "title": "Salt", "score": 3.5}]
        >>> queue = Queue.from_rows(rows, query_texts={"q1": "salt and sweat"})
        >>> queue.documents[0].title, "score" in queue.feature_names, queue.X.shape[1] > 1
        ('Salt', True, True)
        """
        if n_grades not in GRADE_NAMES:
            raise ParameterError(f"grades: {n_grades} is not one of 2, 3, 4, 5.")
        table = [_with_usual_names(row) for row in rows]
        documents = _documents(table, name)
        named = zip(documents, table, strict=True)
        texts = {doc.query: _text_of(row.get("query_text")) or doc.query for doc, row in named}
        texts |= query_texts or {}
        X, names = _features(table)
        encoding = None
        if set(names) <= {"score", "rank"}:
            given = {column: X[:, k] for k, column in enumerate(names)}
            X, encoding = _text_features(documents, texts, given)
            names = encoding.feature_names
        texts = {doc.query: texts[doc.query] for doc in documents}
        grades = GRADE_NAMES[n_grades]
        return cls(documents, texts, X, names, guidelines, grades, name, encoding)

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def n_grades(self) -> int:
        return len(self.grade_names)

    @cached_property
    def queries(self) -> Queries:
        """The query of each document, as codes."""
        return Queries.from_ids([document.query for document in self.documents])

    @cached_property
    def rows(self) -> dict[tuple[str, str], int]:
        """The row of each (query, document id)."""
        return {(doc.query, doc.id): row for row, doc in enumerate(self.documents)}


def read_queue(
    path: Path,
    *,
    documents: Path | None = None,
    queries: Path | None = None,
    guidelines: Path | None = None,
    n_grades: int = 5,
) -> Queue:
    """Read what is to be judged.

    Parameters
    ----------
    path : CSV, TSV or JSONL with a query and a document id a row, or a TREC run
    documents : CSV, TSV or JSONL with an id and any of title, text, url, image
    queries : lines of a query id, a tab and the text of the query
    guidelines : Markdown that tells judges what the grades mean
    n_grades : 2 to 5
    """
    rows = _read_run_rows(path) if detect_format(path) == "run" else _read_rows(path)
    if documents is not None:
        texts = {
            _text_of(row.get("id")): row for row in map(_with_usual_names, _read_rows(documents))
        }
        rows = [_joined(_with_usual_names(row), texts) for row in rows]
    return Queue.from_rows(
        rows,
        query_texts=None if queries is None else _read_query_texts(queries),
        guidelines="" if guidelines is None else read_text(guidelines).decode(),
        n_grades=n_grades,
        name=os.path.basename(os.fspath(path)),
    )


def _read_run_rows(path: Path) -> list[Row]:
    run = read_run(path)
    queries, docs = run.queries[run.query].tolist(), run.docs[run.doc].tolist()
    columns = zip(queries, docs, run.score, run.rank, strict=True)
    return [
        {"query": str(q), "id": str(d), "score": float(score), "rank": int(rank)}
        for q, d, score, rank in columns
    ]


def _read_rows(path: Path) -> list[Row]:
    """The rows of a CSV, TSV or JSONL file; features in JSONL are fields."""
    return read_jsonl_rows(path) if detect_format(path) == "jsonl" else read_rows(path)


def _read_query_texts(path: Path) -> dict[str, str]:
    text, texts = read_text(path), {}
    for number, line in enumerate(text.decode().splitlines(), 1):
        if line.strip():
            query, tab, query_text = line.partition("\t")
            if not tab:
                text.refuse(number, 1, "no tab", "write: query id, a tab, the text of the query")
            texts[query.strip()] = query_text.strip()
    return texts


def _with_usual_names(row: Mapping[str, Any]) -> Row:
    """The row with ``_COLUMNS``' names for its columns; the other names are kept.

    Where a row has a query id and a column named query, the latter is the text of the query.
    """
    plain = {name: "".join(c for c in name.lower() if c not in " _-") for name in row}
    renamed, used = {}, set()
    for ours, usual in _COLUMNS.items():
        named = sorted((n for n in row if plain[n] in usual), key=lambda n: usual.index(plain[n]))
        if named:
            renamed[ours] = row[named[0]]
            used.add(named[0])
        if ours == "query" and len(named) > 1 and plain[named[1]] == "query":
            renamed["query_text"] = row[named[1]]
            used.add(named[1])
    return renamed | {name: value for name, value in row.items() if name not in used}


def _joined(row: Row, texts: Mapping[str, Row]) -> Row:
    """The row with the texts of its document, which must be known."""
    id = _text_of(row.get("id"))
    if id not in texts:
        raise DataError(f"documents: {id!r} is to be judged but is not in the file of documents.")
    shown = {
        name: texts[id][name] for name in ("title", "text", "url", "image") if name in texts[id]
    }
    return row | shown


def _documents(table: Sequence[Row], name: str) -> tuple[Document, ...]:
    if not table:
        raise DataError(f"{name}: there is nothing to judge. Give at least one row.")
    for column in ("query", "id"):
        if column not in table[0]:
            known = ", ".join(_COLUMNS[column])
            raise DataError(
                f"{name}: no column is named {known}. Name the column of each {column}."
            )
    documents = tuple(
        Document(*(_text_of(row.get(field)) for field in Document._fields)) for row in table
    )
    seen: set[tuple[str, str]] = set()
    for number, doc in enumerate(documents, 1):
        if not doc.query or not doc.id or (doc.query, doc.id) in seen:
            problem = "twice" if doc.query and doc.id else "without a query or an id"
            where = f"{name}: row {number} (query {doc.query!r}, document {doc.id!r})"
            raise DataError(f"{where} is there {problem}. Give each document of a query once.")
        seen.add((doc.query, doc.id))
    return documents


def _features(table: Sequence[Row]) -> tuple[FloatArray, tuple[str, ...]]:
    """Columns of numbers that are neither texts nor grades."""
    known = {*_COLUMNS, "query_text"}
    names = [
        name
        for name in dict.fromkeys(name for row in table for name in row)
        if name not in known and name.lower() not in COLUMN_NAMES["y"]
        and all(_is_number(row.get(name)) for row in table)
    ]  # fmt: skip
    values = [[_number(row.get(name)) for name in names] for row in table]
    return np.array(values, dtype=np.float64).reshape(len(table), len(names)), tuple(names)


def _number(cell: Any) -> float:
    return float("nan") if cell is None or cell == "" else float(cell)


def _is_number(cell: object) -> bool:
    try:
        return not np.isinf(_number(cell))
    except (TypeError, ValueError):
        return False


def _text_of(cell: object) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()


def _text_features(
    documents: Sequence[Document], query_texts: Mapping[str, str], given: Mapping[str, FloatArray]
) -> tuple[FloatArray, FittedFeatures]:
    """Features of titles and texts, after columns that are given; statistics are of the queue."""
    table: dict[str, Any] = {
        "query.text": [query_texts[document.query] for document in documents],
        "id": [document.id for document in documents],
        "title": [document.title for document in documents],
        "text": [document.text for document in documents],
        **given,
    }
    features: list[Feature] = [Column(name, type="number") for name in given]
    for field in ("title", "text"):
        features += [
            BM25(field, name=f"{field} BM25"),
            TermCoverage(field, name=f"{field} share of query words"),
            FieldLength(field, name=f"{field} length"),
        ]
    fitted = FeatureSet(features).fit(table).encoding_
    return fitted.encode(table), fitted
