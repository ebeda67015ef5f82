"""LambdaMART and LightGBM with equal parameters: NDCG@10 by the number of rounds.

Eight leaves of at least 20 rows, rate 0.1, 255 bins, pair weights NDCG@30, the five folds of
``table_boosting``. The table asks whether LambdaMART learns a worse model than a peer from the same
data; no test part is scored. NDCG has rankwright's conventions. Needs RANKWRIGHT_DATA and lightgbm
(extra ``bench``). ``--ohsumed``, ``--mq2008`` or ``--mslr``: only that set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.letor.table_boosting import SETS, Part, load

import rankwright as rw

ROUNDS = (5, 10, 20, 40, 80, 150)
Predict = Callable[[Any], list[Any]]  # the scores of rows after each of ROUNDS


def ours(train: Part) -> Predict:
    model = rw.LambdaMART(
        tree="leafwise", weighting="NDCG@30", learning_rate=0.1, n_estimators=ROUNDS[-1],
        max_leaf_nodes=8, n_jobs=1,
    )  # fmt: skip
    model.fit(train.X, train.y, qid=train.qid)

    def predict(X: Any) -> list[Any]:
        stages = list(model.staged_decision_function(X))
        return [stages[min(n, len(stages)) - 1] for n in ROUNDS]

    return predict


def lightgbm(train: Part) -> Predict:
    from lightgbm import LGBMRanker

    model = LGBMRanker(
        n_estimators=ROUNDS[-1], num_leaves=8, min_child_samples=20, random_state=0, n_jobs=1,
        verbosity=-1,
    )  # fmt: skip
    queries = rw.data.Queries.from_ids(train.qid)
    order = np.argsort(queries.codes, kind="stable")
    booster = model.fit(
        train.X[order], train.y[order].astype(int), group=np.bincount(queries.codes)
    ).booster_
    return lambda X: [booster.predict(X, num_iteration=n, num_threads=1) for n in ROUNDS]


def curve(predict: Predict, part: Part) -> list[float]:
    return [
        float(rw.evaluate(scores, part.y, part.qid, ["NDCG@10"])["NDCG@10"])
        for scores in predict(part.X)
    ]


def run(name: str) -> None:
    systems = {"LambdaMART": ours, "LightGBM": lightgbm}
    curves: dict[str, list[Any]] = {system: [] for system in systems}
    for number in range(1, 6):
        fold = load(name, number)
        for system, train in systems.items():
            predict = train(fold.train)
            curves[system].append([curve(predict, part) for part in (fold.train, fold.vali)])
    found = {system: np.array(values) for system, values in curves.items()}
    print(f"\n{SETS[name]}, means over five folds" + "".join(f"{n:>7}" for n in ROUNDS))
    for i, part in enumerate(("training", "validation")):
        for system, values in found.items():
            _show(f"  {part:10}  {system:10}", values[:, i].mean(axis=0), "7.4f")
    gap = found["LambdaMART"][:, 1] - found["LightGBM"][:, 1]
    _show("  validation  difference", gap.mean(axis=0), "+7.3f")
    _show("              its std. error", gap.std(axis=0, ddof=1) / np.sqrt(len(gap)), "7.3f")


def _show(title: str, values: Any, form: str) -> None:
    print(f"{title:31}" + "".join(f"{value:{form}}" for value in values), flush=True)


def main(argv: list[str] | None = None) -> None:
    chosen = [name for name, title in SETS.items() if f"--{title.lower()}" in (argv or [])]
    for name in chosen or SETS:
        run(name)


if __name__ == "__main__":
    main(sys.argv[1:])
