"""What Figures 5, 6 and 7 share: the algorithms, the protocol, the printing.

Options of each figure: ``--quick`` (one split, few users), ``--splits=n``, ``--targets=n`` (users
per point), ``--without-hybrid`` (half the time). Needs MovieLens 1M (see ``RANKWRIGHT_DATA``).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline

import rankwright as rw
from rankwright.data.splits import halve_users
from rankwright.recommend.protocols import PAPER_MEASURES, compare_rankers

RESULTS = Path(__file__).parents[1] / "_results"
FILL = {"regression": "mean", "normalised regression": "standard"}


class Size(NamedTuple):
    """How large an experiment is."""

    splits: int
    targets: int
    hybrid: bool
    quick: bool


class Point(NamedTuple):
    """One point of a figure: who is a feature, who is a target."""

    name: str
    reference: np.ndarray
    targets: np.ndarray


def size_of(argv: list[str], splits: int, targets: int) -> Size:
    """The paper's size, or what the options say."""
    given = dict(word[2:].split("=") for word in argv if "=" in word)
    quick = "--quick" in argv
    return Size(
        int(given.get("splits", 1 if quick else splits)),
        int(given.get("targets", 20 if quick else targets)),
        "--without-hybrid" not in argv,
        quick,
    )


def algorithms(n_features: int, hybrid: bool) -> dict[str, Any]:
    """The paper's, with those its authors propose; T = 40 + N / 10, WeakLearn.3.cum."""
    boost = rw.RankBoost(n_rounds=40 + n_features // 10, cumulative=True, progress=False)
    both = {"RankBoost + VSIM": make_pipeline(rw.VSIMFeature(), boost)} if hybrid else {}
    return {
        "RankBoost": boost,
        **both,
        "VSIM": rw.VSIM(),
        "VSIM over raters": rw.VSIM(over="rated"),
        "nearest neighbour": rw.NearestNeighbour(),
        "k-NN, k = 20": rw.KNN(),
        "regression": rw.Regression(),
        "normalised regression": rw.Regression(),
        "random": None,
    }


def load() -> Any:
    try:
        return rw.load_dataset("movielens-1m")
    except rw.exceptions.DatasetError as error:
        sys.exit(f"this figure needs MovieLens 1M: {error}")


def draw(ratings: Any, splits: Iterable[tuple[int, list[Point]]], size: Size, name: str) -> None:
    """Run every point of every split, print the means, keep them as JSON."""
    values: dict[str, dict[str, list[list[float]]]] = {}
    start = time.perf_counter()
    for seed, points in splits:
        split = halve_users(ratings.user, random_state=seed)
        for point in points:
            chosen = algorithms(len(point.reference), size.hybrid)
            found = compare_rankers(
                ratings, split, chosen, point.targets, point.reference, missing=FILL
            )
            for method, scores in found.items():
                row = [float(scores[measure]) for measure in PAPER_MEASURES]
                values.setdefault(point.name, {}).setdefault(method, []).append(row)
    _print(values, size, time.perf_counter() - start)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"rankboost_{name}.json").write_text(json.dumps(values, indent=1))


def _print(values: dict[str, dict[str, list[list[float]]]], size: Size, seconds: float) -> None:
    print(f"{size.splits} splits, {size.targets} target users a point, {seconds:.0f} s")
    heads = ("disagree", "AP", "PROT", "coverage")
    for point, methods in values.items():
        print(f"\n{point:<26}" + "".join(f"{head:>10}" for head in heads))
        for method, rows in methods.items():
            means = np.mean(rows, axis=0)
            print(f"  {method:<24}" + "".join(f"{value:>10.3f}" for value in means))
