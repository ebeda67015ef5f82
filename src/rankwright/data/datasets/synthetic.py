"""Synthetic data whose best possible order is known: queries, ranks, ratings, engines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.ratings import Ratings
from rankwright.data.items import Items
from rankwright.data.runs import Qrels, Run
from rankwright.data.vocabulary import read_only
from rankwright.exceptions import ParameterError

Seed = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample together with the truth behind it; its arrays are read-only."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, read_only(value))


def _grade(values: FloatArray, shares: Sequence[float] | NDArray[Any]) -> IntArray:
    """Grades 0 .. k - 1 in ascending order of the values, with these relative frequencies."""
    upper = np.cumsum(shares)[:-1] / np.sum(shares)
    return np.searchsorted(np.quantile(values, upper), values)


def _require(condition: bool, name: str, value: object, requirement: str) -> None:
    if not condition:
        raise ParameterError(f"{name}={value!r}: must be {requirement}.")


_THRESHOLDS = np.array([-1.0, -0.1, 0.25, 1.0])


@dataclass(frozen=True, eq=False)
class OrdinalSample(Sample):
    """Items with a rank 1 .. 5 each, drawn by :func:`make_ordinal`.

    Attributes
    ----------
    X : (n_items, 2) float64
    y : (n_items,) int64
        Ranks 1 .. 5.
    latent : (n_items,) float64
        The value behind the rank, without noise: the true order.
    noise : float
        Standard deviation of the noise added to ``latent``.
    """

    X: FloatArray
    y: IntArray
    latent: FloatArray
    noise: float

    @property
    def bayes_prediction(self) -> IntArray:
        """The best possible prediction for each item: the median rank, that of ``latent``."""
        return 1 + np.searchsorted(_THRESHOLDS, self.latent)

    @property
    def expected_loss(self) -> FloatArray:
        """The expected rank loss of ``bayes_prediction`` on each item."""
        return _conditional_loss(self.latent, self.noise)

    @property
    def bayes_rank_loss(self) -> float:
        """The lowest possible mean rank loss on new items (0.1526 for the papers' data)."""
        return _bayes_rank_loss(self.noise)


def make_ordinal(
    n_items: int = 1000, *, noise: float = 0.125, random_state: Seed = None
) -> OrdinalSample:
    """Generate the synthetic ordinal data of the PRank and OAP-BPM papers.

    x is uniform in the unit square. The rank is 1 plus the number of thresholds -1, -0.1, 0.25, 1
    below 10 (x1 - 0.5)(x2 - 0.5) plus normal noise.

    Parameters
    ----------
    n_items : int, default=1000
    noise : float, default=0.125
        Standard deviation of the noise; 0 gives ranks without error.
    random_state : int, Generator or None

    Examples
    --------
    >>> sample = make_ordinal(5000, random_state=0)
    >>> sample.X.shape, np.unique(sample.y).tolist()
    ((5000, 2), [1, 2, 3, 4, 5])
    >>> round(sample.bayes_rank_loss, 4)
    0.1526
    >>> round(float(np.abs(sample.y - sample.bayes_prediction).mean()), 2)
    0.15
    """
    _require(n_items >= 1, "n_items", n_items, "an integer >= 1")
    _require(noise >= 0, "noise", noise, "a number >= 0")
    rng = np.random.default_rng(random_state)
    X = rng.uniform(size=(n_items, 2))
    latent = 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    observed = latent + noise * rng.standard_normal(n_items)
    return OrdinalSample(X, 1 + np.searchsorted(_THRESHOLDS, observed), latent, noise)


def _conditional_loss(latent: FloatArray, noise: float) -> FloatArray:
    """Sum over the thresholds of the probability that the noise moves an item across one."""
    if noise == 0:
        return np.zeros(len(latent))
    distance = np.abs(np.subtract.outer(latent, _THRESHOLDS)) / (noise * math.sqrt(2))
    crossing: FloatArray = np.vectorize(math.erfc)(distance) / 2
    return np.asarray(crossing.sum(axis=1))


@lru_cache
def _bayes_rank_loss(noise: float) -> float:
    """The mean of the conditional loss over x, by the midpoint rule."""
    # z = |x1 - 1/2| |x2 - 1/2| has the distribution function 4z (1 - ln 4z) on (0, 1/4), and both
    # signs of the product are equally likely. Cells are narrow near 0, where it is steep.
    edges = np.linspace(0, 1, 10_001) ** 2 / 4
    mass = np.diff(np.concatenate([[0.0], 4 * edges[1:] * (1 - np.log(4 * edges[1:]))]))
    middle = 10 * (edges[1:] + edges[:-1]) / 2
    loss = _conditional_loss(middle, noise) + _conditional_loss(-middle, noise)
    return float(mass @ loss / 2)


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
        The value behind the grade, without noise: the true order within each query.
    bayes_score : (n_items,) float64
        The mean of ``utility`` given the features that are not missing. No function of ``X`` is
        expected to rank better, so its measures are the upper limit.
    weights : (n_features,) float64
        The weight of each feature in ``utility``; 0 if it is not informative.
    """

    X: FloatArray
    y: IntArray
    qid: IntArray
    utility: FloatArray
    bayes_score: FloatArray
    weights: FloatArray

    @property
    def items(self) -> Items:
        """The sample as ``Items``, the type that readers return."""
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
    """Generate graded search results: queries with several documents and informative features.

    The utility is a weighted sum, with variance 1, of standard normal features. Noise and an offset
    per query are added, and the sum is cut into grades, each half as frequent as the one below.

    Parameters
    ----------
    n_queries : int, default=50
    docs_per_query : int or (low, high), default=(5, 40)
        Number of documents of every query, or the range from which it is drawn.
    n_features : int, default=10
    n_informative : int or None
        How many features (the first ones) matter; None is half of them, rounded up.
    n_grades : int, default=5
    noise : float, default=0.5
        Standard deviation of the judges' error.
    query_effect : float, default=0.5
        Standard deviation of the queries' offsets: some queries have more good documents.
    missing : float, default=0.0
        Fraction of the cells of ``X`` set to NaN, at random.
    random_state : int, Generator or None

    Examples
    --------
    >>> sample = make_queries(20, n_features=4, random_state=0)
    >>> sample.X.shape[1], np.unique(sample.y).tolist(), sample.weights.round(1).tolist()
    (4, [0, 1, 2, 3, 4], [-0.7, 0.7, 0.0, 0.0])
    """
    n_informative = (n_features + 1) // 2 if n_informative is None else n_informative
    _require(n_queries >= 1, "n_queries", n_queries, "an integer >= 1")
    _require(1 <= n_informative <= n_features, "n_informative", n_informative, "in 1 .. n_features")
    _require(n_grades >= 1, "n_grades", n_grades, "an integer >= 1")
    _require(0 <= missing < 1, "missing", missing, "in [0, 1)")
    low, high = (docs_per_query,) * 2 if isinstance(docs_per_query, int) else docs_per_query
    _require(1 <= low <= high, "docs_per_query", docs_per_query, "an integer >= 1, or low <= high")
    rng = np.random.default_rng(random_state)
    sizes = rng.integers(low, high + 1, size=n_queries)
    qid = np.repeat(np.arange(n_queries), sizes)
    X = rng.standard_normal((len(qid), n_features))
    weights = np.zeros(n_features)
    magnitudes = rng.uniform(0.2, 1, n_informative)
    weights[:n_informative] = magnitudes * rng.choice([-1, 1], n_informative)
    weights /= np.linalg.norm(weights)
    utility = X @ weights
    offset = query_effect * rng.standard_normal(n_queries)
    judged = utility + offset[qid] + noise * rng.standard_normal(len(qid))
    y = _grade(judged, 0.5 ** np.arange(n_grades))
    X[rng.uniform(size=X.shape) < missing] = np.nan
    return QuerySample(X, y, qid, utility, np.nan_to_num(X) @ weights, weights)


_MOVIE_SHARES = (0.06, 0.11, 0.27, 0.35, 0.21)  # of 1 .. 5 stars in MovieLens


@dataclass(frozen=True, eq=False)
class RatingSample(Sample):
    """Ratings by users with latent tastes, drawn by :func:`make_ratings`.

    Attributes
    ----------
    ratings : Ratings
        Users and items are numbered from 0; the vocabularies hold all of them.
    affinity : (n_users, n_items) float64
        How much each user likes each item, without noise: the true order of all items.
    """

    ratings: Ratings
    affinity: FloatArray


def make_ratings(
    n_users: int = 200,
    n_items: int = 100,
    *,
    n_tastes: int = 3,
    density: float = 0.3,
    noise: float = 0.5,
    shares: tuple[float, ...] = _MOVIE_SHARES,
    random_state: Seed = None,
) -> RatingSample:
    """Generate ratings of items of varying popularity by users with different tastes.

    A user's affinity to an item is the product of two latent vectors, plus the item's quality and
    the user's tendency to rate high or low; with noise, it is cut into ratings 1 .. k. Popular
    items are rated more often; every user rates at least two items.

    Parameters
    ----------
    n_users, n_items : int
    n_tastes : int, default=3
        Length of the latent vectors.
    density : float, default=0.3
        Mean fraction of the items that a user has rated.
    noise : float, default=0.5
    shares : tuple of float
        Relative frequencies of the ratings 1 .. k; the default is close to MovieLens.
    random_state : int, Generator or None

    Examples
    --------
    >>> sample = make_ratings(50, 40, random_state=0)
    >>> sample.ratings
    Ratings(609 ratings, 50 users, 40 items, values 1 to 5)
    """
    _require(n_users >= 1, "n_users", n_users, "an integer >= 1")
    _require(n_items >= 2, "n_items", n_items, "an integer >= 2")
    _require(n_tastes >= 1, "n_tastes", n_tastes, "an integer >= 1")
    _require(0 < density <= 1, "density", density, "in (0, 1]")
    rng = np.random.default_rng(random_state)
    tastes = rng.standard_normal((n_users, n_tastes)) / math.sqrt(n_tastes)
    affinity = tastes @ rng.standard_normal((n_tastes, n_items))
    affinity += 0.5 * rng.standard_normal(n_items) + 0.5 * rng.standard_normal((n_users, 1))
    points = 1 + _grade(affinity + noise * rng.standard_normal(affinity.shape), shares)
    # Gumbel keys: the largest ones are a sample without replacement, weighted by popularity.
    keys = rng.gumbel(size=affinity.shape) + rng.standard_normal(n_items)
    counts = np.clip(rng.binomial(n_items, density, size=n_users), 2, n_items)
    rank = np.argsort(np.argsort(-keys, axis=1), axis=1)
    user, item = np.nonzero(rank < counts[:, None])
    value = points[user, item].astype(np.float64)
    return RatingSample(
        Ratings(np.arange(n_users), np.arange(n_items), user, item, value), affinity
    )


@dataclass(frozen=True, eq=False)
class EngineSample(Sample):
    """Lists of several engines for the same queries, drawn by :func:`make_engines`.

    Attributes
    ----------
    runs : tuple of Run
        The list of each engine; every engine has its own scale of scores.
    qrels : Qrels
        The grade of every document.
    ideal : Run
        All documents in the true order.
    bayes : Run
        The posterior mean of each value given the engines' scores of *all* documents, even those
        not listed: no fusion of the lists is expected to do better.
    noise : (n_engines,) float64
        Standard deviation of each engine's error.
    """

    runs: tuple[Run, ...]
    qrels: Qrels
    ideal: Run
    bayes: Run
    noise: FloatArray


def make_engines(
    n_queries: int = 50,
    n_docs: int = 100,
    n_engines: int = 5,
    *,
    list_length: int = 30,
    n_relevant: int = 5,
    n_grades: int = 3,
    noise: tuple[float, float] = (0.5, 2.0),
    random_state: Seed = None,
) -> EngineSample:
    """Generate the lists of several noisy search engines, for metasearch.

    Each document of a query has a standard normal value; the ``n_relevant`` best are relevant.
    Every engine sees the value plus normal noise and returns the documents it scores highest.

    Parameters
    ----------
    n_queries, n_docs, n_engines : int
        ``n_docs`` is per query.
    list_length : int, default=30
        How many documents an engine returns for a query.
    n_relevant : int, default=5
        Relevant documents per query (1 in the experiment of the RankBoost paper).
    n_grades : int, default=3
        Grades 0 .. n_grades - 1; the relevant documents share the upper ones evenly.
    noise : (low, high), default=(0.5, 2.0)
        Range of the engines' standard deviations, evenly spaced.
    random_state : int, Generator or None

    Examples
    --------
    >>> sample = make_engines(10, 40, 3, list_length=15, random_state=0)
    >>> sample.runs[0], sample.qrels
    (Run('engine-0', 150 rows, 10 queries), Qrels(400 rows, 10 queries))
    """
    for name, number in (("n_queries", n_queries), ("n_docs", n_docs), ("n_engines", n_engines)):
        _require(number >= 1, name, number, "an integer >= 1")
    _require(1 <= list_length <= n_docs, "list_length", list_length, "in 1 .. n_docs")
    _require(1 <= n_relevant <= n_docs, "n_relevant", n_relevant, "in 1 .. n_docs")
    _require(n_grades >= 2, "n_grades", n_grades, "an integer >= 2")
    _require(min(noise) > 0, "noise", noise, "two numbers > 0")
    rng = np.random.default_rng(random_state)
    value = rng.standard_normal((n_queries, n_docs))
    spread = np.linspace(noise[0], noise[1], n_engines)
    seen = value + spread[:, None, None] * rng.standard_normal((n_engines, *value.shape))
    rank = np.argsort(np.argsort(-value, axis=1), axis=1)
    grade = np.maximum(0, n_grades - 1 - rank * (n_grades - 1) // n_relevant)
    precision = spread**-2.0
    posterior = np.tensordot(precision, seen, axes=1) / (1 + precision.sum())
    scale, shift = np.exp(rng.standard_normal(n_engines)), 5 * rng.standard_normal(n_engines)
    scores = shift[:, None, None] + scale[:, None, None] * seen
    runs = tuple(_full_run(s, f"engine-{e}").top(list_length) for e, s in enumerate(scores))
    ideal = _full_run(value, "ideal")
    qrels = Qrels(ideal.queries, ideal.docs, ideal.query, ideal.doc, grade=grade.ravel())
    return EngineSample(runs, qrels, ideal, _full_run(posterior, "bayes"), spread)


def _full_run(score: FloatArray, name: str) -> Run:
    n_queries, n_docs = score.shape
    width = len(str(n_docs - 1))
    queries = np.array([f"q{q}" for q in range(n_queries)], dtype=object)
    docs = np.array([f"{q}-d{d:0{width}}" for q in queries for d in range(n_docs)], dtype=object)
    query = np.repeat(np.arange(n_queries), n_docs)
    return Run(queries, docs, query, np.arange(score.size), score=score.ravel(), name=name)
