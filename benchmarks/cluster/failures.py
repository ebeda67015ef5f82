"""Workers and schedulers that die during a fit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


PER_CLUSTER = 10  # accidents: Dask's nannies do not bring back workers for ever


def losses(options: Any) -> None:
    """LambdaMART with killed workers, lost connections and cancelled tasks at random moments

    With ``--state FILE`` each fit is written there when it ends, and the same command goes on after
    the last one: 70 fits take more minutes than a busy machine may give at a time.
    """
    import rankwright as rw

    def model() -> Any:
        return rw.LambdaMART(n_estimators=options.rounds, max_leaf_nodes=15)

    kinds = ["kill"] * options.kills + ["connection"] * options.drops + ["cancel"] * options.cancels
    random.Random(0).shuffle(kinds)
    end = time.monotonic() + 60 * options.minutes
    for n in options.rows:
        with files(n, part=5000) as folder:
            expected = fingerprint(on_engine(model(), folder))
            record = Record(
                options.state, f"{n} rows, {options.rounds} rounds, {expected}, {kinds}"
            )
            while len(record.ended) < len(kinds) and time.monotonic() < end:
                with cluster(3, {"LambdaMART": model}) as client, watched_gangs() as gangs:
                    usual, _ = timed(fit_on, client, model(), folder)
                    growth = time.perf_counter() - gangs[-1].started
                    for _ in range(PER_CLUSTER):
                        number = len(record.ended)
                        late = number == len(kinds) or time.monotonic() >= end
                        if late or not _has_workers(client):
                            break
                        draw, times = random.Random(number), (usual, growth)
                        strike = Strike(client, kinds[number], gangs, draw, times)
                        took, fitted = timed(strike.during, fit_on, client, model(), folder)
                        same = fingerprint(fitted) == expected
                        record.add(kinds[number], strike.what, same)
                        print(f"  {number + 1:>3}: {kinds[number]:<10} after {strike.at:4.1f} s of "
                              f"{usual:.1f} ({strike.what}): {took:5.1f} s, same file: {same}",
                              flush=True)  # fmt: skip
        record.report(kinds)


class Record:
    """The fits that have ended, of a run that may be cut off; in a file, a line of JSON each."""

    def __init__(self, path: str | None, what: str) -> None:
        self._path = None if path is None else Path(path)
        self.ended: list[tuple[str, str, bool]] = []  # the accident, its moment, the same file
        if self._path is not None and self._path.exists():
            first, *lines = self._path.read_text().splitlines()
            if json.loads(first) != what:
                sys.exit(f"{self._path} is of another run: remove it, or name another file")
            self.ended = [tuple(json.loads(line)) for line in lines]
        else:
            self._write(what)

    def add(self, kind: str, moment: str, same: bool) -> None:
        self.ended.append((kind, moment, same))
        self._write(self.ended[-1])

    def _write(self, line: object) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def report(self, kinds: list[str]) -> None:
        for kind in dict.fromkeys(kinds):
            each = [same for other, _, same in self.ended if other == kind]
            print(f"{kind:<10} {sum(each)} of {len(each)} fits end with the same file")
        struck = [kind for kind, moment, _ in self.ended if moment != "too late"]
        growing = sum(moment == "trees grow" for _, moment, _ in self.ended)
        print(f"{growing} of {len(self.ended)} were while trees were grown, "
              f"{len(self.ended) - len(struck)} came after the end of the fit")  # fmt: skip
        missing = len(kinds) - len(self.ended)
        wrong = sum(not same for _, _, same in self.ended)
        verdict = "another file" if wrong else "not finished" if missing else "passed"
        print(f"verdict: {verdict} ({wrong} other files, {missing} fits to go)", flush=True)


def _has_workers(client: Any) -> bool:
    """Whether at least two workers are there, or come back within half a minute."""
    with suppress(TimeoutError):
        client.wait_for_workers(3, timeout=30)
    return len(client.scheduler_info(n_workers=-1)["workers"]) >= 2


@contextmanager
def watched_gangs() -> Iterator[list[Any]]:
    """The gangs of the fits on Dask, the last one last."""
    from rankwright.distributed.engines import DaskGang

    made: list[Any] = []
    start = DaskGang._start

    def starting(self: Any, resume: Any) -> None:
        start(self, resume)
        self.started = time.perf_counter()
        made.append(self)

    DaskGang._start = starting  # type: ignore[method-assign]
    try:
        yield made
    finally:
        DaskGang._start = start  # type: ignore[method-assign]


class Strike:
    """Something that goes wrong once: a worker is killed at a random moment of a fit, or another
    accident happens at a random moment while trees grow.
    """

    def __init__(
        self,
        client: Any,
        kind: str,
        gangs: list[Any],
        draw: random.Random,
        times: tuple[float, float],
    ) -> None:
        self._client, self._kind, self._gangs, self._draw = client, kind, gangs, draw
        self.at, self.what = draw.uniform(0.0, times[kind != "kill"]), "too late"
        self._over = threading.Event()
        pids = client.run(os.getpid, on_error="ignore")
        self._worker = draw.choice(sorted(pids))
        self._pid = pids[self._worker]

    def during(self, fit: Any, *arguments: Any) -> Any:
        self._gangs.clear()
        thread = threading.Thread(target=self._strike)
        thread.start()
        fitted = fit(*arguments)
        self._over.set()
        thread.join()
        return fitted

    def _strike(self) -> None:
        start = time.perf_counter()
        while self._kind != "kill" and not self._gangs and not self._over.is_set():
            time.sleep(0.01)
        if self._over.wait(self.at):
            return
        self.at = time.perf_counter() - start
        self.what = "trees grow" if self._gangs else "before trees"
        if self._kind == "kill":
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        elif self._kind == "cancel":
            self._client.cancel(self._draw.choice(self._gangs[-1]._futures))
        else:
            with suppress(Exception):  # the worker may be gone
                self._client.run(drop_connections, workers=[self._worker])


def drop_connections(dask_worker: Any) -> None:
    """Close the connections of a worker to the others that grow trees with it."""
    for member in dask_worker.state.actors.values():
        if member._ring is not None:
            member._ring.shut_down()


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
