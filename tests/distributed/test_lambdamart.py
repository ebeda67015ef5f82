"""LambdaMART on an engine: the bytes of the local fit, for any workers, partition and row order."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ClusterWarning, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")

PARAMETERS = [
    {},
    {"weighting": None, "loss": "fidelity", "l2_regularization": 0.0},
    {"weighting": "AP", "interaction_cst": "pairwise", "max_bins": 16},
    {"categorical_features": [3], "monotonic_cst": [1, 0, 0, 0, -1], "colsample_bytree": 0.6,
     "random_state": 3},
    {"subsample": 0.5, "colsample_bytree": 0.6, "random_state": 4},
    {"tree": "leafwise", "colsample_bynode": 0.5, "random_state": 5},
    {"loss": "xendcg", "colsample_bynode": 0.5, "random_state": 6},
]  # fmt: skip


def ranker(**parameters):
    return rw.LambdaMART(n_estimators=3, min_samples_leaf=5, max_leaf_nodes=12, **parameters)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_equal_bytes_for_threads_and_shuffled_rows(parameters, judged, model_bytes):
    local = model_bytes(ranker(n_jobs=1, **parameters).fit(judged.X, judged.y, qid=judged.qid))
    for threads in (1, 2, 5):
        order = np.random.default_rng(threads).permutation(len(judged.y))
        X, y, qid = judged.X[order], judged.y[order], judged.qid[order]
        model = ranker(n_jobs=1, **parameters)
        with rw.engine(f"local:{threads}"):
            assert model_bytes(model.fit(X, y, qid=qid)) == local


@pytest.mark.parametrize("parameters", PARAMETERS[2:])
def test_equal_bytes_on_dask(parameters, judged, model_bytes, client):
    local = model_bytes(ranker(**parameters).fit(judged.X, judged.y, qid=judged.qid))
    with rw.engine(client):
        model = ranker(**parameters).fit(judged.X, judged.y, qid=judged.qid)
    assert model_bytes(model) == local


def test_equal_bytes_on_dask_with_weights_and_text_ids(judged, model_bytes, client):
    qid = np.array([f"q{i}" for i in judged.qid])
    rows = {"qid": qid, "sample_weight": 1.0 + (judged.y > 2), "eval_qid": qid[:200]}
    rows |= {"query_weight": judged.qid % 3 + 1, "eval_set": (judged.X[:200], judged.y[:200])}
    local = model_bytes(ranker(early_stopping=2).fit(judged.X, judged.y, **rows))
    with rw.engine(client):
        model = ranker(early_stopping=2).fit(judged.X, judged.y, **rows)
    assert model_bytes(model) == local


def test_one_huge_query_and_sparse_rows(judged, model_bytes):
    from scipy.sparse import csr_array

    X = csr_array(np.nan_to_num(judged.X))
    local = model_bytes(ranker().fit(X, judged.y))
    with rw.engine("local:4"):
        assert model_bytes(ranker().fit(X, judged.y)) == local


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.LongListWarning")
def test_equal_bytes_where_pairs_of_a_long_query_are_sampled(judged, model_bytes, monkeypatch):
    monkeypatch.setattr("rankwright.feedback.pair_losses.LONGEST", 8)
    qid, model = judged.qid // 4, ranker(weighting=None, n_jobs=1)
    local = model_bytes(model.fit(judged.X, judged.y, qid=qid))
    order = np.random.default_rng(0).permutation(len(judged.y))
    with rw.engine("local:2"):
        model.fit(judged.X[order], judged.y[order], qid=qid[order])
    assert model_bytes(model) == local


def test_a_small_fit_on_a_cluster_warns(judged, client):
    with rw.engine(client), pytest.warns(ClusterWarning, match="faster"):
        ranker().fit(judged.X, judged.y, qid=judged.qid)


def test_trees_on_top_of_those_that_are_there(judged, model_bytes):
    rows = {"qid": judged.qid, "eval_set": (judged.X[:200], judged.y[:200])}
    rows["eval_qid"] = judged.qid[:200]
    models = []
    for where in (None, "local:2"):
        model = ranker(warm_start=True, subsample=0.5).set_params(random_state=0)
        with nullcontext() if where is None else rw.engine(where):
            model.fit(judged.X, judged.y, **rows)
            model.set_params(n_estimators=5).fit(judged.X, judged.y, **rows)
            models.append(model_bytes(model.fit_more(1, judged.X, judged.y, **rows)))
    assert models[0] == models[1]
    assert len(model.alpha_) == len(model.validation_) == 6


def test_what_cannot_be_obeyed_is_refused_by_name(judged):
    with rw.engine("local:2"), pytest.raises(ParameterError, match="early_stopping"):
        ranker(early_stopping=True).fit(judged.X, judged.y, qid=judged.qid)
    with rw.engine("local:2"), pytest.raises(ParameterError, match="init_score"):
        ranker().fit(judged.X, judged.y, qid=judged.qid, init_score=judged.y)


def test_rankers_without_shards_are_refused_by_name(judged):
    with rw.engine("local:2"), pytest.raises(ParameterError, match=r"KNN.*LambdaMART"):
        rw.KNN().fit(judged.X, judged.y, qid=judged.qid)
    with rw.engine("local:2"), pytest.raises(ParameterError, match="PRank"):
        rw.PRank().partial_fit(np.nan_to_num(judged.X), judged.y)


@pytest.mark.parametrize("parameters", [{}, {"loss": "squared_hinge"}, {"weighting": "AP"}])
def test_training_ends_with_the_gradient_as_on_one_machine(parameters, model_bytes):
    y = np.repeat([0.0, 1.0, 0.0, 1.0], 10)
    X, qid = y[:, None] + 0.1 * np.arange(40)[:, None] / 40, np.repeat([1, 2], 20)
    model = rw.LambdaMART(n_estimators=2000, learning_rate=1.0, min_samples_leaf=1, **parameters)
    local = model.fit(X, y, qid=qid)
    assert 0 < local.best_iteration_ < 2000
    expected = model_bytes(local)
    with rw.engine("local:2"):
        assert model_bytes(model.fit(X, y, qid=qid)) == expected
