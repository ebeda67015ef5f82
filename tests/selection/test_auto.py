"""AutoRanker: candidates on held-out queries, the best one fitted to all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwright as rw
from rankwright.data.queries import fold_queries
from rankwright.exceptions import DataError, MeasureError, ParameterError
from rankwright.selection import auto
from rankwright.testing.inputs import make_problem

LINEAR = [("PRank", rw.PRank()), ("Regression", rw.Regression())]


def items(seed: int = 0, n_queries: int = 10) -> rw.Items:
    problem = make_problem(seed=seed, n_queries=n_queries, noise=1.0)
    return rw.Items(problem.X, problem.y, qid=problem.qid)


DATA, VALID = items(), items(1)


@parametrize_with_checks([rw.AutoRanker([("ranker", rw.Regression())])])
def test_it_is_an_estimator_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_every_query_is_judged_by_models_that_have_not_seen_it() -> None:
    model = rw.AutoRanker(LINEAR, random_state=3).fit(DATA.X, DATA.y, qid=DATA.qid)
    expected = np.empty(len(DATA))
    for split in fold_queries(DATA.qid, 5, random_state=3):
        train, valid = DATA.take(split.train), DATA.take(split.test)
        fitted = rw.PRank().set_params(random_state=3).fit(train.X, train.y, qid=train.qid)
        expected[split.test] = fitted.decision_function(valid.X)
    result = model.results_[0]
    np.testing.assert_array_equal(result.held_out, expected[model.held_out_rows_])
    scores = rw.evaluate(expected, DATA.y, DATA.qid)
    assert result.scores["NDCG@10"] == pytest.approx(scores["NDCG@10"])


def test_the_best_one_is_fitted_to_all_queries_and_does_the_work() -> None:
    model = rw.AutoRanker(LINEAR, measure="AP", random_state=0).fit(DATA.X, DATA.y, qid=DATA.qid)
    means = {result.name: result.scores["AP"] for result in model.results_}
    assert model.best_name_ == max(means, key=means.get)
    expected = clone(dict(LINEAR)[model.best_name_]).fit(DATA.X, DATA.y, qid=DATA.qid)
    for method in ("decision_function", "predict", "rank"):
        ours, theirs = (getattr(one, method)(VALID.X, VALID.qid) for one in (model, expected))
        np.testing.assert_array_equal(ours, theirs)
    assert model.score(VALID.X, VALID.y, VALID.qid) == expected.score(VALID.X, VALID.y, VALID.qid)
    assert repr(model.results_).startswith("system")
    assert "<table>" in model.results_._repr_html_()


def test_of_a_loss_the_lowest_is_best() -> None:
    model = rw.AutoRanker(LINEAR, measure=["Disagreement", "AP"], random_state=0)
    model.fit(DATA.X, DATA.y, qid=DATA.qid)
    means = {result.name: result.scores["Disagreement"] for result in model.results_}
    assert model.best_name_ == min(means, key=means.get)


def test_with_many_queries_one_fold_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "FEW_QUERIES", 10)
    model = rw.AutoRanker(LINEAR, random_state=0).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert len(np.unique(DATA.qid[model.held_out_rows_])) == 2
    half = rw.AutoRanker(LINEAR, validation_fraction=0.5).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert len(np.unique(DATA.qid[half.held_out_rows_])) == 5


def test_a_single_list_is_split_by_rows_and_too_little_is_not_judged() -> None:
    rows = DATA.qid < 4
    model = rw.AutoRanker(LINEAR).fit(DATA.X[rows], DATA.y[rows])
    assert len(model.held_out_rows_) == round(0.2 * rows.sum())
    few = rw.AutoRanker(LINEAR).fit(DATA.X[rows], DATA.y[rows], qid=DATA.qid[rows])
    assert (few.best_name_, few.held_out_rows_) == ("PRank", None)
    assert repr(few.results_) == "no query was held out"


def test_an_eval_set_is_judged_instead_of_folds() -> None:
    model = rw.AutoRanker(LINEAR)
    model.fit(DATA.X, DATA.y, qid=DATA.qid, eval_set=(VALID.X, VALID.y), eval_qid=VALID.qid)
    expected = rw.PRank().fit(DATA.X, DATA.y, qid=DATA.qid).decision_function(VALID.X)
    np.testing.assert_array_equal(model.results_[0].held_out, expected)
    assert model.held_out_rows_ is None


@pytest.mark.parametrize("eval_set", [False, True])
def test_a_number_of_rounds_is_obeyed(eval_set: bool) -> None:
    boost = rw.RankBoost(n_estimators=7)
    valid = {"eval_set": (VALID.X, VALID.y), "eval_qid": VALID.qid} if eval_set else {}
    model = rw.AutoRanker([("boost", boost)]).fit(DATA.X, DATA.y, qid=DATA.qid, **valid)
    assert model.best_estimator_.get_params() == boost.get_params()
    assert len(model.best_estimator_.alpha_) == 7


def test_early_stopping_chooses_the_rounds_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    boost = rw.RankBoost(n_estimators=80, early_stopping=rw.EarlyStopping(n_iter_no_change=2))
    model = rw.AutoRanker([("boost", boost)], random_state=0, verbose=1)
    model.fit(DATA.X, DATA.y, qid=DATA.qid)
    kept = model.results_[0].n_iterations
    assert kept < 80
    assert model.best_estimator_.n_estimators == len(model.best_estimator_.alpha_) == kept
    assert model.best_estimator_.early_stopping is None
    assert len(model.results_[0].curve) > 2
    printed = capsys.readouterr().err
    assert f"early stopping keeps {kept} rounds" in printed
    assert f"training boost on all 10 queries with n_estimators={kept}" in printed


def test_rankers_that_need_one_scale_get_it() -> None:
    candidates = [
        ("svm", rw.RankSVM()),
        ("by query", rw.RankSVM(normalize="query")),
        ("ordinal", rw.LargeMarginOrdinal()),
        ("prank", rw.PRank()),
    ]
    model = rw.AutoRanker(candidates).fit(DATA.X, DATA.y, qid=DATA.qid)
    svm, by_query, ordinal, prank = (result.model for result in model.results_)
    assert isinstance(svm[0], StandardScaler)
    assert isinstance(ordinal[0], StandardScaler)
    assert isinstance(by_query, rw.RankSVM)
    assert isinstance(prank, rw.PRank)
    sparse = rw.AutoRanker(candidates[:1]).fit(csr_array(DATA.X), DATA.y, qid=DATA.qid)
    assert isinstance(sparse.best_estimator_[0], MaxAbsScaler)


def test_missing_values_leave_out_candidates_that_cannot_handle_them() -> None:
    X = DATA.X.copy()
    X[3, 1] = np.nan
    filled = make_pipeline(SimpleImputer(), rw.Regression())
    candidates = [*LINEAR, ("boost", rw.RankBoost(n_estimators=3)), ("filled", filled)]
    model = rw.AutoRanker(candidates).fit(X, DATA.y, qid=DATA.qid)
    assert [result.name for result in model.results_] == ["boost", "filled"]
    with pytest.raises(DataError, match="PRank, Regression cannot handle"):
        rw.AutoRanker(LINEAR).fit(X, DATA.y, qid=DATA.qid)
    few = DATA.qid < 3
    model = rw.AutoRanker().fit(X[few], DATA.y[few], qid=DATA.qid[few])
    assert model.best_name_ == "RankBoost thresholds"


def test_very_wide_sparse_rows_are_not_boosted() -> None:
    X = csr_array(
        (DATA.X[:, 0], (np.arange(len(DATA)), np.arange(len(DATA)) % 7)), (len(DATA), 2001)
    )
    model = rw.AutoRanker(random_state=0).fit(X, DATA.y, qid=DATA.qid)
    assert {result.name[:7] for result in model.results_} == {"RankSVM"}


def test_data_frames_keep_their_names(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(DATA.X, columns=[f"f{k}" for k in range(DATA.n_features)])
    model = rw.AutoRanker(LINEAR).fit(frame, DATA.y, qid=DATA.qid)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    rw.save(model, tmp_path / "model.rw")
    assert rw.load(tmp_path / "model.rw").feature_names_in_.tolist() == list(frame.columns)


def test_it_is_saved_as_the_ranker_that_it_chose(tmp_path: Path) -> None:
    model = rw.AutoRanker([("svm", rw.RankSVM())]).fit(DATA.X, DATA.y, qid=DATA.qid)
    rw.save(model, tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    assert isinstance(loaded, Pipeline)
    np.testing.assert_array_equal(
        loaded.decision_function(VALID.X), model.decision_function(VALID.X)
    )


def test_the_same_seed_gives_the_same_choice_whatever_the_threads() -> None:
    one, other = (
        rw.AutoRanker(LINEAR, random_state=4, n_jobs=n).fit(DATA.X, DATA.y, qid=DATA.qid)
        for n in (None, -1)
    )
    assert repr(one.results_) == repr(other.results_)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"estimators": "all"}, "estimators must be"),
        ({"estimators": [("a", rw.PRank()), ("a", rw.PRank())]}, "different names"),
        ({"estimators": []}, "estimators must be"),
        ({"validation_fraction": 0.9}, "validation_fraction must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_parameters_without_meaning_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        rw.AutoRanker(**params).fit(DATA.X, DATA.y, qid=DATA.qid)


def test_an_unknown_measure_is_refused() -> None:
    with pytest.raises(MeasureError):
        rw.AutoRanker(measure="NDGC@10").fit(DATA.X, DATA.y, qid=DATA.qid)


def test_a_number_of_rounds_to_wait_stops_by_the_measure_that_chooses() -> None:
    boost = rw.RankBoost(n_estimators=80, early_stopping=3)
    net = rw.RankNet(max_iter=3)
    model = rw.AutoRanker([("boost", boost), ("net", net)], measure="AP", random_state=0)
    model.fit(DATA.X, DATA.y, qid=DATA.qid)
    boosted, trained = model.results_
    assert boosted.model.early_stopping.measure == "AP"
    assert boosted.n_iterations < 80
    assert (trained.model.early_stopping, trained.n_iterations) == ("auto", None)


@pytest.mark.parametrize("ranker", [rw.RankSVM(), rw.RankSVM(normalize="query")], ids=str)
def test_what_it_saves_ranks_when_loaded(ranker: Any, tmp_path: Path) -> None:
    model = rw.AutoRanker([("svm", ranker)]).fit(DATA.X, DATA.y, qid=DATA.qid)
    rw.save(model, tmp_path / "model.rw")
    loaded, scorer = rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")
    for method in ("rank", "decision_function", "predict"):
        expected = getattr(model, method)(DATA.X, DATA.qid)
        np.testing.assert_array_equal(getattr(loaded, method)(DATA.X, qid=DATA.qid), expected)
        np.testing.assert_array_equal(getattr(scorer, method)(DATA.X, qid=DATA.qid), expected)
    assert loaded.score(DATA.X, DATA.y, qid=DATA.qid) == model.score(DATA.X, DATA.y, DATA.qid)


@pytest.mark.parametrize("ranker", [rw.RankSVM(), rw.Regression()], ids=str)
def test_a_loaded_model_encodes_words_as_its_scorer_does(ranker: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "qid": np.repeat(np.arange(8), 5),
            "grade": rng.integers(0, 3, 40),
            "sku": [f"A-{k}" for k in range(40)],
            "color": rng.choice(["red", "blue", "a=b"], 40),
            "price": rng.normal(size=40),
        }
    )
    table.to_csv(tmp_path / "shop.csv", index=False)
    shop = rw.read_items(tmp_path / "shop.csv", docid="sku", one_hot=["color"])
    rw.save(rw.AutoRanker([("one", ranker)]).fit_items(shop), tmp_path / "model.rw")
    loaded, scorer = rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")
    new = table.assign(color=table["color"].replace("blue", "green"))  # a word it does not know
    expected = scorer.decision_function(new)
    assert len(np.unique(expected)) > 8
    for frame in (new, pl.from_pandas(new), pl.from_pandas(new).lazy()):
        np.testing.assert_array_equal(loaded.decision_function(frame), expected)
    places = scorer.rank(new, table["qid"])
    np.testing.assert_array_equal(loaded.rank(new, qid=table["qid"]), places)
