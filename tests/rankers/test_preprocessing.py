"""Scaling by query, written out; alone, in a pipeline and in a search. The polynomial map."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwright as rw
from rankwright.data.datasets.synthetic import make_ordinal
from rankwright.testing.inputs import make_problem

RULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "minmax": lambda x: (x - x.min()) / (x.max() - x.min()) if np.ptp(x) else x * 0,
    "standard": lambda x: (x - x.mean()) / x.std() if np.ptp(x) else x * 0,
    "max": lambda x: x / np.abs(x).max() if np.abs(x).max() else x * 0,
}


@pytest.mark.parametrize("method", RULES)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 2)), min_size=1, max_size=12))
def test_each_query_is_scaled_by_itself(method: str, rows: list[tuple[int, int]]) -> None:
    x, qid = np.array(rows, dtype=float).T
    found = rw.QueryNormalizer(method=method).fit_transform(x[:, None], qid=qid)[:, 0]
    for query in np.unique(qid):
        wanted = RULES[method](x[qid == query])
        np.testing.assert_allclose(found[qid == query], wanted, atol=1e-12)


def test_an_abstention_stays_one_and_is_not_counted() -> None:
    X = [[1.0], [np.nan], [3.0], [np.nan]]
    scaled = rw.QueryNormalizer().fit_transform(X, qid=[0, 0, 0, 1])
    np.testing.assert_array_equal(scaled, [[0.0], [np.nan], [1.0], [np.nan]])


def test_the_letor_release_of_ohsumed_is_scaled_by_this_rule(
    real_data: Callable[..., object],
) -> None:
    raw = rw.read_letor(real_data("letor3-ohsumed/Feature-min/ALL/OHSUMED.txt.gz"))
    ours = rw.QueryNormalizer().fit_transform(raw.X, qid=raw.qid)
    theirs = rw.read_letor(real_data("letor3-ohsumed/QueryLevelNorm/Fold1/train.txt.gz"))
    place = {key: row for row, key in enumerate(zip(raw.qid, raw.docid, strict=True))}
    rows = [place[key] for key in zip(theirs.qid, theirs.docid, strict=True)]
    np.testing.assert_allclose(ours[rows], theirs.X, atol=2e-6)


def test_queries_reach_it_inside_a_pipeline_and_a_search() -> None:
    problem = make_problem()
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(rw.QueryNormalizer(), rw.RidgeRanker())
        folds = GroupKFold(3).set_split_request(groups="qid")
        grid = {"querynormalizer__method": ["minmax", "standard"], "ridgeranker__alpha": [0.0, 1.0]}
        search = GridSearchCV(pipeline, grid, cv=folds, error_score="raise")
        search.fit(problem.X, problem.y, qid=problem.qid)
        found = search.best_estimator_.decision_function(problem.X, qid=problem.qid)
    normalizer, ranker = (clone(step) for _, step in search.best_estimator_.steps)
    scaled = normalizer.fit_transform(problem.X, qid=problem.qid)
    ranker.fit(scaled, problem.y, qid=problem.qid)
    np.testing.assert_allclose(found, ranker.decision_function(scaled), rtol=1e-12)


@parametrize_with_checks(
    [rw.QueryNormalizer()],
    expected_failed_checks=lambda _: {
        "check_methods_subset_invariance": "a row is scaled by the other rows of its query"
    },
)
def test_query_normalizer_keeps_the_contract_of_a_transformer(
    estimator: object, check: Callable[[object], None]
) -> None:
    check(estimator)


@parametrize_with_checks([rw.rankers.PolynomialMap()])
def test_polynomial_map_keeps_the_contract_of_a_transformer(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks([rw.rankers.OneHotDecoder()])
def test_one_hot_decoder_keeps_the_contract_of_a_transformer(estimator: Any, check: Any) -> None:
    check(estimator)


def one_hot(numbers: np.ndarray, n: int) -> np.ndarray:
    return (numbers[:, None] == np.arange(1, n + 1)).astype(float)


@pytest.mark.parametrize("sparse", [False, True])
def test_numbers_of_levels_come_back(sparse: bool) -> None:
    rng = np.random.default_rng(1)
    brand, color, price = rng.integers(1, 9, 200), rng.integers(1, 6, 200), rng.normal(size=200)
    flags = rng.integers(0, 2, (200, 2))
    X = np.column_stack([one_hot(brand, 8), price, flags, one_hot(color, 5)])
    given = csr_matrix(X) if sparse else X
    decoder = rw.rankers.OneHotDecoder().fit(given)
    assert decoder.categories_.tolist() == [[0, 8], [11, 16]]
    decoded = np.column_stack([price, flags, brand, color])
    np.testing.assert_array_equal(decoder.transform(given), decoded)
    X[0, 0:8], X[1, 0:8] = 0, 1  # no level, and several
    np.testing.assert_array_equal(decoder.transform(X)[:2, 3], [0, 1])


def test_columns_that_are_no_levels_stay() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([one_hot(rng.integers(0, 6, 90), 5), rng.normal(size=90)])  # rows without 1
    decoder = rw.rankers.OneHotDecoder().fit(X)
    assert decoder.categories_.shape == (0, 2)
    np.testing.assert_array_equal(decoder.transform(X), X)
    few = one_hot(rng.integers(1, 5, 90), 4)
    assert len(rw.rankers.OneHotDecoder().fit(few).categories_) == 0
    assert len(rw.rankers.OneHotDecoder(min_levels=4).fit(few).categories_) == 1


@pytest.mark.parametrize(
    ("categories", "words"),
    [([(0, 9)], "X has 3 columns"), ([(2, 1)], "ascending order"), ("all", "a list of pairs")],
)
def test_wrong_columns_of_categories_are_refused(categories: Any, words: str) -> None:
    with pytest.raises(rw.RankwrightError, match=words):
        rw.rankers.OneHotDecoder(categories=categories).fit(np.eye(3))


def test_trees_behind_a_decoder_are_trees_of_categories(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    brand, price, qid = rng.integers(1, 41, 900), rng.normal(size=900), np.repeat(range(45), 20)
    effect = rng.normal(size=41)
    y = np.digitize(effect[brand] + price, [-0.5, 0.5, 1.5])
    columns = np.column_stack([price, one_hot(brand, 40)])
    trees = rw.LambdaMART(n_estimators=20, categorical_features=[1])
    model = rw.RankPipeline([("levels", rw.rankers.OneHotDecoder()), ("rank", trees)])
    model.fit(columns, y, qid=qid)
    own = clone(trees).fit(np.column_stack([price, brand]), y, qid=qid)
    wanted = own.decision_function(np.column_stack([price, brand]))
    np.testing.assert_array_equal(model.decision_function(columns), wanted)
    rw.save(model, tmp_path / "model.rw")
    for read in (rw.load, rw.load_scorer):
        found = read(tmp_path / "model.rw").decision_function(columns)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("queries", [False, True])
def test_the_ranker_of_a_pipeline_stops_by_rows_that_pass_the_other_steps(queries: bool) -> None:
    data, other = make_problem(n_queries=30), make_problem(15, seed=1)
    stopping = rw.EarlyStopping(n_iter_no_change=3)
    trees = rw.LambdaMART(n_estimators=60, min_samples_leaf=1, early_stopping=stopping)
    scaler = rw.QueryNormalizer() if queries else StandardScaler()
    model = rw.RankPipeline([("scale", scaler), ("rank", trees)])
    valid = {"eval_set": (other.X, other.y), "eval_qid": other.qid}
    model.fit(data.X, data.y, qid=data.qid, **valid)
    by_query = [{"qid": part.qid} if queries else {} for part in (data, other)]
    X = clone(scaler).fit_transform(data.X, **by_query[0])
    V = clone(scaler).fit(data.X).transform(other.X, **by_query[1])
    alone = clone(trees).fit(X, data.y, qid=data.qid, eval_set=(V, other.y), eval_qid=other.qid)
    assert 0 < len(alone.alpha_) < 60
    np.testing.assert_array_equal(model[-1].validation_, alone.validation_)
    np.testing.assert_array_equal(
        model.decision_function(data.X, data.qid), alone.decision_function(X)
    )


def test_a_pipeline_with_validation_rows_obeys_or_refuses_every_argument() -> None:
    data = make_problem(n_queries=12)
    trees = rw.LambdaMART(n_estimators=5, min_samples_leaf=1)
    model = rw.RankPipeline([("scale", StandardScaler()), ("rank", trees)])
    valid: dict[str, Any] = {"eval_set": (data.X, data.y), "eval_qid": data.qid}
    weight = np.linspace(0.1, 2.0, len(data.y))
    with pytest.raises(Exception, match="sample_weight"):
        model.fit(data.X, data.y, qid=data.qid, sample_weight=weight, **valid)
    with pytest.raises(TypeError, match="bogus"):
        model.fit(data.X, data.y, qid=data.qid, bogus=1, **valid)
    with pytest.raises(rw.ParameterError, match="eval_qid was given without eval_set"):
        model.fit(data.X, data.y, qid=data.qid, eval_qid=data.qid)
    with pytest.raises(rw.ParameterError, match="memory"):
        clone(model).set_params(memory="folder").fit(data.X, data.y, qid=data.qid, **valid)
    with config_context(enable_metadata_routing=True):
        model[0].set_fit_request(sample_weight=False)
        model[-1].set_fit_request(sample_weight=True)
    weighted = model.fit(data.X, data.y, qid=data.qid, sample_weight=weight, **valid)
    X = StandardScaler().fit_transform(data.X)
    alone = clone(trees).fit(X, data.y, qid=data.qid, sample_weight=weight)
    np.testing.assert_array_equal(weighted.decision_function(data.X), alone.decision_function(X))


def test_decoded_columns_have_names() -> None:
    names = ["price", "color=blue", "color=red", "color=(missing)", "sale"]
    frame = pd.DataFrame([[1, 1, 0, 0, 0], [2, 0, 1, 0, 1], [3, 0, 0, 1, 1]], columns=names)
    decoder = rw.rankers.OneHotDecoder(categories=np.array([[1, 4]])).fit(frame)
    assert list(decoder.get_feature_names_out()) == ["price", "sale", "color"]
    assert list(decoder.set_output(transform="pandas").transform(frame)["color"]) == [1, 2, 3]


def test_before_prank_it_is_the_kernel_and_it_can_be_saved(tmp_path: Path) -> None:
    sample = make_ordinal(400, random_state=0)
    pipeline = make_pipeline(rw.rankers.PolynomialMap(degree=2), rw.PRank()).fit(sample.X, sample.y)
    kernel = rw.KernelPRank(kernel="poly", degree=2, gamma=1.0).fit(sample.X, sample.y)
    wanted = kernel.predict(sample.X)
    np.testing.assert_array_equal(pipeline.predict(sample.X), wanted)
    rw.save(pipeline, tmp_path / "model.rw")
    np.testing.assert_array_equal(rw.load(tmp_path / "model.rw").predict(sample.X), wanted)
    np.testing.assert_array_equal(rw.load_scorer(tmp_path / "model.rw").predict(sample.X), wanted)
