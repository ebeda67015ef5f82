"""Runs (documents an engine returned, with scores), qrels and judgments (grades by judges)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from reprlib import repr as short
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import IntArray
from rankwright.data import vocabulary
from rankwright.data.items import RankedItem
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import as_column, as_ids, encode, read_only
from rankwright.exceptions import DataError, ParameterError


@dataclass(frozen=True, eq=False, repr=False)
class _QueryDocs:
    """Rows of a query and a document each; every pair is unique."""

    queries: NDArray[Any]
    docs: NDArray[Any]
    query: IntArray
    doc: IntArray

    def __post_init__(self) -> None:
        for name in ("queries", "docs", "query", "doc"):
            object.__setattr__(self, name, read_only(np.asarray(getattr(self, name))))
        if self.query.shape != self.doc.shape:
            sizes = f"query has {len(self.query)} entries and doc {len(self.doc)}"
            raise DataError(f"{sizes}: give one of each per row.")
        repeat = vocabulary.first_repeat(self.query, self.doc)
        if repeat is not None:
            row, earlier = repeat
            raise DataError(
                f"query {self.queries[self.query[row]]}, document {self.docs[self.doc[row]]} "
                f"appears in row {earlier} and again in row {row}. Keep one of them."
            )

    def __len__(self) -> int:
        return len(self.query)

    @property
    def n_queries(self) -> int:
        return len(self.queries)

    @cached_property
    def by_query(self) -> Queries:
        """Which rows belong to which query (``sizes``, ``order``, ``ptr``)."""
        return Queries(self.query, self.queries)

    def take(self, rows: ArrayLike | slice) -> Self:
        """Some of the rows (a mask, row numbers or a slice), without the queries of no row."""
        index = vocabulary.row_numbers(rows, len(self))
        used, query = np.unique(self.query[index], return_inverse=True)
        parts = {name: getattr(self, name)[index] for name in ("doc", *self._values)}
        return replace(self, queries=self.queries[used], query=query.reshape(-1), **parts)

    _values: ClassVar[tuple[str, ...]] = ()

    def _to_dict(self, values: NDArray[Any]) -> dict[Any, dict[Any, Any]]:
        nested: dict[Any, dict[Any, Any]] = {query: {} for query in self.queries.tolist()}
        queries, docs = self.queries[self.query].tolist(), self.docs[self.doc].tolist()
        for query, doc, value in zip(queries, docs, values.tolist(), strict=True):
            nested[query][doc] = value
        return nested


@dataclass(frozen=True, eq=False, repr=False)
class Run(_QueryDocs):
    """The documents that one engine returned, with scores, for several queries.

    Attributes
    ----------
    queries, docs : (n_queries,), (n_docs,) arrays
        Ids as given, in order of first appearance.
    query, doc : (n_rows,) int64
        The query and the document of each row, as indices into ``queries`` and ``docs``.
    score : (n_rows,) float64
        Higher is better.
    name : str
        The name of the run.

    Examples
    --------
    >>> run = Run.from_dict({"q1": {"d1": 0.5, "d2": 0.9, "d3": 0.5}}, name="bm25")
    >>> run
    Run('bm25', 3 rows, 1 queries)
    >>> run.docs[run.doc[run.order]].tolist()  # best first, ties by document id, descending
    ['d2', 'd3', 'd1']
    >>> run.rank
    array([3, 1, 2])
    """

    score: NDArray[np.float64]
    name: str = "run"

    _values: ClassVar[tuple[str, ...]] = ("score",)

    def __post_init__(self) -> None:
        super().__post_init__()
        score = as_column(self.score, "score", len(self.query))
        object.__setattr__(self, "score", read_only(score))

    @classmethod
    def from_arrays(cls, qid: Any, docid: Any, score: Any, name: str = "run") -> Run:
        """One query id, document id and score per row, in any order."""
        return cls(*_encoded(qid, docid), score=score, name=name)

    @classmethod
    def from_dict(cls, nested: Mapping[Any, Mapping[Any, float]], name: str = "run") -> Run:
        """``{query: {document: score}}``, the form that ranx and pytrec_eval use."""
        return cls.from_arrays(*_flattened(nested), name=name)

    def to_dict(self) -> dict[Any, dict[Any, float]]:
        """``{query: {document: score}}``."""
        return self._to_dict(self.score)

    @cached_property
    def order(self) -> IntArray:
        """Rows by query, then as in trec_eval: by score, then document id as text, descending."""
        position = np.empty(len(self.docs), dtype=np.int64)
        names = [str(doc) for doc in self.docs.tolist()]
        position[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return read_only(np.lexsort((-position[self.doc], -self.score, self.query)))

    @cached_property
    def rank(self) -> IntArray:
        """The rank of each row in the list of its query, from 1."""
        start = np.repeat(self.by_query.ptr[:-1], self.by_query.sizes)
        rank = np.empty(len(self), dtype=np.int64)
        rank[self.order] = np.arange(1, len(self) + 1) - start
        return read_only(rank)

    def top(self, cutoff: int) -> Run:
        """The first ``cutoff`` documents of every query, best first."""
        if cutoff < 1:
            raise ParameterError(f"Run.top(cutoff={cutoff}): cutoff must be an integer >= 1.")
        return self.take(self.order[self.rank[self.order] <= cutoff])

    def ranking(self, cutoff: int | None = None) -> Iterator[RankedItem]:
        """The documents of each query, best first."""
        run = self if cutoff is None else self.top(cutoff)
        columns = (run.queries[run.query], run.docs[run.doc], run.rank, run.score)
        rows = zip(*(column[run.order].tolist() for column in columns), strict=True)
        return map(RankedItem._make, rows)

    def in_single_precision(self) -> Run:
        """Scores rounded to float32, as in trec_eval: this can create ties that change measures."""
        return replace(self, score=self.score.astype(np.float32).astype(np.float64))

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {len(self):,} rows, {self.n_queries:,} queries)"


@dataclass(frozen=True, eq=False, repr=False)
class Qrels(_QueryDocs):
    """Relevance judgments: a grade for some documents of some queries.

    Attributes
    ----------
    queries, docs, query, doc
        As in :class:`Run`.
    grade : (n_rows,) int64
        Higher is better. Grades below 0 mark junk in TREC and count as not relevant.

    Examples
    --------
    >>> qrels = Qrels.from_dict({"q1": {"d1": 2, "d2": 0}})
    >>> qrels.grade
    array([2, 0])
    """

    grade: IntArray

    _values: ClassVar[tuple[str, ...]] = ("grade",)

    def __post_init__(self) -> None:
        super().__post_init__()
        column = as_column(self.grade, "grade", len(self.query))
        grade = column.astype(np.int64)
        if (grade != column).any():
            row = int(np.argmax(grade != column))
            raise DataError(f"grade is {column[row]} in row {row}: qrels need whole numbers.")
        object.__setattr__(self, "grade", read_only(grade))

    @classmethod
    def from_arrays(cls, qid: Any, docid: Any, grade: Any) -> Qrels:
        """One query id, document id and grade per row, in any order."""
        return cls(*_encoded(qid, docid), grade=grade)

    @classmethod
    def from_dict(cls, nested: Mapping[Any, Mapping[Any, int]]) -> Qrels:
        """``{query: {document: grade}}``."""
        return cls.from_arrays(*_flattened(nested))

    def to_dict(self) -> dict[Any, dict[Any, int]]:
        """``{query: {document: grade}}``."""
        return self._to_dict(self.grade)

    def __repr__(self) -> str:
        return f"Qrels({len(self):,} rows, {self.n_queries:,} queries)"


@dataclass(frozen=True, eq=False, repr=False)
class Judgments(_QueryDocs):
    """Query-document pairs with the scores of several judges.

    Attributes
    ----------
    queries, docs, query, doc
        As in :class:`Run`, one row per pair.
    scores : (n_pairs, n_judges) int64
        The score of each judge, higher is better.
    texts : tuple of str or None
        The text of each query.

    Examples
    --------
    >>> judgments = Judgments([1], [7, 9], [0, 0], [0, 1], [[0, 1, 2], [2, 2, 1]])
    >>> judgments
    Judgments(2 pairs, 3 judges, 1 queries)
    >>> X, y = judgments.against(2)  # predict the last judge from the others
    >>> X.tolist(), y.tolist()
    ([[0.0, 1.0], [2.0, 2.0]], [2, 1])
    >>> judgments.to_qrels().grade
    array([3, 5])
    """

    scores: IntArray
    texts: tuple[str, ...] | None = None

    _values: ClassVar[tuple[str, ...]] = ("scores",)

    def __post_init__(self) -> None:
        super().__post_init__()
        scores = np.asarray(self.scores)
        if scores.ndim != 2 or len(scores) != len(self):
            raise DataError(
                f"scores has the shape {scores.shape} for {len(self)} pairs: give one row per pair "
                "and one column per judge."
            )
        object.__setattr__(self, "scores", read_only(scores))

    @property
    def n_judges(self) -> int:
        return int(self.scores.shape[1])

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
        sizes = f"{len(self):,} pairs, {self.n_judges} judges, {self.n_queries:,} queries"
        return f"Judgments({sizes})"


def _encoded(qid: Any, docid: Any) -> tuple[NDArray[Any], NDArray[Any], IntArray, IntArray]:
    query, queries = encode(as_ids(qid), "qid")
    doc, docs = encode(as_ids(docid, "docid"), "docid")
    if len(query) != len(doc):
        sizes = f"qid has {len(query)} entries and docid {len(doc)}"
        raise DataError(f"{sizes}: give one of each per row.")
    return queries, docs, query, doc


def _flattened(nested: Mapping[Any, Mapping[Any, Any]]) -> tuple[list[Any], list[Any], list[Any]]:
    inner = nested.values() if isinstance(nested, Mapping) else [nested]
    if not all(isinstance(listed, Mapping) for listed in inner):
        raise DataError(
            f"{short(nested)} is not {{query: {{document: number}}}}: give a mapping of mappings."
        )
    rows = [(q, d, value) for q, listed in nested.items() for d, value in listed.items()]
    qid, docid, values = zip(*rows, strict=True) if rows else ((), (), ())
    return list(qid), list(docid), list(values)
