"""RankBoost per round: beside LightGBM's cheapest tree, across its own forms, threads and sizes.

A round is timed from callback to callback; what is shown is the median and, for ratios, the least
of all rounds, because other work on the machine only ever adds. With one thread the time is that of
the processor, with two it is that of the clock.
"""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwright import RankBoost, TreeRanking
from rankwright.rankers.boosting.weak_learners import splitting

Clock = Callable[[], float]

N_ITEMS, N_FEATURES, N_QUERIES, N_ROUNDS = 100_000, 46, 2_500, 300


def workload(n_items: int, n_features: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Rows with three grades, 40 to a query; no two columns alike."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_items, n_features))
    hidden = X[:, :8] @ rng.standard_normal(8) / 3 + np.sin(2 * X[:, 8])
    y = np.digitize(hidden + rng.standard_normal(n_items), [0.8, 1.8]).astype(np.float64)
    return X, y, np.arange(n_items) // 40


def _rounds(fit: Callable[[Callable[[Any], None]], Any], clock: Clock) -> Any:
    """Seconds of each round but the first, which has the compiling in it."""
    stamps: list[float] = []
    fit(lambda _: stamps.append(clock()))
    return np.diff(stamps)


def ours(
    data: Any, n_estimators: int, threads: int = 1, clock: Clock | None = None, **options: Any
) -> Any:
    """Seconds per round of RankBoost."""
    os.environ["RANKWRIGHT_THREADS"] = str(threads)
    X, y, qid = data
    clock = clock or (time.thread_time if threads == 1 else time.perf_counter)
    RankBoost(n_estimators=2, **options).fit(X[:4000], y[:4000], qid=qid[:4000])  # compile first

    def fit(stamp: Callable[[Any], None]) -> None:
        model = RankBoost(n_estimators=n_estimators, callbacks=[stamp], **options)
        model.fit(X, y, qid=qid)

    return _rounds(fit, clock)


def lightgbm_stump(data: Any, n_estimators: int, threads: int = 1) -> Any:
    """Seconds per iteration of LightGBM with one split a tree."""
    import lightgbm

    X, y, _ = data
    clock = time.thread_time if threads == 1 else time.perf_counter
    parameters = {
        "objective": "regression", "num_leaves": 2, "max_bin": 255, "num_threads": threads,
        "verbosity": -1, "force_col_wise": True,
    }  # fmt: skip
    train = lightgbm.Dataset(X, y, params=parameters)
    train.construct()
    return _rounds(
        lambda stamp: lightgbm.train(parameters, train, n_estimators, callbacks=[stamp]), clock
    )


def _show(name: str, seconds: Any, note: str = "") -> None:
    print(f"  {name:34s} {1e3 * np.median(seconds):8.2f} ms a round {note}", flush=True)


def _ratio(one: Any, other: Any) -> float:
    return float(np.min(one) / np.min(other))


def compare() -> None:
    data = workload(N_ITEMS, N_FEATURES)
    print(f"{N_ITEMS:,} rows x {N_FEATURES} features, {N_QUERIES:,} queries")
    binned = ours(data, N_ROUNDS)
    _show("RankBoost, r, 255 bins", binned)
    try:
        peer = lightgbm_stump(data, N_ROUNDS)
        _show("LightGBM, stump", peer, f"ours takes {_ratio(binned, peer):.2f} of it (target <= 1)")
        peer = lightgbm_stump(data, N_ROUNDS, threads=2)
        both = ours(data, N_ROUNDS, threads=2)
        _show("LightGBM, stump, 2 threads", peer, f"ours takes {_ratio(both, peer):.2f} of it")
    except ImportError:
        print("  LightGBM is not installed (extra bench): left out")
    exact = ours(data, 60, max_bins=None)
    ratio = _ratio(exact, binned)
    _show("RankBoost, r, every threshold", exact, f"{ratio:.2f} times the bins (target <= 4)")
    z = ours(data, 20, criterion="z")
    _show("RankBoost, z, 255 bins", z, f"{_ratio(z, exact):.2f} times exact r (target <= 8)")
    z = ours(data, 20, criterion="z", max_bins=None)
    _show("RankBoost, z, every threshold", z, f"{_ratio(z, exact):.2f} times exact r")
    _show("RankBoost, trees of 8 leaves", ours(data, 12, estimator=TreeRanking()))


def threads() -> None:
    """Two threads against one, by the clock."""
    data = workload(N_ITEMS, N_FEATURES)
    forms: dict[str, tuple[dict[str, Any], int]] = {
        "r, 255 bins": ({}, N_ROUNDS),
        "r, every threshold": ({"max_bins": None}, 100),
        "z, 255 bins": ({"criterion": "z"}, 20),
        "trees": ({"estimator": TreeRanking()}, 20),
    }
    for form, (options, n_estimators) in forms.items():
        one, two = (ours(data, n_estimators, n, time.perf_counter, **options) for n in (1, 2))
        note = f"{_ratio(one, two):.2f} times one, by the clock (r: target >= 1.6)"
        _show(f"2 threads, {form}", two, note)


def memory() -> None:
    X, y, qid = workload(N_ITEMS, N_FEATURES)
    for options in ({}, {"max_bins": None}, {"criterion": "z"}):
        gc.collect()
        tracemalloc.start()
        RankBoost(n_estimators=3, **options).fit(X, y, qid=qid)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"  memory {options}: X and {peak / X.nbytes:.2f} of X (target <= 3)", flush=True)


def growth() -> None:
    sizes, medians = [10**4, 10**5, 10**6], []
    for n_items in sizes:
        seconds = ours(workload(n_items, N_FEATURES), 20)
        medians.append(float(np.min(seconds)))
        _show(f"{n_items:,} rows", seconds)
    slope = np.polyfit(np.log(sizes), np.log(medians), 1)[0]
    print(f"  time grows as rows ** {slope:.2f} (target <= 1.1)", flush=True)


def large() -> None:
    data = workload(10**6, 136)
    start = time.perf_counter()
    seconds = ours(data, 10, threads=2)
    whole = time.perf_counter() - start
    _show("1,000,000 rows x 136, 2 threads", seconds, f"10 rounds, all in all {whole:.0f} s")


def ratings() -> None:
    """Other users' ratings as features, most of them missing: EntryScan against BinnedScan."""
    rng = np.random.default_rng(0)
    for n_items, n_features, known in ((100, 1_000, 0.1), (1_000, 1_000, 0.05)):
        X = rng.integers(1, 6, (n_items, n_features)).astype(np.float64)
        X[rng.random(X.shape) > known] = np.nan
        y, seconds = rng.integers(1, 6, n_items), {}
        for most in (0, splitting.FEW_ENTRIES) * 3:
            before, splitting.FEW_ENTRIES = splitting.FEW_ENTRIES, most
            start = time.process_time()
            RankBoost(n_estimators=140).fit(X, y)
            splitting.FEW_ENTRIES = before
            seconds[most] = min(seconds.get(most, np.inf), time.process_time() - start)
        plain, entries = seconds.values()
        print(
            f"  {n_items} films x {n_features} users, {known:.0%} known: a fit takes "
            f"{1e3 * entries:.0f} ms, on bins {plain / entries:.1f} times as long",
            flush=True,
        )


PARTS: dict[str, Callable[[], None]] = {
    "compare": compare, "threads": threads, "memory": memory, "growth": growth, "large": large,
    "ratings": ratings,
}  # fmt: skip


def run(*parts: str) -> None:
    """Run some parts, or all (``python -m benchmarks rankboost compare threads``)."""
    before = os.environ.get("RANKWRIGHT_THREADS")
    try:
        for name in parts or PARTS:
            PARTS[name]()
    finally:
        if before is None:
            os.environ.pop("RANKWRIGHT_THREADS", None)
        else:
            os.environ["RANKWRIGHT_THREADS"] = before
