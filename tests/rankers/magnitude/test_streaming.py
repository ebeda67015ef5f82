"""MPRank.partial_fit: a stream is learned exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import rankwright as rw
from rankwright.exceptions import ParameterError
from rankwright.testing.inputs import make_problem


def in_chunks(model: Any, rows: Any, cuts: list[int], X: Any = None) -> Any:
    X = rows.X if X is None else X
    for start, stop in zip([0, *cuts], [*cuts, len(rows.y)], strict=True):
        part = slice(start, stop)
        some = rows.take(part).fit_arguments
        model.partial_fit(X[part], rows.y[part], **some)
    return model


@pytest.mark.parametrize("cuts", [[1, 2, 3], [7, 20, 33], []])
def test_chunks_that_cut_queries_give_the_model_of_one_fit(rows: Any, cuts: list[int]) -> None:
    whole = rw.MPRank(C=5.0).fit(rows.X, rows.y, **rows.fit_arguments)
    stream = in_chunks(rw.MPRank(C=5.0), rows, cuts)
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-11)
    assert stream.intercept_ == pytest.approx(whole.intercept_, rel=1e-10)
    assert stream.cost_ == pytest.approx(whole.cost_, rel=1e-9)
    assert stream.n_queries_in_ == whole.n_queries_in_


def test_sparse_chunks_are_learned_too(rows: Any) -> None:
    whole = rw.MPRank().fit(rows.X, rows.y, **rows.fit_arguments)
    stream = in_chunks(rw.MPRank(), rows, [11, 30], sparse.csr_array(rows.X))
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-8)


def test_a_saved_stream_goes_on_where_it_stopped(rows: Any, tmp_path: Path) -> None:
    first = rows.take(slice(0, 25))
    half = rw.MPRank().partial_fit(first.X, first.y, **first.fit_arguments)
    rw.save(half, tmp_path / "half.rw")
    rest = rows.take(slice(25, None))
    model = rw.load(tmp_path / "half.rw").partial_fit(rest.X, rest.y, **rest.fit_arguments)
    whole = rw.MPRank().fit(rows.X, rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-11)


def test_partial_fit_after_fit_adds_to_it(rows: Any) -> None:
    first, rest = rows.take(slice(0, 25)), rows.take(slice(25, None))
    model = rw.MPRank().fit(first.X, first.y, **first.fit_arguments)
    model.partial_fit(rest.X, rest.y, **rest.fit_arguments)
    whole = rw.MPRank().fit(rows.X, rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-11)


def test_a_fit_that_was_saved_cannot_go_on(rows: Any, tmp_path: Path) -> None:
    rw.save(rw.MPRank().fit(rows.X, rows.y), tmp_path / "m.rw")
    with pytest.raises(ParameterError, match="Start with partial_fit"):
        rw.load(tmp_path / "m.rw").partial_fit(rows.X, rows.y)


def test_what_has_no_closed_form_in_one_pass_does_not_stream() -> None:
    for options in ({}, {"kernel": "rbf"}, {"kernel": "poly", "solver": "nystroem"}):
        assert hasattr(rw.MPRank(**options), "partial_fit")
    for options in (
        {"kernel": "precomputed"},
        {"kernel": "rbf", "solver": "dual"},
        {"loss": "absolute"},
        {"solver": "online"},
    ):
        assert not hasattr(rw.MPRank(**options), "partial_fit")


KERNELS: Any = [
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "poly", "degree": 2, "gamma": 0.5},
    {"kernel": lambda a, b: np.exp(-0.3 * ((a[:, None] - b[None]) ** 2).sum(axis=2))},
]


@pytest.mark.parametrize("options", KERNELS, ids=["rbf", "poly", "function"])
@pytest.mark.parametrize("cuts", [[1, 2, 3], [7, 20, 33], []])
def test_with_enough_landmarks_a_kernel_stream_is_the_batch_solution(
    rows: Any, cuts: list[int], options: Any
) -> None:
    whole = rw.MPRank(C=5.0, **options).fit(rows.X, rows.y, **rows.fit_arguments)
    stream = in_chunks(rw.MPRank(C=5.0, tol=1e-13, **options), rows, cuts)
    wanted = whole.decision_function(rows.X)
    np.testing.assert_allclose(stream.decision_function(rows.X), wanted, rtol=1e-5, atol=1e-6)
    assert stream.cost_ == pytest.approx(whole.cost_, rel=1e-4)
    assert stream.kappa_ == pytest.approx(whole.kappa_)


def by_hand(rows: Any, n_landmarks: int, tol: float, gamma: float, C: float) -> Any:
    """Landmarks row by row, rows projected on those of their time, and ridge regression."""

    def kernel(a: Any, b: Any) -> Any:
        return np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(axis=2))

    landmarks: list[int] = []
    combinations = []
    for t, x in enumerate(rows.X):
        K, k = (
            kernel(rows.X[landmarks], rows.X[landmarks]),
            kernel(rows.X[landmarks], x[None])[:, 0],
        )
        weights = np.linalg.solve(K, k) if landmarks else np.zeros(0)
        if 1.0 - k @ weights > tol and len(landmarks) < n_landmarks:
            landmarks.append(t)
            weights = np.eye(len(landmarks))[-1]
        combinations.append(weights)
    A = np.array([np.pad(w, (0, len(landmarks) - len(w))) for w in combinations])
    K = kernel(rows.X[landmarks], rows.X[landmarks])
    qid, m = rows.qid, len(rows.y)
    features, y = A @ K, rows.y.astype(float)
    for query in np.unique(qid):
        own = qid == query
        features[own] -= features[own].mean(axis=0)
        y[own] -= y[own].mean()
    # |w|^2 = c' K c and C / m sum_q 1 / m_q sum_ij (..)^2 = 2 C / m sum of centered squares
    coef = np.linalg.solve(K + 2 * C / m * features.T @ features, 2 * C / m * features.T @ y)
    return landmarks, kernel(rows.X, rows.X[landmarks]) @ coef


@pytest.mark.parametrize(("n_landmarks", "tol"), [(8, 1e-6), (30, 0.2)])
@pytest.mark.parametrize("size", [1, 9, 40])
def test_a_bounded_kernel_stream_is_ridge_regression_on_projected_rows(
    n_landmarks: int, tol: float, size: int
) -> None:
    rows = make_problem(n_queries=4, n_items=10, n_features=2, seed=3)
    landmarks, wanted = by_hand(rows, n_landmarks, tol, 0.7, 4.0)
    model = rw.MPRank(C=4.0, kernel="rbf", gamma=0.7, n_components=n_landmarks, tol=tol)
    for start in range(0, len(rows.y), size):
        part = slice(start, start + size)
        model.partial_fit(rows.X[part], rows.y[part], qid=rows.qid[part])
    np.testing.assert_array_equal(model.support_, rows.X[landmarks])
    assert len(landmarks) <= n_landmarks
    scores = model.decision_function(rows.X)
    np.testing.assert_allclose(scores - scores.mean(), wanted - wanted.mean(), rtol=1e-7, atol=1e-8)


def test_a_kernel_stream_goes_on_after_fit_and_after_saving(rows: Any, tmp_path: Path) -> None:
    first, rest = rows.take(slice(0, 25)), rows.take(slice(25, None))
    options: Any = {"kernel": "rbf", "gamma": 0.3, "tol": 1e-13}
    whole = rw.MPRank(**options).fit(rows.X, rows.y, **rows.fit_arguments).decision_function(rows.X)
    fitted = rw.MPRank(**options).fit(first.X, first.y, **first.fit_arguments)
    streamed = rw.MPRank(**options).partial_fit(first.X, first.y, **first.fit_arguments)
    rw.save(streamed, tmp_path / "half.rw")
    for model in (fitted, rw.load(tmp_path / "half.rw")):
        model.partial_fit(rest.X, rest.y, **rest.fit_arguments)
        np.testing.assert_allclose(model.decision_function(rows.X), whole, rtol=1e-5, atol=1e-6)
