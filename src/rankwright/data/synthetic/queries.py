"""Graded search results: queries, features of unequal worth, judges who err."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright.data.items import Items
from rankwright.data.synthetic.draw import (
    FloatArray,
    IntArray,
    Sample,
    Seed,
    cut_by_shares,
    need,
)

__all__ = ["QuerySample", "make_queries"]


@dataclass(frozen=True, eq=False)
class QuerySample(Sample):
    """Graded documents of several queries, drawn by :func:`make_queries`.

    Attributes
    ----------
    X : (n_items, n_features) float64
        NaN where a feature is missing.
    y : (n_items,) int64
        Grades 0 .. n_grades - 1.
    qid : (n_items,) int64
    utility : (n_items,) float64
        What the grade measures, without noise: the right order inside each query.
    bayes_score : (n_items,) float64
        The mean of ``utility`` given the features that are not missing. No score made of ``X``
        can be expected to order better, so its measures are the limit to aim at.
    weights : (n_features,) float64
        What makes ``utility`` of the complete features; 0 where a feature means nothing.
    """

    X: FloatArray
    y: IntArray
    qid: IntArray
    utility: FloatArray
    bayes_score: FloatArray
    weights: FloatArray

    @property
    def items(self) -> Items:
        """The sample as the container that readers return."""
        return Items(self.X, self.y.astype(np.float64), self.qid)


def make_queries(
    n_queries: int = 50,
    *,
    docs_per_query: int | tuple[int, int] = (5, 40),
    n_features: int = 10,
    n_informative: int | None = None,
    n_grades: int = 5,
    noise: float = 0.5,
    query_effect: float = 0.5,
    missing: float = 0.0,
    random_state: Seed = None,
) -> QuerySample:
    """Draw graded search results: queries of several documents, features of unequal worth.

    Features are standard normal. The informative ones add up, with random weights, to a utility
    of variance 1; noise and an offset of the query are added and the sum is cut into grades, each
    about half as frequent as the one below it.

    Parameters
    ----------
    n_queries : int, default=50
    docs_per_query : int or (low, high), default=(5, 40)
        Documents of every query, or the range from which each query draws its own number.
    n_features : int, default=10
    n_informative : int or None
        How many features (the first ones) mean something; None is about half of them.
    n_grades : int, default=5
    noise : float, default=0.5
        Standard deviation of the error of a judge.
    query_effect : float, default=0.5
        Standard deviation of the queries' offsets: some queries have more good documents.
    missing : float, default=0.0
        Share of the cells of ``X`` set to NaN, at random.
    random_state : int, Generator or None

    Examples
    --------
    >>> sample = make_queries(20, n_features=4, random_state=0)
    >>> sample.X.shape[1], np.unique(sample.y).tolist(), sample.weights.round(1).tolist()
    (4, [0, 1, 2, 3, 4], [-0.7, 0.7, 0.0, 0.0])
    """
    n_informative = (n_features + 1) // 2 if n_informative is None else n_informative
    need(n_queries >= 1, "n_queries", n_queries, "an integer >= 1")
    need(1 <= n_informative <= n_features, "n_informative", n_informative, "in 1 .. n_features")
    need(n_grades >= 1, "n_grades", n_grades, "an integer >= 1")
    need(0 <= missing < 1, "missing", missing, "in [0, 1)")
    low, high = (docs_per_query,) * 2 if isinstance(docs_per_query, int) else docs_per_query
    need(1 <= low <= high, "docs_per_query", docs_per_query, "an integer >= 1, or low <= high")
    rng = np.random.default_rng(random_state)
    sizes = rng.integers(low, high + 1, size=n_queries)
    qid = np.repeat(np.arange(n_queries), sizes)
    X = rng.standard_normal((len(qid), n_features))
    weights = np.zeros(n_features)
    weights[:n_informative] = rng.uniform(0.2, 1, n_informative) * rng.choice(
        [-1, 1], n_informative
    )
    weights /= np.linalg.norm(weights)
    utility = X @ weights
    offset = query_effect * rng.standard_normal(n_queries)
    judged = utility + offset[qid] + noise * rng.standard_normal(len(qid))
    y = cut_by_shares(judged, 0.5 ** np.arange(n_grades))
    X[rng.uniform(size=X.shape) < missing] = np.nan
    return QuerySample(X, y, qid, utility, np.nan_to_num(X) @ weights, weights)
