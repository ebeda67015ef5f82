"""Kappa and alpha against scikit-learn and the package krippendorff."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import cohen_kappa_score

from rankwright.exceptions import DataError
from rankwright.metrics.agreement import (
    agreement,
    cohen_kappa,
    judge_pairs,
    krippendorff_alpha,
    most_disputed,
)

krippendorff = pytest.importorskip("krippendorff")
NAN = float("nan")

tables = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=9),
    elements=st.sampled_from([0.0, 1.0, 2.0, 2.5, 7.0, NAN]),
)


@settings(max_examples=200, deadline=None)
@given(tables)
def test_alpha_is_that_of_the_package_krippendorff(table) -> None:
    ours = krippendorff_alpha(table)
    counted = table[:, (~np.isnan(table)).sum(axis=0) > 1]
    if len(np.unique(counted[~np.isnan(counted)])) < 2:
        assert np.isnan(ours)
    else:
        theirs = krippendorff.alpha(table, level_of_measurement="ordinal")
        assert ours == pytest.approx(theirs, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(tables)
def test_kappa_is_that_of_scikit_learn_on_the_common_items(table) -> None:
    first, second = table[:2, ~np.isnan(table[:2]).any(axis=0)]
    ours = cohen_kappa(table[0], table[1])
    codes = np.searchsorted([0.0, 1.0, 2.0, 2.5, 7.0], [first, second])
    if len(np.unique(codes)) < 2:
        assert np.isnan(ours)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert ours == pytest.approx(cohen_kappa_score(*codes), abs=1e-9)


def test_only_the_order_of_grades_matters_for_alpha() -> None:
    table = np.random.default_rng(0).integers(4, size=(3, 30)).astype(float)
    assert krippendorff_alpha(table) == pytest.approx(krippendorff_alpha(np.exp(table)))


def test_alpha_by_hand() -> None:
    # Coincidences 2 x (0,0), 1 x (0,1), 1 x (1,0); n = 4, totals 3 and 1, distance 4:
    # 1 - 3 * 8 / (2 * 3 * 1 * 4) = 0.
    assert krippendorff_alpha([[0, 0], [0, 1]]) == pytest.approx(0.0)


def test_perfect_and_opposite_judges() -> None:
    grades = np.arange(20.0) % 5
    assert krippendorff_alpha([grades] * 3) == 1.0
    assert cohen_kappa(grades, grades) == 1.0
    assert krippendorff_alpha([grades, 4 - grades]) < -0.5


def test_where_agreement_is_not_defined_it_is_nan() -> None:
    for table in ([[1, 1], [1, 1]], [[1, NAN], [NAN, 2]], [[], []]):
        assert np.isnan(krippendorff_alpha(table))
        assert np.isnan(cohen_kappa(*table))
    with pytest.raises(DataError, match="one row a judge"):
        krippendorff_alpha([1.0, 2.0])


def test_two_judges_get_kappa_and_three_get_alpha() -> None:
    two = {"ann": {"a": 1, "b": 2}, "bob": {"a": 1, "b": 1}, "new": {}}
    assert agreement(two)[:1] + agreement(two)[2:] == ("kappa", 2, 2)
    three = {**two, "new": {"b": 2, "c": 0}}
    assert agreement(three).measure == "alpha"
    assert agreement(three).n_items == 2
    assert np.isnan(agreement({}).value)


def test_those_who_differ_most_come_first() -> None:
    grades = {"ann": {"a": 0, "b": 4}, "bob": {"a": 0, "b": 3}, "eve": {"a": 4, "b": 0, "c": 1}}
    pairs = judge_pairs(grades)
    assert [(pair.first, pair.second, pair.difference) for pair in pairs] == [
        ("ann", "eve", 4.0),
        ("bob", "eve", 3.5),
        ("ann", "bob", 0.5),
    ]
    assert [(entry.item, entry.spread) for entry in most_disputed(grades)] == [("a", 4), ("b", 4)]
    assert len(most_disputed(grades, 1)) == 1
