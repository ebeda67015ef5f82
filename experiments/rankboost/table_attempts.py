"""RankBoost's films: one more attempt at two claims that do not come out in Figures 5 and 6.

The paper has nearest neighbor's PROT below that of random guessing (.45), and every algorithm,
VSIM too, better with denser features. Here: how ties are broken, since a single neighbor ties most
films of a viewer; and films made after EachMovie's published figures, with its six ratings and its
sparse viewers, in place of MovieLens, where everyone rated 20 films or more.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from experiments.prank.eachmovie import film_counts, made_ratings
from experiments.prank.trials import n_trials, save

import rankwright as rw
from rankwright.exceptions import DegenerateDataWarning

TARGETS, FEATURES = 200, 500
BINS = {"10-20": (10, 20), "21-40": (21, 40), "41-60": (41, 60), "61-100": (61, 100),
        "101+": (101, 1455)}  # fmt: skip
MEASURES = ["Disagreement", "AP(rel=max)", "PROT(rel=max)"]
METHODS: dict[str, Any] = {
    "RankBoost": rw.RankBoost(n_estimators=40 + FEATURES // 10, cumulative=True),
    "VSIM, unseen = 0": rw.VSIM(unseen=0),
    "VSIM, unseen skipped": rw.VSIM(),
    "nearest neighbor": rw.NearestNeighbor(),
    "random": None,
}


def movielens() -> np.ndarray:
    ratings = rw.load_dataset("movielens-1m")
    table = np.full((ratings.n_users, ratings.n_items), np.nan)
    table[ratings.user, ratings.item] = ratings.value
    return table


def made(n_viewers: int = 12_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    table = made_ratings(film_counts(n_viewers, rng), rng).toarray()
    return np.where(table > 0, table, np.nan)


def run(
    table: np.ndarray, targets: np.ndarray, reference: np.ndarray, seed: int
) -> dict[str, dict[str, float]]:
    """Means over the targets; ``worst``: nearest neighbor with ties broken against it."""
    rng = np.random.default_rng(seed)
    scores: dict[str, list[np.ndarray]] = {name: [] for name in [*METHODS, "worst", "best"]}
    grades, who = [], []
    for number, target in enumerate(targets):
        films = rng.permutation(np.flatnonzero(~np.isnan(table[target])))
        half = len(films) // 2
        X, y = table[np.ix_(reference[reference != target], films)].T, table[target, films]
        for name, model in METHODS.items():
            if model is None:
                scores[name].append(np.zeros(len(y) - half))
                continue
            scores[name].append(model.fit(X[:half], y[:half]).decision_function(X[half:]))
        order = np.unique(scores["nearest neighbor"][-1], return_inverse=True)[1]
        scores["worst"].append(order - 0.01 * y[half:])
        scores["best"].append(order + 0.01 * y[half:])
        grades.append(y[half:])
        who.append(np.full(len(y) - half, number))
    y, qid = np.concatenate(grades), np.concatenate(who)
    return {
        name: {m: float(rw.evaluate(np.concatenate(s), y, qid, [m])[m]) for m in MEASURES}
        for name, s in scores.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    warnings.simplefilter("ignore", DegenerateDataWarning)  # halves with one grade only
    n = n_trials(argv, TARGETS, 20)
    found: dict[str, Any] = {}
    tables = {"MovieLens 1M": movielens(), "films after EachMovie": made()}
    print(f"PROT of nearest neighbor, {n} viewers, {FEATURES} features (paper: below random, .45)")
    for title, table in tables.items():
        rng = np.random.default_rng(1)
        counts = (~np.isnan(table)).sum(axis=1)
        order = rng.permutation(np.flatnonzero(counts >= 10))
        cells = run(table, order[:n], order[n : n + FEATURES], 1)
        found[title] = cells
        names = ("random", "nearest neighbor", "worst", "best")
        print(f"  {title:22} " + ", ".join(f"{k} {cells[k]['PROT(rel=max)']:.3f}" for k in names))
    print("  worst and best: films that the neighbor ties are ordered against and for the viewer")
    table = tables["films after EachMovie"]
    counts = (~np.isnan(table)).sum(axis=1)
    print(f"\ndisagreement on films after EachMovie, by density of the features; {n} viewers")
    print(f"  {'':22}" + "".join(f"{name:>9}" for name in BINS))
    by_bin = {}
    for name, (low, high) in BINS.items():
        rng = np.random.default_rng(2)
        targets = rng.permutation(np.flatnonzero(counts >= 10))[:n]
        inside = np.setdiff1d(np.flatnonzero((counts >= low) & (counts <= high)), targets)
        by_bin[name] = run(table, targets, rng.permutation(inside)[:FEATURES], 2)
    for method in METHODS:
        cells = [by_bin[name][method]["Disagreement"] for name in BINS]
        print(f"  {method:22}" + "".join(f"{cell:9.4f}" for cell in cells))
    found["density"] = by_bin
    save("rankboost_table_attempts", found)


if __name__ == "__main__":
    main()
