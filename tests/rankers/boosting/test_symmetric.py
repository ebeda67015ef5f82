"""Symmetric trees: a plain grower, constraints, the same bits, and use as ordinary trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.rankers.boosting.binning import QuantileBins
from rankwright.rankers.boosting.grower import Grower, TreeOptions
from rankwright.runtime import Team

SMALL: dict[str, Any] = {
    "tree": "symmetric", "n_estimators": 12, "max_depth": 3, "min_samples_leaf": 5,
    "learning_rate": 0.1, "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    """Numbers with gaps, a category in column 3, 30 queries."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[:, 3] = rng.integers(0, 6, 600)
    worth = X[:, 0] + np.where(X[:, 3] == 2, 2.0, 0.0) - (X[:, 3] == 4) + 0.3 * rng.normal(size=600)
    X[::7, 1] = np.nan
    return X, np.digitize(worth, [0.0, 1.0, 2.0]).astype(float), np.repeat(np.arange(30), 20)


def plain_tree(X: Any, g: Any, h: Any, options: TreeOptions) -> tuple[Any, list[float]]:
    """Try every split of every level by adding up its rows; returns values and sums of gains."""
    ridge = options.l2_regularization * h.sum() / len(g)

    def worth(rows: Any) -> float:
        return float(g[rows].sum() ** 2 / (h[rows].sum() + ridge))

    def divided(rows: Any, feature: int, threshold: float, default: bool) -> list[Any]:
        x = X[rows, feature]
        right = np.where(np.isnan(x), default, x > threshold)
        if min(right.sum(), (~right).sum()) < options.min_samples_leaf:
            return [rows]
        return [rows[~right], rows[right]]

    leaves, gains = [np.arange(len(g))], []
    for _ in range(options.max_depth or 0):
        best: Any = (1e-9, leaves)
        for feature in range(X.shape[1]):
            known = np.unique(X[~np.isnan(X[:, feature]), feature])
            thresholds = [*((known[1:] + known[:-1]) / 2)[::-1], -np.inf]
            for default in (False, True):
                for threshold in thresholds:
                    new = [divided(rows, feature, threshold, default) for rows in leaves]
                    gain = sum(
                        sum(map(worth, parts)) - worth(rows)
                        for parts, rows in zip(new, leaves, strict=True)
                    )
                    if gain > best[0] * (1 + 1e-7):
                        best = gain, [part for parts in new for part in parts]
        if best[1] is leaves:
            break
        gains.append(best[0])
        leaves = best[1]
    values = np.zeros(len(g))
    for rows in leaves:
        values[rows] = g[rows].sum() / (h[rows].sum() + ridge)
    return values, gains


@pytest.mark.parametrize("seed", range(6))
def test_a_symmetric_tree_is_that_of_a_plain_grower(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(120, 5)), 1)
    X[rng.random((120, 5)) < 0.15] = np.nan
    g, h = rng.normal(size=120) + np.nan_to_num(X[:, 0]) * (X[:, 1] > 0), rng.random(120) + 0.1
    options = TreeOptions(16, 4, 1.0, max_depth=4, symmetric=True)
    count, rows = np.ones(120, np.int64), np.arange(120)
    with Team(1) as pool:
        bins = QuantileBins.learn(X, rows, count, 255, np.zeros(5, bool), pool)
        binned = bins.binned(X, rows, np.zeros(5), pool)
        grower = Grower(binned, count, bins.name_split, options, pool)
        for _ in range(2):  # the second tree finds nothing of the first
            tree, scores = grower.grow(g, h), np.zeros(120)
        grower.add_values(1.0, scores)
    values, gains = plain_tree(X, g, h, options)
    np.testing.assert_allclose(scores, values, rtol=1e-8, atol=1e-10)
    assert sum(node.gain for node in tree.nodes) >= sum(gains) * (1 - 1e-9)


def test_all_splits_of_a_level_are_the_same(data: Any) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**{**SMALL, "min_samples_leaf": 1}).fit(X, y, qid=qid)
    nodes = [0]
    while nodes := [n for n in nodes if model.node_feature_[n] >= 0]:
        # A leaf that a split cannot divide takes part in the next level's split.
        assert len({(model.node_feature_[n], model.node_threshold_[n]) for n in nodes}) <= 2
        nodes = [int(child[n]) for n in nodes for child in (model.node_low_, model.node_high_)]
    assert model.node_cover_[model.node_feature_ < 0].min() >= 1


def test_max_leaf_nodes_bounds_the_depth(data: Any) -> None:
    X, y, qid = data
    by_leaves = rw.LambdaMART(**{**SMALL, "max_depth": None}, max_leaf_nodes=15).fit(X, y, qid=qid)
    by_depth = rw.LambdaMART(**SMALL).fit(X, y, qid=qid)
    np.testing.assert_array_equal(by_leaves.node_value_, by_depth.node_value_)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sampling": {"subsample": 0.6, "colsample_bytree": 0.7, "colsample_bynode": 0.5},
    "categories": {"categorical_features": [3]},
    "monotone": {"monotonic_cst": [1, 0, 0, 0]},
    "interactions": {"interaction_cst": [{0, 1}, {2, 3}]},
    "xendcg": {"loss": "xendcg"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_any_number_of_threads_gives_the_same_bits(
    data: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankwright.rankers.boosting.grower.SERIAL", 0)
    X, y, qid = data
    one, *others = (
        rw.LambdaMART(**SMALL, **OPTIONS[name], n_jobs=n).fit(X, y, qid=qid) for n in (1, 2, 5)
    )
    for other in others:
        np.testing.assert_array_equal(one.node_value_, other.node_value_)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_order_of_rows_changes_no_bit(data: Any, name: str) -> None:
    X, y, qid = data
    order = np.random.default_rng(1).permutation(len(y))
    plain = rw.LambdaMART(**SMALL, **OPTIONS[name]).fit(X, y, qid=qid)
    shuffled = rw.LambdaMART(**SMALL, **OPTIONS[name]).fit(X[order], y[order], qid=qid[order])
    np.testing.assert_array_equal(plain.decision_function(X), shuffled.decision_function(X))


def test_scores_follow_a_monotone_feature(data: Any) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**SMALL, monotonic_cst=[1, -1, 0, 0]).fit(X, y, qid=qid)
    grid = np.repeat(X[:50], 60, axis=0)
    grid[:, 0] = np.tile(np.linspace(-3, 3, 60), 50)
    assert (np.diff(model.decision_function(grid).reshape(50, 60), axis=1) >= 0).all()
    grid[:, 0], grid[:, 1] = np.repeat(X[:50, 0], 60), np.tile(np.linspace(-3, 3, 60), 50)
    assert (np.diff(model.decision_function(grid).reshape(50, 60), axis=1) <= 0).all()


def test_features_of_different_groups_never_meet_in_a_tree(data: Any) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**SMALL, interaction_cst=[{0, 1}, {2, 3}]).fit(X, y, qid=qid)
    ends = [*model.root_[1:], len(model.node_feature_)]
    for start, end in zip(model.root_, ends, strict=True):
        used = {int(f) for f in model.node_feature_[start:end] if f >= 0}
        assert used <= {0, 1} or used <= {2, 3}


def test_a_split_by_category_keeps_the_order_of_the_root(data: Any) -> None:
    X, y, qid = data
    by_category = rw.LambdaMART(**SMALL, categorical_features=[3]).fit(X, y, qid=qid)
    by_number = rw.LambdaMART(**SMALL).fit(X, y, qid=qid)
    assert by_category.score(X, y, qid=qid) > by_number.score(X, y, qid=qid)
    unknown, missing = X[:1].copy(), X[:1].copy()
    unknown[0, 3], missing[0, 3] = 77, np.nan
    assert np.isfinite(by_category.decision_function(np.vstack([unknown, missing]))).all()


def test_sparse_rows_give_the_trees_of_dense_ones(data: Any) -> None:
    from scipy import sparse

    X, y, qid = data
    X = np.nan_to_num(np.where(np.abs(X) < 0.7, 0.0, X))
    dense = rw.LambdaMART(**SMALL).fit(X, y, qid=qid)
    model = rw.LambdaMART(**SMALL).fit(sparse.csr_array(X), y, qid=qid)
    np.testing.assert_array_equal(dense.decision_function(X), model.decision_function(X))


def test_symmetric_trees_are_saved_and_explained_as_others(data: Any, tmp_path: Path) -> None:
    X, y, qid = data
    model = rw.LambdaMART(**SMALL).fit(X, y, qid=qid)
    rw.save(model, tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    shap = model.shap_values(X[:20])
    np.testing.assert_allclose(
        shap.sum(axis=1) + model.expected_value_, model.decision_function(X[:20]), atol=1e-9
    )


def test_trees_are_no_deeper_than_max_depth(data: Any) -> None:
    X, y, qid = data
    model = rw.LambdaMART(n_estimators=3, max_depth=2, min_samples_leaf=5).fit(X, y, qid=qid)
    ends = [*model.root_[1:], len(model.node_feature_)]
    for start, end in zip(model.root_, ends, strict=True):
        assert (model.node_feature_[start:end] < 0).sum() <= 4


def test_rankboost_takes_symmetric_trees(data: Any) -> None:
    X, y, qid = data
    trees = rw.TreeRanking(tree="symmetric", max_leaf_nodes=8, min_samples_leaf=5)
    model = rw.RankBoost(estimator=trees, n_estimators=20).fit(X, y, qid=qid)
    assert model.training_bound_ < 0.9
    ends = [*model.root_[1:], len(model.node_feature_)]
    for start, end in zip(model.root_, ends, strict=True):
        assert (model.node_feature_[start:end] < 0).sum() <= 8
