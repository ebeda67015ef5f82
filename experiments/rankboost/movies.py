"""What Figures 5, 6 and 7 share: the algorithms, the protocol, the printing.

Options of each figure: ``--quick`` (one split, few users), ``--splits=n``, ``--targets=n`` (users
per point). Needs MovieLens 1M (see ``RANKWRIGHT_DATA``). Up to 25 users of a point are a job of one
process. Results are kept by job and method in ``experiments/_results``: an interrupted run
continues where it stopped, and a new method is computed without the others. ``--recompute``
computes everything again, ``--recompute=RankBoost`` the methods whose names begin with that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from experiments.sources import call_in_worker, note_worker
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import rankwright as rw
from rankwright import recommend
from rankwright.data import split_within_users

RESULTS = Path(__file__).parents[1] / "_results"
FILL = {
    "regression, least norm": "mean",
    "regression, basic": "mean",
    "normalized regression": "standard",
}
GAPS = ("VSIM, unseen = 0", "VSIM, unseen skipped")  # RankBoost minus these, user by user
SHARED: list[Any] = []  # the ratings, in a process that works on jobs
TITLES = ("disagreement", "average precision", "PROT", "coverage")


class Size(NamedTuple):
    """How large an experiment is."""

    splits: int
    targets: int
    quick: bool
    recompute: str | None  # methods whose names begin with this are computed again; None: none


class Point(NamedTuple):
    """One point of a figure: who is a feature, who is a target."""

    name: str
    reference: np.ndarray
    targets: np.ndarray


class Job(NamedTuple):
    """Some users of one point of one split, and where their values are kept."""

    seed: int
    point: Point
    path: Path


def size_of(argv: list[str], splits: int, targets: int) -> Size:
    """The paper's size, or what the options say."""
    given = dict(word[2:].split("=") for word in argv if "=" in word)
    recompute = "" if "--recompute" in argv else given.get("recompute")
    quick = "--quick" in argv
    return Size(
        int(given.get("splits", 1 if quick else splits)),
        int(given.get("targets", 20 if quick else targets)),
        quick,
        recompute,
    )


def algorithms(n_features: int) -> dict[str, Any]:
    """The paper's, with those its authors propose; T = 40 + N / 10, WeakLearn.3.cum.

    VSIM and regression in two readings each. The printed regression has no intercept.
    """
    boost = rw.RankBoost(n_estimators=40 + n_features // 10, cumulative=True)
    return {
        "RankBoost": boost,
        "RankBoost + VSIM": make_pipeline(rw.rankers.VSIMFeature(), boost),
        "VSIM, unseen = 0": rw.VSIM(unseen="zero"),
        "VSIM, unseen skipped": rw.VSIM(),
        "VSIM over raters": rw.VSIM(over="rated"),
        "nearest neighbor": rw.NearestNeighbor(),
        "  shrinkage 100": rw.NearestNeighbor(shrinkage=100.0),
        "k-NN, k = 20": rw.KNN(),
        "regression, least norm": rw.RidgeRanker(fit_intercept=False),
        "regression, basic": rw.RidgeRanker(fit_intercept=False, solution="basic"),
        "normalized regression": rw.RidgeRanker(),
        "random": None,
    }


def load() -> Any:
    try:
        return rw.load_dataset("movielens-1m")
    except rw.exceptions.DatasetError as error:
        sys.exit(f"this figure needs MovieLens 1M: {error}")


def draw(ratings: Any, splits: list[tuple[int, list[Point]]], size: Size, name: str) -> None:
    """Run every point of every split, print the means, keep them as JSON."""
    folder = RESULTS / f"rankboost_{name}"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        job for seed, points in splits for point in points for job in jobs_of(seed, point, folder)
    ]
    if size.recompute is not None:
        for job in jobs:
            _forget(job.path, size.recompute)
    names = set(algorithms(1))
    run_jobs(ratings, _work, [job for job in jobs if names - set(kept(job.path))], len(jobs))
    print(f"{size.splits} splits, at most {size.targets} target users a point")
    values = {
        point.name: _read([job.path for job in jobs if job.point.name == point.name])
        for point in splits[0][1]
    }
    (RESULTS / f"rankboost_{name}.json").write_text(json.dumps(_report(values), indent=1))


def jobs_of(seed: int, point: Point, folder: Path) -> Iterator[Job]:
    """One point in parts of at most 25 users, so that a larger run reuses a smaller one."""
    for start in range(0, len(point.targets), 25):
        users = point.targets[start : start + 25]
        name = f"{seed}_{point.name}_{len(point.reference)}_{start}_{len(users)}.npz"
        yield Job(seed, point._replace(targets=users), folder / name)


def run_jobs(ratings: Any, work: Callable[..., float], jobs: list[Job], n_all: int) -> None:
    """Split after split, so that what an interrupted run leaves is of use; largest first."""
    jobs = sorted(jobs, key=lambda job: (job.seed, -len(job.point.reference)))
    start = time.perf_counter()
    with ProcessPoolExecutor(initializer=_prepare, initargs=(ratings,)) as pool:
        seconds = []
        for done in as_completed([pool.submit(call_in_worker, work, job) for job in jobs]):
            seconds.append(note_worker(done.result()))
            left = f"{len(seconds)} of {len(jobs)}, {time.perf_counter() - start:.0f} s"
            print(left, file=sys.stderr, flush=True)
    if jobs:
        cpu, wall = sum(seconds), time.perf_counter() - start
        print(f"{len(jobs)} of {n_all} jobs computed: {cpu:.0f} s of CPU, {wall:.0f} s")


def _prepare(ratings: Any) -> None:
    """One process for each core: threads inside them would only be in each other's way."""
    SHARED.append(ratings)
    os.environ["RANKWRIGHT_THREADS"] = "1"
    threadpool_limits(1)


def _work(job: Job) -> float:
    """Keep one table (users x measures) a method; the CPU seconds that it took."""
    start = time.process_time()
    point, before = job.point, kept(job.path)
    split = split_within_users(SHARED[0].user, random_state=job.seed)
    chosen = {n: a for n, a in algorithms(len(point.reference)).items() if n not in before}
    fill = {name: how for name, how in FILL.items() if name in chosen}
    found = recommend.compare(
        SHARED[0], split, chosen, point.targets, point.reference, missing=fill
    )
    tables = {name: scores.matrix.T for name, scores in found.items()}
    keep(job.path, {"user": point.targets, **before, **tables})
    return time.process_time() - start


def kept(path: Path) -> dict[str, np.ndarray]:
    """The tables of a job that were computed before, by method."""
    if not path.exists():
        return {}
    with np.load(path) as tables:
        return dict(tables)


def keep(path: Path, tables: dict[str, np.ndarray]) -> None:
    half = path.with_suffix(".half")
    with half.open("wb") as file:
        np.savez_compressed(file, **tables)
    half.rename(path)


def _forget(path: Path, prefix: str) -> None:
    """Drop the tables of the methods whose names begin so."""
    if tables := kept(path):
        keep(path, {n: t for n, t in tables.items() if n == "user" or not n.startswith(prefix)})


def _read(paths: list[Path]) -> dict[str, np.ndarray]:
    """The values of a point from all of its jobs, one below the other, in the order of methods."""
    parts = [kept(path) for path in paths]
    names = ["user", *algorithms(1)]
    tables = {name: np.concatenate([part[name] for part in parts]) for name in names}
    return tables | {f"RankBoost - {name}": tables["RankBoost"] - tables[name] for name in GAPS}


def _report(values: dict[str, dict[str, np.ndarray]]) -> dict[str, Any]:
    """Print a table for each measure, methods against points; all of it for the JSON."""
    report = {}
    names = [name for name in next(iter(values.values())) if name != "user"]
    for place, title in enumerate(TITLES):
        rows = {
            name: [
                mean_and_error(tables["user"], tables[name][:, place]) for tables in values.values()
            ]
            for name in names
        }
        report[title] = {name: dict(zip(values, row, strict=True)) for name, row in rows.items()}
        largest = max(error for row in rows.values() for _, error in row)
        print(f"\n{title} (standard errors up to {largest:.4f})")
        _print_row("", values)
        for name, row in rows.items():
            paired = name.startswith("RankBoost - ")
            _print_row(name, [f"{mean:{'+' * paired}.4f}" for mean, _ in row])
            if paired:
                _print_row("  its standard error", [f"{error:.4f}" for _, error in row])
    return report


def mean_and_error(user: np.ndarray, value: np.ndarray) -> tuple[float, float]:
    """The mean, and its standard error over users (a user may be in several splits)."""
    some = ~np.isnan(value)
    mean = float(value[some].mean())
    per_user = np.bincount(user[some], value[some] - mean)
    return mean, float(np.sqrt((per_user**2).sum()) / some.sum())


def _print_row(name: str, cells: Iterable[str]) -> None:
    print(f"  {name:<33}" + "".join(f"{cell:>9}" for cell in cells))
