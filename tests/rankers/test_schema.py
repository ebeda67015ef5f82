"""Constraints of parameters and declarations of learned attributes: what passes, what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankwright.exceptions import DataError, ParameterError
from rankwright.rankers import schema
from rankwright.rankers.schema import check_learned, flag, floats, integer, integers, real, texts


@pytest.mark.parametrize(
    ("constraint", "good", "bad", "words"),
    [
        (schema.at_least(1), [1, np.int32(7)], [0, 1.0, True, "1", None], "an integer >= 1"),
        (schema.positive(), [0.1, 3, np.float32(2)], [0, -1, np.nan, np.inf, True], "a number > 0"),
        (schema.number(), [-2.5, 0], [np.nan, np.inf, -np.inf, "0"], "a finite number"),
        (schema.number(0.0), [0, 2.5], [-1e-9, np.nan], "a number >= 0"),
        (schema.between(0, 1), [0, 0.5, 1], [-0.1, 1.1, np.nan], "a number from 0 to 1"),
        (schema.positive(0.5), [1e-300, 0.5], [0, 0.6, np.nan], "a number > 0 and <= 0.5"),
        (schema.one_of("a", "b", 1), ["a", np.str_("a"), 1], ["c", True, 1.0], "'a', 'b' or 1"),
        (schema.boolean(), [True, np.False_], [1, "yes"], "True or False"),
        (
            schema.random_state(),
            [None, 0, np.random.RandomState(1)],
            [-1, 1.5, "s"],
            "None, an integer",
        ),
        (schema.optional(schema.at_least(2)), [None, 2], [1], "None or an integer"),
        (schema.function(), [len], [3], "a function"),
        (schema.instance_of("a list", list), [[1]], [(1,)], "a list"),
    ],
)
def test_a_constraint_tests_what_its_words_say(
    constraint: schema.Constraint, good: list[object], bad: list[object], words: str
) -> None:
    for value in good:
        constraint.check("Model", "thing", value)
    for value in bad:
        with pytest.raises(ParameterError, match=f"Model\\(thing=.*thing must be .*{words}"):
            constraint.check("Model", "thing", value)


DECLARED = {
    "n_features_in_": integer(low=1),
    "coef_": floats("n_features"),
    "rows_": integers("n_rows", low=0, high="n_features"),
    "weight_": floats("n_rows", low=0.0),
    "names_": texts("n_features", optional=True),
    "loss_": real(finite=False),
    "done_": flag(),
}


def good() -> dict[str, Any]:
    return {
        "n_features_in_": 3,
        "coef_": np.array([1.0, -2.0, 0.0]),
        "rows_": np.array([0, 2]),
        "weight_": np.array([0.5, 1.5]),
        "loss_": float("inf"),
        "done_": True,
    }


def test_values_that_training_can_produce_are_taken() -> None:
    check_learned(DECLARED, good())
    check_learned(DECLARED, {**good(), "names_": np.array(["a", "b", "c"], dtype=object)})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_features_in_", 0, "outside"),
        ("coef_", np.ones(2), "n_features = 3"),
        ("coef_", np.array([1.0, np.nan, 0.0]), "not finite"),
        ("coef_", np.ones((3, 1)), "2 axes"),
        ("coef_", np.ones(3, dtype=np.int64), "type int64"),
        ("rows_", np.array([0, 3]), "outside 0 .. 2"),
        ("rows_", np.array([-1, 1]), "outside"),
        ("weight_", np.array([1.0, 1.0, 1.0]), "n_rows = 2"),
        ("weight_", np.array([1.0, -1.0]), "outside"),
        ("names_", ["a", "b"], "n_features = 3"),
        ("names_", np.array(["a", 1, "c"], dtype=object), "not text"),
        ("done_", 1, "type int64"),
        ("loss_", None, "missing"),
        ("other_", 1, "not a learned attribute"),
    ],
)
def test_other_values_are_refused_by_name(name: str, value: Any, words: str) -> None:
    with pytest.raises(DataError, match=f"{name}.*{words}"):
        check_learned(DECLARED, {**good(), name: value})
