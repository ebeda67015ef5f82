"""OAP ensembles against the algorithm as printed, and what must not matter to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from rankwright import (
    OAPBPM,
    BayesianPRank,
    KernelPRank,
    OAPBagging,
    OAPVoting,
    PRank,
    WidrowHoff,
)
from rankwright.rankers.online.members import cutoffs

ENSEMBLES = [OAPBPM, OAPBagging, OAPVoting]
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def stream(n: int = 150, d: int = 4, k: int = 4, seed: int = 0) -> Any:
    """Rows whose products are exact in any order of summation."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-16, 17, size=(n, d)) / 8.0
    latent = X @ rng.normal(size=d) + 0.5 * rng.normal(size=n)
    return X, 1 + np.searchsorted(np.quantile(latent, np.arange(1, k) / k), latent)


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def times(seed: int, member: int, example: int, cuts: Any) -> int:
    key = mix((seed + GOLDEN * (member + 1)) & MASK)
    bits = mix((key + GOLDEN * (example + 1)) & MASK) >> 11
    return sum(bits < int(cut) for cut in cuts)


def prank(w: Any, c: Any, x: Any, y: int) -> bool:
    """Algorithm 1 on one row (rank y of 1 .. k), in place; whether the rank was right."""
    score = float(w @ x)
    guess = next((r + 1 for r in range(len(c)) if score - c[r] < 0), len(c) + 1)
    if guess == y:
        return True
    side = np.where(y <= np.arange(1, len(c) + 1), -1, 1)
    step = np.where((score - c) * side <= 0, side, 0)
    w += step.sum() * x
    c -= step
    return False


def printed(X: Any, y: Any, model: Any) -> tuple[Any, Any, Any, Any]:
    """Algorithm 2 of the paper with the library's draws: the members' rules and their counts."""
    k, n = len(np.unique(y)), model.n_estimators
    W, C = np.zeros((n, X.shape[1])), np.zeros((n, k - 1))
    correct, survived = np.zeros(n, int), np.ones(n, int)
    cuts = cutoffs(model.sampling, model.tau)
    for t in range(len(y)):
        for j in range(n):
            for _ in range(times(model.seed_, j, t, cuts)):
                right = prank(W[j], C[j], X[t], y[t])
                correct[j] += right
                survived[j] = survived[j] + 1 if right else 1
    return W, C, correct, survived


@pytest.mark.parametrize("d", [4, 60], ids=["lanes", "rows"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("sampling", ["bernoulli", "poisson"])
@pytest.mark.parametrize("kind", ENSEMBLES)
def test_it_is_the_printed_algorithm(kind: Any, sampling: str, convert: Any, d: int) -> None:
    X, y = stream(d=d)
    model = kind(n_estimators=9, tau=0.4, sampling=sampling, random_state=1).fit(convert(X), y)
    W, C, correct, survived = printed(X, y, model)
    np.testing.assert_array_equal(model.members_coef_, W)
    np.testing.assert_array_equal(model.members_thresholds_, C)
    np.testing.assert_array_equal(model.n_correct_, correct)
    np.testing.assert_array_equal(model.n_survived_, survived)
    np.testing.assert_allclose(model.coef_, W.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.thresholds_, C.mean(axis=0), rtol=1e-12)


VOTERS = [OAPBagging(), OAPVoting(), OAPVoting(count="correct")]


def votes_of(model: Any) -> Any:
    if isinstance(model, OAPBagging):
        return np.ones(model.n_estimators)
    return model.n_survived_ if model.count == "survived" else model.n_correct_


@pytest.mark.parametrize("voter", VOTERS, ids=str)
def test_the_members_mean_grade_is_what_is_expected_weighted_by_their_counts(voter: Any) -> None:
    X, y = stream()
    model = clone(voter).set_params(n_estimators=9, random_state=1).fit(X, y)
    scores = X @ model.members_coef_.T
    ranks = 1 + (scores[:, :, None] >= model.members_thresholds_).sum(axis=2)
    votes = votes_of(model)
    wanted = ranks @ votes / votes.sum()
    np.testing.assert_allclose(model.predict_expected(X), wanted, rtol=1e-12)
    assert set(model.predict(X)) <= set(model.classes_)
    assert np.abs(model.predict(X) - wanted).max() <= 0.5


@pytest.mark.parametrize("voter", VOTERS, ids=str)
def test_equal_mean_grades_are_ordered_by_the_mean_score(voter: Any) -> None:
    X, y = stream(n=400)
    model = clone(voter).set_params(n_estimators=5, random_state=0).fit(X, y)
    expected, scores = model.predict_expected(X), model.decision_function(X)
    votes = votes_of(model)
    mean = X @ (votes @ model.members_coef_ / votes.sum())
    order = np.lexsort((mean, expected.round(9)))
    assert (np.diff(scores[order]) >= -1e-12).all()
    assert len(np.unique(scores)) > len(np.unique(expected.round(9)))


def test_a_member_that_sees_everything_is_prank() -> None:
    X, y = stream()
    alone = PRank().fit(X, y)
    for kind in ENSEMBLES:
        model = kind(n_estimators=3, tau=1.0).fit(X, y)
        for j in range(3):
            np.testing.assert_array_equal(model.members_coef_[j], alone.coef_)
            np.testing.assert_array_equal(model.members_thresholds_[j], alone.thresholds_)
        np.testing.assert_array_equal(model.predict(X), alone.predict(X))


@pytest.mark.parametrize("kind", ENSEMBLES)
def test_thresholds_stay_sorted_after_every_row(kind: Any) -> None:
    X, y = stream(n=60)
    model = kind(n_estimators=7, random_state=0).start(4, np.unique(y))
    for i in range(len(y)):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        assert (np.diff(model.thresholds_) >= 0).all()
        assert (np.diff(model.members_thresholds_, axis=1) >= 0).all()


@pytest.mark.parametrize(
    "base",
    [
        None,
        PRank(update="romma"),
        PRank(update="mira"),
        PRank(update="alma", average=True),
        WidrowHoff(learning_rate=0.01),
        BayesianPRank(covariance="low_rank", n_directions=2),
        KernelPRank(),
        KernelPRank(gamma=0.1, budget=12),
        KernelPRank(gamma=0.1, budget=12, budget_rule="smallest"),
    ],
    ids=str,
)
@pytest.mark.parametrize("d", [5, 60])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_neither_threads_nor_the_cutting_of_the_stream_matter(
    base: Any, d: int, convert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, d)), rng.integers(0, 3, 200)
    rows, found = convert(X), []
    for threads, size in (("1", 200), ("2", 200), ("3", 1), ("1", 77)):
        monkeypatch.setenv("RANKWRIGHT_THREADS", threads)
        model = OAPBPM(estimator=base, n_estimators=13, random_state=2).start(d, range(3))
        for at in range(0, 200, size):
            model.partial_fit(rows[at : at + size], y[at : at + size])
        rule = model.coef_ if hasattr(model, "coef_") else model.dual_coef_
        counts = [model.n_correct_, model.n_survived_]
        found.append(np.concatenate([rule, model.thresholds_, *counts]))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("base", [None, PRank(average=True), KernelPRank(gamma=0.1)], ids=str)
@pytest.mark.parametrize("kind", [OAPBPM(), *VOTERS], ids=str)
@pytest.mark.parametrize("d", [5, 60])
def test_predicting_while_learning_equals_predicting_before_each_row(
    kind: Any, d: int, base: Any
) -> None:
    X, y = stream(n=60, d=d)
    settings = {"estimator": base, "n_estimators": 6, "random_state": 4}
    make = lambda: clone(kind).set_params(**settings).start(d, np.unique(y))  # noqa: E731
    slow, grades, expected = make(), [], []
    for i in range(len(y)):
        grades.append(slow.predict(X[i : i + 1])[0])
        expected.append(slow.predict_expected(X[i : i + 1])[0])
        slow.partial_fit(X[i : i + 1], y[i : i + 1])
    np.testing.assert_array_equal(make().partial_fit_predict(X, y), grades)
    found = make().partial_fit_predict(X, y, expected=True)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_another_base_is_shown_just_the_rows_that_its_member_draws() -> None:
    X, y = stream()
    model = OAPBPM(estimator=PRank(average=True), n_estimators=4, tau=0.5, random_state=0).fit(X, y)
    cuts = cutoffs("bernoulli", 0.5)
    rules = []
    for j in range(4):
        seen = [t for t in range(len(y)) if times(model.seed_, j, t, cuts)]
        rules.append(PRank(average=True).start(4, np.unique(y)).partial_fit(X[seen], y[seen]))
    np.testing.assert_allclose(model.coef_, np.mean([r.coef_ for r in rules], axis=0), rtol=1e-12)
    assert model.n_mistakes_ == sum(rule.n_mistakes_ for rule in rules)


def test_a_share_tau_of_the_rows_is_seen() -> None:
    X, y = stream(n=3000)
    model = OAPBPM(n_estimators=50, tau=0.3, random_state=0).fit(X, y)
    share = (model.n_correct_.sum() + model.n_mistakes_) / (50 * 3000)
    assert abs(share - 0.3) < 0.005
    poisson = OAPBPM(n_estimators=50, sampling="poisson", random_state=0).fit(X, y)
    assert abs((poisson.n_correct_.sum() + poisson.n_mistakes_) / (50 * 3000) - 1.0) < 0.02


@pytest.mark.parametrize("estimator", [None, BayesianPRank(degree=2), KernelPRank(gamma=0.5)])
def test_the_scores_of_members_average_to_that_of_the_ensemble(estimator: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.5, 0.5])
    model = OAPBPM(estimator=estimator, n_estimators=5, random_state=0).fit(X, y)
    scores = model.member_scores(X)
    assert scores.shape == (60, 5)
    assert np.ptp(scores, axis=1).max() > 0
    np.testing.assert_allclose(scores.mean(axis=1), model.decision_function(X), atol=1e-9)
