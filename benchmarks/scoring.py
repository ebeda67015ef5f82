"""Scoring by 300 trees of 31 leaves: NumPy, compiled kernels and LightGBM's ``predict``.

LightGBM trains the trees; ours are the same nodes in a model file, opened by ``load_scorer``. A
request is 100 rows x 136 features. Times are those of the processor, the least of many repeats, so
that other work on the machine counts little; with two threads they are those of the clock.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.rankboost import workload

from rankwright import AutoRanker, LambdaMART, RankBoost, load_scorer, save
from rankwright.persist.scorer import SavedScorer
from rankwright.rankers.boosting.explain import tree_shap
from rankwright.scoring import Trees, base

N_TREES, N_LEAVES, N_FEATURES = 300, 31, 136


def trees_of(booster: Any) -> Trees:
    """The nodes of a LightGBM model without categories, with the rows that each node covers."""
    names = ("feature", "threshold", "low", "high", "value", "cover")
    nodes: dict[str, list[Any]] = {name: [] for name in names}

    def add(node: dict[str, Any]) -> int:
        place, is_leaf = len(nodes["value"]), "split_feature" not in node
        found = {
            "feature": node.get("split_feature", -1),
            "threshold": node.get("threshold", 0.0),
            "value": node["leaf_value"] if is_leaf else 0.0,
            "cover": node["leaf_count"] if is_leaf else node["internal_count"],
        }
        for name, column in nodes.items():
            column.append(found.get(name, 0))
        if not is_leaf:
            nodes["low"][place] = add(node["left_child"])
            nodes["high"][place] = add(node["right_child"])
        return place

    roots = [add(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]
    whole = {name: np.array(nodes[name], np.int64) for name in ("feature", "low", "high", "cover")}
    real = {name: np.array(nodes[name], np.float64) for name in ("threshold", "value")}
    default = np.zeros(len(nodes["value"]), np.int64)
    return Trees(
        n_inputs=booster.num_feature(), root=np.array(roots), weight=np.ones(len(roots)),
        default=default, **whole, **real,
    )  # fmt: skip


def least(run: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    """The least time in milliseconds, after one run that warms up."""
    run()
    seconds = []
    for _ in range(repeats):
        start = clock()
        run()
        seconds.append(clock() - start)
    return 1e3 * min(seconds)


def _use(compiled: bool) -> None:
    module = base.compile_kernels() if compiled else None
    base.kernels = lambda n_pairs: module  # type: ignore[assignment]


def _row(name: str, ours: float, peer: float | None, goal: str = "") -> None:
    beside = "" if peer is None else f"  {ours / peer:5.2f} of LightGBM's {peer:8.3f}  {goal}"
    print(f"  {name:60s} {ours:9.3f} ms{beside}", flush=True)


def run() -> None:
    import lightgbm

    X, y, qid = workload(60_000, N_FEATURES)
    parameters = {"objective": "lambdarank", "num_leaves": N_LEAVES, "verbosity": -1}
    data = lightgbm.Dataset(X[:20_000], y[:20_000], group=np.bincount(qid[:20_000]))
    booster = lightgbm.train(parameters, data, N_TREES)
    scorer = SavedScorer("trees", trees_of(booster), allow_nan=True)
    request, batch = X[:100].copy(), X
    same = np.abs(scorer.decision_function(request) - booster.predict(request)).max()
    print(
        f"{N_TREES} trees, {N_LEAVES} leaves, {N_FEATURES} features; largest difference {same:.1e}"
    )
    _beside(scorer, booster, request, 200, "100 rows")
    _beside(scorer, booster, batch, 3, f"{len(batch):,} rows")
    _estimator(lightgbm, parameters)
    os.environ["RANKWRIGHT_THREADS"] = "2"
    _use(True)
    wall = time.perf_counter
    peer = least(lambda: booster.predict(batch, num_threads=2), 3, wall)
    ours = least(lambda: scorer.decision_function(batch), 3, wall)
    _row(f"{len(batch):,} rows, kernels, 2 threads, wall", ours, peer, "(goal <= 1)")
    os.environ["RANKWRIGHT_THREADS"] = "1"
    rows, trees, cpu = X[:200], trees_of(booster), time.process_time
    peer = least(lambda: booster.predict(rows, pred_contrib=True, num_threads=1), 3, cpu)
    _row("Shapley values of 200 rows", least(lambda: tree_shap(trees, rows), 3, cpu), peer)
    _steps()
    _ensemble()


def _beside(scorer: Any, booster: Any, rows: Any, repeats: int, title: str) -> None:
    """One thread each; LightGBM may use two for a request if that costs it less."""
    os.environ["RANKWRIGHT_THREADS"] = "1"
    small, cpu = len(rows) < 1000, time.process_time
    peer = least(lambda: booster.predict(rows, num_threads=1), repeats, cpu)
    if small:
        peer = min(peer, least(lambda: booster.predict(rows, num_threads=2), repeats, cpu))
    for name, compiled, goal in (("kernels", True, 1), ("NumPy", False, 5)):
        _use(compiled)
        ours = least(lambda: scorer.decision_function(rows), repeats, cpu)
        _row(f"{title}, {name}", ours, peer, f"(goal <= {goal})" if compiled or small else "")


def _estimator(lightgbm: Any, parameters: Any) -> None:
    """A fitted LambdaMART of 200 trees beside its file and LightGBM: 100 rows x 16 features."""
    os.environ["RANKWRIGHT_THREADS"] = "1"
    _use(True)
    X, y, qid = workload(20_000, 16)
    model = LambdaMART(n_estimators=200, tree="leafwise", learning_rate=0.1).fit(X, y, qid=qid)
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, y, group=np.bincount(qid)), 200)
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model.rw")
        scorer = load_scorer(Path(folder) / "model.rw")
    rows, wall = X[:100].copy(), time.perf_counter
    title = "100 rows x 16, 200 trees, wall,"
    times = {
        f"{title} load_scorer, 1 thread": lambda: scorer.decision_function(rows),
        f"{title} decision_function, 1 thread": lambda: model.decision_function(rows),
        f"{title} LightGBM, num_threads=1": lambda: booster.predict(rows, num_threads=1),
        f"{title} LightGBM, default threads": lambda: booster.predict(rows),
    }
    for name, run in times.items():
        _row(name, least(run, 200, wall), None)


def _steps() -> None:
    """RankBoost with 300 thresholds on 100 rows x 46 features, through a model file."""
    os.environ["RANKWRIGHT_THREADS"] = "1"
    X, y, qid = workload(20_000, 46)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rw"
        save(RankBoost(n_estimators=300).fit(X, y, qid=qid), path)
        scorer = load_scorer(path)
    for name, compiled in (("kernels", True), ("NumPy", False)):
        _use(compiled)
        ours = least(lambda: scorer.decision_function(X[:100]), 200, time.process_time)
        _row(f"RankBoost(300), 100 rows x 46, {name}", ours, None)


def _ensemble() -> None:
    """The default ensemble of AutoRanker on 100 rows x 136 features, through a model file."""
    os.environ["RANKWRIGHT_THREADS"] = "1"
    X, y, qid = workload(5_000, N_FEATURES)
    model = AutoRanker().fit(X, y, qid=qid)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rw"
        save(model, path)
        scorer = load_scorer(path)
    n_trees = sum(len(getattr(one, "root_", ())) for one in model.best_estimator_.members_)
    n_models = len(model.best_estimator_.members_)
    for name, compiled in (("kernels", True), ("NumPy", False)):
        _use(compiled)
        ours = least(lambda: scorer.decision_function(X[:100]), 200, time.process_time)
        title = f"AutoRanker(): {n_models} models, {n_trees} trees, 100 rows x {N_FEATURES}"
        _row(f"{title}, {name}", ours, None, "(goal <= 2 ms)" if compiled else "")
