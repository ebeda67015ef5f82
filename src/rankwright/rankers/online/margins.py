"""Margins of ordinal rules and the mistake bounds that follow from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.rankers.bounds import Bound

PRANK = "Crammer and Singer 2001, Theorem 1"


def least_gap(scores: FloatArray, thresholds: FloatArray, code: IntArray) -> float:
    """How far the scores are on the right side of all thresholds, at least; negative: wrong.

    >>> least_gap(np.array([-1.0, 3.0]), np.array([1.0]), np.array([0, 1]))
    2.0
    """
    side = np.where(code[:, None] > np.arange(len(thresholds)), 1.0, -1.0)
    return float((side * (scores[:, None] - thresholds)).min(initial=np.inf))


def squared_lengths(X: Any) -> FloatArray:
    """The squared length of each row of a dense or CSR matrix."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X))
    return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()


def prank_bound(n_thresholds: int, radius: float, margin: float) -> float:
    """(k - 1)(R^2 + 1) / margin^2, infinite unless the margin is positive."""
    return n_thresholds * mistake_bound(radius, margin)


def mistake_bound(radius: float, margin: float) -> float:
    """(R^2 + 1) / margin^2."""
    return float((radius**2 + 1.0) / margin**2) if margin > 0 else np.inf


def replay(model: BaseEstimator, X: Matrix, code: IntArray) -> tuple[float, Any]:
    """The rank loss of a new model of the same parameters over its passes, and that model."""
    fresh = clone(model)
    if "average" in fresh.get_params():
        fresh.set_params(average=False)
    fresh.start(model.n_features_in_, np.arange(len(model.classes_)))
    loss = 0.0
    for _ in range(1 if model._is_pairwise() else model.max_iter):
        loss += float(np.abs(fresh.partial_fit_predict(X, code) - code).sum())
    return loss, fresh


def prank_bounds(
    model: BaseEstimator, X: Matrix, code: IntArray, radius: float, margin: float
) -> list[Bound]:
    """The bound of the perceptron's update: the rank loss over the stream."""
    loss, fresh = replay(model, X, code)
    n_thresholds = len(model.classes_) - 1
    bound = prank_bound(n_thresholds, radius, margin)
    return [
        Bound("rank loss", bound, loss, PRANK),
        Bound("mistakes", bound, float(fresh.n_mistakes_), PRANK),
    ]
