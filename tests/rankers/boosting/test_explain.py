"""Shapley values equal brute force and LightGBM's; explanations add up to score differences."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankwright import LambdaMART, RankBoost, TreeRanking, load, save
from rankwright.exceptions import DataError, ParameterError
from rankwright.rankers.boosting.explain import leaf_paths, tree_shap
from rankwright.scoring.trees import Trees
from scoring.test_trees import VALUES, random_trees


def random_cover(trees: Trees, rng: np.random.Generator) -> Any:
    """Training rows per node: children share the rows of their parent, some get none."""
    cover = np.zeros(trees.feature.size, np.int64)
    cover[trees.root] = 20
    for node in np.flatnonzero(trees.feature >= 0):
        cover[trees.low[node]] = rng.integers(0, cover[node] + 1)
        cover[trees.high[node]] = cover[node] - cover[trees.low[node]]
    return cover


def value_of(trees: Trees, cover: Any, row: Any, known: set[int]) -> float:
    """The value function: known features decide, the others take both branches by their cover."""

    def walk(node: int) -> float:
        feature = int(trees.feature[node])
        if feature < 0:
            return float(trees.value[node])
        low, high = int(trees.low[node]), int(trees.high[node])
        if feature not in known:
            share = cover[high] / cover[node] if cover[node] else 0.5
            return float(share * walk(high) + (1 - share) * walk(low))
        listed = trees.categories(node)
        up = row[feature] in listed if len(listed) else row[feature] > trees.threshold[node]
        if np.isnan(row[feature]):
            up = trees.default[node] == 1
        return walk(high if up else low)

    return sum(w * walk(int(root)) for root, w in zip(trees.root, trees.weight, strict=True))


def brute_force(trees: Trees, cover: Any, row: Any) -> Any:
    n, values = trees.n_inputs, np.zeros(trees.n_inputs)
    for i in range(n):
        others = [k for k in range(n) if k != i]
        for size in range(n):
            weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for group in combinations(others, size):
                known = set(group)
                gain = value_of(trees, cover, row, known | {i}) - value_of(trees, cover, row, known)
                values[i] += weight * gain
    return values


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 5), st.booleans())
def test_tree_shap_is_the_shapley_value_by_brute_force(
    seed: int, max_depth: int, with_cats: bool
) -> None:
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, 2, max_depth, with_cats)
    cover, X = random_cover(trees, rng), rng.choice(VALUES, (4, 3))
    trees = replace(trees, cover=cover)
    expected = np.array([brute_force(trees, cover, row) for row in X])
    np.testing.assert_allclose(tree_shap(trees, X), expected, atol=1e-9)
    paths = leaf_paths(trees)
    empty = value_of(trees, cover, X[0], set())
    assert math.isclose((paths.value * paths.share).sum(), empty, abs_tol=1e-9)


def test_tree_shap_equals_the_contributions_of_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    from benchmarks.scoring import trees_of

    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(600, 5)), 1)
    y = X[:, 0] * X[:, 1] + X[:, 2]
    parameters = {"num_leaves": 12, "verbosity": -1, "min_data_in_leaf": 5, "num_threads": 1}
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, y), 10)
    trees = trees_of(booster)
    theirs = booster.predict(X[:50], pred_contrib=True)
    np.testing.assert_allclose(tree_shap(trees, X[:50]), theirs[:, :-1], atol=1e-9)
    paths = leaf_paths(trees)
    np.testing.assert_allclose((paths.value * paths.share).sum(), theirs[0, -1], atol=1e-9)


def _data(seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(400, 4)), 1)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.digitize(np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2]), [-1, 1])
    return X, y, np.arange(400) // 20


MODELS = [
    LambdaMART(n_estimators=8),
    LambdaMART(n_estimators=8, tree="leafwise", max_leaf_nodes=6, weighting="NDCG@30"),
    RankBoost(n_estimators=8, estimator=TreeRanking(max_leaf_nodes=4)),
    RankBoost(n_estimators=20),
    RankBoost(n_estimators=6, estimator="value", criterion="newton"),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_shapley_values_add_up_to_the_score(model: Any, tmp_path: Any) -> None:
    X, y, qid = _data()
    model.fit(X, y, qid=qid)
    values = model.shap_values(X)
    assert values.shape == X.shape
    total = values.sum(axis=1) + model.expected_value_
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-9)
    save(model, tmp_path / "model.rw")
    again = load(tmp_path / "model.rw")
    assert again.shap_values(X).tobytes() == values.tobytes()
    assert again.expected_value_ == model.expected_value_


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_an_explanation_adds_up_to_the_difference_of_scores(model: Any) -> None:
    X, y, qid = _data()
    model.fit(X, y, qid=qid)
    why = model.explain(X[0], X[5])
    scores = model.decision_function(X[[0, 5]])
    np.testing.assert_allclose(
        sum(part.amount for part in why.contributions), why.difference, atol=1e-12
    )
    assert why.difference == scores[0] - scores[1]
    sizes = [abs(part.amount) for part in why.contributions]
    assert sizes == sorted(sizes, reverse=True)
    assert len(model.explain(X[0], X[5], n=1).contributions) == 1
    assert not model.explain(X[0], X[0]).contributions


@pytest.mark.parametrize("estimator", ["threshold", "value", TreeRanking()], ids=str)
@pytest.mark.parametrize("absent", ["zero", "abstain"])
def test_rows_of_a_sparse_matrix_are_explained_as_they_are_scored(
    estimator: Any, absent: str
) -> None:
    X, y, qid = _data()
    rows = sparse.csr_matrix(np.where(np.nan_to_num(X) > 0, X, 0.0))
    model = RankBoost(n_estimators=20, estimator=estimator, absent=absent).fit(rows, y, qid=qid)
    why = model.explain(rows[0], rows[5])
    scores = model.decision_function(rows[[0, 5]])
    assert why.difference == scores[0] - scores[1]
    assert sum(part.amount for part in why.contributions) == pytest.approx(why.difference)


def test_rows_of_a_data_frame_are_explained_by_name_without_a_warning() -> None:
    X, y, qid = _data()
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    model = RankBoost(n_estimators=20).fit(frame, y, qid=qid)
    why = str(model.explain(X[0], X[5]))
    assert str(model.explain(frame[:1], frame[5:6])) == why
    assert str(model.explain(frame.iloc[0], frame.iloc[5])) == why
    assert model.fit(X, y, qid=qid).explain(frame.iloc[0], frame.iloc[5]).contributions
    model.fit(frame, y, qid=qid)
    with pytest.raises(ValueError, match="feature names should match"):
        model.explain(frame.iloc[0, ::-1], frame.iloc[5, ::-1])
    with pytest.raises(DataError, match="x0 has 2 rows"):
        model.explain(frame[:1], frame[4:6])
    with pytest.raises(ParameterError, match=r"explain\(n=-1\)"):
        model.explain(X[0], X[5], n=-1)


def test_step_functions_of_one_feature_keep_their_shape_as_shapley_values() -> None:
    X, y, qid = _data()
    model = RankBoost(n_estimators=20).fit(X, y, qid=qid)
    curve = model.contribution(0)(X[:, 0])
    np.testing.assert_allclose(model.shap_values(X)[:, 0], curve - curve.mean())


def test_sparse_rows_have_the_same_shapley_values() -> None:
    X, y, qid = _data()
    X = np.nan_to_num(X)
    for model in (MODELS[0], MODELS[2]):
        model.fit(X, y, qid=qid)
        values = model.shap_values(sparse.csr_array(X))
        np.testing.assert_array_equal(values, model.shap_values(X))


def test_a_model_without_cover_says_what_is_missing() -> None:
    X, y, qid = _data()
    model = LambdaMART(n_estimators=2).fit(X, y, qid=qid)
    del model.node_cover_
    with pytest.raises(DataError, match="node_cover_"):
        model.shap_values(X)
