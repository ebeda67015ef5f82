"""RankSVM: the optimum a generic solver finds, the gap it promises, linear and with kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from rankwright import RankSVM
from rankwright.exceptions import ConvergenceWarning, DataError, DegenerateDataWarning
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pairs import Pairs
from rankwright.rankers.kernels import Gram
from rankwright.testing.inputs import make_problem

PROBLEM = make_problem(n_queries=4, n_items=8, n_features=3)


def objective(coef: Any, X: Any, feedback: Feedback, C: float, power: int) -> float:
    """1/2 |w|^2 + C * weighted mean pair loss, with every pair written out."""
    pairs, scores = feedback.to_pairs(), X @ coef
    room = np.maximum(1 - (scores[pairs.upper] - scores[pairs.lower]), 0)
    return 0.5 * coef @ coef + C * float(np.average(room**power, weights=pairs.weight))


def optimum_by_quadratic_program(X: Any, feedback: Feedback, C: float) -> Any:
    """The hinge optimum from its dual, max sum a - 1/2 |sum a_p (x_up - x_low)|^2, 0 <= a <= C w_p.

    Solved by cyclic coordinate ascent, which converges for this problem.
    """
    pairs = feedback.to_pairs()
    gaps = X[pairs.upper] - X[pairs.lower]
    cap, squares = C * pairs.weight / pairs.weight.sum(), np.einsum("ij,ij->i", gaps, gaps)
    dual, coef = np.zeros(len(gaps)), np.zeros(X.shape[1])
    for _ in range(3000):
        for p in range(len(gaps)):
            new = np.clip(dual[p] + (1 - gaps[p] @ coef) / squares[p], 0, cap[p])
            coef += (new - dual[p]) * gaps[p]
            dual[p] = new
    return coef


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("weighting", [None, "NDCG"])
def test_the_squared_hinge_optimum_is_that_of_a_generic_solver(C: float, weighting: Any) -> None:
    feedback = Grades(PROBLEM.y, PROBLEM.qid)
    written = feedback if weighting is None else ndcg_pairs(feedback)
    model = RankSVM(C=C, weighting=weighting, tol=1e-12).fit_feedback(PROBLEM.X, feedback)
    found = minimize(
        objective, np.zeros(3), (PROBLEM.X, written, C, 2), method="BFGS", options={"gtol": 1e-9}
    )
    np.testing.assert_allclose(model.coef_, found.x, rtol=1e-5, atol=1e-7)
    assert model.objective_ == pytest.approx(objective(model.coef_, PROBLEM.X, written, C, 2))


def ndcg_pairs(feedback: Grades) -> Pairs:
    """The weights of weighting="NDCG", read off the gradient of one pair at a time."""
    from rankwright.rankers.gradient.pair_sums import pair_sums

    sums, pairs = pair_sums(feedback, feedback.n_rows, "NDCG"), feedback.to_pairs()
    weights = []
    for low, up in zip(pairs.lower, pairs.upper, strict=True):
        curve = np.zeros(feedback.n_rows)
        curve[up] = 1.0
        product = sums.at(np.zeros(feedback.n_rows), 1.0).product
        weights.append(-product(curve)[low])
    return Pairs(pairs.lower, pairs.upper, weights)


@pytest.mark.parametrize("C", [0.1, 30.0])
def test_the_hinge_optimum_is_that_of_the_dual(C: float) -> None:
    feedback = Grades(PROBLEM.y, PROBLEM.qid)
    model = RankSVM(C=C, loss="hinge", tol=1e-7).fit_feedback(PROBLEM.X, feedback)
    coef = optimum_by_quadratic_program(PROBLEM.X, feedback, C)
    least = objective(coef, PROBLEM.X, feedback, C, 1)
    assert model.objective_ == pytest.approx(least, rel=2e-7)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("loss, power", [("hinge", 1), ("squared_hinge", 2)])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
def test_the_gap_bounds_the_distance_from_the_optimum(loss: str, power: int, tol: float) -> None:
    feedback = Grades(PROBLEM.y, PROBLEM.qid)
    model = RankSVM(C=3.0, loss=loss, tol=tol).fit_feedback(PROBLEM.X, feedback)
    best = RankSVM(C=3.0, loss=loss, tol=1e-9).fit_feedback(PROBLEM.X, feedback)
    value = objective(model.coef_, PROBLEM.X, feedback, 3.0, power)
    assert value == pytest.approx(model.objective_, rel=1e-10)
    assert value - model.gap_ - 1e-12 <= best.objective_ <= value + 1e-12
    assert model.gap_ <= tol * value


def test_grades_as_written_out_pairs_give_the_same_model() -> None:
    grades = Grades(PROBLEM.y, PROBLEM.qid)
    one = RankSVM().fit_feedback(PROBLEM.X, grades)
    other = RankSVM().fit_feedback(PROBLEM.X, grades.to_pairs())
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-7)


def test_contradictory_pairs_of_equal_weight_cancel() -> None:
    with pytest.warns(DegenerateDataWarning, match="same score"):
        model = RankSVM().fit_feedback([[0.0], [1.0]], Pairs([0, 1], [1, 0]))
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_the_kernel_optimum_is_that_of_the_full_kernel_problem(kernel: str) -> None:
    """min 1/2 a' K a + C mean loss(K a): the representer theorem, solved by BFGS."""
    gram = Gram.of(kernel, PROBLEM.X, gamma=0.3, degree=2)
    K = gram.block(PROBLEM.X, PROBLEM.X)
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0))
    feedback = Grades(PROBLEM.y, PROBLEM.qid)
    found = minimize(
        objective, np.zeros(len(K)), (root, feedback, 5.0, 2), method="BFGS", options={"gtol": 1e-7}
    )
    model = RankSVM(C=5.0, kernel=kernel, gamma=0.3, degree=2, tol=1e-12)
    model.fit_feedback(PROBLEM.X, feedback)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(PROBLEM.X), root @ found.x, atol=1e-4)


def test_a_linear_kernel_function_gives_the_linear_model() -> None:
    linear = RankSVM(tol=1e-10).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    function = RankSVM(tol=1e-10, kernel=lambda a, b: a @ b.T)
    function.fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    np.testing.assert_allclose(
        function.decision_function(PROBLEM.X), linear.decision_function(PROBLEM.X), rtol=1e-6
    )
    assert len(function.support_) == 3  # as many rows as there are dimensions


def test_a_precomputed_kernel_gives_the_model_of_the_kernel() -> None:
    gram = Gram.of("rbf", PROBLEM.X, gamma=0.3)
    K = gram.block(PROBLEM.X, PROBLEM.X)
    wanted = RankSVM(kernel="rbf", gamma=0.3).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    found = RankSVM(kernel="precomputed").fit(K, PROBLEM.y, qid=PROBLEM.qid)
    np.testing.assert_allclose(
        found.decision_function(K), wanted.decision_function(PROBLEM.X), rtol=1e-7, atol=1e-9
    )


def test_a_precomputed_kernel_that_is_not_square_is_refused() -> None:
    K = PROBLEM.X @ PROBLEM.X.T
    for X in (K[:, :-1], np.hstack([K, K])):
        with pytest.raises(DataError, match="square X"):
            RankSVM(kernel="precomputed").fit(X, PROBLEM.y, qid=PROBLEM.qid)


def test_few_landmarks_come_close_to_all_of_them() -> None:
    problem = make_problem(n_queries=20, n_items=15, n_features=2, noise=0.1)
    exact, few = (
        RankSVM(kernel="rbf", gamma=0.2, C=10.0, n_components=n).fit(
            problem.X, problem.y, qid=problem.qid
        )
        for n in (None, 40)
    )
    assert len(few.support_) == 40
    assert few.objective_ == pytest.approx(exact.objective_, rel=1e-3)


def test_too_few_steps_are_said() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        RankSVM(max_iter=1, C=100.0).fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)


def test_features_of_very_different_scales_are_solved() -> None:
    scales = np.array([1e-4, 1.0, 1e5])
    model = RankSVM(C=10.0).fit(PROBLEM.X * scales, PROBLEM.y, qid=PROBLEM.qid)
    assert model.gap_ <= 1e-5 * model.objective_


def test_a_kernel_model_has_the_same_bits_for_any_number_of_blas_threads() -> None:
    rng = np.random.default_rng(0)  # large enough that BLAS would share the work
    X, qid = rng.normal(size=(900, 60)), np.repeat(np.arange(30), 30)
    y = np.digitize(X @ rng.normal(size=60), [-8, 0, 8])
    fitted = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            fitted.append(RankSVM(kernel="rbf").fit(X, y, qid=qid).dual_coef_.tobytes())
    assert fitted[0] == fitted[1]
