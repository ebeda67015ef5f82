"""Several judges' opinions of the same query-document pairs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.io.files import Text, read_text
from rankwright.data.queries import Queries
from rankwright.data.runs import Qrels
from rankwright.data.vocabulary import encode, first_repeat, read_only
from rankwright.exceptions import DataError, ParameterError

_PAIR = re.compile(r"(\d+) +([0-2]+)", re.ASCII)
_FIX = "restore the line from the source"


@dataclass(frozen=True, eq=False, repr=False)
class Judgments:
    """Query-document pairs with a score by each of several judges.

    Attributes
    ----------
    queries, docs : arrays
        Ids of queries and documents, as given.
    query, doc : (n_pairs,) int64
        The query and the document of each pair: places in ``queries`` and ``docs``.
    scores : (n_pairs, n_judges) int64
        What each judge said, higher is better.
    texts : tuple of str or None
        The words of each query.

    Examples
    --------
    >>> judged = Judgments([1], [7, 9], [0, 0], [0, 1], [[0, 1, 2], [2, 2, 1]])
    >>> judged
    Judgments(2 pairs, 3 judges, 1 queries)
    >>> X, y = judged.against(2)  # predict the last judge from the others
    >>> X.tolist(), y.tolist()
    ([[0.0, 1.0], [2.0, 2.0]], [2, 1])
    >>> judged.to_qrels().grade
    array([3, 5])
    """

    queries: NDArray[Any]
    docs: NDArray[Any]
    query: IntArray
    doc: IntArray
    scores: IntArray
    texts: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("queries", "docs", "query", "doc", "scores"):
            object.__setattr__(self, name, read_only(np.asarray(getattr(self, name))))
        if self.scores.ndim != 2 or not len(self.query) == len(self.doc) == len(self.scores):
            raise DataError(
                f"{len(self.query)} queries, {len(self.doc)} documents and scores of the shape "
                f"{self.scores.shape}: give one query, one document and one row per pair."
            )
        if first_repeat(self.query * np.int64(max(len(self.docs), 1)) + self.doc) is not None:
            raise DataError("a pair of query and document stands twice. Keep one of them.")

    def __len__(self) -> int:
        return len(self.query)

    @property
    def n_judges(self) -> int:
        return int(self.scores.shape[1])

    @cached_property
    def by_query(self) -> Queries:
        """Which pairs belong to which query."""
        return Queries(self.query, self.queries)

    @property
    def qid(self) -> NDArray[Any]:
        """The id of each pair's query."""
        return self.queries[self.query]

    def against(self, judge: int) -> tuple[NDArray[np.float64], IntArray]:
        """One judge as the target, the others as features: ``X`` and ``y``."""
        if not 0 <= judge < self.n_judges:
            raise ParameterError(f"judge={judge}: give one of 0 .. {self.n_judges - 1}.")
        return np.delete(self.scores, judge, axis=1).astype(np.float64), self.scores[:, judge]

    def to_qrels(self) -> Qrels:
        """The sum of the judges' scores as the grade of each pair."""
        grade = self.scores.sum(axis=1)
        return Qrels(self.queries, self.docs, self.query, self.doc, grade=grade)

    def __repr__(self) -> str:
        n_queries = len(self.queries)
        return f"Judgments({len(self):,} pairs, {self.n_judges} judges, {n_queries:,} queries)"


def read_judges(path: str | os.PathLike[str]) -> Judgments:
    """Read the query file of the cystic fibrosis collection (``cfquery``), gzipped or not.

    Each query is a record of four fields: ``QN`` its number, ``QU`` its words, ``NR`` the number
    of pairs and ``RD`` the pairs, each a document number and the scores 0, 1 or 2 of four judges
    written together. A record whose number of pairs is not ``NR`` is an error that names the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "cfquery"
    >>> lines = ["QN 00001", "QU Is CF mucus", "   abnormal?", "NR 00002", "RD 139 1222  151 0001"]
    >>> _ = path.write_text("\\n".join(lines))
    >>> judged = read_judges(path)
    >>> judged.texts, judged.docs.tolist(), judged.scores.tolist()
    (('Is CF mucus abnormal?',), [139, 151], [[1, 2, 2, 2], [0, 0, 0, 1]])
    """
    return _Reader(read_text(path, "latin-1")).read()


@dataclass
class _Record:
    """One query while its lines are being read."""

    line: int
    number: int
    words: list[str]
    n_pairs: int | None
    pairs: list[tuple[int, str, int]]  # document, scores, line


class _Reader:
    """Line by line: a tag starts a field, a line without a tag continues it."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.records: list[_Record] = []
        self.tag = ""

    def read(self) -> Judgments:
        for number, line in enumerate(self.text.decode().split("\n"), start=1):
            body = line.rstrip(" \t\x1a")
            if body:
                self._line(number, body)
        self._close()
        return self._judgments()

    def _line(self, number: int, line: str) -> None:
        tag, rest = (line[:2], line[2:]) if line[0] != " " else (self.tag, line)
        if tag not in ("QN", "QU", "NR", "RD"):
            self._refuse(number, 1, f'no field "{tag}" is known', "use QN, QU, NR and RD")
        self.tag = tag
        if tag == "QN" and line[0] != " ":
            self._close()
            self.records.append(_Record(number, self._whole(number, rest), [], None, []))
            return
        if not self.records:
            self._refuse(number, 1, f"{tag} before the first QN", "begin each query with QN")
        record = self.records[-1]
        if tag == "QU":
            record.words.append(rest.strip())
        elif tag == "NR":
            record.n_pairs = self._whole(number, rest)
        elif tag == "RD":
            record.pairs += self._pairs(number, line, len(line) - len(rest))
        else:
            self._refuse(number, 1, "text after the number of the query", _FIX)

    def _whole(self, number: int, rest: str) -> int:
        if not re.fullmatch(r" *\d+ *", rest, re.ASCII):
            self._refuse(number, 4, f'"{rest.strip()}" is not a whole number', _FIX)
        return int(rest)

    def _pairs(self, number: int, line: str, start: int) -> list[tuple[int, str, int]]:
        """``139 1222  151 2211`` and so on, from column ``start``."""
        found, at = [], start
        while at < len(line):
            while at < len(line) and line[at] == " ":
                at += 1
            if at == len(line):
                break
            match = _PAIR.match(line, at)
            if not match or (match.end() < len(line) and line[match.end()] != " "):
                self._refuse(number, at + 1, "no document number followed by scores 0, 1, 2", _FIX)
            found.append((int(match[1]), match[2], number))
            at = match.end()
        return found

    def _close(self) -> None:
        """Check the record that has just ended."""
        if not self.records:
            return
        record = self.records[-1]
        if record.n_pairs != len(record.pairs):
            says = "does not say (NR)" if record.n_pairs is None else f"says {record.n_pairs}"
            reason = (
                f"query {record.number} {says} how many pairs it has, and lists {len(record.pairs)}"
            )
            self._refuse(record.line, 1, reason, _FIX)

    def _judgments(self) -> Judgments:
        if not self.records:
            self._refuse(1, 1, "no query in the file", "give the file cfquery")
        rows = [(i, *pair) for i, record in enumerate(self.records) for pair in record.pairs]
        width = len(rows[0][2]) if rows else 0
        seen: set[tuple[int, int]] = set()
        for i, doc, scores, line in rows:
            if len(scores) != width:
                self._refuse(line, 1, f"document {doc} has {len(scores)} judges, not {width}", _FIX)
            if (i, doc) in seen:
                self._refuse(line, 1, f"document {doc} stands twice in its query", _FIX)
            seen.add((i, doc))
        doc_number, docs = encode(np.array([row[1] for row in rows], dtype=np.int64), "document")
        return Judgments(
            np.array([record.number for record in self.records]),
            docs,
            np.array([row[0] for row in rows], dtype=np.int64),
            doc_number,
            np.array([[int(c) for c in row[2]] for row in rows]).reshape(len(rows), width),
            tuple(" ".join(record.words) for record in self.records),
        )

    def _refuse(self, line: int, column: int, reason: str, fix: str) -> NoReturn:
        self.text.refuse(line, column, reason, fix)
