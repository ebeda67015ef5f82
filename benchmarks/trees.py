"""LambdaMART beside LightGBM, XGBoost (hist) and CatBoost: time, memory, quality, scoring, limits.

Same rows, bins, trees, learning rate and threads for all; leaf-wise trees of 31 leaves (ours with
pairs weighted by NDCG, and with ``loss="xendcg"``, beside LightGBM's lambdarank and rank_xendcg),
and symmetric trees of depth 6 (ours beside CatBoost, both with the squared error within queries;
CatBoost YetiRank too). Each fit in its own process, in turns, the least of ``--repeats`` counts.
With one thread the time is that of the processor, with two that of the clock (which other work on
the machine lengthens for all alike). Quality is NDCG@10 on new queries, the differences paired by
query.

    python -m benchmarks trees                                  everything (an hour)
    python -m benchmarks trees --sizes 100000x46 --threads 1 --systems ours,lightgbm
    python -m benchmarks trees --parts train --systems ours-symmetric,catboost-symmetric
    python -m benchmarks trees --parts limit,growth             parts: train, growth, limit, score,
                                                                threads
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Each of ours, and the peer that its time is divided by.
PEERS = {
    "ours": "lightgbm",
    "ours-xendcg": "lightgbm-xendcg",
    "ours-symmetric": "catboost-symmetric",
}
SYSTEMS = (*PEERS, *PEERS.values(), "catboost-yetirank", "xgboost", "catboost")
LEAVES, DEPTH, RATE, LEAST, QUERY, BINS = 31, 6, 0.1, 20, 40, 255
LEAFWISE = {"tree": "leafwise", "max_leaf_nodes": LEAVES, "min_samples_leaf": LEAST}
OURS: dict[str, dict[str, Any]] = {
    "ours": {**LEAFWISE, "weighting": "NDCG@30"},
    "ours-xendcg": {**LEAFWISE, "loss": "xendcg"},
    "ours-symmetric": {"tree": "symmetric", "max_depth": DEPTH, "loss": "query_rmse"},
}
SWITCH = "NUMBA_DISABLE_JIT"  # 1: scorers do without numba


def workload(n: int, n_features: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Graded rows, 40 to a query: features of many values, of few values, and mostly zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    X[:, 1::4] = np.round(2 * X[:, 1::4])
    X[:, 2::4] = np.maximum(X[:, 2::4] - 0.5, 0.0)
    shape = np.random.default_rng(99)  # the same task for training and test rows
    worth = X @ (shape.standard_normal(n_features) * (shape.random(n_features) < 0.3))
    worth += 1.5 * np.sin(2 * X[:, 0]) * X[:, 4] + X[:, 3] * X[:, 7]
    worth += 2.0 * rng.standard_normal(n)
    y = np.digitize(worth, [0.5, 2.5, 4.5, 6.5]).astype(np.float64)
    return X, y, np.arange(n) // QUERY


def fit(system: str, data: Any, n_trees: int, threads: int) -> Callable[[Any], Any]:
    """Train one system; returns what scores rows."""
    X, y, qid = data
    sizes = np.bincount(qid)
    if system in PEERS:
        from rankwright import LambdaMART

        model: Any = LambdaMART(
            n_estimators=n_trees, n_jobs=threads, learning_rate=RATE, **OURS[system]
        )
        return model.fit(X, y, qid=qid).decision_function  # type: ignore[no-any-return]
    if system.startswith("lightgbm"):
        from lightgbm import LGBMRanker

        objective = "rank_xendcg" if system.endswith("xendcg") else "lambdarank"
        model = LGBMRanker(
            objective=objective, n_estimators=n_trees, num_leaves=LEAVES, learning_rate=RATE,
            min_child_samples=LEAST,
            max_bin=BINS, n_jobs=threads, verbose=-1, random_state=0,
        )  # fmt: skip
        booster = model.fit(X, y.astype(int), group=sizes).booster_
        return lambda rows: booster.predict(rows, num_threads=threads)
    if system == "xgboost":
        from xgboost import XGBRanker

        model = XGBRanker(
            n_estimators=n_trees, max_leaves=LEAVES, max_depth=0, grow_policy="lossguide",
            learning_rate=RATE, max_bin=BINS + 1, tree_method="hist", n_jobs=threads,
            objective="rank:ndcg", random_state=0,
        )  # fmt: skip
        return model.fit(X, y.astype(int), qid=qid).predict  # type: ignore[no-any-return]
    from catboost import CatBoost, Pool

    grow: dict[str, Any] = {
        "grow_policy": "Lossguide", "max_leaves": LEAVES, "min_data_in_leaf": LEAST,
    }  # fmt: skip
    model = CatBoost({
        "loss_function": "QueryRMSE" if system == "catboost-symmetric" else "YetiRank",
        "iterations": n_trees, "learning_rate": RATE,
        **(grow if system == "catboost" else {"depth": DEPTH}),
        "border_count": BINS - 1, "thread_count": threads, "verbose": False, "random_seed": 0,
        "allow_writing_files": False,
    })  # fmt: skip
    model.fit(Pool(X, y, group_id=qid))
    return model.predict  # type: ignore[no-any-return]


def reset_peak() -> float:
    """The memory of this process now, in MB; from now on ``peak`` counts (on Linux)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return peak()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return _megabytes(status, "VmRSS")


def peak() -> float:
    """The largest memory of this process, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        return _megabytes(status, "VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _megabytes(status: Path, name: str) -> float:
    line = next(line for line in status.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def one(system: str, n: int, n_features: int, n_trees: int, threads: int, out: str) -> None:
    """One fit in this process; prints its figures as JSON, writes scores of test rows to a file."""
    fit(system, workload(4_000, n_features), 2, threads)  # imports, and compiles
    data = workload(n, n_features)
    before, start = reset_peak(), (time.process_time(), time.perf_counter())
    score = fit(system, data, n_trees, threads)
    cpu, wall = time.process_time() - start[0], time.perf_counter() - start[1]
    found = {"cpu": cpu, "wall": wall, "memory": peak() - before}
    if out:
        np.save(out, np.asarray(score(workload(100_000, n_features, 1)[0]), np.float64))
    print(json.dumps(found))


def measured(system: str, *numbers: int, out: str = "") -> dict[str, float]:
    """``one`` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.trees", "--one", system]
    done = subprocess.run(
        [*command, *map(str, numbers), out], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def train(options: Any) -> None:
    """Time, memory and quality of each system on each size with each number of threads."""
    from rankwright import evaluate

    systems = [name for name in options.systems if name in PEERS or _installed(name)]
    for n, n_features in options.sizes:
        _, y, qid = workload(100_000, n_features, 1)
        for threads in options.threads:
            best: dict[str, dict[str, float]] = {}
            quality: dict[str, Any] = {}
            with tempfile.TemporaryDirectory() as folder:
                for _ in range(options.repeats):
                    for name in systems:  # in turns, so that a busy machine is busy for all
                        file = str(Path(folder) / f"{name}.npy")
                        new = measured(name, n, n_features, options.trees, threads, out=file)
                        best[name] = {k: min(v, best.get(name, new)[k]) for k, v in new.items()}
                        scores = evaluate(np.load(file), y, qid, ["NDCG@10"])
                        quality[name] = scores.per_query("NDCG@10")
            print(f"{n:,} x {n_features}, {options.trees} trees, ", end="")
            print(f"{threads} thread{'s' if threads > 1 else ''}")
            _report(best, quality, "cpu" if threads == 1 else "wall")


def _report(best: Any, quality: Any, clock: str) -> None:
    for name, figures in best.items():
        peer = PEERS.get(name, "")
        ratio = f"{figures[clock] / best[peer][clock]:.2f} x {peer}" if peer in best else ""
        print(
            f"  {name:18} {figures[clock]:8.2f} {clock} s  {ratio:25}  memory "
            f"+{figures['memory']:.0f} MB  NDCG@10 {np.nanmean(quality[name]):.4f}",
            flush=True,
        )
    others = [name for name in quality if name not in PEERS]
    for ours in [name for name in PEERS if name in quality and others]:
        first = max(others, key=lambda name: np.nanmean(quality[name]))
        gap = quality[ours] - quality[first]
        gap = gap[~np.isnan(gap)]
        error = gap.std() / np.sqrt(len(gap))
        verdict = "a tie" if abs(gap.mean()) < 2 * error else "a difference"
        print(
            f"  {ours} minus {first}, paired over {len(gap)} queries: {gap.mean():+.4f} +- "
            f"{error:.4f} ({verdict})",
            flush=True,
        )


def growth(options: Any) -> None:
    """How the time of LambdaMART grows with the rows."""
    rows = (100_000, 400_000, 2_000_000)
    seconds = []
    for n in rows:
        seconds.append(measured("ours", n, 46, 20, 1)["cpu"])
        print(f"  {n:>9,} x 46, 20 trees: {seconds[-1]:.2f} CPU s", flush=True)
    slope = np.polyfit(np.log(rows), np.log(seconds), 1)[0]
    print(f"  time grows as rows ^ {slope:.2f}", flush=True)


def limit(options: Any) -> None:
    """Additions to bins a second: the kernel alone on all rows, and in the course of training."""
    from rankwright import LambdaMART
    from rankwright.rankers.boosting._kernels.histogram import sum_block

    n, n_features = 100_000, 46
    data = workload(n, n_features)
    words = np.random.default_rng(0).integers(0, 2**32, n, np.uint32)
    pairs, sums = np.ones((n, 2), np.int64), np.zeros((2, 4, 256, 2), np.int64)
    rows = np.arange(n, dtype=np.int32)
    alone = _least(lambda: sum_block(words, rows, pairs, *sums), 30)
    print(f"  limit: {4 * n / alone / 1e9:.2f} G additions of (gradient, Hessian, count) a second")
    added = 0

    def count(report: Any) -> None:
        nonlocal added
        nodes = report.weak.nodes
        small = sum(
            min(nodes[node.low].cover, nodes[node.high].cover)
            for node in nodes
            if node.feature >= 0
        )
        added += (n + small) * n_features

    start = time.process_time()
    model = LambdaMART(n_estimators=50, n_jobs=1, callbacks=[count], **OURS["ours"])
    model.fit(*data[:2], qid=data[2])
    took = time.process_time() - start
    share = added / took / (4 * n / alone)
    print(f"  training (50 trees): {added / took / 1e9:.2f} G a second, {share:.0%} of the limit")


def threads(options: Any) -> None:
    """One and two threads: growing trees, and the whole fit, by the clock."""
    from rankwright import LambdaMART
    from rankwright.rankers.boosting.grower import Grower

    inside, grow = [0.0], Grower.grow

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return grow(*arguments)
        finally:
            inside[0] += time.perf_counter() - start

    Grower.grow = timed  # type: ignore[method-assign]
    for n, n_features in ((2_000, 46), (20_000, 46), (100_000, 46), (300_000, 46)):
        X, y, qid = workload(n, n_features)
        n_trees = max(20, min(100, 2_000_000 // n))
        best = dict.fromkeys((1, 2), (np.inf, np.inf))
        for _ in range(options.repeats + 1):  # the first one compiles
            for n_jobs, least in best.items():
                inside[0], start = 0.0, time.perf_counter()
                LambdaMART(n_estimators=n_trees, n_jobs=n_jobs, **OURS["ours"]).fit(X, y, qid=qid)
                whole = time.perf_counter() - start
                best[n_jobs] = min(least[0], inside[0]), min(least[1], whole)
        for what, number in (("growing", 0), ("the fit", 1)):
            one, two = best[1][number], best[2][number]
            print(
                f"  {n:>7,} x {n_features}, {n_trees:3} trees, {what}: one thread {one:6.3f} s, "
                f"two {two:6.3f} s, {one / two:.2f} x",
                flush=True,
            )


def score(options: Any) -> None:
    """Batch scoring, and one request of 100 rows, beside LightGBM's predict."""
    from rankwright import LambdaMART, save

    X, y, qid = data = workload(20_000, 136)
    for system in [name for name in ("ours", "ours-symmetric") if name in options.systems]:
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model.rw")
            model = LambdaMART(n_estimators=300, n_jobs=1, learning_rate=RATE, **OURS[system])
            save(model.fit(X, y, qid=qid), file)
            for name, off in ((system, "0"), (f"{system}, without numba", "1")):
                command = [sys.executable, "-m", "benchmarks.trees", "--score", file]
                subprocess.run([*command, name], check=True, env=os.environ | {SWITCH: off})
    if "lightgbm" in options.systems and _installed("lightgbm"):
        time_scoring("lightgbm", fit("lightgbm", data, 300, 1))


def score_file(file: str, name: str) -> None:
    """What a server does: it loads the scorer of a saved model, and calls it."""
    from rankwright import load_scorer

    time_scoring(name, load_scorer(file).decision_function)


def time_scoring(name: str, predict: Callable[[Any], Any]) -> None:
    batch, request = workload(100_000, 136, 1)[0], workload(100, 136, 2)[0]
    whole = _least(lambda: predict(batch), 3)
    single = _least(lambda: predict(request), 100)
    print(
        f"  {name:30} 100,000 x 136: {whole:6.3f} CPU s; one request of 100 x 136: "
        f"{1000 * single:5.2f} CPU ms",
        flush=True,
    )


def _least(work: Callable[[], Any], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def _installed(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name.partition("-")[0]) is not None


PARTS = {"train": train, "growth": growth, "limit": limit, "score": score, "threads": threads}


def run(*arguments: str) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks trees")
    parser.add_argument("--sizes", default="100000x46,500000x136")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args(arguments)
    options.sizes = [tuple(map(int, size.split("x"))) for size in options.sizes.split(",")]
    options.threads = [int(threads) for threads in options.threads.split(",")]
    options.systems = options.systems.split(",")
    if unknown := set(options.systems) - set(SYSTEMS):
        parser.error(
            f"unknown systems: {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}"
        )
    for part in options.parts.split(","):
        print(f"{part}:", flush=True)
        PARTS[part](options)


if __name__ == "__main__":  # the processes that run() starts
    if sys.argv[1:2] == ["--one"]:
        system, *numbers, out = sys.argv[2:]
        one(system, *map(int, numbers), out)  # type: ignore[arg-type,misc]
    elif sys.argv[1:2] == ["--score"]:
        score_file(*sys.argv[2:])
