"""Rows on the levels of queries, as flat arrays, and the weights of their pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback.base import FloatArray, IntArray
from rankwright.parallel import Team, ranges

__all__ = ["NO_MASS", "Flags", "LevelTerm", "n_parts", "pointers"]

Flags = NDArray[np.uint8]
NO_MASS: FloatArray = np.zeros(0)


class LevelTerm:
    """Rows on the levels of queries: every row of a level above every row of the lower levels.

    ``member`` holds rows (a row may be a member of several queries); the arrays are those that
    :mod:`rankwright.feedback._kernels` describes.
    """

    def __init__(
        self,
        member: IntArray,
        weight: FloatArray,
        level: IntArray,
        query: IntArray,
        grade: FloatArray,
        query_weight: FloatArray,
        magnitude: NDArray[np.bool_],
    ) -> None:
        keep = _useful(weight, level, query, query_weight)
        member, weight, level = member[keep], weight[keep], level[keep]
        order = np.argsort(level, kind="stable")
        self.member, self.weight = member[order], weight[order]
        kept, counts = np.unique(level, return_counts=True)
        self.level_ptr = pointers(counts)
        self.grade = grade[kept]
        queries, n_levels = np.unique(query[kept], return_counts=True)
        self.query_ptr = pointers(n_levels)
        self.query_weight = query_weight[queries]
        self.magnitude = magnitude[queries]
        self.direct = False  # whether member k is row k, for all rows
        self._make_room()

    def _make_room(self) -> None:
        n_members, n_levels = len(self.member), len(self.grade)
        self.rising, self.falling = np.zeros(n_members), np.zeros(n_members)
        self._potential, self._mass = np.zeros(n_members), NO_MASS
        self.high, self.low = np.zeros(n_levels), np.zeros(n_levels)
        self.lower_sum, self.upper_sum = np.zeros(n_levels), np.zeros(n_levels)
        self._as_upper, self._as_lower = np.zeros(n_levels), np.zeros(n_levels)
        self._query_mass = np.zeros(len(self.query_weight))
        self.chain = np.zeros((6, n_levels))
        self.chain_shift = 0.0

    @property
    def arrays(self) -> tuple[Any, ...]:
        return (
            self.member, self.weight, self.level_ptr, self.query_ptr, self.grade,
            self.query_weight, self.magnitude,
        )  # fmt: skip

    @property
    def room(self) -> tuple[Any, ...]:
        """Where ``level_potentials`` keeps what it knows of members, levels and queries."""
        return (
            self.high, self.low, self.rising, self.falling, self.chain, self.lower_sum,
            self.upper_sum, self._as_upper, self._as_lower, self._query_mass,
        )  # fmt: skip

    @property
    def n_pairs(self) -> int:
        counts = np.diff(self.level_ptr).astype(np.float64)
        plain = np.zeros(len(self.query_weight), bool)
        return round(self._pair_sum(counts, np.ones(len(self.query_weight)), plain))

    @property
    def total_weight(self) -> float:
        mass = np.add.reduceat(self.weight, self.level_ptr[:-1]) if len(self.weight) else self.grade
        return self._pair_sum(mass, self.query_weight, self.magnitude)

    def _pair_sum(
        self, mass: FloatArray, query_weight: FloatArray, magnitude: NDArray[np.bool_]
    ) -> float:
        """Sum over pairs of levels of a query of mass * mass * query weight * gap."""
        first = np.repeat(self.query_ptr[:-1], np.diff(self.query_ptr))
        query = np.repeat(np.arange(len(query_weight)), np.diff(self.query_ptr))
        grade = self.grade - self.grade[first]
        below, below_y = _before(mass, first), _before(mass * grade, first)
        gapped = np.where(magnitude[query], grade * below - below_y, below)
        return float(np.sum(mass * gapped * query_weight[query]))

    def weigh(
        self,
        team: Team,
        scores: FloatArray,
        hit: Flags,
        step: float,
        refresh: bool,
        shift: float,
        potential: FloatArray,
        mass: FloatArray,
        then: Callable[[int], None] | None = None,
    ) -> float:
        """Write potentials (and masses) of all rows; return the weight of all pairs.

        ``then`` is called with the number of each part when it is done (see ``row_parts``).
        """
        from rankwright.feedback import _kernels

        if refresh:
            self.chain_shift = shift
        ratio = float(np.exp(self.chain_shift - shift))
        direct = self.direct
        if mass.size and not direct and not self._mass.size:
            self._mass = np.zeros(len(self.member))
        own = potential if direct else self._potential
        own_mass = (mass if direct else self._mass) if mass.size else NO_MASS

        def weigh_part(part: int) -> None:
            _kernels.level_potentials(
                scores, hit, step, refresh, *self.arrays, direct, *self._parts[part], shift, ratio,
                *self.room, own, own_mass,
            )  # fmt: skip
            if then is not None:
                then(part)

        team.map(weigh_part, range(len(self._parts)))
        if not direct:
            potential[:] = 0.0
            _kernels.scatter_add(own, self.member, potential)
            if mass.size:
                mass[:] = 0.0
                _kernels.scatter_add(own_mass, self.member, mass)
        return float(self._query_mass.sum())

    def row_weights(self, n_rows: int) -> FloatArray:
        """Per row, its weight times that of its query, added up over its queries."""
        per_level = np.repeat(self.query_weight, np.diff(self.query_ptr))
        each = self.weight * np.repeat(per_level, np.diff(self.level_ptr))
        return np.bincount(self.member, each, n_rows).astype(np.float64)

    def ndcg_gains(self) -> FloatArray:
        """Per level, 2 ** grade - 1 over the ideal DCG of its query."""
        if not len(self.grade):
            return self.grade
        # Grades below zero would have negative gains: count from the lowest instead.
        gain = np.exp2(np.minimum(self.grade - min(0.0, self.grade.min()), 60.0)) - 1.0
        n_levels = np.diff(self.query_ptr)
        level = np.repeat(np.arange(len(gain)), np.diff(self.level_ptr))
        query = np.repeat(np.arange(len(n_levels)), n_levels)
        seat = np.repeat(level, self.places)  # one entry for each place of a list
        ends = np.cumsum(np.bincount(query[seat], minlength=len(n_levels)))
        place = ends[query[seat]] - np.arange(len(seat))  # the best grade comes first
        ideal = np.bincount(query[seat], gain[seat] / np.log2(place + 1.0))
        return np.asarray(gain / ideal[query])

    @property
    def places(self) -> IntArray:
        """How many places of a list each member takes: a weight of 2 stands for two rows."""
        return np.maximum(np.rint(self.weight), 1.0).astype(np.int64)

    def weigh_ndcg(
        self,
        team: Team,
        scores: FloatArray,
        gain: FloatArray,
        unit: float,
        potential: FloatArray,
        mass: FloatArray,
    ) -> float:
        """Potentials with each pair weighed by |delta NDCG|; needs a ``weigh`` of these scores."""
        from rankwright.feedback import _kernels

        places = self.places

        def block(bounds: tuple[int, int]) -> None:
            _kernels.ndcg_potentials(
                scores, self.member, places, self.level_ptr, self.query_ptr, gain,
                self.query_weight, *bounds, unit, self.high, self.low, self.rising, self.falling,
                self._query_mass, potential, mass,
            )  # fmt: skip

        team.map(block, self._parts)
        return float(self._query_mass.sum())

    @cached_property
    def _parts(self) -> list[tuple[int, int]]:
        """Ranges of queries with about as many members each."""
        ends = self.level_ptr[self.query_ptr[1:]]
        n = len(self.member)
        stops = np.searchsorted(ends, [stop for _, stop in ranges(n, n_parts(n))])
        cuts = np.unique(np.concatenate([[0], stops + 1]).clip(0, len(ends)))
        cuts[-1:] = len(ends)
        return list(pairwise(cuts.tolist()))

    @property
    def row_parts(self) -> list[tuple[int, int]]:
        """The same as ranges of members."""
        starts = self.level_ptr[self.query_ptr]
        return [(int(starts[a]), int(starts[b])) for a, b in self._parts]


def _before(values: FloatArray, first: IntArray) -> FloatArray:
    """For each level, the sum of the values of the lower levels of its query."""
    running: FloatArray = np.concatenate([[0.0], np.cumsum(values)])
    return running[:-1] - running[first]


def _useful(
    weight: FloatArray, level: IntArray, query: IntArray, query_weight: FloatArray
) -> NDArray[np.bool_]:
    """Which members stand in a pair of positive weight."""
    keep = (weight > 0) & (query_weight[query[level]] > 0)
    filled = np.bincount(level[keep], minlength=len(query)) > 0
    n_levels = np.bincount(query[filled], minlength=len(query_weight))
    useful: NDArray[np.bool_] = keep & (n_levels[query[level]] >= 2)
    return useful


def n_parts(n_rows: int) -> int:
    """In how many parts rows are gone through: a few, but none so small that sums over it cost."""
    return max(1, min(16, n_rows // 25_000))


def pointers(counts: Any) -> IntArray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
