"""LambdaMART: gradient boosted trees on the pairs of ranked lists."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import BoolArray, FloatArray
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.grades import Grades
from rankwright.parallel import Team
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.boosting.ensemble import LEARNED, Ensemble
from rankwright.rankers.boosting.explain import Explained
from rankwright.rankers.boosting.grower import Grower, Tree, TreeRules
from rankwright.rankers.boosting.pair_losses import LOSSES, PairGradients
from rankwright.rankers.boosting.pair_weights import WEIGHTING, PairWeights
from rankwright.rankers.boosting.quantile_bins import QuantileBins
from rankwright.rankers.early_stopping import EARLY_STOPPING, Validation
from rankwright.rankers.schema import floats, integer
from rankwright.scoring.base import Scorer


class LambdaMART(Explained, Ranker):
    r"""Gradient boosted trees that learn to order rows, weighted by what matters in a list.

    Each pair of rows of a query with different grades costs a loss of the difference of its scores,
    times a weight: by default the logistic loss, and the change of NDCG if the two rows changed
    places. Each round grows a tree on the gradient of that sum. A split is the one that lowers the
    loss most to second order; a leaf takes one Newton step, times the learning rate.

    Missing values (NaN) go the way that gains. Sums are sums of integers, so a model has the same
    bits on any number of threads, and in any order of the queries and of the rows inside them.

    Parameters
    ----------
    n_estimators : int >= 1, default 300
        How many trees.
    learning_rate : float, 0 < rate <= 1, default 0.1
    max_leaf_nodes : int >= 2, default 31
    min_samples_leaf : int >= 1, default 20
    l2_regularization : float >= 0, default 1.0
        Added to the Hessian of a leaf, counted in rows of average Hessian.
    max_bins : int from 2 to 255, default 255
    loss : "logistic", "exponential", "fidelity", "squared_hinge" or "squared", default "logistic"
        Those of RankNet, RankBoost, FRank, RankSVM and MPRank.
    weighting : str or None, default "NDCG@30"
        None, "grade_difference", or a measure ("NDCG", "AP", "ERR", "RR"), with a truncation level
        as in "NDCG@30".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(30), 20)
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> model = LambdaMART(n_estimators=30).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid) > 0.95
    True
    """

    _constraints: ClassVar = {
        "n_estimators": schema.at_least(1),
        "learning_rate": schema.between(1e-6, 1.0),
        "max_leaf_nodes": schema.at_least(2),
        "min_samples_leaf": schema.at_least(1),
        "l2_regularization": schema.number(0.0),
        "max_bins": schema.Constraint(
            "an integer from 2 to 255", lambda v: schema.at_least(2).test(v) and v <= 255
        ),
        "loss": schema.one_of(*LOSSES),
        "weighting": WEIGHTING,
        "early_stopping": EARLY_STOPPING,
        "n_jobs": schema.optional(schema.one_of(-1), schema.at_least(1)),
        "random_state": schema.random_state(),
    }
    _learned: ClassVar = {
        **{name: rule for name, rule in LEARNED.items() if name == "alpha_" or "node" in name},
        "root_": LEARNED["root_"],
        "feature_importances_": floats("n_features", low=0.0, high=1.0),
        "validation_": floats("n_rounds_tried", optional=True),
        "best_iteration_": integer(low=0),
    }
    _iterative: ClassVar = True
    _takes: ClassVar = (Grades,)
    _abstains: ClassVar = True

    def __init__(
        self,
        *,
        n_estimators: int = 300,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        l2_regularization: float = 1.0,
        max_bins: int = 255,
        loss: str = "logistic",
        weighting: str | None = "NDCG@30",
        early_stopping: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.loss = loss
        self.weighting = weighting
        self.early_stopping = early_stopping
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, X: Any, feedback: Grades, validation: Validation | None = None) -> None:
        threads = None if self.n_jobs in (None, -1) else self.n_jobs
        with Team(threads) as pool:
            trees = self._boost(X, feedback, validation, pool)
        kept = validation.n_kept(len(trees)) if validation else len(trees)
        self._keep(trees[:kept], X.shape[1])
        self.validation_ = np.array(validation.curve) if validation else None

    def _boost(
        self, X: Any, grades: Grades, validation: Validation | None, pool: Team
    ) -> list[Tree]:
        from rankwright.rankers.boosting._kernels.tree import walk_tree

        losses = PairGradients(grades, self.loss, PairWeights.parse(self.weighting), pool)
        if not len(losses.rows):
            return []
        n_features = X.shape[1]
        categorical = np.zeros(n_features, bool)
        bins = QuantileBins.learn(X, losses.rows, losses.count, self.max_bins, categorical, pool)
        binned = bins.binned(X, losses.rows, np.zeros(n_features), pool)
        rules = TreeRules(self.max_leaf_nodes, self.min_samples_leaf, self.l2_regularization)

        def name_split(feature: int, cut: int, up: Any) -> tuple[float, FloatArray]:
            return bins.threshold(feature, cut), np.zeros(0)

        grower = Grower(binned, losses.count, name_split, rules, pool)
        held_out = bins.encode(validation.X, None, pool) if validation else None
        scores, trees = np.zeros(len(losses.rows)), []
        for _ in range(self.n_estimators):
            tree = grower.grow(*losses.at(scores))
            if len(tree.nodes) == 1:
                break
            tree.alpha = self.learning_rate
            trees.append(tree)
            grower.add_values(self.learning_rate, scores)
            if validation is not None and held_out is not None:
                added = np.zeros(validation.X.shape[0])
                walk_tree(held_out, tree.table(), self.learning_rate, 0, len(added), added)
                if validation.add(added):
                    break
        return trees

    def _keep(self, trees: list[Tree], n_features: int) -> None:
        ensemble = Ensemble.from_rounds(n_features, False, trees, True, False)
        for name in self._learned:
            if hasattr(ensemble, name.removesuffix("_")):
                setattr(self, name, getattr(ensemble, name.removesuffix("_")))
        inner = ensemble.node_feature >= 0
        gain = np.bincount(
            ensemble.node_feature[inner], ensemble.node_gain[inner], n_features
        ).astype(np.float64)
        self.feature_importances_ = gain / gain.sum() if gain.sum() > 0 else gain
        self.best_iteration_ = len(trees)

    def _scorer(self) -> Scorer:
        return Ensemble.of(self).scorer(len(self.alpha_))
