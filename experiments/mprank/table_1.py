"""MPRank, Table 1: mean squared and mean 1-norm difference of predicted preferences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from experiments.mprank.reviewers import SETS, Group
from experiments.mprank.systems import ABSTAINING, MEASURES, SYSTEMS, measured, tune
from threadpoolctl import threadpool_limits

HERE = Path(__file__).parent
RESULTS = HERE.parent / "_results"
EXPECTED = json.loads((HERE / "expected.json").read_text())
HELD_OUT, TESTED, REPEATS = 30, 300, 10
Cells = dict[str, dict[str, list[float]]]  # system -> measure -> a value per repeat


def main(argv: Sequence[str] | None = None) -> None:
    found = results(argv)
    for measure in ("MSD", "M1D"):
        show(found, measure, {g: EXPECTED["table_1"][g][measure] for g in EXPECTED["table_1"]})


def results(argv: Sequence[str] | None) -> dict[str, Cells]:
    """Every group, repeat by repeat, each kept on disk: both tables print from the same files.

    A run that was interrupted goes on where it stopped; ``--only=jester`` computes one data set,
    ``--repeats=n`` makes so many repeats.
    """
    words = list(argv or ())
    quick = "--quick" in words
    only = [word.removeprefix("--only=") for word in words if word.startswith("--only=")]
    repeats = [int(word.removeprefix("--repeats=")) for word in words if "--repeats=" in word]
    size = Size(quick, *(repeats or [2 if quick else REPEATS]))
    found: dict[str, Cells] = {}
    for name, make in SETS.items():
        path = RESULTS / f"mprank_{name}{'_quick' if quick else ''}.json"
        kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if not only or name in only:
            complete(kept, make(), path, size)
        found |= kept
    return found


class Size(NamedTuple):
    """How large a run is."""

    quick: bool
    repeats: int


def complete(kept: dict[str, Any], groups: list[Group], path: Path, size: Size) -> None:
    """Add the repeats that are still missing."""
    for repeat in range(size.repeats):
        for group in groups:
            cells = kept.setdefault(group.name, {name: _empty() for name in SYSTEMS})
            if len(cells["MPRank"]["MSD"]) > repeat or (group.name == "Books" and repeat > 0):
                continue
            add_repeat(cells, group, repeat, size.quick)
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(kept, indent=1))


def _empty() -> dict[str, Any]:
    return {"parameters": {}, **{measure: [] for measure in MEASURES}}


def add_repeat(cells: Any, group: Group, repeat: int, quick: bool) -> None:
    """Other reviewers and other references each time; parameters from reviewers held out first."""
    tested = None if group.name == "Books" else 30 if quick else TESTED  # every reader, once
    aside, others = group.held_out(10 if quick else HELD_OUT)
    with threadpool_limits(1):  # matrices this small gain nothing from threads
        if repeat == 0:
            held_out = list(aside.tasks(None, seed=0))
            for name, system in SYSTEMS.items():
                cells[name]["parameters"] = tune(system, held_out)
        tasks = list(others.tasks(tested, seed=1 + repeat))
        for name, system in SYSTEMS.items():
            runs: dict[str, Any] = {}
            for measure, chosen in cells[name]["parameters"].items():
                key = json.dumps(chosen)
                if key not in runs:
                    runs[key] = measured(system, chosen, tasks)
                cells[name][measure].append(runs[key][measure])
    print(f"{group.name}, repeat {repeat + 1}: {len(tasks)} reviewers", flush=True)


def show(found: dict[str, Cells], measure: str, expected: dict[str, dict[str, float]]) -> None:
    """The paper's cells and ours, mean and deviation over the repeats, and how many those are."""
    width = {name: 15 if name in ("kernel ridge", "constant") else 22 for name in SYSTEMS}
    width[ABSTAINING] = 29
    print(f"\n{measure}: paper > ours, mean ±deviation over n repeats")
    print(" " * 15 + "".join(f"{name:>{width[name]}}" for name in SYSTEMS) + f"{'n':>3}")
    for group, paper in expected.items():
        if group not in found:
            continue
        line = f"{group:15}"
        for name in SYSTEMS:
            values = found[group][name][measure]
            cell = f"{np.mean(values):.3g}"
            if len(values) > 1:
                cell += f" ±{np.std(values):.1g}"
            if name in paper:
                cell = f"{paper[name]:g} > {cell}"
            line += f"{cell:>{width[name]}}"
        print(f"{line}{len(values):3}")


if __name__ == "__main__":
    main()
