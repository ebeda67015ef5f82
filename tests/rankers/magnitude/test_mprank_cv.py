"""MPRankCV: the whole path, and the model it chooses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import DataError, DegenerateDataWarning
from rankwright.rankers.magnitude import smoothers
from rankwright.rankers.magnitude.leave_out import pairs_out
from rankwright.rankers.magnitude.sample import WeightedRows
from rankwright.rankers.magnitude.smoothers import (
    GramSource,
    Spectrum,
    center_gram,
    gram_source,
    scale_gram,
)


def test_the_path_holds_the_error_of_each_pair_of_values(rows: Any) -> None:
    Cs, gammas = [0.5, 10.0, 300.0], [0.02, 0.5]
    model = rw.MPRankCV(Cs=Cs, gammas=gammas).fit(rows.X, rows.y, **rows.fit_arguments)
    for g, gamma in enumerate(gammas):
        for c, C in enumerate(Cs):
            single = rw.MPRank(C=C, kernel="rbf", gamma=gamma)
            single.fit(rows.X, rows.y, **rows.fit_arguments)
            assert model.path_[g, c] == pytest.approx(single.leave_pair_out(), rel=1e-9)
    assert model.leave_pair_out_ == model.path_.min()


def test_the_model_is_mprank_with_the_values_chosen(rows: Any) -> None:
    model = rw.MPRankCV(gammas=[0.02, 0.5]).fit(rows.X, rows.y, **rows.fit_arguments)
    single = rw.MPRank(C=model.C_, gamma=model.gamma_, kernel="rbf")
    single.fit(rows.X, rows.y, **rows.fit_arguments)
    np.testing.assert_allclose(model.predict(rows.X), single.predict(rows.X), rtol=1e-8)
    assert model.cost_ == pytest.approx(single.cost_, rel=1e-8)


def test_a_small_numerical_rank_is_found_and_loses_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=300)
    sample = WeightedRows.of(
        rw.Grades(y, np.arange(300) % 4, sample_weight=rng.uniform(0.5, 2, 300))
    )
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(-1))[np.ix_(sample.rows, sample.rows)]
    source = gram_source(K.copy(), sample, n_factors=3)
    assert isinstance(source, Spectrum)
    assert source.columns.shape[1] < 150
    model = rw.MPRankCV(Cs=[1.0, 1e3, 1e6], gammas=[0.3]).fit(X, y)
    for place, C in enumerate(model.Cs):
        single = rw.MPRank(C=C, kernel="rbf", gamma=0.3).fit(X, y)
        assert model.path_[0, place] == pytest.approx(single.leave_pair_out(), rel=1e-9)


def test_a_full_rank_takes_cholesky_factors_for_few_values_of_c(twin: Any) -> None:
    rows = twin.rows("one list")
    K, sample = twin.rbf(rows.X, rows.X), WeightedRows.of(rw.Grades(rows.y))
    assert isinstance(gram_source(K.copy(), sample, n_factors=2), GramSource)
    assert isinstance(gram_source(K.copy(), sample, n_factors=50), Spectrum)


@pytest.mark.parametrize("n_queries", [1, 5, 60])
@pytest.mark.parametrize("gamma", [0.01, 1.0])
def test_a_long_path_shares_products_and_loses_nothing(n_queries: int, gamma: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(180, 4))
    weight = rng.choice([0.5, 1.0, 2.0, 3.0], 180)
    sample = WeightedRows.of(
        rw.Grades(X[:, 0] ** 2, np.arange(180) % n_queries, sample_weight=weight)
    )
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))[np.ix_(sample.rows, sample.rows)]
    factors = np.logspace(-6, 3, 50)
    path = pairs_out(gram_source(K.copy(), sample, 50), factors)
    centered = center_gram(scale_gram(K, sample), sample)
    np.testing.assert_allclose(path, pairs_out(GramSource(sample, centered), factors), rtol=1e-9)


@pytest.mark.parametrize("n_values", [5, 20])  # by Cholesky factors, by a spectrum
def test_the_path_has_the_same_bits_for_any_number_of_threads(
    n_values: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(smoothers, "BUFFER", 2**14)  # blocks of a few rows
    monkeypatch.setattr(smoothers, "BLOCK", 8)
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(90, 5)), np.repeat([0, 1, 2], [20, 60, 10])
    model = rw.MPRankCV(Cs=np.logspace(0, 4, n_values), gammas=[0.5])
    paths = []
    for threads in ("1", "3"):
        monkeypatch.setenv("RANKWRIGHT_THREADS", threads)
        paths.append(model.fit(X, X[:, 0], qid=qid).path_)
    np.testing.assert_array_equal(*paths)


def test_a_kernel_that_is_none_is_refused_from_the_c_on_where_it_matters() -> None:
    rng = np.random.default_rng(0)
    K = rng.normal(size=(40, 40))
    K = K + K.T
    y = rng.normal(size=40)
    with pytest.raises(DataError, match="not positive semidefinite"):
        rw.MPRankCV(kernel="precomputed", Cs=np.logspace(-3, 3, 20)).fit(K, y)
    small = rw.MPRankCV(kernel="precomputed", Cs=np.logspace(-4, -2, 20)).fit(K, y)
    assert np.isfinite(small.path_).all()


@pytest.mark.parametrize("kernel", ["linear", "precomputed", "poly"])
def test_every_kernel_has_a_path(twin: Any, kernel: str) -> None:
    rows = twin.rows("queries")
    X = twin.rbf(rows.X, rows.X) if kernel == "precomputed" else rows.X
    model = rw.MPRankCV(kernel=kernel).fit(X, rows.y, qid=rows.q)
    single = rw.MPRank(kernel=kernel, C=model.C_, gamma=model.gamma_ or 1.0)
    single.fit(X, rows.y, qid=rows.q)
    assert single.leave_pair_out() == pytest.approx(model.leave_pair_out_, rel=1e-7)
    np.testing.assert_allclose(model.predict(X), single.predict(X), rtol=1e-6, atol=1e-8)


def test_without_a_pair_the_first_c_is_taken_with_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        model = rw.MPRankCV(kernel="linear").fit([[1.0], [2.0]], [1.0, 2.0], qid=["a", "b"])
    assert model.Cs[0] == model.C_
    assert np.isfinite(model.predict([[3.0]])).all()
