"""OnlineKeepRank beside its limit, linear RankSVM beside LightGBM, pairs of one long query.

``python -m benchmarks search_rankers long_query`` runs one part.

Every part runs in its own process, on one thread, and is timed in CPU seconds: on a machine that
others use too, these are what repeats.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RANKWRIGHT_THREADS"), "1"
)
N_FEATURES, QUERY = 46, 20


def run(*parts: str) -> None:
    """Print the tables."""
    for part in parts or ("online_keeprank", "ranksvm", "lightgbm", "long_query"):
        code = f"from benchmarks.search_rankers import {part}; {part}()"
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **ONE_THREAD})


def online_keeprank(n: int = 20_000, d: int = 64) -> None:
    """One pass over n rows, against the products and exponentials it cannot do without."""
    import rankwright as rw

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * 1.4 / np.sqrt(d)
    y = (8 * X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=n) > 0.2).astype(float)
    rw.OnlineKeepRank().fit(X[:2000], y[:2000])
    before = _peak()
    model, ours = _best(lambda: rw.OnlineKeepRank().fit(X, y), 5)
    rise = _peak() - before
    sizes = [int(len(model.support_) * start / n) for start in range(0, n, 256)]
    limit = _best(lambda: _products(X.astype(np.float32), sizes), 5)[1] + _exponentials(
        256 * sum(sizes)
    )
    print(f"OnlineKeepRank, one pass, {n:,} x {d}, {len(model.support_):,} rows stored")
    print(f"  {ours:.3f} CPU s; sgemm + exp of the same sizes {limit:.3f} s: {limit / ours:.0%}")
    print(
        f"  peak memory {_peak() / 1e6:.0f} MB, of which training {rise / 1e6:.0f} MB", flush=True
    )


def _products(X: Any, sizes: list[int]) -> None:
    for number, size in enumerate(sizes):
        _ = X[256 * number : 256 * (number + 1)] @ X[:size].T


def _exponentials(count: int) -> float:
    """Seconds for so many float32 exponentials, by the same polynomial, in cache."""
    from numba import njit

    from rankwright.rankers.keeprank._kernels import TILE, exp_tile

    @njit
    def repeat(exponent: Any, bits: Any, values: Any, times: int) -> None:
        for _ in range(times):
            exp_tile(exponent, bits, values, TILE)

    exponent = -np.linspace(0, 20, TILE).astype(np.float32)
    bits, values = np.empty(TILE, np.int32), np.empty(TILE, np.float32)
    repeat(exponent, bits, values, 1)
    return _best(lambda: repeat(exponent, bits, values, 2000), 5)[1] / (2000 * TILE) * count


def ranksvm() -> None:
    """Time to a relative gap of 1e-3 as the rows grow, and the memory for the largest."""
    import rankwright as rw

    X, y, qid = _letor_like(1_000)
    rw.RankSVM(tol=1e-3).fit(X, y, qid=qid)
    print(f"linear RankSVM, {N_FEATURES} features, {QUERY} rows a query, C = 100, gap 1e-3")
    seconds = []
    sizes = (62_500, 250_000, 1_000_000)
    for n in sizes:
        X, y, qid = _letor_like(n)
        before = _peak()
        model, took = _best(lambda X=X, y=y, qid=qid: _fit(rw, X, y, qid), 3)
        seconds.append(took)
        rise = _peak() - before
        print(
            f"  {n:>9,} rows: {took:6.2f} CPU s, {model.n_iter_} steps, gap "
            f"{model.gap_ / model.objective_:.1e}, memory {1 + rise / X.nbytes:.2f} x input",
            flush=True,
        )
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"  time grows as rows ^ {slope:.2f}", flush=True)


def _fit(rw: Any, X: Any, y: Any, qid: Any) -> Any:
    return rw.RankSVM(C=100.0, tol=1e-3).fit(X, y, qid=qid)


def lightgbm() -> None:
    """LightGBM's 300 trees on the same million rows."""
    try:
        from lightgbm import LGBMRanker
    except ImportError:
        print("LightGBM is not here: pip install 'rankwright[bench]'")
        return
    X, y, _ = _letor_like(1_000_000)
    groups = np.full(len(X) // QUERY, QUERY)
    model = LGBMRanker(n_estimators=300, n_jobs=1, verbose=-1)
    _, took = _best(lambda: model.fit(X, y.astype(int), group=groups), 1)
    print(f"LightGBM, 300 trees, 1,000,000 rows: {took:.1f} CPU s", flush=True)


def long_query() -> None:
    """FRank and RankNet on one query: above 20,000 rows its pairs are sampled."""
    import rankwright as rw

    models = [rw.FRank(), rw.RankNet(random_state=0, early_stopping=None)]

    def fit(model: Any, n: int, grades: int) -> float:
        X, y = _one_list(n, grades)
        return _best(lambda: model.fit(X, y), 1)[1]

    for grades in (4, 0):
        print(f"one query, 20 features, {grades or 'as many'} grades{'' if grades else ' as rows'}")
        for model in models:
            fit(model, 1_000, grades)
            sizes = (1_000, 5_000, 20_000, 100_000)
            seconds = [fit(model, n, grades) for n in sizes]
            shown = ", ".join(f"{n:,} rows {s:.1f}" for n, s in zip(sizes, seconds, strict=True))
            print(f"  {type(model).__name__:7} CPU s: {shown}", flush=True)


def _one_list(n: int, grades: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    y = X[:, 0] + rng.normal(size=n)
    return X, np.digitize(y, [-1.0, 0.0, 1.0]).astype(float) if grades else y


def _letor_like(n: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.random((n, N_FEATURES))
    score = X @ rng.normal(size=N_FEATURES) + rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, [0.6, 0.9])).astype(float)
    return X, y, np.repeat(np.arange(n // QUERY), QUERY)


def _best(work: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return result, float(best)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
