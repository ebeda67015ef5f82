"""The distribution over pairs that boosting keeps, without keeping the pairs.

After any number of rounds a pair weighs ``D(lower, upper) exp(H(lower) - H(upper))``, so the scores
H say everything. For graded rows that product factorises over the levels of a query: potentials
cost O(rows + levels). Only lists of pairs cost O(pairs).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankwright.exceptions import FeedbackError
from rankwright.feedback import Feedback
from rankwright.feedback.base import FloatArray
from rankwright.parallel import Team, ranges
from rankwright.rankers.boosting.levels import NO_MASS, Flags, n_parts
from rankwright.rankers.boosting.terms import count_roles, number_rows, read_terms

__all__ = ["PairDistribution"]


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
        from rankwright.feedback import _kernels

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
        from rankwright.feedback import _kernels

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
        from rankwright.feedback import _kernels

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
        from rankwright.feedback import _kernels

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
