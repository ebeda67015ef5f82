"""Rows that do not fit in memory: mapped files, and workers that spill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

from benchmarks.cluster.setup import (
    N_FEATURES,
    cluster,
    every_model,
    files,
    fingerprint,
    fit_on,
    models,
    on_engine,
    timed,
)


def memory(options: Any) -> None:
    """out of core: rows of 4 times the allowed memory against all rows in memory"""
    for n in options.rows:
        allowed = 8 * n * N_FEATURES // 4
        with files(n, part=20_000) as folder:
            for name in models(options):
                whole = in_child(name, options.rounds, folder, None)
                small = in_child(name, options.rounds, folder, allowed)
                print(f"{n:>9,} rows ({8e-6 * n * N_FEATURES:,.0f} MB)  {name:<11} in memory "
                      f"{whole['seconds']:5.1f} s, {whole['megabytes']:,.0f} MB   within "
                      f"{allowed / 1e6:,.0f} MB {small['seconds']:5.1f} s "
                      f"({small['seconds'] / whole['seconds']:.2f}x), "
                      f"{small['megabytes']:,.0f} MB   same file: "
                      f"{whole['print'] == small['print']}", flush=True)  # fmt: skip


def in_child(name: str, rounds: int, folder: Path, allowed: int | None) -> dict[str, Any]:
    """A fit in a process of its own: seconds, and how far its own memory rose above the start.

    Pages of mapped files are not counted: the system takes them back whenever it needs them.
    """
    arguments = name, rounds, str(folder), allowed
    call = f"from benchmarks.cluster.memory import measured; measured{arguments!r}"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measured(name: str, rounds: int, folder: str, allowed: int | None) -> None:
    """Print what ``in_child`` reads."""
    import rankwright as rw

    warnings.simplefilter("ignore")
    make = every_model(rounds)[name]
    with files(2000) as small:
        on_engine(make(), small)  # loads and compiles
    before, done = own_memory(), threading.Event()
    peak = [before]

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with rw.engine("local:2", memory=allowed):
            took, model = timed(make().fit, folder, "label", qid="query")
    finally:
        done.set()
        watcher.join()
    rise = (peak[0] - before) / 1e6
    print(json.dumps({"seconds": took, "megabytes": rise, "print": fingerprint(model)}))


def own_memory() -> int:
    """Bytes of this process that are not pages of files."""
    pages = Path("/proc/self/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


def spill(options: Any) -> None:
    """two workers with a limit of 256 MB each, which spill"""
    from dask import config

    # The libraries of a worker take more than that by themselves, so it must not be paused or
    # ended for its size: only rows are to be spilled.
    switches = {f"distributed.worker.memory.{name}": False for name in ("pause", "terminate")}
    for n in options.rows:
        with files(n, part=20_000) as folder, config.set(switches):
            chosen = models(options)
            expected = {
                name: fingerprint(on_engine(make(), folder)) for name, make in chosen.items()
            }
            with cluster(2, chosen, memory_limit="256MB") as client:
                for name, make in chosen.items():
                    before = sum(client.run(spilled).values())
                    took, model = timed(fit_on, client, make(), folder)
                    written = sum(client.run(spilled).values()) - before
                    print(f"{n:>9,} rows ({8e-6 * n * N_FEATURES:,.0f} MB)  {name:<11} "
                          f"{took:5.1f} s, {written / 1e6:,.0f} MB written to disk, same file: "
                          f"{fingerprint(model) == expected[name]}", flush=True)  # fmt: skip


def spilled(dask_worker: Any) -> int:
    """Bytes that a worker has written to disk so far."""
    metrics = dask_worker.data.cumulative_metrics
    return int(sum(value for key, value in metrics.items() if key == ("disk-write", "bytes")))
