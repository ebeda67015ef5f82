"""Boosting from VSIM's scores, and RankBoost with shrinkage: do they beat their parents?

MovieLens 1M, 1,000 features, users of a split that Figures 5 to 7 do not use. The hybrid starts
RankBoost from ``scale`` times the leave-one-out scores of VSIM (``init_score``) and adds what the
boosting learned to VSIM's score of a new film. Scale, rounds, ``learning_rate`` and ``colsample``
are chosen by mean disagreement on 200 validation users; 500 other users are tested. Printed are the
mean disagreement of the test users and the difference to both parents, paired user by user, with
its standard error. Options: ``--quick``, ``--targets=n``.
"""

from __future__ import annotations

import json
import sys
from itertools import product
from typing import Any, Self

import numpy as np
from experiments.rankboost.movies import RESULTS, load, mean_and_error, size_of
from sklearn.base import BaseEstimator

import rankwright as rw
from rankwright.data.splits import halve_users
from rankwright.recommend.evaluation import compare_rankers

SEED, N_VALIDATION = 101, 200
ROUNDS, SCALES = (5, 10, 20, 40, 80, 140, 280), (0.5, 1.0, 2.0, 4.0)
SHRUNKEN = (  # learning_rate, colsample
    (1.0, 1.0),
    (0.3, 1.0),
    (0.1, 1.0),
    (1.0, 0.3),
    (0.3, 0.3),
    (0.1, 0.3),
)


class Hybrid(BaseEstimator):  # type: ignore[misc]
    """``boost`` started from ``scale`` times the leave-one-out scores of VSIM."""

    def __init__(self, vsim: Any, boost: Any, scale: float) -> None:
        self.vsim = vsim
        self.boost = boost
        self.scale = scale

    def fit(self, X: Any, y: Any) -> Self:
        left_out = self.vsim.fit_transform(X, y)[:, -1]
        self.boost.fit(X, y, init_score=self.scale * left_out)
        return self

    def decision_function(self, X: Any) -> Any:
        start = self.scale * self.vsim.transform(X)[:, -1]
        return start + self.boost.decision_function(X)


def candidates() -> dict[str, dict[str, Any]]:
    """For each family all settings that the validation users choose from."""
    boost = {
        f"{rate} {share} {n}": rw.RankBoost(
            n_estimators=n, cumulative=True, learning_rate=rate, colsample=share
        )
        for (rate, share), n in product(SHRUNKEN, ROUNDS)
    }
    families: dict[str, dict[str, Any]] = {
        f"RankBoost, learning_rate {rate:g}, colsample {share:g}": {
            name: model for name, model in boost.items() if name.startswith(f"{rate} {share} ")
        }
        for rate, share in SHRUNKEN
    }
    for over in ("all", "rated"):
        families[f"hybrid of VSIM over {over}"] = {
            f"{scale} {name}": Hybrid(rw.VSIMFeature(over=over), model, scale)
            for scale, (name, model) in product(SCALES, boost.items())
            if name.startswith("0.3 1.0 ")
        }
    return families


def main(argv: list[str] | None = None) -> None:
    size = size_of(sys.argv[1:] if argv is None else argv, splits=1, targets=500)
    ratings = load()
    n_features, n_held_out = (200, 20) if size.quick else (1000, N_VALIDATION)
    people = np.random.default_rng(SEED).permutation(ratings.n_users)
    reference, rest = people[:n_features], people[n_features:]
    held_out, targets = rest[:n_held_out], rest[n_held_out : n_held_out + size.targets]
    split = halve_users(ratings.user, random_state=SEED)

    def disagreement(models: dict[str, Any], users: np.ndarray) -> dict[str, np.ndarray]:
        abstain = dict.fromkeys(models, "abstain")
        found = compare_rankers(
            ratings, split, models, users, reference, "Disagreement", missing=abstain
        )
        return {name: scores.per_query("Disagreement") for name, scores in found.items()}

    chosen = {}
    for family, models in candidates().items():
        losses = {n: np.nanmean(v) for n, v in disagreement(models, held_out).items()}
        best = min(losses, key=lambda name: losses[name])
        chosen[family] = (best, models[best])
    parents = {
        "RankBoost, T = 40 + N / 10": rw.RankBoost(
            n_estimators=40 + n_features // 10, cumulative=True
        ),
        "VSIM over all": rw.VSIM(),
        "VSIM over rated": rw.VSIM(over="rated"),
    }
    tested = disagreement(parents | {name: model for name, (_, model) in chosen.items()}, targets)
    print(f"{len(targets)} test users, {len(held_out)} validation users, {n_features} features")
    print(f"  {'':<44}{'':>9}{'minus VSIM':>18}{'minus RankBoost':>18}  chosen")
    plain = "RankBoost, learning_rate 1, colsample 1"
    report = {}
    for name, value in tested.items():
        vsim = "VSIM over all" if name == "hybrid of VSIM over all" else "VSIM over rated"
        gaps = [
            mean_and_error(np.arange(len(value)), value - tested[parent])
            for parent in (vsim, plain)
        ]
        cells = "".join(f"{mean:>+10.4f} ({error:.4f})" for mean, error in gaps)
        setting = chosen[name][0] if name in chosen else ""
        print(f"  {name:<44}{np.nanmean(value):>9.4f}{cells}  {setting}")
        report[name] = [float(np.nanmean(value)), gaps, setting]
    print("chosen: [scale] learning_rate colsample rounds; RankBoost's parent is the first family")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "rankboost_table_hybrid.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
