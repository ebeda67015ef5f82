"""Defaults between 0 and 1: explicit sums over pairs, brute force, files, exports, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright import RankBoost
from rankwright.feedback.base import Grades

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(60, 3)), 1)
Y = np.digitize(X[:, 0] + X[:, 1] + 0.5 * RNG.normal(size=60), [-0.7, 0.7]).astype(float)
X[RNG.random(X.shape) < 0.3] = np.nan
QID = np.repeat(np.arange(5), 12)
PAIRS = Grades(Y, QID).to_pairs()
WEIGHT = np.full(len(PAIRS.lower), 1 / len(PAIRS.lower))


def rankings(default: float, values: bool) -> Any:
    """All weak rankings (feature, threshold, h) with this default."""
    for feature in range(3):
        x = X[:, feature]
        known = x[~np.isnan(x)]
        if values:
            scaled = (x - known.min()) / np.ptp(known)
            yield feature, known.min(), np.where(np.isnan(x), default, scaled)
            continue
        for threshold in [-np.inf, *np.unique(known)[:-1]]:
            yield feature, threshold, np.where(np.isnan(x), default, x > threshold)


def differences(h: Any) -> Any:
    return h[PAIRS.upper] - h[PAIRS.lower]


def fit(**options: Any) -> Any:
    return RankBoost(max_bins=None, smoothing=1e-12, **options).fit(X, Y, qid=QID)


def test_the_gain_r_is_linear_in_the_default_so_0_or_1_is_best() -> None:
    ends = [list(rankings(default, False)) for default in (0.0, 1.0)]
    for default in np.linspace(0.1, 0.9, 9):
        for (*_, low), (*_, high), (*_, h) in zip(*ends, rankings(default, False), strict=True):
            r = [WEIGHT @ differences(each) for each in (low, high, h)]
            assert r[2] == pytest.approx((1 - default) * r[0] + default * r[1], abs=1e-14)
            assert abs(r[2]) <= max(abs(r[0]), abs(r[1])) + 1e-14


@pytest.mark.parametrize("criterion", ["r", "z"])
@pytest.mark.parametrize("cumulative", [True, False, "signed"])
def test_where_both_defaults_gain_the_same_the_default_is_1_as_in_figure_3(
    criterion: str, cumulative: Any
) -> None:
    """The row that lacks the feature is above one row and below the other: its potential is 0."""
    rows = np.array([[1.0], [0.0], [np.nan]])
    model = RankBoost(n_estimators=1, criterion=criterion, cumulative=cumulative)
    model.fit_feedback(rows, rw.Pairs(lower=[2, 1], upper=[0, 2]))
    assert (model.threshold_.tolist(), model.default_.tolist()) == ([0.0], [1])


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("default", [0.3, 0.8])
def test_a_given_default_is_that_of_the_best_weak_ranking(values: bool, default: float) -> None:
    estimator = "value" if values else "threshold"
    model = fit(n_estimators=1, default=default, estimator=estimator, cumulative=False)
    r = [(abs(WEIGHT @ differences(h)), f, t) for f, t, h in rankings(default, values)]
    best = max(r)
    assert (model.feature_[0], model.threshold_[0]) == best[1:]
    assert model.default_.tolist() == [default]
    assert abs(model.alpha_[0]) == pytest.approx(np.arctanh(best[0]))
    wanted = next(h for f, t, h in rankings(default, values) if (f, t) == best[1:])
    np.testing.assert_allclose(model.decision_function(X), model.alpha_[0] * wanted, atol=1e-12)


def smallest_z(h: Any) -> float:
    """The minimum over a fine grid of weights."""
    steps = np.linspace(-6, 6, 601)
    return float((WEIGHT @ np.exp(-np.outer(differences(h), steps))).min())


def test_a_real_default_of_values_is_the_best_of_all_features_and_defaults() -> None:
    options = {"n_estimators": 1, "criterion": "newton", "estimator": "value"}
    real, learned = (fit(default=default, **options) for default in ("real", "learned"))
    grid = {
        (feature, default): smallest_z(h)
        for default in np.linspace(0, 1, 51)
        for feature, _, h in rankings(default, True)
    }
    feature, default = min(grid, key=grid.__getitem__)
    assert 0 < default < 1
    assert real.feature_.tolist() == [feature]
    assert real.default_[0] == pytest.approx(default, abs=0.02)
    assert min(grid.values()) - 1e-3 < real.z_[0] <= min(grid.values())
    assert real.z_[0] < learned.z_[0] - 0.01


def test_a_real_default_of_a_threshold_minimizes_z_of_the_cut_that_was_chosen() -> None:
    real, learned = (
        fit(n_estimators=1, default=default, criterion="newton") for default in ("real", "learned")
    )
    chosen = real.feature_[0], real.threshold_[0]
    assert chosen == (learned.feature_[0], learned.threshold_[0])
    grid = {
        default: smallest_z(h)
        for default in np.linspace(0, 1, 101)
        for feature, threshold, h in rankings(default, False)
        if (feature, threshold) == chosen
    }
    assert real.z_[0] <= min(grid.values()) + 1e-12 < learned.z_[0]
    assert real.default_[0] == pytest.approx(min(grid, key=grid.__getitem__), abs=0.01)


@pytest.mark.parametrize("cumulative", ["signed", True, False])
@pytest.mark.parametrize("estimator", ["threshold", "value"])
def test_models_with_real_defaults_keep_their_promises(
    estimator: str, cumulative: Any, tmp_path: Path
) -> None:
    model = fit(
        n_estimators=12, default="real", criterion="newton", estimator=estimator,
        cumulative=cumulative, learning_rate=0.7,
    )  # fmt: skip
    assert np.any((model.default_ > 0) & (model.default_ < 1))
    assert model.train_rloss_ + model.train_ties_ / 2 <= model.training_bound_
    scores = model.decision_function(X)
    explicit = WEIGHT @ np.exp(-differences(scores))
    assert model.training_bound_ == pytest.approx(explicit, rel=1e-9)
    rw.save(model, tmp_path / "model.rw")
    np.testing.assert_array_equal(rw.load(tmp_path / "model.rw").decision_function(X), scores)
    loaded = rw.load_scorer(tmp_path / "model.rw")
    np.testing.assert_array_equal(loaded.decision_function(X), scores)
    *_, last = model.staged_decision_function(X)
    np.testing.assert_allclose(last, scores, atol=1e-12)
    assert "if missing" in str(model.explain(X[0], X[1])) or estimator == "value"


def test_a_real_default_is_exported_and_its_scores_are_verified(tmp_path: Path) -> None:
    model = fit(n_estimators=5, default=0.25)
    assert rw.export(model, tmp_path / "model.sql", "sql", check=X).largest_difference < 1e-12
