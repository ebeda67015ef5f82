"""AutoRanker beside RankBoost with default parameters, on test queries that neither has seen.

The first fold of OHSUMED and of MQ2008 (RANKWRIGHT_DATA) and generated data. The mean NDCG@10 of
AutoRanker's choice, of each of its candidates refitted alone, and of RankBoost(): the choice
should not be below the best of them by more than noise. ``--quick``: choice and default only.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from rankwright.data.datasets.synthetic import make_queries
from rankwright.data.queries import split_queries
from rankwright.selection.auto import Rows

RESULTS = Path(__file__).parents[1] / "_results"
SETS = ("letor3-ohsumed", "letor4-mq2008")


def data(name: str) -> tuple[Any, Any]:
    """Training and test items; the validation part of a fold belongs to neither."""
    if name != "generated":
        fold = rw.load_dataset(name, fold=1)
        return fold.train, fold.test
    drawn = make_queries(n_queries=400, n_features=20, noise=2.0, random_state=0)
    items = rw.Items(drawn.X, drawn.y, qid=drawn.qid)
    split = split_queries(items.qid, test_size=0.5, random_state=0)
    return items.take(split.train), items.take(split.test)


def scores_of(model: Any, test: Any) -> rw.metrics.Scores:
    return rw.evaluate(model.decision_function(test.X), test.y, test.qid, ["NDCG@10", "AP"])


def run(name: str, quick: bool) -> dict[str, Any]:
    train, test = data(name)
    start = time.perf_counter()
    auto = rw.AutoRanker(random_state=0, verbose=1).fit(train.X, train.y, qid=train.qid)
    seconds = time.perf_counter() - start
    systems = {
        "RankBoost()": rw.RankBoost().fit(train.X, train.y, qid=train.qid),
        f"auto: {auto.best_name_}": auto,
    }
    for result in () if quick else auto.results_:
        if result.name != auto.best_name_:
            rows = Rows(train.X, np.asarray(train.y, np.float64), train.qid)
            systems[result.name] = auto._refit(result, rows)
    scores = {label: scores_of(model, test) for label, model in systems.items()}
    print(f"\n{name}: {train.n_queries} training queries, {seconds:.0f} s")
    print(f"{auto.results_}\n")
    print(f"on {test.n_queries} test queries:\n{rw.compare(scores)}", flush=True)
    return {label: dict(found.to_dict()) for label, found in scores.items()}


def main(argv: list[str] | None = None) -> None:
    argv = argv or []
    names = [name for name in (*SETS, "generated") if f"--{name}" in argv] or [*SETS, "generated"]
    results = {name: run(name, "--quick" in argv) for name in names}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "letor_auto.json").write_text(json.dumps(results, indent=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
