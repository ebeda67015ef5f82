"""The fitted sum of weak rankings as arrays: scorers, importances, explanations.

Also the base class of AdaBoostRanker and FRank, which are sums of thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.data.display import Bar, html_table
from rankwright.data.vocabulary import Hashes, hash_rows
from rankwright.rankers.base import Ranker
from rankwright.rankers.boosting.grower import Tree
from rankwright.rankers.boosting.weak_learners.estimators import EstimatorRanking, EstimatorSum
from rankwright.rankers.boosting.weak_learners.features import WeakRanking
from rankwright.rankers.early_stopping import Validation
from rankwright.rankers.schema import byte_array, floats, integers, numbers
from rankwright.scoring.base import Scorer, columns_of
from rankwright.scoring.linear import Additive, Slopes
from rankwright.scoring.trees import Trees


@dataclass(frozen=True)
class Contribution:
    """A weak ranking on which two rows differ, and its contribution to the difference of scores."""

    name: str
    amount: float
    feature: int | None
    threshold: float | None

    def __str__(self) -> str:
        return f"{self.amount:+.4f}  {self.name}"


@dataclass(frozen=True)
class PairExplanation:
    """Why one row scores higher than another: weak rankings by contribution.

    ``difference`` is the difference of the two scores, the sum of all contributions.
    """

    difference: float
    contributions: tuple[Contribution, ...]

    def __str__(self) -> str:
        head = f"score difference {self.difference:+.4f}"
        return "\n".join([head, *(f"  {contribution}" for contribution in self.contributions)])

    def _repr_html_(self) -> str:
        largest = max((abs(one.amount) for one in self.contributions), default=0.0)
        rows = [(one.name, one.amount, Bar(one.amount, largest)) for one in self.contributions]
        head = f"score difference {self.difference:+.4f}"
        return html_table(("weak ranking", "contribution", ""), rows, head)


@dataclass(frozen=True)
class StepCurve:
    """The contribution of a feature: ``value[k]`` if k thresholds are below its value.

    Attributes
    ----------
    threshold : (n,) float64, ascending
    value : (n + 1,) float64
    missing : float, the contribution of a missing value
    """

    threshold: FloatArray
    value: FloatArray
    missing: float

    def __call__(self, x: FloatArray) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        value = self.value[np.searchsorted(self.threshold, x, side="left")]
        return np.where(np.isnan(x), self.missing, value)

    @property
    def points(self) -> tuple[FloatArray, FloatArray]:
        """Corners of the staircase from the first threshold to the last, ready to plot."""
        return np.repeat(self.threshold, 2), np.stack([self.value[:-1], self.value[1:]]).T.ravel()


BASELINE_ROWS = 10_000  # training rows that the mean of a step function is taken over
BASELINE = {"baseline_": floats("n_features", optional=True)}

THRESHOLDS = {
    "feature_": integers("n_estimators", low=0, high="n_features"),
    "threshold_": floats("n_estimators", finite=False),
    "default_": integers("n_estimators", low=0, high=1),
    "alpha_": floats("n_estimators"),
}

LEARNED = {
    "alpha_": floats("n_estimators"),
    "z_": floats("n_estimators", low=0.0),
    "feature_": integers("n_estimators", low=0, high="n_features", optional=True),
    "threshold_": floats("n_estimators", finite=False, optional=True),
    "default_": numbers("n_estimators", low=0, high=1, optional=True),
    "scale_": floats("n_estimators", optional=True),
    "root_": integers("n_estimators", low=0, optional=True),
    "node_feature_": integers("n_nodes", low=-1, high="n_features", optional=True),
    "node_threshold_": floats("n_nodes", finite=False, optional=True),
    "node_default_": integers("n_nodes", low=0, high=1, optional=True),
    "node_low_": integers("n_nodes", low=0, high="n_nodes", optional=True),
    "node_high_": integers("n_nodes", low=0, high="n_nodes", optional=True),
    "node_value_": floats("n_nodes", optional=True),
    "node_gain_": floats("n_nodes", low=0.0, optional=True),
    "node_cover_": integers("n_nodes", low=0, optional=True),
    "node_set_": integers("n_nodes", low=-1, optional=True),
    "node_set_ptr_": integers("n_sets_and_1", low=0, optional=True),
    "node_set_bits_": byte_array("n_set_bytes", optional=True),
    "node_level_ptr_": integers("n_features_and_1", low=0, optional=True),
    "node_level_": floats("n_levels", optional=True),
}


# The fields of Trees that are learned attributes named node_..._
NODE = (
    "feature", "threshold", "default", "low", "high", "value", "gain", "cover", "set",
    "set_ptr", "set_bits", "level_ptr", "level",
)  # fmt: skip


def trees_of(model: BaseEstimator) -> Trees:
    """The trees of a fitted model, which hold its learned arrays."""
    nodes: dict[str, Any] = {name: getattr(model, f"node_{name}_", None) for name in NODE}
    return Trees(
        n_inputs=model.n_features_in_,
        root=model.root_,
        weight=model.alpha_,
        absent_abstains=_abstains(model),
        **nodes,
    )


def tree_attributes(trees: Trees | None) -> dict[str, Any]:
    """The learned attributes that are the nodes of trees; None without any."""
    nodes = {f"node_{name}_": getattr(trees, name, None) for name in NODE}
    return {"root_": getattr(trees, "root", None), **nodes}


def _abstains(model: BaseEstimator) -> bool:
    return bool(getattr(model, "absent", "zero") == "abstain")


@dataclass(frozen=True)
class BoostedEnsemble:
    """Weak rankings in the order of their rounds: thresholds, values (with ``scale``) or trees.

    The arrays are RankBoost's learned attributes of the same names; those of the other kinds of
    weak rankings are None.
    """

    n_inputs: int
    absent_abstains: bool
    alpha: FloatArray
    feature: Any = None
    threshold: Any = None
    default: Any = None
    scale: Any = None
    trees: Trees | None = None
    estimators: Any = None  # custom ones, see weak_learners.estimators

    @classmethod
    def of(cls, model: BaseEstimator) -> Self:
        """The ensemble of a fitted model."""
        names = ("alpha", "feature", "threshold", "default", "scale", "estimators")
        arrays: dict[str, Any] = {name: getattr(model, f"{name}_", None) for name in names}
        trees = None if getattr(model, "root_", None) is None else trees_of(model)
        return cls(model.n_features_in_, _abstains(model), trees=trees, **arrays)

    @classmethod
    def from_rounds(
        cls, n_inputs: int, absent_abstains: bool, rounds: list[Any], trees: bool, values: bool
    ) -> Self:
        alpha = np.array([weak.alpha for weak in rounds], np.float64)
        if any(isinstance(weak, EstimatorRanking) for weak in rounds):
            estimators = tuple(weak.estimator for weak in rounds)
            return cls(n_inputs, absent_abstains, alpha, estimators=estimators)
        if trees:
            nodes = [tree.nodes for tree in rounds]
            flat = Trees.from_nodes(n_inputs, nodes, alpha, absent_abstains)
            return cls(n_inputs, absent_abstains, alpha, trees=flat)
        return cls(
            n_inputs,
            absent_abstains,
            alpha,
            np.array([weak.feature for weak in rounds], np.int64),
            np.array([weak.threshold for weak in rounds], np.float64),
            _defaults([weak.default for weak in rounds]),
            np.array([weak.scale for weak in rounds], np.float64) if values else None,
        )

    def learned(self) -> dict[str, Any]:
        """The learned attributes that hold the rounds; those of other kinds are None."""
        names = ("alpha", "feature", "threshold", "default", "scale")
        return {f"{name}_": getattr(self, name) for name in names} | tree_attributes(self.trees)

    def scorer(self, stop: int, first: int = 0) -> Scorer:
        """The sum of rounds first .. stop."""
        part = slice(first, stop)
        alpha = self.alpha[part]
        if self.estimators is not None:
            return EstimatorSum(self.n_inputs, self.estimators[part], alpha)
        if self.trees is not None:
            return self.trees.part(first, stop)
        feature, threshold, default = self.feature[part], self.threshold[part], self.default[part]
        if self.scale is None:
            return Additive.from_rounds(
                self.n_inputs, feature, threshold, default, alpha, self.absent_abstains
            )
        used, inverse = np.unique(feature, return_inverse=True)
        steps = alpha * self.scale[part], -alpha * self.scale[part] * threshold, alpha * default
        slope, offset, missing = (_sums(inverse, step, len(used)) for step in steps)
        return Slopes(self.n_inputs, used, slope, offset, missing, self.absent_abstains)

    def staged(self, X: Matrix) -> Iterator[FloatArray]:
        """The scores of rows after each round."""
        scores = np.zeros(X.shape[0])
        for number in range(len(self.alpha)):
            scores = scores + self.scorer(number + 1, first=number).decision_function(X)
            yield scores

    def importances(self, z: FloatArray, n_features: int) -> FloatArray:
        """The share of each feature in the fall of the log bound.

        The share of a tree is divided among its splits by their gains.
        """
        fall = np.maximum(-np.log(np.maximum(z, 1e-300)), 0.0)
        if self.estimators is not None:  # as they say themselves
            none = np.zeros(n_features)
            own = [getattr(one, "feature_importances_", none) for one in self.estimators]
            share = fall @ np.array(own) if own else none
        elif self.trees is None:
            share = _sums(self.feature, fall, n_features)
        else:
            feature, gain = self.trees.feature, np.asarray(self.trees.gain)
            tree = np.searchsorted(self.trees.root, np.arange(gain.size), side="right") - 1
            whole = _sums(tree, gain, len(fall))
            per_gain = np.where(whole > 0, fall / np.where(whole > 0, whole, 1.0), 0.0)
            part, inner = gain * per_gain[tree], feature >= 0
            share = _sums(feature[inner], part[inner], n_features)
        total = share.sum()
        return np.asarray(share / total if total > 0 else np.zeros(n_features))

    def contributions(self, rows: FloatArray, names: list[str]) -> list[Contribution]:
        """On what two rows differ, the largest first; equal weak rankings are added up."""
        amounts: dict[tuple[Any, ...], float] = {}
        for number in range(len(self.alpha)):
            scores = self.scorer(number + 1, first=number).decision_function(rows)
            key = self._name(number, names)
            amounts[key] = amounts.get(key, 0.0) + float(scores[0] - scores[1])
        contributions = [
            Contribution(name, amount, feature, threshold)
            for (name, feature, threshold, _), amount in amounts.items()
            if amount != 0.0
        ]
        return sorted(contributions, key=lambda contribution: -abs(contribution.amount))

    def _name(self, number: int, names: list[str]) -> tuple[Any, ...]:
        """The name, feature, threshold and default of a round."""
        if self.trees is not None or self.estimators is not None:
            kind = "tree" if self.estimators is None else "round"
            return f"{kind} {number + 1}", None, None, None
        feature, threshold = int(self.feature[number]), float(self.threshold[number])
        default = float(self.default[number])
        missing = " or missing" if default == 1 else f", {default:.3g} if missing" * (default > 0)
        name = f"{names[feature]} > {threshold:.6g}{missing}"
        if self.scale is not None:
            name = f"{names[feature]}, scaled"
        elif threshold == -np.inf:
            name = f"{names[feature]} has a value"
        return name, feature, threshold, default


def _defaults(defaults: list[float]) -> Any:
    """Integers where all defaults are 0 or 1."""
    real = any(default not in (0, 1) for default in defaults)
    return np.array(defaults, np.float64 if real else np.int64)


def _sums(index: IntArray, values: FloatArray, n: int) -> FloatArray:
    return np.bincount(index, values, n).astype(np.float64)


def gain_shares(trees: Trees) -> FloatArray:
    """The share of each feature in the gain of all splits."""
    inner = trees.feature >= 0
    gain = _sums(trees.feature[inner], np.asarray(trees.gain)[inner], trees.n_inputs)
    return gain / gain.sum() if gain.sum() > 0 else gain


class BoostedThresholds(Ranker):
    """A sum of thresholds on single features, the learned attributes ``THRESHOLDS``."""

    _family: ClassVar = "boosting"
    _scores_as: ClassVar = "trees"
    _multiplies: ClassVar = False
    _iterative: ClassVar = True
    _abstains: ClassVar = True

    def _keep(self, rounds: list[WeakRanking], validation: Validation | None) -> list[WeakRanking]:
        """Learn the rounds up to the best one, and return them; feature -1 orders nothing."""
        self.validation_ = np.array(validation.curve) if validation else None
        self.best_iteration_ = validation.n_kept(len(rounds)) if validation else len(rounds)
        kept = rounds[: self.best_iteration_]
        thresholds = [weak for weak in kept if weak.feature >= 0]
        arrays = BoostedEnsemble.from_rounds(1, False, thresholds, False, False)
        self.feature_, self.threshold_ = arrays.feature, arrays.threshold
        self.default_, self.alpha_ = arrays.default, arrays.alpha
        return kept

    def _may_drop_columns(self) -> bool:
        return True

    def _scorer(self) -> Scorer:
        return BoostedEnsemble.of(self).scorer(len(self.alpha_))


def round_scores(
    weak: Tree | WeakRanking | BaseEstimator, X: Matrix, absent_abstains: bool = False
) -> FloatArray:
    """What one round adds to the scores of rows."""
    trees = isinstance(weak, Tree)
    values = isinstance(weak, WeakRanking) and weak.scale != 0.0
    single = BoostedEnsemble.from_rounds(X.shape[1], absent_abstains, [weak], trees, values)
    return single.scorer(1).decision_function(X)


def feature_parts(scorer: Any, X: Matrix) -> FloatArray:
    """What each feature adds to the score of each row, for an ``Additive`` or ``Slopes``."""
    parts = np.zeros((X.shape[0], scorer.n_inputs))
    for rows, i, column in columns_of(X, scorer.feature, scorer.absent_abstains):
        parts[rows, scorer.feature[i]] = scorer.part(i, column)
    return parts


def baseline(scorer: Scorer, X: Matrix) -> FloatArray | None:
    """The mean of :func:`feature_parts` over (some) training rows; None for other scorers."""
    if not isinstance(scorer, Additive | Slopes):
        return None
    return np.asarray(feature_parts(scorer, typical_rows(X)[0]).mean(axis=0))


def typical_rows(X: Matrix) -> tuple[Any, Hashes]:
    """At most ``BASELINE_ROWS`` rows and their hashes, whatever the order of X."""
    hashes = hash_rows(X)
    order = np.argsort(hashes, kind="stable")[:BASELINE_ROWS]
    return X[order], hashes[order]
