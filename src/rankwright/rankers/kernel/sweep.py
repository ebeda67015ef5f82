"""The on-line form of MPRank (section 2.5): the dual, one coefficient at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankwright.rankers.kernel.sample import FloatArray, Sample

__all__ = ["Sweep", "sweep_dual", "sweep_linear"]


@dataclass(frozen=True, eq=False)
class Sweep:
    """What the sweeps came to.

    Attributes
    ----------
    alpha : (n_rows,) dual coefficients of the rows
    costs : the dual objective after each round; it rises to the minimum of the cost F
    settled : whether the last round moved it by less than tol of itself
    """

    alpha: FloatArray
    costs: list[float]
    settled: bool


def sweep_dual(K: FloatArray, sample: Sample, C: float, tol: float, max_rounds: int) -> Sweep:
    """Sweep over a centred and scaled Gram matrix."""
    from rankwright.rankers.kernel._kernels import sweep_gram

    target = sample.roots * sample.centred(sample.y)
    alpha, product = np.zeros(len(K)), np.zeros(len(K))
    ridge = sample.total / (2.0 * C)
    costs, settled = _until_settled(
        lambda: sweep_gram(K, target, ridge, alpha, product), tol, max_rounds
    )
    return Sweep(_of_rows(alpha, sample), costs, settled)


def sweep_linear(
    rows: FloatArray, sample: Sample, C: float, tol: float, max_rounds: int
) -> tuple[FloatArray, Sweep]:
    """Sweep over centred and scaled rows, with the coefficients of the features kept along."""
    from rankwright.rankers.kernel._kernels import sweep_rows

    target = sample.roots * sample.centred(sample.y)
    alpha, coef = np.zeros(len(rows)), np.zeros(rows.shape[1])
    square = np.einsum("ij,ij->i", rows, rows)
    ridge = sample.total / (2.0 * C)
    costs, settled = _until_settled(
        lambda: sweep_rows(rows, square, target, ridge, alpha, coef), tol, max_rounds
    )
    return coef, Sweep(_of_rows(alpha, sample), costs, settled)


def _until_settled(
    one_round: Callable[[], float], tol: float, max_rounds: int
) -> tuple[list[float], bool]:
    """Repeat until a round moves the cost by less than tol of itself (the paper: 0.01 %).

    Each step's growth is known without cancellation, so that even 1e-20 is a meaningful tol.
    """
    costs = [0.0]
    for _ in range(max_rounds):
        growth = one_round()
        costs.append(costs[-1] + growth)
        if growth <= tol * costs[-1]:
            return costs, True
    return costs, False


def _of_rows(alpha: FloatArray, sample: Sample) -> FloatArray:
    """Coefficients of centred rows as coefficients of the rows themselves."""
    along = np.add.reduceat(sample.unit * alpha, sample.ptr[:-1])
    return sample.roots * (alpha - sample.unit * along[sample.codes])
