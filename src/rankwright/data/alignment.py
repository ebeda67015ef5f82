"""Join runs with qrels, to evaluate one run or to learn to fuse several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.items import Items
from rankwright.data.runs import Qrels, Run
from rankwright.exceptions import ParameterError


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
        raise ParameterError(f'align(queries={queries!r}): use "qrels" or "both".')
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
        raise ParameterError(f'items_from_runs(features={features!r}): use "position" or "score".')
    names = tuple(run.name for run in runs)
    if not runs or len(set(names)) < len(names):
        fix = "Give at least one run, each with a different name"
        raise ParameterError(f"items_from_runs: the runs are called {names}. {fix}.")
    pairs = _Pairs(qrels, runs)
    listed = [pairs.keys(run)[pairs.known(run)] for run in runs]
    keys = np.unique(np.concatenate(listed))
    X = np.full((len(keys), len(runs)), np.nan)
    for column, (run, mine) in enumerate(zip(runs, listed, strict=True)):
        values = run.score if features == "score" else -run.rank.astype(np.float64)
        X[np.searchsorted(keys, mine), column] = values[pairs.known(run)]
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
