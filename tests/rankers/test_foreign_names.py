"""Names of LightGBM, XGBoost and CatBoost: some exist, and an error says what the others are."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.datasets.synthetic import make_queries
from rankwright.exceptions import (
    DegenerateDataWarning,
    ParameterError,
    UnknownParameterError,
)
from rankwright.rankers import EarlyStopping
from rankwright.rankers.foreign_names import ADVICE, OURS
from rankwright.scoring.trees import Trees


@pytest.fixture(scope="module")
def items():
    return make_queries(30, docs_per_query=20, n_features=4, random_state=0)


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_name_of_another_library_is_explained(name):
    with pytest.raises(UnknownParameterError, match=OURS[name]) as caught:
        rw.LambdaMART(**{name: 1})
    assert caught.value.parameter == name
    assert isinstance(caught.value, TypeError)
    assert OURS[name] in rw.LambdaMART().get_params()


@pytest.mark.parametrize("name", ["group", "position", "feature_name", "eval_metric", "init_model"])
def test_an_argument_of_fit_of_another_library_is_explained(name, items):
    with pytest.raises(UnknownParameterError) as caught:
        rw.LambdaMART().fit(items.X, items.y, qid=items.qid, **{name: [20] * 30})
    assert caught.value.fix == ADVICE[name]


def test_max_depth_bounds_the_splits_above_a_leaf(items):
    small = {"tree": "leafwise", "n_estimators": 5, "min_samples_leaf": 1}
    deep = rw.LambdaMART(**small).fit(items.X, items.y, qid=items.qid)
    flat = rw.LambdaMART(**small, max_depth=2)
    flat.fit(items.X, items.y, qid=items.qid)
    assert depth(flat._scorer()) == 2 < depth(deep._scorer())
    same = rw.LambdaMART(**small, max_depth=100)
    same.fit(items.X, items.y, qid=items.qid)
    np.testing.assert_array_equal(same.decision_function(items.X), deep.decision_function(items.X))


def depth(trees: Trees) -> int:
    level = np.zeros(len(trees.feature), int)
    for node in range(len(level)):  # children come after their parent
        if trees.feature[node] >= 0:
            level[[trees.low[node], trees.high[node]]] = level[node] + 1
    return int(level.max())


def test_splits_have_at_least_the_gain_that_is_asked_for(items):
    trees = {"tree": "leafwise", "n_estimators": 3}
    every = rw.LambdaMART(**trees).fit(items.X, items.y, qid=items.qid)
    gains = every.node_gain_[every.node_feature_ >= 0]
    least = float(np.median(gains))
    some = rw.LambdaMART(**trees, min_split_gain=least)
    some.fit(items.X, items.y, qid=items.qid)
    kept = some.node_gain_[some.node_feature_ >= 0]
    assert 0 < len(kept) < len(gains)
    assert kept.min() >= least


def test_a_level_of_a_symmetric_tree_has_at_least_the_gain_that_is_asked_for(items):
    every = rw.LambdaMART(n_estimators=1).fit(items.X, items.y, qid=items.qid)
    first = every.node_gain_[0]
    one = rw.LambdaMART(n_estimators=1, min_split_gain=first).fit(items.X, items.y, qid=items.qid)
    none = rw.LambdaMART(n_estimators=1, min_split_gain=1.01 * first)
    with pytest.warns(DegenerateDataWarning):
        none.fit(items.X, items.y, qid=items.qid)
    assert one.node_gain_[0] == first
    assert none.best_iteration_ == 0


def test_label_gains_of_two_to_the_grade_are_the_default(items):
    gains = [2.0**grade - 1 for grade in range(int(items.y.max()) + 1)]
    default = rw.LambdaMART(n_estimators=5, weighting="NDCG@30")
    default.fit(items.X, items.y, qid=items.qid)
    given = rw.LambdaMART(n_estimators=5, label_gain=gains).fit(items.X, items.y, qid=items.qid)
    linear = rw.LambdaMART(n_estimators=5, label_gain=range(len(gains)))
    linear.fit(items.X, items.y, qid=items.qid)
    expected = default.decision_function(items.X)
    np.testing.assert_array_equal(given.decision_function(items.X), expected)
    assert not np.array_equal(linear.decision_function(items.X), expected)


def test_a_function_stops_training_as_the_measure_does(items, tmp_path):
    def ndcg(scores, y, qid):
        return float(rw.evaluate(scores, y, qid, ["NDCG@10"])["NDCG@10"])

    fitted = []
    for measure in ("NDCG@10", ndcg):
        stopping = EarlyStopping(measure=measure, n_iter_no_change=5)
        model = rw.LambdaMART(n_estimators=40, early_stopping=stopping, min_samples_leaf=2)
        fitted.append(model.fit(items.X, items.y, qid=items.qid))
    np.testing.assert_array_equal(fitted[0].validation_, fitted[1].validation_)
    assert fitted[0].best_iteration_ == fitted[1].best_iteration_
    rw.save(fitted[1], tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    assert loaded.early_stopping is None
    np.testing.assert_array_equal(
        loaded.decision_function(items.X), fitted[1].decision_function(items.X)
    )


def test_a_function_that_measures_nothing_is_refused(items):
    stopping = EarlyStopping(measure=lambda scores, y, qid: float("nan"))
    with pytest.raises(ParameterError) as caught:
        rw.LambdaMART(early_stopping=stopping).fit(items.X, items.y, qid=items.qid)
    assert caught.value.parameter == "measure"


def test_a_category_without_any_value_is_no_information():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(200, 2)), rng.integers(0, 3, 200), np.repeat(np.arange(20), 10)
    empty = np.column_stack([X, np.full(200, np.nan)])
    plain = rw.LambdaMART(n_estimators=3).fit(X, y, qid=qid)
    model = rw.LambdaMART(n_estimators=3, categorical_features=[2]).fit(empty, y, qid=qid)
    np.testing.assert_array_equal(model.decision_function(empty), plain.decision_function(X))


def test_categories_of_a_data_frame_are_taken_with_and_without_an_encoder():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"price": [1.0, 2, 3, 4], "color": pd.Categorical(list("aabb"))})
    ranker = rw.LambdaMART(categorical_features=["color"], n_estimators=2, min_samples_leaf=1)
    alone = ranker.fit(frame, [0, 1, 0, 1]).decision_function(frame)
    encoder = rw.features.TableEncoder(kinds={"color": "codes"})
    ranker.set_params(categorical_features=[1])
    model = rw.RankPipeline([("encode", encoder), ("rank", ranker)]).fit(frame, [0, 1, 0, 1])
    assert (model.decision_function(frame) == alone).all()
    assert model.rank(frame)[[1, 3]].max() < model.rank(frame)[[0, 2]].max()
