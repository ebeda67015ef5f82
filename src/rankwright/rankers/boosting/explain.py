"""Explanations of scores: Shapley values, and why one row scores above another."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import BoolArray, FloatArray, IntArray, Matrix, MatrixLike
from rankwright.exceptions import DataError, ParameterError
from rankwright.rankers.base import Ranker
from rankwright.rankers.boosting.ensemble import (
    BoostedEnsemble,
    Contribution,
    PairExplanation,
    feature_parts,
)
from rankwright.rankers.schema import at_least, optional
from rankwright.runtime import map_blocks, n_threads, ranges
from rankwright.scoring.base import Scorer, columns_of, row_blocks
from rankwright.scoring.linear import Additive, Slopes
from rankwright.scoring.trees import Trees, goes_right_at, level_places

VALUES_PER_BLOCK = 1 << 22


class Explained(Ranker):
    """A sum of trees or of functions of single features, with Shapley values and explanations."""

    _family: ClassVar = "boosting"

    def shap_values(self, X: MatrixLike) -> FloatArray:
        """Compute Shapley values: how much each feature moves a score from the expected value.

        The values of a row add up to its score minus ``expected_value_``. For trees they are the
        exact path-dependent values: a feature outside the coalition follows both branches, weighted
        by their training rows, ``node_cover_``. For step functions of single features they are the
        feature's term minus its mean over (at most 10,000) training rows.

        Parameters
        ----------
        X : (n_items, n_features)

        Returns
        -------
        (n_items, n_features) float64

        References
        ----------
        S. M. Lundberg, G. G. Erion, S.-I. Lee: Consistent individualized feature attribution for
        tree ensembles. arXiv 1802.03888, 2018.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        scorer = self._fitted_scorer()
        if isinstance(scorer, Trees):
            return tree_shap(scorer, X)
        expected = self._baseline(scorer)
        return feature_parts(scorer, X) - expected

    @property
    def expected_value_(self) -> float:
        """The mean score of the training rows, from which ``shap_values`` are measured."""
        check_is_fitted(self)
        scorer = self._fitted_scorer()
        if isinstance(scorer, Trees):
            paths = leaf_paths(scorer)
            return float((paths.value * paths.share).sum())
        return float(self._baseline(scorer).sum())

    def decision_function_at(self, X: Matrix, n_estimators: int) -> FloatArray:
        """Compute the scores after the first ``n_estimators`` rounds (all, if there are fewer)."""
        check_is_fitted(self)
        at_least(1).check(type(self).__name__, "n_estimators", n_estimators)
        X = self._validated(X, reset=False)
        scores: FloatArray = BoostedEnsemble.of(self).scorer(n_estimators).decision_function(X)
        return scores

    def explain(self, x1: ArrayLike, x0: ArrayLike, n: int | None = None) -> PairExplanation:
        """Explain why row ``x1`` scores higher (or lower) than row ``x0``.

        A sum of weak rankings is explained by the weak rankings on which the rows differ; trees by
        the differences of the features' Shapley values. Both add up to the difference of scores.

        Parameters
        ----------
        x1, x0 : (n_features,) rows, or a data frame or CSR matrix of one row each
        n : int, optional
            The number of largest contributions to show; all by default.
        """
        check_is_fitted(self)
        optional(at_least(0)).check(f"{type(self).__name__}.explain", "n", n)
        rows = two_rows(self, x1, x0)
        names = names_of(self)
        scorer = self._fitted_scorer()
        if isinstance(scorer, Trees):
            high, low = tree_shap(scorer, rows)
            parts = by_feature(high - low, names)
        else:
            parts = BoostedEnsemble.of(self).contributions(rows, names)
        scores = scorer.decision_function(rows)
        return PairExplanation(float(scores[0] - scores[1]), tuple(parts[:n]))

    def _baseline(self, scorer: Scorer) -> FloatArray:
        if not isinstance(scorer, Additive | Slopes):
            raise ParameterError(
                f"{type(self).__name__}: Shapley values are available for trees and for functions "
                "of single features only."
            )
        if getattr(self, "baseline_", None) is None:
            raise DataError(
                f"this {type(self).__name__} was saved without baseline_, which Shapley values "
                "need. Fit it again."
            )
        return np.asarray(self.baseline_)


def names_of(ranker: Ranker) -> list[str]:
    """The names of the features: those of the columns, or x0, x1 ..."""
    names = getattr(ranker, "feature_names_in_", [f"x{i}" for i in range(ranker.n_features_in_)])
    return [str(name) for name in names]


def by_feature(amounts: FloatArray, names: list[str]) -> list[Contribution]:
    """The contributions of features other than 0, the largest first."""
    used = np.flatnonzero(amounts)
    parts = [Contribution(names[i], float(amounts[i]), int(i), None) for i in used]
    return sorted(parts, key=lambda part: -abs(part.amount))


def two_rows(ranker: Ranker, x1: ArrayLike, x0: ArrayLike) -> Any:
    """Two rows to explain as one checked matrix, sparse if the first is."""
    upper, lower = _row(ranker, x1, "x1"), _row(ranker, x0, "x0")
    if sparse.issparse(upper):
        return sparse.vstack([upper, lower], "csr")
    return np.vstack([upper, lower.toarray() if sparse.issparse(lower) else lower])


def _row(ranker: Ranker, x: MatrixLike, name: str) -> Any:
    """A row as (1, n_features); that of a data frame may be a pandas Series."""
    if hasattr(x, "to_frame") and hasattr(x, "index"):
        x = x.to_frame().T.infer_objects()
    if not hasattr(x, "columns") and not sparse.issparse(x):
        x = np.asarray(x, np.float64).reshape(1, -1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
        row = ranker._validated(x, reset=False)
    if row.shape[0] != 1:
        raise DataError(f"explain: {name} has {row.shape[0]} rows. Give one.")
    return row


class Paths(NamedTuple):
    """The paths to the leaves of all trees.

    Attributes
    ----------
    value, share : (n_leaves,) weight * value of the leaf, and the share of training rows in it
    entry_ptr, slot_ptr : (n_leaves + 1,) where the splits and the slots of a leaf begin
    node, is_right, slot : (n_entries,) a split on the path, the way taken, its slot in the leaf
    feature, zero : (n_slots,) a feature on the path, the share of training rows that pass it
    points : (n + 1, n, 2) nodes and weights of Gauss-Legendre quadrature with 0 .. n points
    """

    value: FloatArray
    share: FloatArray
    entry_ptr: IntArray
    slot_ptr: IntArray
    node: IntArray
    is_right: BoolArray
    slot: IntArray
    feature: IntArray
    zero: FloatArray
    points: FloatArray


def leaf_paths(trees: Trees) -> Paths:
    """The paths of all trees."""
    cover = trees.cover
    if cover is None:
        raise DataError(
            "these trees have no cover (node_cover_), the number of training rows at each node, "
            "which Shapley values need. Fit the model again."
        )
    entries: list[tuple[int, bool, int]] = []
    slots: list[tuple[int, float]] = []
    leaves: list[tuple[float, float, int, int]] = []  # value, share, ends in entries and slots
    for root, weight in zip(trees.root.tolist(), trees.weight.tolist(), strict=True):
        stack: list[tuple[int, tuple[Any, ...], dict[int, float]]] = [(root, (), {})]
        while stack:
            node, path, zeros = stack.pop()
            feature = int(trees.feature[node])
            if feature >= 0:
                for is_right, child in (
                    (False, int(trees.low[node])),
                    (True, int(trees.high[node])),
                ):
                    share = cover[child] / cover[node] if cover[node] else 0.5
                    passed = {**zeros, feature: zeros.get(feature, 1.0) * share}
                    stack.append((child, (*path, (node, is_right, feature)), passed))
                continue
            slot_of = {feature: i for i, feature in enumerate(zeros)}
            entries += [(at, is_right, slot_of[feature]) for at, is_right, feature in path]
            slots += zeros.items()
            share = float(np.prod(list(zeros.values())))
            leaves.append((weight * float(trees.value[node]), share, len(entries), len(slots)))
    value, share, entry_ends, slot_ends = _columns(leaves, 4)
    node, is_right, slot = _columns(entries, 3)
    feature, zero = _columns(slots, 2)
    return Paths(
        value=value,
        share=share,
        entry_ptr=np.append(0, entry_ends).astype(np.int64),
        slot_ptr=np.append(0, slot_ends).astype(np.int64),
        node=node.astype(np.int64),
        is_right=is_right.astype(bool),
        slot=slot.astype(np.int64),
        feature=feature.astype(np.int64),
        zero=zero,
        points=_quadrature(int(np.diff(slot_ends, prepend=0).max(initial=0) + 1) // 2),
    )


def _quadrature(n: int) -> FloatArray:
    points = np.zeros((n + 1, n, 2))
    for k in range(1, n + 1):
        nodes, weights = np.polynomial.legendre.leggauss(k)
        points[k, :k, 0], points[k, :k, 1] = (nodes + 1) / 2, weights / 2
    return points


def _columns(rows: list[Any], width: int) -> FloatArray:
    return np.ascontiguousarray(np.array(rows, np.float64).reshape(len(rows), width).T)


def tree_shap(trees: Trees, X: Matrix) -> FloatArray:
    """Path-dependent Shapley values of a sum of trees, (n_rows, n_inputs)."""
    paths = leaf_paths(trees)
    values = np.zeros((X.shape[0], trees.n_inputs))
    for block in row_blocks(X.shape[0], trees.feature.size, VALUES_PER_BLOCK):
        _add_shap(paths, _decisions(trees, X[block]), values[block])
    return values


def _add_shap(paths: Paths, goes_right: BoolArray, values: FloatArray) -> None:
    from rankwright.rankers.boosting._kernels.predictor import add_shap_values

    rows = ranges(len(goes_right), n_threads())
    map_blocks(lambda part: add_shap_values(goes_right, paths, *part, values), rows)


def _decisions(trees: Trees, X: FloatArray) -> BoolArray:
    """Whether each row goes right at each node."""
    goes_right = np.zeros((X.shape[0], trees.feature.size), bool)
    inner = np.flatnonzero(trees.feature >= 0)
    used, column_of = np.unique(trees.feature[inner], return_inverse=True)
    sets = trees._level_sets
    by_set = np.zeros(trees.feature.size, bool) if sets is None else sets.byte >= 0
    for rows, i, column in columns_of(X, used, trees.absent_abstains):
        for with_set in (False, True):
            nodes = inner[(column_of == i) & (by_set[inner] == with_set)]
            if not nodes.size:
                continue
            values = column
            if with_set and sets is not None:
                slot = int(np.searchsorted(sets.feature, used[i]))
                values = level_places(column, sets, slot).astype(np.float64)
            at, x = np.repeat(nodes, len(column)), np.tile(values, len(nodes))
            right = goes_right_at(x, at, trees._nodes, sets)
            goes_right[rows, nodes] = right.reshape(len(nodes), -1).T
    return goes_right
