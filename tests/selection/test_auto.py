"""AutoRanker: cross-fitted candidates, combined by how they rank queries they have not seen."""

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
from rankwright.data import make_shop
from rankwright.exceptions import (
    ConvergenceWarning,
    DataError,
    MissingQueryWarning,
    ParameterError,
)
from rankwright.selection.candidates import CandidateResult, CandidateResults, default_candidates
from rankwright.testing.inputs import make_problem

LINEAR = [("PRank", rw.PRank()), ("RidgeRanker", rw.RidgeRanker())]
FEW_ROUNDS = [
    ("svm", rw.RankSVM()),
    ("boost", rw.RankBoost(n_estimators=30, early_stopping=3)),
    ("mart", rw.LambdaMART(n_estimators=8, min_samples_leaf=2, subsample=0.5, early_stopping=3)),
    ("net", rw.RankNet(max_iter=3)),
    ("online", rw.BayesianPRank()),
    ("kernel", rw.KeepRank(n_components=8)),
]


def items(seed: int = 0, n_queries: int = 10) -> rw.Items:
    problem = make_problem(seed=seed, n_queries=n_queries, noise=1.0)
    return rw.Items(problem.X, problem.y, qid=problem.qid)


DATA, VALID = items(), items(1)


def fit(model: Any, data: rw.Items = DATA, **more: Any) -> Any:
    return model.fit(data.X, data.y, qid=data.qid, **more)


@parametrize_with_checks([rw.AutoRanker([("ranker", rw.RidgeRanker())])])
def test_it_is_an_estimator_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_every_query_is_scored_by_a_model_that_has_not_seen_it() -> None:
    model = fit(rw.AutoRanker(LINEAR))
    rows, result = model.held_out_rows_, model.results_[0]
    assert sorted(rows) == list(range(len(DATA)))
    ordered = DATA.take(rows)
    matched = np.zeros(len(rows), int)
    for one, scale in zip(result.models, result.scales, strict=True):
        matched += np.isclose(result.held_out, one.decision_function(ordered.X) / scale)
    assert (matched >= 1).all()
    refit = np.zeros(len(rows), bool)
    for one, scale in zip(result.models, result.scales, strict=True):
        own = np.isclose(result.held_out, one.decision_function(ordered.X) / scale)
        unseen = np.isin(ordered.qid, np.unique(ordered.qid[own]))
        rest = ordered.take(np.flatnonzero(~unseen))
        if (own == unseen).all():  # exactly the queries of this fold: the model knows the others
            twin = rw.PRank().fit(rest.X, rest.y, qid=rest.qid)
            refit |= unseen & np.isclose(twin.decision_function(ordered.X) / scale, result.held_out)
    assert refit.mean() > 0.5


def test_the_ensemble_is_the_weighted_sum_of_the_bags() -> None:
    model = fit(rw.AutoRanker(LINEAR))
    expected = np.zeros(len(VALID))
    for result in model.results_[:-1]:
        parts = [
            one.decision_function(VALID.X) / scale
            for one, scale in zip(result.models, result.scales, strict=True)
        ]
        expected += model.weights_.get(result.name, 0.0) * np.mean(parts, axis=0)
    assert isinstance(model.best_estimator_, rw.RankEnsemble)
    np.testing.assert_allclose(model.decision_function(VALID.X), expected, rtol=1e-12)
    assert sum(model.weights_.values()) == pytest.approx(1.0)
    assert model.results_[-1].name == "ensemble"
    assert "ms to score 100 rows" in model.summary()
    assert "<table>" in model.results_._repr_html_()


def test_order_of_rows_names_of_queries_and_threads_change_no_bit(model_bytes: Any) -> None:
    def fitted(data: rw.Items, **options: Any) -> bytes:
        return model_bytes(fit(rw.AutoRanker(FEW_ROUNDS, **options), data))

    expected, rng = fitted(DATA), np.random.default_rng(0)
    shuffled = DATA.take(rng.permutation(len(DATA)))
    by_query = DATA.take(np.argsort(-np.asarray(DATA.qid), kind="stable"))
    renamed = rw.Items(shuffled.X, shuffled.y, qid=[f"q{97 * k % 31}" for k in shuffled.qid])
    for data in (shuffled, by_query, renamed):
        assert fitted(data) == expected
    assert fitted(DATA, n_jobs=2) == expected
    with_seed = fitted(DATA, random_state=1)
    assert with_seed != expected


def test_one_model_is_kept_by_its_mean_and_fitted_to_all_queries() -> None:
    model = fit(rw.AutoRanker(LINEAR, measure="AP", combine=False))
    means = {result.name: result.scores["AP"] for result in model.results_}
    assert model.best_name_ == max(means, key=lambda name: means[name])
    expected = clone(dict(LINEAR)[model.best_name_]).fit(DATA.X, DATA.y, qid=DATA.qid)
    ours, theirs = (one.decision_function(VALID.X) for one in (model, expected))
    np.testing.assert_array_equal(ours, theirs)
    loss = fit(rw.AutoRanker(LINEAR, measure=["Disagreement", "AP"], combine=False))
    means = {result.name: result.scores["Disagreement"] for result in loss.results_}
    assert loss.best_name_ == min(means, key=lambda name: means[name])


def result(name: str, goodness: Any) -> CandidateResult:
    """A candidate whose Precision@1 of query q is goodness[q], 0 or 1."""
    y = np.tile([1.0, 0.0], len(goodness))
    scores = np.where(np.repeat(goodness, 2) == 1, y, 1 - y)
    found = rw.evaluate(scores, y, np.repeat(np.arange(len(goodness)), 2), ["P@1"])
    return CandidateResult(name, None, scores=found, held_out=scores)


def test_the_simplest_is_the_first_within_one_standard_error() -> None:
    far = result("worst", [0] * 10 + [1] * 8 + [0] * 2)
    near = result("linear", [0] * 2 + [1] * 18)  # two worse, one better: a lead of .05 +- .09
    best = result("trees", [1] * 19 + [0])
    results = CandidateResults([far, near, best])
    assert (results.best, results.simplest) == (best, near)
    assert CandidateResults([far, best]).simplest is best


def test_with_an_eval_set_folds_are_trained_and_the_eval_set_decides() -> None:
    given = {"eval_set": (VALID.X, VALID.y), "eval_qid": VALID.qid}
    model = fit(rw.AutoRanker(FEW_ROUNDS[:3]), **given)
    assert model.held_out_rows_ is None
    assert all(len(one.models) == 5 for one in model.results_[:-1])
    assert all(len(one.held_out) == len(VALID) for one in model.results_)
    one = model.results_[0].models[0]
    assert one.named_steps["scale"].n_samples_seen_ < len(DATA)  # of folds, and of no eval_set
    with pytest.raises(ParameterError, match="eval_qid"):
        fit(rw.AutoRanker(LINEAR), eval_qid=VALID.qid)


def test_an_eval_set_without_query_ids_is_warned_of_once() -> None:
    trees = [("a", rw.LambdaMART(n_estimators=2)), ("b", rw.RankBoost(n_estimators=2))]
    with pytest.warns(MissingQueryWarning) as caught:
        fit(rw.AutoRanker(trees), eval_set=[(VALID.X, VALID.y)])
    assert len(caught) == 1


def test_without_relevant_items_ap_is_not_a_default_measure() -> None:
    model = rw.AutoRanker(LINEAR).fit(DATA.X, DATA.y - 9, qid=DATA.qid)
    assert [str(one) for one in model.results_.comparison.measures] == ["Disagreement"]


@pytest.mark.parametrize("eval_set", [False, True])
def test_a_number_of_rounds_is_obeyed(eval_set: bool) -> None:
    boost = rw.RankBoost(n_estimators=7, random_state=0)
    valid = {"eval_set": (VALID.X, VALID.y), "eval_qid": VALID.qid} if eval_set else {}
    model = fit(rw.AutoRanker([("boost", boost)]), **valid)
    assert all(len(one.alpha_) == 7 for one in model.best_estimator_.members_)
    single = fit(rw.AutoRanker([("boost", boost)], combine=False), **valid)
    assert single.best_estimator_.get_params() == boost.get_params()


def test_all_folds_keep_the_rounds_that_the_mean_curve_chooses() -> None:
    model = fit(rw.AutoRanker(FEW_ROUNDS[1:3]))
    for one in model.results_[:-1]:
        assert one.n_iterations <= one.estimator.n_estimators
        for fitted in one.models:
            assert len(fitted.alpha_) == fitted.n_estimators == one.n_iterations
            assert fitted.early_stopping is None
        assert len(one.curve) >= one.n_iterations


def test_rankers_that_need_one_scale_get_it() -> None:
    candidates = [
        ("svm", rw.RankSVM()),
        ("ordinal", rw.LargeMarginOrdinal()),
        ("prank", rw.PRank()),
    ]
    svm, ordinal, prank = (one.estimator for one in fit(rw.AutoRanker(candidates)).results_[:-1])
    assert isinstance(svm[0], StandardScaler)
    assert isinstance(ordinal[0], StandardScaler)
    assert isinstance(prank, rw.PRank)
    sparse = rw.AutoRanker(candidates[:1]).fit(csr_array(DATA.X), DATA.y, qid=DATA.qid)
    assert isinstance(sparse.results_[0].estimator[0], MaxAbsScaler)


def test_a_ranker_that_scales_within_queries_is_kept_but_not_summed(tmp_path: Path) -> None:
    by_query = ("by query", rw.RankSVM(normalize="query"))
    mixed = fit(rw.AutoRanker([("svm", rw.RankSVM()), by_query]))
    assert list(mixed.weights_) == ["svm"]
    assert "within a query" in mixed.dropped_["by query"]
    alone = fit(rw.AutoRanker([by_query]))
    assert isinstance(alone.best_estimator_, rw.RankSVM)
    rw.save(alone, tmp_path / "model.rw")
    loaded, scorer = rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")
    expected = alone.decision_function(DATA.X, DATA.qid)
    for one in (loaded, scorer):
        np.testing.assert_array_equal(one.decision_function(DATA.X, qid=DATA.qid), expected)


def test_missing_values_leave_out_candidates_that_cannot_handle_them() -> None:
    X = DATA.X.copy()
    X[3, 1] = np.nan
    filled = make_pipeline(SimpleImputer(), rw.RidgeRanker())
    candidates = [*LINEAR, ("boost", rw.RankBoost(n_estimators=3)), ("filled", filled)]
    model = rw.AutoRanker(candidates).fit(X, DATA.y, qid=DATA.qid)
    assert [one.name for one in model.results_] == ["boost", "filled", "ensemble"]
    with pytest.raises(DataError, match="PRank, RidgeRanker: X has missing values"):
        rw.AutoRanker(LINEAR).fit(X, DATA.y, qid=DATA.qid)


def test_very_wide_sparse_rows_are_not_boosted() -> None:
    X = csr_array(
        (DATA.X[:, 0], (np.arange(len(DATA)), np.arange(len(DATA)) % 7)), (len(DATA), 2001)
    )
    model = rw.AutoRanker(quality=2).fit(X, DATA.y, qid=DATA.qid)
    assert [one.name for one in model.results_] == ["RankSVM"]
    assert "2,001 columns" in model.dropped_["boosted rankers"]


@pytest.mark.parametrize("n_queries", [1, 2, 3])
def test_few_queries_still_give_a_model(n_queries: int) -> None:
    few = DATA.take(np.flatnonzero(np.asarray(DATA.qid) < n_queries))
    model = fit(rw.AutoRanker(LINEAR), few)
    assert np.isfinite(model.decision_function(few.X)).all()
    assert len(model.results_[0].models) == (n_queries if n_queries > 1 else 0)
    without_qid = rw.AutoRanker(LINEAR).fit(DATA.X[:40], DATA.y[:40])
    assert len(without_qid.results_[0].models) == 5  # a single list is divided by rows


def test_queries_without_an_order_are_divided_among_the_folds() -> None:
    y = np.where(np.asarray(DATA.qid) < 7, 0, DATA.y)  # three queries have an order
    model = rw.AutoRanker(LINEAR).fit(DATA.X, y, qid=DATA.qid)
    assert len(model.results_[0].models) == 3
    assert np.isfinite([one.scores["NDCG@10"] for one in model.results_]).all()


def test_weights_of_rows_are_passed_on() -> None:
    weight = np.where(np.arange(len(DATA)) % 2, 1.0, 0.5)
    mart = [("mart", rw.LambdaMART(n_estimators=3))]
    plain, weighted = (fit(rw.AutoRanker(mart), sample_weight=w) for w in (None, weight))
    ours, theirs = (one.decision_function(VALID.X) for one in (plain, weighted))
    assert not np.array_equal(ours, theirs)
    some = fit(rw.AutoRanker(FEW_ROUNDS[:4] + FEW_ROUNDS[5:]), sample_weight=weight)
    assert some.dropped_ == {"kernel": "it takes no sample_weight"}


@pytest.mark.parametrize("quality", [1, 2, 3, 4, 5])
def test_more_quality_tries_what_less_tries_and_more(quality: int) -> None:
    measure = rw.Measure.parse("NDCG@10")
    names = [
        {name for name, _ in default_candidates(measure, q, (5000, 10), sparse=False)}
        for q in range(1, 6)
    ]
    assert quality == 1 or len(names[quality - 1]) > len(names[quality - 2]) - (quality == 2)
    assert quality < 3 or names[quality - 1] >= names[quality - 2]


def test_default_candidates_have_the_pair_weights_of_the_measure() -> None:
    for measure, weighting in (("NDCG@10", "NDCG@30"), ("AP", "AP"), ("Disagreement", None)):
        shape = (5000, 10)
        models = dict(default_candidates(rw.Measure.parse(measure), 2, shape, sparse=False))
        weights = {one.weighting for one in models.values() if isinstance(one, rw.LambdaMART)}
        assert weights == {weighting, "auto"}


def test_quality_1_fits_one_default_without_evaluation() -> None:
    model = fit(rw.AutoRanker(quality=1))
    assert (model.best_name_, model.results_[0].scores) == ("RankSVM", None)
    assert isinstance(model.best_estimator_, Pipeline)
    assert "quality=1" in model.summary()
    assert repr(model.results_) == "no query was held out"
    sparse = rw.AutoRanker(quality=1).fit(csr_array(DATA.X), DATA.y, qid=DATA.qid)
    assert isinstance(sparse.best_estimator_[0], MaxAbsScaler)


def test_a_target_and_a_time_to_score_leave_candidates_out(tmp_path: Path) -> None:
    model = fit(rw.AutoRanker(FEW_ROUNDS, deploy_to="lightgbm"))
    assert {"net", "kernel"} <= set(model.dropped_)
    assert rw.export(model, tmp_path / "model.txt", to="lightgbm").pairs_reversed == 0
    trees = fit(rw.AutoRanker(FEW_ROUNDS, deploy_to="elasticsearch"))
    assert set(trees.weights_) <= {"boost", "mart"}
    rw.export(trees, tmp_path / "model.json", to="elasticsearch")
    one = fit(rw.AutoRanker(FEW_ROUNDS, deploy_to="elasticsearch", combine=False))
    assert {result.name for result in one.results_} == {"svm", "boost", "mart", "online"}
    with pytest.raises(ParameterError, match="holds none of the candidates"):
        fit(rw.AutoRanker(FEW_ROUNDS[3:4], deploy_to="lightgbm"))
    with pytest.raises(ParameterError, match="elasticsearch"):
        fit(rw.AutoRanker(LINEAR, deploy_to="elastic"))
    with pytest.warns(ConvergenceWarning, match="ms for 100 rows"):
        quick = fit(rw.AutoRanker(LINEAR, max_score_ms=1e-6))
    assert len(quick.weights_) == 1
    assert "scoring took" in next(iter(quick.dropped_.values()))


def test_data_frames_keep_their_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(DATA.X, columns=[f"f{k}" for k in range(DATA.n_features)])
    model = rw.AutoRanker(LINEAR).fit(frame, DATA.y, qid=DATA.qid)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    rw.save(model, tmp_path / "model.rw")
    assert rw.load(tmp_path / "model.rw").feature_names_in_.tolist() == list(frame.columns)


def test_what_it_saves_ranks_when_loaded(tmp_path: Path) -> None:
    model = fit(rw.AutoRanker(FEW_ROUNDS))
    rw.save(model, tmp_path / "model.rw")
    loaded, scorer = rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")
    for method in ("rank", "decision_function", "predict"):
        expected = getattr(model, method)(DATA.X, DATA.qid)
        np.testing.assert_array_equal(getattr(loaded, method)(DATA.X, qid=DATA.qid), expected)
        np.testing.assert_array_equal(getattr(scorer, method)(DATA.X, qid=DATA.qid), expected)
    assert loaded.score(DATA.X, DATA.y, qid=DATA.qid) == model.score(DATA.X, DATA.y, DATA.qid)


def test_a_number_of_rounds_to_wait_stops_by_the_measure_that_decides() -> None:
    boost = rw.RankBoost(n_estimators=80, early_stopping=3)
    net = rw.RankNet(max_iter=3)
    model = fit(rw.AutoRanker([("boost", boost), ("net", net)], measure="AP"))
    boosted, trained, _ = model.results_
    assert boosted.estimator.early_stopping.measure == "AP"
    assert boosted.n_iterations < 80
    assert (trained.estimator.early_stopping, trained.n_iterations) == ("auto", None)


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.UnknownLevelWarning")
@pytest.mark.parametrize("ranker", [rw.RankSVM(), rw.RidgeRanker()], ids=str)
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


def test_quality_1_fits_trees_that_stop_by_queries_of_their_own() -> None:
    data = rw.data.make_queries(160, random_state=0).items
    model = rw.AutoRanker(quality=1).fit(data.X, data.y, qid=data.qid)
    assert isinstance(model.best_estimator_, rw.LambdaMART)
    assert model.best_estimator_.validation_ is not None
    assert "held out to stop by" in model.summary()
    few = data.take(np.arange(200))
    model = rw.AutoRanker(quality=1).fit(few.X, few.y, qid=few.qid)
    assert model.best_name_ == "RankSVM"


def test_trees_get_the_levels_of_categories(tmp_path: Path, capsys: Any) -> None:
    shop = make_shop(60, random_state=0)
    shop.write(tmp_path / "shop.csv")
    items = rw.read_items(tmp_path / "shop.csv", kinds={"orders_after": "drop"})
    model = rw.AutoRanker(quality=2, verbose=1).fit(items.X, items.y, qid=items.qid)
    assert "trees take columns of 0 and 1 as categories, of 8, " in capsys.readouterr().err
    members = dict(model.best_estimator_._fitted_members())
    by_level = [one for name, one in members.items() if name.startswith("LambdaMART")]
    named = [[items.feature_names[i] for i in one[0].categories_[0]] for one in by_level]
    assert by_level
    assert {pair[0].partition("=")[0] for pair in named} == {"category"}
    terms = [type(term).__name__ for term in model.best_estimator_._fitted_scorer().merged.terms]
    assert terms.count("Mapped") == 1  # all trees of levels are one list
    wanted = model.decision_function(items.X)
    rw.save(model, tmp_path / "model.rw")
    for read in (rw.load, rw.load_scorer):
        found = read(tmp_path / "model.rw").decision_function(items.X)
        np.testing.assert_array_equal(found, wanted)
    certificate = rw.export(model, tmp_path / "model.onnx", to="onnx", check=items.X)
    assert certificate.status == "exact"
    assert " trees; " in model.summary()


def test_columns_stay_columns_for_a_target_that_would_repeat_levels() -> None:
    X = np.column_stack([np.eye(6)[np.arange(120) % 6], np.arange(120) % 7])
    y, qid = np.arange(120) % 3, np.arange(120) // 10
    for target, is_pipeline in ((None, True), ("onnx", True), ("sql", False)):
        model = rw.AutoRanker(quality=2, deploy_to=target).fit(X, y, qid=qid)
        tried = dict(model.estimators_)
        assert isinstance(tried["LambdaMART"], rw.RankPipeline) == is_pipeline
