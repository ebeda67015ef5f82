"""The Dask rankers of LightGBM and XGBoost beside LambdaMART, on the same files."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cluster.setup import cluster, files, fingerprint, fit_local, fit_on

import rankwright as rw

LEAVES, RATE, CUTOFF = 31, 0.1, 30  # of every system


def peers(options: Any) -> None:
    """LambdaMART, lightgbm.dask and xgboost.dask, workers of one thread: seconds, CPU, bytes"""
    from rankwright.runtime import one_thread

    systems: dict[str, Callable[..., Any]] = {
        "LambdaMART": ours,
        "LightGBM": lightgbm,
        "XGBoost": xgboost,
    }
    for n in options.rows:
        prints: dict[str, set[str]] = {name: set() for name in systems}
        with files(n, part=-(-n // 12)) as folder, files(2000, part=500) as few:
            local: dict[int, float] = {}
            local_cpu = float("inf")
            fit_local(lambdamart(2), few)
            for threads in (1, 2):
                for _ in range(options.repeats):
                    start, cpu_before = time.perf_counter(), time.process_time()
                    if threads == 1:
                        with one_thread():
                            model = fit_local(lambdamart(options.rounds), folder)
                    else:
                        model = fit_local(lambdamart(options.rounds), folder)
                    took = time.perf_counter() - start
                    local[threads] = min(took, local.get(threads, took))
                    local_cpu = min(local_cpu, time.process_time() - cpu_before)
            prints["LambdaMART"].add(fingerprint(model))
            print(f"{n:>9,} rows, {options.rounds} trees  LambdaMART without a cluster, reading "
                  f"included: {local[1]:.1f} s on one thread, {local[2]:.1f} s on two, CPU "
                  f"{local_cpu:.1f} s; load {os.getloadavg()[0]:.1f}",
                  flush=True)  # fmt: skip
            for count in options.workers:
                with cluster(count) as client:
                    best: dict[str, tuple[float, float, float]] = {}
                    for fit in systems.values():
                        fit(client, few, 2)
                    for _ in range(options.repeats):
                        for name, fit in systems.items():
                            before, start = used(client), time.perf_counter()
                            prints[name].add(fit(client, folder, options.rounds))
                            took, after = time.perf_counter() - start, used(client)
                            cpu, sent = (b - a for a, b in zip(before, after, strict=True))
                            best[name] = min((took, cpu, sent), best.get(name, (took, cpu, sent)))
                    for name, (took, cpu, sent) in best.items():
                        to_peer, alone = took / best["LightGBM"][0], local[min(count, 2)]
                        print(f"  {count} workers  {name:<10} {took:6.1f} s, CPU {cpu:6.1f} s, "
                              f"{sent / options.rounds / 1e6:5.1f} MB per tree, {to_peer:.2f} of "
                              f"LightGBM's time, {took / alone:.2f} of the local fit's; CPU "
                              f"{cpu / best['LightGBM'][1]:.2f} and {cpu / local_cpu:.2f}",
                              flush=True)  # fmt: skip
        for name, each in prints.items():
            print(f"{n:>9,} rows  {name:<10} different models: {len(each)}", flush=True)


def used(client: Any) -> tuple[float, float]:
    """CPU seconds of client, scheduler and workers so far, and bytes that the ring has sent."""
    own = time.process_time()
    scheduler = client.run_on_scheduler(time.process_time)
    if client.run_on_scheduler(os.getpid) == os.getpid():
        scheduler = 0.0
    seconds = own + scheduler + sum(client.run(time.process_time).values())
    return seconds, float(sum(client.run(ring_bytes).values()))


def ring_bytes() -> int:
    from rankwright.distributed.ring import Ring

    return Ring.total_bytes


def lambdamart(rounds: int) -> Any:
    return rw.LambdaMART(
        n_estimators=rounds,
        tree="leafwise",
        max_leaf_nodes=LEAVES,
        learning_rate=RATE,
        weighting=f"NDCG@{CUTOFF}",
    )


def ours(client: Any, folder: Path, rounds: int) -> str:
    return fingerprint(fit_on(client, lambdamart(rounds), folder))


def lightgbm(client: Any, folder: Path, rounds: int) -> str:
    from dask import dataframe as dd
    from lightgbm import DaskLGBMRanker

    frame = dd.read_parquet(folder).persist()  # files hold whole queries in order
    columns = [c for c in frame.columns if c not in ("label", "query")]
    group = frame["query"].map_partitions(
        lambda part: part.groupby(part, sort=False).size(), meta=("size", "i8")
    )
    model = DaskLGBMRanker(
        client=client,
        n_estimators=rounds,
        num_leaves=LEAVES,
        learning_rate=RATE,
        lambdarank_truncation_level=CUTOFF,
        verbose=-1,
    )
    model.fit(frame[columns], frame["label"].astype(int), group=group)
    text = model.booster_.model_to_string().split("feature_importances")[0]
    return hashlib.sha256("\n".join(text.splitlines()[8:]).encode()).hexdigest()


def xgboost(client: Any, folder: Path, rounds: int) -> str:
    from dask import dataframe as dd
    from xgboost.dask import DaskXGBRanker

    frame = dd.read_parquet(folder).persist()
    columns = [c for c in frame.columns if c not in ("label", "query")]
    model = DaskXGBRanker(
        n_estimators=rounds,
        max_leaves=LEAVES,
        max_depth=0,
        learning_rate=RATE,
        grow_policy="lossguide",
        tree_method="hist",
        lambdarank_pair_method="topk",
        lambdarank_num_pair_per_sample=CUTOFF,
        allow_group_split=True,
    )
    model.client = client
    model.fit(frame[columns], frame["label"].astype(int), qid=frame["query"])
    return hashlib.sha256("".join(model.get_booster().get_dump()).encode()).hexdigest()
