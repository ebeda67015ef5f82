"""One column of a table: trials of every method, printed against the paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from experiments.oap_bpm.methods import Method
from experiments.prank.trials import interval, rank_loss

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
            grade = rank_loss(model.predict(data.test[side]), data.test[2])
            scored = model.predict_expected(data.test[side]) if method.votes else None
            loss = grade if scored is None else rank_loss(scored, data.test[2])
            found[method.name]["paper"].append(loss)
            found[method.name]["rounded"].append(grade)
    return found


def show(found: dict[str, dict[str, list[float]]], column: str) -> dict[str, Any]:
    """Print the paper's cells and ours; whether they meet, and whether the order is the paper's."""
    expected, table = EXPECTED[column.removeprefix("unit_")], {}
    print(f"{'':26} {'paper':>13} {'ours':>15} {'whole grades':>13}")
    for name, losses in found.items():
        mean, half = interval(losses["paper"])
        rounded, _ = interval(losses["rounded"])
        cell, verdict = "", "" if name not in expected else "  differs"
        if name in expected:
            value, width = expected[name]
            cell = f"{value:.2f} ± {width:.2f}"
            if abs(mean - value) <= max(width, half) + 0.005:
                verdict = "  meets"
        print(f"{name:26} {cell:>13} {mean:7.3f} ± {half:.3f} {rounded:13.3f}{verdict}")
        table[name] = {"mean": mean, "half": half, "rounded": rounded}
    print_order(table, expected)
    return table


def print_order(table: dict[str, Any], expected: dict[str, list[float]]) -> None:
    """Pairs of methods that the paper's intervals separate: how many stand the same way here."""
    known = [name for name in table if name in expected]
    apart = [
        (a, b) if expected[a][0] < expected[b][0] else (b, a)
        for a, b in combinations(known, 2)
        if abs(expected[a][0] - expected[b][0]) > expected[a][1] + expected[b][1]
    ]
    wrong = [(a, b) for a, b in apart if table[a]["mean"] > table[b]["mean"]]
    print(f"order: {len(apart) - len(wrong)} of {len(apart)} pairs that the paper separates agree")
    for a, b in wrong:
        print(f"  not here: {a} ({table[a]['mean']:.3f}) below {b} ({table[b]['mean']:.3f})")
