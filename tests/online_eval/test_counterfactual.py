"""Counterfactual estimates: arithmetic, a peer library, and the truth of simulated users."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from rankwright.data import ClickSimulator, ImpressionLog, Items, make_queries
from rankwright.exceptions import DegenerateDataWarning, FeedbackError
from rankwright.online_eval import compare_on_log, doubly_robust, estimate_from_log, ips, snips
from rankwright.online_eval.rankings import METHODS, new_positions

GAMMA = [1.0, 0.6, 0.4, 0.25]


@pytest.fixture(scope="module")
def items() -> Items:
    sample = make_queries(15, docs_per_query=4, n_grades=3, random_state=0)
    return Items(sample.X, sample.y, sample.qid)


def choices(n: int = 500) -> Any:
    rng = np.random.default_rng(0)
    logging, target = rng.uniform(0.1, 1, n), rng.uniform(0, 1, n)
    return rng.random(n).round(), logging, target, rng.random(n), rng.random(n)


def test_estimates_are_the_published_formulas() -> None:
    r, p, t, q, v = choices()
    w = t / p
    assert ips(r, p, t).value == pytest.approx(np.mean(w * r))
    assert snips(r, p, t).value == pytest.approx(np.sum(w * r) / np.sum(w))
    assert doubly_robust(r, p, t, q, v).value == pytest.approx(np.mean(v + w * (r - q)))
    assert ips(r, p, t, max_weight=2.0).value == pytest.approx(np.mean(np.minimum(w, 2) * r))
    assert ips(r, p, t).effective_n == pytest.approx(w.sum() ** 2 / (w**2).sum())


@pytest.mark.skipif("RANKWRIGHT_OBP" not in os.environ, reason="RANKWRIGHT_OBP is not set")
def test_the_same_figures_as_the_open_bandit_pipeline() -> None:
    """On the sample that obp (Apache 2.0) brings; the script says how to install the package."""
    from experiments.clicks.table_obp import compare

    found = compare(os.environ["RANKWRIGHT_OBP"])
    assert len(found) == 6
    assert [ours for *_, ours in found] == pytest.approx(
        [theirs for *_, theirs, _ in found], rel=1e-9
    )


def test_missing_support_and_few_heavy_weights_warn() -> None:
    n = 400
    r, p = np.ones(n), np.full(n, 0.5)
    with pytest.warns(DegenerateDataWarning, match="average 0.40 instead of 1"):
        ips(r, p, np.full(n, 0.2))
    rare = np.full(n, 0.0005)
    rare[:5] = 1.0
    with pytest.warns(DegenerateDataWarning, match="effective sample size"):
        snips(r, np.where(rare == 1, 0.01, 0.5), rare)


def truth_and_values(items: Items, method: str, measure: str, n_runs: int = 25) -> Any:
    users = ClickSimulator(items, GAMMA)
    new = items.X[:, 1] + 0.5 * items.y
    runs = []
    for seed in range(n_runs):
        log = users.sessions(items.X[:, 0], 2500, experiment="shuffle", random_state=seed)
        runs.append(
            estimate_from_log(log, new[log.item], method=method, measure=measure, propensity=GAMMA)
        )
    return users.expected_clicks(new, measure), runs


@pytest.mark.parametrize("measure", ["CTR", "DCG"])
@pytest.mark.parametrize("method", METHODS)
def test_estimates_are_unbiased_and_intervals_cover(
    method: str, measure: str, items: Items
) -> None:
    truth, runs = truth_and_values(items, method, measure)
    values = np.array([run.value for run in runs])
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - truth) < 4 * error
    covered = [run.interval[0] <= truth <= run.interval[1] for run in runs]
    assert np.mean(covered) >= 0.84
    assert np.mean([run.std_error for run in runs]) == pytest.approx(values.std(ddof=1), rel=0.5)


def test_the_position_based_estimate_needs_no_randomness(items: Items) -> None:
    users = ClickSimulator(items, GAMMA, noise=0.1)
    slope, offset = users.affine
    log = users.sessions(items.X[:, 0], 20_000)
    scores = items.y[log.item]
    found = estimate_from_log(log, scores, propensity=slope, offset=offset)
    truth = users.expected_clicks(items.y + 1e-9 * items.X[:, 0])
    assert found.interval[0] < truth < found.interval[1]
    for method in ("ips", "snips", "item_position", "pseudo_inverse"):
        with pytest.warns(DegenerateDataWarning, match=f"^{method}: the log never showed"):
            estimate_from_log(log, scores, method=method)
    with pytest.raises(FeedbackError, match="Swap or shuffle"):
        estimate_from_log(log, scores)


def test_propensities_are_estimated_where_items_moved(items: Items) -> None:
    users = ClickSimulator(items, GAMMA)
    log = users.sessions(items.X[:, 0], 30_000, experiment="swap")
    given = estimate_from_log(log, items.y[log.item], propensity=GAMMA)
    assert estimate_from_log(log, items.y[log.item]).value == pytest.approx(given.value, rel=0.05)


def test_the_ranker_that_made_the_log_earns_what_it_earned(items: Items) -> None:
    users = ClickSimulator(items, GAMMA)
    log = users.sessions(items.X[:, 0], 500)
    earned = log.clicked.sum() / log.n_sessions
    for method in METHODS:
        found = estimate_from_log(log, items.X[log.item, 0], method=method, propensity=GAMMA)
        assert found.value == pytest.approx(earned)


def test_comparison_is_paired(items: Items) -> None:
    users = ClickSimulator(items, GAMMA)
    log = users.sessions(items.X[:, 0], 4000)
    rankers = {"old": items.X[log.item, 0], "new": items.y[log.item], "worst": -items.y[log.item]}
    found = compare_on_log(log, rankers, propensity=GAMMA)
    assert found.better() == "new"
    assert found.differences["new"].value == pytest.approx(
        found.estimates["new"].value - found.estimates["old"].value
    )
    assert found.estimates["old"].value == pytest.approx(found.logged.value)
    assert found.differences["worst"].interval[1] < 0
    assert compare_on_log(log, {"a": rankers["old"], "b": rankers["worst"]},
                          propensity=GAMMA).better() is None  # fmt: skip
    assert "new - old: +" in str(found)
    assert found.to_dict()["estimates"]["new"]["n"] == 4000
    assert "pbm" in str(found.estimates["new"])
    again = compare_on_log(log, {"old": rankers["old"]}, measure="DCG", propensity=GAMMA)
    assert again.estimates["old"].value == pytest.approx(again.logged.value)


def test_equal_scores_keep_the_order_shown() -> None:
    log = ImpressionLog.from_arrays(["q"] * 3, [1, 2, 3], [0, 1, 0], position=[2, 4, 5])
    assert new_positions(log, np.array([0.0, 0.0, 1.0])).tolist() == [4, 5, 2]
