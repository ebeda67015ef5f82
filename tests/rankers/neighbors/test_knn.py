"""Nearest neighbors against a search over all pairs, all features, all defaults."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import rankwright as rw
from rankwright.rankers import checks
from rankwright.scoring import linear

NAN = float("nan")


def ratings(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 6, (24, 10)).astype(float)
    X[rng.random(X.shape) < 0.5] = NAN
    return X, rng.integers(1, 5, 24).astype(float), rng.integers(0, 3, 24)


def rloss(scores: np.ndarray, y: np.ndarray, qid: np.ndarray) -> float:
    """The share of misordered pairs, ties counted 1/2, pair by pair."""
    wrong, total = 0.0, 0
    for i, j in itertools.combinations(range(len(y)), 2):
        if qid[i] == qid[j] and y[i] != y[j]:
            gap = (scores[i] - scores[j]) * (y[i] - y[j])
            wrong += 0.5 if gap == 0 else float(gap < 0)
            total += 1
    return wrong / total


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_of_each_feature_is_the_least_over_all_defaults(seed: int) -> None:
    X, y, qid = ratings(seed)
    model = rw.NearestNeighbor().fit(X, y, qid=qid)
    wanted = [min(rloss(np.where(np.isnan(x), q, x), y, qid) for q in range(1, 6)) for x in X.T]
    np.testing.assert_allclose(model.rloss_, wanted, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_neighbor_has_the_least_loss_with_its_default(seed: int) -> None:
    X, y, qid = ratings(seed)
    model = rw.NearestNeighbor().fit(X, y, qid=qid)
    assert rloss(model.decision_function(X), y, qid) == pytest.approx(model.rloss_.min())


def test_a_neighbor_that_knows_every_training_row_has_its_average_as_default() -> None:
    X = np.array([[5.0, 1.0], [4.0, 5.0], [2.0, 1.0]])
    model = rw.NearestNeighbor(feature_mean=[3.2, 3.0]).fit(X, [3, 2, 1])
    assert model.decision_function([[NAN, 1.0]])[0] == 3.2


def test_of_equally_good_defaults_the_one_next_to_the_average_is_taken() -> None:
    X = np.array([[5.0, 1.0], [NAN, 2.0], [NAN, 3.0], [1.0, 4.0]])
    model = rw.NearestNeighbor(feature_mean=[2.2, 2.5]).fit(X, [4, 3, 2, 1])
    assert (model.feature_[0], model.default_[0]) == (0, 2.0)


def test_knn_averages_the_best_features() -> None:
    X, y, qid = ratings()
    model = rw.KNN(n_neighbors=3).fit(X, y, qid=qid)
    best = np.argsort(model.rloss_.round(12), kind="stable")[:3]
    np.testing.assert_array_equal(model.feature_, best)
    filled = np.where(np.isnan(X[:, best]), model.default_, X[:, best])
    np.testing.assert_allclose(model.decision_function(X), filled.mean(axis=1))


def test_one_neighbor_of_knn_is_the_nearest_neighbor() -> None:
    X, y, _ = ratings()
    one, nearest = rw.KNN(n_neighbors=1).fit(X, y), rw.NearestNeighbor().fit(X, y)
    np.testing.assert_array_equal(one.decision_function(X), nearest.decision_function(X))


def test_more_neighbors_than_features_are_all_features() -> None:
    X, y, _ = ratings()
    assert len(rw.KNN(n_neighbors=99).fit(X, y).feature_) == 10


def test_shrinkage_prefers_a_neighbor_who_knows_more_rows() -> None:
    # The first user is right about the only pair known and wrong about nothing; the second
    # misorders one of ten pairs and knows all rows.
    X = np.array([[5.0, 5.0], [4.0, 4.0], [NAN, 3.0], [NAN, 1.0], [NAN, 2.0]])
    y = [5, 4, 3, 2, 1]
    plain = rw.NearestNeighbor().fit(X[:, ::-1], y)
    assert plain.rloss_.tolist() == pytest.approx([0.1, 0.15])
    assert plain.feature_.tolist() == [0]
    X[:, 0] = [5.0, 3.0, NAN, NAN, NAN]  # with default 2 only the pairs of unknowns are ties
    X[:, 1] = [5.0, 3.0, 4.0, 1.0, 2.0]
    model = rw.NearestNeighbor().fit(X, y)
    assert model.rloss_.tolist() == pytest.approx([0.15, 0.2])
    assert model.feature_.tolist() == [0]
    # 1/2 - .35 * 2 / (2 + 1) = .267 against 1/2 - .3 * 5 / (5 + 1) = .25
    assert rw.NearestNeighbor(shrinkage=1.0).fit(X, y).feature_.tolist() == [1]
    counted = rw.NearestNeighbor(shrinkage=1.0, feature_count=[50, 5]).fit(X, y)
    assert counted.feature_.tolist() == [0]


@pytest.mark.parametrize("shrinkage", [0.0, 3.0, 1e6])
def test_knn_takes_the_neighbors_of_least_shrunken_loss(shrinkage: float) -> None:
    X, y, qid = ratings(3)
    model = rw.KNN(n_neighbors=4, shrinkage=shrinkage).fit(X, y, qid=qid)
    known = (~np.isnan(X)).sum(axis=0)
    shrunken = [
        0.5
        - (0.5 - min(rloss(np.where(np.isnan(x), q, x), y, qid) for q in range(1, 6)))
        * n
        / (n + shrinkage)
        for x, n in zip(X.T, known, strict=True)
    ]
    assert set(model.feature_) == set(np.argsort(shrunken)[:4])


@pytest.mark.filterwarnings("ignore:.*columns hold a value")
@pytest.mark.parametrize("absent", ["zero", "abstain"])
@pytest.mark.parametrize(
    "ranker",
    [
        rw.KNN(n_neighbors=3),
        rw.KNN(n_neighbors=3, feature_mean=np.arange(2000) / 7),
        rw.VSIM(),
        rw.VSIM(over="rated", feature_norm=1.0 + np.arange(2000)),
        rw.VSIM(unseen="zero", feature_mean=np.arange(2000) / 7),
    ],
)
def test_empty_columns_of_a_wide_matrix_share_one(
    ranker: Any, absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(60, 2000, 0.004, random_state=rng))
    y, qid = rng.integers(0, 4, 60), np.arange(60) // 20
    usual = clone(ranker).set_params(absent=absent).fit(X, y, qid=qid)
    scores = usual.decision_function(X)
    monkeypatch.setattr(checks, "MANY_COLUMNS", 2000)
    monkeypatch.setattr(linear, "MANY_COLUMNS", 2000)
    wide = clone(usual).fit(X, y, qid=qid)
    for name in ("feature_", "default_", "rloss_", "coef_", "mean_"):
        if hasattr(usual, name):
            np.testing.assert_allclose(
                getattr(wide, name), getattr(usual, name), rtol=1e-12, atol=1e-15, err_msg=name
            )
    np.testing.assert_allclose(wide.decision_function(X), scores, rtol=1e-10, atol=1e-12)
