"""Smooth pair losses (logistic, fidelity), summed over the pairs of a feedback."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.data.vocabulary import hash_rows
from rankwright.exceptions import DataError, FeedbackError, LongListWarning
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.losses import LOSSES
from rankwright.feedback.pairs import Pairs
from rankwright.runtime import FEW_ROWS, map_blocks

if TYPE_CHECKING:
    from rankwright.feedback.pair_weights import GradeGroups

Flags = NDArray[np.uint8]

N_BLOCKS = 8  # fixed, so that the order of additions does not depend on the number of threads
MAX_GRADE = 50  # 2 ** y - 1 stays exact in float64
MAX_GAIN_GRADE = 60.0  # a higher grade counts as this one: 2 ** grade must stay a number
MOST_COPIES = 1e9
LONGEST = 20_000  # rows of a query of which all pairs are summed; of longer ones, a sample
PAIRS_PER_UNIT = 64  # this many pairs of a list count as one query when batches are cut


class Batch(ABC):
    """Some rows and the pair losses among them, in units: queries, or runs of pairs."""

    rows: IntArray

    @property
    @abstractmethod
    def n_units(self) -> int: ...

    @property
    @abstractmethod
    def total_weight(self) -> float:
        """The sum of the weights of all pairs."""

    @abstractmethod
    def take(self, units: IntArray) -> Batch: ...

    @abstractmethod
    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None = None
    ) -> tuple[float, float, FloatArray]:
        """The weighted sum of losses, the sum of weights, and the slope by the scores of ``rows``.

        With ``weighting="NDCG"`` a pair is weighted by the change of NDCG when its rows are swapped
        in the order of these scores (LambdaRank); the slope takes these weights as fixed.
        """

    @abstractmethod
    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        """By how much the loss would fall and rise, to first order, if the rows hit went up.

        The sums of |slope| over the pairs of which one row is hit: for certain preferences, those
        whose upper row is hit, and those whose lower row is.
        """


@dataclass(frozen=True)
class QueryPairs(Batch):
    """Graded rows grouped by query; sums take O(pairs) time."""

    rows: IntArray  # (n,) rows of X, query by query
    ptr: IntArray  # (n_queries + 1,) where each query starts
    grade: FloatArray  # (n,)
    weight: FloatArray  # (n,)
    query_weight: FloatArray  # (n_queries,)
    magnitude: bool  # whether a pair is also weighted by its difference of grades

    @classmethod
    def of(cls, grades: Grades, factor: float = 1.0) -> QueryPairs:
        """Queries with at least one pair; rows of weight zero are left out."""
        n_queries = grades.queries.n_queries
        level, query, _ = grades.levels
        mass = np.bincount(level, grades.sample_weight, len(query))
        n_levels = np.bincount(query[mass > 0], minlength=n_queries)
        used = (n_levels > 1) & (grades.query_weight > 0)
        order = grades.queries.order
        code = grades.queries.codes[order]
        rows = order[used[code] & (grades.sample_weight[order] > 0)]
        sizes = np.bincount(grades.queries.codes[rows], minlength=n_queries)[used]
        grade, weight = grades.y[rows], grades.sample_weight[rows]
        query_weight = factor * grades.query_weight[used]
        return cls(rows, _starts(sizes), grade, weight, query_weight, grades.magnitude)

    @property
    def n_units(self) -> int:
        return len(self.ptr) - 1

    @property
    def group(self) -> IntArray:
        """The query of each row."""
        return np.repeat(np.arange(self.n_units), np.diff(self.ptr))

    def take(self, units: IntArray) -> QueryPairs:
        sizes = np.diff(self.ptr)[units]
        ptr = _starts(sizes)
        index = np.arange(ptr[-1]) - np.repeat(ptr[:-1] - self.ptr[units], sizes)
        rows, grade, weight = self.rows[index], self.grade[index], self.weight[index]
        return QueryPairs(rows, ptr, grade, weight, self.query_weight[units], self.magnitude)

    @cached_property
    def _by_grade(self) -> IntArray:
        """The order of the rows by query and grade."""
        return np.lexsort((self.grade, self.group))

    @cached_property
    def mass(self) -> FloatArray:
        """(n_queries,) the weight of all pairs of each query, but for the query's own weight."""
        order, group = self._by_grade, self.group
        grade, weight = self.grade[order], self.weight[order]
        new = np.ones(len(order), dtype=bool)  # where a level begins
        new[1:] = (grade[1:] != grade[:-1]) | (group[1:] != group[:-1])
        starts, first = np.flatnonzero(new)[np.cumsum(new) - 1], self.ptr[group]
        below = np.concatenate([[0.0], np.cumsum(weight)])
        below_y = np.concatenate([[0.0], np.cumsum(weight * grade)])
        n, total = below[starts] - below[first], below_y[starts] - below_y[first]
        row_mass = weight * (grade * n - total if self.magnitude else n)
        return np.bincount(group, row_mass, self.n_units).astype(np.float64)

    @property
    def total_weight(self) -> float:
        return float(self.query_weight @ self.mass)

    def by_query(self) -> QueryPairs:
        """The same with each query's weight divided by that of all its pairs."""
        mass = np.where(self.mass > 0, self.mass, 1.0)
        return replace(self, query_weight=self.query_weight / mass)

    def sampled(self, X: Matrix) -> QueryPairs:
        """The same with the pairs of long queries sampled, so that a query has at most 2e8.

        A query of m > 20,000 rows is cut into ceil((m / 20,000) ** 2) lists, and a row is compared
        with the rows of its list. Rows go to the lists in turn, in the order of their grades, those
        of a grade in the order of a hash of their content (``X``, grade, weight): each list has the
        same share of each grade, and the order in which rows are given does not matter. Weights are
        scaled so that the pairs of a query weigh as much as before.
        """
        sizes = np.diff(self.ptr)
        if sizes.max(initial=0) <= LONGEST:
            return self
        warnings.warn(
            f"a query has {sizes.max():,} rows. Of queries with more than {LONGEST:,} rows, pairs "
            "are sampled: each row is compared with some of the rows only.",
            LongListWarning,
            stacklevel=5,
        )
        n_lists = np.where(sizes > LONGEST, np.ceil((sizes / LONGEST) ** 2), 1.0).astype(np.int64)
        n_lists = np.minimum(n_lists, sizes)
        group = self.group
        order = np.lexsort((hash_rows(X[self.rows], self.grade, self.weight), self.grade, group))
        turn = (np.arange(len(order)) - self.ptr[group]) % n_lists[group]  # group is sorted
        number = (np.cumsum(n_lists) - n_lists)[group] + turn
        order = order[np.argsort(number, kind="stable")]
        ptr = _starts(np.bincount(number, minlength=int(n_lists.sum())))
        rows, grade, weight = self.rows[order], self.grade[order], self.weight[order]
        query = np.repeat(np.arange(self.n_units), n_lists)
        lists = QueryPairs(rows, ptr, grade, weight, self.query_weight[query], self.magnitude)
        found = np.bincount(query, lists.mass, self.n_units)
        scale = np.where(n_lists > 1, self.mass / np.where(found > 0, found, 1.0), 1.0)
        return replace(lists, query_weight=lists.query_weight * scale[query])

    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None = None
    ) -> tuple[float, float, FloatArray]:
        slope = np.empty(len(scores))
        if weighting == "NDCG":
            value, mass, pull = self._ndcg_sums(scores, loss)
        else:
            value, pull = self._sum(scores, loss, self.weight, self.weight, with_value=True)
            mass = self.total_weight
        slope[self._by_grade] = -pull
        return value, mass, slope

    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        raised, others = self.weight * hit, self.weight * (1 - hit)
        # The sum over the upper rows of the pairs between the rows hit and the others.
        right, wrong = (
            float(np.maximum(self._sum(scores, loss, upper, lower)[1], 0.0).sum())
            for upper, lower in ((raised, others), (others, raised))
        )
        return right, wrong

    def _sum(
        self,
        scores: FloatArray,
        loss: str,
        upper: FloatArray,
        lower: FloatArray,
        with_value: bool = False,
    ) -> tuple[float, FloatArray]:
        """The loss, and minus the slope by the score of each row, in the order ``_by_grade``."""
        from rankwright.feedback._kernels.pair_losses import sum_queries

        order, codes = self._by_grade, (LOSSES[loss].code, self.magnitude, with_value)
        out, queries = np.empty((2, len(scores))), self._queries(upper)
        arguments = scores[order], lower[order], codes, out
        return sum(self._map(lambda block: sum_queries(queries, *block, *arguments))), out[0]

    def _ndcg_sums(self, scores: FloatArray, loss: str) -> tuple[float, float, FloatArray]:
        from rankwright.feedback._kernels.pair_losses import ndcg_sums

        order, codes = self._by_grade, (LOSSES[loss].code, self.magnitude)
        pull, queries = np.zeros(len(scores)), self._queries(self.weight)
        arguments = scores[order], ndcg_gains(self.grade)[order], codes, pull
        sums = self._map(lambda block: ndcg_sums(queries, *block, *arguments))
        return sum(value for value, _ in sums), sum(mass for _, mass in sums), pull

    def _queries(self, weight: FloatArray) -> Any:
        from rankwright.feedback._kernels.pair_losses import GradedQueries

        order = self._by_grade
        return GradedQueries(self.ptr, self.grade[order], weight[order], self.query_weight)

    def _map(self, function: Callable[[tuple[int, int]], Any]) -> list[Any]:
        """A function of blocks of queries, on several threads if there are many rows."""
        cuts = np.linspace(0, self.n_units, min(N_BLOCKS, self.n_units) + 1).astype(int)
        threads = 1 if len(self.grade) < FEW_ROWS else None
        return map_blocks(function, pairwise(cuts.tolist()), threads)


def _starts(sizes: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)


def ndcg_gains(grade: FloatArray) -> FloatArray:
    """2 ** grade - 1, what a grade is worth to NDCG.

    >>> ndcg_gains(np.array([0.0, 1.0, 3.0]))
    array([0., 1., 7.])
    """
    if len(grade) and (grade.min() < 0 or grade.max() > MAX_GRADE):
        raise DataError(
            "weighting='NDCG' counts a grade y as a gain of 2 ** y - 1 and found grades from "
            f"{grade.min():g} to {grade.max():g}: they must lie in 0 .. {MAX_GRADE}."
        )
    return np.asarray(np.exp2(grade) - 1.0)


def copies_of(weight: FloatArray) -> IntArray:
    """How many positions of a list a row of each weight takes: its weight, rounded, at least 1."""
    copies = np.maximum(np.rint(weight), 1.0)
    if copies.sum() > MOST_COPIES:
        raise FeedbackError(
            "a weight of w counts as w rows, and the weights add up to "
            f"{copies.sum():.3g} rows; at most {MOST_COPIES:g} are supported. Divide the weights "
            "by a constant."
        )
    return copies.astype(np.int64)


def check_gains(grade: FloatArray, gain: FloatArray) -> None:
    """Raise a FeedbackError if different grades all have the same gain."""
    if len(grade) and grade.min() < grade.max() and gain.min() == gain.max():
        raise FeedbackError(
            f"the grades from {grade.min():g} to {grade.max():g} all have the gain {gain.min():g}, "
            f"2 ** grade - 1 (a grade above {MAX_GAIN_GRADE:g} counts as {MAX_GAIN_GRADE:g}). Use "
            "grades such as 0, 1, 2, 3."
        )


class NdcgGains(NamedTuple):
    """What NDCG counts: the list positions of each document, and the gain of each level."""

    copies: IntArray  # (n_documents,) a document of weight 2 takes two positions
    gain: FloatArray  # (n_levels,) (2 ** grade - 1) / ideal DCG of the query

    @classmethod
    def of(cls, levels: GradeGroups) -> Self:
        copies = copies_of(levels.weight)
        if not len(levels.grade):
            return cls(copies, levels.grade)
        # Grades below zero would have negative gains: count from the lowest instead.
        grade = levels.grade - min(0.0, levels.grade.min())
        gain = np.exp2(np.minimum(grade, MAX_GAIN_GRADE)) - 1.0
        check_gains(levels.grade, gain)
        query, level = levels.query, np.repeat(levels.level, copies)
        ends = np.cumsum(np.bincount(query[level], minlength=len(levels.query_weight)))
        position = ends[query[level]] - np.arange(len(level))  # the best grade comes first
        ideal = np.bincount(query[level], gain[level] / np.log2(position + 1.0))
        return cls(copies, np.asarray(gain / ideal[query]))


@dataclass(frozen=True)
class PairBatch(Batch):
    """Pairs given one by one, as indices into ``rows``."""

    rows: IntArray
    lower: IntArray
    upper: IntArray
    weight: FloatArray
    target: FloatArray  # the probability that upper belongs above lower

    @classmethod
    def of(
        cls, lower: IntArray, upper: IntArray, weight: FloatArray, target: FloatArray
    ) -> PairBatch:
        """Pairs of rows; those of weight zero are left out."""
        used = weight > 0
        rows, index = np.unique(np.stack([lower[used], upper[used]]), return_inverse=True)
        below, above = index.reshape(2, -1)
        return cls(rows, below, above, weight[used], target[used])

    @property
    def n_units(self) -> int:
        return -(-len(self.weight) // PAIRS_PER_UNIT)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())

    def take(self, units: IntArray) -> PairBatch:
        pairs = (units[:, None] * PAIRS_PER_UNIT + np.arange(PAIRS_PER_UNIT)).ravel()
        pairs = pairs[pairs < len(self.weight)]
        lower, upper = self.rows[self.lower[pairs]], self.rows[self.upper[pairs]]
        return self.of(lower, upper, self.weight[pairs], self.target[pairs])

    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None = None
    ) -> tuple[float, float, FloatArray]:
        difference = scores[self.upper] - scores[self.lower]
        value, derivative = LOSSES[loss].at(difference, self.target)
        pull, n = self.weight * derivative, len(scores)
        slope = np.bincount(self.upper, pull, n).astype(np.float64)
        slope -= np.bincount(self.lower, pull, n)
        return float(self.weight @ value), self.total_weight, slope

    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        difference = scores[self.upper] - scores[self.lower]
        pull = -self.weight * LOSSES[loss].at(difference, self.target)[1]
        # A pair whose chance is above its target already pulls its upper row down.
        pull *= hit[self.upper].astype(np.float64) - hit[self.lower]
        return float(pull[pull > 0].sum()), float(-pull[pull < 0].sum())


def all_batches(
    feedback: Feedback, weighting: str | None, X: Matrix, *, by_query: bool = False
) -> list[Batch]:
    """One batch for each simple feedback in the sum; those without pairs are left out.

    Pairs of long queries are sampled by the content of the rows ``X``, unless there is a weighting.
    ``by_query`` gives all queries the same weight, however many pairs they have.
    """
    batches: list[Batch] = []
    for factor, term in feedback.terms():
        if isinstance(term, Grades):
            pairs = QueryPairs.of(term, factor)
            pairs = pairs.by_query() if by_query else pairs
            batches.append(pairs.sampled(X) if weighting is None else pairs)
        elif isinstance(term, Pairs):
            if weighting is not None:
                raise FeedbackError(
                    f"weighting={weighting!r} needs grades: a pair gives the better of two "
                    "rows, but not how good they are. Use weighting=None."
                )
            weight = factor * term.weight
            batches.append(PairBatch.of(term.lower, term.upper, weight, term.confidence))
    return [batch for batch in batches if batch.n_units]
