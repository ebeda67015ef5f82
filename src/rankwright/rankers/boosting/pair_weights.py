"""The distribution over pairs that boosting keeps, without keeping the pairs.

After any number of rounds a pair weighs ``D(lower, upper) exp(H(lower) - H(upper))``, so the scores
H say everything. For graded rows that product factorizes over the levels of a query: potentials
cost O(rows + levels). Only lists of pairs cost O(pairs).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback
from rankwright.feedback.grades import Grades
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.parallel import Team, ranges

Flags = NDArray[np.uint8]
NO_MASS: FloatArray = np.zeros(0)


class LevelTerm:
    """Rows on the levels of queries: every row of a level above every row of the lower levels.

    ``member`` holds rows (a row may be a member of several queries); the arrays are those that
    :mod:`rankwright.feedback._kernels.levels` describes.
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
        from rankwright.feedback._kernels import levels as _kernels

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
        from rankwright.feedback._kernels import levels as _kernels

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


class PairTerm:
    """Pairs one by one; ``share`` is the present weight of each."""

    def __init__(self, lower: IntArray, upper: IntArray, weight: FloatArray) -> None:
        keep = weight > 0
        self.lower, self.upper, self.weight = lower[keep], upper[keep], weight[keep]
        self.share = np.zeros(len(self.weight))

    @property
    def n_pairs(self) -> int:
        return len(self.lower)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())


def read_terms(feedback: Feedback) -> tuple[LevelTerm, PairTerm]:
    """All graded terms as queries of one term; all pairs as one list."""
    terms = list(feedback.terms())
    parts = [_levels_of(f, term) for f, term in terms if isinstance(term, Grades | Bipartite)]
    listed = [(f, term) for f, term in terms if isinstance(term, Pairs)]
    none = np.zeros(0, np.int64)
    return _join_levels(parts), PairTerm(
        np.concatenate([none, *(term.lower for _, term in listed)]),
        np.concatenate([none, *(term.upper for _, term in listed)]),
        np.concatenate([NO_MASS, *(factor * term.weight for factor, term in listed)]),
    )


Parts = tuple[IntArray, FloatArray, IntArray, IntArray, FloatArray, FloatArray, NDArray[np.bool_]]


def _levels_of(factor: float, term: Grades | Bipartite) -> Parts:
    """Members (row, weight, level), levels (query, grade), queries (weight, magnitude)."""
    if isinstance(term, Grades):
        level, query, grade = term.levels
        magnitude = np.full(len(term.query_weight), term.magnitude)
        rows, weight = np.arange(len(term.y)), factor * term.query_weight
        return rows, term.sample_weight, level, query, grade, weight, magnitude
    rows = np.concatenate([term.lower, term.upper])
    level = np.repeat([0, 1], [len(term.lower), len(term.upper)]).astype(np.int64)
    each = np.concatenate([term.lower_weight, term.upper_weight])
    query, grade = np.zeros(2, np.int64), np.array([0.0, 1.0])
    return rows, each, level, query, grade, np.array([factor]), np.zeros(1, bool)


def _join_levels(parts: list[Parts]) -> LevelTerm:
    """Several graded terms as one, with the queries of all of them."""
    none = np.zeros(0, np.int64)
    if not parts:
        return LevelTerm(none, NO_MASS, none, none, NO_MASS, NO_MASS, np.zeros(0, bool))
    n_levels = pointers([len(part[4]) for part in parts])
    n_queries = pointers([len(part[5]) for part in parts])
    member, weight, level, query, grade, query_weight, magnitude = zip(*parts, strict=True)
    return LevelTerm(
        np.concatenate(member),
        np.concatenate(weight),
        np.concatenate([each + n_levels[i] for i, each in enumerate(level)]),
        np.concatenate([each + n_queries[i] for i, each in enumerate(query)]),
        np.concatenate(grade),
        np.concatenate(query_weight),
        np.concatenate(magnitude),
    )


def number_rows(levels: LevelTerm, pairs: PairTerm, n_items: int) -> IntArray:
    """Number the rows in use, members first and in their order; rewrite the terms accordingly."""
    used = np.concatenate([levels.member, pairs.lower, pairs.upper])
    _, first = np.unique(used, return_index=True)
    rows = used[np.sort(first)].astype(np.int64)
    number = np.full(n_items, -1, np.int64)
    number[rows] = np.arange(len(rows))
    levels.member = number[levels.member]
    levels.direct = np.array_equal(levels.member, np.arange(len(rows)))
    pairs.lower, pairs.upper = number[pairs.lower], number[pairs.upper]
    return rows


def count_roles(levels: LevelTerm, pairs: PairTerm, n_rows: int) -> tuple[int, int]:
    """How many rows are the lower, and how many the upper, of some pair."""
    lower, upper = np.zeros(n_rows, bool), np.zeros(n_rows, bool)
    lower[pairs.lower], upper[pairs.upper] = True, True
    level = np.repeat(np.arange(len(levels.grade)), np.diff(levels.level_ptr))
    first = np.zeros(len(levels.grade), bool)
    last = np.zeros(len(levels.grade), bool)
    first[levels.query_ptr[:-1]], last[levels.query_ptr[1:] - 1] = True, True
    lower[levels.member[~last[level]]] = True
    upper[levels.member[~first[level]]] = True
    return int(lower.sum()), int(upper.sum())


class PairDistribution:
    """Pairs weighted by a feedback and by how badly the scores so far order them.

    Rows that take part in no pair are left out; the others are numbered anew, those of a level
    side by side: ``rows[i]`` is the row of X that is number i here.

    Attributes
    ----------
    rows : (n_rows,) int64
    parts : list of (start, stop)
        Ranges of rows, whatever the number of threads: what is summed up part by part and then over
        the parts is the same for any.
    scores : (n_rows,) float64, the scores so far
    potential : (n_rows,) float64
        Weight of the pairs that want a row up, minus weight of those that want it down; divide by
        ``total`` to get the paper's pi, for which the weights of all pairs add up to one.
    count : (n_rows,) float64
        How many rows each row stands for: its weight, but not less than one.
    mass : (n_rows,) float64 or empty
        The sum of the two, on the same scale (only with ``want_mass``).
    total : float
        The weight of all pairs divided by their weight one move ago: the Z of that move.
    unit : float
        The logarithm that potentials, masses and the total are divided by.
        With ``weighting="ndcg"`` potentials, masses and total count each pair times what its
        exchange would change NDCG by (the exchange of tied rows: on average over their orders).
    shift : float
        The same after the last move: ``unit`` plus the logarithm of the total.
    log_weight : float
        Log of the weight of all pairs, which at first is 0: the log of the product of all Z.
    """

    def __init__(
        self,
        feedback: Feedback,
        n_items: int,
        team: Team | None = None,
        *,
        want_mass: bool = False,
        weighting: str | None = None,
    ) -> None:
        self._team = team or Team(1)
        levels, pairs = read_terms(feedback)
        weight = sum(term.total_weight for term in (levels, pairs))
        if not np.isfinite(weight):
            raise FeedbackError("the weights of the preferences add up to infinity: scale them.")
        self.rows = number_rows(levels, pairs, n_items)
        self.n_pairs = levels.n_pairs + pairs.n_pairs
        self.weight = weight
        self.n_lower, self.n_upper = count_roles(levels, pairs, len(self.rows))
        self.levels, self.pairs = levels, pairs
        self.parts = (
            levels.row_parts if levels.direct else ranges(len(self.rows), n_parts(len(self.rows)))
        )
        self.count = np.maximum(levels.row_weights(len(self.rows)), 1.0)
        self._gain = levels.ndcg_gains() if weighting == "ndcg" else None
        self.scores = np.zeros(len(self.rows))
        self.potential = np.zeros(len(self.rows))
        self.mass = np.zeros(len(self.rows)) if want_mass else NO_MASS
        self.log_weight = 0.0
        self.total, self.unit, self.whole = 1.0, 0.0, 0.0
        self.shift = self._start = float(np.log(weight)) if weight > 0 else 0.0
        self._travel, self._moves = np.inf, 0
        self._nothing: Flags = np.zeros(0, np.uint8)
        if weight > 0:
            self._weigh(self._nothing, 0.0)
            self._start, self.log_weight = self.shift, 0.0

    def move(self, hit: Flags, step: float, then: Callable[[int], None] | None = None) -> None:
        """Add ``step`` to the scores of the rows that are hit (1), nothing to the others (0).

        ``then`` is called with the number of each part when the potentials of its rows are known.
        """
        if not self.levels.direct:
            self.scores += step * hit
        self._weigh(hit, step, then)

    def move_by(self, change: FloatArray) -> None:
        """Add a change to the score of each row."""
        self.scores += change
        self._travel = np.inf
        self._weigh(self._nothing, 0.0)

    def curve(self, slope: FloatArray, distance: float) -> tuple[float, float, float]:
        """Weight of all pairs if scores moved by ``distance * slope``, with two derivatives.

        The unit is the present weight: ``curve(slope, 0.0)[0]`` is 1.
        """
        from rankwright.feedback._kernels import levels as _kernels

        scores = self.scores + distance * slope
        value, first, second = (
            _kernels.level_curve(scores, slope, *self.levels.arrays, self.shift)
            if len(self.levels.member)
            else (0.0, 0.0, 0.0)
        )
        if len(self.pairs.lower):
            pairs = self.pairs
            more = _kernels.pair_curve(
                scores, slope, pairs.lower, pairs.upper, pairs.weight, self.shift
            )
            value, first, second = value + more[0], first + more[1], second + more[2]
        return value, first, second

    def split(self, hit: Flags) -> tuple[float, float]:
        """Shares of the pairs of which only the upper is hit, and of which only the lower is."""
        from rankwright.feedback._kernels import levels as _kernels

        t, pairs = self.levels, self.pairs
        right, wrong = 0.0, 0.0
        if len(t.member):
            right, wrong = _kernels.level_split(
                hit, t.member, t.level_ptr, t.query_ptr, t.grade, t.query_weight, t.magnitude,
                self.unit, t.high, t.low, t.rising, t.falling,
            )  # fmt: skip
        if len(pairs.lower):
            more = _kernels.pair_split(hit, pairs.lower, pairs.upper, pairs.share)
            right, wrong = right + more[0], wrong + more[1]
        return right / self.total, wrong / self.total

    def disorder(self, scores: FloatArray | None = None) -> tuple[float, float]:
        """The shares of the pairs in wrong order and of those with equal scores, as first weighed.

        The ranking loss is the first plus half the second (eq. 21), or plus all of it (eq. 1).
        """
        from rankwright.feedback._kernels import levels as _kernels

        if self.weight == 0:
            return 0.0, 0.0
        scores = self.scores if scores is None else scores
        wrong, tied, pairs = 0.0, 0.0, self.pairs
        if len(self.levels.member):
            wrong, tied = _kernels.level_disorder(scores, *self.levels.arrays)
        if len(pairs.lower):
            more = _kernels.pair_disorder(scores, pairs.lower, pairs.upper, pairs.weight)
            wrong, tied = wrong + more[0], tied + more[1]
        return wrong / self.weight, tied / self.weight

    def _weigh(self, hit: Flags, step: float, then: Callable[[int], None] | None = None) -> None:
        from rankwright.feedback._kernels import levels as _kernels

        # Multiplying step by step drifts (rounding, range); start afresh from the scores in time.
        self._travel += abs(step)
        self._moves += 1
        refresh = self._travel > 64.0 or self._moves >= 50
        if refresh:
            self._travel, self._moves = 0.0, 0
        total = 0.0
        at_once = self._gain is None and self.levels.direct and not len(self.pairs.lower)
        if len(self.levels.member):
            total += self.levels.weigh(
                self._team, self.scores, hit, step, refresh, self.shift, self.potential,
                self.mass, then if at_once else None,
            )  # fmt: skip
        else:
            self.potential[:] = 0.0
            self.mass[:] = 0.0
        if len(self.pairs.lower):
            pairs = self.pairs
            total += _kernels.pair_potentials(
                self.scores, pairs.lower, pairs.upper, pairs.weight, self.shift, pairs.share,
                self.potential, self.mass,
            )  # fmt: skip
        self.total, self.unit = total, self.shift
        self.shift += float(np.log(total))
        self.log_weight = self.shift - self._start
        if self._gain is not None:
            self.total = self.levels.weigh_ndcg(
                self._team, self.scores, self._gain, self.unit, self.potential, self.mass
            )
        if then is not None and not at_once:
            self._team.map(then, range(len(self.parts)))
