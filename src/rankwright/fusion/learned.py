"""Fusion learned from judgments: which engine to trust, and down to which rank."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray
from rankwright.data.runs import Qrels, Run
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError
from rankwright.feedback.base import Grades
from rankwright.feedback.pairs import Pairs
from rankwright.fusion.methods import Rankings, as_runs
from rankwright.fusion.normalization import NORMS, normalized
from rankwright.fusion.pool import Pool
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.boosting.rankboost import RankBoost
from rankwright.rankers.schema import Holds, Learned
from rankwright.runtime import require_memory

FEATURES = ("position", *NORMS)
CUT = "Cut the lists to fewer documents, or use method='ranker'."


class LearnedFusion(BaseEstimator):  # type: ignore[misc]
    r"""Learned metasearch: a ranker, by default RankBoost, on the ranks of several engines.

    Each engine is a feature: the negative rank of the document in the engine's list.
    An engine that does not list a document abstains (NaN). The ranker learns from judged queries
    how to combine these; fusing new queries needs only their lists.

    Engines are identified by name: give the same names when fusing, in any order. An engine that
    is missing abstains for all documents; an unknown engine is refused.

    ``method="hedge"`` learns one weight per engine instead (Cohen, Schapire and Singer). Engine i
    prefers document u to v by :math:`R_i(u, v) = 1`, 1/2 for a tie, else 0; documents that it does
    not list are tied below those it lists. With each judged query in sequence, weights are
    multiplied by :math:`\beta^{L_i}`, where :math:`L_i` is 1 minus the mean of :math:`R_i` over the
    pairs of the query, the better one first. The documents of a new query are put in order
    greedily: first the one that the weighted preferences favor most over all others, then the next
    among the rest. That is at least half as good as the best order. After all queries the weighted
    engines together have lost at most :math:`(L \ln(1/\beta) + \ln n) / (1 - \beta)`, where L is
    the loss of the best engine.

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
    method : "ranker" or "hedge", default "ranker"
        "hedge" needs no ranker and no features.
    beta : float in (0, 1), default 0.5
        With "hedge": how much the weight of an engine drops that is wrong about a whole query.

    Attributes
    ----------
    ranker_ : the fitted ranker, None with "hedge"
    engines_ : tuple of str, the name of each feature
    weights_ : (n_engines,) array, of sum 1, None without "hedge"
    loss_ : (n_engines + 1,) array, None without "hedge"
        The total loss of each engine over the judged queries and, last, that of the weighted ones.

    References
    ----------
    Y. Freund, R. Iyer, R. E. Schapire, Y. Singer: An efficient boosting algorithm for combining
    preferences. JMLR 4, 2003, sections 2.1 and 6.1.
    W. W. Cohen, R. E. Schapire, Y. Singer: Learning to order things. JAIR 10, 1999.

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
        "method": schema.one_of("ranker", "hedge"),
        "beta": schema.positive(1),
    }

    ranker_: Any
    weights_: FloatArray | None
    loss_: FloatArray | None

    def __init__(
        self,
        ranker: Ranker | None = None,
        *,
        features: str = "position",
        method: str = "ranker",
        beta: float = 0.5,
    ) -> None:
        self.ranker = ranker
        self.features = features
        self.method = method
        self.beta = beta

    def fit(self, runs: Rankings, qrels: Qrels, **fit_params: Any) -> Self:
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
        self.ranker_ = self.weights_ = self.loss_ = None
        if self.method == "hedge":
            if fit_params:
                raise ParameterError(
                    f"LearnedFusion(method='hedge').fit got {next(iter(fit_params))}: Hedge has no "
                    "ranker to pass it on to.",
                    parameter="method",
                )
            rows = np.flatnonzero(judged)
            pairs = Grades(grades[judged], pool.query[judged]).to_pairs()
            weight = np.ones(pairs.n_pairs)
            self._hedge(pool, rows[pairs.upper], rows[pairs.lower], weight)
            return self
        X, qid = self._matrix(pool)[judged], pool.query[judged]
        self.ranker_ = clone(self._ranker()).fit(X, grades[judged], qid=qid, **fit_params)
        self.engines_ = pool.names
        return self

    def fit_preferences(self, runs: Rankings, preferences: Iterable[Any]) -> Self:
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
        self.ranker_ = self.weights_ = self.loss_ = None
        if self.method == "hedge":
            self._hedge(pool, pairs.upper, pairs.lower, pairs.weight)
            return self
        self.ranker_ = clone(self._ranker()).fit_feedback(self._matrix(pool), pairs)
        self.engines_ = pool.names
        return self

    def fuse(self, runs: Rankings, name: str = "fused") -> Run:
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
        if self.weights_ is not None:
            return pool.run(_greedy_order(pool, self.weights_), name)
        score = self.ranker_.decision_function(self._matrix(pool), qid=pool.query)
        return pool.run(score, name)

    def _hedge(self, pool: Pool, upper: IntArray, lower: IntArray, weight: FloatArray) -> None:
        """Weights of the engines after all queries, in the order in which the runs list them."""
        wrong = 0.5 - 0.5 * np.sign(pool.full_rank[lower] - pool.full_rank[upper])
        weights, total = np.full(len(pool.names), 1.0 / len(pool.names)), 0.0
        losses = np.zeros(len(pool.names))
        for query in np.unique(pool.query[upper]):
            mine = (pool.query[upper] == query) & (weight > 0)
            if not mine.any():
                continue
            loss = np.average(wrong[mine], axis=0, weights=weight[mine])
            losses += loss
            total += float(weights @ loss)
            weights = weights * self.beta**loss
            weights /= weights.sum()
        self.weights_, self.loss_, self.engines_ = weights, np.append(losses, total), pool.names

    @property
    def n_features_in_(self) -> int:
        """The number of engines."""
        return len(self.engines_)

    @classmethod
    def learned(cls) -> dict[str, Holds | Learned]:
        """The learned attributes and their types."""
        return {
            "ranker_": Holds((Ranker,), optional=True),
            "engines_": Holds((tuple,)),
            "weights_": schema.floats("n_engines", low=0.0, optional=True),
            "loss_": schema.floats("n_losses", low=0.0, optional=True),
        }

    def _loaded(self) -> None:
        names = self.engines_
        if (self.ranker_ is None) == (self.weights_ is None):
            raise DataError("LearnedFusion: the file needs either a ranker or weights of engines.")
        n_features = self.ranker_.n_features_in_ if self.weights_ is None else len(self.weights_)
        if {type(name) for name in names} != {str}:
            raise DataError("LearnedFusion: engines_ holds names that are not text.")
        if not len(names) == len(set(names)) == n_features:
            raise DataError(
                f"LearnedFusion: engines_ has {len(set(names))} distinct names in {len(names)}; "
                f"the model has {n_features}."
            )

    def _pool(self, runs: Rankings) -> Pool:
        for name, constraint in self._constraints.items():
            constraint.check(type(self).__name__, name, getattr(self, name))
        if self.method == "hedge" and (self.ranker is not None or self.features != "position"):
            raise ParameterError(
                "LearnedFusion(method='hedge') uses the ranks of the engines and no ranker. Leave "
                "out ranker and features, or use method='ranker'.",
                parameter="method",
            )
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


def _greedy_order(pool: Pool, weights: FloatArray) -> FloatArray:
    """Scores n, n - 1, ... of each query's documents in greedy order of weighted preferences."""
    score = np.empty(len(pool.query))
    for start, stop in pairwise(pool.ptr.tolist()):
        ranks, n = pool.full_rank[start:stop], stop - start
        require_memory(24.0 * n * n, f"LearnedFusion: preferences between {n:,} documents", CUT)
        # Row u of ``favor``: by how much u is preferred to each other document, -1 .. 1.
        favor = np.zeros((n, n))
        for column, weight in zip(ranks.T, weights, strict=True):
            favor += weight * np.sign(column[None, :] - column[:, None])
        potential = favor.sum(axis=1)
        for place in range(n, 0, -1):
            best = int(np.argmax(potential))
            score[start + best] = place
            potential -= favor[:, best]
            potential[best] = -np.inf
    return score


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


def _preference(row: object) -> tuple[Any, ...]:
    parts = () if isinstance(row, str) or not isinstance(row, Iterable) else tuple(row)
    if len(parts) == 3:
        return (*parts, 1.0)
    if len(parts) != 4 or not schema.number().test(parts[3]):
        needed = "(query, better doc, worse doc) or (..., weight)"
        raise DataError(f"preference {row!r} is not {needed}.")
    return parts


def _pairs(pool: Pool, preferences: Iterable[object]) -> Pairs:
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
