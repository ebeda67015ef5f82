"""MPRank, Figure 1: the on-line form against the batch solution, in error and in time."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from experiments.mprank.reviewers import N_REFERENCE, load
from threadpoolctl import threadpool_limits

import rankwright as rw
from rankwright.exceptions import ConvergenceWarning

RESULTS = Path(__file__).parents[1] / "_results"
ROUNDS = (1, 2, 3, 5, 10, 20, 40, 80, 120)
SIZES = (300, 600, 900, 1200, 2400, 4800)
SHARES = (0.9, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01)  # of the largest constant rate that converges
GAMMAS = (1e-4, 1e-3, 1e-2)


def main(argv: Sequence[str] | None = None) -> None:
    quick = bool(argv) and "--quick" in argv
    warnings.simplefilter("ignore", ConvergenceWarning)  # rounds are cut short on purpose
    found = {"convergence": convergence(), "time": seconds(SIZES[:4] if quick else SIZES)}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "mprank_figure_1.json").write_text(json.dumps(found, indent=1))


def convergence() -> dict[str, Any]:
    """(a) Training and test error after each number of rounds, for the busiest reviewer."""
    X, y = busiest_reviewer()
    half = len(y) // 2
    train, test = (X[:half], y[:half]), (X[half:], y[half:])
    chosen = rw.MPRankCV(gammas=GAMMAS).fit(*train)  # by the leave-pair-out error
    options = {"C": chosen.C_, "kernel": "rbf", "gamma": chosen.gamma_}
    batch = errors(rw.MPRank(**options), train, test)
    found: dict[str, Any] = {"batch": batch, "C": chosen.C_, "gamma": chosen.gamma_}
    print(f"\n(a) {half} training and {len(y) - half} test movies,", end=" ")
    print(f"C = {chosen.C_:g}, gamma = {chosen.gamma_:g}: MSD in training and test")
    print(f"{'batch':>12} {batch[0]:8.4f} {batch[1]:8.4f}")
    for rounds in ROUNDS:
        online = rw.MPRank(**options, solver="online", max_iter=rounds, tol=1e-30)
        found[str(rounds)] = errors(online, train, test)
        print(f"{rounds:5} rounds {found[str(rounds)][0]:8.4f} {found[str(rounds)][1]:8.4f}")
    stopped = rw.MPRank(**options, solver="online").fit(*train)
    found["stopped after"] = stopped.n_iter_
    found["constant rate"] = constant_rates(options, train, test)
    print(f"the paper's rule (cost moves < 0.01 % in a round) stops after {stopped.n_iter_} rounds")
    return found


def constant_rates(options: dict[str, Any], train: Any, test: Any) -> dict[str, Any]:
    """The sweep as printed, with one rate for all rows and rounds, as a share of the largest."""
    highest = _largest_rate(options, train)
    found: dict[str, Any] = {}
    print(f"constant rate eta, at most {highest:.2g}: rounds by the paper's rule, MSD")
    for share in SHARES:
        model = rw.MPRank(**options, solver="online", learning_rate=share * highest, max_iter=5000)
        found[f"{share:g}"] = [*errors(model, train, test), model.n_iter_]
        print(
            f"{share:12g} of it {model.n_iter_:6} rounds {found[f'{share:g}'][0]:8.4f} "
            f"{found[f'{share:g}'][1]:8.4f}"
        )
    return found


def _largest_rate(options: dict[str, Any], train: Any) -> float:
    """1 / (max K_ii + m / (2 C)) of centered rows: twice the best step of the longest row."""
    X, _ = train
    K = np.exp(-options["gamma"] * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    return float(1.0 / (K.diagonal().max() + len(X) / (2.0 * options["C"])))


def errors(model: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> list[float]:
    model.fit(*train)
    return [
        float(rw.evaluate(model.predict(X), y, measures=["MSD"])["MSD"]) for X, y in (train, test)
    ]


def busiest_reviewer() -> tuple[np.ndarray, np.ndarray]:
    """MovieLens in the place of Netflix, whose sample has no reviewer of 1,400 movies."""
    ratings = load("movielens-1m")
    table = np.full((ratings.n_users, ratings.n_items), np.nan)
    table[ratings.user, ratings.item] = ratings.value
    rng = np.random.default_rng(0)
    order = np.argsort(-ratings.user_counts, kind="stable")
    reviewer, others = order[0], rng.permutation(order[1:1000])[:N_REFERENCE]
    items = rng.permutation(np.flatnonzero(~np.isnan(table[reviewer])))[:1400]
    filled = np.where(np.isnan(table), np.nanmedian(table, axis=1)[:, None], table)
    return filled[np.ix_(others, items)].T, table[reviewer, items]


def seconds(sizes: Sequence[int]) -> dict[str, Any]:
    """(b) CPU time to solve, the Gram matrix being there, as in the paper."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    print(f"\n(b) {'m':>6} {'batch s':>9} {'on-line s':>10} {'rounds':>7}")
    with threadpool_limits(1):
        for m in sizes:
            X = rng.normal(size=(m, 20))
            y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=m)
            K = np.exp(-0.02 * ((X**2).sum(1)[:, None] + (X**2).sum(1) - 2 * X @ X.T))
            batch = rw.MPRank(C=100.0, kernel="precomputed")
            online = rw.MPRank(C=100.0, kernel="precomputed", solver="online")
            online.fit(K[:50, :50], y[:50])  # the kernel compiles
            times = [
                least(lambda model=model, K=K, y=y: model.fit(K, y)) for model in (batch, online)
            ]
            found[str(m)] = [*times, online.n_iter_]
            print(f"    {m:6} {times[0]:9.3f} {times[1]:10.3f} {online.n_iter_:7}", flush=True)
    return found


def least(work: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU time of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    main()
