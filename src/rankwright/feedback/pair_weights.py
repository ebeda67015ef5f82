"""The distribution over pairs that boosting keeps, without keeping the pairs.

After any number of rounds a pair weighs ``D(lower, upper) exp(H(lower) - H(upper))``, so the scores
H say everything. For graded rows that product factorizes over the levels of a query: potentials
cost O(rows + levels). Only lists of pairs cost O(pairs).
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
    read_feedback,
)
from rankwright.parallel import Team, ranges

Binary = NDArray[np.uint8]  # values 0 and 1
Curve = Callable[[float], tuple[float, float, float]]  # Z and two derivatives at a weight alpha
NO_CHANGE: Binary = np.zeros(0, np.uint8)

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
    weighting : None or "ndcg"
        With ``"ndcg"`` potentials, masses and total count each pair times what exchanging its rows
        would change NDCG by (for tied rows: on average over their orders).

    Attributes
    ----------
    rows : (n_rows,) int64
    parts : list of (start, stop)
        Ranges of rows. They do not depend on the number of threads, and neither do sums over each
        part and then over the parts.
    scores : (n_rows,) float64, the scores so far
    potential : (n_rows,) float64
        Weight of the pairs that pull a row up, minus weight of those that pull it down; divide by
        ``total`` to get the paper's pi, for which the weights of all pairs add up to one.
    mass : (n_rows,) float64 or empty
        The sum of the two, on the same scale; an empty array if it is not needed.
    count : (n_rows,) float64
        How many rows each row counts as: its weight, but not less than one.
    total : float
        The weight of all pairs divided by their weight one move ago: the Z of that move.
    unit : float
        The logarithm that potentials, masses and the total are divided by.
    shift : float
        The same after the last move: ``unit`` plus the logarithm of the total.
    log_weight : float
        Log of the weight of all pairs, which at first is 0: the log of the product of all Z.
    whole : float
        The sum of all potentials, which is zero.
    """

    whole = 0.0

    def __init__(
        self,
        feedback: Feedback,
        n_items: int,
        pool: Team | None = None,
        *,
        weighting: str | None = None,
    ) -> None:
        self._pool = pool or Team(1)
        self.rows, self.levels, self.pairs = read_feedback(feedback, n_items)
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
        self.parts = self._row_parts() if self.levels.direct else ranges(n, _n_parts(n))
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
        self,
        h: Binary | FloatArray,
        step: float,
        then: Callable[[int], None] | None = None,
    ) -> None:
        """Add ``step * h`` to the scores; where h is binary (uint8), this needs no exponentials.

        ``then`` is called with the number of each part when the potentials of its rows are known.
        """
        if h.dtype != np.uint8:
            self._travel = np.inf
        if h.dtype != np.uint8 or not self.levels.direct:  # otherwise the kernel moves the scores
            self.scores += step * h
        self._update(h if h.dtype == np.uint8 else NO_CHANGE, step, then)

    def curve(self, h: FloatArray) -> Curve:
        """The function a -> weight of all pairs if scores moved by ``a * h``, with two derivatives.

        The unit is the present weight: the value at 0 is 1. Each call costs O(rows + pairs).
        """
        from rankwright.feedback._kernels import levels as _kernels

        def curve(alpha: float) -> tuple[float, float, float]:
            scores = self.scores + alpha * h
            value, first, second = _kernels.level_curve(scores, h, self.levels, self.shift)
            if len(self.pairs.lower):
                more = _kernels.pair_curve(scores, h, self.pairs, self.shift)
                value, first, second = value + more[0], first + more[1], second + more[2]
            return value, first, second

        return curve

    def leaf_curve(self, leaf: NDArray[np.int32], value: FloatArray) -> Curve:
        """As ``curve``, where h is the value of a row's leaf.

        Costs O(rows + pairs) once, then O(levels * leaves) for each call.
        """
        from rankwright.feedback._kernels import levels as _kernels

        n = len(value)
        value = value - (value.max() + value.min()) / 2  # only differences count: keep powers small
        sums = np.empty((len(self.levels.grade), n, 2))
        _kernels.sum_leaves(leaf, self.levels, self.state, sums)
        ratio = float(np.exp(self._refresh_shift - self.shift))
        cell = leaf[self.pairs.lower] * n + leaf[self.pairs.upper]
        share = np.bincount(cell, self.pairs.share, n * n).reshape(n, n) / self.total
        gap = np.subtract.outer(value, value)

        def curve(alpha: float) -> tuple[float, float, float]:
            weight, first, second = _kernels.leaf_curve(
                sums, value, alpha, self.levels, self.state.carry, ratio
            )
            moved = share * np.exp(alpha * gap)
            return (
                weight + float(moved.sum()),
                first + float((moved * gap).sum()),
                second + float((moved * gap * gap).sum()),
            )

        return curve

    def split(self, h: Binary) -> tuple[float, float]:
        """Shares of the pairs with h(upper) > h(lower), and with h(upper) < h(lower)."""
        from rankwright.feedback._kernels import levels as _kernels

        right, wrong = _kernels.level_split(h, self.levels, self.state, self.unit)
        if len(self.pairs.lower):
            more = _kernels.pair_split(h, self.pairs)
            right, wrong = right + more[0], wrong + more[1]
        return right / self.total, wrong / self.total

    def disorder(self, scores: FloatArray | None = None) -> tuple[float, float]:
        """The shares of the pairs in wrong order and of those with equal scores, as first weighted.

        The ranking loss is the first plus half the second (eq. 21), or plus all of it (eq. 1).
        """
        from rankwright.feedback._kernels import disorder as _kernels

        if self.weight == 0:
            return 0.0, 0.0
        scores = self.scores if scores is None else scores
        wrong, tied = _kernels.level_disorder(scores, self.levels)
        if len(self.pairs.lower):
            more = _kernels.pair_disorder(scores, self.pairs)
            wrong, tied = wrong + more[0], tied + more[1]
        return wrong / self.weight, tied / self.weight

    def _update(self, h: Any, step: float, then: Callable[[int], None] | None = None) -> None:
        """Recompute potentials, masses and the total after scores moved by ``step * h``."""
        from rankwright.feedback._kernels import levels as _kernels

        # Multiplying step by step drifts (rounding, range): refresh from the scores in time.
        self._travel += abs(step)
        self._moves += 1
        refresh = self._travel > MAX_TRAVEL or self._moves >= MAX_MOVES
        if refresh:
            self._travel, self._moves, self._refresh_shift = 0.0, 0, self.shift
        ratio = float(np.exp(self._refresh_shift - self.shift))
        move = Move(h, step, refresh, self.shift, ratio)
        by_row = Potentials(self.potential, self.mass)
        has_pairs = len(self.pairs.lower) > 0
        at_once = self._ndcg is None and self.levels.direct and not has_pairs
        out = self._by_document()

        def update_part(part: int) -> None:
            first, last = self._query_parts[part]
            _kernels.level_potentials(self.scores, move, self.levels, self.state, first, last, out)
            if then is not None and at_once:
                then(part)

        self._pool.map(update_part, range(len(self._query_parts)))
        self._add_up(out)
        self.total, self.unit = float(self.state.query_sum.sum()), self.shift
        if has_pairs:
            self.total += _kernels.pair_potentials(self.scores, self.pairs, self.shift, by_row)
        self.shift += float(np.log(self.total))
        self.log_weight = self.shift - self._first_shift
        if self._ndcg is not None:
            self._weigh_by_ndcg(out)
        if then is not None and not at_once:
            self._pool.map(then, range(len(self.parts)))

    def _weigh_by_ndcg(self, out: Potentials) -> None:
        from rankwright.feedback._kernels import ndcg as _kernels

        def weigh(queries: tuple[int, int]) -> None:
            _kernels.ndcg_potentials(
                self.scores, self.levels, self.state, self._ndcg, *queries, self.unit, out
            )

        self._pool.map(weigh, self._query_parts)
        self._add_up(out)
        self.total = float(self.state.query_sum.sum())

    def _by_document(self) -> Potentials:
        """Where the potentials of documents go: those of the rows, if they are the same."""
        if self.levels.direct:
            return Potentials(self.potential, self.mass)
        n = len(self.levels.row)
        return Potentials(np.zeros(n), np.zeros(n if self.mass.size else 0))

    def _add_up(self, by_document: Potentials) -> None:
        """Potentials of rows from those of documents."""
        from rankwright.feedback._kernels.levels import scatter_add

        if not self.levels.direct:
            for values, out in zip(by_document, (self.potential, self.mass), strict=True):
                out[:] = 0.0
                scatter_add(values, self.levels.row[: len(values)], out)

    def _row_parts(self) -> list[tuple[int, int]]:
        starts = self.levels.level_ptr[self.levels.query_ptr]
        return [(int(starts[a]), int(starts[b])) for a, b in self._query_parts]


def _query_parts(levels: Levels) -> list[tuple[int, int]]:
    """Ranges of queries with about as many documents each."""
    ends = levels.level_ptr[levels.query_ptr[1:]]
    n = len(levels.row)
    stops = np.searchsorted(ends, [stop for _, stop in ranges(n, _n_parts(n))])
    cuts = np.unique(np.concatenate([[0], stops + 1]).clip(0, len(ends)))
    cuts[-1:] = len(ends)
    return list(pairwise(cuts.tolist()))


def _n_parts(n_rows: int) -> int:
    """A few parts, each large enough that the sums over parts cost little."""
    return max(1, min(16, n_rows // 25_000))
