"""Workers and schedulers that die during a fit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.cluster.setup import (
    cluster,
    collecting,
    counted,
    files,
    fingerprint,
    fit_on,
    models,
    on_engine,
    timed,
)


def kill(options: Any) -> None:
    """kill -9 of a random worker in the middle of a fit"""
    for n in options.rows:
        with files(n, part=5000) as folder:
            chosen = models(options)
            names = [name for _, name in zip(range(options.kills), cycle(chosen), strict=False)]
            expected = {
                name: fingerprint(on_engine(make(), folder)) for name, make in chosen.items()
            }
            same: dict[str, list[bool]] = {name: [] for name in chosen}
            with cluster(3, chosen) as client:
                rounds = {name: counted(client, make(), folder)[1] for name, make in chosen.items()}
                for number, name in enumerate(names):
                    draw = random.Random(number)
                    with suppress(TimeoutError):  # two will do
                        client.wait_for_workers(3, timeout=60)
                    pid = draw.choice(list(client.run(os.getpid).values()))
                    at, delay = draw.randint(1, rounds[name]), draw.uniform(0.0, 0.05)
                    took, model = timed(killed, client, chosen[name](), folder, pid, at, delay)
                    same[name].append(fingerprint(model) == expected[name])
                    print(f"  {number + 1:>2}: {name:<11} killed {1e3 * delay:2.0f} ms after "
                          f"sum {at} of {rounds[name]}: {took:5.1f} s, same file: {same[name][-1]}",
                          flush=True)  # fmt: skip
            for name, each in same.items():
                print(f"{name:<11} {sum(each)} of {len(each)} fits end with the same file")


def killed(client: Any, model: Any, folder: Path, pid: int, at: int, delay: float) -> Any:
    """A fit during which a worker dies, some time after the fit asks for its ``at``-th sum."""

    def strike() -> None:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    with collecting(lambda count: thread.start() if count == at else None):
        fit_on(client, model, folder)
    thread.join()
    return model


def gone(options: Any) -> None:
    """seconds until a fit ends with an error when the scheduler is killed -9"""
    import rankwright as rw
    from distributed import Client

    with tempfile.TemporaryDirectory() as name, files(20_000, part=2000) as folder:
        path = Path(name) / "scheduler.json"
        start = [sys.executable, "-m", "dask"]
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        place = ["--scheduler-file", str(path), "--no-dashboard"]
        scheduler = subprocess.Popen([*start, "scheduler", "--port", "0", *place], **quiet)
        worker = subprocess.Popen([*start, "worker", *place, "--nthreads", "1"], **quiet)
        try:
            with Client(scheduler_file=str(path), timeout=60) as client:
                client.wait_for_workers(1, timeout=60)
                times: list[float] = []

                def strike(count: int) -> None:
                    if count == 3:
                        scheduler.kill()
                        times.append(time.perf_counter())

                with collecting(strike):
                    try:
                        fit_on(client, rw.RankSVM(), folder)
                    except rw.exceptions.ClusterError as error:
                        took = time.perf_counter() - times[0]
                        print(f"ClusterError after {took:.1f} s: {error}", flush=True)
        finally:
            scheduler.kill()
            worker.kill()
            scheduler.wait(), worker.wait()
