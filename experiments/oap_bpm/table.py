"""One column of a table: trials of every method, printed against the paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from experiments.oap_bpm.methods import Method
from experiments.prank.trials import interval, rank_loss

from rankwright import WidrowHoff

STANDS_FOR = {"unit_movies": "movies", "films": "movies", "two_judges": "ohsumed"}
EXPECTED = json.loads((Path(__file__).parent / "expected.json").read_text())


class Draw(NamedTuple):
    """The rows of one trial: as they are, and mapped for the kernel."""

    train: tuple[Any, Any, Any]  # plain, mapped, y
    test: tuple[Any, Any, Any]


def run(
    methods: Sequence[Method], draw: Callable[[int], Draw], n_trials: int, grades: Sequence[int]
) -> dict[str, dict[str, list[float]]]:
    """Test rank loss of every method and trial: by the paper's scoring, and by whole grades."""
    found: dict[str, dict[str, list[float]]] = {
        m.name: {"paper": [], "rounded": []} for m in methods
    }
    for trial in range(n_trials):
        data = draw(trial)
        for method in methods:
            side = 0 if method.plain else 1
            model = method.make(trial).partial_fit(data.train[side], data.train[2], grades)
            rows, y = data.test[side], data.test[2]
            grade = rank_loss(model.predict(rows), y)
            loss = rank_loss(model.predict_expected(rows), y) if method.votes else grade
            if isinstance(model, WidrowHoff) and diverged(model):
                loss = rank_loss(np.min(grades), y)
            found[method.name]["paper"].append(loss)
            found[method.name]["rounded"].append(grade)
    return found


def diverged(model: WidrowHoff) -> bool:
    """Whether the weights ran away: scores then overflow, and the paper's program gave rank 1.

    Here weights stop growing before they overflow. That nothing but the lowest rank was
    given is read off the paper's figure: 0.75 is what rank 1 throughout costs.
    """
    return bool(np.abs(model.coef_).max() > 1e40)


def meets(cell: Sequence[float], mean: float, half: float) -> bool:
    """Whether paper and ours differ by no more than the wider interval, and rounding."""
    value, width = cell
    return abs(mean - value) <= max(width, half) + 0.005


def show(found: dict[str, dict[str, list[float]]], column: str) -> dict[str, Any]:
    """Print the paper's cells and ours; whether they meet, and whether the order is the paper's."""
    expected, table = EXPECTED[STANDS_FOR.get(column, column)], {}
    print(f"{'':26} {'paper':>13} {'ours':>15} {'whole grades':>13}")
    for name, losses in found.items():
        mean, half = interval(losses["paper"])
        rounded, _ = interval(losses["rounded"])
        cell, verdict = "", ""
        if name in expected:
            value, width = expected[name]
            cell = f"{value:.2f} ± {width:.2f}"
            verdict = "  meets" if meets(expected[name], mean, half) else "  differs"
        print(f"{name:26} {cell:>13} {mean:7.3f} ± {half:.3f} {rounded:13.3f}{verdict}")
        table[name] = {"mean": mean, "half": half, "rounded": rounded}
    apart, wrong = order_of({name: row["mean"] for name, row in table.items()}, expected)
    print(f"order: {apart - len(wrong)} of {apart} pairs that the paper separates agree")
    for a, b in wrong:
        print(f"  not here: {a} ({table[a]['mean']:.3f}) below {b} ({table[b]['mean']:.3f})")
    return table


def order_of(
    means: dict[str, float], expected: dict[str, list[float]]
) -> tuple[int, list[tuple[str, str]]]:
    """How many pairs of methods the paper's intervals separate, and which stand otherwise here."""
    known = [name for name in means if name in expected]
    apart = [
        (a, b) if expected[a][0] < expected[b][0] else (b, a)
        for a, b in combinations(known, 2)
        if abs(expected[a][0] - expected[b][0]) > expected[a][1] + expected[b][1]
    ]
    return len(apart), [(a, b) for a, b in apart if means[a] > means[b]]
