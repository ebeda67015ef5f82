"""The lists of several runs side by side: a row per document listed, a column per run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.runs import Run
from rankwright.data.vocabulary import read_only
from rankwright.exceptions import DataError


@dataclass(frozen=True, eq=False)
class Pool:
    """Every document that some run lists for a query, with its score and rank in each run.

    Attributes
    ----------
    queries, docs : arrays of ids
        As the first run that has them wrote them; compared and sorted as text.
    query, doc : (n_rows,) int64
        Indices into ``queries`` and ``docs``, ascending, so the order of the runs has no effect.
    score : (n_rows, n_runs) float64
        Each run's own score, NaN where it does not list the document.
    rank : (n_rows, n_runs) float64
        The rank in the run's list, from 1 (ties as trec_eval orders them); NaN as above.
    names : tuple of str

    >>> one, two = Run.from_dict({"q": {"a": 9, "b": 5}}), Run.from_dict({"q": {"b": 0.5}})
    >>> pool = Pool.of([one, two])
    >>> pool.rank.tolist()
    [[1.0, nan], [2.0, 1.0]]
    >>> pool.full_rank.tolist()  # unlisted documents share the remaining ranks
    [[1.0, 2.0], [2.0, 1.0]]
    """

    queries: NDArray[Any]
    docs: NDArray[Any]
    query: IntArray
    doc: IntArray
    score: FloatArray
    rank: FloatArray
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("queries", "docs", "query", "doc", "score", "rank"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Pool:
        queries, query_of = _joined([run.queries for run in runs])
        # A truncated run still has the ids of all its documents: only those listed count.
        listed = [np.bincount(run.doc, minlength=len(run.docs)) > 0 for run in runs]
        docs, doc_of = _joined([run.docs[mine] for run, mine in zip(runs, listed, strict=True)])
        keys = [
            query_of[i][run.query] * np.int64(max(len(docs), 1))
            + doc_of[i][np.cumsum(listed[i])[run.doc] - 1]
            for i, run in enumerate(runs)
        ]
        for run, mine in zip(runs, keys, strict=True):
            if len(_distinct(mine)) < len(mine):
                raise DataError(
                    f"run {run.name!r} lists a document twice for a query, because ids are "
                    "compared as text (1 equals '1'). Use ids of one type."
                )
        rows = _distinct(np.concatenate(keys))
        score = np.full((len(rows), len(runs)), np.nan)
        rank = score.copy()
        for column, (run, mine) in enumerate(zip(runs, keys, strict=True)):
            row = np.searchsorted(rows, mine)
            score[row, column], rank[row, column] = run.score, run.rank
        query, doc = rows // max(len(docs), 1), rows % max(len(docs), 1)
        return cls(queries, docs, query, doc, score, rank, tuple(run.name for run in runs))

    @cached_property
    def listed(self) -> NDArray[np.bool_]:
        """(n_rows, n_runs): which run lists which document."""
        return ~np.isnan(self.rank)

    @cached_property
    def ptr(self) -> IntArray:
        """Where the rows of each query start; length n_queries + 1. No query is empty."""
        return np.searchsorted(self.query, np.arange(len(self.queries) + 1))

    @cached_property
    def full_rank(self) -> FloatArray:
        """``rank``, with the mean of the remaining ranks for documents that a run does not list."""
        candidates = np.diff(self.ptr)[:, None]
        remaining = (self.total(self.listed) + 1 + candidates) / 2
        return np.where(self.listed, self.rank, remaining[self.query])

    def total(self, values: NDArray[Any]) -> FloatArray:
        """(n_queries, n_runs) sums over the documents of a query, without NaN."""
        return self._reduced(np.add, np.where(np.isnan(values), 0.0, values))

    def lowest(self, values: FloatArray) -> FloatArray:
        """(n_queries, n_runs) minima, NaN where a run lists nothing."""
        return self._reduced(np.fmin, values)

    def highest(self, values: FloatArray) -> FloatArray:
        """(n_queries, n_runs) maxima, NaN where a run lists nothing."""
        return self._reduced(np.fmax, values)

    def _reduced(self, operation: np.ufunc, values: FloatArray) -> FloatArray:
        if len(self.query) == 0:
            return np.zeros((0, len(self.names)))
        return np.asarray(operation.reduceat(values, self.ptr[:-1], axis=0))

    def run(self, score: FloatArray, name: str) -> Run:
        """A run with this score for each row."""
        return Run(self.queries, self.docs, self.query, self.doc, score=score, name=name)


def _distinct(keys: IntArray) -> IntArray:
    """Each key once, ascending; sorting is faster than np.unique's hash table on many keys."""
    ascending = np.sort(keys)
    return ascending[np.diff(ascending, prepend=-1) > 0]


def _joined(ids: list[NDArray[Any]]) -> tuple[NDArray[Any], list[IntArray]]:
    """The distinct ids sorted as text, and for each array the index of each of its ids."""
    keys = [array.tolist() for array in ids]
    texts = [list(map(str, mine)) for mine in keys]
    first: dict[str, Any] = {}
    for mine, written in zip(reversed(keys), reversed(texts), strict=True):  # the first one stays
        first.update(zip(reversed(written), reversed(mine), strict=True))
    index = {text: number for number, text in enumerate(sorted(first))}
    joined = np.empty(len(index), dtype=object)
    joined[:] = [first[text] for text in index]
    return joined, [np.array([index[text] for text in mine], dtype=np.int64) for mine in texts]
