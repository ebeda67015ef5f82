"""Weak rankings of the user's own: any estimator that learns numbers from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from sklearn.base import clone

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError
from rankwright.feedback.pair_weights import PairDistribution
from rankwright.rankers import schema
from rankwright.rankers.boosting.weak_learners.features import WeakLearner, newton_alpha
from rankwright.scoring.base import Matrix, Scorer


class WeakEstimator(Protocol):
    """What ``RankBoost(estimator=...)`` asks of an estimator: that of a scikit-learn regressor.

    Each round fits a clone to the potentials: how much the pairs pull each row up (positive) or
    down. The ranking h is what it predicts, any finite number for each row. Where h is nearer to
    the order of the potentials, the round lowers the bound on the ranking loss more. A regressor by
    least squares is a good weak learner; constants end the training.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows (n_rows, n_features) and potentials (n_rows,), which add up to 0."""

    def predict(self, X: Any) -> Any:
        """(n_rows,) finite numbers: higher comes first."""


IS_WEAK_ESTIMATOR = schema.Constraint(
    "an estimator with get_params, fit and predict",
    lambda value: (
        not isinstance(value, type)
        and all(callable(getattr(value, name, None)) for name in ("get_params", "fit", "predict"))
    ),
)


@dataclass(frozen=True)
class EstimatorRanking:
    """alpha times what a fitted estimator predicts."""

    alpha: float
    estimator: Any


@dataclass(frozen=True, eq=False)
class EstimatorSum(Scorer):
    """The weighted sum of the predictions of several estimators. No model file can hold it."""

    kind: ClassVar[str] = "estimators"
    n_inputs: int
    estimators: tuple[Any, ...]
    weight: FloatArray
    _width: ClassVar[str] = "n_inputs"

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.zeros(X.shape[0])
        for estimator, weight in zip(self.estimators, self.weight.tolist(), strict=True):
            scores += weight * predictions(estimator, X)
        return scores


class EstimatorLearner(WeakLearner):
    """A clone of the user's estimator each round, weighted by method 1."""

    def __init__(self, estimator: Any, X: Any, rate: float, smoothing: float) -> None:
        self._estimator, self._X = estimator, X
        self._rate, self._smoothing = rate, smoothing

    def learn(self, pairs: PairDistribution) -> EstimatorRanking | None:
        fitted = clone(self._estimator).fit(self._X, pairs.potential / pairs.total)
        h = predictions(fitted, self._X)
        width = float(np.ptp(h))
        if width <= 0:
            return None
        alpha = self._rate * newton_alpha(pairs.curve(h), width, self._smoothing)
        if alpha == 0.0:
            return None
        pairs.move(h, alpha)
        return EstimatorRanking(alpha, fitted)


def predictions(estimator: Any, X: Any) -> FloatArray:
    """What an estimator predicts, checked."""
    values = np.asarray(estimator.predict(X), dtype=np.float64)
    name = type(estimator).__name__
    if values.shape != (X.shape[0],):
        raise DataError(
            f"{name}.predict returned shape {values.shape} for {X.shape[0]} rows: a weak ranking "
            "is one number per row."
        )
    if not np.isfinite(values).all():
        raise DataError(f"{name}.predict returned NaN or infinite values for some rows.")
    return values
