"""Training with the insensitive cost, in whichever space suits the kernel: SVRank's solver."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from rankwright.exceptions import ConvergenceWarning
from rankwright.rankers.kernel.magnitude import MagnitudeRanker, Problem
from rankwright.rankers.kernel.pair_costs import InsensitiveCost
from rankwright.rankers.kernel.residual_newton import GramSpace, RowSpace, Solution, minimise
from rankwright.rankers.kernel.scatter import too_large

__all__ = ["fit_insensitive"]


def fit_insensitive(
    ranker: MagnitudeRanker,
    problem: Problem,
    solver: str,
    cost: InsensitiveCost,
    tol: float | None = None,
) -> Solution:
    """Minimise |w|^2 + loss and leave the model in the ranker; ``tol`` in place of its own."""
    wanted = ranker.tol if tol is None else tol
    solution: Solution = SOLVERS[solver](ranker, problem, cost, wanted)
    if not np.isfinite(solution.objective) or not np.isfinite(solution.gap):
        raise too_large()
    if not solution.settled:
        warnings.warn(
            f"{type(ranker).__name__} stopped after {solution.n_iter} Newton steps with a duality "
            f"gap of {solution.gap:.3g} at the objective {solution.objective:.6g}; wanted: tol = "
            f"{wanted:g} of the objective. Raise max_iter, raise tol, or scale the features.",
            ConvergenceWarning,
            stacklevel=6,
        )
    sample = problem.sample
    ranker.n_iter_ = solution.n_iter
    ranker.cost_ = cost.at(solution.values - sample.y).exact / cost.C
    ranker.mass_, ranker.kappa_ = sample.total, problem.kappa
    ranker.objective_, ranker.gap_ = solution.objective, solution.gap
    return solution


def _primal(
    ranker: MagnitudeRanker, problem: Problem, cost: InsensitiveCost, tol: float
) -> Solution:
    rows, sample = problem.rows, problem.sample
    middle = np.zeros(rows.shape[1])
    if not sparse.issparse(rows):  # a shift that costs nothing and saves digits
        middle = sample.mass @ rows / sample.total
        rows = rows - middle
    solution = minimise(RowSpace(rows, sample), cost, tol, ranker.max_iter)
    ranker._keep_linear(solution.coef)
    mean = sample.overall(solution.values) + float(middle @ solution.coef)
    ranker.intercept_ = sample.overall(sample.y) - mean
    return solution


def _dual(ranker: MagnitudeRanker, problem: Problem, cost: InsensitiveCost, tol: float) -> Solution:
    solution = minimise(GramSpace(problem.matrix()), cost, tol, ranker.max_iter)
    ranker._keep_dual(problem, solution.coef)
    return _with_intercept(ranker, problem, solution)


def _nystroem(
    ranker: MagnitudeRanker, problem: Problem, cost: InsensitiveCost, tol: float
) -> Solution:
    landmarks = ranker._landmarks(problem)
    space = RowSpace(landmarks[:], problem.sample)
    solution = minimise(space, cost, tol, ranker.max_iter)
    ranker._keep_landmarks(problem, landmarks, solution.coef)
    return _with_intercept(ranker, problem, solution)


def _with_intercept(ranker: MagnitudeRanker, problem: Problem, solution: Solution) -> Solution:
    sample = problem.sample
    ranker.intercept_ = sample.overall(sample.y) - sample.overall(solution.values)
    return solution


SOLVERS: dict[str, Any] = {"primal": _primal, "dual": _dual, "nystroem": _nystroem}
