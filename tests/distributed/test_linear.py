"""Linear models from shards: equal bytes on every engine, and the local model up to rounding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwright as rw
from rankwright.exceptions import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")

BOUND = 1e-9  # of the largest weight: how far a model may be from that of a local fit
MODELS = {
    "least squares": rw.RidgeRanker(),
    "one intercept": rw.RidgeRanker(center=False, alpha=0.5),
    "no intercept": rw.RidgeRanker(fit_intercept=False, solution="basic"),
    "magnitudes": rw.MPRank(C=10.0),
    "squared hinge": rw.RankSVM(),
    "hinge, ndcg": rw.RankSVM(loss="hinge", weighting="NDCG", tol=1e-2),
}


@pytest.fixture(scope="module")
def rows(judged):
    return np.nan_to_num(judged.X) * [1, 10, 1, 0.1, 1], judged.y, judged.qid


def fresh(name):
    return MODELS[name].__class__(**MODELS[name].get_params())


def assert_near(model, local):
    scale = np.abs(local.coef_).max()
    assert np.abs(model.coef_ - local.coef_).max() <= BOUND * scale
    assert abs(getattr(model, "intercept_", 0.0) - getattr(local, "intercept_", 0.0)) <= BOUND
    for name in ("cost_", "mass_", "kappa_", "objective_"):
        expected = getattr(local, name, None)
        assert expected is None or getattr(model, name) == pytest.approx(expected, rel=BOUND)
    assert model.n_queries_in_ == local.n_queries_in_


@pytest.mark.parametrize("name", MODELS)
def test_equal_bytes_for_threads_and_shuffled_rows(name, rows, model_bytes):
    X, y, qid = rows
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    local, files = fresh(name).fit(X, y, qid=qid, sample_weight=weight), set()
    for threads in (1, 2, 5):
        order = np.random.default_rng(threads).permutation(len(y))
        with rw.engine(f"local:{threads}"):
            model = fresh(name).fit(X[order], y[order], qid=qid[order], sample_weight=weight[order])
        files.add(model_bytes(model))
        assert_near(model, local)
    assert len(files) == 1


@pytest.mark.parametrize("name", ["least squares", "magnitudes", "squared hinge"])
def test_sparse_rows_one_list_and_no_preference(name, rows):
    X, y, _ = rows
    with rw.engine("local:3"):
        assert_near(fresh(name).fit(csr_array(X), y), fresh(name).fit(X, y))
        with pytest.warns(rw.exceptions.DegenerateDataWarning):
            model = fresh(name).fit(X, np.ones(len(y)), qid=np.arange(len(y)) % 7)
    assert np.abs(model.coef_).max() < 1e-12


def test_what_is_no_sum_over_shards_is_refused(rows):
    X, y, qid = rows
    refused = {
        "kernel": [rw.RankSVM(kernel="rbf"), rw.MPRank(kernel="rbf")],
        "loss": [rw.MPRank(loss="absolute")],
        "solver": [rw.MPRank(solver="online")],
        "RankSVM, RidgeRanker": [rw.LargeMarginOrdinal(), rw.RankNet(), rw.SVRank()],
    }
    for text, models in refused.items():
        for model in models:
            with rw.engine("local"), pytest.raises(ParameterError, match=text):
                model.fit(X, y, qid=qid)
