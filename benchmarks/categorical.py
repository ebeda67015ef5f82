"""Categorical columns: training and scoring beside LightGBM, CatBoost and numeric columns.

40,000 rows in queries of 20: 14 numeric columns, a category of 273 levels with normal effects and
one of 30 levels without any. CPU time of one thread; three quarters of the queries are trained on.
The last part asks a service.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.serve_load import Server, measure, post

import rankwright as rw
from rankwright.scoring import base

N_ROWS, N_TREES, CATEGORICAL = 40_000, 200, [14, 15]


def generated(seed: int) -> tuple[Any, Any, Any]:
    """Rows, grades 0 to 3 and queries."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 16))
    X[:, 14], X[:, 15] = rng.integers(273, size=N_ROWS), rng.integers(30, size=N_ROWS)
    effect = rng.normal(size=273)[X[:, 14].astype(int)]
    numeric = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3]) + 0.3 * X[:, 4]
    utility = numeric + effect + rng.normal(size=N_ROWS)
    y = np.searchsorted(np.quantile(utility, [0.55, 0.75, 0.9]), utility)
    return X, y, np.repeat(np.arange(N_ROWS // 20), 20)


def cpu(work: Callable[[], Any], times: int) -> float:
    """Milliseconds of CPU of one call, after a first one."""
    work()
    start = time.process_time()
    for _ in range(times):
        work()
    return 1e3 * (time.process_time() - start) / times


def report(name: str, seconds: float, score: Callable[[Any], Any], X: Any, y: Any, q: Any) -> None:
    calls = [cpu(lambda n=n: score(X[:n]), 100) for n in (1, 100)]
    calls.append(cpu(lambda: score(X), 5))
    ndcg = rw.evaluate(score(X), y, qid=q, measures=["NDCG@10"])["NDCG@10"]
    row = " ".join(f"{value:9.3f}" for value in calls)
    print(f"{name:32} {seconds:9.2f} {row} {ndcg:9.4f}", flush=True)


def run() -> None:
    X, y, qid = generated(0)
    train = qid < 0.75 * (qid.max() + 1)
    test = X[~train], y[~train], qid[~train]
    base.compile_kernels()
    print(f"{'':32} {'train s':>9} {'1 row':>9} {'100':>9} {'10,000':>9} {'NDCG@10':>9}")
    for tree in ("symmetric", "leafwise"):
        for columns in (None, CATEGORICAL):
            model = rw.LambdaMART(
                n_estimators=N_TREES, tree=tree, categorical_features=columns, n_jobs=1
            )
            model.fit(X[train][:200], y[train][:200], qid=qid[train][:200])  # compile
            start = time.process_time()
            model.fit(X[train], y[train], qid=qid[train])
            seconds = time.process_time() - start
            with tempfile.TemporaryDirectory() as folder:
                rw.save(model, Path(folder) / "model.rw")
                scorer = rw.load_scorer(Path(folder) / "model.rw")
            kind = "codes as numbers" if columns is None else "categorical"
            report(f"{tree}, {kind}", seconds, scorer.decision_function, *test)
    _lightgbm(X[train], y[train], qid[train], test)
    _catboost(X[train], y[train], qid[train], test)
    _service(X[train], y[train], qid[train], test[0])


def _service(X: Any, y: Any, qid: Any, rows: Any) -> None:
    """CPU of a request of 100 rows, for a numeric and a categorical model and LightGBM's file."""
    from lightgbm import LGBMRanker

    items = [{"id": str(k), "features": row} for k, row in enumerate(rows[:100].tolist())]
    requests = [post("/v1/rank", json.dumps({"query": "q", "items": items}).encode())]
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, columns in (("codes as numbers", None), ("categorical", CATEGORICAL)):
            files[name] = str(Path(folder) / f"{len(files)}.rw")
            model = rw.LambdaMART(n_estimators=N_TREES, categorical_features=columns, n_jobs=1)
            rw.save(model.fit(X, y, qid=qid), files[name])
        files["LightGBM's file"] = str(Path(folder) / "model.txt")
        peer = LGBMRanker(n_estimators=N_TREES, n_jobs=1, verbose=-1)
        peer.fit(X, y, group=np.bincount(qid), categorical_feature=CATEGORICAL)
        peer.booster_.save_model(files["LightGBM's file"])
        print("\nrankwright serve, 100 rows a request: CPU in ms")
        for name, path in files.items():
            server = Server.service(folder, path, "--store", f"{len(name)}.db")
            server.wait_until_ready()
            measure(server, requests, 250, 1)
            _, seconds = measure(server, requests, 1000, 1)
            server.stop()
            print(f"{name:32} {1e3 * seconds:9.3f}", flush=True)


def _lightgbm(X: Any, y: Any, qid: Any, test: Any) -> None:
    from lightgbm import LGBMRanker

    model = LGBMRanker(n_estimators=N_TREES, n_jobs=1, verbose=-1)
    start = time.process_time()
    model.fit(X, y, group=np.bincount(qid), categorical_feature=CATEGORICAL)
    seconds = time.process_time() - start
    booster = model.booster_
    report("LightGBM", seconds, lambda rows: booster.predict(rows, num_threads=1), *test)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.txt"
        booster.save_model(path)
        imported = rw.load(path)
    report("the same, imported", 0.0, imported.decision_function, *test)


def _catboost(X: Any, y: Any, qid: Any, test: Any) -> None:
    from catboost import CatBoost, Pool

    def rows(X: Any) -> list[list[Any]]:
        return [[*row[:14], *map(int, row[14:])] for row in X.tolist()]

    for loss in ("QueryRMSE", "YetiRank"):
        options = {"loss_function": loss, "iterations": N_TREES, "thread_count": 1, "verbose": 0}
        model = CatBoost({**options, "allow_writing_files": False})
        pool = Pool(rows(X), y, cat_features=CATEGORICAL, group_id=qid)
        start = time.process_time()
        model.fit(pool)
        seconds = time.process_time() - start
        report(f"CatBoost {loss}", seconds, lambda X, m=model: m.predict(rows(X)), *test)
