"""``evaluate`` beside pytrec_eval-terrier and ranx: NDCG@10 and AP of 100,000 queries, in one run.

rankwright starts from the arrays a model gives. The peers take dictionaries: making and loading
them is timed apart, so that the ratio compares evaluation alone (which favors the peers).
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

N_QUERIES = int(os.environ.get("RANKWRIGHT_BENCH_QUERIES", "100000"))
N_ITEMS = 100
PEERS = {"pytrec_eval": "pytrec-eval-terrier", "ranx": "ranx"}


def run() -> None:
    """Print seconds, ratios and memory, then our own times on other shapes of data."""
    print(f"NDCG@10 and AP, {N_QUERIES:,} queries x {N_ITEMS} items, seconds (shortest of several)")
    print(f"{'':<24} {'prepare':>8} {'evaluate':>9} {'ratio':>6} {'peak rise MB':>13}", flush=True)
    _child("ours")
    for module, package in PEERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{package} is not installed: pip install {package} to compare")
        else:
            _child(module)
    _child("shapes")


def _child(name: str) -> None:
    """One line in a process of its own, so that its peak memory is its own."""
    subprocess.run(
        [sys.executable, "-c", f"from benchmarks.metrics import {name}; {name}()"], check=True
    )


def ours() -> None:
    """Arrays in, means out; peak memory as a multiple of scores + y + qid."""
    from rankwright.metrics import evaluate

    data = _data()
    evaluate([1, 2], [0, 1])
    before = _peak()
    result, seconds = _best(lambda: evaluate(*data, ["NDCG@10", "AP"]), 5)
    rise, size = _peak() - before, sum(column.nbytes for column in data) / 1e6
    print(
        f"{'rankwright':<24} {0.0:8.2f} {seconds:9.3f} {1.0:6.1f} {rise:13.0f}"
        f"  = {rise / size:.2f} x the input ({size:.0f} MB); AP {result['AP']:.6f}"
    )


def pytrec_eval() -> None:
    import pytrec_eval as peer

    data, ids = _data(), [f"d{i}" for i in range(N_ITEMS)]
    before, start = _peak(), time.perf_counter()
    qrels, runs = _dicts(data, ids)
    evaluator = peer.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map"})
    prepared = time.perf_counter() - start
    values, seconds = _best(lambda: evaluator.evaluate(runs), 2)
    mean = float(np.mean([value["map"] for value in values.values()]))
    _line("pytrec_eval-terrier", prepared, seconds, _peak() - before, mean)


def ranx() -> None:
    import warnings

    warnings.simplefilter("ignore")
    from ranx import Qrels, Run, evaluate

    names = ["ndcg_burges@10", "map"]
    small = {"q": {"a": 1, "b": 0}}
    evaluate(Qrels(small), Run({"q": {"a": 1.0, "b": 0.0}}), names)  # compiles
    data, ids = _data(), [f"d{i}" for i in range(N_ITEMS)]
    before, start = _peak(), time.perf_counter()
    qrels, runs = (kind(part) for kind, part in zip((Qrels, Run), _dicts(data, ids), strict=True))
    prepared = time.perf_counter() - start
    values, seconds = _best(lambda: evaluate(qrels, runs, names), 2)
    _line("ranx", prepared, seconds, _peak() - before, float(values["map"]))


def shapes() -> None:
    """Our own times where scores tie, lists differ in length, or the list is long."""
    from rankwright.metrics import evaluate

    rng, (scores, y, qid) = np.random.default_rng(1), _data()
    ragged = np.repeat(np.arange(N_QUERIES), rng.integers(1, 2 * N_ITEMS, N_QUERIES))[: len(y)]
    n = 100_000
    one = (scores[:n], y[:n], None)
    cases: dict[str, tuple[tuple[Any, ...], list[str]]] = {
        "all scores tie somewhere": ((np.round(scores * 3), y, qid), ["NDCG@10", "AP"]),
        "lists of 1 to 199 items": (
            (scores[: len(ragged)], y[: len(ragged)], ragged),
            ["NDCG@10", "AP"],
        ),
        "Disagreement": ((scores, y, qid), ["Disagreement"]),
        "one list of 100,000 items": (one, ["NDCG@10", "AP", "Disagreement", "KendallTau"]),
        "  the same, SVR HR MSD M1D": (one, ["SVR(n=2)", "HR", "MSD", "M1D"]),
    }
    print("rankwright on other data, seconds")
    for words, (data, names) in cases.items():
        seconds = _best(lambda data=data, names=names: evaluate(*data, names), 3)[1]
        print(f"{words:<33} {seconds:9.3f}", flush=True)


def _data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    n = N_QUERIES * N_ITEMS
    y = rng.choice(5, n, p=[0.6, 0.2, 0.1, 0.07, 0.03])
    return y + 2 * rng.standard_normal(n), y, np.repeat(np.arange(N_QUERIES), N_ITEMS)


def _dicts(data: tuple[np.ndarray, ...], ids: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    scores, y, _ = (column.reshape(-1, N_ITEMS).tolist() for column in data)
    names = [f"q{i}" for i in range(len(y))]
    return tuple(
        {q: dict(zip(ids, row, strict=True)) for q, row in zip(names, rows, strict=True)}
        for rows in (y, scores)
    )


def _line(name: str, prepared: float, seconds: float, rise: float, mean: float) -> None:
    from rankwright.metrics import evaluate

    data = _data()
    own = _best(lambda: evaluate(*data, ["NDCG@10", "AP"]), 3)[1]
    print(
        f"{name:<24} {prepared:8.2f} {seconds:9.3f} {seconds / own:6.1f} {rise:13.0f}"
        f"  AP {mean:.6f}"
    )


def _best(call: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """The result and the shortest of several times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return result, min(times)


def _peak() -> float:
    """The largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
