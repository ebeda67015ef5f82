"""Declarations of learned attributes: values that training cannot produce are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankwright.exceptions import DataError
from rankwright.rankers.schema import check_learned, flag, floats, integer, integers, real, texts

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
