"""RankBoost on an engine: the bytes of the local fit, which does not depend on the row order."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")


@pytest.fixture
def many(monkeypatch):
    """Take the path of many values for few."""
    monkeypatch.setattr("rankwright.rankers.boosting.weak_learners.splitting.FEW_ENTRIES", 0)


def shuffled(judged, seed):
    order = np.random.default_rng(seed).permutation(len(judged.y))
    return judged.X[order], judged.y[order], judged.qid[order]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"max_bins": 8, "cumulative": True, "default": 1},
        {"cumulative": False, "colsample_bytree": 0.5, "random_state": 1, "learning_rate": 0.5},
    ],
)
def test_equal_bytes_for_threads_and_shuffled_rows(parameters, judged, many, model_bytes):
    X, y, qid = judged.X, judged.y, judged.qid
    local = model_bytes(rw.RankBoost(n_estimators=8, **parameters).fit(X, y, qid=qid))
    for threads in (1, 2, 5):
        X, y, qid = shuffled(judged, threads)
        model = rw.RankBoost(n_estimators=8, **parameters)
        assert model_bytes(model.fit(X, y, qid=qid)) == local
        with rw.engine(f"local:{threads}"):
            assert model_bytes(model.fit(X, y, qid=qid)) == local


def test_equal_bytes_on_dask_with_weights_and_an_eval_set(judged, many, model_bytes, client):
    rows = {"qid": judged.qid, "sample_weight": 1.0 + (judged.y > 2)}
    rows |= {"eval_set": (judged.X[:200], judged.y[:200]), "eval_qid": judged.qid[:200]}
    local = rw.RankBoost(n_estimators=6, early_stopping=2).fit(judged.X, judged.y, **rows)
    with rw.engine(client):
        model = rw.RankBoost(n_estimators=6, early_stopping=2).fit(judged.X, judged.y, **rows)
    assert model_bytes(model) == model_bytes(local)


def test_few_values_are_fitted_in_one_place(judged, model_bytes):
    model = rw.RankBoost(n_estimators=5, criterion="z")
    qid = np.array([f"q{i}" for i in judged.qid])
    local = model_bytes(model.fit(judged.X, judged.y, qid=qid))
    with rw.engine("local:2"):
        assert model_bytes(model.fit(judged.X, judged.y, qid=qid)) == local


def test_what_cannot_be_obeyed_is_refused_by_name(judged, many):
    X, y, qid = judged.X, judged.y, judged.qid
    refused = {"criterion": "z", "weighting": "NDCG", "max_bins": None, "default": 0.5}
    for name, value in refused.items():
        with rw.engine("local:2"), pytest.raises(ParameterError, match=name):
            rw.RankBoost(**{name: value}).fit(X, y, qid=qid)
    with rw.engine("local:2"), pytest.raises(ParameterError, match="integer weights"):
        rw.RankBoost().fit(X, y, qid=qid, sample_weight=np.full(len(y), 0.5))
