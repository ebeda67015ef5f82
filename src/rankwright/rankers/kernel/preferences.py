"""MPRank from single preferences: each difference of scores is fitted to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse

from rankwright.exceptions import FeedbackError
from rankwright.feedback import Pairs
from rankwright.rankers.kernel.sample import FloatArray, Sample
from rankwright.rankers.kernel.scatter import Scatter

__all__ = ["fit_pairs"]


def fit_pairs(ranker: Any, X: Any, pairs: Pairs) -> None:
    """Minimise |w|^2 + C / (sum of weights) * sum_p weight_p (gap_p - 1)^2."""
    if ranker.loss != "squared" or ranker.solver == "online":
        raise FeedbackError(
            f"{type(ranker).__name__} learns from Pairs with loss='squared' and the solvers auto, "
            "primal, dual and nystroem."
        )
    m = X.shape[0]
    everything = Sample(
        np.arange(m), np.zeros(m), np.ones(m), np.array([0, m], dtype=np.int64), np.ones(1)
    )
    problem = ranker._problem(X, everything)
    solver = ranker._choose_solver(problem)
    ranker.n_iter_, ranker.intercept_ = 1, 0.0
    ranker.mass_, ranker.kappa_ = 0.0, problem.kappa
    factor = ranker.C / (pairs.total_weight or 1.0)
    if solver == "dual":
        alpha, left = _solve_laplacian(problem.matrix(), pairs, factor)
        ranker._keep_dual(problem, alpha)
        ranker.cost_ = float(pairs.weight @ left**2) / (pairs.total_weight or 1.0)
        return
    landmarks = None
    if solver == "nystroem":
        landmarks = ranker._landmarks(problem)
    rows = X if landmarks is None else landmarks
    scatter = Scatter(rows.shape[1])
    scatter.add_pairs(rows, pairs)
    coef = scatter.solve(factor)
    ranker.cost_ = scatter.loss(coef) / (pairs.total_weight or 1.0)
    if landmarks is None:
        ranker._keep_linear(coef)
    else:
        ranker._keep_landmarks(problem, landmarks, coef)


def _solve_laplacian(K: FloatArray, pairs: Pairs, factor: float) -> tuple[FloatArray, FloatArray]:
    """alpha = c (I + c L K)^-1 D' w for the differences D and the graph's Laplacian L = D' W D."""
    n, p = len(K), np.arange(pairs.n_pairs)
    D = sparse.csr_array(
        (
            np.concatenate([np.ones(len(p)), -np.ones(len(p))]),
            (np.concatenate([p, p]), np.concatenate([pairs.upper, pairs.lower])),
        ),
        shape=(len(p), n),
    )
    weighted = D.T @ sparse.diags_array(pairs.weight)
    system = factor * np.asarray((weighted @ D) @ K)
    system.flat[:: n + 1] += 1.0
    alpha = linalg.solve(system, factor * (D.T @ pairs.weight), overwrite_a=True)
    return alpha, 1.0 - D @ (K @ alpha)
