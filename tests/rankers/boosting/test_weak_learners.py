"""Weak rankings that are not one threshold: features as they are, and trees."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar

from rankwright import RankBoost, TreeRanking
from rankwright.feedback.base import Grades
from rankwright.runtime import progress


def _problem(seed: int = 0, n: int = 60, d: int = 4) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    qid = rng.integers(0, 5, n)
    y = np.digitize(X[:, 0] - X[:, 1] + rng.normal(size=n), [-0.5, 0.8])
    return X, y, qid


@pytest.mark.parametrize("missing", [False, True])
def test_newton_takes_the_feature_and_the_weight_that_minimize_z(missing: bool) -> None:
    X, y, qid = _problem()
    if missing:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    model = RankBoost(estimator="value", criterion="newton", n_estimators=4, cumulative=False)
    model.set_params(smoothing=1e-12).fit(X, y, qid=qid)
    pairs = Grades(y, qid).to_pairs()
    D = np.ones(pairs.n_pairs) / pairs.n_pairs
    for feature, default, alpha, z in zip(
        model.feature_, model.default_, model.alpha_, model.z_, strict=True
    ):
        found = {}
        for f in range(X.shape[1]):
            low, high = np.nanmin(X[:, f]), np.nanmax(X[:, f])
            for q in (0, 1) if missing else (0,):
                h = np.where(np.isnan(X[:, f]), q, (X[:, f] - low) / (high - low))
                gap = h[pairs.lower] - h[pairs.upper]
                best = minimize_scalar(lambda a, D=D, gap=gap: D @ np.exp(a * gap), tol=1e-12)
                found[f, q] = (best.fun, best.x, gap)
        assert z == pytest.approx(min(value for value, _, _ in found.values()), abs=1e-9)
        _, at, gap = found[int(feature), int(default)]
        assert alpha == pytest.approx(at, abs=1e-5)
        D = D * np.exp(alpha * gap)
        D /= D.sum()


@pytest.mark.parametrize("absent", ["dense", "zero", "abstain"])
def test_the_third_method_takes_the_feature_with_the_largest_edge(absent: str) -> None:
    X, y, qid = _problem(2)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    rows: Any = X
    if absent != "dense":
        stored = np.random.default_rng(2).random(X.shape) < 0.5
        rows = sparse.csr_array((X[stored], np.nonzero(stored)), shape=X.shape)
        X = np.where(stored, X, 0.0 if absent == "zero" else np.nan)
    options = {} if absent == "dense" else {"absent": absent}
    model = RankBoost(estimator="value", n_estimators=1, cumulative=False, **options)
    model.fit(rows, y, qid=qid)
    pairs = Grades(y, qid).to_pairs()
    edges = {}
    for f in range(X.shape[1]):
        low, high = np.nanmin(X[:, f]), np.nanmax(X[:, f])
        for q in (0, 1):
            h = np.where(np.isnan(X[:, f]), q, (X[:, f] - low) / (high - low))
            edges[f, q] = float(np.mean(h[pairs.upper] - h[pairs.lower]))
    best = max(edges.values(), key=abs)
    assert edges[int(model.feature_[0]), int(model.default_[0])] == pytest.approx(best)
    assert model.alpha_[0] == pytest.approx(0.5 * np.log((1 + best) / (1 - best)))
    np.testing.assert_allclose(model.decision_function(rows), model.decision_function(X))


def test_the_first_split_of_a_tree_is_the_best_there_is() -> None:
    X, y, qid = _problem(3)
    X[::9, 2] = np.nan
    tree = TreeRanking(
        max_leaf_nodes=2, min_samples_leaf=3, l2_regularization=1.0, learning_rate=1.0
    )
    model = RankBoost(estimator=tree, n_estimators=1).fit(X, y, qid=qid)
    pairs = Grades(y, qid).to_pairs()
    n = len(y)
    up, down = (
        np.bincount(rows, minlength=n) / pairs.n_pairs for rows in (pairs.upper, pairs.lower)
    )
    pi, mass = up - down, up + down
    ridge = mass.sum() / n
    gains = {}
    for f in range(X.shape[1]):
        x = X[:, f]
        for theta in [-np.inf, *np.unique(x[~np.isnan(x)])]:
            for q in (0, 1):
                with np.errstate(invalid="ignore"):
                    high = np.where(np.isnan(x), bool(q), x > theta)
                if min(high.sum(), (~high).sum()) >= 3:
                    parts = [pi[s].sum() ** 2 / (mass[s].sum() + ridge) for s in (high, ~high)]
                    gains[f, float(theta), q] = sum(parts)
    chosen = (
        int(model.node_feature_[0]),
        float(model.node_threshold_[0]),
        int(model.node_default_[0]),
    )
    assert gains[chosen] == pytest.approx(max(gains.values()))


def test_a_tree_has_no_more_leaves_and_no_smaller_ones_than_allowed() -> None:
    X, y, qid = _problem(n=200)
    tree = TreeRanking(max_leaf_nodes=5, min_samples_leaf=15)
    model = RankBoost(estimator=tree, n_estimators=3).fit(X, y, qid=qid)
    for number in range(3):
        added = model._ensemble.scorer(number + 1, first=number).decision_function(X)
        _, counts = np.unique(added, return_counts=True)
        assert len(counts) <= 5
        assert counts.min() >= 15


def test_a_bar_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.task("RankBoost", 3) as work:
        work.update(1, "bound 0.5")
    assert "RankBoost" in capsys.readouterr().err
