"""MPRank and SVRank, compared with scikit-learn's KernelRidge and with the BLAS products they use.

Wall seconds, the minimum of several runs, on all threads of BLAS; ratios are of figures from the
same run. On a busy machine set OPENBLAS_NUM_THREADS=1, or waiting threads distort the figures.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np


def run() -> None:
    """Print all tables."""
    kernel_fits(4000, n_features=10)
    kernel_fits(4000, n_features=3)
    streaming_primal()
    svrank_linear()
    svrank_kernel(10_000)


def kernel_fits(m: int, n_features: int) -> None:
    """Fit, exact leave-pair-out and a path of 50 values of C, as multiples of KernelRidge."""
    from sklearn.kernel_ridge import KernelRidge

    import rankwright as rw

    X, y = smooth_rows(m, n_features)
    gamma = 1.0 / n_features
    ridge = KernelRidge(kernel="rbf", gamma=gamma, alpha=1.0)
    model = rw.MPRank(C=m / 2, kernel="rbf", gamma=gamma)
    path = rw.MPRankCV(Cs=np.logspace(0, 5, 50), gammas=[gamma])
    model.fit(X[:50], y[:50]).leave_pair_out()  # compile the kernels
    peer = best(lambda: ridge.fit(X, y), 4)
    fit = best(lambda: model.fit(X, y), 4)
    left = best(model.leave_pair_out, 2)
    cv = best(lambda: path.fit(X, y), 2)
    print(f"\nrbf kernel, m = {m}, {n_features} features: s and multiples of KernelRidge")
    rows = {
        "KernelRidge.fit": peer,
        "MPRank.fit (goal: 1.2)": fit,
        "MPRank.fit + leave_pair_out (goal: 4)": fit + left,
        "MPRankCV.fit, 50 values of C (goal: 60)": cv,
    }
    for name, seconds in rows.items():
        print(f"  {name:<45} {seconds:8.2f} {seconds / peer:7.2f} x", flush=True)


def streaming_primal(m: int = 1_000_000, d: int = 100, chunk: int = 50_000) -> None:
    """partial_fit over chunks, compared with the products X'X and X'y of the same chunks."""
    import rankwright as rw

    X, y = linear_rows(m, d)
    parts = [slice(start, start + chunk) for start in range(0, m, chunk)]

    def products() -> None:
        for part in parts:
            X[part].T @ X[part], X[part].T @ y[part]

    def stream() -> None:
        model = rw.MPRank()
        for part in parts:
            model.partial_fit(X[part], y[part])

    blas, ours = best(products, 6), best(stream, 6)
    print(f"\nlinear, {m:,} x {d} in chunks of {chunk:,}: s")
    print(f"  BLAS products alone {blas:.2f}, MPRank.partial_fit {ours:.2f}", end="")
    print(f" = {ours / blas:.2f} x (goal: 1.5)", flush=True)


def svrank_linear() -> None:
    """Time against rows, to a relative duality gap of 1e-4."""
    import rankwright as rw

    print("\nSVRank linear, 50 features, gap 1e-4: s")
    rw.SVRank().fit(*linear_rows(100, 5))
    for power in (1, 2):
        seconds = {}
        for m in (10_000, 100_000, 1_000_000):
            X, y = linear_rows(m, 50)
            model = rw.SVRank(C=100.0, power=power)
            seconds[m] = best(lambda model=model, X=X, y=y: model.fit(X, y), 2 if m < 1e6 else 1)
            gap = model.gap_ / model.objective_
            print(f"  n = {power}, m = {m:>9,}: {seconds[m]:7.2f}, gap {gap:.1e}", flush=True)
        exponent = np.log10(seconds[1_000_000] / seconds[10_000]) / 2
        print(f"  n = {power}, exponent of time from 1e4 to 1e6: {exponent:.2f} (goal: <= 1.2)")


def svrank_kernel(m: int) -> None:
    """The kernel form at a size where pairs would need 10^8 variables."""
    import rankwright as rw

    X, y = smooth_rows(m, 10)
    model = rw.SVRank(C=100.0, kernel="rbf", gamma=0.1)
    seconds = best(lambda: model.fit(X, y), 1)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1] / 1e9
    tracemalloc.stop()
    print(f"\nSVRank rbf, m = {m:,}: {seconds:.1f} s, gap {model.gap_ / model.objective_:.1e}, ")
    print(f"  peak memory {peak:.2f} GB (the Gram matrix is {8 * m * m / 1e9:.2f} GB)")


def smooth_rows(m: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=m)


def linear_rows(m: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    return X, X @ rng.normal(size=d) + rng.normal(size=m)


def best(work: Callable[[], Any], repeats: int) -> float:
    """The minimum time of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
