"""The distribution over pairs that boosting keeps, without keeping the pairs.

A pair weighs ``D(lower, upper) exp(H(lower) - H(upper))`` with scores H. For graded rows that
factorizes over the levels of a query: potentials cost O(rows + levels), lists of pairs O(pairs).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.vocabulary import Hashes
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback, Grades, level_pair_sum
from rankwright.feedback.pair_losses import NdcgGains
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.runtime import Team, ranges

Binary = NDArray[np.uint8]  # values 0 and 1
Curve = Callable[[float], tuple[float, ...]]  # Z and two derivatives at a weight alpha
NO_CHANGE: Binary = np.zeros(0, np.uint8)

MAX_BOUNDED = 2.0  # the largest step after which the weight of all pairs is bounded by the step
MAX_TRAVEL, MAX_MOVES = 64.0, 50  # sum of steps and moves before a refresh from the scores


class GradeGroups(NamedTuple):
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


class LevelState(NamedTuple):
    """What sums over the pairs of ``GradeGroups`` keep from round to round.

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
    def empty(cls, levels: GradeGroups) -> Self:
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
) -> tuple[IntArray, GradeGroups, PairList]:
    """The rows that are in some pair, and the feedback about them.

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


def count_roles(levels: GradeGroups, pairs: PairList, n_rows: int) -> tuple[int, int]:
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


def pointers(counts: ArrayLike) -> IntArray:
    """Where each of several runs starts, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _join_levels(terms: list[tuple[float, Any]], key: NDArray[Any] | None) -> GradeGroups:
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
    return GradeGroups(
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


class PairDistribution:
    """Pairs weighted by a feedback and by how badly the scores so far order them.

    Rows that are in no pair are left out; the others are numbered such that those of a level are
    side by side: ``rows[i]`` is the row of X that is number i here.

    Parameters
    ----------
    feedback : Feedback
    n_items : int, the number of rows of X
    pool : Team, optional
    key : (n_items,) array, optional
        Rows of a level are in its order, so that sums do not depend on the order of X.
    weighting : None or "NDCG"
        With "NDCG", potentials, masses and total count each pair times what exchanging its rows
        would change NDCG by (for tied rows: on average over their orders).

    Attributes
    ----------
    rows : (n_rows,) int64
    parts : list of (start, stop), ranges of rows that do not depend on the number of threads
    scores : (n_rows,) float64, the scores so far
    potential : (n_rows,) float64, the weight of the pairs that pull a row up minus that of those
        that pull it down; divided by ``total`` it is the paper's pi
    mass : (n_rows,) float64, the sum of the two; empty if it is not needed
    count : (n_rows,) float64, how many rows a row counts as: its weight, but at least one
    total : float, the weight of all pairs divided by that one move ago: the Z of that move
    unit : float, the logarithm that potentials, masses and the total are divided by
    shift : float, ``unit`` plus the logarithm of the total
    log_weight : float, log of the weight of all pairs, at first 0: that of the product of all Z
    whole : float, the sum of all potentials
    bound : float, a power of two that the total does not exceed, known before it
    """

    whole, bound = 0.0, 1.0

    def __init__(
        self,
        feedback: Feedback,
        n_items: int,
        pool: Team | None = None,
        *,
        key: Hashes | None = None,
        weighting: str | None = None,
    ) -> None:
        from rankwright.feedback import _kernels  # loads numba

        self._kernels, self._pool = _kernels, pool or Team(1)
        self.rows, self.levels, self.pairs = read_feedback(feedback, n_items, key)
        self.state = LevelState.empty(self.levels)
        self.weight = self.levels.total_weight + float(self.pairs.weight.sum())
        if not np.isfinite(self.weight):
            raise FeedbackError(
                "the weights of the preferences add up to infinity. Divide them by a constant."
            )
        n = len(self.rows)
        self.n_pairs = self.levels.n_pairs + len(self.pairs.lower)
        self.n_lower, self.n_upper = count_roles(self.levels, self.pairs, n)
        self._query_parts = _query_parts(self.levels)
        self.parts = ranges(n, _n_parts(n))
        if self.levels.direct:
            starts = self.levels.level_ptr[self.levels.query_ptr].tolist()
            self.parts = [(starts[first], starts[last]) for first, last in self._query_parts]
        self.count = np.maximum(self.levels.row_weights(n), 1.0)
        self._ndcg = NdcgGains.of(self.levels) if weighting == "NDCG" else None
        self.scores, self.potential, self.mass = np.zeros(n), np.zeros(n), np.zeros(n)
        self.log_weight, self.total, self.unit = 0.0, 1.0, 0.0
        self.shift = self._first_shift = float(np.log(self.weight)) if self.weight > 0 else 0.0
        self._refresh_shift = self.shift
        self._travel, self._moves = np.inf, 0
        if self.weight > 0:
            self._update(NO_CHANGE, 0.0)
            self._first_shift, self.log_weight = self.shift, 0.0

    def move(
        self, h: Binary | FloatArray, step: float, then: Callable[[int], None] | None = None
    ) -> None:
        """Add ``step * h`` to the scores; where h is binary (uint8), this needs no exponentials.

        ``then`` is called with the number of each part when the potentials of its rows are known.
        """
        if h.dtype != np.uint8:
            self._travel = np.inf
        if h.dtype != np.uint8 or not self.levels.direct:  # otherwise the kernel moves the scores
            self.scores += step * h
        self._update(h if h.dtype == np.uint8 else NO_CHANGE, step, then)

    def move_to(self, scores: FloatArray) -> None:
        """Make these the scores."""
        self.scores[:] = scores
        self._travel = np.inf
        self._update(NO_CHANGE, 0.0)

    def curve(self, h: FloatArray, start: FloatArray | float = 0.0) -> Curve:
        """The function a -> weight of all pairs if scores moved by ``start + a * h``, with two
        derivatives.

        The unit is the present weight. Each call costs O(rows + pairs).
        """

        def curve(alpha: float) -> tuple[float, ...]:
            scores, kernels = self.scores + start + alpha * h, self._kernels.levels
            sums = kernels.level_curve(scores, h, self.levels, self.shift)
            return self._add_pairs(sums, kernels.pair_curve, scores, h, self.pairs, self.shift)

        return curve

    def leaf_curve(self, leaf: NDArray[np.int32], value: FloatArray) -> Curve:
        """As ``curve`` for values of leaves: O(rows + pairs) once, then O(levels * leaves)."""
        n = len(value)
        value = value - (value.max() + value.min()) / 2  # only differences count: keep powers small
        sums = np.empty((len(self.levels.grade), n, 2))
        self._kernels.levels.sum_leaves(leaf, self.levels, self.state, sums)
        ratio = float(np.exp(self._refresh_shift - self.shift))
        cell = leaf[self.pairs.lower] * n + leaf[self.pairs.upper]
        share = np.bincount(cell, self.pairs.share, n * n).reshape(n, n) / self.total
        gap = np.subtract.outer(value, value)

        def curve(alpha: float) -> tuple[float, ...]:
            arrays = self.levels, self.state.carry, ratio
            by_level = self._kernels.levels.leaf_curve(sums, value, alpha, *arrays)
            moved = share * np.exp(alpha * gap)
            by_pair = moved.sum(), (moved * gap).sum(), (moved * gap * gap).sum()
            return tuple(float(a + b) for a, b in zip(by_level, by_pair, strict=True))

        return curve

    def split(self, h: Binary) -> tuple[float, float]:
        """Shares of the pairs with h(upper) > h(lower), and with h(upper) < h(lower)."""
        kernels = self._kernels.levels
        sums = kernels.level_split(h, self.levels, self.state, self.unit)
        right, wrong = self._add_pairs(sums, kernels.pair_split, h, self.pairs)
        return right / self.total, wrong / self.total

    def disorder(self, scores: FloatArray | None = None) -> tuple[float, float]:
        """The shares of the pairs in the wrong order and of tied ones, as first weighted.

        The ranking loss is the first plus half the second (eq. 21), or plus all of it (eq. 1).
        """
        if self.weight == 0:
            return 0.0, 0.0
        scores = self.scores if scores is None else scores
        wrong, tied = self._kernels.levels.level_disorder(scores, self.levels)
        lower, upper = scores[self.pairs.lower], scores[self.pairs.upper]
        order = 2 * (lower > upper) + (lower == upper)  # 0 right, 1 tied, 2 wrong
        more = np.bincount(order, self.pairs.weight, 3)
        return float(wrong + more[2]) / self.weight, float(tied + more[1]) / self.weight

    def _add_pairs(self, sums: Any, kernel: Any, *arguments: Any) -> tuple[float, ...]:
        """Sums over the levels plus those that a kernel returns for the list of pairs."""
        if not len(self.pairs.lower):
            return tuple(sums)
        return tuple(a + b for a, b in zip(sums, kernel(*arguments), strict=True))

    def _next_move(self, h: Any, step: float) -> Move:
        """How scores move by ``step * h``, and in which unit weights are afterwards."""
        # Repeated products accumulate rounding errors: recompute them from the scores regularly.
        self._travel += abs(step)
        self._moves += 1
        refresh = self._travel > MAX_TRAVEL or self._moves >= MAX_MOVES
        if refresh:
            self._travel, self._moves, self._refresh_shift = 0.0, 0, self.shift
        # A pair changes by a factor of exp(step) at most, and all pairs weighed 1. A bound far
        # above the weight costs bits of sums: after a large step it is taken from the weights.
        self.bound = 0.0
        if h.size and abs(step) <= MAX_BOUNDED:
            self.bound = float(np.exp2(np.ceil(abs(step) / np.log(2.0)) + 1.0))
        ratio = float(np.exp(self._refresh_shift - self.shift))
        return Move(h, step, refresh, self.shift, ratio)

    def _arrive(self, total: float) -> None:
        """Take the weight of all pairs after a move as the new unit."""
        self.total, self.unit = total, self.shift
        self.shift += float(np.log(self.total))
        self.log_weight = self.shift - self._first_shift

    def _update(self, h: Any, step: float, then: Callable[[int], None] | None = None) -> None:
        """Recompute potentials, masses and the total after scores moved by ``step * h``."""
        move = self._next_move(h, step)
        kernels, levels, state = self._kernels.levels, self.levels, self.state
        by_row = out = Potentials(self.potential, self.mass)
        if not levels.direct:  # a row is several documents: potentials are summed afterwards
            n = len(levels.row)
            out = Potentials(np.zeros(n), np.zeros(n if self.mass.size else 0))
        has_pairs = len(self.pairs.lower) > 0
        at_once = self._ndcg is None and levels.direct and not has_pairs and self.bound > 0

        def update_part(part: int) -> None:
            kernels.level_potentials(
                self.scores, move, levels, state, *self._query_parts[part], out
            )
            if then is not None and at_once:
                then(part)

        self._pool.map(update_part, range(len(self._query_parts)))
        self._add_up(out)
        more = 0.0
        if has_pairs:
            more = kernels.pair_potentials(self.scores, self.pairs, self.shift, by_row)
        if not self.bound:
            peak = max(state.query_sum.max(initial=0.0), self.pairs.share.max(initial=0.0))
            self.bound = power_above(peak, len(state.query_sum) + len(self.pairs.lower))
        self._arrive(integer_sum(state.query_sum, self.bound) + more)
        if self._ndcg is not None:
            weigh, inputs = self._kernels.ndcg.ndcg_potentials, (levels, state, self._ndcg)
            self._pool.map(
                lambda part: weigh(self.scores, *inputs, *part, self.unit, out), self._query_parts
            )
            self._add_up(out)
            self.total = integer_sum(state.query_sum, self.bound)
        if then is not None and not at_once:
            self._pool.map(then, range(len(self.parts)))

    def _add_up(self, by_document: Potentials) -> None:
        """Potentials of rows from those of documents."""
        if not self.levels.direct:
            for values, out in zip(by_document, (self.potential, self.mass), strict=True):
                out[:] = np.bincount(self.levels.row[: len(values)], values, len(out))


def _query_parts(levels: GradeGroups) -> list[tuple[int, int]]:
    """Ranges of queries with about as many documents each."""
    ends = levels.level_ptr[levels.query_ptr[1:]]
    n = len(levels.row)
    stops = np.searchsorted(ends, [stop for _, stop in ranges(n, _n_parts(n))])
    cuts = np.unique(np.concatenate([[0], stops + 1]).clip(0, len(ends)))
    cuts[-1:] = len(ends)
    return list(pairwise(cuts.tolist()))


def _n_parts(n_rows: int) -> int:
    return max(1, min(16, n_rows // 25_000))  # so large that sums over parts cost little
