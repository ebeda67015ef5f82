"""RankEnsemble: the weighted sum of its members' scores, each divided by its scale."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils import get_tags

import rankwright as rw
from rankwright.scoring import Linear, Trees
from rankwright.testing.inputs import make_problem

PROBLEM = make_problem(n_queries=20)
X, Y, QID = PROBLEM.X, PROBLEM.y, PROBLEM.qid


def trees(seed: int = 0, **more: Any) -> rw.LambdaMART:
    more = {"n_estimators": 6, "min_samples_leaf": 2, "random_state": seed, **more}
    return rw.LambdaMART(subsample=0.5, **more)


def scaled(ranker: Any, scaler: Any = None) -> rw.RankPipeline:
    return piped(scaler or StandardScaler(), ranker)


def piped(*steps: Any) -> rw.RankPipeline:
    return rw.RankPipeline([(f"step {i}", step) for i, step in enumerate(steps)])


def twin(model: Any, rows: Any) -> Any:
    """The sum, written out."""
    parts = zip(model.weights_, model.scale_, model.members_, strict=True)
    return sum(weight / scale * member.decision_function(rows) for weight, scale, member in parts)


MEMBERS = {
    "trees": [trees(1), trees(2), rw.RankBoost(n_estimators=9), rw.FRank(n_estimators=5)],
    "linear": [rw.RankSVM(), scaled(rw.RankSVM()), rw.RidgeRanker(), scaled(rw.PRank())],
    "mixed": [trees(), scaled(rw.RankSVM()), rw.RankBoost(estimator="value", n_estimators=5)],
    "networks": [rw.RankNet(max_iter=5, random_state=seed) for seed in range(3)],
    "kernels": [rw.MPRank(kernel="rbf"), scaled(rw.MPRank(kernel="rbf")), rw.KeepRank()],
    "clipped": [scaled(rw.RankSVM(), MinMaxScaler(clip=True)), scaled(trees(), MaxAbsScaler())],
    "graded": [rw.VotedPRank(), rw.MulticlassPerceptron(), rw.LargeMarginOrdinal()],
    "mapped": [piped(rw.rankers.PolynomialMap(), rw.RankSVM()), rw.BayesianPRank(degree=2)],
    "features": [piped(rw.rankers.VSIMFeature(), trees()), rw.VSIM(), rw.KNN(n_neighbors=2)],
    "nested": [rw.RankEnsemble([trees(), rw.RankSVM()]), scaled(rw.RankEnsemble([rw.RankSVM()]))],
}


@pytest.mark.parametrize("kind", MEMBERS)
def test_the_score_is_the_weighted_sum_of_the_members(kind: str, tmp_path: Path) -> None:
    members = MEMBERS[kind]
    model = rw.RankEnsemble(members, weights=[*range(1, len(members) + 1)])
    model.fit(X, Y, qid=QID)
    assert model.weights_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(model.decision_function(X), twin(model, X), rtol=1e-12, atol=1e-12)
    for member, given in zip(model.members_, members, strict=True):
        alone = clone(given).fit(X, Y, qid=QID)
        np.testing.assert_array_equal(member.decision_function(X), alone.decision_function(X))
    rw.save(model, tmp_path / "model.rw")
    for other in (rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))


def test_the_scale_is_the_deviation_within_queries() -> None:
    model = rw.RankEnsemble([rw.RankSVM(), rw.RidgeRanker()]).fit(X, Y, qid=QID)
    for scale, member in zip(model.scale_, model.members_, strict=True):
        scores = member.decision_function(X)
        moved = np.concatenate([scores[q == QID] - scores[q == QID].mean() for q in np.unique(QID)])
        assert scale == pytest.approx(np.sqrt((moved**2).mean()))
    np.testing.assert_array_equal(model.weights_, [0.5, 0.5])


def test_a_member_whose_scores_are_all_equal_keeps_its_scale() -> None:
    with pytest.warns(rw.exceptions.DegenerateDataWarning):
        model = rw.RankEnsemble([trees(), trees(min_samples_leaf=500)]).fit(X, Y, qid=QID)
    assert model.scale_[1] == 1.0
    assert np.isfinite(model.decision_function(X)).all()


def test_fitted_members_are_used_as_they_are() -> None:
    members = [("a", trees(1).fit(X, Y, qid=QID)), ("b", scaled(rw.RankSVM()).fit(X, Y, qid=QID))]
    model = rw.RankEnsemble.from_fitted(members, weights=[3, 1], scale=[2.0, 0.5])
    assert [one is two for one, (_, two) in zip(model.members_, members, strict=True)] == [True] * 2
    expected = 0.75 / 2 * members[0][1].decision_function(X)
    expected = expected + 0.25 / 0.5 * members[1][1].decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12, atol=1e-12)
    assert model.n_features_in_ == 4
    clone(model).fit(X, Y, qid=QID)


def test_an_ensemble_of_fitted_members_scores_without_fit(tmp_path: Path) -> None:
    members = [trees(1).fit(X, Y, qid=QID), rw.RankSVM().fit(X, Y, qid=QID)]
    expected = rw.RankEnsemble.from_fitted(members).decision_function(X)
    rw.save(rw.RankEnsemble(members), tmp_path / "model.rw")
    for model in (rw.RankEnsemble(members), rw.load(tmp_path / "model.rw")):
        np.testing.assert_array_equal(model.decision_function(X), expected)
        np.testing.assert_array_equal(model.scale_, [1.0, 1.0])
    outer = rw.RankEnsemble([rw.RankEnsemble(members)])
    np.testing.assert_allclose(outer.decision_function(X), expected, rtol=1e-12)
    with pytest.raises(NotFittedError):
        rw.RankEnsemble([members[0], rw.RankSVM()]).decision_function(X)


def test_names_of_features_are_kept_and_must_agree() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    members = [trees(1).fit(frame, Y, qid=QID), scaled(rw.RankSVM()).fit(frame, Y, qid=QID)]
    model = rw.RankEnsemble.from_fitted(members)
    assert list(model.feature_names_in_) == list("abcd")
    np.testing.assert_allclose(model.decision_function(frame), twin(model, frame), rtol=1e-12)
    other = rw.RankSVM().fit(frame.rename(columns={"a": "z"}), Y, qid=QID)
    with pytest.raises(rw.ParameterError, match="different features"):
        rw.RankEnsemble.from_fitted([members[0], other])
    with pytest.raises(rw.ParameterError, match="different features"):
        rw.RankEnsemble.from_fitted([members[0], rw.RankSVM().fit(X[:, :3], Y, qid=QID)])


def test_rankers_without_names_are_named_after_their_class() -> None:
    model = rw.RankEnsemble([rw.RankSVM(), trees(), rw.RankSVM(C=2.0)])
    params = model.get_params()
    assert {"ranksvm-1", "lambdamart", "ranksvm-2", "ranksvm-2__C"} <= params.keys()
    model.set_params(**{"ranksvm-2__C": 3.0, "lambdamart": rw.RidgeRanker()})
    assert [type(member) for _, member in model.members] == [rw.RankSVM, rw.RidgeRanker, rw.RankSVM]
    assert model.members[2][1].C == 3.0


def test_an_error_of_a_member_names_it() -> None:
    model = rw.RankEnsemble([("svm", rw.RankSVM()), ("online", rw.PRank())])
    with pytest.raises(rw.DataError) as caught:
        model.fit(X, Y, qid=QID, sample_weight=np.full(len(Y), 0.5))
    assert "'online'" in caught.value.__notes__[0]


def test_missing_values_are_allowed_if_every_member_allows_them() -> None:
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    able = rw.RankEnsemble([trees(), scaled(rw.RankBoost(n_estimators=5))])
    assert get_tags(able).input_tags.allow_nan
    model = able.fit(holes, Y, qid=QID)
    np.testing.assert_allclose(model.decision_function(holes), twin(model, holes), rtol=1e-12)
    unable = rw.RankEnsemble([trees(), rw.RankSVM()])
    assert not get_tags(unable).input_tags.allow_nan
    with pytest.raises(ValueError, match="NaN"):
        unable.fit(holes, Y, qid=QID)


def test_sparse_rows_work_if_every_member_takes_them() -> None:
    matrix = sparse.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))
    able = rw.RankEnsemble([trees(), scaled(rw.RankSVM(), MaxAbsScaler()), rw.RidgeRanker()])
    assert get_tags(able).input_tags.sparse
    model = able.fit(matrix, Y, qid=QID)
    dense = model.decision_function(matrix.toarray())
    np.testing.assert_allclose(model.decision_function(matrix), dense, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="sparse"):
        rw.RankEnsemble([trees(), scaled(rw.RankSVM())]).fit(matrix, Y, qid=QID)


def test_weights_of_rows_reach_the_members() -> None:
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(Y))
    model = rw.RankEnsemble([trees(), scaled(rw.RankSVM())])
    model.fit(X, Y, qid=QID, sample_weight=weight)
    alone = trees().fit(X, Y, qid=QID, sample_weight=weight)
    np.testing.assert_array_equal(model.members_[0].node_value_, alone.node_value_)


class Mine(rw.Ranker):
    """A ranker of a user."""

    def _fit(self, X: Any, feedback: Any) -> None:
        self.coef_ = np.asarray(X.T @ (feedback.y - feedback.y.mean())).ravel()

    def _scorer(self) -> Linear:
        return Linear(self.coef_)


@pytest.mark.parametrize("member", [Mine(), make_pipeline(PCA(2), rw.RankSVM())], ids=repr)
def test_members_of_any_class_score_but_are_not_saved(member: Any, tmp_path: Path) -> None:
    model = rw.RankEnsemble([("trees", trees()), ("own", member)]).fit(X, Y, qid=QID)
    np.testing.assert_allclose(model.decision_function(X), twin(model, X), rtol=1e-12, atol=1e-12)
    with pytest.raises(rw.ParameterError, match="the member 'own'"):
        rw.save(model, tmp_path / "model.rw")
    assert not list(tmp_path.iterdir())


def test_copies_score_the_same_and_the_model_is_merged_once() -> None:
    model = rw.RankEnsemble([trees(1), trees(2)]).fit(X, Y, qid=QID)
    (only,) = model._fitted_scorer().merged.terms
    assert isinstance(only, Trees)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_second_fit_or_other_weights_change_the_scores() -> None:
    model = rw.RankEnsemble([trees(1), rw.RankSVM()]).fit(X, Y, qid=QID)
    first = model.decision_function(X)
    model.set_params(weights=[0, 1]).fit(X, Y, qid=QID)
    expected = model.members_[1].decision_function(X) / model.scale_[1]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12)
    assert not np.allclose(first, expected)


EXPLAINED = {
    "trees": [trees(1), trees(2), rw.RankBoost(n_estimators=9)],
    "behind scalers": [scaled(trees()), scaled(rw.RankBoost(estimator="value", n_estimators=5))],
    "linear": [trees(), scaled(rw.RankSVM()), rw.RankEnsemble([scaled(rw.RidgeRanker())])],
}


@pytest.mark.parametrize("kind", EXPLAINED)
def test_shapley_values_add_up_to_the_score(kind: str) -> None:
    model = rw.RankEnsemble(EXPLAINED[kind]).fit(X, Y, qid=QID)
    values, scores = model.shap_values(X), model.decision_function(X)
    assert values.shape == X.shape
    np.testing.assert_allclose(model.expected_value_ + values.sum(axis=1), scores, atol=1e-9)
    found = model.explain(X[0], X[1])
    assert found.difference == pytest.approx(scores[0] - scores[1])
    assert sum(part.amount for part in found.contributions) == pytest.approx(found.difference)
    assert len(model.explain(X[0], X[1], n=2).contributions) == 2


def test_shapley_values_are_the_weighted_sums_of_those_of_the_members() -> None:
    model = rw.RankEnsemble([trees(1), trees(2)], weights=[1, 3]).fit(X, Y, qid=QID)
    factors = model.weights_ / model.scale_
    parts = [
        factor * one.shap_values(X) for factor, one in zip(factors, model.members_, strict=True)
    ]
    np.testing.assert_allclose(model.shap_values(X), sum(parts), atol=1e-12)
    shares = [one.feature_importances_ for one in model.members_]
    np.testing.assert_allclose(model.feature_importances_, np.average(shares, 0, [1, 3]))


def test_a_linear_member_explains_differences_without_a_mean() -> None:
    model = rw.RankEnsemble([("svm", rw.RankSVM()), ("trees", trees())]).fit(X, Y, qid=QID)
    assert model.explain(X[0], X[1]).contributions
    with pytest.raises(rw.ParameterError, match=r"'svm'.*no Shapley values"):
        model.shap_values(X)


def test_a_member_without_explanations_is_named() -> None:
    model = rw.RankEnsemble([("trees", trees()), ("kernel", rw.KeepRank())]).fit(X, Y, qid=QID)
    for call in (lambda: model.shap_values(X), lambda: model.explain(X[0], X[1])):
        with pytest.raises(rw.ParameterError, match="'kernel'"):
            call()
    with pytest.raises(AttributeError, match="'kernel'"):
        _ = model.feature_importances_
    assert not hasattr(model, "feature_importances_")


def test_members_behind_a_decoder_explain_the_columns() -> None:
    rng = np.random.default_rng(4)
    brand, price, qid = rng.integers(0, 8, 400), rng.normal(size=400), np.repeat(range(20), 20)
    X = np.column_stack([brand[:, None] == np.arange(8), price]).astype(float)
    y = (np.array([0, 2, 1, 0, 2, 1, 0, 1])[brand] + (price > 0)).astype(float)
    trees = rw.LambdaMART(n_estimators=15, min_samples_leaf=1, categorical_features=[1])
    levels = rw.RankPipeline([("levels", rw.rankers.OneHotDecoder()), ("rank", trees)])
    plain = rw.LambdaMART(n_estimators=15, min_samples_leaf=1)
    model = rw.RankEnsemble([("levels", levels), ("plain", plain)]).fit(X, y, qid=qid)
    values = model.shap_values(X)
    whole = values.sum(axis=1) + model.expected_value_
    np.testing.assert_allclose(whole, model.decision_function(X), atol=1e-9)
    behind = rw.RankEnsemble.from_fitted([model.members_[0]]).shap_values(X)
    assert not behind[:, :8][X[:, :8] == 0].any()  # what belongs to a category is its level's
    np.testing.assert_allclose(model.feature_importances_.sum(), 1.0)
    assert (model.feature_importances_[:8] > 0).all()
    pair = model.explain(X[0], X[1])
    scores = model.decision_function(X[:2])
    assert pair.difference == pytest.approx(scores[0] - scores[1])
