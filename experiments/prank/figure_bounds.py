"""Bounds against truth: mistakes and margins of PRank, its updates and OAP, RankBoost, MPRank.

Rows of an ordinal rule with a gap around its thresholds, so that bounds are finite. A model makes
passes until its rule ranks all rows rightly, at most 3,000. Not in the papers, which only print the
theorems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from experiments.pictures import Panel, draw
from experiments.prank.trials import n_trials, save

import rankwright as rw

SIZES = (50, 100, 200, 400, 800)
TRIALS, FEATURES, GRADES, GAP = 10, 4, 4, 0.2
ROUNDS = (1, 2, 5, 10, 20, 50, 100, 200)
ROWS = (100, 1_000, 10_000, 100_000)
UPDATES = {
    "perceptron": rw.PRank(max_iter=3000),
    "romma": rw.PRank(max_iter=3000, update="romma"),
    "mira": rw.PRank(max_iter=3000, update="mira"),
    "alma": rw.PRank(max_iter=3000, update="alma"),
}


def separable(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8 * n, FEATURES))
    scores = X @ np.array([1.0, -1.0, 0.5, 0.25])
    cuts = np.array([-1.0, 0.0, 1.0])
    keep = np.flatnonzero(np.abs(scores[:, None] - cuts).min(axis=1) > GAP)[:n]
    return X[keep], np.searchsorted(cuts, scores[keep]) + 1


def passes_to_the_end(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """The model with as many passes as it takes, so that its own rule separates the rows."""
    stream = rw.rankers.PRank(**model.get_params()).start(FEATURES, range(1, GRADES + 1))
    passes = 0
    while passes < model.max_iter and (passes == 0 or (stream.predict(X) != y).any()):
        stream.partial_fit(X, y)
        passes += 1
    return stream.set_params(max_iter=passes)


def main(argv: Sequence[str] | None = None) -> None:
    trials = n_trials(argv, TRIALS, 2)
    found: dict[str, Any] = {}
    print(f"PRank and its updates, medians of {trials} trials: bound, truth, truth / bound, margin")
    for name, model in UPDATES.items():
        found[name] = []
        for n in SIZES:
            cells = []
            for trial in range(trials):
                X, y = separable(n, trial)
                bounds = passes_to_the_end(model, X, y).bounds(X, y)
                first = bounds.entries[0]
                cells.append((first.bound, first.truth, bounds.quantities["margin"]))
                assert all(entry.holds for entry in bounds.values())
            bound, truth, margin = np.median(cells, axis=0)
            found[name].append([bound, truth, margin])
            print(
                f"  {name:11} {n:4} rows  {first.name:11} {bound:11,.0f} {truth:6.0f} "
                f"{truth / bound:9.5f} {margin:8.4f}",
                flush=True,
            )
    found["OAP"] = members(trials)
    found["RankBoost"] = rankboost()
    found["MPRank"] = stability()
    pictures(found)
    save("prank_figure_bounds", found)


def members(trials: int) -> dict[str, list[float]]:
    """Margins of the members, their mean, and of the mean rule, by tau."""
    print("OAP-BPM, 400 rows, 50 passes: margin of the mean, its bound, members' mean and worst")
    found = {}
    for tau in (0.1, 0.3, 0.6, 0.9, 1.0):
        cells = []
        for trial in range(trials):
            X, y = separable(400, trial)
            model = rw.OAPBPM(tau=tau, n_estimators=50, random_state=trial).fit(
                np.tile(X, (50, 1)), np.tile(y, 50)
            )
            bounds = model.bounds(X, y)
            own = bounds.quantities["members_margin"]
            entry = bounds["margin of the mean"]
            assert entry.holds
            cells.append((entry.truth, entry.bound, own.mean(), own.min()))
        found[f"{tau:g}"] = [float(value) for value in np.mean(cells, axis=0)]
        print(f"  tau {tau:3g}  " + " ".join(f"{value:8.4f}" for value in found[f"{tau:g}"]))
    return found


def rankboost() -> dict[str, list[list[float]]]:
    """Theorem 1 by rounds, on noisy rows; Theorem 3 by rows, after five rounds."""
    X, y = noisy(2000, 0)
    print("RankBoost, 2,000 rows: Theorem 1's bound and the share of misordered pairs, by rounds")
    rounds = []
    for n_estimators in ROUNDS:
        entry = rw.RankBoost(n_estimators=n_estimators).fit(X, y).bounds(X, y)["rloss"]
        rounds.append([entry.bound, entry.truth])
        print(f"  {n_estimators:4} rounds {entry.bound:7.4f} {entry.truth:7.4f}")
    print("RankBoost, 5 rounds: Theorem 3's bound and the share on 5,000 new rows, by rows")
    rows = []
    fresh = noisy(5000, 1)
    for n in ROWS:
        model = rw.RankBoost(n_estimators=5).fit(*noisy(n, 2))
        entry = model.bounds(*fresh)["rloss of new rows"]
        rows.append([entry.bound, entry.truth])
        print(f"  {n:7,} rows {entry.bound:7.4f} {entry.truth:7.4f}")
    return {"rounds": rounds, "rows": rows}


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES))
    return X, (X[:, 0] - X[:, 1] + rng.normal(size=n) > 0).astype(int)


def stability() -> list[list[float]]:
    print("MPRank, C = 0.1: Corollary 1's bound and the error on 5,000 new rows, by rows")
    found = []
    rng = np.random.default_rng(3)
    fresh = rng.uniform(-1, 1, size=(5000, FEATURES))
    for n in ROWS:
        X = rng.uniform(-1, 1, size=(n, FEATURES))
        y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=n)
        entry = (
            rw.MPRank(C=0.1)
            .fit(X, y)
            .bounds(
                fresh, fresh[:, 0] - fresh[:, 1] + 0.3 * np.random.default_rng(4).normal(size=5000)
            )["error of new pairs"]
        )
        found.append([entry.bound, entry.truth])
        print(f"  {n:7,} rows {entry.bound:8.4f} {entry.truth:7.4f}")
    return found


def pictures(found: dict[str, Any]) -> None:
    """The logarithm of bound and truth, since they are orders of magnitude apart."""
    lines = {}
    for name in UPDATES:
        for place, what in enumerate(("bound", "truth")):
            lines[f"{name}, {what}"] = [np.log10(cell[place]) for cell in found[name]]
    theorem = {
        what: [cell[place] for cell in found["RankBoost"]["rounds"]]
        for place, what in enumerate(("Theorem 1", "rloss"))
    }
    draw(
        "prank_figure_bounds",
        [
            [
                Panel("log10 of bound and truth", "rows", SIZES, lines, log=True),
                Panel("RankBoost", "rounds", ROUNDS, theorem, log=True),
            ]
        ],
    )


if __name__ == "__main__":
    main()
