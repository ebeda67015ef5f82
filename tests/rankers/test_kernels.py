"""Kernel parameters that are given by name."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import rankwright as rw
from rankwright.exceptions import DataError
from rankwright.rankers.kernels import resolve_gamma

RNG = np.random.default_rng(0)
SOME = RNG.normal(size=(40, 3)) * (RNG.random((40, 3)) < 0.6)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_scale_is_one_over_features_times_variance_far_from_zero_as_well(
    offset: float, form: type
) -> None:
    X = SOME + offset
    assert resolve_gamma("scale", form(X)) == pytest.approx(1 / (3 * X.var()), rel=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_weight_of_two_counts_twice_in_the_scale(form: type) -> None:
    weight = RNG.integers(0, 3, size=40)
    twice = np.repeat(SOME, weight, axis=0)
    found = resolve_gamma("scale", form(SOME), weight.astype(float))
    assert found == pytest.approx(1 / (3 * twice.var()))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 / 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_one_value_everywhere_has_no_scale(value: float, form: type) -> None:
    assert resolve_gamma("scale", form(np.full((7, 3), value))) == pytest.approx(1 / 3)


@pytest.mark.parametrize("ranker", [rw.MPRank(kernel="rbf"), rw.RankSVM(kernel="rbf")])
def test_rankers_take_the_scale_from_rows_that_count(ranker: rw.MPRank | rw.RankSVM) -> None:
    X, weight = SOME + 1e7, np.repeat([1.0, 0.0], 20)
    ranker.fit(X, np.arange(40) % 3, sample_weight=weight)
    assert ranker.gamma_ == pytest.approx(1 / (3 * X[:20].var()), rel=1e-6)


@pytest.mark.parametrize("size", [1e170, 1e200, 1e300])
def test_features_too_large_to_square_are_refused(size: float) -> None:
    X = size * np.array([[0.5], [1.0], [-0.7]])
    for rows in (X, sparse.csr_matrix(X)):
        with pytest.raises(DataError, match="too large to be squared"):
            resolve_gamma("scale", rows)
