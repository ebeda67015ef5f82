"""Which items a judge gets: random orders, shared items, and what a committee of rankers, which
learns from every judgment, disagrees on most.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, MatrixLike
from rankwright.data.queries import Queries
from rankwright.exceptions import ParameterError
from rankwright.features.feature_set import FeatureSet
from rankwright.service.judging.queue import Queue
from rankwright.service.log.entries import Mode

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

MEMBERS = 50
FIRST = 20  # judgments that are chosen at random, before the members know enough to differ
REFRESH = 5  # judgments after which the committee votes again

Item = tuple[int, ...]  # rows of the queue, ascending: one, or the two of a pair


class Example(NamedTuple):
    """A judgment as a model learns it: one row of the queue and its value, or two and -1, 0, 1."""

    rows: tuple[int, ...]
    value: float


class Assignment:
    """Random orders against position bias, the same after every restart.

    Each judge has an order of their own. A share of the items, ``overlap``, goes to every judge.
    The documents of a query form a random ring, and neighbors on it are the pairs to compare: all
    documents are connected, and each is in two pairs.
    """

    def __init__(self, queue: Queue, overlap: float, seed: int) -> None:
        if not 0.0 <= overlap <= 1.0:
            raise ParameterError(f"overlap: {overlap:g} is not a share between 0 and 1.")
        self.queue, self.overlap, self.seed = queue, overlap, seed
        self.order = lru_cache(64)(self._order)
        self.documents: list[Item] = [(row,) for row in range(len(queue))]
        self.pairs: list[Item] = self._ring()

    def items(self, mode: Mode) -> list[Item]:
        """Everything there is to judge in a mode."""
        return self.pairs if mode == "pairs" else self.documents

    def _order(self, judge: str, mode: Mode) -> list[Item]:
        return sorted(self.items(mode), key=lambda item: self._draw(judge, *map(str, item)))

    def is_shared(self, item: Item) -> bool:
        """Whether every judge gets the item."""
        return self._draw("overlap", *map(str, item)) < self.overlap

    def sides(self, judge: str, item: Item) -> Item:
        """The rows of an item as a judge sees them, left and right."""
        return item if self._draw("side", judge, *map(str, item)) < 0.5 else item[::-1]

    def _ring(self) -> list[Item]:
        queries: dict[str, list[int]] = {}
        for row, document in enumerate(self.queue.documents):
            queries.setdefault(document.query, []).append(row)
        pairs: set[Item] = set()
        for rows in queries.values():
            ring = sorted(rows, key=lambda row: self._draw("ring", str(row)))
            neighbors = zip(ring, ring[1:] + ring[:1], strict=True)
            pairs |= {(min(a, b), max(a, b)) for a, b in neighbors if a != b}
        return sorted(pairs)

    def _draw(self, *parts: str) -> float:
        """A number in [0, 1) that depends on the seed and the parts only."""
        text = "\0".join([str(self.seed), *parts]).encode()
        digest = hashlib.blake2b(text, digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2.0**64


class LiveModel:
    """A BayesianPRank that predicts each judgment, then learns from it.

    Grades and magnitudes (in steps of ten) are ordinal levels of a document. A preference is an
    ordinal level of the difference of two documents (-1, 0 for a tie, 1), learned in both
    directions. An OAP-BPM on the same examples is the committee that says what to judge next.
    Features are standardized over the queue.
    """

    def __init__(self, queue: Queue, mode: Mode) -> None:
        from sklearn.preprocessing import StandardScaler

        from rankwright.rankers.online import OAPBPM, BayesianPRank

        self.queue, self.mode = queue, mode
        filled = np.where(np.isnan(queue.X), _column_means(queue.X), queue.X)
        self.scaler = StandardScaler().fit(filled)
        self.rows: FloatArray = self.scaler.transform(filled)
        self.classes = _classes(mode, queue.n_grades)
        self.ranker = BayesianPRank().start(self.rows.shape[1], self.classes)
        self.committee = OAPBPM(n_estimators=MEMBERS, random_state=0)
        self.committee.start(self.rows.shape[1], self.classes)
        self.losses: list[float] = []
        self.baseline_losses: list[float] = []
        self._sorted: list[float] = []  # the judgments so far
        self._priority: tuple[int, FloatArray] | None = None

    def learn(self, examples: Sequence[Example]) -> None:
        """Predict each judgment just before learning from it; how far off goes to the curve."""
        if not examples:
            return
        X = np.array([self._row(example.rows) for example in examples])
        values = np.array([example.value for example in examples])
        y = self.classes[np.abs(values[:, None] - self.classes).argmin(axis=1)]
        if self.mode == "pairs":
            X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
            X[1::2], y[1::2] = -X[1::2], -y[1::2]
        predicted = self.ranker.partial_fit_predict(X, y)[:: len(X) // len(values)]
        self.committee.partial_fit(X, y)
        self.losses += np.abs(predicted - values).tolist()
        for value in values.tolist():
            self.baseline_losses.append(abs(self._median() - value))
            insort(self._sorted, value)

    def _median(self) -> float:
        """Of the judgments so far; of all grades before the first one."""
        ordered = self._sorted or self.classes.tolist()
        half = len(ordered) // 2
        return float(ordered[half] + ordered[-half - 1]) / 2.0

    def _row(self, rows: tuple[int, ...]) -> FloatArray:
        row: FloatArray = self.rows[rows[0]]
        return row if len(rows) == 1 else row - self.rows[rows[1]]

    @property
    def n_seen(self) -> int:
        return len(self.losses)

    def curve(self) -> FloatArray:
        """The mean rank loss (absolute difference) of the predictions so far."""
        return np.cumsum(self.losses) / np.arange(1, self.n_seen + 1)

    def baseline(self) -> FloatArray:
        """The same for always predicting the median of the judgments before."""
        return np.cumsum(self.baseline_losses) / np.arange(1, self.n_seen + 1)

    def scores(self) -> FloatArray:
        """What the model orders the documents of the queue by."""
        scores: FloatArray = self.ranker.decision_function(self.rows)
        return scores

    def priority(self) -> FloatArray | None:
        """How much the members differ on each document; None before the first judgments."""
        if self.n_seen < FIRST:
            return None
        if self._priority is None or self.n_seen - self._priority[0] >= REFRESH:
            variance = rank_variance(self.committee, self.rows, self.queue.queries)
            self._priority = (self.n_seen, variance)
        return self._priority[1]

    def pair_priority(self, pairs: Sequence[tuple[int, ...]]) -> FloatArray | None:
        """How much the members differ on each pair of rows; None before the first judgments."""
        if self.n_seen < FIRST:
            return None
        return pair_disagreement(self.committee.member_scores(self.rows), pairs)

    def pipeline(self) -> Any:
        """The model for documents with the named features of the queue, not standardized.

        Where the features were made of texts, it takes the fields of queries and documents.
        """
        from rankwright.rankers.preprocessing import RankPipeline

        self.scaler.feature_names_in_ = np.array(self.queue.feature_names, dtype=object)
        steps: list[tuple[str, Any]] = [("scale", self.scaler), ("rank", self.ranker)]
        if self.queue.encoding is not None:
            steps.insert(0, ("features", FeatureSet.of(self.queue.encoding)))
        return RankPipeline(steps)


def rank_variance(model: BaseEstimator, X: MatrixLike, queries: Queries) -> FloatArray:
    """The variance over the members of an ensemble of each item's rank, as a share of its list.

    Ranks are divided by the length of the list. Otherwise the longest lists would be judged first,
    which is worse than judging at random on MQ2008 (``experiments/oap_bpm/README.md``).

    Parameters
    ----------
    model : fitted OAPBPM, OAPBagging or OAPVoting
    X : (n_items, n_features) array
    queries : the query of each row

    Examples
    --------
    >>> from rankwright import OAPBPM
    >>> X = np.random.default_rng(0).normal(size=(6, 3))
    >>> model = OAPBPM(n_estimators=20, tau=1, random_state=0).fit(X, [0, 1, 2, 0, 1, 2])
    >>> rank_variance(model, X, Queries.from_ids([7, 7, 7, 8, 8, 8]))  # all members are equal
    array([0., 0., 0., 0., 0., 0.])
    """
    scores = model.member_scores(X)
    variance = np.empty(len(scores))
    for size in np.unique(queries.sizes):  # lists of one length are sorted together
        of_size = np.flatnonzero(queries.sizes == size)
        rows = queries.order[queries.ptr[of_size][:, None] + np.arange(size)]
        ranks = np.argsort(np.argsort(-scores[rows], axis=1, kind="stable"), axis=1)
        variance[rows] = ranks.var(axis=2) / size**2
    return variance


def pair_disagreement(member_scores: FloatArray, pairs: ArrayLike) -> FloatArray:
    """How evenly the members are split about which of two rows is better: 0 to 1/4.

    Parameters
    ----------
    member_scores : (n_items, n_members) array
    pairs : (n_pairs, 2) row numbers

    Examples
    --------
    >>> pair_disagreement(np.array([[1.0, 2.0], [0.0, 3.0], [5.0, 5.0]]), [[0, 1], [2, 0]])
    array([0.25, 0.  ])
    """
    first, second = np.asarray(pairs).T
    share = (member_scores[first] > member_scores[second]).mean(axis=1)
    disagreement: FloatArray = share * (1.0 - share)
    return disagreement


def _classes(mode: Mode, n_grades: int) -> FloatArray:
    if mode == "pairs":
        return np.array([-1.0, 0.0, 1.0])
    return np.arange(0.0, 101.0, 10.0) if mode == "magnitudes" else np.arange(float(n_grades))


def _column_means(X: FloatArray) -> FloatArray:
    """The mean of each column without NaN; 0 where there is nothing else."""
    known = ~np.isnan(X)
    means: FloatArray = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return means
