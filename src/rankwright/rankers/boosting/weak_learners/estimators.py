"""Weak rankings that are estimators: trees, or any estimator that learns numbers from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from rankwright._typing import FloatArray, MatrixLike
from rankwright.exceptions import DataError
from rankwright.feedback.pair_weights import PairDistribution
from rankwright.rankers import schema
from rankwright.rankers.boosting.binning import FeatureColumns
from rankwright.rankers.boosting.grower import Grower, Tree, TreeOptions
from rankwright.rankers.boosting.weak_learners.features import (
    WeakLearner,
    draw_features,
    newton_alpha,
)
from rankwright.rankers.boosting.weak_learners.splitting import DEFAULTS, BinnedScan
from rankwright.runtime import Team
from rankwright.scoring.base import Matrix, Scorer


class TreeRanking(BaseEstimator):  # type: ignore[misc]
    r"""Trees as weak rankings, so that RankBoost learns interactions between features.

    A tree is grown on the potentials :math:`\pi` (how strongly its pairs pull a row up)
    and the masses :math:`\mu` (the weight of its pairs). Each split is the one that adds most to
    :math:`\sum \pi^2 / (\mu + \lambda)` over the leaves, and a leaf has the value
    :math:`\pi / (\mu + \lambda)`. The weight of the tree is the one that minimizes Z (method 1),
    times the learning rate; Z is convex, so any fraction of that weight still lowers it.

    Parameters
    ----------
    tree : "leafwise" or "symmetric", default "leafwise"
        How trees grow: leaf by leaf, best split first, or with one split for all leaves of a level.
    max_leaf_nodes : int >= 2, default 8
        Symmetric trees have at most log2(``max_leaf_nodes``) levels.
    min_samples_leaf : int >= 1, default 20
        Minimum number of rows in a leaf.
    l2_regularization : float >= 0, default 1.0
        :math:`\lambda`, counted in rows of average mass.
    learning_rate : float, 0 < rate <= 1, default 0.1

    Examples
    --------
    >>> import numpy as np
    >>> from rankwright import RankBoost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)         # no single feature says anything
    >>> model = RankBoost(estimator=TreeRanking(max_leaf_nodes=4), n_estimators=30).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _constraints: ClassVar = {
        "tree": schema.one_of("leafwise", "symmetric"),
        "max_leaf_nodes": schema.at_least(2),
        "min_samples_leaf": schema.at_least(1),
        "l2_regularization": schema.number(0.0),
        "learning_rate": schema.between(1e-6, 1.0),
    }

    def __init__(
        self,
        *,
        tree: str = "leafwise",
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 20,
        l2_regularization: float = 1.0,
        learning_rate: float = 0.1,
    ) -> None:
        self.tree = tree
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.learning_rate = learning_rate

    def check(self) -> None:
        """Raise a ParameterError unless every parameter is in its range."""
        for name, rule in self._constraints.items():
            rule.check("TreeRanking", name, getattr(self, name))


class WeakEstimator(Protocol):
    """What ``RankBoost(estimator=...)`` asks of an estimator: that of a scikit-learn regressor.

    Each round fits a clone to the potentials: how much the pairs pull each row up (positive) or
    down. The ranking h is what it predicts, any finite number for each row. Where h is nearer to
    the order of the potentials, the round lowers the bound on the ranking loss more. A regressor by
    least squares is a good weak learner; constants end the training.
    """

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Learn from rows (n_rows, n_features) and potentials (n_rows,), which add up to 0."""

    def predict(self, X: MatrixLike) -> Any:
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

    def __init__(self, model: BaseEstimator, X: Matrix, smoothing: float) -> None:
        self._estimator, self._X = model.estimator, X
        self._rate, self._smoothing = model.learning_rate, smoothing

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


def predictions(estimator: BaseEstimator, X: Matrix) -> FloatArray:
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


class TreeLearner(WeakLearner):
    """A tree on the potentials, weighted by method 1 (or by the learning rate alone)."""

    def __init__(
        self,
        model: BaseEstimator,
        columns: FeatureColumns,
        pairs: PairDistribution,
        pool: Team,
        smoothing: float,
    ) -> None:
        trees, scan, none = model.estimator, BinnedScan(columns, pool), np.zeros(0)
        self._rate, self._smoothing = trees.learning_rate, smoothing
        self._line_search = model.weighting is None
        self._draw = draw_features(model, columns.n_features)
        options = TreeOptions(
            trees.max_leaf_nodes,
            trees.min_samples_leaf,
            trees.l2_regularization,
            DEFAULTS[model.default],
            "low",
            max_depth=trees.max_leaf_nodes.bit_length() - 1 if trees.tree == "symmetric" else None,
            symmetric=trees.tree == "symmetric",
        )
        count = np.rint(pairs.count).astype(np.int64)
        self._grower = Grower(
            scan.packed(), count, lambda f, cut, up: (scan.threshold(f, cut), none), options, pool
        )

    def learn(self, pairs: PairDistribution) -> Tree | None:
        tree = self._grower.grow(pairs.potential, pairs.mass, None, next(self._draw))
        value = self._grower.values
        width = float(np.ptp(value))
        if len(value) == 1 or width <= 0:
            return None
        alpha, leaf_of = 1.0, self._grower.leaf_of()
        if self._line_search:
            alpha = newton_alpha(pairs.leaf_curve(leaf_of, value), width, self._smoothing)
        tree.alpha = self._rate * alpha
        if tree.alpha == 0.0:
            return None
        pairs.move(value[leaf_of], tree.alpha)
        return tree
