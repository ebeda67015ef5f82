"""Boosted rankers on LETOR and MSLR, five folds: ours beside LightGBM, XGBoost and CatBoost.

Every system chooses its setting and its number of rounds by NDCG@10 on the validation part of the
fold, and nothing else; the test part is looked at once. Measures follow LETOR 3.0 (discount 1 for
the first two places, a query without a relevant document counts 0). The 86 queries of the MSLR
sample are cut into five folds at random. Needs RANKWRIGHT_DATA; peers (extra ``bench``) that are
not installed are left out. ``--ohsumed``, ``--mq2008`` or ``--mslr``: only that set. ``--trees``:
only LambdaMART and the three peers. What a system reached on a set is kept in
``_results/letor_boosting``, so that an interrupted run continues; delete the folder to start again.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankwright as rw

RESULTS = Path(__file__).parents[1] / "_results"
SETS = {"letor3-ohsumed": "OHSUMED", "letor4-mq2008": "MQ2008", "mslr-web-sample": "MSLR"}
PUBLISHED = {"OHSUMED": "published RankBoost: MAP .44 (LETOR 3.0)", "MQ2008": "", "MSLR": ""}
ROUNDS, PATIENCE = 300, 50
Scores = tuple[Any, Any]  # of the validation part and of the test part


class Part(NamedTuple):
    X: Any
    y: Any
    qid: Any


class Fold(NamedTuple):
    train: Part
    vali: Part
    test: Part


def load(name: str, number: int) -> Any:
    """One fold of a set; three parts of five are for training, one is for validation."""
    if name != "mslr-web-sample":
        return rw.load_dataset(name, fold=number)
    files = rw.load_dataset(name)
    X, y = (np.concatenate([getattr(f, part) for f in (files.train, files.test)]) for part in "Xy")
    qid = np.concatenate([_codes(files.train), 1000 + _codes(files.test)])
    queries = np.random.default_rng(0).permutation(np.unique(qid))
    of_query = dict(zip(queries.tolist(), (np.arange(len(queries)) % 5).tolist(), strict=True))
    part = (np.array([of_query[q] for q in qid.tolist()]) + number) % 5
    rows = part < 3, part == 3, part == 4
    return Fold(*(Part(X[some], y[some], qid[some]) for some in rows))


def boosted(ranker: Any, grid: str) -> Callable[[Any], Iterator[Scores]]:
    """A ranker of ours in each setting, stopped by the validation queries."""

    def settings(fold: Any) -> Iterator[Scores]:
        train, vali = fold.train, fold.vali
        for chosen in GRIDS[grid]:
            model = ranker(n_estimators=ROUNDS, early_stopping=PATIENCE, **chosen)
            model.fit(train.X, train.y, qid=train.qid, eval_set=(vali.X, vali.y), eval_qid=vali.qid)
            yield model.decision_function(vali.X), model.decision_function(fold.test.X)

    return settings


def ranksvm(fold: Any) -> Iterator[Scores]:
    for C in (0.01, 0.1, 1.0):
        model = rw.RankSVM(C=C, normalize="query")
        model.fit(fold.train.X, fold.train.y, qid=fold.train.qid)
        yield tuple(model.decision_function(p.X, p.qid) for p in (fold.vali, fold.test))  # type: ignore[misc]


LEAFWISE: dict[str, Any] = {"tree": "leafwise", "learning_rate": 0.1, "n_jobs": 1}
GRIDS: dict[str, list[dict[str, Any]]] = {
    "NDCG@30": [
        {**LEAFWISE, "max_leaf_nodes": leaves, "weighting": "NDCG@30"} for leaves in (4, 8, 16)
    ],
    "no weights": [
        {**LEAFWISE, "max_leaf_nodes": leaves, "weighting": None} for leaves in (4, 8, 16)
    ],
    "thresholds": [
        {"criterion": criterion, "cumulative": cumulative}
        for criterion in ("r", "z")
        for cumulative in (True, "signed", False)
    ],
    "trees": [
        {"estimator": rw.TreeRanking(max_leaf_nodes=leaves, learning_rate=0.1)}
        for leaves in (4, 8, 16)
    ],
    "trees, |delta NDCG|": [
        {"estimator": rw.TreeRanking(max_leaf_nodes=leaves, learning_rate=0.1), "weighting": "NDCG"}
        for leaves in (4, 8, 16)
    ],
}


def lightgbm(fold: Any) -> Iterator[Scores]:
    import lightgbm

    # One thread each: with two, several programs on the machine wait for each other.
    for leaves in (4, 8, 16):
        model = lightgbm.LGBMRanker(
            n_estimators=ROUNDS, num_leaves=leaves, min_child_samples=20, random_state=0,
            n_jobs=1, verbosity=-1,
        )  # fmt: skip
        model.fit(
            fold.train.X, fold.train.y.astype(int), group=_sizes(fold.train),
            eval_X=fold.vali.X, eval_y=fold.vali.y.astype(int), eval_group=[_sizes(fold.vali)],
            eval_at=[10], callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )  # fmt: skip
        yield model.booster_.predict(fold.vali.X), model.booster_.predict(fold.test.X)


def xgboost(fold: Any) -> Iterator[Scores]:
    import xgboost

    for leaves in (4, 8, 16):
        model = xgboost.XGBRanker(
            n_estimators=ROUNDS, learning_rate=0.1, grow_policy="lossguide", max_depth=0,
            max_leaves=leaves, objective="rank:ndcg", eval_metric="ndcg@10",
            early_stopping_rounds=PATIENCE, n_jobs=1, random_state=0,
        )  # fmt: skip
        model.fit(
            fold.train.X, fold.train.y, qid=_codes(fold.train),
            eval_set=[(fold.vali.X, fold.vali.y)], eval_qid=[_codes(fold.vali)], verbose=False,
        )  # fmt: skip
        yield model.predict(fold.vali.X), model.predict(fold.test.X)


def catboost(fold: Any) -> Iterator[Scores]:
    import catboost

    pools = [
        catboost.Pool(part.X, part.y, group_id=_codes(part)) for part in (fold.train, fold.vali)
    ]
    for depth in (2, 3, 4):  # 4, 8 and 16 leaves
        model = catboost.CatBoostRanker(
            iterations=ROUNDS, learning_rate=0.1, depth=depth, loss_function="YetiRank",
            eval_metric="NDCG:top=10", early_stopping_rounds=PATIENCE, thread_count=1,
            random_seed=0, verbose=False, allow_writing_files=False,
        )  # fmt: skip
        model.fit(pools[0], eval_set=pools[1])
        yield model.predict(fold.vali.X), model.predict(fold.test.X)


SYSTEMS: dict[str, tuple[str, Callable[[Any], Iterator[Scores]]]] = {
    "LambdaMART": ("rankwright", boosted(rw.LambdaMART, "NDCG@30")),
    "LambdaMART, no weights": ("rankwright", boosted(rw.LambdaMART, "no weights")),
    "RankBoost": ("rankwright", boosted(rw.RankBoost, "thresholds")),
    "RankBoost, trees": ("rankwright", boosted(rw.RankBoost, "trees")),
    "RankBoost, trees, |delta NDCG|": ("rankwright", boosted(rw.RankBoost, "trees, |delta NDCG|")),
    "RankSVM, linear": ("rankwright", ranksvm),
    "LightGBM lambdarank": ("lightgbm", lightgbm),
    "XGBoost rank:ndcg": ("xgboost", xgboost),
    "CatBoost YetiRank": ("catboost", catboost),
}


TREES = [
    "LambdaMART",
    "LambdaMART, no weights",
    "LightGBM lambdarank",
    "XGBoost rank:ndcg",
    "CatBoost YetiRank",
]


def _codes(part: Any) -> Any:
    return rw.data.Queries.from_ids(part.qid).codes


def _sizes(part: Any) -> Any:
    return rw.data.Queries.from_ids(part.qid).sizes


def _best(settings: Iterator[Scores], fold: Any) -> Any:
    """The test scores of the setting that is best on the validation part."""
    found = [
        (rw.evaluate(vali, fold.vali.y, fold.vali.qid, ["NDCG@10"])["NDCG@10"], -i, test)
        for i, (vali, test) in enumerate(settings)
    ]
    return max(found, key=lambda each: each[:2])[2]


def run(name: str, folds: int = 5, systems: list[str] | None = None) -> dict[str, Any]:
    """Per system: mean over folds of MAP and NDCG@10, and the values of every query."""
    table: dict[str, Any] = {}
    for system, (module, settings) in SYSTEMS.items():
        if importlib.util.find_spec(module) is None or (systems and system not in systems):
            continue
        kept = RESULTS / "letor_boosting" / f"{name}, {system.replace('|', '')}.json"
        if folds == 5 and kept.is_file():
            table[system] = json.loads(kept.read_text())
        else:
            table[system] = _cross_validate(settings, name, folds)
        if folds == 5:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(table[system]))
        ap, ndcg = table[system]["MAP"], table[system]["NDCG@10"]
        print(f"  {system:32s} MAP {ap:.4f}   NDCG@10 {ndcg:.4f}", flush=True)
    return table


def _cross_validate(settings: Callable[[Any], Iterator[Scores]], name: str, folds: int) -> Any:
    means, each = [], []
    for number in range(1, folds + 1):
        fold = load(name, number)
        scores = _best(settings(fold), fold)
        found = rw.evaluate(scores, fold.test.y, fold.test.qid, ["AP", "NDCG@10"], like="letor3")
        means.append([found["AP"], found["NDCG@10"]])
        each.append(found.per_query("NDCG@10"))
    ap, ndcg = np.mean(means, axis=0)
    queries = np.concatenate(each).tolist()
    return {"MAP": float(ap), "NDCG@10": float(ndcg), "queries": queries}


def _differences(table: dict[str, Any]) -> None:
    """NDCG@10 against the best peer, query by query, with the standard error."""
    ours = [name for name in table if SYSTEMS[name][0] == "rankwright"]
    peers = [name for name in table if name not in ours]
    if not peers:
        return
    best = max(peers, key=lambda name: table[name]["NDCG@10"])
    for name in ours:
        gap = np.array(table[name]["queries"]) - np.array(table[best]["queries"])
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        print(f"  {name} minus {best}: NDCG@10 {gap.mean():+.4f} +- {error:.4f} a query")


def main(argv: list[str] | None = None) -> None:
    quick = "--quick" in (argv or [])
    try:
        rw.load_dataset("letor4-mq2008", fold=1)
    except rw.RankwrightError as error:
        print(f"needs the LETOR sets: {error}")
        return
    RESULTS.mkdir(exist_ok=True)
    systems = TREES if "--trees" in (argv or []) else None
    asked = [title for title in SETS.values() if f"--{title.lower()}" in (argv or [])]
    for name, title in SETS.items():
        if asked and title not in asked:
            continue
        print(f"{title}, {'one fold' if quick else 'five folds'}. {PUBLISHED[title]}")
        table = run(name, folds=1 if quick else 5, systems=systems)
        _differences(table)
        if not quick and systems is None:
            (RESULTS / f"letor_boosting_{title.lower()}.json").write_text(json.dumps(table))


if __name__ == "__main__":
    main(sys.argv[1:])
