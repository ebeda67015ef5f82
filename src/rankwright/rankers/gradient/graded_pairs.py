"""Pairs that follow from grades, as levels and factors: what the sweeps of ``_kernels`` read.

The weight of a pair (i above j) is a sum of products: sum_k upper[k, i] * lower[k, j]. Plain pairs
need one factor. Weighted by the difference of grades, y_i - y_j = y_i * 1 - 1 * y_j, they need
two; weighted by NDCG, four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback import Bipartite, Grades
from rankwright.rankers.losses import ndcg_gains

__all__ = ["GradedPairs", "from_bipartite", "from_grades", "level_discounts"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Factors = list[tuple[FloatArray, FloatArray]]  # (as the upper of a pair, as the lower)


@dataclass(frozen=True)
class GradedPairs:
    """Rows grouped by query, with their level there and their weight factors.

    Attributes
    ----------
    rows : (n,) rows of X; a row may stand in several groups
    ptr : (n_groups + 1,) where each group starts
    level : (n,) 1 .. the number of levels of the group, the higher the better
    upper, lower : (n_factors, n)
    weight : of all pairs together
    """

    rows: IntArray
    ptr: IntArray
    level: IntArray
    upper: FloatArray
    lower: FloatArray
    weight: float

    @classmethod
    def concat(cls, parts: Sequence[GradedPairs]) -> GradedPairs:
        """All groups of several; the parts have equally many factors."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part.rows) for part in parts)])
        ptrs = [start + part.ptr[1:] for start, part in zip(starts, parts, strict=False)]
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *ptrs]),
            np.concatenate([part.level for part in parts]),
            np.concatenate([part.upper for part in parts], axis=1),
            np.concatenate([part.lower for part in parts], axis=1),
            sum(part.weight for part in parts),
        )


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
    if weighting == "ndcg":
        mass = np.bincount(level, grades.sample_weight, len(query)).astype(np.float64)
        factors = _product(factors, _ndcg_factors(mass, query, grade, level[rows]))
    return _assemble(rows, sizes, level[rows] - first_level[code] + 1, factors)


def from_bipartite(pairs: Bipartite, factor: float, weighting: str | None) -> GradedPairs:
    """Two sets as levels 1 and 2 of one group."""
    rows = np.concatenate([pairs.lower, pairs.upper])
    y = np.repeat([0.0, 1.0], [len(pairs.lower), len(pairs.upper)])
    weights = np.concatenate([pairs.lower_weight, pairs.upper_weight])
    own = from_grades(Grades(y, sample_weight=weights), factor, weighting)
    return GradedPairs(rows[own.rows], own.ptr, own.level, own.upper, own.lower, own.weight)


def level_discounts(mass: FloatArray, query: IntArray) -> FloatArray:
    """The mean discount of the places that each level holds when its query is in the right order.

    ``mass`` counts the rows of each level (levels by query, worst first; weights count as copies).
    Place p is worth 1 / log2(p + 1); a fraction of a place counts as that fraction.

    >>> level_discounts(np.array([1.0, 2.0]), np.array([0, 0])).round(4)  # places 3, and 1 with 2
    array([0.5   , 0.8155])
    """
    above = np.cumsum(mass[::-1])[::-1]  # rows of this level and all before it in reverse order
    last_of_query = np.searchsorted(query, query, side="right") - 1
    stop = above - above[last_of_query] + mass[last_of_query]
    start = np.maximum(stop - mass, 0.0)
    n_places = int(np.ceil(stop.max(initial=0.0))) + 1
    running = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, n_places + 2)))])
    total = np.interp([start, stop], np.arange(len(running)), running)
    return np.asarray((total[1] - total[0]) / np.where(mass > 0, mass, 1.0))


def _ndcg_factors(mass: FloatArray, query: IntArray, grade: FloatArray, level: IntArray) -> Factors:
    """What NDCG loses when the two rows of a pair change places in the right order.

    (gain_i - gain_j) * (discount_i - discount_j) / ideal DCG, as a sum of four products.
    """
    gain, discount = ndcg_gains(grade), level_discounts(mass, query)
    ideal = np.bincount(query, mass * gain * discount)[query] if len(query) else gain
    gain = gain / np.where(ideal > 0, ideal, 1.0)
    g, d, one = gain[level], discount[level], np.ones(len(level))
    return [(g * d, one), (-g, d), (-d, g), (one, g * d)]


def _product(left: Factors, right: Factors) -> Factors:
    return [(a * c, b * d) for a, b in left for c, d in right]


def _assemble(rows: IntArray, sizes: IntArray, level: IntArray, factors: Factors) -> GradedPairs:
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)
    upper = np.array([factor for factor, _ in factors]).reshape(len(factors), len(rows))
    lower = np.array([factor for _, factor in factors]).reshape(len(factors), len(rows))
    weight = sum(_weight(a, b, level, ptr) for a, b in zip(upper, lower, strict=True))
    return GradedPairs(rows, ptr, level, upper, lower, max(float(weight), 0.0))


def _weight(upper: FloatArray, lower: FloatArray, level: IntArray, ptr: IntArray) -> float:
    """The sum of upper_i * lower_j over the pairs: i of a higher level than j in its group."""
    if not len(level):
        return 0.0
    n_levels = np.maximum.reduceat(level, ptr[:-1])
    first = np.cumsum(n_levels) - n_levels
    place = np.repeat(first, np.diff(ptr)) + level - 1
    above, below = np.bincount(place, upper), np.bincount(place, lower)
    running = np.cumsum(below) - below
    return float(above @ (running - np.repeat(running[first], n_levels)))
