"""Ensembles of kernel PRanks: coefficients over one support, averaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import rankwright as rw
from rankwright import OAPBPM, KernelPRank, OAPBagging, OAPVoting
from rankwright.rankers.online.base import kernels
from rankwright.rankers.online.members import cutoffs

ENSEMBLES = [OAPBPM(), OAPBagging(), OAPVoting(), OAPVoting(count="correct")]
BASES = [
    KernelPRank(gamma=0.5),
    KernelPRank(kernel="poly", degree=2, coef0=-0.5),
    KernelPRank(gamma=0.5, budget=30),
    KernelPRank(kernel="linear", budget=25, budget_rule="oldest"),
]


def stream(n: int = 200, d: int = 3, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.integers(-8, 9, size=(n, d)) / 8.0
    return X, np.digitize((X**2).sum(axis=1) + 0.2 * rng.normal(size=n), [0.7, 1.4])


def rbf(A: Any, B: Any) -> Any:
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def drawn(model: Any, member: int, n: int) -> Any:
    cuts = cutoffs(model.sampling, model.tau)
    return kernels("ensembles").draw_counts(model.seed_, member, 0, n, cuts)


@pytest.mark.parametrize("base", BASES, ids=str)
@pytest.mark.parametrize("kind", ENSEMBLES, ids=str)
def test_a_member_that_sees_everything_is_the_base(kind: Any, base: Any) -> None:
    X, y = stream()
    model = clone(kind).set_params(estimator=base, n_estimators=3, tau=1.0).fit(X, y)
    alone = clone(base).fit(X, y)
    np.testing.assert_array_equal(model.support_, alone.support_)
    np.testing.assert_array_equal(model.members_thresholds_, np.tile(alone.thresholds_, (3, 1)))
    np.testing.assert_allclose(model.members_dual_coef_, np.tile(alone.dual_coef_, (3, 1)).T)
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))


@pytest.mark.parametrize("sampling", ["bernoulli", "poisson"])
def test_each_member_is_a_kernel_prank_on_the_rows_that_it_draws(sampling: str) -> None:
    X, y = stream()
    base = KernelPRank(gamma=0.5)
    model = OAPBPM(estimator=base, n_estimators=6, sampling=sampling, random_state=1).fit(X, y)
    n_mistakes = 0
    for j in range(6):
        shown = np.repeat(np.arange(len(y)), drawn(model, j, len(y)))
        alone = clone(base).start(3, np.unique(y)).partial_fit(X[shown], y[shown])
        dual = np.zeros(len(y))
        np.add.at(dual, shown[alone.support_], alone.dual_coef_)
        np.testing.assert_array_equal(dual[model.support_], model.members_dual_coef_[:, j])
        np.testing.assert_array_equal(model.members_thresholds_[j], alone.thresholds_)
        n_mistakes += alone.n_mistakes_
    assert model.n_mistakes_ == n_mistakes
    np.testing.assert_allclose(model.dual_coef_, model.members_dual_coef_.mean(axis=1))


@pytest.mark.parametrize("kind", ENSEMBLES, ids=str)
def test_the_polynomial_kernel_is_the_explicit_map(kind: Any) -> None:
    X, y = stream()
    settings = {"kernel": "poly", "degree": 2, "gamma": 1.0}
    make = lambda base: clone(kind).set_params(estimator=base, n_estimators=9, random_state=0)  # noqa: E731
    mapped = make(KernelPRank(**settings)).fit(X, y)
    summed = make(KernelPRank(**settings, budget=10**6)).fit(X, y)  # a budget asks for the sum
    assert hasattr(mapped, "coef_")
    assert not hasattr(summed, "coef_")
    np.testing.assert_array_equal(mapped.members_thresholds_, summed.members_thresholds_)
    np.testing.assert_array_equal(mapped.n_survived_, summed.n_survived_)
    for answer in ("decision_function", "predict_expected", "predict"):
        found, wanted = getattr(summed, answer)(X), getattr(mapped, answer)(X)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ENSEMBLES, ids=str)
def test_functions_and_precomputed_kernels_are_the_named_one(kind: Any) -> None:
    X, y = stream()
    make = lambda base: clone(kind).set_params(estimator=base, n_estimators=7, random_state=0)  # noqa: E731
    named = make(KernelPRank(gamma=0.5)).fit(X, y)
    function = make(KernelPRank(kernel=rbf)).fit(X, y)
    given = make(KernelPRank(kernel="precomputed")).fit(rbf(X, X), y)
    new = stream(seed=1)[0]
    wanted = named.decision_function(new)
    np.testing.assert_allclose(function.decision_function(new), wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(given.decision_function(rbf(new, X)), wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(given.predict(rbf(new, X)), named.predict(new))


@pytest.mark.parametrize("rule", ["project", "smallest", "oldest"])
def test_the_budget_bounds_the_common_support(rule: str) -> None:
    X, y = stream(n=600)
    base = KernelPRank(gamma=0.5, budget=20, budget_rule=rule)
    model = OAPBPM(estimator=base, n_estimators=5, random_state=0).start(3, np.unique(y))
    for i in range(len(y)):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        assert len(model.support_) <= 20
    assert model.members_dual_coef_.shape == (20, 5)
    assert (np.diff(model.thresholds_) >= 0).all()


def test_the_bayes_point_of_kernel_rules_is_better_than_one_rule() -> None:
    X, y = stream(n=1500)
    new, wanted = stream(n=500, seed=1)
    base = KernelPRank(gamma=0.5)
    loss = [
        np.abs(model.fit(X, y).predict(new) - wanted).mean()
        for model in (base, OAPBPM(estimator=base, n_estimators=30, random_state=0))
    ]
    assert loss[1] < loss[0]


def test_what_is_saved_comes_back_and_goes_on(tmp_path: Path) -> None:
    X, y = stream()
    for kind in ENSEMBLES:
        model = clone(kind).set_params(
            estimator=KernelPRank(gamma=0.5), n_estimators=5, random_state=0
        )
        model.fit(X[:100], y[:100])
        rw.save(model, tmp_path / "model.rw")
        back = rw.load(tmp_path / "model.rw")
        scorer = rw.load_scorer(tmp_path / "model.rw")
        np.testing.assert_array_equal(back.predict(X), model.predict(X))
        np.testing.assert_array_equal(scorer.decision_function(X), model.decision_function(X))
        for ranker in (model, back):
            ranker.partial_fit(X[100:], y[100:])
        np.testing.assert_array_equal(back.members_dual_coef_, model.members_dual_coef_)
