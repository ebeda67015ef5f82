"""The cost model of a fit on a cluster, fitted to small runs."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from benchmarks.cluster.setup import N_FEATURES, cluster, counted, files, models, timed
from scipy.optimize import nnls

NETWORK = 1.25e9  # bytes per second between workers in the simulation: 10 Gbit/s
N_BLOCKS = 64  # shards, and so the most workers that one fit uses
SUM_BYTES = 8.0 * N_FEATURES * 256 * 2  # a histogram of gradients and Hessians


def simulation(options: Any) -> None:
    """the cost model, its check against a run it has not seen, and 10^9 rows on 100 workers"""
    # seconds = rows * features * work / used + sums * wait + extra tasks * overhead + traffic, with
    # used = min(workers, 64). ``work`` and ``wait`` (of a sum on two workers, with its tasks) are
    # fitted to all sizes but the last, which checks them. Sums and tasks are counted.
    chosen, sizes = models(options), options.rows
    seen: dict[str, list[tuple[float, int, int]]] = {name: [] for name in chosen}
    with cluster(2, chosen) as client:
        per_task = task_cost(client)
        for n in sizes:
            with files(n) as folder:
                for name, make in chosen.items():
                    # The better of two, since other work on the machine only adds time.
                    runs = [timed(counted, client, make(), folder) for _ in range(2)]
                    took, (_, sums, tasks) = min(runs, key=lambda run: run[0])
                    seen[name].append((took, sums, tasks))
    for name, times in seen.items():
        cells = [n * N_FEATURES / 2 for n in sizes]
        rows = np.array([[c, sums] for c, (_, sums, _) in zip(cells, times, strict=True)][:-1])
        (work, wait), _ = nnls(rows, np.array([took for took, *_ in times[:-1]]))
        took, sums, tasks = times[-1]

        def predict(n: float, count: int, work: float = work, wait: float = wait,
                    sums: int = sums, tasks: int = tasks) -> float:  # fmt: skip
            used = min(count, N_BLOCKS)
            extra = (used / 2 - 1) * tasks * per_task  # every step is a task for each block
            traffic = sums * math.log2(used) * SUM_BYTES / NETWORK
            shuffle = 8.0 * n * N_FEATURES * (1 - 1 / used) / used / NETWORK if used > 2 else 0.0
            return float(n * N_FEATURES * work / used + sums * wait + extra + traffic + shuffle)

        rates = f"{1e9 * work:.0f} ns a cell, {1e3 * wait:.0f} ms a sum"
        check = f"model {predict(sizes[-1], 2):.1f} s, measured {took:.1f} s"
        print(f"{name:<11} {sums} sums, {tasks} tasks; {rates}; {sizes[-1]:,} rows on 2 workers: "
              f"{check}; 10^9 rows on 100 workers: {predict(1e9, 100):,.0f} s",
              flush=True)  # fmt: skip
    print(f"{1e3 * per_task:.2f} ms a task; network {NETWORK / 1e9:.2f} GB/s (assumed)")


def task_cost(client: Any) -> float:
    """Seconds of each further task of a round."""

    def one(n: int) -> float:
        times = []
        for _ in range(15):
            start = time.perf_counter()
            client.gather([client.submit(abs, -1, pure=False) for _ in range(n)])
            times.append(time.perf_counter() - start)
        return float(np.median(times))

    return max(one(66) - one(2), 0.0) / 64
