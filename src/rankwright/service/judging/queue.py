"""What is to be judged: documents of queries, from CSV, JSONL or a TREC run plus document texts."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
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
K1, B = 1.2, 0.75  # the usual constants of BM25

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
    """

    documents: tuple[Document, ...]
    query_texts: Mapping[str, str]
    X: FloatArray
    feature_names: tuple[str, ...]
    guidelines: str = ""
    grade_names: tuple[str, ...] = GRADE_NAMES[5]
    name: str = "queue"

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
        if set(names) <= {"score", "rank"}:
            added, added_names = text_features(documents, texts)
            X, names = np.hstack([X, added]), (*names, *added_names)
        texts = {doc.query: texts[doc.query] for doc in documents}
        return cls(documents, texts, X, names, guidelines, GRADE_NAMES[n_grades], name)

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


# Features of a query and a document's texts, for queues that bring none.


def words(text: str) -> list[str]:
    """The words of a text, in lower case.

    >>> words("Salt-loss (in sweat)")
    ['salt', 'loss', 'in', 'sweat']
    """
    return re.findall(r"\w+", text.lower())


def text_features(
    documents: Sequence[Any], query_texts: Mapping[str, str]
) -> tuple[FloatArray, tuple[str, ...]]:
    """BM25, the share of the query's words and length, for titles and texts, and their names."""
    columns, names = [], []
    for field in ("title", "text"):
        texts = [words(getattr(document, field)) for document in documents]
        queries = [words(query_texts[document.query]) for document in documents]
        columns += [
            bm25(texts, queries),
            [_share(query, text) for query, text in zip(queries, texts, strict=True)],
            [math.log1p(len(text)) for text in texts],
        ]
        names += [f"{field} BM25", f"{field} share of query words", f"{field} log length"]
    return np.array(columns, dtype=np.float64).T, tuple(names)


def bm25(texts: Sequence[list[str]], queries: Sequence[list[str]]) -> list[float]:
    """Okapi BM25 of each text for its query; word statistics are those of the distinct texts.

    >>> values = bm25([["salt", "sweat"], ["lung"], ["lung"]], [["salt"], ["salt"], ["lung"]])
    >>> values[0] > 0 == values[1] < values[2]
    True
    """
    distinct = {tuple(text) for text in texts}
    frequency = Counter(word for text in distinct for word in set(text))
    mean_length = max(sum(map(len, distinct)) / len(distinct), 1.0)
    return [
        sum(
            _idf(frequency[word], len(distinct))
            * _saturation(text.count(word), len(text) / mean_length)
            for word in sorted(set(query))  # the sum has the same bits in every process
        )
        for text, query in zip(texts, queries, strict=True)
    ]


def _idf(n_with: int, n_texts: int) -> float:
    return math.log1p((n_texts - n_with + 0.5) / (n_with + 0.5))


def _saturation(count: int, relative_length: float) -> float:
    return count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * relative_length))


def _share(query: list[str], text: list[str]) -> float:
    return len(set(query) & set(text)) / max(len(set(query)), 1)
