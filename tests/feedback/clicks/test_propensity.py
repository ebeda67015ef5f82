"""Propensities are recovered from experiments, from several rankers, and by EM."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from rankwright.data import ClickSimulator, ImpressionLog, Items, make_queries
from rankwright.exceptions import (
    ConvergenceWarning,
    DegenerateDataWarning,
    FeedbackError,
    ParameterError,
)
from rankwright.feedback import calibration, effective_sample_size, estimate_propensities
from rankwright.feedback.clicks.propensity import Cells, _contrasts, _shrunken_fit


@pytest.mark.parametrize(
    "method, experiment",
    [("shuffle", "shuffle"), ("swap", "swap"), ("harvest", "swap"), ("harvest", "shuffle"),
     ("em", "shuffle")],
)  # fmt: skip
def test_experiments_recover_the_truth(
    method: str, experiment: str, users: ClickSimulator, scores: np.ndarray
) -> None:
    log = users.sessions(scores, 60_000, experiment=experiment, random_state=1)
    assert estimate_propensities(log, method) == pytest.approx(users.examination, abs=0.05)


def test_several_rankers_recover_the_truth(users: ClickSimulator, scores: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    rankers = {name: scores + rng.normal(0, 0.7, len(scores)) for name in "abc"}
    log = users.sessions(rankers, 100_000)
    assert set(log.ranker.tolist()) == set("abc")  # type: ignore[union-attr]
    assert estimate_propensities(log) == pytest.approx(users.examination, abs=0.06)


def test_regression_em_needs_no_experiment() -> None:
    sample = make_queries(200, docs_per_query=8, n_grades=3, random_state=0)
    items = Items(sample.X, sample.y, sample.qid, [f"d{row}" for row in range(len(sample.y))])
    users = ClickSimulator(items, [1.0, 0.6, 0.4, 0.3, 0.2])
    log = users.sessions(items.X[:, 4], 40_000)
    naive = log.click_rates() / log.click_rates()[0]
    found = estimate_propensities(log, "regression_em", items=items)
    truth = np.asarray(users.examination)
    assert np.abs(found - truth).max() < 0.06
    assert np.abs(found - truth).mean() < np.abs(naive - truth).mean()


def test_many_clicks_are_not_shrunk(users: ClickSimulator, scores: np.ndarray) -> None:
    log = users.sessions(scores, 60_000, experiment="swap", random_state=1)
    clicks = _contrasts(Cells.of(log))
    ratios = clicks[1:, 0] / clicks[0, 1:]  # the plain estimate from swaps
    assert estimate_propensities(log, "swap")[1:] == pytest.approx(ratios, abs=0.02)


def test_few_clicks_are_shrunk_to_a_smooth_curve(users: ClickSimulator, scores: np.ndarray) -> None:
    truth, errors, plain = users.examination, [], []
    for seed in range(10):
        log = users.sessions(scores, 150, experiment="swap", random_state=seed)
        clicks = _contrasts(Cells.of(log))
        ratios = np.append(1.0, clicks[1:, 0] / np.maximum(clicks[0, 1:], 1e-12))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateDataWarning)
            errors.append(np.abs(estimate_propensities(log, "swap") - truth).mean())
        plain.append(np.abs(np.minimum(ratios, 1.0) - truth).mean())
    assert np.mean(errors) < 0.7 * np.mean(plain)


def test_the_fit_is_where_its_cost_is_least() -> None:
    rng = np.random.default_rng(0)
    clicks = rng.poisson(6.0, (4, 4)) * (1.0 - np.eye(4))

    def cost(value: Any) -> float:  # eta, u_2, u_3, u_4, written out
        log = np.append(0.0, value[1:]) - value[0] * np.log([1, 2, 3, 4])
        pairs = sum(
            clicks[k, j] * np.log1p(np.exp(log[j] - log[k])) for k in range(4) for j in range(4)
        )
        return float(pairs + 0.5 * (value[0] - 1) ** 2 + 0.5 * np.sum(value[1:] ** 2) / 0.3**2)

    best = minimize(cost, np.zeros(4), tol=1e-12).x
    expected = np.append(0.0, best[1:]) - best[0] * np.log([1, 2, 3, 4])
    assert _shrunken_fit(clicks, 0.3)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("method, experiment", [("shuffle", "shuffle"), ("harvest", "swap")])
def test_standard_errors_cover_the_truth(
    method: str, experiment: str, users: ClickSimulator, scores: np.ndarray
) -> None:
    inside = []
    for seed in range(20):
        log = users.sessions(scores, 2000, experiment=experiment, random_state=seed)
        found, error = estimate_propensities(log, method, return_std=True)
        assert error[0] == 0.0
        inside.append(np.abs(found - users.examination)[1:] <= 1.96 * error[1:])
    assert 0.85 < np.mean(inside) <= 1.0


def test_too_few_clicks_warn(users: ClickSimulator, scores: np.ndarray) -> None:
    log = users.sessions(scores, 20, experiment="shuffle", random_state=0)
    for method in ("shuffle", "harvest"):
        with pytest.warns(DegenerateDataWarning, match="uncertain by a factor of 2"):
            estimate_propensities(log, method)
    with pytest.raises(ParameterError, match="EM gives no standard errors"):
        estimate_propensities(log, "em", return_std=True)


def test_contrasts_are_those_written_out(users: ClickSimulator, scores: np.ndarray) -> None:
    log = users.sessions(scores, 500, experiment="swap")
    cells = Cells.of(log)
    found, expected = _contrasts(cells), np.zeros((5, 5))
    shown = {(d, k): (n, c) for d, k, n, c in zip(*cells[:4], strict=True)}
    for (d, k), (n, c) in shown.items():
        for j in range(5):
            if j != k and (d, j) in shown:
                expected[k, j] += c * shown[d, j][0] / (n + shown[d, j][0])
    assert found == pytest.approx(expected)


def test_counts_do_not_depend_on_how_they_are_counted() -> None:
    rng = np.random.default_rng(0)
    rows = {
        "query": rng.integers(0, 5, 200),
        "item": np.arange(200),
        "clicks": rng.integers(0, 2, 200),
        "position": rng.integers(1, 90, 200),
        "session": np.arange(200),
    }
    cells = Cells.of(ImpressionLog.from_arrays(**rows))  # many empty cells: sorted
    assert cells.shown.sum() == 200
    assert cells.clicked.sum() == rows["clicks"].sum()
    assert len(cells.document) == len(np.unique(rows["item"]))


def test_items_that_never_move_are_refused(users: ClickSimulator, scores: np.ndarray) -> None:
    log = users.sessions(scores, 200)
    for method in ("harvest", "swap", "em"):
        with pytest.raises(FeedbackError, match="Swap or shuffle some lists"):
            estimate_propensities(log, method)


def test_a_regressor_of_your_own_is_used(items: Items, users: ClickSimulator) -> None:
    class Mean:
        def fit(self, X: Any, y: Any, sample_weight: Any) -> None:
            self.value = np.average(y, weights=sample_weight)

        def predict(self, X: Any) -> Any:
            return np.full(len(X), self.value)

    log = users.sessions(items.y, 2000)
    found = estimate_propensities(log, "regression_em", items=items, regressor=Mean())
    rates = log.click_rates()
    assert found == pytest.approx(rates / rates[0], abs=0.05)  # no features: the naive ratios
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        estimate_propensities(log, "regression_em", items=items, max_iter=1)
    with pytest.raises(ParameterError, match="max_iter is 0"):
        estimate_propensities(log, "regression_em", items=items, max_iter=0)


def test_diagnostics() -> None:
    assert effective_sample_size([2.0, 2.0, 2.0]) == pytest.approx(3.0)
    assert effective_sample_size([0.0]) == 0.0
    table = calibration([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], n_bins=2)
    assert table.predicted.tolist() == [0.1, 0.9]
    assert table.observed.tolist() == [0.0, 0.5]
    assert table.error == pytest.approx((0.1 + 0.4) / 2)
    with pytest.raises(ValueError, match="one of each"):
        calibration([0.1], [0, 1])
