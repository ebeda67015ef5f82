"""Landmarks: the same model as with the projected kernel, and errors of a sample by retraining."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.rankers.kernels import Gram, pick_landmarks
from rankwright.rankers.magnitude.leave_out import FEW
from rankwright.testing.inputs import make_problem


def projected(X: Any, landmarks: Any, kernel: Any) -> Any:
    """The kernel of the rows' projections on the span of the landmarks."""
    across, among = kernel(X, landmarks), kernel(landmarks, landmarks)
    return across @ np.linalg.pinv(among) @ across.T


@pytest.mark.parametrize("n_components", [3, 11, 200])
def test_mprank_with_landmarks_is_mprank_with_the_projected_kernel(
    rows: Any, twin: Any, n_components: int
) -> None:
    options: Any = {"kernel": "rbf", "gamma": 0.2, "solver": "nystroem", "random_state": 0}
    model = rw.MPRank(C=3.0, n_components=n_components, **options)
    model.fit(rows.X, rows.y, **rows.fit_arguments)
    assert len(model.support_) == min(n_components, len(rows.y))
    K = projected(rows.X, model.support_, twin.rbf)

    def kernel(A: Any, B: Any) -> Any:
        return K  # of the training rows, the only ones asked for

    wanted = twin.ridge(rows, 3.0, kernel)(rows.X)
    found = model.decision_function(rows.X)
    centered = found - found.mean() - (wanted - wanted.mean())
    np.testing.assert_allclose(centered, 0.0, atol=1e-6)


@pytest.mark.parametrize("power", [1, 2])
def test_svrank_with_landmarks_is_svrank_with_the_projected_kernel(twin: Any, power: int) -> None:
    rows = twin.rows("queries")
    options: Any = {"C": 5.0, "power": power, "epsilon": 0.2, "tol": 1e-7}
    some = rw.SVRank(
        kernel="rbf", gamma=0.2, solver="nystroem", n_components=9, random_state=0, **options
    ).fit(rows.X, rows.y, qid=rows.q)
    K = projected(rows.X, some.support_, twin.rbf) + 1e-12 * np.eye(len(rows.y))
    whole = rw.SVRank(kernel="precomputed", **options).fit(K, rows.y, qid=rows.q)
    assert some.objective_ == pytest.approx(whole.objective_, rel=1e-5)


def test_landmarks_are_picked_where_the_rest_is_largest(twin: Any) -> None:
    X = twin.rows("one list", n=30).X
    picked = pick_landmarks(Gram.of("rbf", gamma=0.2), X, 8)
    K = twin.rbf(X, X)
    chosen: list[int] = []
    for _ in range(8):  # the diagonal of what the landmarks so far leave unexplained
        left = K - projected(X, X[chosen], twin.rbf) if chosen else K
        chosen.append(int(np.argmax(np.diag(left).round(12))))
    assert picked.rows.tolist() == chosen
    products = picked.features @ picked.features.T
    np.testing.assert_allclose(products, projected(X, X[chosen], twin.rbf), atol=1e-9)


def test_ranksvm_with_few_landmarks_is_ranksvm_with_the_projected_kernel(twin: Any) -> None:
    problem = make_problem(n_queries=4, n_items=8, seed=2)
    options: Any = {"C": 2.0, "tol": 1e-10}
    some = rw.RankSVM(kernel="rbf", gamma=0.2, n_components=6, **options)
    some.fit(problem.X, problem.y, qid=problem.qid)
    landmarks = pick_landmarks(Gram.of("rbf", gamma=0.2), problem.X, 6)
    K = projected(problem.X, problem.X[landmarks.rows], twin.rbf)
    whole = rw.RankSVM(kernel="precomputed", **options).fit(K, problem.y, qid=problem.qid)
    np.testing.assert_allclose(
        some.decision_function(problem.X), whole.decision_function(K), rtol=1e-4, atol=1e-4
    )


def pair_cost(rows: Any, twin: Any, C: float, i: int, j: int) -> float:
    """The cost of a pair under the model trained without it, C' held."""
    rest = rows.take(np.setdiff1d(np.arange(len(rows.y)), [i, j]))
    h = twin.ridge(rest, C * rest.total / rows.total, twin.rbf)(rows.X[[i, j]])
    return float(((h[1] - h[0]) - (rows.y[j] - rows.y[i])) ** 2)


def drawn(seed: int) -> np.random.Generator:
    return np.random.default_rng(int(np.random.RandomState(seed).randint(2**31 - 1)))


def jackknife(values: Any, weights: Any, units: Any) -> float:
    """The variance of a weighted mean over pairs, from the means without each unit."""
    means = []
    for unit in np.unique(units):
        kept = (units != unit).all(axis=0)
        means.append(np.average(values[kept], weights=weights[kept]))
    n = len(means)
    return (n - 1) / n * float(((np.array(means) - np.mean(means)) ** 2).sum())


def test_a_sample_of_rows_is_retraining_without_each_pair_of_the_sample(twin: Any) -> None:
    rows, C = twin.rows("one list", n=22), 4.0
    model = rw.MPRank(C=C, kernel="rbf", gamma=0.2).fit(rows.X, rows.y)
    found = model.estimate_leave_pair_out(16, random_state=5)
    sample = np.sort(drawn(5).permutation(22)[:16])
    pairs = np.array([(i, j) for i in sample for j in sample if i < j]).T
    costs = np.array([pair_cost(rows, twin, C, i, j) for i, j in pairs.T])
    assert found.value == pytest.approx(costs.mean(), rel=1e-8)
    spread = jackknife(costs, np.ones(len(costs)), pairs)
    assert found.error == pytest.approx(np.sqrt((1 - 16 / 22) * spread), rel=1e-8)


def test_a_sample_of_queries_is_retraining_without_each_pair_of_these_queries(twin: Any) -> None:
    base, C = twin.rows("one list", n=36), 4.0
    rows = type(base)(base.X, base.y, np.repeat(np.arange(12), 3), base.u, np.ones(12))
    model = rw.MPRank(C=C, kernel="rbf", gamma=0.2).fit(rows.X, rows.y, qid=rows.q)
    found = model.estimate_leave_pair_out(24, random_state=1)
    chosen = drawn(1).permutation(12)[: max(FEW, 8)]
    pairs = [(i, j) for i in range(36) for j in range(i) if rows.q[i] == rows.q[j] in chosen]
    costs = np.array([pair_cost(rows, twin, C, i, j) for i, j in pairs])
    assert found.value == pytest.approx(costs.mean(), rel=1e-8)
    queries = rows.q[[i for i, _ in pairs]][None, :]
    spread = jackknife(costs, np.ones(len(costs)), queries)
    assert found.error == pytest.approx(np.sqrt((1 - 8 / 12) * spread), rel=1e-8)


def test_a_sample_of_everything_is_exact(twin: Any) -> None:
    rows = twin.rows("one list", n=20)
    model = rw.MPRank(C=4.0, kernel="rbf", gamma=0.2).fit(rows.X, rows.y)
    found = model.estimate_leave_pair_out(20, random_state=0)
    assert found.value == pytest.approx(model.leave_pair_out(), rel=1e-9)
    assert found.error == 0.0
