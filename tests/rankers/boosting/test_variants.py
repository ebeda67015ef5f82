"""RankBoost with estimators of the user's own, shrinkage, drawn features and initial scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import rankwright as rw
from rankwright.exceptions import DataError, ParameterError
from rankwright.feedback.base import Grades
from rankwright.testing import check_weak_learner


class BestColumn(BaseEstimator):  # type: ignore[misc]
    """The column with the largest |covariance| with the potentials."""

    def fit(self, X: Any, y: Any) -> BestColumn:
        self.column_ = int(np.argmax(np.abs(np.asarray(y) @ X)))
        return self

    def predict(self, X: Any) -> Any:
        return X[:, self.column_]


class Constant(BestColumn):
    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


class Broken(BestColumn):
    def predict(self, X: Any) -> Any:
        return np.full(len(X), np.nan)


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = np.digitize(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=200), [-0.5, 0.7]).astype(float)
    return X, y, np.repeat(np.arange(10), 20)


@pytest.mark.parametrize(
    "estimator", [BestColumn(), Ridge(), DecisionTreeRegressor(max_depth=2, random_state=0)]
)
def test_an_estimator_of_the_users_own_is_boosted(data: Any, estimator: Any, tmp_path: Any) -> None:
    X, y, qid = data
    check_weak_learner(estimator)
    model = rw.RankBoost(estimator=estimator, n_estimators=8).fit(X, y, qid=qid)
    scores = sum(a * e.predict(X) for a, e in zip(model.alpha_, model.estimators_, strict=True))
    np.testing.assert_allclose(model.decision_function(X), scores)
    assert model.train_rloss_ <= model.training_bound_ < 1
    assert model.score(X, y, qid=qid) > 0.8
    known = hasattr(model.estimators_[0], "feature_importances_")
    assert (model.feature_importances_[:2].sum() > 0.7) == known  # the grades are of these two
    assert round(float(model.feature_importances_.sum()), 9) == (1.0 if known else 0.0)
    with pytest.raises(ParameterError, match="save"):
        rw.save(model, tmp_path / "model.rw")


def test_an_estimator_that_does_not_fit_is_refused(data: Any) -> None:
    X, y, qid = data
    with pytest.raises(AssertionError, match="constant"):
        check_weak_learner(Constant())
    with pytest.raises(DataError, match="NaN"):
        rw.RankBoost(estimator=Broken()).fit(X, y, qid=qid)
    for bad in ("treehouse", object(), Ridge):
        with pytest.raises(ParameterError, match="estimator"):
            rw.RankBoost(estimator=bad).fit(X, y, qid=qid)
    with pytest.raises(ParameterError, match="weighting"):
        rw.RankBoost(estimator=Ridge(), weighting="NDCG").fit(X, y, qid=qid)


def test_a_learning_rate_multiplies_the_first_weight(data: Any) -> None:
    X, y, qid = data
    whole = rw.RankBoost(n_estimators=1).fit(X, y, qid=qid)
    half = rw.RankBoost(n_estimators=1, learning_rate=0.5).fit(X, y, qid=qid)
    np.testing.assert_allclose(half.alpha_, whole.alpha_ / 2)
    slow = rw.RankBoost(n_estimators=60, learning_rate=0.2).fit(X, y, qid=qid)
    assert (slow.z_ < 1).all()
    assert slow.train_rloss_ <= slow.training_bound_
    with pytest.raises(ParameterError, match="of the TreeRanking"):
        rw.RankBoost(learning_rate=0.5, estimator=rw.TreeRanking()).fit(X, y, qid=qid)


@pytest.mark.parametrize("estimator", ["threshold", "value", rw.TreeRanking(min_samples_leaf=5)])
def test_each_round_uses_drawn_features_only(data: Any, estimator: Any) -> None:
    X, y, qid = data
    options: Any = {"estimator": estimator, "n_estimators": 30, "random_state": 0}
    drawn = rw.RankBoost(**options, colsample_bytree=0.2).fit(X, y, qid=qid)
    again = rw.RankBoost(**options, colsample_bytree=0.2).fit(X, y, qid=qid)
    np.testing.assert_array_equal(drawn.decision_function(X), again.decision_function(X))
    if estimator == "threshold":
        assert len(np.unique(drawn.feature_)) > len(np.unique(drawn.feature_[:1]))
        assert set(drawn.feature_[:6].tolist()) != {0, 1}
    assert drawn.train_rloss_ <= drawn.training_bound_ < 1


def test_initial_scores_are_part_of_the_bound(data: Any) -> None:
    X, y, qid = data
    start = 0.5 * X[:, 0]
    model = rw.RankBoost(n_estimators=20).fit(X, y, qid=qid, init_score=start)
    pairs = Grades(y, qid).to_pairs()
    scores = start + model.decision_function(X)
    gap = scores[pairs.upper] - scores[pairs.lower]
    assert model.training_bound_ == pytest.approx(np.exp(-gap).mean())
    assert model.train_rloss_ == pytest.approx(((gap < 0) + 0.5 * (gap == 0)).mean())
    alone = rw.RankBoost(n_estimators=20).fit(X, y, qid=qid)
    assert model.feature_.tolist() != alone.feature_.tolist()


def test_where_both_defaults_gain_the_same_the_default_is_one() -> None:
    X = np.array([[0.0], [1.0], [np.nan], [np.nan]])
    y = np.array([0.0, 1.0, 0.0, 1.0])  # the rows that lack the feature cancel: R = 0
    model = rw.RankBoost(n_estimators=1, cumulative=False).fit(X, y, qid=[0, 0, 1, 1])
    assert model.default_.tolist() == [1]
    fixed = rw.RankBoost(n_estimators=1, cumulative=False, default=0).fit(X, y, qid=[0, 0, 1, 1])
    assert fixed.default_.tolist() == [0]


@pytest.mark.parametrize("seed", range(20))
def test_the_training_loss_is_that_of_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = np.round(rng.normal(size=(40, 3)), 1), rng.integers(0, 2, 40).astype(float)
    model = rw.RankBoost(n_estimators=30).fit(X, y)
    pairs = Grades(y).to_pairs()
    scores = model.decision_function(X)
    gap = scores[pairs.upper] - scores[pairs.lower]
    assert model.train_rloss_ == pytest.approx(((gap < 0) + 0.5 * (gap == 0)).mean(), abs=1e-12)
