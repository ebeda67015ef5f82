"""Runs beside qrels, document by document: to measure one run, or to learn to fuse several."""

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
    """A run beside its qrels: what ``evaluate(scores, y, qid=qid)`` takes, and the ids."""

    scores: FloatArray
    y: FloatArray
    qid: NDArray[Any]
    docid: NDArray[Any]


Nested = Mapping[Any, Mapping[Any, Any]]


def align(run: Run | Nested, qrels: Qrels | Nested, *, queries: str = "qrels") -> Aligned:
    """Put a run and its qrels side by side, one row for each document retrieved or judged.

    Inside a query the retrieved documents come first, in trec_eval's order (so that the stable
    order of the rows is that order), then the judged documents which the run did not return, with
    the score ``-inf``: they count among the relevant ones, but were never found. Retrieved and
    unjudged is grade 0, and so is a grade below 0. Ids are compared as text.

    Parameters
    ----------
    run : Run, or {query: {doc: score}}
    qrels : Qrels, or {query: {doc: grade}}
    queries : {"qrels", "both"}, default="qrels"
        Every query that was judged (one missing from the run found nothing), or, as trec_eval
        does without ``-c``, only those in both.

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
    found = pairs.keys(run)[rows]
    missed = ~np.isin(pairs.judged, found)
    if queries == "both":
        missed &= np.isin(qrels.query, found // pairs.n_docs)
    keys = np.concatenate([found, pairs.judged[missed]])
    scores = np.concatenate([run.score[rows], np.full(int(missed.sum()), -np.inf)])
    order = np.argsort(keys // pairs.n_docs, kind="stable")
    keys = keys[order]
    return Aligned(scores[order], pairs.grades(keys), pairs.qid(keys), pairs.docid(keys))


def items_from_runs(runs: Iterable[Run], qrels: Qrels, *, features: str = "position") -> Items:
    """Several engines' lists as items to rank: a row per document listed, a column per engine.

    A document that an engine did not list has NaN in its column: the engine abstains. Documents
    that no engine listed are left out, and so are queries that were not judged.

    Parameters
    ----------
    runs : runs, each with a name of its own
    qrels : Qrels
        Gives the grades; unjudged is 0, and so is a grade below 0.
    features : {"position", "score"}, default="position"
        Minus the place in the engine's list (so that higher is better), or its own score.

    Returns
    -------
    items : Items
        Sorted by query, ``feature_names`` are the names of the runs.

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
        raise ParameterError(f"items_from_runs: give runs with a name of their own, not {names}.")
    pairs = _Pairs(qrels, runs)
    listed = [pairs.keys(run)[pairs.known(run)] for run in runs]
    keys = np.unique(np.concatenate(listed))
    X = np.full((len(keys), len(runs)), np.nan)
    for column, (run, mine) in enumerate(zip(runs, listed, strict=True)):
        values = run.score if features == "score" else -run.rank.astype(np.float64)
        X[np.searchsorted(keys, mine), column] = values[pairs.known(run)]
    return Items(X, pairs.grades(keys), pairs.qid(keys), pairs.docid(keys), names)


class _Pairs:
    """Queries and documents of qrels and runs in one numbering, their ids compared as text.

    The key of a pair is the number of its query times ``n_docs`` plus that of its document.
    """

    def __init__(self, qrels: Qrels, runs: list[Run]) -> None:
        self.qrels = qrels
        self._query = {str(key): place for place, key in enumerate(qrels.queries.tolist())}
        self._doc = {str(key): place for place, key in enumerate(qrels.docs.tolist())}
        for run in runs:
            for key in run.docs.tolist():
                self._doc.setdefault(str(key), len(self._doc))
        self.n_docs = max(len(self._doc), 1)
        self.judged: IntArray = qrels.query * self.n_docs + qrels.doc

    def known(self, run: Run) -> NDArray[np.bool_]:
        """Which rows of a run belong to a query that was judged."""
        judged = np.array([str(key) in self._query for key in run.queries.tolist()], dtype=bool)
        return judged[run.query]

    def keys(self, run: Run) -> IntArray:
        """The key of each row; those of unknown queries mean nothing."""
        query = [self._query.get(str(key), 0) for key in run.queries.tolist()]
        doc = [self._doc[str(key)] for key in run.docs.tolist()]
        in_query, in_docs = np.array(query, dtype=np.int64), np.array(doc, dtype=np.int64)
        return in_query[run.query] * self.n_docs + in_docs[run.doc]

    def grades(self, keys: IntArray) -> FloatArray:
        """The grade of each pair, 0 where it was not judged or judged junk."""
        y = np.zeros(len(keys))
        if len(self.judged):
            order = np.argsort(self.judged)
            place = np.searchsorted(self.judged, keys, sorter=order)
            row = order[np.minimum(place, len(order) - 1)]
            known = self.judged[row] == keys
            y[known] = np.maximum(self.qrels.grade[row[known]], 0)
        return y

    def qid(self, keys: IntArray) -> NDArray[Any]:
        return self.qrels.queries[keys // self.n_docs]

    def docid(self, keys: IntArray) -> NDArray[Any]:
        return np.array(list(self._doc), dtype=object)[keys % self.n_docs]
