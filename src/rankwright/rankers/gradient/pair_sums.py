"""The squared hinge over all pairs of a feedback: value, gradient and curvature from scores.

No pair of grades is ever written out. With margin M the loss of a pair is (M - d)^2 where its
difference of scores d is below M; the plain hinge smoothed over a width is a difference of two of
these (see ``newton.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pair_losses import ndcg_gains
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.runtime import FEW_ROWS, map_blocks

Factors = list[tuple[FloatArray, FloatArray]]  # (as the upper of a pair, as the lower)

N_BLOCKS = 16  # fixed: the order of additions must not depend on the number of threads


@dataclass(frozen=True)
class GradedPairs:
    """Rows grouped by query, with their level there and their weight factors."""

    rows: IntArray  # (n,) rows of X; a row may be in several groups
    ptr: IntArray  # (n_groups + 1,) where each group starts
    level: IntArray  # (n,) 1 .. the number of levels of the group, the higher the better
    upper: FloatArray  # (n_factors, n)
    lower: FloatArray  # (n_factors, n)
    weight: float  # of all pairs together

    @classmethod
    def concat(cls, parts: Sequence[GradedPairs]) -> GradedPairs:
        """All groups of several; the parts have equally many factors."""

        def joined(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts], axis=-1)

        starts = np.cumsum([0, *(len(part.rows) for part in parts)])
        ptrs = [start + part.ptr[1:] for start, part in zip(starts, parts, strict=False)]
        ptr = np.concatenate([np.zeros(1, np.int64), *ptrs])
        weight = sum(part.weight for part in parts)
        rows, level, upper, lower = map(joined, ("rows", "level", "upper", "lower"))
        return cls(rows, ptr, level, upper, lower, weight)


def from_grades(grades: Grades, factor: float, weighting: str | None) -> GradedPairs:
    """The pairs of graded rows; queries with one level only are left out."""
    level, query, grade = grades.levels
    queries = grades.queries
    n_levels = np.bincount(query, minlength=queries.n_queries)
    first_level = np.cumsum(n_levels) - n_levels
    rows = queries.order[n_levels[queries.codes[queries.order]] > 1]
    code = queries.codes[rows]
    sizes = queries.sizes[n_levels > 1]
    own_weight = grades.sample_weight[rows]
    factors: Factors = [(factor * own_weight * grades.query_weight[code], own_weight)]
    if grades.magnitude:
        gap = grades.y[rows] - grade[first_level[code]]
        factors = _product(factors, [(gap, np.ones(len(rows))), (np.full(len(rows), -1.0), gap)])
    if weighting == "NDCG":
        mass = np.bincount(level, grades.sample_weight, len(query)).astype(np.float64)
        factors = _product(factors, _ndcg_factors(mass, query, grade, level[rows]))
    own_level = level[rows] - first_level[code] + 1
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)
    upper, lower = (np.array(side) for side in zip(*factors, strict=True))
    weight = sum(_weight(*pair, own_level, ptr) for pair in factors)
    return GradedPairs(rows, ptr, own_level, upper, lower, max(float(weight), 0.0))


def from_bipartite(sets: Bipartite, factor: float, weighting: str | None) -> GradedPairs:
    """Two sets as levels 1 and 2 of one group."""
    rows = np.concatenate([sets.lower, sets.upper])
    y = np.repeat([0.0, 1.0], [len(sets.lower), len(sets.upper)])
    weights = np.concatenate([sets.lower_weight, sets.upper_weight])
    pairs = from_grades(Grades(y, sample_weight=weights), factor, weighting)
    return replace(pairs, rows=rows[pairs.rows])


def level_discounts(mass: FloatArray, query: IntArray) -> FloatArray:
    """The mean discount of the positions that each level has when its query is in ideal order.

    ``mass`` counts the rows of each level (levels by query, worst first; weights count as copies).
    Position p has the discount 1 / log2(p + 1); a fraction of a position counts as that fraction.

    >>> level_discounts(np.array([1.0, 2.0]), np.array([0, 0])).round(4)  # positions 3, 1 and 2
    array([0.5   , 0.8155])
    """
    above = np.cumsum(mass[::-1])[::-1]  # rows of this level and all before it in reverse order
    last_of_query = np.searchsorted(query, query, side="right") - 1
    stop = above - above[last_of_query] + mass[last_of_query]
    start = np.maximum(stop - mass, 0.0)
    n_positions = int(np.ceil(stop.max(initial=0.0))) + 1
    running = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, n_positions + 2)))])
    total = np.interp([start, stop], np.arange(len(running)), running)
    return np.asarray((total[1] - total[0]) / np.where(mass > 0, mass, 1.0))


def _ndcg_factors(mass: FloatArray, query: IntArray, grade: FloatArray, level: IntArray) -> Factors:
    """``ndcg_change`` of two rows in the ideal order, as a sum of four products for the sweep."""
    gain, discount = ndcg_gains(grade), level_discounts(mass, query)
    ideal = np.bincount(query, mass * gain * discount)[query] if len(query) else gain
    gain = gain / np.where(ideal > 0, ideal, 1.0)
    g, d, one = gain[level], discount[level], np.ones(len(level))
    return [(g * d, one), (-g, d), (-d, g), (one, g * d)]


def _product(left: Factors, right: Factors) -> Factors:
    return [(a * c, b * d) for a, b in left for c, d in right]


def _weight(upper: FloatArray, lower: FloatArray, level: IntArray, ptr: IntArray) -> float:
    """The sum of upper_i * lower_j over the pairs: i of a higher level than j in its group."""
    if not len(level):
        return 0.0
    n_levels = np.maximum.reduceat(level, ptr[:-1])
    first = np.cumsum(n_levels) - n_levels
    number = np.repeat(first, np.diff(ptr)) + level - 1  # levels of all groups, numbered on
    above, below = np.bincount(number, upper), np.bincount(number, lower)
    running = np.cumsum(below) - below
    return float(above @ (running - np.repeat(running[first], n_levels)))


@dataclass(frozen=True)
class PairSumsAt:
    """The pair sums at given scores."""

    hinge: float  # sum of M - d over the pairs with d < M
    squared: float  # ... and of (M - d)^2
    slope: FloatArray  # (n_items,) derivative of ``squared``
    curvature: FloatArray  # (n_items,) half the diagonal of its second derivative
    product: Callable[[FloatArray], FloatArray]  # v -> (half the Hessian) @ v


class PairSums(ABC):
    """Sums over weighted pairs (upper, lower) of rows 0 .. n_items - 1."""

    weight: float  # of all pairs together

    @abstractmethod
    def at(self, scores: FloatArray, margin: float) -> PairSumsAt: ...


def pair_sums(feedback: Feedback, n_items: int, weighting: str | None = None) -> PairSums:
    """The pairs of a feedback (grades, bipartite, pairs, or sums of them), ready for summing."""
    graded: list[GradedPairs] = []
    sums: list[PairSums] = []
    for factor, term in feedback.terms():
        if isinstance(term, Grades):
            graded.append(from_grades(term, factor, weighting))
        elif isinstance(term, Bipartite):
            graded.append(from_bipartite(term, factor, weighting))
        elif isinstance(term, Pairs) and weighting is None:
            sums.append(_Listed(term, factor, n_items))
        else:
            raise FeedbackError(
                f"weighting={weighting!r} needs grades: {type(term).__name__} gives the better of "
                "two rows, but not how good they are. Use weighting=None."
            )
    # There may be thousands of bipartite feedbacks, one for each query: one sweep takes them all.
    for n_factors in sorted({len(part.upper) for part in graded}):
        parts = [part for part in graded if len(part.upper) == n_factors]
        sums.append(_Graded(GradedPairs.concat(parts), n_items))
    return sums[0] if len(sums) == 1 else _Total(sums)


class _Graded(PairSums):
    """Pairs by grades, swept in order of score."""

    def __init__(self, pairs: GradedPairs, n_items: int) -> None:
        self._pairs, self._n_items = pairs, n_items
        self.weight = pairs.weight
        self._unique = np.bincount(pairs.rows).max(initial=0) <= 1
        cuts = np.searchsorted(pairs.ptr, np.linspace(0, len(pairs.rows), N_BLOCKS + 1))
        cuts[0], cuts[-1] = 0, len(pairs.ptr) - 1
        cuts = np.unique(np.minimum(cuts, len(pairs.ptr) - 1))
        self._blocks = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
        self._threads = 1 if len(pairs.rows) < FEW_ROWS else None

    def at(self, scores: FloatArray, margin: float) -> PairSumsAt:
        from rankwright.rankers.gradient import _kernels

        p, n = self._pairs, len(self._pairs.rows)
        queries = _kernels.ScoredQueries(
            p.ptr, p.level, p.upper, p.lower, scores[p.rows], np.empty(n, np.int64)
        )
        slope, curvature = np.zeros(n), np.zeros(n)

        def add_up(block: tuple[int, int]) -> Any:
            _kernels.sort_queries(queries, *block)
            return _kernels.squared_hinge_sums(queries, *block, margin, slope, curvature)

        sums = map_blocks(add_up, self._blocks, self._threads)
        hinge, squared = sum(first for first, _ in sums), sum(second for _, second in sums)
        return PairSumsAt(
            hinge,
            squared,
            self._to_rows(slope),
            self._to_rows(curvature),
            _GradedProduct(self, queries, margin, curvature),
        )

    def _to_rows(self, values: FloatArray) -> FloatArray:
        """Values per entry added up per row of X."""
        if not self._unique:
            return np.bincount(self._pairs.rows, values, self._n_items).astype(np.float64)
        rows = np.zeros(self._n_items)
        rows[self._pairs.rows] = values
        return rows


@dataclass(frozen=True, eq=False)
class _GradedProduct:
    """Half the Hessian of graded pairs at given scores; it can be sent to another process."""

    pairs: _Graded
    queries: Any
    margin: float
    curvature: FloatArray

    def __call__(self, vector: FloatArray) -> FloatArray:
        from rankwright.rankers.gradient import _kernels

        rows = self.pairs._pairs.rows
        values, result = vector[rows], np.empty(len(rows))

        def multiply(block: tuple[int, int]) -> None:
            _kernels.squared_hinge_product(
                self.queries, *block, self.margin, self.curvature, values, result
            )

        map_blocks(multiply, self.pairs._blocks, self.pairs._threads)
        return self.pairs._to_rows(result)


class _Listed(PairSums):
    """Pairs one by one."""

    def __init__(self, pairs: Pairs, factor: float, n_items: int) -> None:
        self._lower, self._upper = pairs.lower, pairs.upper
        self._pair_weight = factor * pairs.weight
        self.weight = float(self._pair_weight.sum())
        self._n_items = n_items

    def at(self, scores: FloatArray, margin: float) -> PairSumsAt:
        room = np.maximum(margin - (scores[self._upper] - scores[self._lower]), 0.0)
        pull = self._pair_weight * room
        active = np.where(room > 0.0, self._pair_weight, 0.0)

        def product(vector: FloatArray) -> FloatArray:
            gap = active * (vector[self._upper] - vector[self._lower])
            return self._to_rows(self._upper, gap) - self._to_rows(self._lower, gap)

        slope = 2.0 * (self._to_rows(self._lower, pull) - self._to_rows(self._upper, pull))
        curvature = self._to_rows(self._upper, active) + self._to_rows(self._lower, active)
        return PairSumsAt(float(pull.sum()), float(pull @ room), slope, curvature, product)

    def _to_rows(self, rows: IntArray, values: FloatArray) -> FloatArray:
        return np.bincount(rows, values, self._n_items).astype(np.float64)


class _Total(PairSums):
    """The sum of several."""

    def __init__(self, parts: list[PairSums]) -> None:
        self._parts = parts
        self.weight = sum(part.weight for part in parts)

    def at(self, scores: FloatArray, margin: float) -> PairSumsAt:
        points = [part.at(scores, margin) for part in self._parts]
        return PairSumsAt(
            sum(point.hinge for point in points),
            sum(point.squared for point in points),
            np.sum([point.slope for point in points], axis=0),
            np.sum([point.curvature for point in points], axis=0),
            lambda vector: np.asarray(np.sum([p.product(vector) for p in points], axis=0)),
        )
