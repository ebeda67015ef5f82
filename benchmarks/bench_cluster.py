"""Dask clusters on this machine: time, equal models, lost workers, memory, and peers.

``python -m benchmarks cluster`` runs every part at a small size. One part at a time, at any size:
``python -m benchmarks.bench_cluster weak --rows 100000 1000000 4000000 --workers 1 2``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import math
import operator
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

N_FEATURES, QUERY = 46, 100
NETWORK = 1.25e9  # bytes per second between workers in the simulation: 10 Gbit/s
N_BLOCKS = 64  # shards, and so the most workers that one fit uses
SUM_BYTES = 8.0 * N_FEATURES * 256 * 2  # a histogram of gradients and Hessians


def run() -> None:
    for name in PARTS:
        main([name])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.bench_cluster")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rows", type=int, nargs="+", help="sizes of the data")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--models", nargs="+", help="Regression, MPRank, RankSVM, LambdaMART, ...")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of boosting")
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {sorted(unknown)[0]!r}; there are {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # workers that die on purpose
    for name in options.parts or PARTS:
        part, rows = PARTS[name]
        options_of_part = argparse.Namespace(**{**vars(options), "rows": options.rows or rows})
        print(f"-- {name}: {part.__doc__}", flush=True)
        part(options_of_part)


def workers(options: Any) -> None:
    """seconds of a fit against the number of workers, files read by the workers"""
    for n in options.rows:
        with files(n) as folder:
            chosen, local = models(options), {}
            for name, make in chosen.items():
                fit_local(make(), folder)
                local[name] = timed(fit_local, make(), folder)
            prints = {
                name: {fingerprint(on_engine(make(), folder))} for name, make in chosen.items()
            }
            texts: dict[str, list[str]] = {name: [] for name in chosen}
            for count in options.workers:
                with cluster(count, chosen) as client:
                    for name, make in chosen.items():
                        took, model = timed(fit_on, client, make(), folder)
                        prints[name].add(fingerprint(model))
                        texts[name].append(f"{count}: {took:.1f} s")
            for name, (took, _) in local.items():
                print(f"{n:>9,} rows  {name:<11} local {took:5.1f} s   workers "
                      f"{'  '.join(texts[name])}   different files {len(prints[name])}",
                      flush=True)  # fmt: skip


def overhead(options: Any) -> None:
    """milliseconds of a round: a map over 64 shards and a sum, with nothing to compute"""
    import rankwright as rw

    places: list[tuple[Any, str]] = [("local:2", "threads")]
    places += [(count, f"{count} workers") for count in options.workers]
    for where, text in places:
        opened = cluster(where) if isinstance(where, int) else nullcontext(where)
        with opened as place, rw.engine(place) as engine:
            values = engine.scatter([np.zeros(46 * 256)] * 64, blocks=engine.n_blocks)
            one = [timed(_round, engine, values)[0] for _ in range(30)]
        low, middle = 1e3 * min(one), 1e3 * float(np.median(one))
        print(f"{text:<10} best {low:6.1f} ms   median {middle:6.1f} ms", flush=True)


def _round(engine: Any, values: Any) -> Any:
    return engine.reduce(engine.map(abs, values), operator.add)


def crossover(options: Any) -> None:
    """rows from which the cluster is faster than a fit on one machine"""
    count, chosen = max(options.workers), models(options)
    found: dict[str, int] = {}
    with cluster(count, chosen) as client:
        for n in options.rows:
            with files(n) as folder:
                for name, make in chosen.items():
                    there, _ = timed(fit_on, client, make(), folder)
                    here, _ = timed(fit_local, make(), folder)
                    print(f"{name:<11} {n:>9,} rows  local {here:6.1f} s  "
                          f"{count} workers {there:6.1f} s", flush=True)  # fmt: skip
                    if there < here:
                        found.setdefault(name, n)
    for name in chosen:
        text = f"{found[name]:,} rows" if name in found else "not reached"
        print(f"{name:<11} crossover: {text}")


def weak(options: Any) -> None:
    """seconds as rows grow with the workers (rows are those of the largest cluster)"""
    chosen, most = models(options), max(options.workers)
    seconds: dict[tuple[str, int], list[str]] = {}
    for count in options.workers:
        with cluster(count, chosen) as client:
            for n in options.rows:
                size = n * count // most
                with files(size) as folder:
                    for name, make in chosen.items():
                        took, _ = timed(fit_on, client, make(), folder)
                        text = f"{size:,} on {count}: {took:.1f} s"
                        seconds.setdefault((name, n), []).append(text)
    for (name, _), texts in seconds.items():
        print(f"{name:<11} {'   '.join(texts)}", flush=True)


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
    call = f"from benchmarks.bench_cluster import measured; measured{arguments!r}"
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


def grid(options: Any) -> None:
    """equal model files: workers 1, 2, 3 x partitions 1, 2, 7, 64 x shuffled rows x threads 1, 2"""
    from dask.dataframe import from_pandas

    import rankwright as rw

    for n in options.rows:
        with files(n) as folder:
            frame = read_frame(folder)
        rounds = min(options.rounds, 3)
        chosen = {n: m for n, m in every_model(rounds).items() if n in (options.models or [n])}
        prints: dict[str, set[str]] = {name: set() for name in chosen}
        apart = {name: local_twin(make, frame, prints[name]) for name, make in chosen.items()}
        for name, make in chosen.items():
            for threads, order in ((1, None), (2, 1), (2, None), (1, 2)):
                rows = frame if order is None or name in STREAMS else shuffled(frame, order)
                with rw.engine(f"local:{threads}"):
                    prints[name].add(fingerprint(fit_frame(make(), rows)))
        for count in (1, 2, 3):
            with cluster(count, processes=False) as client, rw.engine(client):
                for parts in (1, 2, 7, 64):
                    mixed = shuffled(frame, 10 * count + parts)
                    torn = [from_pandas(f, npartitions=parts, sort=False) for f in (frame, mixed)]
                    for name, make in chosen.items():
                        ddf = torn[name not in STREAMS]
                        prints[name].add(fingerprint(make().fit(ddf, y="label", qid="query")))
                    print(f"  {count} workers, {parts} partitions: different files "
                          f"{[len(each) for each in prints.values()]}", flush=True)  # fmt: skip
        for name in chosen:
            print(f"{n:>9,} rows  {name:<13} 12 fits on clusters, 4 on threads{apart[name]}: "
                  f"different files {len(prints[name])}", flush=True)  # fmt: skip


def local_twin(make: Callable[[], Any], frame: Any, prints: set[str]) -> str:
    """Add the files of local fits on one and two threads, or say how far the weights are."""
    from rankwright.parallel import one_thread

    model = fit_frame(make(), frame)
    name = type(model).__name__
    if name in BYTES_OF_LOCAL:
        prints.add(fingerprint(model))
        with one_thread():
            prints.add(fingerprint(fit_frame(make(), frame)))
        return ", 2 without an engine"
    if name not in NEAR_LOCAL:
        return ""
    import rankwright as rw

    with rw.engine("local:2"):
        other = fit_frame(make(), frame)
    error = np.abs(other.coef_ - model.coef_).max() / np.abs(model.coef_).max()
    return f", {error:.0e} from a local fit"


def shuffled(frame: Any, seed: int) -> Any:
    return frame.sample(frac=1.0, random_state=seed, ignore_index=True)


def beliefs(options: Any) -> None:
    """BayesianPRank: rank loss of merged beliefs against the stream, relative to the Bayes loss"""
    import rankwright as rw
    from rankwright.data.datasets.synthetic import make_ordinal

    test = make_ordinal(20_000, random_state=1)
    bayes = np.abs(test.bayes_prediction - test.y).mean()
    for n in options.rows:
        train = make_ordinal(n, random_state=0)
        qid = np.random.default_rng(0).integers(0, max(n // 10, 1), n)
        for covariance in ("full", "diagonal"):
            ranker = rw.BayesianPRank(degree=2, covariance=covariance)
            stream = np.abs(ranker.fit(train.X, train.y).predict(test.X) - test.y).mean()
            with rw.engine("local:2"):
                ranker.fit(train.X, train.y, qid=qid)
            merged = np.abs(ranker.predict(test.X) - test.y).mean()
            print(f"{n:>9,} rows  {covariance:<8}  stream {stream / bayes:.3f}  "
                  f"merged {merged / bayes:.3f}", flush=True)  # fmt: skip


def peers(options: Any) -> None:
    """lightgbm.dask and xgboost.dask beside LambdaMART: seconds, and different models"""
    systems = {"LambdaMART": ours, "LightGBM": lightgbm, "XGBoost": xgboost}
    for n in options.rows:
        texts: dict[str, list[str]] = {name: [] for name in systems}
        prints: dict[str, set[str]] = {name: set() for name in systems}
        with files(n, part=-(-n // 12)) as folder, files(2000, part=500) as few:
            for count in (1, 2, 3):
                with cluster(count) as client:
                    for name, fit in systems.items():
                        try:
                            fit(client, few, 2)
                            took, text = timed(fit, client, folder, options.rounds)
                        except ImportError as error:
                            texts[name].append(str(error))
                            continue
                        prints[name].add(text)
                        texts[name].append(f"{count}: {took:.1f} s")
        for name in systems:
            print(f"{n:>9,} rows  {name:<10} workers {'  '.join(texts[name])}   different models: "
                  f"{len(prints[name])}", flush=True)  # fmt: skip


def ours(client: Any, folder: Path, rounds: int) -> str:
    return fingerprint(fit_on(client, every_model(rounds)["LambdaMART"](), folder))


def lightgbm(client: Any, folder: Path, rounds: int) -> str:
    from dask import dataframe as dd
    from lightgbm import DaskLGBMRanker

    frame = dd.read_parquet(folder).persist()  # files hold whole queries in order
    columns = [c for c in frame.columns if c not in ("label", "query")]
    group = frame["query"].map_partitions(
        lambda part: part.groupby(part, sort=False).size(), meta=("size", "i8")
    )
    model = DaskLGBMRanker(client=client, n_estimators=rounds, num_leaves=31, verbose=-1)
    model.fit(frame[columns], frame["label"].astype(int), group=group)
    text = model.booster_.model_to_string().split("feature_importances")[0]
    return hashlib.sha256("\n".join(text.splitlines()[8:]).encode()).hexdigest()


def xgboost(client: Any, folder: Path, rounds: int) -> str:
    from dask import dataframe as dd
    from xgboost.dask import DaskXGBRanker

    frame = dd.read_parquet(folder).persist()
    columns = [c for c in frame.columns if c not in ("label", "query")]
    model = DaskXGBRanker(n_estimators=rounds, max_leaves=31, grow_policy="lossguide",
                          tree_method="hist", allow_group_split=True)  # fmt: skip
    model.client = client
    model.fit(frame[columns], frame["label"].astype(int), qid=frame["query"])
    return hashlib.sha256("".join(model.get_booster().get_dump()).encode()).hexdigest()


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
                    took, (_, sums, tasks) = timed(counted, client, make(), folder)
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


@contextmanager
def collecting(call: Callable[[int], Any]) -> Iterator[None]:
    """Call a function with 1, 2, 3 ... whenever a fit on Dask asks for a result."""
    from rankwright.distributed.dask import DaskEngine

    collect, count = DaskEngine._collect, [0]

    def counting(self: Any, blocks: Any) -> Any:
        count[0] += 1
        call(count[0])
        return collect(self, blocks)

    DaskEngine._collect = counting  # type: ignore[method-assign]
    try:
        yield
    finally:
        DaskEngine._collect = collect  # type: ignore[method-assign]


def counted(client: Any, model: Any, folder: Path) -> tuple[Any, int, int]:
    """A fitted model, for how many sums it waited, and how many tasks it started."""
    from rankwright.distributed.dask import DaskEngine

    sums: list[int] = []
    apply, tasks = DaskEngine._apply, [0]

    def counting(self: Any, *arguments: Any) -> Any:
        tasks[0] += 1
        return apply(self, *arguments)

    DaskEngine._apply = counting  # type: ignore[method-assign]
    try:
        with collecting(sums.append):
            fit_on(client, model, folder)
    finally:
        DaskEngine._apply = apply  # type: ignore[method-assign]
    return model, len(sums), tasks[0]


def models(options: Any) -> dict[str, Callable[[], Any]]:
    names = options.models or ["Regression", "MPRank", "RankSVM", "LambdaMART"]
    return {name: every_model(options.rounds)[name] for name in names}


def every_model(rounds: int) -> dict[str, Callable[[], Any]]:
    import rankwright as rw

    return {
        "Regression": rw.Regression,
        "MPRank": rw.MPRank,
        "RankSVM": lambda: rw.RankSVM(C=100.0, tol=1e-3),
        "LambdaMART": lambda: rw.LambdaMART(n_estimators=rounds),
        "RankBoost": lambda: rw.RankBoost(n_estimators=rounds),
        "OAPBPM": lambda: rw.OAPBPM(n_estimators=5, random_state=0),
        "BayesianPRank": rw.BayesianPRank,
    }


BYTES_OF_LOCAL = ("LambdaMART", "RankBoost", "OAPBPM")
NEAR_LOCAL = ("Regression", "MPRank", "RankSVM")
STREAMS = ("OAPBPM",)  # another order of rows is another stream


@contextmanager
def files(n: int, part: int = 50_000) -> Iterator[Path]:
    """A folder of Parquet files of whole queries."""
    from pyarrow import parquet, table

    with tempfile.TemporaryDirectory() as name:
        truth = np.random.default_rng(0).normal(size=N_FEATURES)
        for number, start in enumerate(range(0, n, part)):
            rng, size = np.random.default_rng(number + 1), min(part, n - start)
            X = rng.random((size, N_FEATURES))
            y = np.clip(np.round((X - 0.5) @ truth + rng.normal(size=size) + 1), 0, 4)
            columns = {f"f{i:02}": X[:, i] for i in range(N_FEATURES)}
            columns |= {"label": y, "query": (start + np.arange(size)) // QUERY}
            parquet.write_table(table(columns), Path(name) / f"part-{number:04}.parquet")
        yield Path(name)


@contextmanager
def cluster(
    n_workers: int, warm: Any = None, memory_limit: Any = 0, processes: bool = True
) -> Iterator[Any]:
    """Workers that have loaded and compiled what the ``warm`` models need."""
    from dask import config

    from distributed import Client, LocalCluster

    options: dict[str, Any] = {
        "n_workers": n_workers,
        "threads_per_worker": 1,
        "memory_limit": memory_limit,
    }
    options["processes"] = processes
    patience = {"distributed.comm.timeouts.connect": "300s"}  # a busy machine starts workers slowly
    with (
        config.set(patience),
        LocalCluster(**options, dashboard_address=None, silence_logs=50) as place,
        Client(place) as client,
        files(2000, part=500) as folder,
    ):
        for make in (warm or {}).values():
            fit_on(client, make(), folder)
        yield client


def fit_on(client: Any, model: Any, folder: Path) -> Any:
    import rankwright as rw

    with rw.engine(client):
        return model.fit(folder, "label", qid="query")


def on_engine(model: Any, folder: Path) -> Any:
    return fit_on("local:2", model, folder)


def fit_local(model: Any, folder: Path) -> Any:
    """Read all files, then fit: what a user without a cluster does."""
    return fit_frame(model, read_frame(folder))


def read_frame(folder: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(folder).to_pandas()


def fit_frame(model: Any, frame: Any) -> Any:
    return model.fit(frame.drop(columns=["label", "query"]), frame["label"], qid=frame["query"])


def fingerprint(model: Any) -> str:
    import rankwright as rw

    with tempfile.TemporaryDirectory() as name:
        rw.save(model, Path(name) / "model.rw")
        return hashlib.sha256((Path(name) / "model.rw").read_bytes()).hexdigest()


def timed(work: Callable[..., Any], *arguments: Any, **more: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work(*arguments, **more)
    return time.perf_counter() - start, result


PARTS: dict[str, tuple[Callable[[Any], None], list[int]]] = {
    "overhead": (overhead, [0]),
    "grid": (grid, [5_000]),
    "workers": (workers, [200_000]),
    "crossover": (crossover, [100_000, 400_000]),
    "weak": (weak, [100_000, 400_000]),
    "memory": (memory, [400_000]),
    "spill": (spill, [400_000]),
    "kill": (kill, [50_000]),
    "gone": (gone, [0]),
    "beliefs": (beliefs, [5_000, 100_000]),
    "peers": (peers, [100_000]),
    "simulation": (simulation, [100_000, 200_000, 400_000]),
}

if __name__ == "__main__":
    main()
