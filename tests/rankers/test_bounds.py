"""``model.bounds(X, y)``: what theory promises next to the truth, against hand computations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import rankwright as rw
from rankwright import plot


def separable(seed: int, k: int = 4, n: int = 120, d: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = X @ np.arange(1.0, d + 1)
    cuts = np.quantile(scores, np.linspace(0, 1, k + 1)[1:-1])
    keep = np.abs(scores[:, None] - cuts).min(axis=1) > 0.3
    return X[keep], np.searchsorted(cuts, scores[keep]) * 2.0  # grades 0, 2, 4, ...


def hand_margin(w: Any, c: Any, X: Any, code: Any) -> float:
    least = math.inf
    for x, y in zip(X, code, strict=True):
        for r in range(len(c)):
            side = 1 if y > r else -1
            least = min(least, side * (float(x @ w) - c[r]))
    return least / math.sqrt(float(w @ w + c @ c))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_prank_computes_radius_margin_and_rank_loss_as_by_hand(convert: Any) -> None:
    X, y = separable(0)
    code = (y / 2).astype(int)
    model = rw.PRank(max_iter=300).fit(convert(X), y)
    found = model.bounds(convert(X), y)
    radius = max(math.sqrt(float(x @ x)) for x in X)
    margin = hand_margin(model.coef_, model.thresholds_, X, code)
    assert margin > 0, "the rule does not separate the rows: the test tests nothing"
    assert found.quantities["radius"] == pytest.approx(radius)
    assert found.quantities["margin"] == pytest.approx(margin)
    assert found["rank loss"].bound == pytest.approx(3 * (radius**2 + 1) / margin**2)
    loss, stream = 0.0, rw.PRank().start(3, np.unique(y))
    for _ in range(300):
        loss += np.abs(stream.partial_fit_predict(X, y) - y).sum() / 2
    assert found["rank loss"].truth == loss
    assert found["mistakes"].truth == model.n_mistakes_


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "model",
    [
        rw.PRank(max_iter=200),
        rw.PRank(max_iter=200, average=True),
        rw.PRank(max_iter=200, update="romma"),
        rw.PRank(max_iter=200, update="mira"),
        rw.PRank(max_iter=200, update="mira", C=0.01),
        rw.PRank(max_iter=200, update="alma"),
        rw.KernelPRank(kernel="poly", degree=2, max_iter=200),
        rw.KernelPRank(kernel="rbf", max_iter=20),
        rw.KernelPRank(kernel="linear", max_iter=200),
        rw.OAPBPM(n_estimators=6, tau=0.9, random_state=0),
        rw.OAPBPM(estimator=rw.PRank(update="mira"), n_estimators=6, random_state=0),
        rw.OAPBagging(n_estimators=4, random_state=0),
        rw.OAPVoting(n_estimators=4, random_state=0),
        rw.RankBoost(n_estimators=30),
        rw.AdaBoostRanker(n_estimators=30),
        rw.MPRank(C=0.05),
        rw.MPRank(C=0.05, loss="absolute"),
        rw.SVRank(C=0.05),
        rw.MPRankCV(),
    ],
    ids=str,
)
def test_every_bound_holds_on_training_rows(model: Any, seed: int) -> None:
    X, y = separable(seed)
    found = model.fit(X, y).bounds(X, y)
    assert all(entry.holds for entry in found.values())
    assert "truth" in repr(found)


def test_a_rule_that_does_not_separate_promises_nothing() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 3, 100)
    found = rw.PRank().fit(X, y).bounds(X, y)
    assert found.quantities["margin"] < 0
    assert found["rank loss"].bound == math.inf
    assert found["rank loss"].truth > 0


def test_the_margin_of_a_polynomial_kernel_is_that_of_its_expansion() -> None:
    X, y = separable(2)
    one = rw.KernelPRank(kernel="poly", degree=2, max_iter=100).fit(X, y)
    twin = rw.KernelPRank(
        kernel=lambda A, B: (np.asarray(A @ B.T) / 3 + 1.0) ** 2, max_iter=100
    ).fit(X, y)
    assert one.explicit_
    assert not twin.explicit_
    for name in ("radius", "margin"):
        wanted = twin.bounds(X, y).quantities[name]
        assert one.bounds(X, y).quantities[name] == pytest.approx(wanted, rel=1e-9)


def test_alma_and_mira_bound_their_own_counts() -> None:
    X, y = separable(1)
    alma = rw.PRank(update="alma", alpha=0.7, max_iter=400).fit(X, y)
    found = alma.bounds(X, y)
    reach = np.sqrt((X * X).sum(axis=1) + 1.0)
    gamma = min(
        hand_margin(alma.coef_, alma.thresholds_, X[i : i + 1], [int(y[i] / 2)]) / reach[i]
        for i in range(len(y))
    )
    assert found.quantities["normalized_margin"] == pytest.approx(gamma)
    bound = 2 / gamma**2 * (2 / 0.7 - 1) ** 2 + 8 / 0.7 - 4
    assert found["corrections"].bound == pytest.approx(bound)
    assert found["corrections"].truth == alma.n_corrections_
    mira = rw.PRank(update="mira", C=0.001, max_iter=5).fit(X, y).bounds(X, y)
    margin = mira.quantities["margin"]
    if margin > 0:
        assert mira["mistakes"].bound == pytest.approx(1000 / margin**2)


def test_margins_of_members_and_of_their_mean_are_computed_rule_by_rule() -> None:
    X, y = separable(3)
    many, grades = np.tile(X, (99, 1)), np.tile(y, 99)
    model = rw.OAPBPM(n_estimators=5, tau=0.8, random_state=1).fit(many, grades)
    found, code = model.bounds(X, y), (y / 2).astype(int)
    margins = [
        hand_margin(w, c, X, code)
        for w, c in zip(model.members_coef_, model.members_thresholds_, strict=True)
    ]
    np.testing.assert_allclose(found.quantities["members_margin"], margins)
    assert found.quantities["members_margin_mean"] == pytest.approx(np.mean(margins))
    wanted = hand_margin(model.coef_, model.thresholds_, X, code)
    assert found.quantities["margin"] == pytest.approx(wanted)
    lengths = np.sqrt(
        (model.members_coef_**2).sum(axis=1) + (model.members_thresholds_**2).sum(axis=1)
    )
    assert min(margins) > 0
    average = np.average(margins, weights=lengths)
    assert found["margin of the mean"].bound == pytest.approx(average)


def test_rankboost_counts_ties_as_misses() -> None:
    X, y, qid = [[0.0], [1.0], [1.0], [0.0], [5.0]], [0, 1, 0, 1, 0], [1, 1, 1, 2, 2]
    model = rw.RankBoost(n_estimators=2).fit(X, y, qid=qid)
    scores = model.decision_function(X)
    pairs = [(1, 0), (1, 2), (3, 4)]
    missed = np.mean([scores[a] <= scores[b] for a, b in pairs])
    found = model.bounds(X, y, qid=qid)
    assert found["rloss"].truth == pytest.approx(missed)
    assert found["rloss"].bound == model.training_bound_
    assert found["rloss of new rows"].bound == model.generalization_bound(0.05)


def test_stability_is_compared_with_the_error_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y, qid = X[:, 0] + rng.normal(size=60), np.repeat([0, 1, 2], 20)
    model = rw.SVRank(C=0.3, epsilon=0.2, power=2).fit(X[:30], y[:30])
    found = model.bounds(X[30:], y[30:], qid=qid[30:], delta=0.1)
    residual = model.decision_function(X[30:]) - y[30:]
    costs = [
        max(0.0, abs(residual[i] - residual[j]) - 0.2) ** 2 / (qid[30:] == qid[30 + i]).sum()
        for i in range(30)
        for j in range(30)
        if qid[30 + i] == qid[30 + j]
    ]
    entry = found["error of new pairs"]
    assert entry.truth == pytest.approx(sum(costs) / 30)
    assert entry.bound == model.stability_bound(0.1, np.abs(residual).max()).bound


def test_bounds_are_drawn_against_the_truth() -> None:
    pytest.importorskip("altair")
    X, y = separable(0)
    one = rw.PRank(max_iter=100).fit(X, y).bounds(X, y)
    two = rw.PRank().fit(X, y).bounds(X, y)
    spec = plot.bounds({"100 passes": one, "1 pass": two}).to_dict()
    rows = next(iter(spec["datasets"].values()))
    shown = {(row["name"], row["what"]): row["value"] for row in rows}
    assert shown["100 passes: rank loss", "truth"] == one["rank loss"].truth
    assert shown["100 passes: rank loss", "bound"] == one["rank loss"].bound
    assert ("1 pass: rank loss", "bound") not in shown, "an infinite bound has no place"


def test_the_bound_of_adaboost_is_the_product_of_its_z() -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    y = np.array([0, 1, 0, 1, 1])
    model = rw.AdaBoostRanker(n_estimators=1, smoothing=1e-12).fit(X, y)
    found = model.bounds(X, y)["misclassified rows"]
    # The best of one cut: rows above 2 (or above 0) are relevant, one of five is wrong.
    assert found.truth == pytest.approx(0.2)
    assert found.bound == pytest.approx(2 * np.sqrt(0.2 * 0.8))
