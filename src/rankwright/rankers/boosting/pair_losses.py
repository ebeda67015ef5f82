"""Pair losses: what a pair costs by the difference of its scores, and sums of that over pairs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.feedback.grades import Grades
from rankwright.parallel import Team
from rankwright.rankers.boosting.pair_weights import PairWeights
from rankwright.rankers.losses import QueryPairs

LOSSES = ("logistic", "exponential", "fidelity", "squared_hinge", "squared")


class PairGradients:
    """Minus the gradient, and the Hessian, of a pair loss summed over the pairs of graded rows.

    Rows are numbered as in ``rows``; those that are in no pair are left out.
    """

    def __init__(self, grades: Grades, loss: str, weights: PairWeights, pool: Team) -> None:
        from rankwright.feedback._kernels.pair_losses import GradedQueries

        self.pairs = QueryPairs.of(grades)
        self.rows: IntArray = self.pairs.rows
        self._codes = LOSSES.index(loss), weights.code
        self._ranked = weights.ranked(self.pairs)
        self._order = np.arange(len(self.rows), dtype=np.int32)
        pairs = self.pairs
        self._queries = GradedQueries(pairs.ptr, pairs.grade, pairs.weight, pairs.query_weight)
        self._pool = pool
        self._blocks = _blocks(pairs.ptr, 1 if pool.threads == 1 else 4 * pool.threads)
        self._out = np.zeros((2, len(self.rows)))

    @property
    def count(self) -> IntArray:
        """(n_rows,) how many rows each row counts as: its weight, but at least one."""
        weight = self.pairs.weight * self.pairs.query_weight[self.pairs.group]
        return np.rint(np.maximum(weight, 1.0)).astype(np.int64)

    def at(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Minus the gradient, and the Hessian, at these scores."""
        from rankwright.rankers.boosting._kernels.pair_gradients import ranked_gradients

        def block(bounds: tuple[int, int]) -> None:
            ranked_gradients(
                scores, self._queries, self._ranked, self._order, self._codes, *bounds, self._out
            )

        self._pool.map(block, self._blocks)
        return self._out[0], self._out[1]


def _blocks(ptr: IntArray, n_blocks: int) -> list[tuple[int, int]]:
    """Ranges of queries with about as many rows each."""
    cuts = np.searchsorted(ptr, np.linspace(0, ptr[-1], n_blocks + 1))
    return list(pairwise(np.unique(cuts).tolist())) if len(ptr) > 1 else []
