"""Online rankers beside what the machine can do and beside river, scikit-learn and mord.

Times of one thread are thread CPU times, the shortest of several: a shared machine does not change
them much. Limits are measured in the same run: products and sums of rows that lie in the cache,
random draws, one reading of the rows.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

N_ROWS, N_MEMBERS, TAU = 50_000, 100, 0.3
STREAM_ROWS = int(os.environ.get("RANKWRIGHT_BENCH_STREAM", "10000000"))


def run() -> None:
    """Every part in a process of its own."""
    for part in ("ensembles", "one_pass", "one_row", "memory"):
        code = f"from benchmarks.online import {part}; {part}()"
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def best(function: Callable[[], Any], repeats: int = 7) -> float:
    """Seconds of CPU of this thread, the shortest of several runs after one to warm up."""
    function()
    shortest = np.inf
    for _ in range(repeats):
        start = time.thread_time()
        function()
        shortest = min(shortest, time.thread_time() - start)
    return float(shortest)


def wall(function: Callable[[], Any], repeats: int = 5) -> float:
    shortest = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - start)
    return float(shortest)


def make_rows(d: int, density: float = 1.0, n: int = N_ROWS) -> tuple[Any, Any]:
    """Rows and five grades of equal size that follow a noisy linear score."""
    rng = np.random.default_rng(0)
    if density == 1.0:
        X: Any = rng.standard_normal((n, d))
    else:
        X = sparse.random(n, d, density, format="csr", random_state=0)
    score = X @ rng.standard_normal(d)
    score = score + 0.2 * score.std() * rng.standard_normal(n)
    return X, np.searchsorted(np.quantile(score, [0.2, 0.4, 0.6, 0.8]), score)


def ensembles() -> None:
    """OAP-BPM, 100 members: share of the limit, threads, and the cost per member and row."""
    os.environ["RANKWRIGHT_THREADS"] = "1"
    print(f"OAP-BPM, {N_MEMBERS} members, {N_ROWS:,} rows, tau {TAU}, five grades; milliseconds")
    print(f"{'':22} {'fit':>8} {'limit':>8} {'share':>7} {'2 threads (wall)':>18}")
    cases = (("d = 6", 6, 1.0), ("d = 300", 300, 1.0), ("d = 546, 5 % CSR", 546, 0.05))
    per_member = {d: one_ensemble(name, d, density) for name, d, density in cases}
    river_member(per_member[300])


def one_ensemble(name: str, d: int, density: float) -> float:
    """Print one line; seconds per row and member."""
    from rankwright import OAPBPM

    X, y = make_rows(d, density)
    model = OAPBPM(n_estimators=N_MEMBERS, tau=TAU, random_state=0)
    seconds = best(lambda: model.fit(X, y))
    shown = int(model.n_correct_.sum() + model.n_mistakes_)
    limit = dense_limit(X, shown, model.n_mistakes_) if d == 300 else lane_limit(X)
    one = wall(lambda: model.fit(X, y))
    os.environ["RANKWRIGHT_THREADS"] = "2"
    two = wall(lambda: model.fit(X, y))
    os.environ["RANKWRIGHT_THREADS"] = "1"
    print(
        f"{name:22} {1e3 * seconds:8.1f} {1e3 * limit:8.1f} {limit / seconds:7.0%} "
        f"{1e3 * one:8.0f} -> {1e3 * two:.0f}",
        flush=True,
    )
    return seconds / (N_ROWS * N_MEMBERS)


def dense_limit(X: Any, shown: int, mistakes: int) -> float:
    """Products and sums in cache, draws, and two readings of the rows."""
    from benchmarks.online_limits import axpy_loop, dot_loop, draw_loop

    d = X.shape[1]
    a, b = np.ones(d), np.full(d, 1e-9)
    dots = best(lambda: dot_loop(a, b, 100_000)) / 100_000
    sums = best(lambda: axpy_loop(a, b, 100_000)) / 100_000
    draws = best(lambda: draw_loop(1, 1_000_000)) / 1_000_000
    reading = best(lambda: X.sum(axis=1), 3)
    return shown * dots + mistakes * sums + N_ROWS * N_MEMBERS * draws + 2 * reading


def lane_limit(X: Any) -> float:
    """All members at once: for each value of each row, one reading and one update of a lane."""
    from benchmarks.online_limits import draw_loop, lane_loop

    rows = sparse.csr_matrix(X)
    table = np.zeros((X.shape[1], (N_MEMBERS + 7) // 8 * 8))
    out = np.zeros(table.shape[1])
    draws = best(lambda: draw_loop(1, 1_000_000)) / 1_000_000
    traffic = best(lambda: lane_loop(rows.indices, rows.data, table, out), 3)
    return traffic + N_ROWS * N_MEMBERS * draws


def river_member(ours: float) -> None:
    """river has no PRank: its cheapest linear model is one member, one dictionary per row."""
    if not has("river"):
        return
    from river import linear_model

    X, y = make_rows(300, n=300)
    rows = [dict(enumerate(row)) for row in X.tolist()]
    grades = y.tolist()

    def learn() -> None:
        model = linear_model.LinearRegression()
        for row, grade in zip(rows, grades, strict=True):
            model.predict_one(row)
            model.learn_one(row, grade)

    theirs = best(learn, 3) / len(rows)
    print(
        f"per row and member, d = 300: ours {1e9 * ours:.0f} ns, river LinearRegression "
        f"{1e6 * theirs:.1f} us: {theirs / ours:,.0f} x"
    )


def one_pass() -> None:
    """One pass over 50,000 rows of 50 features, and the rank loss on 10,000 more."""
    from rankwright import BayesianPRank, PRank

    warnings.simplefilter("ignore")
    X, y = make_rows(50, n=N_ROWS + 10_000)
    train, test = (X[:N_ROWS], y[:N_ROWS]), (X[N_ROWS:], y[N_ROWS:])
    print(f"\none pass, {N_ROWS:,} rows, d = 50: microseconds a row, rank loss on 10,000 others")
    for name, ranker in {
        "PRank": PRank(),
        "PRank, averaged": PRank(average=True),
        "PRank, ROMMA": PRank(update="romma"),
        "BayesianPRank": BayesianPRank(),
        "BayesianPRank, diagonal": BayesianPRank(covariance="diagonal"),
    }.items():
        seconds = best(lambda ranker=ranker: ranker.fit(*train), 3)
        report(name, seconds, np.abs(ranker.predict(test[0]) - test[1]).mean())
    peers_one_pass(train, test)


def peers_one_pass(train: Any, test: Any) -> None:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    sgd = [SGDClassifier(random_state=0), SGDRegressor(random_state=0)]
    for peer in sgd:
        more = {"classes": np.arange(5)} if isinstance(peer, SGDClassifier) else {}
        seconds = best(lambda peer=peer, more=more: peer.partial_fit(*train, **more), 3)
        loss = np.abs(np.clip(np.round(peer.predict(test[0])), 0, 4) - test[1]).mean()
        report(f"scikit-learn {type(peer).__name__}", seconds, loss)
    if has("mord"):
        import mord

        for peer in (mord.LogisticAT(), mord.OrdinalRidge()):
            seconds = best(lambda peer=peer: peer.fit(train[0], train[1].astype(int)), 1)
            loss = np.abs(peer.predict(test[0]) - test[1]).mean()
            report(f"mord {type(peer).__name__} (to the end)", seconds, loss)
    if has("river"):
        river_pass(train, test)


def river_pass(train: Any, test: Any) -> None:
    from river import linear_model

    rows = [dict(enumerate(row)) for row in train[0][:5000].tolist()]
    for peer in (linear_model.LinearRegression, linear_model.PARegressor):
        model = peer()

        def learn(model: Any = model) -> None:
            for row, grade in zip(rows, train[1].tolist(), strict=False):
                model.learn_one(row, grade)

        report(f"river {peer.__name__} (5,000 rows)", best(learn, 2) * N_ROWS / len(rows), None)


def report(name: str, seconds: float, loss: float | None) -> None:
    tail = "" if loss is None else f"{loss:9.3f}"
    print(f"{name:36} {1e6 * seconds / N_ROWS:9.3f} {tail}", flush=True)


def one_row() -> None:
    """One row a call: predict nothing, learn one row."""
    from rankwright import OAPBPM, BayesianPRank, PRank

    X, y = make_rows(50, n=4000)
    print("\none row a call, d = 50: microseconds a call")
    for name, ranker in {
        "PRank.partial_fit": PRank(),
        "BayesianPRank.partial_fit": BayesianPRank(),
        "OAPBPM(100).partial_fit": OAPBPM(random_state=0),
    }.items():
        ranker.start(50, range(5))

        def learn(ranker: Any = ranker) -> None:
            for i in range(len(y)):
                ranker.partial_fit(X[i : i + 1], y[i : i + 1])

        print(f"{name:36} {1e6 * best(learn, 3) / len(y):9.1f}")
    if has("river"):
        from river import linear_model

        rows, model = [dict(enumerate(row)) for row in X.tolist()], linear_model.LinearRegression()

        def learn_river() -> None:
            for row, grade in zip(rows, y.tolist(), strict=True):
                model.learn_one(row, grade)

        print(f"{'river LinearRegression.learn_one':36} {1e6 * best(learn_river, 3) / len(y):9.1f}")


def memory() -> None:
    """The peak memory of a long stream through partial_fit, chunk by chunk."""
    from rankwright import KernelPRank, PRank, VotedPRank

    chunk, rng = 100_000, np.random.default_rng(0)
    print(f"\n{STREAM_ROWS:,} rows of 10 features through partial_fit, {chunk:,} a call")
    rankers = [PRank(average=True), VotedPRank(max_rules=100)]
    small = KernelPRank(gamma=0.1, budget=50, budget_rule="oldest")
    weights, marks = rng.standard_normal(10), []
    for start in range(0, STREAM_ROWS, chunk):
        X = rng.standard_normal((chunk, 10))
        y = np.digitize(X @ weights + rng.standard_normal(chunk), [-3, -1, 1, 3])
        for ranker in rankers:
            ranker.partial_fit(X, y, range(5) if start == 0 else None)
        small.partial_fit(X[:1000], y[:1000], range(5) if start == 0 else None)
        marks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    tenth = max(len(marks) // 10, 1) - 1
    print(f"peak after a tenth {marks[tenth]:.0f} MB, at the end {marks[-1]:.0f} MB")


def has(module: str) -> bool:
    found = importlib.util.find_spec(module) is not None
    if not found:
        print(f"{module} is not installed: pip install {module} to compare")
    return found
