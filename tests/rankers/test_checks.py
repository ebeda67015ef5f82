"""Memory is estimated before it is taken; columns without values cost nothing."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import rankwright as rw
from rankwright.exceptions import DataError, DegenerateDataWarning, FeedbackError, MemoryLimitError
from rankwright.rankers import checks
from rankwright.runtime import available_memory


@pytest.fixture
def quarter_gigabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankwright.runtime.memory.available_memory", lambda: 2.0**28)


@pytest.mark.usefixtures("quarter_gigabyte")
@pytest.mark.parametrize(
    ("ranker", "advice"),
    [
        (rw.MPRankCV(), "solver='nystroem'"),
        (rw.MPRank(kernel="rbf", solver="dual"), "solver='nystroem'"),
        (rw.SVRank(kernel="rbf", n_components=500, gamma=100.0), "Lower n_components"),
        (rw.RankSVM(kernel="rbf"), "Lower n_components"),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused_with_what_is_needed(ranker: Any, advice: str) -> None:
    X = np.random.default_rng(0).normal(size=(30_000, 4))
    with pytest.raises(MemoryLimitError, match=r"takes [\d.]+ GiB of memory; 0.2 GiB are") as e:
        ranker.fit(X, np.arange(len(X)) % 3)
    assert advice in str(e.value)
    assert isinstance(e.value, MemoryError)


@pytest.mark.usefixtures("quarter_gigabyte")
@pytest.mark.parametrize(
    "ranker",
    [rw.RidgeRanker(), rw.PRank(), rw.KeepRank(), rw.LambdaMART(), rw.FRank(), rw.AutoRanker()],
    ids=repr,
)
def test_a_feature_of_number_two_billion_is_refused(ranker: Any) -> None:
    rows, columns = np.arange(60), np.where(np.arange(60) % 2, 2**31 - 2, 0)
    X = sparse.csr_array((np.ones(60), (rows, columns)), shape=(60, 2**31 - 1))
    with pytest.raises(MemoryLimitError, match="columns"):
        ranker.fit(X, rows % 3)


@pytest.mark.parametrize(
    "ranker",
    [
        rw.RidgeRanker(),
        rw.RidgeRanker(alpha=1.0, center=False),
        rw.RidgeRanker(solution="basic"),
        rw.RankSVM(),
        rw.LargeMarginOrdinal(),
        rw.RankNet(max_iter=3, random_state=0),
        rw.RankBoost(n_estimators=5),
        rw.RankBoost(n_estimators=5, estimator=rw.TreeRanking(min_samples_leaf=2)),
        rw.LambdaMART(n_estimators=5, min_samples_leaf=2),
        rw.FRank(n_estimators=5),
        rw.AdaBoostRanker(n_estimators=5),
    ],
    ids=str,
)
def test_columns_without_values_change_nothing(ranker: Any) -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_array(np.where(rng.random((60, 40)) < 0.1, rng.random((60, 40)), 0.0))
    wide = sparse.csr_array((X.data, X.indices * 20_000, X.indptr), shape=(60, 800_000))
    y, qid = rng.integers(0, 3, 60), np.repeat(np.arange(6), 10)
    scores = clone(ranker).fit(X, y, qid=qid).decision_function(X)
    options = {}
    if isinstance(ranker, rw.LambdaMART):  # the rows that decide when to stop are wide, too
        options = {"eval_set": (wide, y), "eval_qid": qid}
    model = clone(ranker).fit(wide, y, qid=qid, **options)
    assert model.n_features_in_ == 800_000
    np.testing.assert_allclose(model.decision_function(wide), scores, atol=1e-10)


def test_a_wide_matrix_is_warned_of_where_every_column_costs_time() -> None:
    X = sparse.csr_array((np.ones(4), np.array([0, 7, 9, 150_000]), np.arange(5)))
    with pytest.warns(DegenerateDataWarning, match="only 4 of 150,001 columns hold a value"):
        rw.RankBoost(n_estimators=1, colsample_bytree=0.5, random_state=0).fit(X, [0, 1, 0, 1])


def test_available_memory_is_a_number() -> None:
    assert available_memory() > 0


def test_the_largest_column_is_named() -> None:
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"clicks": [1.0, 2.0, 3.0], "price": [1e200, 2e200, 1.0]})
    with pytest.raises(DataError, match=r"column 1 \('price'\) holds 2e\+200"):
        rw.RankSVM().fit(X, [0, 1, 2])


def test_weights_that_cannot_be_multiplied_are_refused() -> None:
    with pytest.raises(FeedbackError, match=r"sample_weight\[1\] is 1e-300"):
        rw.RankNet().fit([[0.0], [1.0]], [0, 1], sample_weight=[1.0, 1e-300])
    lambdarank = rw.LambdaMART(weighting="NDCG@30")
    with pytest.raises(FeedbackError, match="counts as w rows"):
        lambdarank.fit([[0.0], [1.0]], [0, 1], sample_weight=[1.0, 1e40])
    with pytest.raises(FeedbackError, match="all have the gain"):
        lambdarank.fit([[0.0], [1.0]], [2.0**53, 2.0**53 + 2])


@pytest.mark.parametrize(
    ("ranker", "advice"),
    [
        (rw.KeepRank(), "n_components"),
        (rw.OnlineKeepRank(), "budget"),
        (rw.KernelPRank(kernel="rbf"), "budget"),
        (rw.VotedPRank(), "max_rules"),
        (rw.VotedPRank(kernel="rbf"), "budget"),
    ],
)
def test_time_that_grows_with_the_square_of_rows_is_announced(
    ranker: Any, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    monkeypatch.setattr(checks, "MANY_ROWS", 60)
    with pytest.warns(rw.exceptions.RankwrightWarning, match=f"square of the .*{advice}"):
        clone(ranker).fit(X, X[:, 0] > 0)
    limited = {"budget": 10, "max_rules": 10}
    own = {name: value for name, value in limited.items() if hasattr(ranker, name)}
    if own:
        clone(ranker).set_params(**own).fit(X, X[:, 0] > 0)


def test_dicts_without_a_column_of_the_model_are_refused_by_its_name() -> None:
    model = rw.RidgeRanker().fit(pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}), [0, 1])
    with pytest.raises(DataError, match="X lacks the column 'b'"):
        model.predict([{"a": 1.0}])


def test_a_fitted_ranker_makes_its_scorer_once_and_again_after_an_attribute_was_assigned() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = rw.LambdaMART(n_estimators=3).fit(X, X[:, 0] > 0)
    before, scorer = model.decision_function(X), model._fitted_scorer()
    assert model._fitted_scorer() is scorer
    with pytest.raises(ValueError, match="read-only"):
        model.node_value_[0] = 7.0
    model.node_value_ = 2.0 * model.node_value_
    np.testing.assert_array_equal(model.decision_function(X), 2.0 * before)
    again = copy.deepcopy(model)
    assert "_made" not in vars(again)
    np.testing.assert_array_equal(again.decision_function(X), 2.0 * before)
    np.testing.assert_array_equal(model.fit(X, X[:, 0] > 0).decision_function(X), before)
