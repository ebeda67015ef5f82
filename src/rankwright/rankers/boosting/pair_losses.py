"""Pair losses: what a pair costs by the difference of its scores, and sums of that over pairs.

=================  ==========================  =====================================
loss               of a pair (d = s_u - s_l)   also known from
=================  ==========================  =====================================
``logistic``       log(1 + exp(-d))            RankNet, LambdaRank
``exponential``    exp(-d)                     RankBoost
``fidelity``       1 - sqrt(P)                 FRank; P = 1 / (1 + exp(-d))
``squared_hinge``  max(0, 1 - d) ** 2          RankSVM
``squared``        (y_u - y_l - d) ** 2        MPRank
=================  ==========================  =====================================

The fidelity loss is not convex. Its Hessian here is ``|slope| (1 + 3 P**2) / 4``: the second
derivative where the pair is in order, and positive everywhere.
"""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import Protocol

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.feedback.grades import Grades
from rankwright.feedback.pair_losses import QueryPairs
from rankwright.feedback.pair_weights import PairDistribution
from rankwright.parallel import Team
from rankwright.rankers.boosting.pair_weights import PairWeights

LOSSES = ("logistic", "exponential", "fidelity", "squared_hinge", "squared")


class Gradients(Protocol):
    """What trees are grown on. Rows that are in no pair are left out."""

    rows: IntArray  # the rows of X that take part
    query: IntArray  # their queries
    count: IntArray  # how many rows each counts as

    def at(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Minus the gradient of the loss by the scores of ``rows``, and its Hessian's diagonal."""


def gradients_of(
    grades: Grades, n_items: int, loss: str, weights: PairWeights, pool: Team
) -> Gradients:
    """The gradients of a loss over the pairs of graded rows."""
    if loss == "exponential" and not weights.by_rank:
        return ExponentialGradients(grades, n_items, weights, pool)
    return PairGradients(grades, loss, weights, pool)


class PairGradients:
    """Sums over the pairs of each query, in O(rows log rows) where weights do not depend on ranks.

    Otherwise they take O(rows times truncation level). No list of pairs is made. Rows of equal
    score and grade have equal gradients, so the order in which rows are given does not matter.
    """

    def __init__(
        self,
        grades: Grades,
        loss: str,
        weights: PairWeights,
        pool: Team,
        span: tuple[float, float] | None = None,
    ) -> None:
        from rankwright.feedback._kernels.pair_losses import GradedQueries

        pairs = QueryPairs.of(grades)
        self.rows, self.query = pairs.rows, pairs.group
        weight = pairs.weight * pairs.query_weight[self.query]
        self.count = np.rint(np.clip(weight, 1.0, 2.0**40)).astype(np.int64)
        self._codes = LOSSES.index(loss), weights.code
        self._ranked = weights.ranked(pairs, span)
        self._order = np.arange(len(self.rows), dtype=np.int32)
        self._queries = GradedQueries(pairs.ptr, pairs.grade, pairs.weight, pairs.query_weight)
        self._pool = pool
        self._blocks = _blocks(pairs.ptr, 1 if pool.threads == 1 else 4 * pool.threads)
        self._out = np.zeros((2, len(self.rows)))

    def copy(self) -> PairGradients:
        """The same with work arrays of its own."""
        twin = copy(self)
        twin._order, twin._out = self._order.copy(), np.zeros_like(self._out)
        return twin

    def at(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        from rankwright.rankers.boosting._kernels import pair_gradients as _kernels

        loss, weights = self._codes
        queries, order, out = self._queries, self._order, self._out

        def block(bounds: tuple[int, int]) -> None:
            _kernels.ranked_gradients(
                scores, queries, self._ranked, order, self._codes, *bounds, out
            )
            if weights <= _kernels.GRADE_DIFFERENCE:
                gaps = weights == _kernels.GRADE_DIFFERENCE or self._ranked.magnitude
                _kernels.summed_gradients(scores, queries, order, loss, gaps, *bounds, out)

        self._pool.map(block, self._blocks)
        return self._out[0], self._out[1]


class ExponentialGradients:
    """The exponential loss by RankBoost's potentials: O(rows), divided by the sum of the loss."""

    def __init__(self, grades: Grades, n_items: int, weights: PairWeights, pool: Team) -> None:
        if weights.name == "grade_difference":
            grades = Grades(
                grades.y,
                grades.queries,
                sample_weight=grades.sample_weight,
                query_weight=grades.query_weight,
                magnitude=True,
            )
        self._pairs = PairDistribution(grades, n_items, pool)
        self.rows, self.query = self._pairs.rows, grades.queries.codes[self._pairs.rows]
        self.count = np.rint(self._pairs.count).astype(np.int64)

    def at(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        self._pairs.move_to(scores)
        return self._pairs.potential, self._pairs.mass

    def bound(self, scores: FloatArray) -> float:
        """Theorem 1: the mean exponential loss, which the share of misordered pairs is below."""
        if not len(self.rows):
            return 1.0
        self._pairs.move_to(scores)
        return float(np.exp(self._pairs.log_weight))


def _blocks(ptr: IntArray, n_blocks: int) -> list[tuple[int, int]]:
    """Ranges of queries with about as many rows each."""
    cuts = np.searchsorted(ptr, np.linspace(0, ptr[-1], n_blocks + 1))
    return list(pairwise(np.unique(cuts).tolist())) if len(ptr) > 1 else []
