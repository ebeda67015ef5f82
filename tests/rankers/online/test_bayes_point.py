"""The Bayes point: the mean over permutations, written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankwright import BayesPoint, DataError, Grades, KernelPRank, PRank
from rankwright.data.datasets.synthetic import make_ordinal
from rankwright.exceptions import DegenerateDataWarning
from rankwright.scoring.kernel import Kernel


def stream(n: int = 80) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.digitize(X @ [1.0, -0.5, 0.25] + 0.5 * rng.normal(size=n), [-1, 0, 1]) + 1


def members(base: Any, X: Any, y: Any, n: int, seed: int) -> list[Any]:
    """Each member trained by hand, with its permutation."""
    seeds = np.random.RandomState(seed).randint(2**31 - 1, size=n)
    orders = [np.random.default_rng(int(s)).permutation(len(y)) for s in seeds]
    return [(type(base)(**base.get_params()).fit(X[order], y[order]), order) for order in orders]


def test_it_is_the_mean_of_pranks_on_permutations() -> None:
    X, y = stream()
    trained = members(PRank(), X, y, 7, seed=3)
    model = BayesPoint(n_estimators=7, random_state=3).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.mean([m.coef_ for m, _ in trained], axis=0))
    np.testing.assert_allclose(
        model.thresholds_, np.mean([m.thresholds_ for m, _ in trained], axis=0)
    )
    assert model.n_mistakes_ == sum(m.n_mistakes_ for m, _ in trained)


@pytest.mark.parametrize(
    "base",
    [
        KernelPRank(gamma=0.5),
        KernelPRank(gamma=0.5, budget=10),
        KernelPRank(kernel="poly", degree=2),
        KernelPRank(gamma=0.5, average=True, max_iter=2),
    ],
)
def test_scores_are_the_mean_of_the_members_scores(base: Any) -> None:
    X, y = stream()
    trained = members(base, X, y, 5, seed=1)
    model = BayesPoint(estimator=base, n_estimators=5, random_state=1).fit(X, y)
    wanted = np.mean([m.decision_function(X) for m, _ in trained], axis=0)
    np.testing.assert_allclose(model.decision_function(X), wanted, rtol=1e-9, atol=1e-9)


def test_precomputed_kernels_are_permuted_on_both_sides() -> None:
    X, y = stream()
    K = Kernel("rbf", gamma=0.5).block(X, X)
    named = BayesPoint(estimator=KernelPRank(gamma=0.5), n_estimators=4, random_state=0).fit(X, y)
    table = BayesPoint(
        estimator=KernelPRank(kernel="precomputed"), n_estimators=4, random_state=0
    ).fit(K, y)
    np.testing.assert_allclose(
        table.decision_function(K), named.decision_function(X), rtol=1e-9, atol=1e-9
    )


def test_a_whole_weight_repeats_the_row() -> None:
    X, y = stream(30)
    weight = np.tile([1, 0, 2], 10)
    rows = np.repeat(np.arange(30), weight)
    model = BayesPoint(n_estimators=3, random_state=0)
    weighted = model.fit_feedback(X, Grades(y, sample_weight=weight)).coef_
    np.testing.assert_array_equal(model.fit(X[rows], y[rows]).coef_, weighted)
    with pytest.raises(DataError, match="weights must be integers"):
        model.fit_feedback(X, Grades(y, sample_weight=weight + 0.5))


def test_it_beats_one_prank_on_noisy_rows() -> None:
    train, test = make_ordinal(1500, random_state=0), make_ordinal(1000, random_state=1)
    base = KernelPRank(kernel="poly", degree=2, gamma=1.0)
    one = base.fit(train.X, train.y)
    model = BayesPoint(estimator=base, n_estimators=30, random_state=0).fit(train.X, train.y)
    loss = [np.abs(m.predict(test.X) - test.y).mean() for m in (model, one)]
    assert loss[0] < loss[1]


def test_one_grade_gives_equal_scores_and_one_warning() -> None:
    X, _ = stream(20)
    with pytest.warns(DegenerateDataWarning) as caught:
        model = BayesPoint(n_estimators=5, random_state=0).fit(X, np.ones(20))
    assert len(caught) == 1
    assert np.unique(model.decision_function(X)).size == 1
    assert not hasattr(model, "partial_fit")
