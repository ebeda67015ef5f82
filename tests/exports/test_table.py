"""The table of the guide, kind by target, is what export does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exports import random_models as kinds
from rankwright.exports.form import form_of
from rankwright.exports.writer import TARGETS, support

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "exports.md"

# Row of the table -> (how such a model is made, what a missing feature means).
ROWS: dict[str, tuple[Any, str]] = {
    "linear": (kinds.linear, "model"),
    "linear with an intercept": (kinds.linear_with_intercept, "model"),
    "linear after a scaler": (kinds.scaled_linear, "model"),
    "linear after a scaler that clips": (kinds.clipped_linear, "model"),
    "linear that scores missing values": (kinds.slopes, "model"),
    "steps, missing = 0 or never": (kinds.additive, "zero"),
    "steps that score missing values": (kinds.additive, "model"),
    "trees, missing = 0 or never": (kinds.trees, "zero"),
    "trees that score missing values": (kinds.trees, "model"),
    "steps or trees after a scaler, likewise": (kinds.scaled_trees, "model"),
    "categorical trees": (kinds.categorical, "model"),
    "categorical trees after OneHotDecoder": (kinds.levels, "model"),
    "tanh network": (kinds.network, "model"),
    "kernel expansion": (kinds.kernel, "model"),
    "linear after PolynomialMap": (kinds.polynomial, "model"),
    "votes of linear rules": (kinds.votes, "model"),
    "a prototype per grade": (kinds.prototypes, "model"),
    "ensemble of steps and trees, likewise": (kinds.sum_of_trees, "model"),
    "ensemble of linear models": (kinds.sum_of_lines, "model"),
    "ensemble of linear models and trees": (kinds.sum_of_lines_and_trees, "model"),
    "ensemble with networks, kernels or votes": (kinds.sum_of_everything, "model"),
    "anything after QueryNormalizer": (kinds.by_query, "model"),
}


def is_typical(model: Any, row: str) -> bool:
    """A random model may be simpler than its kind: no NaN of its own, no hidden layer."""
    form = form_of(model)
    if ROWS[row][1] == "model" and form.forest is not None:
        return not form.forest.missing_is_zero
    if row == "tanh network":
        return len(model.layers) > 2
    if row == "kernel expansion":
        return bool(model.kernel.name != "linear")
    return True


def level(row: str, to: str) -> str:
    build, missing = ROWS[row]
    made = (build(np.random.default_rng(seed)) for seed in range(12))
    found = {support(m, to, missing=missing).level for m in made if is_typical(m, row)}
    assert len(found) == 1, (row, to, found)
    return found.pop()


def table() -> str:
    head = [f"| model | {' | '.join(TARGETS)} |", "|---" * (len(TARGETS) + 1) + "|"]
    rows = [f"| {row} | {' | '.join(level(row, to) for to in TARGETS)} |" for row in ROWS]
    return "\n".join([*head, *rows])


def test_the_table_of_the_guide_is_what_export_does() -> None:
    assert table() in PAGE.read_text()


@pytest.mark.parametrize("row", ROWS)
def test_every_model_has_a_target(row: str) -> None:
    assert level(row, "onnx") == "exact"


if __name__ == "__main__":
    print(table())
