"""Runs (documents an engine returned, with scores), qrels and judgments; joins of the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from reprlib import repr as short
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data import vocabulary
from rankwright.data.items import Items, RankedItem
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import as_column, as_ids, encode, entries, read_only
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
            sizes = f"query has {entries(len(self.query))} and doc {len(self.doc)}"
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
    def from_arrays(cls, qid: ArrayLike, docid: ArrayLike, score: Any, name: str = "run") -> Run:
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
            raise ParameterError(
                f"Run.top(cutoff={cutoff}): cutoff must be an integer >= 1.", parameter="cutoff"
            )
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
    def from_arrays(cls, qid: ArrayLike, docid: ArrayLike, grade: Any) -> Qrels:
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
            raise ParameterError(
                f"judge={judge}: give one of 0 .. {self.n_judges - 1}.", parameter="judge"
            )
        return np.delete(self.scores, judge, axis=1).astype(np.float64), self.scores[:, judge]

    def to_qrels(self) -> Qrels:
        """The sum of the judges' scores as the grade of each pair."""
        grade = self.scores.sum(axis=1)
        return Qrels(self.queries, self.docs, self.query, self.doc, grade=grade)

    def __repr__(self) -> str:
        sizes = f"{len(self):,} pairs, {self.n_judges} judges, {self.n_queries:,} queries"
        return f"Judgments({sizes})"


def _encoded(
    qid: ArrayLike, docid: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any], IntArray, IntArray]:
    query, queries = encode(as_ids(qid), "qid")
    doc, docs = encode(as_ids(docid, "docid"), "docid")
    if len(query) != len(doc):
        sizes = f"qid has {entries(len(query))} and docid {len(doc)}"
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


class Aligned(NamedTuple):
    """A run joined with its qrels: arguments of ``evaluate``, called the same."""

    scores: FloatArray
    y: FloatArray
    qid: NDArray[Any]
    docid: NDArray[Any]
    judged: NDArray[np.bool_]


Nested = Mapping[Any, Mapping[Any, Any]]


def align(run: Run | Nested, qrels: Qrels | Nested, *, queries: str = "qrels") -> Aligned:
    """Join a run with its qrels: one row for each retrieved or judged document.

    Within a query, the retrieved documents come first, in trec_eval's order; judged documents that
    the run did not return follow with the score ``-inf``. Documents that were not judged, or judged
    below 0, have grade 0, and ``judged`` is False. Ids are compared as text.

    Parameters
    ----------
    run : Run, or {query: {doc: score}}
    qrels : Qrels, or {query: {doc: grade}}
    queries : {"qrels", "both"}, default="qrels"
        All judged queries (a query missing from the run has no results), or only the queries in
        both, as in trec_eval without ``-c``.

    Examples
    --------
    >>> aligned = align({"q1": {"d1": 0.5, "d2": 0.9}}, {"q1": {"d1": 1, "d7": 2}})
    >>> aligned.docid.tolist(), aligned.scores.tolist(), aligned.y.tolist()
    (['d2', 'd1', 'd7'], [0.9, 0.5, -inf], [0.0, 1.0, 2.0])
    """
    if queries not in ("qrels", "both"):
        raise ParameterError(
            f'align(queries={queries!r}): use "qrels" or "both".', parameter="queries"
        )
    run = run if isinstance(run, Run) else Run.from_dict(run)
    qrels = qrels if isinstance(qrels, Qrels) else Qrels.from_dict(qrels)
    pairs = _Pairs(qrels, [run])
    rows = run.order[pairs.known(run)[run.order]]
    retrieved = pairs.keys(run)[rows]
    missed = ~np.isin(pairs.judged, retrieved)
    if queries == "both":
        missed &= np.isin(qrels.query, retrieved // pairs.n_docs)
    keys = np.concatenate([retrieved, pairs.judged[missed]])
    scores = np.concatenate([run.score[rows], np.full(int(missed.sum()), -np.inf)])
    order = np.argsort(keys // pairs.n_docs, kind="stable")
    keys = keys[order]
    y, judged = pairs.grades(keys)
    return Aligned(scores[order], y, pairs.qid(keys), pairs.docid(keys), judged)


def items_from_runs(runs: Iterable[Run], qrels: Qrels, *, features: str = "position") -> Items:
    """Turn the lists of several engines into items: a row per document, a column per engine.

    A document that an engine did not list has NaN in the column of that engine. Documents that no
    engine listed and queries without judgments are left out.

    Parameters
    ----------
    runs : iterable of Run
        Each with a different name.
    qrels : Qrels
        The grades; documents that were not judged, or judged below 0, have grade 0.
    features : {"position", "score"}, default="position"
        The negative rank in the engine's list (so that higher is better), or the engine's score.

    Returns
    -------
    items : Items
        Sorted by query; ``feature_names`` are the names of the runs.

    Examples
    --------
    >>> one = Run.from_dict({"q1": {"d1": 0.5, "d2": 0.9}}, name="one")
    >>> two = Run.from_dict({"q1": {"d2": 7.0}}, name="two")
    >>> items = items_from_runs([one, two], Qrels.from_dict({"q1": {"d1": 1}}))
    >>> items.docid.tolist(), items.X.tolist(), items.y.tolist()
    (['d1', 'd2'], [[-2.0, nan], [-1.0, -1.0]], [1.0, 0.0])
    """
    runs = list(runs)
    if features not in ("position", "score"):
        raise ParameterError(
            f'items_from_runs(features={features!r}): use "position" or "score".',
            parameter="features",
        )
    names = tuple(run.name for run in runs)
    if not runs or len(set(names)) < len(names):
        fix = "Give at least one run, each with a different name"
        raise ParameterError(f"items_from_runs: the runs are called {names}. {fix}.")
    pairs = _Pairs(qrels, runs)
    listed = [pairs.keys(run)[pairs.known(run)] for run in runs]
    keys = np.unique(np.concatenate(listed))
    X = np.full((len(keys), len(runs)), np.nan)
    for column, (run, run_keys) in enumerate(zip(runs, listed, strict=True)):
        values = run.score if features == "score" else -run.rank.astype(np.float64)
        X[np.searchsorted(keys, run_keys), column] = values[pairs.known(run)]
    return Items(X, pairs.grades(keys)[0], pairs.qid(keys), pairs.docid(keys), names)


class _Pairs:
    """A common key for each query-document pair, query * n_docs + doc; ids compare as text."""

    def __init__(self, qrels: Qrels, runs: list[Run]) -> None:
        self.qrels = qrels
        self._query = {str(key): number for number, key in enumerate(qrels.queries.tolist())}
        self._doc = {str(key): number for number, key in enumerate(qrels.docs.tolist())}
        for run in runs:
            for key in run.docs.tolist():
                self._doc.setdefault(str(key), len(self._doc))
        self.n_docs = max(len(self._doc), 1)
        self.judged: IntArray = qrels.query * self.n_docs + qrels.doc

    def known(self, run: Run) -> NDArray[np.bool_]:
        """Which rows of a run belong to a judged query."""
        judged = np.array([str(key) in self._query for key in run.queries.tolist()], dtype=bool)
        return judged[run.query]

    def keys(self, run: Run) -> IntArray:
        """The key of each row; meaningless for a query that was not judged."""
        query = np.array([self._query.get(str(k), 0) for k in run.queries.tolist()], np.int64)
        doc = np.array([self._doc[str(k)] for k in run.docs.tolist()], np.int64)
        return query[run.query] * self.n_docs + doc[run.doc]

    def grades(self, keys: IntArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The grade of each pair, 0 if it was not judged or judged below 0, and if it was."""
        y, judged = np.zeros(len(keys)), np.zeros(len(keys), np.bool_)
        if len(self.judged):
            order = np.argsort(self.judged)
            position = np.searchsorted(self.judged, keys, sorter=order)
            row = order[np.minimum(position, len(order) - 1)]
            known = self.judged[row] == keys
            grade = self.qrels.grade[row[known]]
            y[known], judged[known] = np.maximum(grade, 0), grade >= 0
        return y, judged

    def qid(self, keys: IntArray) -> NDArray[Any]:
        return self.qrels.queries[keys // self.n_docs]

    def docid(self, keys: IntArray) -> NDArray[Any]:
        return np.array(list(self._doc), dtype=object)[keys % self.n_docs]
