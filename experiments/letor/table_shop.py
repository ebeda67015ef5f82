"""A shop's table as it is: ``AutoRanker`` beside CatBoost and LightGBM, which take categories too.

The decision rule, written down before the first run of this script: the mean lead of
``AutoRanker()`` in NDCG@10 over the better of CatBoost QueryRMSE and YetiRank, the one with the
higher mean on the *test* queries, has a 95 % interval above 0, paired by query and pooled over ten
shops.

Shops are ``make_shop(500)`` with the seeds 10 to 19, which chose nothing: written to CSV without
``orders_after``, the first four fifths of the searches to train on. The last fifth has brands that
training did not have. AutoRanker gets what ``read_items`` makes of the file: a column of 0 and 1
for each level. It finds these columns and gives its trees the levels. "columns for levels" is the
same without that: the candidates that AutoRanker tried before it could. Peers get the categories as
such. They hold out every fifth training search and stop when its NDCG@10 has not improved for 50 of
at most 1,000 rounds; other parameters are defaults. Every fit has one thread and is kept in
``_results``. Needs the extra ``bench``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from experiments.letor.table_default import pooled, print_table
from experiments.parts import kept
from numpy.typing import NDArray

import rankwright as rw
from rankwright.data import make_shop
from rankwright.selection.candidates import default_candidates

N_SEARCHES, FIRST, MEASURE, ROUNDS, PATIENCE = 500, 10, "NDCG@10", 1000, 50
TEXTS = ("category", "brand", "color", "device")
NUMBERS = ("price", "stars", "stock", "cat_match")


def items_of(table: Any) -> tuple[rw.Items, rw.Items]:
    """Training and test items, read from files as ``rankwright train`` reads them."""
    cut = 4 * len(table["grade"]) // 5
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("train.csv", "test.csv")]
        for path, rows in zip(paths, (slice(0, cut), slice(cut, None)), strict=True):
            table.take(rows).write(path)
        train = rw.read_items(paths[0], kinds={"orders_after": "drop"})
        return train, rw.read_items(paths[1], like=train)


def auto(table: Any, levels: bool) -> Any:
    train, test = items_of(table)
    given: Any = "default"
    if not levels:
        measure = rw.Measure.parse(MEASURE)
        given = [
            (name, one)
            for name, one in default_candidates(measure, 3, train.X.shape, sparse=False)
            if name.startswith(("LambdaMART", "RankBoost"))  # others take no missing values
        ]
    model = rw.AutoRanker(given).fit(train.X, train.y, qid=train.qid)
    return model.decision_function(test.X)


def parts_of(table: Any) -> tuple[list[Any], Any]:
    """Rows with texts as they are, grades and query numbers: to fit, to stop by, and the rest."""
    numbers = [table[name].astype(float) for name in NUMBERS]
    launched = np.array(table["launch_date"].tolist(), "datetime64[D]").astype(float)
    texts = [[t or "missing" for t in table[name].tolist()] for name in TEXTS]
    rows = [list(row) for row in zip(*numbers, launched.tolist(), *texts, strict=True)]
    _, first, search = np.unique(table["query"], return_index=True, return_inverse=True)
    search = np.argsort(np.argsort(first))[search]  # in the order of time
    n_train, y = 4 * len(first) // 5, table["grade"]
    masks = (search < n_train) & (search % 5 != 0), (search < n_train) & (search % 5 == 0)
    found = []
    for mask in (*masks, search >= n_train):
        at = np.flatnonzero(mask)
        found.append(([rows[i] for i in at], y[at], search[at]))
    return found[:2], found[2][0]


def catboost(table: Any, loss: str) -> Any:
    from catboost import CatBoost, Pool

    columns = list(range(len(NUMBERS) + 1, len(NUMBERS) + 1 + len(TEXTS)))
    parts, test = parts_of(table)
    pools = [Pool(X, y, cat_features=columns, group_id=qid) for X, y, qid in parts]
    options = {"loss_function": loss, "iterations": ROUNDS, "thread_count": 1, "verbose": 0}
    model = CatBoost({**options, "eval_metric": "NDCG:top=10", "allow_writing_files": False})
    model.fit(pools[0], eval_set=pools[1], early_stopping_rounds=PATIENCE)
    return model.predict(test)


def lightgbm(table: Any) -> Any:
    import pandas as pd
    from lightgbm import LGBMRanker, early_stopping

    parts, test = parts_of(table)
    texts = range(len(NUMBERS) + 1, len(NUMBERS) + 1 + len(TEXTS))
    levels = {j: sorted({row[j] for row in parts[0][0]}) for j in texts}

    def frame(rows: list[Any]) -> Any:
        made = pd.DataFrame(rows)
        for column, known in levels.items():
            made[column] = pd.Categorical(made[column], categories=known)
        return made

    (X, y, qid), (V, grades, other) = parts
    groups = [np.unique(ids, return_counts=True)[1] for ids in (qid, other)]
    model = LGBMRanker(n_estimators=ROUNDS, n_jobs=1, verbose=-1)
    model.fit(
        frame(X), y, group=groups[0], eval_set=[(frame(V), grades)], eval_group=[groups[1]],
        eval_at=[10], callbacks=[early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    return model.predict(frame(test))


AUTO = "AutoRanker()"
SYSTEMS: dict[str, Callable[[Any], Any]] = {
    AUTO: partial(auto, levels=True),
    "AutoRanker, columns for levels": partial(auto, levels=False),
    "CatBoost QueryRMSE": partial(catboost, loss="QueryRMSE"),
    "CatBoost YetiRank": partial(catboost, loss="YetiRank"),
    "LightGBM": lightgbm,
}


def fitted(system: str, seed: int) -> dict[str, Any]:
    """The measure of each test search, and the CPU seconds of training and scoring."""
    table = make_shop(N_SEARCHES, random_state=seed)
    start = time.process_time()
    scores = SYSTEMS[system](table)
    cpu = time.process_time() - start
    _, first, search = np.unique(table["query"], return_index=True, return_inverse=True)
    test = np.argsort(np.argsort(first))[search] >= 4 * len(first) // 5
    measured = rw.evaluate(scores, table["grade"][test], search[test], MEASURE)
    values = measured.per_query(MEASURE)
    print(f"shop {seed}, {system}: {np.nanmean(values):.4f}", file=sys.stderr, flush=True)
    return {"values": [None if np.isnan(v) else float(v) for v in values], "cpu": cpu}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="letor/table_shop", allow_abbrev=False)
    parser.add_argument("--shops", type=int, default=10)
    n_shops = parser.parse_args(argv or []).shops
    os.environ["RANKWRIGHT_THREADS"] = "1"
    values: dict[str, NDArray[np.float64]] = {}
    rows = []
    for system in SYSTEMS:
        words = "".join(c if c.isalnum() else "-" for c in system)
        runs = [
            kept("letor_shop", f"{seed}-{words}", partial(fitted, system, seed))
            for seed in range(FIRST, FIRST + n_shops)
        ]
        values[system] = np.array([v for run in runs for v in run["values"]], float)
        cpu = np.mean([run["cpu"] for run in runs])
        rows.append([system, f"{np.nanmean(values[system]):.4f}", f"{cpu:.1f}"])
    print(f"{n_shops} shops, {len(values[AUTO])} test searches; CPU seconds of one shop.")
    print_table(["system", MEASURE, "CPU s"], rows)
    best = max(
        ("CatBoost QueryRMSE", "CatBoost YetiRank"), key=lambda one: float(np.nanmean(values[one]))
    )
    leads = {other: values[AUTO] - values[other] for other in SYSTEMS if other != AUTO}
    estimates = {other: pooled([lead[~np.isnan(lead)]]) for other, lead in leads.items()}
    print(f"{AUTO} minus another, by search, 95 % interval.")
    print_table(["other", "difference"], [[k, str(v)] for k, v in estimates.items()])
    print(f"Above {best}, the better CatBoost: {'yes' if estimates[best].low > 0 else '**NO**'}")


if __name__ == "__main__":
    main(sys.argv[1:])
