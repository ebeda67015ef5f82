"""Sums of step functions, of slopes and of trees: values that cannot be are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from rankwright.exceptions import DataError
from rankwright.scoring.linear import Slopes
from rankwright.scoring.trees import Additive, Trees


def _additive(**changes: Any) -> Additive:
    values: dict[str, Any] = {
        "n_inputs": 3,
        "feature": np.array([0, 2]),
        "ptr": np.array([0, 2, 3]),
        "threshold": np.array([0.0, 1.0, -1.0]),
        "value": np.array([0.0, 1.0, 3.0, 0.5, -0.5]),
        "missing": np.array([0.25, 9.0]),
    }
    return Additive(**{**values, **changes})


def _trees(**changes: Any) -> Trees:
    values: dict[str, Any] = {
        "n_inputs": 2,
        "root": np.array([0, 3]),
        "weight": np.array([1.0, 2.0]),
        "feature": np.array([1, -1, -1, -1]),
        "threshold": np.array([0.5, 0.0, 0.0, 0.0]),
        "default": np.array([1, 0, 0, 0]),
        "low": np.array([1, 0, 0, 0]),
        "high": np.array([2, 0, 0, 0]),
        "value": np.array([0.0, -1.0, 1.0, 0.25]),
    }
    return Trees(**{**values, **changes})


def test_each_feature_adds_the_value_of_its_step() -> None:
    X = np.array([[-5.0, 7.0, 0.0], [0.5, 7.0, -1.0], [2.0, 7.0, np.nan], [np.nan, 7.0, -3.0]])
    scores = _additive().decision_function(X)
    np.testing.assert_array_equal(scores, [0 - 0.5, 1 + 0.5, 3 + 9.0, 0.25 + 0.5])


@pytest.mark.parametrize("abstains", [True, False])
def test_what_a_sparse_matrix_does_not_store_is_zero_or_missing(abstains: bool) -> None:
    X = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 1.0, -3.0]])
    filled = np.where(X == 0, np.nan if abstains else 0.0, X)
    for scorer in (
        _additive(absent_abstains=abstains),
        Slopes(3, np.array([0, 2]), np.ones(2), np.zeros(2), np.full(2, 0.5), abstains),
    ):
        np.testing.assert_array_equal(
            scorer.decision_function(sparse.csr_array(X)), scorer.decision_function(filled)
        )


def test_a_row_falls_into_one_leaf_of_each_tree() -> None:
    X = np.array([[0.0, 0.5], [0.0, 0.6], [0.0, np.nan]])
    np.testing.assert_array_equal(_trees().decision_function(X), [-0.5, 1.5, 1.5])


@pytest.mark.parametrize(
    "changes",
    [
        {"n_inputs": 2},
        {"feature": np.array([0, -1])},
        {"ptr": np.array([0, 4, 3])},
        {"ptr": np.array([0, 2, 9])},
        {"threshold": np.array([1.0, 0.0, -1.0])},
        {"threshold": np.array([0.0, np.nan, -1.0])},
        {"value": np.zeros(3)},
        {"missing": np.array([np.inf, 0.0])},
    ],
    ids=str,
)
def test_step_functions_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        _additive(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"root": np.array([0, 4])},
        {"root": np.array([-1, 3])},
        {"feature": np.array([2, -1, -1, -1])},
        {"low": np.array([0, 0, 0, 0])},  # a node that is its own child would never end
        {"high": np.array([9, 0, 0, 0])},
        {"value": np.array([0.0, np.nan, 1.0, 0.0])},
        {"default": np.array([2, 0, 0, 0])},
    ],
    ids=str,
)
def test_trees_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        _trees(**changes)
