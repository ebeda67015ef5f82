"""Where RankBoost trails VSIM on MovieLens: its options one at a time, on the same users.

1,000 features and 500 target users of a split that Figures 5 to 7 do not use. Printed are the mean
disagreement and its difference to VSIM, paired user by user, with its standard error: over all
users, and by the number of films that a user gave as feedback. "three values" merges 1-2 and 4-5
stars everywhere, in features, feedback and test. Options: ``--quick``, ``--targets=n``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from experiments.rankboost.movies import RESULTS, load, mean_and_error, size_of

import rankwright as rw
from rankwright import recommend
from rankwright.data import split_within_users

SEED = 100
FILMS = (0, 25, 50, 100, 10_000)


def variants(n_features: int) -> dict[str, Any]:
    """RankBoost as in the figures (first), and with one option changed; VSIM (last)."""
    n_estimators = 40 + n_features // 10
    paper = {"n_estimators": n_estimators, "cumulative": True}
    changes: dict[str, dict[str, Any]] = {
        "RankBoost": {},
        f"{n_estimators // 7} rounds": {"n_estimators": n_estimators // 7},
        f"{4 * n_estimators} rounds": {"n_estimators": 4 * n_estimators},
        "smoothing 1e-12": {"smoothing": 1e-12},
        "default 1": {"default": 1},
        "default 0": {"default": 0},
        f"default 0, {n_estimators // 7} rounds": {"default": 0, "n_estimators": n_estimators // 7},
        f"default 0, {4 * n_estimators} rounds": {"default": 0, "n_estimators": 4 * n_estimators},
        "signed": {"cumulative": "signed"},
        "no constraint": {"cumulative": False},
    }
    tried = {name: rw.RankBoost(**{**paper, **change}) for name, change in changes.items()}
    return {**tried, "VSIM": rw.VSIM()}


def main(argv: list[str] | None = None) -> None:
    size = size_of(sys.argv[1:] if argv is None else argv, splits=1, targets=500)
    ratings = load()
    n_features = 200 if size.quick else 1000
    people = np.random.default_rng(SEED).permutation(ratings.n_users)
    reference, targets = people[:n_features], people[n_features : n_features + size.targets]
    split = split_within_users(ratings.user, random_state=SEED)
    films = np.bincount(ratings.user[split.train], minlength=ratings.n_users)[targets]
    bins = [(films >= low) & (films < high) for low, high in pairwise(FILMS)]
    groups = [np.ones(len(targets), bool), *bins]
    tried = variants(n_features)
    five = _disagreement(recommend.compare(ratings, split, tried, targets, reference))
    merged = replace(ratings, value=np.digitize(ratings.value, [2.5, 3.5]).astype(float))
    few = {name: tried[name] for name in ("RankBoost", "VSIM")}
    three = _disagreement(recommend.compare(merged, split, few, targets, reference))
    print(f"{len(targets)} users, {n_features} features; minus VSIM, by films of feedback")
    heads = [f"{low}-{high - 1}" for low, high in pairwise(FILMS[:-1])] + [f"{FILMS[-2]}+"]
    print(f"  {'':<24}{'':>9}" + "".join(f"{head:>17}" for head in ["all", *heads]))
    print(f"  {'users':<24}{'':>9}" + "".join(f"{group.sum():>17}" for group in groups))
    report = {name: _row(name, five[name], five["VSIM"], groups) for name in five}
    for name in three:
        title = f"{name}, three values"
        report[title] = _row(title, three[name], three["VSIM"], groups)
    (RESULTS / "rankboost_table_variants.json").write_text(json.dumps(report, indent=1))


def _disagreement(found: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: scores.per_query("Disagreement") for name, scores in found.items()}


def _row(name: str, value: np.ndarray, vsim: np.ndarray, groups: list[np.ndarray]) -> list[Any]:
    """Print one row: the mean, then its difference to VSIM in each group of users."""
    gap, user = value - vsim, np.arange(len(value))
    cells = [mean_and_error(user[group], gap[group]) for group in groups]
    shown = "".join(f"{mean:>+10.4f} ({error:.3f})"[-17:] for mean, error in cells)
    print(f"  {name:<24}{np.nanmean(value):>9.4f}" + shown * (name.partition(",")[0] != "VSIM"))
    return [float(np.nanmean(value)), *cells]


if __name__ == "__main__":
    main()
