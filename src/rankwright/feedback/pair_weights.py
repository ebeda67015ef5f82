"""The distribution over pairs that boosting keeps, without keeping the pairs.

A pair weighs ``D(lower, upper) exp(H(lower) - H(upper))`` with scores H. For graded rows that
factorizes over the levels of a query: potentials cost O(rows + levels), lists of pairs O(pairs).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback
from rankwright.feedback.levels import (
    Levels,
    LevelState,
    Move,
    NdcgGains,
    Potentials,
    count_roles,
    integer_sum,
    power_above,
    read_feedback,
)
from rankwright.parallel import Team, ranges

Binary = NDArray[np.uint8]  # values 0 and 1
Curve = Callable[[float], tuple[float, ...]]  # Z and two derivatives at a weight alpha
NO_CHANGE: Binary = np.zeros(0, np.uint8)

MAX_BOUNDED = 2.0  # the largest step after which the weight of all pairs is bounded by the step
MAX_TRAVEL, MAX_MOVES = 64.0, 50  # sum of steps and moves before a refresh from the scores


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
    weighting : None or "ndcg"
        With "ndcg", potentials, masses and total count each pair times what exchanging its rows
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
        key: Any = None,
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
        self._ndcg = NdcgGains.of(self.levels) if weighting == "ndcg" else None
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
        wrong, tied = self._kernels.disorder.level_disorder(scores, self.levels)
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
        # Multiplying step by step drifts (rounding, range): refresh from the scores in time.
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
            weigh, inputs = self._kernels.disorder.ndcg_potentials, (levels, state, self._ndcg)
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


def _query_parts(levels: Levels) -> list[tuple[int, int]]:
    """Ranges of queries with about as many documents each."""
    ends = levels.level_ptr[levels.query_ptr[1:]]
    n = len(levels.row)
    stops = np.searchsorted(ends, [stop for _, stop in ranges(n, _n_parts(n))])
    cuts = np.unique(np.concatenate([[0], stops + 1]).clip(0, len(ends)))
    cuts[-1:] = len(ends)
    return list(pairwise(cuts.tolist()))


def _n_parts(n_rows: int) -> int:
    return max(1, min(16, n_rows // 25_000))  # so large that sums over parts cost little
