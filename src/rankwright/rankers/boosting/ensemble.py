"""The learned sum of weak rankings as arrays, whatever its weak rankings are."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers.boosting.grower import Tree
from rankwright.rankers.boosting.weak_learners import WeakRanking
from rankwright.rankers.schema import floats, integers
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import Slopes
from rankwright.scoring.trees import Additive, Trees


@dataclass(frozen=True)
class Contribution:
    """A weak ranking that two rows differ on: how much it lifts the first above the second."""

    words: str
    amount: float
    feature: int | None
    threshold: float | None

    def __str__(self) -> str:
        return f"{self.amount:+.4f}  {self.words}"


@dataclass(frozen=True)
class Explanation:
    """Why one row scores higher than another: weak rankings by contribution.

    ``difference`` is the difference of the two scores, the sum of all contributions.
    """

    difference: float
    contributions: tuple[Contribution, ...]

    def __str__(self) -> str:
        head = f"score difference {self.difference:+.4f}"
        return "\n".join([head, *(f"  {each}" for each in self.contributions)])


@dataclass(frozen=True)
class Curve:
    """What a feature adds to the score: ``value[k]`` where k of the thresholds are below it.

    Attributes
    ----------
    threshold : (n,) float64, ascending
    value : (n + 1,) float64
    missing : float, what is added where the row lacks the feature
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


def vc_dimension(n_features: int) -> int:
    """A bound on the VC dimension of thresholds on n features, each with a default.

    On d points a feature has at most d + 1 cuts and 2 defaults, so at most 2 n (d + 1) splits in
    all; to shatter d points takes 2 ** d of them.

    >>> vc_dimension(1), vc_dimension(46), vc_dimension(1000)
    (3, 9, 14)
    """
    d = 2
    while 2 ** (d + 1) <= 2 * n_features * (d + 2):
        d += 1
    return d


def generalization_bound(
    train_error: float, n_lower: int, n_upper: int, n_estimators: int, delta: float, d: int
) -> float:
    """Theorem 3: with probability 1 - delta the true ranking error is at most this.

    Infinite where the theorem says nothing (a bound of 1 or more, or a negative root).

    >>> generalization_bound(0.1, 100, 100, 10, 0.05, 9)
    inf
    >>> round(generalization_bound(0.1, 10**7, 10**7, 10, 0.05, 9), 3)
    0.237
    """
    capacity = 2 * (d + 1) * (n_estimators + 1) * np.log2(np.e * (n_estimators + 1))
    bound = train_error
    for size in (n_lower, n_upper):
        if size < 1:
            return float("inf")
        inside = (capacity * (np.log(2 * size / capacity) + 1) + np.log(18 / delta)) / size
        if inside < 0:
            return float("inf")
        bound += 2 * np.sqrt(inside)
    return float(bound) if bound < 1 else float("inf")


LEARNED = {
    "alpha_": floats("n_estimators"),
    "z_": floats("n_estimators", low=0.0),
    "feature_": integers("n_estimators", low=0, high="n_features", optional=True),
    "threshold_": floats("n_estimators", finite=False, optional=True),
    "default_": integers("n_estimators", low=0, high=1, optional=True),
    "scale_": floats("n_estimators", optional=True),
    "root_": integers("n_estimators", low=0, optional=True),
    "node_feature_": integers("n_nodes", low=-1, high="n_features", optional=True),
    "node_threshold_": floats("n_nodes", finite=False, optional=True),
    "node_default_": integers("n_nodes", low=0, high=1, optional=True),
    "node_low_": integers("n_nodes", low=0, high="n_nodes", optional=True),
    "node_high_": integers("n_nodes", low=0, high="n_nodes", optional=True),
    "node_value_": floats("n_nodes", optional=True),
    "node_gain_": floats("n_nodes", low=0.0, optional=True),
}


@dataclass(frozen=True)
class Ensemble:
    """Weak rankings in the order of their rounds: thresholds, values (with ``scale``) or trees."""

    n_inputs: int
    absent_abstains: bool
    alpha: FloatArray
    feature: IntArray | None = None
    threshold: FloatArray | None = None
    default: IntArray | None = None
    scale: FloatArray | None = None
    root: IntArray | None = None
    node_feature: IntArray | None = None
    node_threshold: FloatArray | None = None
    node_default: IntArray | None = None
    node_low: IntArray | None = None
    node_high: IntArray | None = None
    node_value: FloatArray | None = None
    node_gain: FloatArray | None = None

    @classmethod
    def of(cls, model: Any) -> Self:
        """The ensemble that a fitted model's attributes describe."""
        names = [field.name for field in fields(cls)][2:]
        learned: dict[str, Any] = {name: getattr(model, f"{name}_", None) for name in names}
        return cls(model.n_features_in_, model.absent == "abstain", **learned)

    @classmethod
    def from_rounds(
        cls, n_inputs: int, absent_abstains: bool, rounds: list[Any], trees: bool, values: bool
    ) -> Self:
        alpha = np.array([weak.alpha for weak in rounds], np.float64)
        if trees:
            return cls(n_inputs, absent_abstains, alpha, **_nodes(rounds))
        return cls(
            n_inputs,
            absent_abstains,
            alpha,
            np.array([weak.feature for weak in rounds], np.int64),
            np.array([weak.threshold for weak in rounds], np.float64),
            np.array([weak.default for weak in rounds], np.int64),
            np.array([weak.scale for weak in rounds], np.float64) if values else None,
        )

    def scorer(self, stop: int, first: int = 0) -> Scorer:
        """The sum of rounds first .. stop."""
        part = slice(first, stop)
        if self.root is not None:
            return self._trees(part)
        assert self.feature is not None
        assert self.threshold is not None
        assert self.default is not None
        arrays = self.feature[part], self.threshold[part], self.default[part], self.alpha[part]
        if self.scale is None:
            return Additive.from_rounds(self.n_inputs, *arrays, self.absent_abstains)
        feature, lowest, default, alpha = arrays
        used, place = np.unique(feature, return_inverse=True)
        steps = (alpha * self.scale[part], -alpha * self.scale[part] * lowest, alpha * default)
        slope, offset, missing = (_sums(place, step, len(used)) for step in steps)
        return Slopes(self.n_inputs, used, slope, offset, missing, self.absent_abstains)

    def _trees(self, part: slice) -> Trees:
        known: Any = self  # the arrays of trees are there
        return Trees(
            n_inputs=self.n_inputs,
            root=known.root[part],
            weight=self.alpha[part],
            feature=known.node_feature,
            threshold=known.node_threshold,
            default=known.node_default,
            low=known.node_low,
            high=known.node_high,
            value=known.node_value,
            absent_abstains=self.absent_abstains,
        )

    def importances(self, z: FloatArray, n_features: int) -> FloatArray:
        """Which part of the fall of the log bound is due to each feature."""
        fall = np.maximum(-np.log(np.maximum(z, 1e-300)), 0.0)
        if self.root is None:
            assert self.feature is not None
            share = _sums(self.feature, fall, n_features)
        else:
            share = self._split_importances(fall, n_features)
        total = share.sum()
        return np.asarray(share / total if total > 0 else np.zeros(n_features))

    def _split_importances(self, fall: FloatArray, n_features: int) -> FloatArray:
        """A tree's part is shared out by what its splits gained."""
        gain: Any = self.node_gain
        feature: Any = self.node_feature
        root: Any = self.root
        tree = np.searchsorted(root, np.arange(len(gain)), side="right") - 1
        whole = _sums(tree, gain, len(fall))
        part = gain * np.where(whole > 0, fall / np.where(whole > 0, whole, 1.0), 0.0)[tree]
        inner = feature >= 0
        return _sums(feature[inner], part[inner], n_features)

    def contributions(self, rows: FloatArray, names: list[str]) -> list[Contribution]:
        """On what two rows differ, the largest first; equal weak rankings are added up."""
        found: dict[Any, list[Any]] = {}
        for number in range(len(self.alpha)):
            scores = self.scorer(number + 1, first=number).decision_function(rows)
            key, words = self._name(number, names)
            entry = found.setdefault(key, [words, 0.0])
            entry[1] += float(scores[0] - scores[1])
        listed = [
            Contribution(words, amount, *(key if self.root is None else (None, None))[:2])
            for key, (words, amount) in found.items()
            if amount != 0.0
        ]
        return sorted(listed, key=lambda each: -abs(each.amount))

    def _name(self, number: int, names: list[str]) -> tuple[Any, str]:
        if self.root is not None:
            return (number, 0), f"tree {number + 1}"
        assert self.feature is not None
        assert self.threshold is not None
        assert self.default is not None
        feature, default = int(self.feature[number]), int(self.default[number])
        threshold = float(self.threshold[number])
        if self.scale is not None:
            return (feature, threshold, default), f"{names[feature]}, scaled"
        if threshold == -np.inf:
            return (feature, threshold, default), f"{names[feature]} has a value"
        absent = " or missing" if default else ""
        return (feature, threshold, default), f"{names[feature]} > {threshold:.6g}{absent}"


def _sums(place: Any, values: FloatArray, n: int) -> FloatArray:
    return np.bincount(place, values, n).astype(np.float64)


def _nodes(trees: list[Tree]) -> dict[str, Any]:
    """The nodes of all trees in one list."""
    starts = np.concatenate([[0], np.cumsum([len(tree.feature) for tree in trees])]).astype(int)

    def join(name: str, dtype: Any, moved: bool = False) -> Any:
        parts = [
            np.array(getattr(tree, name), dtype) + (start if moved else 0)
            for tree, start in zip(trees, starts, strict=False)
        ]
        return np.concatenate([np.zeros(0, dtype), *parts])

    return {
        "root": starts[:-1].astype(np.int64),
        "node_feature": join("feature", np.int64),
        "node_threshold": join("threshold", np.float64),
        "node_default": join("default", np.int64),
        "node_low": join("low", np.int64, moved=True),
        "node_high": join("high", np.int64, moved=True),
        "node_value": join("value", np.float64),
        "node_gain": join("gain", np.float64),
    }


def round_scores(weak: WeakRanking | Tree, X: Any, absent_abstains: bool = False) -> FloatArray:
    """What one round adds to the scores of rows."""
    value = isinstance(weak, WeakRanking) and weak.scale != 0.0
    single = Ensemble.from_rounds(
        X.shape[1], absent_abstains, [weak], trees=isinstance(weak, Tree), values=value
    )
    return single.scorer(1).decision_function(X)
