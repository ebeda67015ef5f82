"""Every ranker of the registry can be saved, loaded, served and, if it learns online, continued."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import rankwright as rw
from rankwright.persist.kinds import serve
from rankwright.rankers.registry import RANKERS, ranker, rankers

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ConvergenceWarning")


def new(name: str) -> Any:
    cls = ranker(name)
    return cls(**({"random_state": 0} if "random_state" in cls._get_param_names() else {}))


def learned(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.parametrize("name", RANKERS)
def test_a_ranker_comes_back_whole(
    name: str,
    rows: np.ndarray,
    grades: np.ndarray,
    qid: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    model = new(name).fit(rows, grades, qid=qid)
    loaded, _ = round_trip(model)
    assert repr(loaded) == repr(model)
    assert repr(clone(loaded)) == repr(clone(model))
    assert learned(loaded).keys() == learned(model).keys()
    for attribute, value in learned(model).items():
        np.testing.assert_array_equal(getattr(loaded, attribute), value)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", RANKERS)
def test_scores_and_predictions_are_the_same_to_the_last_bit(
    name: str,
    form: Callable[[Any], Any],
    rows: np.ndarray,
    grades: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    model = new(name).fit(rows, grades)
    X = form(np.random.default_rng(3).normal(size=(200, 4)))
    for other in round_trip(model):
        for method in ("decision_function", "predict", "rank"):
            assert np.array_equal(getattr(other, method)(X), getattr(model, method)(X))
        if hasattr(model, "predict_expected"):
            assert np.array_equal(other.predict_expected(X), model.predict_expected(X))


@pytest.mark.parametrize("name", [name for name in RANKERS if hasattr(ranker(name), "partial_fit")])
def test_an_online_ranker_goes_on_where_it_was_saved(
    name: str,
    rows: np.ndarray,
    grades: np.ndarray,
    round_trip: Callable[[Any], tuple[Any, Any]],
) -> None:
    classes = np.unique(grades)
    straight = new(name).partial_fit(rows, grades, classes=classes)
    half, _ = round_trip(new(name).partial_fit(rows[:13], grades[:13], classes=classes))
    half.partial_fit(rows[13:], grades[13:])
    for attribute, value in learned(straight).items():
        np.testing.assert_array_equal(getattr(half, attribute), value)


@pytest.mark.parametrize("name", RANKERS)
def test_every_parameter_has_a_rule_by_which_a_file_is_checked(name: str) -> None:
    cls = ranker(name)
    assert set(cls._rules) == set(cls._get_param_names())


def test_every_ranker_can_be_served_without_training_code(
    rows: np.ndarray, grades: np.ndarray
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cls in rankers():
            assert serve(new(cls.__name__).fit(rows, grades)) is not None


def test_a_random_state_object_is_left_out_of_the_file(
    rows: np.ndarray, grades: np.ndarray, round_trip: Callable[[Any], tuple[Any, Any]]
) -> None:
    model = rw.PRank(shuffle=True, random_state=np.random.RandomState(0)).fit(rows, grades)
    assert round_trip(model)[0].random_state is None
