"""SVRank: the minimum of the printed objective, with a proof of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import optimize, sparse

import rankwright as rw
from rankwright.exceptions import ConvergenceWarning, DegenerateDataWarning


def objective(rows: Any, h: np.ndarray, norm: float, C: float, epsilon: float, power: int) -> float:
    left = h - rows.y
    return norm + sum(
        w * max(0.0, abs(left[j] - left[i]) - epsilon) ** power for i, j, w in rows.pairs(C)
    )


def quadratic_program(rows: Any, C: float, epsilon: float, power: int) -> float:
    """The paper's dual program over all pairs, solved by a generic bounded solver.

    max over a >= 0 and b >= 0 of -|X'(a - b)|^2 / 4 + (a - b).Y - epsilon (a + b).1, with a, b <= c
    for n = 1 and the penalty a^2 / 4c for n = 2; strong duality makes it the primal's minimum.
    """
    pairs = [(i, j, 2 * w) for i, j, w in rows.pairs(C) if i < j]
    low, up = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    apart, target = rows.X[up] - rows.X[low], rows.y[up] - rows.y[low]
    weight, n = np.array([p[2] for p in pairs]), len(pairs)

    def cost(z: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = z[:n], z[n:]
        w = 0.5 * apart.T @ (a - b)
        pull = apart @ w - target
        value, slope = (
            w @ w - (a - b) @ target + epsilon * z.sum(),
            np.append(pull, -pull) + epsilon,
        )
        if power == 2:
            both = np.append(weight, weight)
            value, slope = value + (z**2 / (4 * both)).sum(), slope + z / (2 * both)
        return float(value), slope

    most = np.append(weight, weight) if power == 1 else np.full(2 * n, np.inf)
    found = optimize.minimize(
        cost,
        np.zeros(2 * n),
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(0.0, most),
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 20_000, "maxfun": 20_000, "maxcor": 50},
    )
    return -float(found.fun)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["one list", "queries", "weights"])
def test_the_objective_is_that_of_a_quadratic_program(
    twin: Any, kind: str, epsilon: float, power: int
) -> None:
    rows = twin.rows(kind, n=14, d=2)
    wanted = quadratic_program(rows, 20.0, epsilon, power)
    model = rw.SVRank(C=20.0, epsilon=epsilon, power=power, tol=1e-8)
    model.fit(rows.X, rows.y, **rows.fit_arguments)
    assert model.objective_ == pytest.approx(wanted, rel=1e-6)
    found = objective(
        rows, model.predict(rows.X), float(model.coef_ @ model.coef_), 20.0, epsilon, power
    )
    assert model.objective_ == pytest.approx(found, rel=1e-10)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_the_gap_bounds_the_distance_to_the_minimum(rows: Any, power: int, C: float) -> None:
    loose = rw.SVRank(C=C, power=power, tol=1e-2).fit(rows.X, rows.y, **rows.fit_arguments)
    tight = rw.SVRank(C=C, power=power, tol=1e-8).fit(rows.X, rows.y, **rows.fit_arguments)
    assert loose.objective_ - tight.objective_ <= loose.gap_
    assert tight.objective_ - tight.gap_ <= loose.objective_
    assert tight.gap_ <= 1e-8 * tight.objective_


@pytest.mark.parametrize("power", [1, 2])
def test_primal_dual_and_nystroem_agree(rows: Any, power: int) -> None:
    models = [
        rw.SVRank(C=50.0, power=power, tol=1e-9, solver=solver)
        for solver in ("primal", "dual", "nystroem")
    ]
    first, *others = [model.fit(rows.X, rows.y, **rows.fit_arguments) for model in models]
    for other in others:
        assert other.objective_ == pytest.approx(first.objective_, rel=1e-8)
        np.testing.assert_allclose(other.coef_, first.coef_, atol=1e-3)


@pytest.mark.parametrize("power", [1, 2])
def test_a_kernel_model_reaches_the_objective_it_reports(rows: Any, twin: Any, power: int) -> None:
    model = rw.SVRank(C=50.0, power=power, kernel="rbf", gamma=0.2, tol=1e-7)
    model.fit(rows.X, rows.y, **rows.fit_arguments)
    K = twin.rbf(rows.X, model.support_)
    own = twin.rbf(model.support_, model.support_)
    norm = float(model.dual_coef_ @ own @ model.dual_coef_)
    found = objective(rows, K @ model.dual_coef_, norm, 50.0, 0.1, power)
    assert model.objective_ == pytest.approx(found, rel=1e-9)


def test_squares_without_tolerance_are_mprank(rows: Any) -> None:
    for kernel in ("linear", "rbf"):
        model = rw.SVRank(C=5.0, epsilon=0.0, power=2, kernel=kernel, tol=1e-14)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows.X, rows.y, **rows.fit_arguments)
        wanted = rw.MPRank(C=5.0, kernel=kernel).fit(rows.X, rows.y, **rows.fit_arguments)
        np.testing.assert_allclose(model.predict(rows.X), wanted.predict(rows.X), rtol=1e-5)


def test_mprank_with_the_absolute_loss_is_svrank_without_tolerance(rows: Any) -> None:
    for kernel in ("linear", "rbf"):
        ours = rw.SVRank(C=5.0, epsilon=0.0, kernel=kernel).fit(
            rows.X, rows.y, **rows.fit_arguments
        )
        theirs = rw.MPRank(C=5.0, loss="absolute", kernel=kernel).fit(
            rows.X, rows.y, **rows.fit_arguments
        )
        np.testing.assert_array_equal(theirs.predict(rows.X), ours.predict(rows.X))


def test_a_tolerance_wider_than_all_differences_leaves_nothing_to_fit(twin: Any) -> None:
    rows = twin.rows("one list")
    with pytest.warns(DegenerateDataWarning, match="same score"):
        model = rw.SVRank(epsilon=1e3).fit(rows.X, rows.y)
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert model.intercept_ == pytest.approx(rows.y.mean())


def test_sparse_rows_give_the_dense_model(rows: Any) -> None:
    X = np.where(rows.X > 3.5, rows.X, 0.0)
    dense = rw.SVRank(tol=1e-9).fit(X, rows.y, **rows.fit_arguments)
    thin = rw.SVRank(tol=1e-9).fit(sparse.csr_array(X), rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(thin.predict(X), dense.predict(X), atol=1e-4)


def test_outliers_move_the_absolute_loss_less_than_the_squared(twin: Any) -> None:
    rows = twin.rows("one list", n=200)
    y = rows.y.copy()
    y[:10] += 1000.0
    clean = rw.MPRank(C=1e3).fit(rows.X, rows.y).coef_
    squared = rw.MPRank(C=1e3).fit(rows.X, y).coef_
    absolute = rw.MPRank(C=1e3, loss="absolute").fit(rows.X, y).coef_
    assert np.linalg.norm(absolute - clean) < 0.2 * np.linalg.norm(squared - clean)


def test_too_few_steps_are_reported_with_the_gap(twin: Any) -> None:
    rows = twin.rows("one list")
    with pytest.warns(ConvergenceWarning, match="duality gap of"):
        rw.SVRank(C=1e4, tol=1e-10, max_iter=2).fit(rows.X, rows.y)


def test_grades_may_be_any_real_numbers() -> None:
    X = np.linspace(0, 1, 300)[:, None]
    y = np.exp(X[:, 0]) * np.pi
    model = rw.SVRank(C=1e5, epsilon=0.01, kernel="rbf", gamma=3.0).fit(X, y)
    assert np.abs(model.predict_gap(X[1:], X[:-1]) - np.diff(y)).max() < 0.02


def test_a_large_c_converges_where_conjugate_gradients_do_not() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=300)
    model = rw.SVRank(C=1e8, kernel="rbf", gamma=1 / 3).fit(X, y)  # a warning would be an error
    assert model.gap_ <= 1e-4 * model.objective_
