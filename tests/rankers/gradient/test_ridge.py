"""RidgeRanker against the plain formulas, and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import qr
from sklearn.linear_model import Ridge

import rankwright as rw
from rankwright.feedback.base import Grades
from rankwright.feedback.pairs import Pairs
from rankwright.rankers.gradient.ridge import _merge_lone_columns
from rankwright.testing.inputs import make_problem


def centered(values: np.ndarray, qid: np.ndarray, weight: np.ndarray) -> np.ndarray:
    result = values.astype(float).copy()
    for query in np.unique(qid):
        rows = qid == query
        result[rows] -= np.average(values[rows], axis=0, weights=weight[rows])
    return result


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5]), st.integers(1, 12), st.booleans())
def test_it_solves_the_normal_equations_of_its_objective(
    seed: int, alpha: float, n_features: int, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    X, y, qid = rng.normal(size=(9, n_features)), rng.normal(size=9), rng.integers(0, 3, 9)
    weight = rng.uniform(0.5, 2.0, 9) if weighted else np.ones(9)
    model = rw.RidgeRanker(alpha=alpha).fit(X, y, qid=qid, sample_weight=weight)
    root = np.sqrt(weight)
    A, b = root[:, None] * centered(X, qid, weight), root * centered(y, qid, weight)
    if alpha:
        wanted = np.linalg.solve(A.T @ A + alpha * np.eye(n_features), A.T @ b)
    else:
        wanted = np.linalg.pinv(A) @ b
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-7, atol=1e-9)


def test_without_queries_it_is_scikit_learns_ridge() -> None:
    problem = make_problem()
    model = rw.RidgeRanker(alpha=2.0).fit(problem.X, problem.y)
    peer = Ridge(alpha=2.0).fit(problem.X, problem.y)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-10)
    np.testing.assert_allclose(model.predict(problem.X), peer.predict(problem.X), rtol=1e-10)


def test_center_off_ignores_the_queries() -> None:
    problem = make_problem()
    model = rw.RidgeRanker(center=False).fit(problem.X, problem.y, qid=problem.qid)
    np.testing.assert_array_equal(model.coef_, rw.RidgeRanker().fit(problem.X, problem.y).coef_)


def test_pairs_are_fitted_as_unit_gaps() -> None:
    rng = np.random.default_rng(0)
    X, lower, upper = rng.normal(size=(20, 3)), np.arange(10), np.arange(10, 20)
    model = rw.RidgeRanker().fit_feedback(X, Pairs(lower, upper))
    wanted = np.linalg.lstsq(X[upper] - X[lower], np.ones(10), rcond=None)[0]
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-9)


def test_grades_and_pairs_are_fitted_together() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    model = rw.RidgeRanker().fit_feedback(X, Grades(y) + 4.0 * Pairs([0, 1], [2, 3]))
    A = np.vstack([X - X.mean(axis=0), 2.0 * (X[[2, 3]] - X[[0, 1]])])
    b = np.concatenate([y - y.mean(), [2.0, 2.0]])
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-9)


def test_many_blocks_of_rows_give_the_solution_of_one() -> None:
    rng = np.random.default_rng(2)
    X, qid = rng.normal(size=(20_000, 5)), rng.integers(0, 100, 20_000)
    y = X @ [1.0, 2.0, 3.0, 4.0, 5.0] + 10.0 * qid
    model = rw.RidgeRanker().fit(X, y, qid=qid)
    np.testing.assert_allclose(model.coef_, [1, 2, 3, 4, 5], rtol=1e-10)
    as_csr = rw.RidgeRanker().fit(sparse.csr_array(X), y, qid=qid)
    np.testing.assert_allclose(as_csr.coef_, model.coef_, rtol=1e-10)


def test_dependent_features_share_the_weight() -> None:
    x = np.arange(5.0)
    model = rw.RidgeRanker().fit(np.column_stack([x, x]), x)
    np.testing.assert_allclose(model.coef_, [0.5, 0.5])
    assert model.rank_ == 1


def test_a_grid_search_without_routing_says_what_to_do() -> None:
    problem = make_problem()
    model = rw.RidgeRanker().fit(problem.X, problem.y, qid=problem.qid)
    with pytest.warns(rw.exceptions.MissingQueryWarning, match="enable_metadata_routing"):
        model.score(problem.X, problem.y)


@pytest.mark.parametrize("shape", [(6, 15), (15, 6), (9, 9)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_basic_solution_fits_as_well_with_no_more_coefficients_than_rank(
    shape: tuple[int, int], fit_intercept: bool
) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=shape), rng.normal(size=shape[0])
    X[:, 2] = X[:, 0] + X[:, 1]
    options = {"fit_intercept": fit_intercept}
    basic = rw.RidgeRanker(solution="basic", **options).fit(X, y)
    least = rw.RidgeRanker(**options).fit(X, y)
    assert basic.rank_ == least.rank_ == np.linalg.matrix_rank(X - fit_intercept * X.mean(axis=0))
    assert np.count_nonzero(basic.coef_) <= basic.rank_
    np.testing.assert_allclose(basic.predict(X), least.predict(X), atol=1e-10)
    assert np.linalg.norm(basic.coef_) >= np.linalg.norm(least.coef_) - 1e-12


def test_the_basic_solution_is_that_of_lapack_with_column_pivoting() -> None:
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(7, 20)), rng.normal(size=7)
    model = rw.RidgeRanker(solution="basic", fit_intercept=False).fit(X, y)
    _, _, order = qr(X, pivoting=True)
    wanted = np.zeros(20)
    wanted[order[:7]] = np.linalg.solve(X[:, order[:7]], y)
    np.testing.assert_allclose(model.coef_, wanted, atol=1e-12)


def test_without_intercept_it_is_least_squares_through_the_origin() -> None:
    problem = make_problem()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(problem.y))
    model = rw.RidgeRanker(fit_intercept=False).fit(
        problem.X, problem.y, qid=problem.qid, sample_weight=weight
    )
    root = np.sqrt(weight)
    wanted = np.linalg.lstsq(root[:, None] * problem.X, root * problem.y, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-9)
    assert model.intercept_ == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 1.0, "center": False},
        {"fit_intercept": False},
        {"solution": "basic"},
        {"solution": "basic", "fit_intercept": False},
    ],
    ids=str,
)
@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_columns_with_one_value_are_merged_without_a_trace(options: dict, seed: int) -> None:
    rng = np.random.default_rng(seed)
    where = (np.repeat(np.arange(12), 8), rng.integers(0, 200, 96))
    X = sparse.csr_array((rng.normal(size=96), where), shape=(12, 200))
    X.data[::9] = 0.0
    fit = {"qid": rng.integers(0, 3, 12), "sample_weight": rng.uniform(0.5, 2.0, 12)}
    y = rng.normal(size=12)
    merged = rw.RidgeRanker(**options).fit(X, y, **fit)
    twin = rw.RidgeRanker(**options).fit(X.toarray(), y, **fit)
    assert merged.rank_ == twin.rank_
    np.testing.assert_allclose(merged.coef_, twin.coef_, atol=1e-11)
    np.testing.assert_allclose(merged.intercept_, twin.intercept_, atol=1e-11)


def test_a_million_columns_take_the_time_of_those_that_share_rows() -> None:
    rng = np.random.default_rng(0)
    where = (np.repeat(np.arange(400), 30), rng.integers(0, 1_000_000, 12_000))
    X = sparse.csr_array((rng.normal(size=12_000), where), shape=(400, 1_000_000))
    used = X[:, np.unique(X.indices)]  # 11,934 columns
    assert _merge_lone_columns(used, keep_largest=False).shape[1] < 600
    model = rw.RidgeRanker().fit(X, y := rng.normal(size=400))
    np.testing.assert_allclose(model.decision_function(X) - y, 0, atol=1e-9)
