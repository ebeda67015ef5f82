"""Every ranker of the registry can be saved, loaded, served and, if it learns online, continued."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from typing import Any, get_type_hints

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import rankwright as rw
from contract.instances import INSTANCES
from rankwright.persist.codec import KINDS
from rankwright.rankers.base import rankers

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ConvergenceWarning")


def learned(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.parametrize("ranker", INSTANCES, ids=repr)
def test_a_ranker_comes_back_whole(
    ranker: Any,
    rows: np.ndarray,
    grades: np.ndarray,
    qid: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    model = clone(ranker).fit(rows, grades, qid=qid)
    loaded, _ = round_trip(model)
    assert repr(clone(loaded)) == repr(clone(model))
    check_equal(loaded, model)


def check_equal(loaded: Any, model: Any) -> None:
    assert repr(loaded) == repr(model)
    assert learned(loaded).keys() == learned(model).keys()
    for attribute, value in learned(model).items():
        found = getattr(loaded, attribute)
        if attribute == "members_":
            for pair in zip(found, value, strict=True):
                check_equal(*pair)
        else:
            np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("ranker", INSTANCES, ids=repr)
def test_scores_and_predictions_are_the_same_to_the_last_bit(
    ranker: Any,
    rows: np.ndarray,
    grades: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    model = clone(ranker).fit(rows, grades)
    test = np.random.default_rng(3).normal(size=(200, 4))
    methods = ["decision_function", "predict", "rank"]
    methods += ["predict_expected"] * hasattr(model, "predict_expected")
    loaded = round_trip(model)
    for X in (test, sparse.csr_array(test)):
        for method in methods:
            expected = getattr(model, method)(X)
            for other in loaded:
                assert np.array_equal(getattr(other, method)(X), expected), (method, type(X))


@pytest.mark.parametrize("ranker", [r for r in INSTANCES if hasattr(r, "partial_fit")], ids=repr)
def test_an_online_ranker_goes_on_where_it_was_saved(
    ranker: Any,
    rows: np.ndarray,
    grades: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    kept = clone(ranker)
    declared = "classes" in signature(kept.partial_fit).parameters
    kept.partial_fit(rows[:13], grades[:13], **({"classes": np.unique(grades)} if declared else {}))
    loaded, _ = round_trip(kept)
    for model in (kept, loaded):
        model.partial_fit(rows[13:], grades[13:])
    for attribute, value in learned(kept).items():
        np.testing.assert_array_equal(getattr(loaded, attribute), value)


@pytest.mark.parametrize("cls", rankers().values())
def test_every_parameter_has_a_constraint_by_which_a_file_is_checked(cls: Any) -> None:
    assert set(cls._constraints) == set(cls._get_param_names())


@pytest.mark.parametrize("kind", KINDS)
def test_the_types_of_a_scorer_are_annotated_so_that_a_file_can_be_checked(kind: str) -> None:
    hints = get_type_hints(KINDS[kind])
    assert all(hints[field.name] is not Any for field in fields(KINDS[kind]))


def test_a_random_state_object_is_left_out_of_the_file(
    rows: np.ndarray, grades: np.ndarray, round_trip: Callable[[Any], tuple[Any, Any]]
) -> None:
    model = rw.PRank(shuffle=True, random_state=np.random.RandomState(0)).fit(rows, grades)
    assert round_trip(model)[0].random_state is None
