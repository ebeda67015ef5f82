"""Which ranker should I use? All of ours and the tree rankers of three peers, tuned alike.

Five folds of OHSUMED and MQ2008 and the MSLR-WEB sample; four trials for every system, chosen by
NDCG@10 on validation queries. Needs RANKWRIGHT_DATA, and lightgbm, xgboost and catboost for the
peers (a missing one is left out). ``--resume`` goes on where an earlier run was cut off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from experiments.keeprank.folds import Outcome, System, load, load_fold, pooled, run_system, save
from experiments.keeprank.peers import CatBoost, LightGBM, XGBoost

import rankwright as rw
from rankwright.data.splits import split_queries
from rankwright.metrics.significance import bootstrap_interval

C4 = [1.0, 10.0, 100.0, 1000.0]
ROUNDS = [10, 30, 100, 300]
SIGMA2 = [0.5, 1.0, 5.0, 10.0]
HIDDEN = {"hidden": [(), (10,)], "alpha": [1e-3, 1e-2]}
TREES = [rw.TreeRanking(max_leaves=leaves, learning_rate=0.05) for leaves in (4, 8)]
BOOST = rw.RankBoost(progress=False)

OURS = [
    System("Regression", rw.Regression(), {"alpha": [0.1, 1.0, 10.0, 100.0]}),
    System("PRank, averaged", rw.PRank(average=True), {"n_passes": [1, 3, 10, 30]}),
    System("BayesianPRank", rw.BayesianPRank(), {"prior": [10, 100], "n_passes": [1, 2]}),
    System("WidrowHoff", rw.WidrowHoff(), {"step": [0.001, 0.01], "n_passes": [1, 5]}),
    System("MPRank", rw.MPRank(), {"C": C4}),
    System("SVRank", rw.SVRank(power=2), {"C": C4}),
    System("RankSVM", rw.RankSVM(), {"C": [1.0, 10.0], "loss": ["hinge", "squared_hinge"]}),
    System("RankSVM, ndcg", rw.RankSVM(weighting="ndcg"), {"C": C4}),
    System(
        "RankSVM, rbf",
        rw.RankSVM(kernel="rbf", n_components=200),
        {"C": [10.0, 100.0], "gamma": [0.05, 0.5]},
    ),
    System("KeepRank", rw.KeepRank(n_passes=2), {"sigma2": SIGMA2}),
    System("OnlineKeepRank", rw.OnlineKeepRank(n_passes=3, step=0.02), {"sigma2": SIGMA2}),
    System("RankNet", rw.RankNet(random_state=0), HIDDEN),
    System("RankNet, ndcg", rw.RankNet(random_state=0, weighting="ndcg"), HIDDEN),
    System("FRank", rw.FRank(), {"n_rounds": ROUNDS}),
    System("AdaBoostRanker", rw.AdaBoostRanker(), {"n_rounds": ROUNDS}),
    System("RankBoost", BOOST, {"n_rounds": [30, 150], "cumulative": [True, "signed"]}),
    System("RankBoost, trees", BOOST, {"weak": TREES, "n_rounds": [50, 150]}),
    System(
        "RankBoost, trees, ndcg",
        rw.RankBoost(progress=False, weighting="ndcg"),
        {"weak": TREES, "n_rounds": [50, 150]},
    ),
]
PEERS = [
    ("lightgbm", System("LightGBM", LightGBM(), {"num_leaves": [4, 8], "n_estimators": [50, 200]})),
    ("xgboost", System("XGBoost", XGBoost(), {"max_depth": [2, 4], "n_estimators": [50, 200]})),
    ("catboost", System("CatBoost", CatBoost(), {"depth": [2, 4], "iterations": [50, 200]})),
]
MEASURES = ["NDCG@10", "AP"]


def systems() -> list[System]:
    found = list(OURS)
    for module, system in PEERS:
        if find_spec(module) is None:
            print(f"{system.name} is left out: pip install {module}")
        else:
            found.append(system)
    return found


def folds_of(name: str, n_folds: int) -> list[Any]:
    if name != "mslr-web-sample":
        return [load_fold(name, fold) for fold in range(1, n_folds + 1)]
    data = rw.load_dataset(name)
    scale = rw.QueryNormalizer()
    train, test = (
        rw.Items(scale.fit_transform(part.X, qid=part.qid), part.y, qid=part.qid)
        for part in (data.train, data.test)
    )
    split = split_queries(train.qid, test_size=0.3, random_state=0)
    parts = {"train": train.take(split.train), "vali": train.take(split.test), "test": test}
    return [type("Fold", (), parts)]


def run(name: str, n_folds: int = 5, resume: bool = False) -> dict[str, Any]:
    folds = folds_of(name, n_folds)
    tests, rows = [fold.test for fold in folds], load(f"keeprank_which_ranker_{name}", resume)
    for system in systems():
        if system.name in rows:
            continue
        start = time.perf_counter()
        outcomes: list[Outcome] = [run_system(system, fold, "NDCG@10") for fold in folds]
        scores = pooled(outcomes, tests, MEASURES, None)
        rows[system.name] = {
            **{m: scores[m] for m in MEASURES},
            **{f"{m} interval": _interval(scores.per_query(m)) for m in MEASURES},
            "seconds": float(np.mean([outcome.seconds for outcome in outcomes])),
            "bytes": float(np.mean([outcome.n_bytes for outcome in outcomes])),
            "chosen": [outcome.params for outcome in outcomes],
        }
        took = time.perf_counter() - start
        line = f"  {name} {system.name}: {scores['NDCG@10']:.4f}, {took:.0f} s"
        print(line, file=sys.stderr, flush=True)
        save(f"keeprank_which_ranker_{name}", rows)  # system by system: a long run
    show(name, rows)
    return rows


def _interval(values: Any) -> tuple[float, float]:
    low, high = bootstrap_interval(values[~np.isnan(values)])
    return float(low), float(high)


def show(name: str, rows: dict[str, Any]) -> None:
    print(f"\n{name}: all test queries, 95 % bootstrap intervals; training once, model file\n")
    print("| ranker | NDCG@10 | | MAP | | train s | model KB |")
    print("| :--- | ---: | :--- | ---: | :--- | ---: | ---: |")
    for system, row in sorted(rows.items(), key=lambda item: -item[1]["NDCG@10"]):
        cells = [
            f"{row[m]:.4f} | {row[f'{m} interval'][0]:.3f} .. {row[f'{m} interval'][1]:.3f}"
            for m in MEASURES
        ]
        print(
            f"| {system} | {' | '.join(cells)} | {row['seconds']:.2f} | {row['bytes'] / 1e3:.0f} |"
        )


DATASETS = ["mslr-web-sample", "letor3-ohsumed", "letor4-mq2008"]


def main(argv: Sequence[str] | None = None) -> None:
    words = list(argv or [])
    n_folds = 1 if "--quick" in words else 5
    chosen = [word.removeprefix("--data=") for word in words if word.startswith("--data=")]
    for name in chosen or DATASETS:
        run(name, n_folds, "--resume" in words)


if __name__ == "__main__":
    main()
