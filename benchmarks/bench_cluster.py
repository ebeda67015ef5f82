"""Dask clusters on this machine: time, equal models, lost workers, memory, and peers.

``python -m benchmarks cluster`` runs every part at a small size. One part at a time, at any size:
``python -m benchmarks.bench_cluster weak --rows 100000 1000000 4000000 --workers 1 2``.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import math
import operator
import os
import random
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

N_FEATURES, QUERY = 46, 100
NETWORK = 1.25e9  # bytes per second between workers in the simulation: 10 Gbit/s
N_BLOCKS = 64  # shards, and so the most workers that one fit uses


def run() -> None:
    for name in PARTS:
        main([name])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.bench_cluster")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rows", type=int, nargs="+", help="sizes of the data")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of boosting")
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {sorted(unknown)[0]!r}; there are {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    for name in options.parts or PARTS:
        part, rows = PARTS[name]
        options_of_part = argparse.Namespace(**{**vars(options), "rows": options.rows or rows})
        print(f"-- {name}: {part.__doc__}", flush=True)
        part(options_of_part)


def workers(options: Any) -> None:
    """seconds of a fit against the number of workers, files read by the workers"""
    for n in options.rows:
        with files(n) as folder:
            for name, make in models(options.rounds).items():
                local, expected = timed(fit_local, make(), folder)
                texts, prints = [], {fingerprint(on_engine(make(), folder))}
                for count in options.workers:
                    with cluster(count) as client:
                        fit_on(client, make(), folder)  # loads and compiles
                        took, model = timed(fit_on, client, make(), folder)
                    prints.add(fingerprint(model))
                    texts.append(f"{count}: {took:.1f} s")
                near = np.abs(scores(model) - scores(expected)).max()
                print(f"{n:>9,} rows  {name:<11} local {local:5.1f} s   workers {'  '.join(texts)}"
                      f"   different files {len(prints)}, from local {near:.1e}",
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
    count = max(options.workers)
    with cluster(count) as client:
        for name, make in models(options.rounds).items():
            found = None
            for n in options.rows:
                with files(n) as folder:
                    fit_on(client, make(), folder)
                    there, _ = timed(fit_on, client, make(), folder)
                    here, _ = timed(fit_local, make(), folder)
                print(f"{name:<11} {n:>9,} rows  local {here:6.1f} s  "
                      f"{count} workers {there:6.1f} s", flush=True)  # fmt: skip
                found = found or (n if there < here else None)
            print(f"{name:<11} crossover: {f'{found:,} rows' if found else 'not reached'}")


def weak(options: Any) -> None:
    """seconds as rows grow with the workers (rows are those of the largest cluster)"""
    for name, make in models(options.rounds).items():
        for n in options.rows:
            texts = []
            for count in options.workers:
                size = n * count // max(options.workers)
                with files(size) as folder, cluster(count) as client:
                    fit_on(client, make(), folder)
                    texts.append(
                        f"{size:,} on {count}: {timed(fit_on, client, make(), folder)[0]:.1f} s"
                    )
            print(f"{name:<11} {'   '.join(texts)}", flush=True)


def memory(options: Any) -> None:
    """out of core: rows of 4 times the allowed memory against all rows in memory"""
    import rankwright as rw

    for n in options.rows:
        allowed = 8 * n * N_FEATURES // 4
        with files(n) as folder:
            for name, make in models(options.rounds).items():
                with rw.engine("local:2"):
                    whole, first = timed(make().fit, folder, "label", qid="query")
                with rw.engine("local:2", memory=allowed):
                    small, second = timed(make().fit, folder, "label", qid="query")
                same = fingerprint(first) == fingerprint(second)
                print(f"{n:>9,} rows  {name:<11} in memory {whole:5.1f} s   within "
                      f"{allowed / 1e6:,.0f} MB {small:5.1f} s ({small / whole:.2f}x), "
                      f"same file: {same}", flush=True)  # fmt: skip


def spill(options: Any) -> None:
    """two workers with 256 MB each, which spill"""
    for n in options.rows:
        with files(n, part=20_000) as folder:
            for name, make in models(options.rounds).items():
                expected = fingerprint(on_engine(make(), folder))
                with cluster(2, memory_limit="256MB") as client:
                    took, model = timed(fit_on, client, make(), folder)
                print(f"{n:>9,} rows ({8e-6 * n * N_FEATURES:,.0f} MB)  {name:<11} {took:5.1f} s, "
                      f"same file: {fingerprint(model) == expected}", flush=True)  # fmt: skip


def kill(options: Any) -> None:
    """kill -9 of a random worker at a random time of a fit"""
    for n in options.rows:
        with files(n, part=5000) as folder:
            for name, make in models(options.rounds).items():
                expected = fingerprint(on_engine(make(), folder))
                with cluster(3) as client:
                    usual = timed(fit_on, client, make(), folder)[0]
                    usual = timed(fit_on, client, make(), folder)[0]
                    same, seconds = 0, []
                    for number in range(options.kills):
                        client.wait_for_workers(3)
                        killer = killing(client, random.Random(number).uniform(0.0, usual))
                        took, model = timed(fit_on, client, make(), folder)
                        killer.join()
                        same += fingerprint(model) == expected
                        seconds.append(took)
                print(f"{name:<11} {same} of {options.kills} fits end with the same file; "
                      f"{usual:.1f} s, with a kill {np.median(seconds):.1f} s",
                      flush=True)  # fmt: skip


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
    for n in options.rows:
        with files(n) as folder:
            for name, fit in (("LambdaMART", ours), ("LightGBM", lightgbm), ("XGBoost", xgboost)):
                texts, prints = [], set()
                for count in (1, 2, 3):
                    try:
                        with cluster(count) as client:
                            fit(client, folder, options.rounds)
                            took, text = timed(fit, client, folder, options.rounds)
                    except ImportError as error:
                        texts.append(str(error))
                        break
                    prints.add(text)
                    texts.append(f"{count}: {took:.1f} s")
                print(f"{n:>9,} rows  {name:<10} workers {'  '.join(texts)}   different models: "
                      f"{len(prints)}", flush=True)  # fmt: skip


def ours(client: Any, folder: Path, rounds: int) -> str:
    return fingerprint(fit_on(client, models(rounds)["LambdaMART"](), folder))


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
    """the cost model, its check against a run it has not seen, and 10^9 rows on 100 workers

    seconds = rows * features * (read + rounds * work) / min(workers, 64)
              + rounds * (latency + tasks * overhead + log2(workers) * bytes of a sum / network)

    ``read`` and ``work`` are fitted to the smaller sizes, the largest one checks them. ``rounds``
    (sums that the fit waits for) and tasks are counted.
    """
    small, large = options.rows[:-1], options.rows[-1]
    with cluster(2) as client:
        latency, per_task = _round_costs(client)
        for name, make in models(options.rounds).items():
            seen = [_measured(client, make, n) for n in options.rows]
            rest = [took - rounds * (latency + 2 * per_task) for took, rounds in seen[:-1]]
            slope = sum(r * n for r, n in zip(rest, small, strict=True)) / sum(n * n for n in small)
            rate = max(slope, 0.0) * 2 / N_FEATURES  # seconds a cell, on one worker
            took, rounds = seen[-1]

            def predict(n: float, count: int, rate: float = rate, rounds: int = rounds) -> float:
                used, size = min(count, N_BLOCKS), 8.0 * N_FEATURES * 256
                wire = math.log2(max(count, 1)) * size / NETWORK
                return n * N_FEATURES * rate / used + rounds * (latency + used * per_task + wire)

            guess = predict(large, 2)
            print(f"{name:<11} {rounds} rounds, {1e9 * rate:.2f} ns a cell; {large:,} rows on 2 "
                  f"workers: model {guess:.1f} s, measured {took:.1f} s; 10^9 rows on 100 workers: "
                  f"{predict(1e9, 100):,.0f} s", flush=True)  # fmt: skip
    print(f"latency {1e3 * latency:.1f} ms, {1e3 * per_task:.2f} ms a task, network "
          f"{NETWORK / 1e9:.2f} GB/s (assumed)")  # fmt: skip


def _round_costs(client: Any) -> tuple[float, float]:
    """Seconds of a round of one task, and of each task more."""

    def one(n: int) -> float:
        times = []
        for _ in range(15):
            start = time.perf_counter()
            client.gather([client.submit(abs, -1, pure=False) for _ in range(n)])
            times.append(time.perf_counter() - start)
        return float(np.median(times))

    few, many = one(2), one(66)
    return few, max(many - few, 0.0) / 64


def _measured(client: Any, make: Any, n: int) -> tuple[float, int]:
    from rankwright.distributed.dask import DaskEngine

    collect, count = DaskEngine._collect, [0]

    def counted(self: Any, blocks: Any) -> Any:
        count[0] += 1
        return collect(self, blocks)

    with files(n) as folder:
        fit_on(client, make(), folder)
        DaskEngine._collect = counted  # type: ignore[method-assign]
        try:
            return timed(fit_on, client, make(), folder)[0], count[0]
        finally:
            DaskEngine._collect = collect  # type: ignore[method-assign]


def models(rounds: int) -> dict[str, Callable[[], Any]]:
    import rankwright as rw

    return {
        "Regression": rw.Regression,
        "MPRank": rw.MPRank,
        "RankSVM": lambda: rw.RankSVM(C=100.0, tol=1e-3),
        "LambdaMART": lambda: rw.LambdaMART(n_estimators=rounds),
    }


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
def cluster(n_workers: int, memory_limit: Any = 0) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    options = {"n_workers": n_workers, "threads_per_worker": 1, "memory_limit": memory_limit}
    with (
        LocalCluster(**options, dashboard_address=None, silence_logs=50) as place,
        Client(place) as client,
    ):
        client.run(_warm)
        yield client


def _warm() -> None:
    """What a worker imports at its first task, so that no fit pays for it."""
    import pyarrow.parquet  # noqa: F401

    import rankwright.distributed.inputs
    import rankwright.distributed.linear
    import rankwright.rankers.boosting._kernels.histogram
    import rankwright.rankers.gradient._kernels  # noqa: F401


def killing(client: Any, delay: float) -> threading.Thread:
    pids = list(client.run(os.getpid).values())

    def strike() -> None:
        time.sleep(delay)
        os.kill(random.Random(delay).choice(pids), signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread


def fit_on(client: Any, model: Any, folder: Path) -> Any:
    import rankwright as rw

    with rw.engine(client):
        return model.fit(folder, "label", qid="query")


def on_engine(model: Any, folder: Path) -> Any:
    return fit_on("local:2", model, folder)


def fit_local(model: Any, folder: Path) -> Any:
    """Read all files, then fit: what a user without a cluster does."""
    from pyarrow import parquet

    frame = parquet.read_table(folder).to_pandas()
    return model.fit(frame.drop(columns=["label", "query"]), frame["label"], qid=frame["query"])


def scores(model: Any) -> Any:
    return model.decision_function(np.random.default_rng(7).random((1000, N_FEATURES)))


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
    "workers": (workers, [200_000]),
    "crossover": (crossover, [100_000, 400_000]),
    "weak": (weak, [100_000, 400_000]),
    "memory": (memory, [400_000]),
    "spill": (spill, [400_000]),
    "kill": (kill, [50_000]),
    "beliefs": (beliefs, [5_000, 100_000]),
    "peers": (peers, [100_000]),
    "simulation": (simulation, [100_000, 200_000, 400_000]),
}

if __name__ == "__main__":
    main()
