"""Some queries, or some pairs, and the smooth pair losses among their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError, FeedbackError
from rankwright.feedback.base import Feedback
from rankwright.feedback.grades import Grades
from rankwright.feedback.pairs import Pairs
from rankwright.parallel import map_blocks

PairLoss = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

N_BLOCKS = 8  # fixed, so that the order of additions does not depend on the number of threads
MAX_GRADE = 50  # 2 ** y - 1 stays exact in float64


def cross_entropy(difference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """-log P and its derivative.

    >>> value, slope = cross_entropy(np.array([0.0]))
    >>> value.round(4), slope
    (array([0.6931]), array([-0.5]))
    """
    return np.logaddexp(0.0, -difference), -_chance(-difference)


def fidelity(difference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """1 - sqrt(P) and its derivative.

    >>> value, slope = fidelity(np.array([-1000.0, 0.0]))
    >>> value.round(4), slope.round(4) + 0.0
    (array([1.    , 0.2929]), array([ 0.    , -0.1768]))
    """
    root = np.sqrt(_chance(difference))
    return 1.0 - root, -0.5 * root * _chance(-difference)


def _chance(difference: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-np.logaddexp(0.0, -difference)))


# name -> (the loss, its number in the compiled loops)
LOSSES: dict[str, tuple[PairLoss, int]] = {
    "cross_entropy": (cross_entropy, 0),
    "fidelity": (fidelity, 1),
}


@dataclass(frozen=True)
class QueryPairs:
    """Graded rows grouped by query, ready for sums of a loss over their pairs.

    The sums cost O(pairs), as these losses do not split into sums over rows; nothing of that size
    is stored.

    Attributes
    ----------
    rows : (n,) rows of X, query by query
    ptr : (n_queries + 1,)
    grade, weight : (n,)
    query_weight : (n_queries,)
    magnitude : whether a pair also counts by its difference of grades
    """

    rows: IntArray
    ptr: IntArray
    grade: FloatArray
    weight: FloatArray
    query_weight: FloatArray
    magnitude: bool

    @classmethod
    def of(cls, grades: Grades, factor: float = 1.0) -> QueryPairs:
        """Queries with at least one pair; rows of weight zero are left out."""
        n_queries = grades.queries.n_queries
        level, query, _ = grades.levels
        mass = np.bincount(level, grades.sample_weight, len(query))
        n_levels = np.bincount(query[mass > 0], minlength=n_queries)
        wanted = (n_levels > 1) & (grades.query_weight > 0)
        order = grades.queries.order
        code = grades.queries.codes[order]
        rows = order[wanted[code] & (grades.sample_weight[order] > 0)]
        sizes = np.bincount(grades.queries.codes[rows], minlength=n_queries)[wanted]
        return cls(
            rows,
            np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64),
            grades.y[rows],
            grades.sample_weight[rows],
            factor * grades.query_weight[wanted],
            grades.magnitude,
        )

    @property
    def n_queries(self) -> int:
        return len(self.ptr) - 1

    @property
    def _arrays(self) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, bool]:
        """The fields of GradedQueries."""
        return self.ptr, self.grade, self.weight, self.query_weight, self.magnitude

    def take(self, queries: IntArray) -> QueryPairs:
        """Some of the queries."""
        sizes = np.diff(self.ptr)[queries]
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)
        index = np.arange(ptr[-1]) - np.repeat(ptr[:-1] - self.ptr[queries], sizes)
        return QueryPairs(
            self.rows[index],
            ptr,
            self.grade[index],
            self.weight[index],
            self.query_weight[queries],
            self.magnitude,
        )

    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None = None
    ) -> tuple[float, float, FloatArray]:
        """The weighted sum of losses, the sum of the weights, and the slope by score.

        ``scores`` are those of ``rows``. With ``weighting="ndcg"`` a pair counts by what NDCG
        changes when its two rows change places in the order of these scores (LambdaRank); the
        slope is then that of the loss with the weights held.
        """
        from rankwright.feedback._kernels import pair_losses as _kernels

        slope, code = np.zeros(len(scores)), LOSSES[loss][1]
        gain = ndcg_gains(self.grade) if weighting == "ndcg" else np.zeros(0)
        queries = _kernels.GradedQueries(*self._arrays)
        cuts = np.linspace(0, self.n_queries, min(N_BLOCKS, self.n_queries) + 1).astype(int)

        def work(block: tuple[int, int]) -> tuple[float, float]:
            found: tuple[float, float] = _kernels.pair_loss_sums(
                scores, queries, *block, gain, code, slope
            )
            return found

        found = map_blocks(work, pairwise(cuts))
        return sum(value for value, _ in found), sum(weight for _, weight in found), slope

    def split(self, scores: FloatArray, h: NDArray[np.uint8], loss: str) -> tuple[float, float]:
        """Sums of |slope| over the pairs that h orders rightly, and over those that it reverses."""
        from rankwright.feedback._kernels import pair_losses as _kernels

        code, queries = LOSSES[loss][1], _kernels.GradedQueries(*self._arrays)
        cuts = np.linspace(0, self.n_queries, min(N_BLOCKS, self.n_queries) + 1).astype(int)

        def work(block: tuple[int, int]) -> tuple[float, float]:
            found: tuple[float, float] = _kernels.pair_slope_split(scores, h, queries, *block, code)
            return found

        found = map_blocks(work, pairwise(cuts))
        return sum(right for right, _ in found), sum(wrong for _, wrong in found)

    def by_query(self) -> QueryPairs:
        """The same with each query's weight divided by that of all its pairs."""
        group = np.repeat(np.arange(self.n_queries), np.diff(self.ptr))
        order = np.lexsort((self.grade, group))
        grade, weight = self.grade[order], self.weight[order]
        new = np.ones(len(order), dtype=bool)  # where a level begins
        new[1:] = (grade[1:] != grade[:-1]) | (group[1:] != group[:-1])
        level = np.cumsum(new) - 1
        below = np.concatenate([[0.0], np.cumsum(weight)])[:-1]
        below_y = np.concatenate([[0.0], np.cumsum(weight * grade)])[:-1]
        starts = np.flatnonzero(new)[level]
        first = self.ptr[group]
        n, total = below[starts] - below[first], below_y[starts] - below_y[first]
        each = weight * (grade * n - total if self.magnitude else n)
        mass = np.bincount(group, each, self.n_queries)
        return replace(self, query_weight=self.query_weight / np.where(mass > 0, mass, 1.0))


def ndcg_gains(grade: FloatArray) -> FloatArray:
    """2 ** grade - 1, what a grade is worth to NDCG.

    >>> ndcg_gains(np.array([0.0, 1.0, 3.0]))
    array([0., 1., 7.])
    """
    if len(grade) and (grade.min() < 0 or grade.max() > MAX_GRADE):
        raise DataError(
            "weighting='ndcg' counts a grade y as a gain of 2 ** y - 1 and found grades from "
            f"{grade.min():g} to {grade.max():g}: they must lie in 0 .. {MAX_GRADE}."
        )
    return np.asarray(np.exp2(grade) - 1.0)


Flags = NDArray[np.uint8]

PAIRS_PER_QUERY = 64  # so many pairs of a list count as one query when batches are cut


class Batch(ABC):
    """Some rows, and the pair losses among them."""

    rows: IntArray

    @property
    @abstractmethod
    def n_units(self) -> int:
        """How many queries, or runs of pairs, it holds."""

    @abstractmethod
    def take(self, units: IntArray) -> Batch:
        """Some of its queries, or runs of pairs."""

    @abstractmethod
    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None
    ) -> tuple[float, float, FloatArray]:
        """Sum of losses, of weights, and the slope by the scores of ``rows``."""

    @abstractmethod
    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        """By how much the loss would fall and rise, to first order, if the rows hit went up.

        The sums of |slope| over the pairs whose upper row alone is hit, and whose lower row is.
        """


def all_batches(
    feedback: Feedback, weighting: str | None, *, by_query: bool = False
) -> list[Batch]:
    """One batch for each simple feedback in the sum; those without pairs are left out.

    ``by_query`` gives all queries the same weight, however many pairs they have.
    """
    found: list[Batch] = []
    for factor, term in feedback.terms():
        if isinstance(term, Grades):
            pairs = QueryPairs.of(term, factor)
            found.append(QueryBatch(pairs.by_query() if by_query else pairs))
        elif isinstance(term, Pairs):
            if weighting is not None:
                raise FeedbackError(
                    f"weighting={weighting!r} needs grades: pairs say which of two rows is better "
                    "and not how good they are. Use weighting=None."
                )
            found.append(PairBatch.of(term.lower, term.upper, factor * term.weight))
    return [batch for batch in found if batch.n_units]


class QueryBatch(Batch):
    def __init__(self, pairs: QueryPairs) -> None:
        self.pairs, self.rows = pairs, pairs.rows

    @property
    def n_units(self) -> int:
        return self.pairs.n_queries

    def take(self, units: IntArray) -> QueryBatch:
        return QueryBatch(self.pairs.take(units))

    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None
    ) -> tuple[float, float, FloatArray]:
        return self.pairs.sums(scores, loss, weighting)

    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        return self.pairs.split(scores, hit, loss)


@dataclass(frozen=True)
class PairBatch(Batch):
    """Pairs of places among ``rows``."""

    rows: IntArray
    lower: IntArray
    upper: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, lower: IntArray, upper: IntArray, weight: FloatArray) -> PairBatch:
        """Pairs of rows; those of weight zero are left out."""
        used = weight > 0
        rows, place = np.unique(np.stack([lower[used], upper[used]]), return_inverse=True)
        below, above = place.reshape(2, -1)
        return cls(rows, below, above, weight[used])

    @property
    def n_units(self) -> int:
        return -(-len(self.weight) // PAIRS_PER_QUERY)

    def take(self, units: IntArray) -> PairBatch:
        pairs = (units[:, None] * PAIRS_PER_QUERY + np.arange(PAIRS_PER_QUERY)).ravel()
        pairs = pairs[pairs < len(self.weight)]
        return self.of(
            self.rows[self.lower[pairs]], self.rows[self.upper[pairs]], self.weight[pairs]
        )

    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None
    ) -> tuple[float, float, FloatArray]:
        value, bend = LOSSES[loss][0](scores[self.upper] - scores[self.lower])
        pull = self.weight * bend
        slope = np.zeros(len(scores))
        slope += np.bincount(self.upper, pull, len(scores))
        slope -= np.bincount(self.lower, pull, len(scores))
        return float(self.weight @ value), float(self.weight.sum()), slope

    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        _, bend = LOSSES[loss][0](scores[self.upper] - scores[self.lower])
        up, low = hit[self.upper].astype(bool), hit[self.lower].astype(bool)
        pull = -self.weight * bend
        return float(pull[up & ~low].sum()), float(pull[low & ~up].sum())
