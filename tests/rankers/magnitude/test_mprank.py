"""MPRank: every solver finds the minimum of the printed objective."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

import rankwright as rw
from rankwright.exceptions import (
    ConvergenceWarning,
    DataError,
    DegenerateDataWarning,
    ParameterError,
)

NEW = np.random.default_rng(9).normal(size=(6, 4)) + 3.0
TIGHT = {"tol": 1e-24, "max_iter": 100_000}


def gaps(scores: np.ndarray) -> np.ndarray:
    return scores - scores[0]


@pytest.mark.parametrize("C", [0.5, 30.0])
@pytest.mark.parametrize("solver", ["primal", "dual", "online", "nystroem"])
def test_linear_solvers_solve_the_normal_equations_of_the_pairs(
    rows: Any, twin: Any, solver: str, C: float
) -> None:
    wanted = twin.ridge(rows, C, twin.linear)(NEW)
    model = rw.MPRank(C=C, solver=solver, **TIGHT).fit(rows.X, rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(gaps(model.predict(NEW)), gaps(wanted), atol=1e-8)


@pytest.mark.parametrize("C", [0.5, 30.0])
@pytest.mark.parametrize("solver", ["dual", "online", "nystroem"])
def test_kernel_solvers_solve_the_normal_equations_of_the_pairs(
    rows: Any, twin: Any, solver: str, C: float
) -> None:
    wanted = twin.ridge(rows, C, twin.rbf)(NEW)
    model = rw.MPRank(C=C, kernel="rbf", gamma=0.2, solver=solver, **TIGHT)
    model.fit(rows.X, rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(gaps(model.predict(NEW)), gaps(wanted), atol=1e-8)


@pytest.mark.parametrize("solver", ["dual", "online", "nystroem"])
def test_a_precomputed_kernel_and_a_function_give_the_same_model(rows: Any, solver: str) -> None:
    def kernel(A: Any, B: Any) -> np.ndarray:
        return (0.5 * A @ B.T + 1.0) ** 2

    named = rw.MPRank(kernel="poly", degree=2, gamma=0.5, coef0=1.0, solver=solver, **TIGHT)
    given = rw.MPRank(kernel="precomputed", solver=solver, **TIGHT)
    called = rw.MPRank(kernel=kernel, solver=solver, **TIGHT)
    wanted = named.fit(rows.X, rows.y, **rows.fit_arguments).predict(NEW)
    called.fit(rows.X, rows.y, **rows.fit_arguments)
    given.fit(kernel(rows.X, rows.X), rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(called.predict(NEW), wanted, atol=1e-7)
    np.testing.assert_allclose(given.predict(kernel(NEW, rows.X)), wanted, atol=1e-7)


def test_one_list_is_ridge_regression_with_a_free_intercept(twin: Any) -> None:
    rows = twin.rows("one list")
    ridge = Ridge(alpha=len(rows.y) / (2 * 7.0)).fit(rows.X, rows.y)
    model = rw.MPRank(C=7.0).fit(rows.X, rows.y)
    np.testing.assert_allclose(model.predict(NEW), ridge.predict(NEW))


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_sparse_rows_give_the_dense_model(rows: Any, solver: str) -> None:
    X = np.where(rows.X > 3.5, rows.X, 0.0)
    dense = rw.MPRank(solver=solver).fit(X, rows.y, **rows.fit_arguments)
    thin = rw.MPRank(solver=solver).fit(sparse.csr_array(X), rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(thin.predict(NEW), dense.predict(NEW), atol=1e-9)


def test_very_many_features_are_solved_by_conjugate_gradients(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = rw.MPRank(C=5.0).fit(rows.X, rows.y, **rows.fit_arguments)
    monkeypatch.setattr("rankwright.rankers.magnitude.mprank.LARGEST_SCATTER", 3)
    for X in (rows.X, sparse.csr_array(rows.X)):
        model = rw.MPRank(C=5.0).fit(X, rows.y, **rows.fit_arguments)
        assert model.gap_ <= 1e-10 * model.objective_
        np.testing.assert_allclose(model.predict(NEW), wanted.predict(NEW), rtol=1e-4)
        assert model.cost_ == pytest.approx(wanted.cost_, rel=1e-4)


def test_a_large_offset_of_the_features_loses_no_digits(twin: Any) -> None:
    rows = twin.rows("queries")
    near = rw.MPRank(C=10.0).fit(rows.X, rows.y, qid=rows.q)
    far = rw.MPRank(C=10.0).fit(rows.X + 1e6, rows.y, qid=rows.q)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-7)


@pytest.mark.parametrize("C", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("wide", [False, True])
def test_the_dual_of_features_far_from_zero_is_the_model_of_centered_features(
    C: float, wide: bool
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 30) if wide else (80, 5)), rng.integers(0, 4, 20 if wide else 80)
    qid = np.arange(len(y)) % 3
    centered = rw.MPRank(C=C, solver="dual").fit(X, y, qid=qid)
    far = rw.MPRank(C=C, solver="dual").fit(X + 100.0, y, qid=qid)
    np.testing.assert_allclose(far.coef_, centered.coef_, rtol=1e-5, atol=1e-7)
    chosen = rw.MPRankCV(Cs=[C], kernel=lambda A, B: A @ B.T).fit(X + 100.0, y, qid=qid)
    np.testing.assert_allclose(gaps(chosen.predict(X)), gaps(centered.predict(X)), atol=1e-4)


def test_training_cost_is_the_mean_over_all_pairs(rows: Any) -> None:
    for options in ({}, {"solver": "dual"}, {"solver": "online"}, {"loss": "absolute"}):
        model = rw.MPRank(C=3.0, **options).fit(rows.X, rows.y, **rows.fit_arguments)
        left = model.predict(rows.X) - rows.y
        power = 1 if "loss" in options else 2
        wanted = sum(w * abs(left[i] - left[j]) ** power for i, j, w in rows.pairs(1.0))
        assert model.cost_ == pytest.approx(wanted, rel=1e-3 if "solver" in options else 1e-9)


def test_predictions_and_grades_agree_in_the_mean(rows: Any) -> None:
    mass = rows.u * rows.v[rows.q]
    for options in ({}, {"kernel": "rbf"}, {"loss": "absolute"}, {"solver": "online"}):
        model = rw.MPRank(**options).fit(rows.X, rows.y, **rows.fit_arguments)
        assert mass @ (model.predict(rows.X) - rows.y) == pytest.approx(0.0, abs=1e-8)


def test_the_paper_stops_the_sweep_after_a_few_rounds(twin: Any) -> None:
    rows = twin.rows("one list")
    model = rw.MPRank(C=30.0, kernel="rbf", solver="online").fit(rows.X, rows.y)
    batch = rw.MPRank(C=30.0, kernel="rbf").fit(rows.X, rows.y)
    assert model.n_iter_ < 60
    assert model.cost_ == pytest.approx(batch.cost_, rel=0.02)


def test_a_constant_rate_is_the_sweep_as_printed(twin: Any) -> None:
    rows, C, rate, rounds = twin.rows("one list"), 5.0, 0.02, 4
    X, y, m = np.asarray(rows.X), np.asarray(rows.y, float), len(rows.y)
    center = np.eye(m) - 1.0 / m
    K, target, alpha = center @ X @ X.T @ center, y - y.mean(), np.zeros(m)
    for _ in range(rounds):
        for i in range(m):
            alpha[i] += rate * (2 * (target[i] - alpha @ K[i]) - m / C * alpha[i])
    with pytest.warns(ConvergenceWarning):
        model = rw.MPRank(C=C, solver="online", learning_rate=rate, max_iter=rounds, tol=1e-12).fit(
            X, y
        )
    np.testing.assert_allclose(model.coef_, (center @ X).T @ alpha, rtol=1e-9)


def test_a_constant_rate_reaches_the_batch_solution_or_is_refused(twin: Any) -> None:
    rows = twin.rows("one list")
    batch = rw.MPRank(C=5.0).fit(rows.X, rows.y)
    options = {"C": 5.0, "solver": "online", "max_iter": 10_000}
    slow = rw.MPRank(**options, learning_rate=0.01, tol=1e-12).fit(rows.X, rows.y)
    np.testing.assert_allclose(slow.coef_, batch.coef_, rtol=1e-3)
    assert slow.n_iter_ > rw.MPRank(**options, tol=1e-12).fit(rows.X, rows.y).n_iter_
    with pytest.raises(ParameterError):
        rw.MPRank(**options, learning_rate=10.0).fit(rows.X, rows.y)
    with pytest.raises(ParameterError):
        rw.MPRank(C=5.0, learning_rate=0.01).fit(rows.X, rows.y)


def test_a_sweep_that_runs_out_of_rounds_says_so(twin: Any) -> None:
    rows = twin.rows("one list")
    with pytest.warns(ConvergenceWarning, match="after 2 rounds"):
        rw.MPRank(C=100.0, solver="online", max_iter=2).fit(rows.X, rows.y)


def test_fewer_landmarks_than_rows_still_order_a_smooth_target() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (2000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    model = rw.MPRank(C=1e4, kernel="rbf", gamma=1.0, solver="nystroem", n_components=150)
    model.set_params(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.99
    assert len(model.dual_coef_) == 150


def test_pairs_are_fitted_to_a_difference_of_one(twin: Any) -> None:
    rows = twin.rows("one list")
    rng = np.random.default_rng(1)
    lower, upper = rng.integers(0, 20, 50), rng.integers(20, 40, 50)
    weight = rng.uniform(0.5, 2.0, 50)
    apart = rows.X[upper] - rows.X[lower]
    scale = 5.0 / weight.sum()
    system = np.eye(4) + scale * (apart.T * weight) @ apart
    wanted = np.linalg.solve(system, scale * apart.T @ weight)
    pairs = rw.Pairs(lower, upper, weight)
    for solver in ("primal", "dual", "nystroem"):
        model = rw.MPRank(C=5.0, solver=solver).fit_feedback(rows.X, pairs)
        np.testing.assert_allclose(model.coef_, wanted, atol=1e-10)


def test_pairs_with_a_kernel_are_the_same_in_the_dual(twin: Any) -> None:
    rows = twin.rows("one list")
    pairs = rw.Pairs([0, 1, 2, 3], [5, 6, 7, 8])
    K = twin.linear(rows.X, rows.X)
    linear = rw.MPRank(C=5.0).fit_feedback(rows.X, pairs)
    model = rw.MPRank(C=5.0, kernel="precomputed").fit_feedback(K, pairs)
    np.testing.assert_allclose(
        gaps(model.predict(twin.linear(NEW, rows.X))), gaps(linear.predict(NEW)), atol=1e-9
    )


def test_a_predicted_gap_is_in_the_units_of_y() -> None:
    X = np.arange(20.0)[:, None]
    model = rw.MPRank(C=1e6).fit(X, 2.5 * X[:, 0] + 100.0)
    np.testing.assert_allclose(model.predict_gap([[7.0], [3.0]], [[5.0], [4.0]]), [5.0, -2.5], 1e-4)
    with pytest.raises(DataError, match="X1 has 1 rows and X0 has 2"):
        model.predict_gap([[1.0]], [[1.0], [2.0]])


def test_an_indefinite_kernel_is_refused_with_a_reason() -> None:
    K = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]) * -1.0
    with pytest.raises(DataError, match="positive semidefinite"):
        rw.MPRank(C=100.0, kernel="precomputed").fit(-K, [0.0, 1.0, 2.0])


def test_weights_of_zero_leave_nothing_to_learn() -> None:
    with pytest.warns(DegenerateDataWarning):
        model = rw.MPRank().fit_feedback([[1.0], [2.0]], rw.Grades([1, 2], sample_weight=[0, 0]))
    assert model.coef_.tolist() == [0.0]


@pytest.mark.parametrize("solver", ["dual", "online", "nystroem"])
def test_kernel_models_have_the_same_bits_for_any_number_of_blas_threads(solver: str) -> None:
    rng = np.random.default_rng(0)  # large enough that BLAS would share the work
    X, y = rng.normal(size=(900, 20)), rng.integers(0, 5, 900)
    fitted = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = rw.MPRank(kernel="rbf", gamma=0.05, solver=solver, max_iter=5, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted.append(model.fit(X, y).dual_coef_.tobytes())
    assert fitted[0] == fitted[1]


def test_a_cross_validated_kernel_model_has_the_same_bits_for_any_number_of_blas_threads() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 20)), rng.integers(0, 5, 400)
    fitted = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = rw.MPRankCV(kernel="rbf").fit(X, y)
            fitted.append(model.dual_coef_.tobytes())
    assert fitted[0] == fitted[1]
