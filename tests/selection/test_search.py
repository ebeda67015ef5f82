"""Parameter search on held-out queries: the best is kept, whatever the threads."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, ParameterGrid, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwright import (
    Measure,
    PRank,
    QueryNormalizer,
    RankSearchCV,
    RankSVM,
    RidgeRanker,
    evaluate,
    tune,
)
from rankwright.data.items import Items
from rankwright.data.queries import fold_queries
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    MissingQueryWarning,
    ParameterError,
)
from rankwright.selection.search import Trial, Trials
from rankwright.selection.space import Range, chosen_ends, distinct_points
from rankwright.testing.inputs import make_problem


def items(seed: int, n_queries: int = 6) -> Items:
    problem = make_problem(seed=seed, n_queries=n_queries, noise=1.0)
    return Items(problem.X, problem.y, qid=problem.qid)


TRAIN, VALID = items(0), items(1)
GRID = {"C": [0.001, 0.1, 10.0], "loss": ["hinge", "squared_hinge"]}


def value_of(params: dict[str, Any], measure: str = "AP") -> float:
    model = RankSVM(**params).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
    return evaluate(model.decision_function(VALID.X), VALID.y, VALID.qid, measure)[measure]


def test_the_best_parameters_are_those_with_the_highest_value() -> None:
    search = tune(RankSVM(), GRID, TRAIN, VALID, "AP")
    values = [value_of(params) for params in ParameterGrid(GRID)]
    assert [trial.value for trial in search.trials_.trials] == values
    assert search.trials_.best.value == search.best_score_ == max(values)
    assert search.best_params_ == ParameterGrid(GRID)[int(np.argmax(values))]


def test_the_model_is_fitted_to_the_training_queries() -> None:
    search = tune(RankSVM(), GRID, TRAIN, VALID, "AP")
    expected = RankSVM(**search.best_params_).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
    np.testing.assert_array_equal(search.best_estimator_.coef_, expected.coef_)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_equal_values_go_to_the_first_whatever_the_threads(n_jobs: int) -> None:
    search = tune(RankSVM(), {"max_iter": [200, 300, 400]}, TRAIN, VALID, n_jobs=n_jobs)
    assert search.best_params_ == {"max_iter": 200}
    assert search.best_estimator_.max_iter == 200


def test_random_search_is_seeded() -> None:
    params = {"C": loguniform(0.01, 100.0)}
    one, other = (
        tune(RankSVM(), params, TRAIN, VALID, n_iter=4, random_state=3).trials_.trials
        for _ in range(2)
    )
    assert [trial.params for trial in one] == [trial.params for trial in other]
    assert len({trial.params["C"] for trial in one}) == 4


class Fragile(RankSVM):
    """Fails with C = 7, where its parameters are fine."""

    def _fit(self, X: Any, feedback: Any) -> None:
        if self.C == 7:
            raise DataError("seven")
        super()._fit(X, feedback)


def test_a_failed_trial_is_said_and_left_out() -> None:
    with pytest.warns(FitFailedWarning, match="seven"), pytest.warns(UserWarning, match="finite"):
        search = tune(Fragile(), {"C": [7, 1.0]}, TRAIN, VALID)
    assert search.best_params_ == {"C": 1.0}
    assert "failed" in str(search.trials_)


def test_every_fit_is_reported_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    tune(RankSVM(), {"C": [1.0, 2.0]}, TRAIN, VALID, verbose=1, n_jobs=1)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["1 of 2", "2 of 2"]
    assert "RankSVM(C=2.0)" in lines[1]


def test_the_table_goes_from_the_best_to_the_worst() -> None:
    trials = Trials("AP", (Trial({"C": 1}, 0.1), Trial({"C": 2}, float("nan")),
                           Trial({"C": 3}, 0.3)))  # fmt: skip
    lines = str(trials).splitlines()
    assert [line.split()[0] for line in lines] == ["C", "3", "1", "2"]
    assert lines[3].split()[1] == "failed"


def test_cross_validation_never_splits_a_query_and_refits_on_all() -> None:
    data = items(2, n_queries=9)
    search = RankSearchCV(RankSVM(), {"C": [0.01, 1.0]}, scoring="AP", cv=3, random_state=5)
    search.fit(data.X, data.y, qid=data.qid)
    expected = []
    for split in fold_queries(data.qid, 3, random_state=5):
        train, valid = data.take(split.train), data.take(split.test)
        model = RankSVM(C=1.0).fit(train.X, train.y, qid=train.qid)
        scores = model.decision_function(valid.X)
        expected.append(evaluate(scores, valid.y, valid.qid, "AP")["AP"])
    assert search.trials_.trials[1].values == tuple(expected)
    whole = RankSVM(**search.best_params_).fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(search.decision_function(data.X), whole.decision_function(data.X))
    np.testing.assert_array_equal(search.rank(data.X, data.qid), whole.rank(data.X, data.qid))
    assert search.score(data.X, data.y, data.qid) == whole.score(data.X, data.y, data.qid)


def test_pipelines_are_searched_too() -> None:
    data = items(3, n_queries=8)
    pipeline = make_pipeline(QueryNormalizer(), StandardScaler(), RankSVM())
    search = RankSearchCV(pipeline, {"ranksvm__C": [0.1, 1.0]}, cv=2, random_state=0)
    search.fit(data.X, data.y, qid=data.qid)
    normalized = QueryNormalizer().fit_transform(data.X, qid=data.qid)
    steps = make_pipeline(StandardScaler(), RankSVM(C=search.best_params_["ranksvm__C"]))
    expected = steps.fit(normalized, data.y, ranksvm__qid=data.qid).decision_function(normalized)
    np.testing.assert_allclose(search.decision_function(data.X, data.qid), expected, atol=1e-9)


def test_a_search_can_be_cloned_and_set() -> None:
    search = RankSearchCV(RankSVM(), {"C": [1.0]}, cv=3)
    copy = clone(search).set_params(estimator__loss="hinge")
    assert copy.estimator.loss == "hinge"
    assert search.estimator.loss == "squared_hinge"


@pytest.mark.parametrize("measure", ["Disagreement", "RankLoss"])
def test_of_a_loss_the_lowest_is_best(measure: str) -> None:
    grid = {"max_iter": [1, 2, 5, 20]}
    search = tune(PRank(), grid, TRAIN, VALID, measure)
    values = [trial.value for trial in search.trials_.trials]
    assert 0 <= min(values) < max(values)
    assert search.trials_.best.value == -search.best_score_ == min(values)
    assert search.best_estimator_.max_iter == search.best_params_["max_iter"]
    assert str(search.trials_).splitlines()[1].split()[1] == f"*{min(values):.4f}"
    if measure == "RankLoss":
        grades = search.best_estimator_.predict(VALID.X)
        expected = evaluate(grades, VALID.y, VALID.qid, measure, predictions=grades)[measure]
        assert min(values) == pytest.approx(expected)


def test_a_search_scores_as_its_ranker_does() -> None:
    data = items(3)
    search = RankSearchCV(RankSVM(), {"C": [1.0]}, cv=2, random_state=0)
    search.fit(data.X, data.y, qid=data.qid)
    assert search.score(data.X, data.y, qid=data.qid) == search.best_estimator_.score(
        data.X, data.y, qid=data.qid
    )
    with pytest.warns(DegenerateDataWarning, match="no pair"):
        assert search.score(data.X, 0 * data.y, qid=data.qid) == 0.5
    with pytest.warns(MissingQueryWarning):
        search.score(data.X, data.y)


@pytest.mark.parametrize("measure", ["NDCG@10", "RankLoss"])
def test_a_measure_scores_for_the_searches_of_scikit_learn(measure: str) -> None:
    data = items(4, n_queries=9)
    # As a worker process gets it.
    scorer, grid = pickle.loads(pickle.dumps(Measure(measure).scorer())), {"max_iter": [1, 3]}
    with config_context(enable_metadata_routing=True):
        folds = GroupKFold(3).set_split_request(groups="qid")
        search = GridSearchCV(PRank(), grid, scoring=scorer, cv=folds)
        search.fit(data.X, data.y, qid=data.qid)
        values = cross_val_score(
            PRank(), data.X, data.y, scoring=scorer, cv=folds, params={"qid": data.qid}
        )
    expected = []
    for train, test in GroupKFold(3).split(data.X, groups=data.qid):
        model = PRank().fit(data.X[train], data.y[train], qid=data.qid[train])
        scores, grades = model.decision_function(data.X[test]), model.predict(data.X[test])
        found = evaluate(scores, data.y[test], data.qid[test], measure, predictions=grades)
        expected.append((1 if measure == "NDCG@10" else -1) * found[measure])
    np.testing.assert_array_equal(values, expected)
    by_fold = [search.cv_results_[f"split{fold}_test_score"][0] for fold in range(3)]
    np.testing.assert_array_equal(by_fold, expected)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_scorer_without_queries_warns_as_score_does(scaled: bool) -> None:
    data = items(4, n_queries=9)
    model = make_pipeline(StandardScaler(), RankSVM()) if scaled else RankSVM()
    scorer, step = Measure("NDCG@10").scorer(), "ranksvm__" if scaled else ""
    search = GridSearchCV(model, {f"{step}C": [1.0]}, scoring=scorer, cv=3)
    with pytest.warns(MissingQueryWarning, match=r"Pass qid to the scorer.*metadata_routing"):
        search.fit(data.X, data.y, **{f"{step}qid": data.qid})
    found = RankSearchCV(RankSVM(), {"C": [1.0]}, cv=3).fit(data.X, data.y, qid=data.qid)
    for fitted in (search.best_estimator_, found):
        with pytest.warns(MissingQueryWarning, match="RankSVM was trained on 9 queries"):
            scorer(fitted, data.X, data.y)
        scorer(fitted, data.X, data.y, qid=data.qid)
    scorer(RankSVM().fit(data.X, data.y), data.X, data.y)  # trained on one list


def test_a_scorer_takes_the_conventions_of_other_tools() -> None:
    search = tune(RankSVM(), {"C": [1.0]}, TRAIN, VALID, "NDCG@3", like="letor3")
    scores = search.best_estimator_.decision_function(VALID.X)
    expected = evaluate(scores, VALID.y, VALID.qid, "NDCG@3", like="letor3")["NDCG@3"]
    assert search.best_score_ == expected != value_of({"C": 1.0}, "NDCG@3")


def test_random_draws_are_different_combinations() -> None:
    space = {"C": [0.1, 1.0, 10.0], "tol": Range(1, 2)}  # six points
    for n_iter, found in ((6, 6), (20, 6), (4, 4)):
        points = distinct_points(space, n_iter, 0)
        assert len({repr(point) for point in points}) == len(points) == found
    assert len(distinct_points({"C": [1, 2, 2]}, 9, 0)) == 2


def test_a_range_is_drawn_inside_its_ends() -> None:
    draws = [Range(0.01, 100.0).rvs(random_state=seed) for seed in range(200)]
    assert 0.01 <= min(draws) < 0.1
    assert 10 < max(draws) <= 100
    assert {Range(2, 4).rvs(random_state=seed) for seed in range(50)} == {2, 3, 4}
    with pytest.raises(ParameterError, match="low must be less than high"):
        Range(2, 2)


def test_optuna_proposes_different_combinations_and_finds_a_good_one() -> None:
    pytest.importorskip("optuna")
    data = make_problem(n_queries=10)
    space = {"alpha": Range(0.001, 1000.0), "fit_intercept": [True, False]}
    search = RankSearchCV(
        RidgeRanker(), param_distributions=space, n_iter=6, sampler="optuna", cv=2, random_state=0
    ).fit(data.X, data.y, qid=data.qid)
    tried = [repr(trial.params) for trial in search.trials_.trials]
    assert len(set(tried)) == len(tried) == 6
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert search.best_estimator_.get_params()["alpha"] == search.best_params_["alpha"]
    listed = RankSearchCV(
        RidgeRanker(), param_distributions={"alpha": [1, 2]}, n_iter=9, sampler="optuna", cv=2
    ).fit(data.X, data.y, qid=data.qid)
    assert len(listed.trials_.trials) == 2


def test_a_note_says_that_the_end_of_a_grid_was_chosen() -> None:
    data = make_problem(n_queries=10)
    base = data.y[:, None] * [1.0, 0.0]  # the first column minus the second is the grade
    X = base + 9 * np.random.default_rng(0).normal(size=(len(base), 1))  # each alone says little
    search = RankSearchCV(RidgeRanker(), {"alpha": [1e8, 1e4, 0.01]}, scoring="AP", cv=2)
    text = str(search.fit(X, data.y, qid=data.qid).trials_)
    assert "alpha=0.01 is the smallest value tried: smaller ones may be better." in text
    assert chosen_ends({"alpha": [1, 2]}, {"alpha": 1}) == ()
    assert chosen_ends({"alpha": [1, 2, 3]}, {"alpha": 2}) == ()


def test_weights_are_passed_to_the_ranker_of_every_trial() -> None:
    data = make_problem(n_queries=10)
    weight = np.where(np.arange(len(data.y)) % 2, 5.0, 0.1)
    for model in (RidgeRanker(), make_pipeline(StandardScaler(), RidgeRanker())):
        search = RankSearchCV(model, {}, cv=2, random_state=0)
        search.fit(data.X, data.y, qid=data.qid, sample_weight=weight)
        X = data.X if model.__class__ is RidgeRanker else StandardScaler().fit_transform(data.X)
        twin = RidgeRanker().fit(X, data.y, qid=data.qid, sample_weight=weight)
        assert search.decision_function(data.X) == pytest.approx(twin.decision_function(X))
