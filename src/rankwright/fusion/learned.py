"""Fusion learned from judgments: which engine to trust, and down to which rank."""

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
    """Learned metasearch: a ranker, by default RankBoost, on the ranks of several engines.

    Each engine is a feature: the negative rank of the document in the engine's list.
    An engine that does not list a document abstains (NaN). The ranker learns from judged queries
    how to combine these; fusing new queries needs only their lists.

    Engines are identified by name: give the same names when fusing, in any order. An engine that
    is missing abstains for all documents; an unknown engine is refused.

    Parameters
    ----------
    ranker : a ranker, default ``RankBoost(default=0, cumulative=True, criterion="z")``
        With the default, unlisted documents are below listed ones, and a better rank never lowers
        the score (the paper's WeakLearn.2.cum with q_def = 0). For a ranker that does
        not accept NaN, documents that an engine does not list get the mean of the remaining ranks
        (or its lowest score).
    features : {"position", "minmax", "max", "sum", "zscore", "rank", "borda", "none"}
        The negative rank (default), or the engine's own score, normalized by
        :func:`rankwright.fusion.normalize` (``none``: unchanged).

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
    >>> from rankwright.data.datasets.synthetic import make_engines
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
        """Fit the ranker to judged queries.

        Documents that no engine lists and queries without judgments are ignored. Listed documents
        that were not judged, or judged below 0, get grade 0.

        Parameters
        ----------
        runs : list of Run, {name: run}, or rankings as :func:`rankwright.fuse` takes them
        qrels : Qrels, or {query: {doc: grade}}
        fit_params : passed to the ranker's ``fit``, such as ``query_weight``
        """
        pool = self._pool(runs)
        qrels = qrels if isinstance(qrels, Qrels) else Qrels.from_dict(qrels)
        grades = _graded(pool, qrels)
        judged = ~np.isnan(grades)
        if not judged.any():
            raise DataError(
                "LearnedFusion.fit: no query of the runs was judged. Check that qrels and runs use "
                "the same query ids."
            )
        X, qid = self._matrix(pool)[judged], pool.query[judged]
        self.ranker_ = clone(self._ranker()).fit(X, grades[judged], qid=qid, **fit_params)
        self.engines_ = pool.names
        return self

    def fit_preferences(self, runs: Any, preferences: Iterable[Any]) -> Self:
        """Fit the ranker to preferences between listed documents, for example from clicks.

        Parameters
        ----------
        runs : as for :meth:`fit`
        preferences : iterable of (query, better doc, worse doc) or (..., weight)
            Preferences with a document that no engine lists for the query are ignored, with a
            DegenerateDataWarning.
        """
        pool = self._pool(runs)
        pairs = _pairs(pool, preferences)
        self.ranker_ = clone(self._ranker()).fit_feedback(self._matrix(pool), pairs)
        self.engines_ = pool.names
        return self

    def fuse(self, runs: Any, name: str = "fused") -> Run:
        """Combine the engines' lists for any queries into one run.

        Parameters
        ----------
        runs : as for :meth:`fit`, with the same names
        name : str, the name of the result
        """
        check_is_fitted(self)
        checked = as_runs(runs)
        unknown = [run.name for run in checked if run.name not in self.engines_]
        if unknown:
            raise DataError(
                f"LearnedFusion.fuse: {unknown[0]!r} was not among the engines in training "
                f"({', '.join(self.engines_)}). Name the runs as in fit."
            )
        by_name, empty = {run.name: run for run in checked}, Run.from_arrays([], [], [])
        pool = Pool.of([by_name.get(engine, empty) for engine in self.engines_])
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
        """The learned attributes and their types."""
        return {"ranker_": Holds((Ranker,)), "engines_": Holds((tuple,))}

    def _loaded(self) -> None:
        names, n_features = self.engines_, self.ranker_.n_features_in_
        if {type(name) for name in names} != {str}:
            raise DataError("LearnedFusion: engines_ holds names that are not text.")
        if not len(names) == len(set(names)) == n_features:
            raise DataError(
                f"LearnedFusion: engines_ has {len(set(names))} distinct names in {len(names)}; "
                f"the ranker has {n_features} features."
            )

    def _pool(self, runs: Any) -> Pool:
        for name, constraint in self._constraints.items():
            constraint.check(type(self).__name__, name, getattr(self, name))
        return Pool.of(as_runs(runs))

    @staticmethod
    def default_ranker() -> RankBoost:
        """Return the default ranker."""
        return RankBoost(default=0, cumulative=True, criterion="z")

    def _ranker(self) -> Any:
        return self.default_ranker() if self.ranker is None else self.ranker

    def _matrix(self, pool: Pool) -> FloatArray:
        abstains = get_tags(self._ranker()).input_tags.allow_nan
        if self.features == "position":
            return -(pool.rank if abstains else pool.full_rank)
        values = normalized(pool, self.features)
        if abstains:
            return values
        lowest = np.nan_to_num(pool.lowest(values))  # 0 for an engine without a list
        return np.where(np.isnan(values), lowest[pool.query], values)


def _index(ids: NDArray[Any], keys: Iterable[Any]) -> IntArray:
    """The index of each key among the ids, compared as text; -1 where there is none."""
    index = {str(key): number for number, key in enumerate(ids.tolist())}
    return np.array([index.get(str(key), -1) for key in keys], np.int64)


def _graded(pool: Pool, qrels: Qrels) -> FloatArray:
    """The grade of each row, NaN where its query was not judged at all."""
    of_query = _index(pool.queries, qrels.queries.tolist())
    of_doc = _index(pool.docs, qrels.docs.tolist())
    judged = np.isin(np.arange(len(pool.queries)), of_query)
    grades = np.where(judged[pool.query], 0.0, np.nan)
    row = _rows(pool, of_query[qrels.query], of_doc[qrels.doc])
    grades[row[row >= 0]] = np.maximum(qrels.grade[row >= 0], 0)
    return grades


def _rows(pool: Pool, query: IntArray, doc: IntArray) -> IntArray:
    """The row of each (query, document), -1 where there is none."""
    n_docs = max(len(pool.docs), 1)
    keys, key = pool.query * n_docs + pool.doc, query * n_docs + doc
    row = np.minimum(np.searchsorted(keys, key), max(len(keys) - 1, 0))
    known = (query >= 0) & (doc >= 0)
    if len(keys):
        known &= keys[row] == key
    return np.where(known, row, -1)


def _preference(row: Any) -> tuple[Any, ...]:
    parts = () if isinstance(row, str) or not isinstance(row, Iterable) else tuple(row)
    if len(parts) == 3:
        return (*parts, 1.0)
    if len(parts) != 4 or not schema.number().test(parts[3]):
        needed = "(query, better doc, worse doc) or (..., weight)"
        raise DataError(f"preference {row!r} is not {needed}.")
    return parts


def _pairs(pool: Pool, preferences: Any) -> Pairs:
    if not isinstance(preferences, Iterable):
        raise DataError(
            f"LearnedFusion.fit_preferences got {type(preferences).__name__}: give a list of "
            "(query, better doc, worse doc)."
        )
    rows = [_preference(row) for row in preferences]
    of_query = _index(pool.queries, [row[0] for row in rows])
    upper, lower = (
        _rows(pool, of_query, _index(pool.docs, [row[side] for row in rows])) for side in (1, 2)
    )
    known = (upper >= 0) & (lower >= 0)
    if not known.any():
        raise DataError(
            f"LearnedFusion.fit_preferences: none of the {len(rows)} preferences is between two "
            "documents that the runs list for its query. Check that both use the same ids."
        )
    if not known.all():
        warnings.warn(
            f"LearnedFusion.fit_preferences: {int((~known).sum())} of {len(rows)} preferences name "
            "a document that no run lists for the query, and are ignored.",
            DegenerateDataWarning,
            stacklevel=3,
        )
    weight = np.array([row[3] for row in rows], dtype=np.float64)
    return Pairs(lower[known], upper[known], weight[known], query=of_query[known])
