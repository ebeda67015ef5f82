"""Which ranker should I use? All of ours and the tree rankers of three peers, tuned alike.

Five folds of OHSUMED and MQ2008 and the MSLR-WEB sample; eight trials for every system, chosen by
NDCG@10 on validation queries. Two more lines take the system itself by validation, fold by fold:
the best of many is only fair when it is picked before the test. Needs RANKWRIGHT_DATA, and
lightgbm, xgboost and catboost for the peers (a missing one is left out). ``--resume`` goes on where
an earlier run was cut off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from experiments.keeprank.folds import Outcome, System, load, load_fold, run_system, save
from experiments.keeprank.peers import CatBoost, LightGBM, XGBoost

import rankwright as rw
from rankwright.data import split_queries
from rankwright.metrics.significance import bootstrap_interval

C8 = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]
C4 = C8[1::2]
ROUNDS = [5, 10, 20, 50, 100, 200, 300, 500]
GAMMA = [0.5 / sigma2 for sigma2 in (0.5, 1.0, 5.0, 10.0)]
LOSS = ["hinge", "squared_hinge"]
HIDDEN = {"hidden_layer_sizes": [(), (10,)], "alpha": [1e-4, 1e-3, 1e-2, 1e-1]}
RATES = [0.03, 0.1]
TREES = {
    "estimator": [
        rw.TreeRanking(max_leaf_nodes=n, learning_rate=rate) for n in (4, 8) for rate in RATES
    ],
    "n_estimators": [50, 200],
}
BOOST = rw.RankBoost()

OURS = [  # eight trials each
    System("Regression", rw.RidgeRanker(), {"alpha": C8}),
    System(
        "PRank, averaged",
        rw.PRank(average=True, random_state=0),
        {"max_iter": [1, 3, 10, 30], "shuffle": [False, True]},
    ),
    System("BayesianPRank", rw.BayesianPRank(), {"prior": [10, 30, 100, 300], "max_iter": [1, 2]}),
    System(
        "WidrowHoff",
        rw.WidrowHoff(),
        {"learning_rate": [1e-3, 3e-3, 1e-2, 3e-2], "max_iter": [1, 5]},
    ),
    System("MPRank", rw.MPRank(), {"C": C8}),
    System("SVRank", rw.SVRank(power=2), {"C": C8}),
    System("RankSVM", rw.RankSVM(), {"C": C4, "loss": LOSS}),
    System("RankSVM, ndcg", rw.RankSVM(weighting="NDCG"), {"C": C4, "loss": LOSS}),
    System(
        "RankSVM, rbf",
        rw.RankSVM(kernel="rbf", n_components=200),
        {"C": [10.0, 100.0], "gamma": [0.02, 0.05, 0.2, 0.5]},
    ),
    System("KeepRank", rw.KeepRank(), {"gamma": GAMMA, "max_iter": [2, 5]}),
    System(
        "OnlineKeepRank",
        rw.OnlineKeepRank(max_iter=3),
        {"gamma": GAMMA, "learning_rate": [0.02, 0.1]},
    ),
    System("RankNet", rw.RankNet(random_state=0), HIDDEN),
    System("RankNet, ndcg", rw.RankNet(random_state=0, weighting="NDCG"), HIDDEN),
    System("FRank", rw.FRank(), {"n_estimators": ROUNDS}),
    System("AdaBoostRanker", rw.AdaBoostRanker(), {"n_estimators": ROUNDS}),
    System(
        "RankBoost", BOOST, {"n_estimators": [20, 50, 150, 400], "cumulative": [True, "signed"]}
    ),
    System("RankBoost, trees", BOOST, TREES),
    System("RankBoost, trees, ndcg", rw.RankBoost(weighting="NDCG"), TREES),
]
SIZES = {"n_estimators": [50, 200], "rate": RATES}
PEERS = {
    "lightgbm": System("LightGBM", LightGBM(), {"num_leaves": [4, 8], **SIZES}),
    "xgboost": System("XGBoost", XGBoost(), {"max_depth": [2, 4], **SIZES}),
    "catboost": System("CatBoost", CatBoost(), {"max_depth": [2, 4], **SIZES}),
}
MEASURES = ["NDCG@10", "AP"]


def systems() -> list[System]:
    found = list(OURS)
    for module, system in PEERS.items():
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
    """One data set: the table printed, its rows kept system by system, for it is a long run."""
    folds, rows = folds_of(name, n_folds), load(f"keeprank_which_ranker_{name}", resume)
    for system in systems():
        if system.name in rows:
            continue
        start = time.perf_counter()
        rows[system.name] = row_of([run_system(system, fold, "NDCG@10") for fold in folds], folds)
        took = time.perf_counter() - start
        print(f"  {name} {system.name}: {took:.0f} s", file=sys.stderr, flush=True)
        save(f"keeprank_which_ranker_{name}", rows)
    show(name, rows)
    return rows


def row_of(outcomes: list[Outcome], folds: list[Any]) -> dict[str, Any]:
    """What is kept of a system: a list entry per fold."""
    scores = [
        rw.evaluate(outcome.scores, fold.test.y, fold.test.qid, MEASURES)
        for outcome, fold in zip(outcomes, folds, strict=True)
    ]
    return {
        **{m: [found.per_query(m).tolist() for found in scores] for m in MEASURES},
        "valid": [outcome.valid for outcome in outcomes],
        "seconds": [outcome.seconds for outcome in outcomes],
        "bytes": [outcome.n_bytes for outcome in outcomes],
        "chosen": [outcome.params for outcome in outcomes],
    }


def picked(rows: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """In each fold, the system that was best on its validation queries."""
    entrants = [rows[name] for name in names if name in rows]
    folds = range(len(entrants[0]["valid"]))
    best = [max(entrants, key=lambda row: row["valid"][fold]) for fold in folds]
    kept = (*MEASURES, "seconds", "bytes")
    return {key: [row[key][fold] for fold, row in zip(folds, best, strict=True)] for key in kept}


def show(name: str, rows: dict[str, Any]) -> None:
    ours = [system.name for system in OURS]
    peers = [system.name for system in PEERS.values() if system.name in rows]
    shown = {**rows, "**ours, picked on validation**": picked(rows, ours)}
    if peers:
        shown["**peers, picked on validation**"] = picked(rows, peers)
    print(f"\n{name}: all test queries, 95 % bootstrap intervals; one training, model file\n")
    print("| ranker | NDCG@10 | | MAP | | CPU s | model KB |")
    print("| :--- | ---: | :--- | ---: | :--- | ---: | ---: |")
    lines = [(name, {m: _known(row[m]) for m in MEASURES}, row) for name, row in shown.items()]
    for system, values, row in sorted(lines, key=lambda line: -line[1]["NDCG@10"].mean()):
        cells = []
        for found in values.values():
            low, high = bootstrap_interval(found)
            cells.append(f"{found.mean():.4f} | {low:.3f} .. {high:.3f}")
        seconds, size = np.mean(row["seconds"]), np.mean(row["bytes"]) / 1e3
        print(f"| {system} | {' | '.join(cells)} | {seconds:.2f} | {size:.0f} |")


def _known(folds: list[list[float]]) -> Any:
    """The queries of all folds that have something relevant."""
    values = np.concatenate(folds)
    return values[~np.isnan(values)]


DATASETS = ["mslr-web-sample", "letor3-ohsumed", "letor4-mq2008"]


def main(argv: Sequence[str] | None = None) -> None:
    words = list(argv or [])
    n_folds = 1 if "--quick" in words else 5
    chosen = [word.removeprefix("--data=") for word in words if word.startswith("--data=")]
    for name in chosen or DATASETS:
        run(name, n_folds, "--resume" in words)


if __name__ == "__main__":
    main()
