"""Fusion learned from judgments: which engine to believe, and how far down its list."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray
from rankwright.data.runs import Qrels, Run
from rankwright.exceptions import DataError, DegenerateDataWarning
from rankwright.feedback.pairs import Pairs
from rankwright.fusion.methods import as_runs
from rankwright.fusion.normalization import NORMS, normalized
from rankwright.fusion.pool import Pool
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.boosting.rankboost import RankBoost
from rankwright.rankers.schema import Holds

FEATURES = ("position", *NORMS)


class LearnedFusion(BaseEstimator):  # type: ignore[misc]
    """A ranker over the places that engines give to documents: metasearch as RankBoost does it.

    Each engine is a feature: minus the place of the document in the engine's list for the query.
    Where an engine does not list a document it abstains (NaN). The ranker learns from judged
    queries how to combine these; new queries need the lists alone.

    Engines are known by name: give the same names when fusing, in any order. An engine of the
    training that is missing (it is down today) abstains throughout; one that was not there is
    refused.

    Parameters
    ----------
    ranker : a ranker, default ``RankBoost(default=0, cumulative=True, criterion="z")``
        With the default, what an engine does not list is below what it lists, and being higher in
        a list never harms (the paper's WeakLearn.2.cum with q_def = 0). For a ranker that does not
        take NaN, documents that an engine did not list share the mean of the places left over
        (or its lowest score).
    features : {"position", "minmax", "max", "sum", "zscore", "rank", "borda", "none"}
        Minus the place, the default, or the engine's own score, normalized as
        :func:`rankwright.fusion.normalization` does (``none``: as it is).

    Attributes
    ----------
    ranker_ : the fitted ranker
    engines_ : tuple of str, the name of each feature

    References
    ----------
    Y. Freund, R. Iyer, R. E. Schapire, Y. Singer: An efficient boosting algorithm for combining
    preferences. JMLR 4, 2003, sections 2.1 and 6.1.

    Examples
    --------
    >>> from rankwright.data.synthetic import make_engines
    >>> sample = make_engines(60, random_state=0)
    >>> fusion = LearnedFusion().fit(sample.runs, sample.qrels)
    >>> fusion.engines_
    ('engine-0', 'engine-1', 'engine-2', 'engine-3', 'engine-4')
    >>> tomorrow = {"engine-0": {"new": ["a", "b"]}, "engine-4": {"new": ["c", "a"]}}
    >>> fused = fusion.fuse(tomorrow)
    >>> fused.docs[fused.doc[fused.order]].tolist()
    ['a', 'b', 'c']
    """

    _constraints: ClassVar = {
        "ranker": schema.optional(schema.instance_of("a ranker", Ranker)),
        "features": schema.one_of(*FEATURES),
    }

    def __init__(self, ranker: Any = None, *, features: str = "position") -> None:
        self.ranker = ranker
        self.features = features

    def fit(self, runs: Any, qrels: Qrels, **fit_params: Any) -> Self:
        """Learn from judged queries.

        Documents that no engine lists, and queries that were not judged, are left out; a document
        listed and not judged has grade 0, and so has one judged below 0.

        Parameters
        ----------
        runs : list of Run, {name: run}, or rankings as :func:`rankwright.fuse` takes them
        qrels : Qrels, or {query: {doc: grade}}
        fit_params : passed to the ranker's ``fit``, such as ``query_weight``
        """
        self._check()
        pool = Pool.of(as_runs(runs))
        grades = _graded(pool, _as_qrels(qrels))
        judged = ~np.isnan(grades)
        if not judged.any():
            raise DataError(
                "LearnedFusion.fit: no query of the runs was judged. Are the query ids of the "
                "qrels written as those of the runs?"
            )
        X = self._matrix(pool)[judged]
        self.ranker_ = clone(self._ranker()).fit(
            X, grades[judged], qid=pool.query[judged], **fit_params
        )
        self.engines_ = pool.names
        return self

    def fit_preferences(self, runs: Any, preferences: Iterable[Any]) -> Self:
        """Learn from preferences between listed documents, such as clicks tell them.

        Parameters
        ----------
        runs : as for :meth:`fit`
        preferences : iterable of (query, better doc, worse doc) or (..., weight)
            Those with a document that no engine lists for the query are left out, with a
            DegenerateDataWarning that counts them.
        """
        self._check()
        pool = Pool.of(as_runs(runs))
        pairs = _pairs(pool, preferences)
        self.ranker_ = clone(self._ranker()).fit_feedback(self._matrix(pool), pairs)
        self.engines_ = pool.names
        return self

    def fuse(self, runs: Any, name: str = "fused") -> Run:
        """One run out of the engines' lists for any queries.

        Parameters
        ----------
        runs : as for :meth:`fit`, with the same names
        name : str, name of the result
        """
        check_is_fitted(self)
        checked = as_runs(runs)
        strange = [run.name for run in checked if run.name not in self.engines_]
        if strange:
            raise DataError(
                f"LearnedFusion.fuse: {strange[0]!r} was not among the engines it learned with "
                f"({', '.join(self.engines_)}). Name the runs as in fit."
            )
        given = {run.name: run for run in checked}
        nothing = Run.from_arrays([], [], [])
        pool = Pool.of([given.get(engine, nothing) for engine in self.engines_])
        if len(pool.query) == 0:
            return pool.run(np.zeros(0), name)
        score = self.ranker_.decision_function(self._matrix(pool), qid=pool.query)
        return pool.run(score, name)

    @property
    def n_features_in_(self) -> int:
        """The number of engines."""
        return len(self.engines_)

    @classmethod
    def learned(cls) -> dict[str, Holds]:
        """Every learned attribute, with what it may be."""
        return {"ranker_": Holds((Ranker,)), "engines_": Holds((tuple,))}

    def _loaded(self) -> None:
        """What a model file held: check that it fits together."""
        named = len(set(self.engines_)) == len(self.engines_) == self.ranker_.n_features_in_
        if not named or not all(isinstance(engine, str) for engine in self.engines_):
            raise DataError("engines_ does not name each feature of the ranker.")

    def _check(self) -> None:
        for name, rule in self._constraints.items():
            rule.check(type(self).__name__, name, getattr(self, name))

    @staticmethod
    def default_ranker() -> RankBoost:
        """The ranker that learns where none is given."""
        return RankBoost(default=0, cumulative=True, criterion="z")

    def _ranker(self) -> Any:
        return self.default_ranker() if self.ranker is None else self.ranker

    def _matrix(self, pool: Pool) -> FloatArray:
        """(n_rows, n_engines) features of a pool."""
        abstains = get_tags(self._ranker()).input_tags.allow_nan
        if self.features == "position":
            return -(pool.rank if abstains else pool.full_rank)
        values = normalized(pool, self.features)
        if abstains:
            return values
        lowest = np.nan_to_num(pool.lowest(values))  # 0 for an engine without a list
        return np.where(np.isnan(values), lowest[pool.query], values)


def _as_qrels(qrels: Any) -> Qrels:
    return qrels if isinstance(qrels, Qrels) else Qrels.from_dict(qrels)


def _numbers(ids: NDArray[Any]) -> dict[str, int]:
    return {str(key): place for place, key in enumerate(ids.tolist())}


def _graded(pool: Pool, qrels: Qrels) -> FloatArray:
    """The grade of each row, NaN where its query was not judged at all."""
    query, doc = _numbers(pool.queries), _numbers(pool.docs)
    of_query = np.array([query.get(str(key), -1) for key in qrels.queries.tolist()], np.int64)
    of_doc = np.array([doc.get(str(key), -1) for key in qrels.docs.tolist()], np.int64)
    judged = np.isin(np.arange(len(pool.queries)), of_query)
    grades = np.where(judged[pool.query], 0.0, np.nan)
    row = _rows(pool, of_query[qrels.query], of_doc[qrels.doc])
    grades[row[row >= 0]] = np.maximum(qrels.grade[row >= 0], 0)
    return grades


def _rows(pool: Pool, query: IntArray, doc: IntArray) -> IntArray:
    """The row of each (query, document), -1 where there is none."""
    n_docs = max(len(pool.docs), 1)
    keys = pool.query * n_docs + pool.doc
    wanted = query * n_docs + doc
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    found = (query >= 0) & (doc >= 0)
    if len(keys):
        found &= keys[place] == wanted
    return np.where(found, place, -1)


def _listed(preferences: Any) -> list[Any]:
    if not isinstance(preferences, Iterable):
        raise DataError(
            f"LearnedFusion.fit_preferences got {type(preferences).__name__}: give a list of "
            "(query, better doc, worse doc)."
        )
    return list(preferences)


def _preference(row: Any) -> tuple[Any, ...]:
    """(query, better doc, worse doc, weight)."""
    parts = () if isinstance(row, str) or not isinstance(row, Iterable) else tuple(row)
    if len(parts) == 3:
        return (*parts, 1.0)
    if len(parts) != 4 or not schema.number().test(parts[3]):
        raise DataError(
            f"preference {row!r}: write (query, better doc, worse doc) or (..., weight)."
        )
    return parts


def _pairs(pool: Pool, preferences: Iterable[Any]) -> Pairs:
    rows = [_preference(row) for row in _listed(preferences)]
    query, doc = _numbers(pool.queries), _numbers(pool.docs)
    of_query = np.array([query.get(str(row[0]), -1) for row in rows], np.int64)
    upper, lower = (
        _rows(pool, of_query, np.array([doc.get(str(row[side]), -1) for row in rows], np.int64))
        for side in (1, 2)
    )
    known = (upper >= 0) & (lower >= 0)
    if not known.any():
        raise DataError(
            f"LearnedFusion.fit_preferences: none of the {len(rows)} preferences is between two "
            "documents that the runs list for its query. Are the ids written alike?"
        )
    if not known.all():
        warnings.warn(
            f"LearnedFusion.fit_preferences: {int((~known).sum())} of {len(rows)} preferences name "
            "a document that no run lists for the query, and are left out.",
            DegenerateDataWarning,
            stacklevel=3,
        )
    weight = np.array([row[3] for row in rows], dtype=np.float64)
    return Pairs(lower[known], upper[known], weight[known], query=of_query[known])
