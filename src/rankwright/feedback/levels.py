"""Feedback as tuples of arrays for compiled code: rows on levels of queries, and lists of pairs."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback
from rankwright.feedback.grades import Grades, level_pair_sum
from rankwright.feedback.pairs import Bipartite, Pairs

MOST_COPIES = 1e9
MAX_GAIN_GRADE = 60.0  # a higher grade counts as this one: 2 ** grade must stay a number


class Levels(NamedTuple):
    """Documents on the levels of queries: each belongs above all documents of lower levels.

    A level is one grade of one query (grades ascending), a document is a row on a level; with
    several feedbacks a row may be a document of several queries.
    """

    row: IntArray  # (n_documents,) the row of each document
    weight: FloatArray  # (n_documents,) > 0
    level_ptr: IntArray  # (n_levels + 1,) where the documents of each level start
    query_ptr: IntArray  # (n_queries + 1,) where the levels of each query start
    grade: FloatArray  # (n_levels,)
    query_weight: FloatArray  # (n_queries,)
    magnitude: BoolArray  # (n_queries,) whether a pair weighs the difference of its grades
    direct: bool  # whether document k is row k, for all rows

    @property
    def level(self) -> IntArray:
        """(n_documents,) the level of each document."""
        return np.repeat(np.arange(len(self.grade)), np.diff(self.level_ptr))

    @property
    def query(self) -> IntArray:
        """(n_levels,) the query of each level."""
        return np.repeat(np.arange(len(self.query_weight)), np.diff(self.query_ptr))

    @property
    def n_pairs(self) -> int:
        return round(level_pair_sum(np.diff(self.level_ptr), self.query, self.grade))

    @property
    def total_weight(self) -> float:
        mass = np.add.reduceat(self.weight, self.level_ptr[:-1]) if len(self.weight) else self.grade
        magnitude = self.magnitude[self.query]
        return level_pair_sum(mass, self.query, self.grade, self.query_weight, magnitude)

    def row_weights(self, n_rows: int) -> FloatArray:
        """Per row, its weight times the weight of its query, summed over its queries."""
        weight = self.weight * self.query_weight[self.query[self.level]]
        return np.bincount(self.row, weight, n_rows).astype(np.float64)


def copies_of(weight: FloatArray) -> IntArray:
    """How many places of a list a row of each weight takes: the weight, rounded, at least 1."""
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
    def of(cls, levels: Levels) -> Self:
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


class LevelState(NamedTuple):
    """What sums over the pairs of ``Levels`` keep from round to round.

    A document rises with its score where it is the lower of a pair (``rising = w exp(s - high)``)
    and falls with it where it is the upper (``falling = w exp(low - s)``). ``high`` and ``low`` are
    the largest and the smallest score of its level at the last refresh, so nothing overflows.
    """

    high: FloatArray  # (n_levels,)
    low: FloatArray  # (n_levels,)
    rising: FloatArray  # (n_documents,)
    falling: FloatArray  # (n_documents,)
    carry: FloatArray  # (6, n_levels) how sums go from level to level (see link_levels)
    lower_sum: FloatArray  # (n_levels,) sum of rising
    upper_sum: FloatArray  # (n_levels,) sum of falling
    as_upper: FloatArray  # (n_levels,) falling times this: the weight of all pairs as the upper
    as_lower: FloatArray  # (n_levels,) rising times this: the weight of all pairs as the lower
    query_sum: FloatArray  # (n_queries,) the weight of all pairs

    @classmethod
    def empty(cls, levels: Levels) -> Self:
        n, n_levels, n_queries = map(len, (levels.row, levels.grade, levels.query_weight))
        shapes = (n_levels, n_levels, n, n, (6, n_levels), *[n_levels] * 4, n_queries)
        return cls(*(np.zeros(shape) for shape in shapes))


class Move(NamedTuple):
    """One change of all scores, and the unit of the weights after it."""

    h: NDArray[np.uint8]  # (n_rows,) 0 or 1; empty: no score changes
    step: float  # added to the scores of the rows with h = 1
    refresh: bool  # compute everything from the scores instead of updating it
    shift: float  # the logarithm that all weights are divided by
    ratio: float  # exp(shift at the last refresh - shift)


class PairList(NamedTuple):
    lower: IntArray  # (n_pairs,) rows
    upper: IntArray
    weight: FloatArray  # > 0
    share: FloatArray  # the present weight


class Potentials(NamedTuple):
    """Per row (or document): how much its pairs pull it up, and their weight."""

    potential: FloatArray  # weight of the pairs as the upper minus weight as the lower
    mass: FloatArray  # the sum of the two; empty: not computed


def read_feedback(
    feedback: Feedback, n_items: int, key: NDArray[Any] | None = None
) -> tuple[IntArray, Levels, PairList]:
    """The rows that take part in any pair, and the feedback about them.

    Rows are numbered by their position in the first array, those of a level side by side, in the
    order of ``key`` (n_items,) or in that in which they are given.
    """
    terms = list(feedback.terms())
    graded = [term for term in terms if isinstance(term[1], Grades | Bipartite)]
    levels = _join_levels(graded, key)
    lists = [(f * t.weight, t.lower, t.upper) for f, t in terms if isinstance(t, Pairs)]
    none = np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
    weight, lower, upper = map(np.concatenate, zip(none, *lists, strict=True))
    lower, upper, weight = lower[weight > 0], upper[weight > 0], weight[weight > 0]
    used = np.concatenate([levels.row, lower, upper])
    _, first = np.unique(used, return_index=True)
    rows = used[np.sort(first)].astype(np.int64)
    number = np.full(n_items, -1, np.int64)
    number[rows] = np.arange(len(rows))
    row = number[levels.row]
    levels = levels._replace(row=row, direct=np.array_equal(row, np.arange(len(rows))))
    return rows, levels, PairList(number[lower], number[upper], weight, np.zeros(len(weight)))


def count_roles(levels: Levels, pairs: PairList, n_rows: int) -> tuple[int, int]:
    """How many rows are the lower, and how many the upper, of some pair."""
    lower, upper = np.zeros(n_rows, bool), np.zeros(n_rows, bool)
    first, last = levels.query_ptr[:-1], levels.query_ptr[1:] - 1
    lower[pairs.lower] = lower[levels.row[~np.isin(levels.level, last)]] = True
    upper[pairs.upper] = upper[levels.row[~np.isin(levels.level, first)]] = True
    return int(lower.sum()), int(upper.sum())


def integer_sum(values: FloatArray, bound: float) -> float:
    """A sum of numbers >= 0 that is the same in any order, if it is at most ``bound``, 2 ** k."""
    return sum_of_units(unit_sum(values, bound), bound)


def unit_sum(values: FloatArray, bound: float) -> int:
    """The sum in units of ``bound / 2 ** 61``, to which each number is rounded."""
    return int(np.rint(values * (2.0**61 / bound)).astype(np.int64).sum())


def sum_of_units(units: int, bound: float) -> float:
    return units / (2.0**61 / bound)


def power_above(peak: float, n: int) -> float:
    """A power of two that no sum of ``n`` numbers between 0 and ``peak`` exceeds."""
    return float(np.ldexp(1.0, int(np.frexp(peak)[1]) + n.bit_length()))


def pointers(counts: Any) -> IntArray:
    """Where each of several runs starts, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _join_levels(terms: list[tuple[float, Any]], key: NDArray[Any] | None) -> Levels:
    """Several graded feedbacks as one, without documents that are in no pair of positive weight."""
    parts = [_arrays(factor, term) for factor, term in terms] or [_arrays(1.0, Bipartite([], []))]
    n_levels = pointers([len(part[4]) for part in parts])
    n_queries = pointers([len(part[5]) for part in parts])
    row, weight, level, query, grade, query_weight, magnitude = (
        np.concatenate(arrays) for arrays in zip(*parts, strict=True)
    )
    level = level + np.repeat(n_levels[:-1], [len(part[2]) for part in parts])
    query = query + np.repeat(n_queries[:-1], np.diff(n_levels))
    keep = (weight > 0) & (query_weight[query[level]] > 0)
    filled = np.bincount(level[keep], minlength=len(query)) > 0
    n_filled = np.bincount(query[filled], minlength=len(query_weight))
    keep &= n_filled[query[level]] >= 2
    row, weight, level = row[keep], weight[keep], level[keep]
    order = np.argsort(level, kind="stable") if key is None else np.lexsort((key[row], level))
    kept_levels, sizes = np.unique(level, return_counts=True)
    kept_queries, heights = np.unique(query[kept_levels], return_counts=True)
    return Levels(
        row[order],
        weight[order],
        pointers(sizes),
        pointers(heights),
        grade[kept_levels],
        query_weight[kept_queries],
        magnitude[kept_queries],
        False,
    )


def _arrays(factor: float, term: Grades | Bipartite) -> tuple[NDArray[Any], ...]:
    """Documents (row, weight, level), levels (query, grade), queries (weight, magnitude)."""
    if isinstance(term, Grades):
        level, query, grade = term.levels
        magnitude = np.full(len(term.query_weight), term.magnitude)
        rows, weight = np.arange(len(term.y)), factor * term.query_weight
        return rows, term.sample_weight, level, query, grade, weight, magnitude
    rows = np.concatenate([term.lower, term.upper])
    level = np.repeat([0, 1], [len(term.lower), len(term.upper)]).astype(np.int64)
    weight = np.concatenate([term.lower_weight, term.upper_weight])
    query, grade = np.zeros(2, np.int64), np.array([0.0, 1.0])
    return rows, weight, level, query, grade, np.array([factor]), np.zeros(1, bool)
