"""Parameter search on held-out queries: the best is kept, whatever the threads."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwright import PRank, QueryNormalizer, Range, RankSearchCV, RankSVM, evaluate, tune
from rankwright.data.items import Items
from rankwright.data.splits import fold_queries
from rankwright.exceptions import (
    ConvergenceWarning,
    DataError,
    DegenerateDataWarning,
    MeasureError,
    MissingQueryWarning,
    ParameterError,
    RankwrightError,
)
from rankwright.selection.search import Trial, Trials, draw, grid
from rankwright.testing.problems import make_problem


def items(seed: int, n_queries: int = 6) -> Items:
    problem = make_problem(seed=seed, n_queries=n_queries, noise=1.0)
    return Items(problem.X, problem.y, qid=problem.qid)


TRAIN, VALID = items(0), items(1)
SPACE = {"C": [0.001, 0.1, 10.0], "loss": ["hinge", "squared_hinge"]}


def value_of(params: dict[str, Any], measure: str = "AP") -> float:
    model = RankSVM(**params).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
    return evaluate(model.decision_function(VALID.X), VALID.y, VALID.qid, measure)[measure]


def test_a_grid_is_every_combination() -> None:
    assert len(grid(SPACE)) == 6
    assert grid([{"a": [1]}, {"b": [2, 3]}]) == [{"a": 1}, {"b": 2}, {"b": 3}]


@pytest.mark.parametrize("space", [{}, []])
def test_the_grid_of_nothing(space: Any) -> None:
    if space == {}:
        assert grid(space) == [{}]  # the ranker as it is
    else:
        with pytest.raises(ParameterError, match="table"):
            grid(space)


@pytest.mark.parametrize("choice", ["rbf", 3, [], Range(0, 1)])
def test_a_grid_refuses_what_is_no_list_of_values(choice: Any) -> None:
    with pytest.raises(ParameterError, match="C"):
        grid({"C": choice})


def test_draws_stay_in_their_ranges() -> None:
    space = {"a": Range(1, 3), "b": Range(1e-3, 1e3, log=True), "c": ["x", "y"]}
    drawn = draw(space, 200, np.random.default_rng(0))
    assert {each["a"] for each in drawn} == {1, 2, 3}
    assert all(1e-3 <= each["b"] <= 1e3 for each in drawn)
    assert 0.4 < np.mean([each["b"] < 1 for each in drawn]) < 0.6
    assert {each["c"] for each in drawn} == {"x", "y"}


@pytest.mark.parametrize("low, high, log", [(1, 1, False), (0.0, 1.0, True), (0, np.inf, False)])
def test_impossible_ranges_are_refused(low: float, high: float, log: bool) -> None:
    with pytest.raises(ParameterError, match="low"):
        Range(low, high, log=log)


def test_the_best_parameters_are_those_with_the_highest_value() -> None:
    found = tune(RankSVM(), SPACE, TRAIN, VALID, "AP")
    values = [value_of(params) for params in grid(SPACE)]
    assert found.value == max(values)
    assert found.params == grid(SPACE)[int(np.argmax(values))]
    assert [trial.value for trial in found.trials.trials] == values


def test_the_model_is_the_one_that_was_measured() -> None:
    found = tune(RankSVM(), SPACE, TRAIN, VALID, "AP")
    wanted = RankSVM(**found.params).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
    np.testing.assert_array_equal(found.model.coef_, wanted.coef_)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_equal_values_go_to_the_first_whatever_the_threads(n_jobs: int) -> None:
    found = tune(RankSVM(), {"max_iter": [200, 300, 400]}, TRAIN, VALID, n_jobs=n_jobs)
    assert found.params == {"max_iter": 200}
    assert found.model.max_iter == 200


def test_random_search_is_seeded() -> None:
    space = {"C": Range(0.01, 100.0, log=True)}
    one, other = (
        tune(RankSVM(), space, TRAIN, VALID, search="random", n_trials=4, random_state=3)
        for _ in range(2)
    )
    assert [t.params for t in one.trials.trials] == [t.params for t in other.trials.trials]
    assert len(one.trials.trials) == 4


@pytest.mark.parametrize("as_function", [False, True])
def test_optuna_proposes_and_finds(as_function: bool) -> None:
    optuna = pytest.importorskip("optuna")
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    space: Any = {"C": Range(0.001, 100.0, log=True), "loss": ["hinge", "squared_hinge"]}
    if as_function:
        space = lambda trial: {"C": trial.suggest_float("C", 0.001, 100.0, log=True)}  # noqa: E731
    found = tune(RankSVM(), space, TRAIN, VALID, "AP", search="optuna", n_trials=5)
    assert len(found.trials.trials) == 5
    assert found.value == pytest.approx(value_of(found.params))


def test_a_failed_trial_is_said_and_left_out() -> None:
    with pytest.warns(ConvergenceWarning, match="1 of 2 trials failed.*C must be"):
        found = tune(RankSVM(), {"C": [-1.0, 1.0]}, TRAIN, VALID)
    assert found.params == {"C": 1.0}
    assert "ParameterError" in str(found.trials)


def test_when_all_trials_fail_the_reason_is_given() -> None:
    with (
        pytest.warns(ConvergenceWarning),
        pytest.raises(RankwrightError, match="none of 1 trials worked: ParameterError"),
    ):
        tune(RankSVM(), {"C": [-1.0]}, TRAIN, VALID)


def test_wrong_names_are_refused_before_anything_is_trained() -> None:
    with pytest.raises(ParameterError, match="search"):
        tune(RankSVM(), SPACE, TRAIN, VALID, search="guess")
    with pytest.raises(MeasureError):
        tune(RankSVM(), SPACE, TRAIN, VALID, "NDGC@10")


def test_progress_is_told_of_every_trial() -> None:
    seen: list[tuple[int, int]] = []
    tune(RankSVM(), SPACE, TRAIN, VALID, progress=lambda done, total, _: seen.append((done, total)))
    assert seen == [(i + 1, 6) for i in range(6)]


def test_progress_is_written_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    tune(RankSVM(), {"C": [1.0]}, TRAIN, VALID, progress=True)
    assert "[1/1] C=1: " in capsys.readouterr().err


def test_the_table_goes_from_the_best_to_the_worst() -> None:
    trials = Trials("AP", (Trial({"C": 1}, 0.1), Trial({"C": 2}, float("nan"), error="E: x"),
                           Trial({"C": 3}, 0.3)))  # fmt: skip
    lines = str(trials).splitlines()
    assert [line.split()[0] for line in lines] == ["C", "3", "1", "2"]
    assert lines[3].split()[1] == "E"


def test_cross_validation_never_cuts_a_query_and_refits_on_all() -> None:
    data = items(2, n_queries=9)
    search = RankSearchCV(RankSVM(), {"C": [0.01, 1.0]}, measure="AP", n_folds=3, random_state=5)
    search.fit(data.X, data.y, qid=data.qid)
    wanted = []
    for split in fold_queries(data.qid, 3, random_state=5):
        train, valid = data.take(split.train), data.take(split.test)
        model = RankSVM(C=1.0).fit(train.X, train.y, qid=train.qid)
        scores = model.decision_function(valid.X)
        wanted.append(evaluate(scores, valid.y, valid.qid, "AP")["AP"])
    assert search.trials_.trials[1].values == tuple(wanted)
    whole = RankSVM(**search.best_params_).fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(search.decision_function(data.X), whole.decision_function(data.X))
    np.testing.assert_array_equal(search.rank(data.X, data.qid), whole.rank(data.X, data.qid))
    assert search.score(data.X, data.y, data.qid) == whole.score(data.X, data.y, data.qid)


def test_pipelines_are_searched_too() -> None:
    data = items(3, n_queries=8)
    pipeline = make_pipeline(QueryNormalizer(), StandardScaler(), RankSVM())
    search = RankSearchCV(pipeline, {"ranksvm__C": [0.1, 1.0]}, n_folds=2)
    search.fit(data.X, data.y, qid=data.qid)
    scaled = QueryNormalizer().fit_transform(data.X, qid=data.qid)
    steps = make_pipeline(StandardScaler(), RankSVM(C=search.best_params_["ranksvm__C"]))
    wanted = steps.fit(scaled, data.y, ranksvm__qid=data.qid).decision_function(scaled)
    np.testing.assert_allclose(search.decision_function(data.X, data.qid), wanted, atol=1e-9)


def test_a_search_can_be_cloned_and_set() -> None:
    search = RankSearchCV(RankSVM(), {"C": [1.0]}, n_folds=3)
    copy = clone(search).set_params(ranker__loss="hinge")
    assert copy.ranker.loss == "hinge"
    assert search.ranker.loss == "squared_hinge"


def test_too_few_queries_for_the_folds_are_refused() -> None:
    data = items(3, n_queries=3)
    with pytest.raises(DataError, match="3 queries cannot be cut into 5 folds"):
        RankSearchCV(RankSVM(), {}).fit(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize("measure", ["Disagreement", "RankLoss"])
def test_of_a_loss_the_lowest_is_best(measure: str, capsys: pytest.CaptureFixture[str]) -> None:
    space = {"max_iter": [1, 2, 5, 20]}
    found = tune(PRank(), space, TRAIN, VALID, measure, n_jobs=1, progress=True)
    values = [trial.value for trial in found.trials.trials]
    assert min(values) < max(values)
    assert found.value == min(values)
    assert found.model.max_iter == found.params["max_iter"]
    assert str(found.trials).splitlines()[1].split()[1] == f"*{min(values):.4f}"
    assert capsys.readouterr().err.rstrip().endswith(f"(best {min(values):.4f})")
    data = items(3)
    search = RankSearchCV(PRank(), space, n_folds=2, measure=measure)
    search.fit(data.X, data.y, qid=data.qid)
    assert search.best_score_ == min(trial.value for trial in search.trials_.trials)


def test_optuna_lowers_a_loss() -> None:
    pytest.importorskip("optuna")
    space = {"C": Range(0.01, 10.0, log=True)}
    found = tune(RankSVM(), space, TRAIN, VALID, "Disagreement", search="optuna", n_trials=5)
    values = [trial.value for trial in found.trials.trials]
    assert found.value == min(values) < max(values)


def test_measures_of_predictions_read_predictions() -> None:
    found = tune(PRank(), {"max_iter": [3]}, TRAIN, VALID, "RankLoss")
    grades = found.model.predict(VALID.X)
    wanted = evaluate(grades, VALID.y, VALID.qid, "RankLoss", predictions=grades)["RankLoss"]
    assert found.value == pytest.approx(wanted)


def test_a_search_scores_as_its_ranker_does() -> None:
    data = items(3)
    search = RankSearchCV(RankSVM(), {"C": [1.0]}, n_folds=2).fit(data.X, data.y, qid=data.qid)
    assert search.score(data.X, data.y, qid=data.qid) == search.best_estimator_.score(
        data.X, data.y, qid=data.qid
    )
    with pytest.warns(DegenerateDataWarning, match="no pair"):
        assert search.score(data.X, 0 * data.y, qid=data.qid) == 0.5
    with pytest.warns(MissingQueryWarning):
        search.score(data.X, data.y)


def test_a_search_refuses_words_as_grades() -> None:
    data = items(3)
    with pytest.raises(DataError, match="y holds 'good': grades are numbers"):
        RankSearchCV(RankSVM(), {}).fit(data.X, ["good"] * len(data), qid=data.qid)
