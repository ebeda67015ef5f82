"""What the online experiments share: repeated trials, intervals, tables, results on disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from rankwright.exceptions import DatasetError
from rankwright.selection import progressive

RESULTS = Path(__file__).parents[1] / "_results"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of the 95 % interval by Student's t, as in the papers."""
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(half)


def rank_loss(predicted: Any, y: Any) -> float:
    return float(np.abs(predicted - y).mean())


def curve(ranker: Any, X: Any, y: Any, classes: Any, *, expected: bool = False) -> np.ndarray:
    """The time-averaged rank loss after each round."""
    steps = progressive(ranker, X, y, classes=classes, expected=expected)
    return np.array([step["RankLoss"] for step in steps])


def mean_curves(
    draw: Callable[[int], Iterable[tuple[str, np.ndarray]]], n_trials: int
) -> dict[str, np.ndarray]:
    """The curves of each method, averaged over trials."""
    total: dict[str, np.ndarray] = {}
    for trial in range(n_trials):
        for name, values in draw(trial):
            total[name] = total.get(name, 0.0) + values / n_trials
    return total


def print_curves(curves: dict[str, np.ndarray], rounds: Sequence[int]) -> None:
    width = max(map(len, curves))
    print(f"{'after round':{width}} " + " ".join(f"{r:>7,}" for r in rounds))
    for name, values in curves.items():
        print(f"{name:{width}} " + " ".join(f"{values[r - 1]:7.3f}" for r in rounds))


def save(name: str, content: Any) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=1))
    print(f"written: experiments/_results/{path.name}")


def load_or_leave(load: Callable[[], Any]) -> Any:
    """The data set, or a clear word where this machine does not have it."""
    try:
        return load()
    except DatasetError as error:
        sys.exit(f"this experiment needs real data: {error}")


def n_trials(argv: Sequence[str] | None, full: int, quick: int) -> int:
    """As many as ``--trials=N`` says, a few for ``--quick``, else all."""
    for word in argv or ():
        if word.startswith("--trials="):
            return int(word.removeprefix("--trials="))
    return quick if argv and "--quick" in argv else full
