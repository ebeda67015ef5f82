"""Online rankers on an engine: members apart, and beliefs of shards multiplied."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.datasets.synthetic import make_ordinal
from rankwright.exceptions import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")

ENSEMBLES = [
    rw.OAPBPM(n_estimators=7, random_state=0),
    rw.OAPVoting(n_estimators=3, random_state=1, sampling="poisson"),
    rw.OAPBagging(estimator=rw.WidrowHoff(), n_estimators=3, random_state=2),
]


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda one: type(one).__name__)
def test_members_learn_what_they_learn_on_one_machine(ensemble, judged, model_bytes, client):
    X, y, qid = np.nan_to_num(judged.X), judged.y, judged.qid
    local = model_bytes(ensemble.fit(X, y, qid=qid))
    for where in ("local:1", "local:3", client):
        with rw.engine(where):
            assert model_bytes(ensemble.fit(X, y, qid=qid)) == local


def test_members_of_a_kernel_share_a_support(judged):
    model = rw.OAPBPM(estimator=rw.KernelPRank(kernel="rbf"), n_estimators=2)
    with rw.engine("local"), pytest.raises(ParameterError, match="share one support"):
        model.fit(np.nan_to_num(judged.X), judged.y)


@pytest.fixture(scope="module")
def ordinal():
    train, test = make_ordinal(4000, random_state=0), make_ordinal(2000, random_state=1)
    return train, test, np.random.default_rng(0).integers(0, 400, 4000)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_beliefs_of_shards_multiply(covariance, ordinal, model_bytes, client):
    train, test, qid = ordinal
    files = set()
    for where in ("local:1", "local:3", client):
        order = np.random.default_rng(len(files)).permutation(len(qid))
        model = rw.BayesianPRank(degree=2, covariance=covariance)
        with rw.engine(where):
            model.fit(train.X[order], train.y[order], qid=qid[order])
        files.add(model_bytes(model))
    assert len(files) == 1
    assert model.n_seen_ == len(qid)
    stream = rw.BayesianPRank(degree=2, covariance=covariance).fit(train.X, train.y)
    losses = [np.abs(one.predict(test.X) - test.y).mean() for one in (model, stream)]
    # 62 rows a shard: the worst case. What is lost shrinks as shards grow.
    assert losses[0] < {"full": 1.25, "diagonal": 1.5}[covariance] * losses[1]


def test_one_shard_is_the_stream_in_the_order_of_hashes(ordinal):
    """All rows of one query are one shard: its belief is the whole posterior."""
    train, _, _ = ordinal
    with rw.engine("local:2"):
        model = rw.BayesianPRank().fit(train.X, train.y)
    stream = rw.BayesianPRank().fit(train.X, train.y)
    error = np.abs(model.mean_ - stream.mean_).max()
    assert error < 0.1 * np.abs(stream.mean_).max()
    assert np.allclose(model.covariance_, stream.covariance_, rtol=0.2, atol=1e-3)


def test_beliefs_that_do_not_multiply_are_refused(ordinal):
    train, test, qid = ordinal
    for parameters, text in (
        ({"covariance": "low_rank"}, "low rank"),
        ({"shuffle": True}, "shuffle"),
        ({"early_stopping": 2}, "early_stopping"),
    ):
        with rw.engine("local"), pytest.raises(ParameterError, match=text):
            rw.BayesianPRank(**parameters).fit(train.X, train.y, qid=qid)
    with rw.engine("local"), pytest.raises(ParameterError, match="eval_set"):
        rw.BayesianPRank().fit(
            train.X, train.y, qid=qid, eval_set=(test.X, test.y), eval_qid=np.zeros(len(test.y))
        )
