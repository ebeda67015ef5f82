"""AdaBoost's score as a ranking, against AdaBoost written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankwright import AdaBoostRanker, RankBoost


def _follow(model: AdaBoostRanker, X: Any, label: Any, weight: Any, s: float) -> None:
    """Repeat the rounds of a model; each must have the largest edge there is."""
    D = weight / weight.sum()
    h_all = [np.ones(len(X))]
    for f in range(X.shape[1]):
        x = X[:, f]
        for theta in [-np.inf, *np.unique(x[~np.isnan(x)])]:
            for q in (0, 1):
                with np.errstate(invalid="ignore"):
                    h_all.append(2.0 * np.where(np.isnan(x), q, x > theta) - 1)
    edges = np.array(h_all)
    margin = np.zeros(len(X))
    rounds = zip(model.feature_, model.threshold_, model.default_, model.alpha_, strict=True)
    for feature, theta, q, step in rounds:
        x = X[:, feature]
        with np.errstate(invalid="ignore"):
            h = 2.0 * np.where(np.isnan(x), q, x > theta) - 1
        best = np.abs(edges @ (D * label)).max()
        edge = float(h @ (D * label))
        while abs(edge) < best - 1e-9:  # the constant was better, and has no entry
            constant = float(D @ label)
            assert abs(constant) >= best - 1e-9
            r = np.clip(constant, -(1 - 2 * s), 1 - 2 * s)
            D = D * np.exp(-label * 0.5 * np.log((1 + r) / (1 - r)))
            D /= D.sum()
            best = np.abs(edges @ (D * label)).max()
            edge = float(h @ (D * label))
        r = np.clip(edge, -(1 - 2 * s), 1 - 2 * s)
        alpha = 0.5 * np.log((1 + r) / (1 - r))
        assert step == pytest.approx(2 * alpha, abs=1e-8)
        D = D * np.exp(-label * alpha * h)
        D /= D.sum()
        margin += step * (h + 1) / 2
    np.testing.assert_allclose(model.decision_function(X), margin, atol=1e-8)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([None, 255]))
def test_every_round_takes_the_largest_edge(seed: int, missing: bool, max_bins: Any) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(14, 2)).round(1)
    if missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    y = rng.integers(0, 2, 14)
    y[:2] = 0, 1
    weight = rng.random(14) + 0.1
    model = AdaBoostRanker(n_estimators=8, max_bins=max_bins, smoothing=0.01)
    model.fit(X, y, sample_weight=weight)
    _follow(model, X, np.where(y > 0, 1.0, -1.0), weight, 0.01)


def test_sparse_rows_are_dense_rows_with_zeros() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.4)
    y = (X[:, 0] > 0.1).astype(int) + (X[:, 1] > 0.5)
    dense = AdaBoostRanker(n_estimators=20, max_bins=None).fit(X, y).decision_function(X)
    rows = sparse.csr_array(X)
    thin = AdaBoostRanker(n_estimators=20, max_bins=None).fit(rows, y).decision_function(rows)
    np.testing.assert_allclose(thin, dense, atol=1e-9)


def test_what_counts_as_relevant_is_a_parameter() -> None:
    X = np.arange(6.0)[:, None]
    y = [0, 1, 2, 0, 1, 2]
    high = AdaBoostRanker(n_estimators=1, rel=2).fit(X, y)
    some = AdaBoostRanker(n_estimators=1).fit(X, y)
    assert some.threshold_[0] == 0.0
    assert high.threshold_[0] in (1.0, 4.0)


def test_it_orders_two_grades_about_as_well_as_rankboost() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 5))
    y = (X[:, 0] + X[:, 1] + rng.normal(size=800) > 1).astype(int)
    ada = AdaBoostRanker().fit(X[:400], y[:400]).score(X[400:], y[400:])
    rank = RankBoost().fit(X[:400], y[:400]).score(X[400:], y[400:])
    assert ada == pytest.approx(rank, abs=0.03)
