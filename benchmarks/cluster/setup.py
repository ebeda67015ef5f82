"""Data, models and local clusters that the parts share."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

N_FEATURES, QUERY = 46, 100


def models(options: Any) -> dict[str, Callable[[], Any]]:
    names = options.models or ["RidgeRanker", "MPRank", "RankSVM", "LambdaMART"]
    return {name: every_model(options.rounds)[name] for name in names}


def every_model(rounds: int) -> dict[str, Callable[[], Any]]:
    import rankwright as rw

    return {
        "RidgeRanker": rw.RidgeRanker,
        "MPRank": rw.MPRank,
        "RankSVM": lambda: rw.RankSVM(C=100.0, tol=1e-3),
        "LambdaMART": lambda: rw.LambdaMART(n_estimators=rounds),
        "RankBoost": lambda: rw.RankBoost(n_estimators=rounds),
        "OAPBPM": lambda: rw.OAPBPM(n_estimators=5, random_state=0),
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
        LocalCluster(**options, dashboard_address=":0", silence_logs=50) as place,
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


@contextmanager
def collecting(call: Callable[[int], Any]) -> Iterator[None]:
    """Call a function with 1, 2, 3 ... whenever a fit on Dask asks for a result."""
    from rankwright.distributed.engines import DaskEngine

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
    from rankwright.distributed.engines import DaskEngine

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
