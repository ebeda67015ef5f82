"""Every ranker on extreme data: a million columns, one query of 100,000 documents, large features.

``python -m benchmarks extremes wide`` runs one part; ``wide RidgeRanker,KNN`` only the
rankers whose name starts so. CPU seconds of ``fit`` and ``decision_function`` on one thread,
compiled before; a process of its own for each ranker, which a limit of CPU seconds ends.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RANKWRIGHT_THREADS"), "1"
)
LIMIT = 120


def run(part: str = "", name: str = "") -> None:
    """Print the tables."""
    for one in [part] if part else ["wide", "long_query", "scale"]:
        code = f"from benchmarks.extremes import {one}; {one}({name!r})"
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **ONE_THREAD})


def wide(name: str = "") -> None:
    """2,000 rows of 30 values in a million columns, 50 queries."""
    print("CSR, 2,000 x 1,000,000, 30 values a row (58,000 columns in use), 50 queries: CPU s")
    for ranker in _instances(name):
        (took,) = _in_a_child(lambda ranker=ranker: [_seconds(ranker, *_wide(2_000))])
        print(f"  {took}  {_shown(ranker)}", flush=True)


def long_query(name: str = "") -> None:
    """One query of 10,000 and of 100,000 documents, 20 features, 4 grades."""
    print("one query, 20 features, 4 grades; 10,000 and 100,000 documents: CPU s; exponent of rows")
    for ranker in _instances(name):
        sizes = (10_000, 100_000)
        took = [
            _in_a_child(lambda ranker=ranker, n=n: [_seconds(ranker, *_one_list(n))])[0]
            for n in sizes
        ]
        try:
            low, high = (max(float(seconds), 0.005) for seconds in took)
            exponent = f"{np.log10(high / low):5.2f}"
        except ValueError:  # refused, or above the limit
            exponent = "     "
        print(f"  {took[0]} {took[1]} {exponent}  {_shown(ranker)}", flush=True)


def scale(name: str = "RankSVM") -> None:
    """The same features times 1e2 and times 1e8, 5,000 x 20 and 250 queries."""
    print("5,000 x 20, features times 1e2 and times 1e8: CPU s and their ratio")
    X, y = _one_list(5_000)
    qid = np.repeat(np.arange(250), 20)
    for ranker in _instances(name or "RankSVM"):
        low, high = (
            _in_a_child(lambda r=ranker, s=s: [_seconds(r, s * X, y, qid)])[0] for s in (1e2, 1e8)
        )
        print(f"  {low} {high} {float(high) / float(low):6.2f}  {_shown(ranker)}", flush=True)


def _instances(name: str) -> list[Any]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from contract.instances import INSTANCES

    starts = tuple(name.split(","))
    return [ranker for ranker in INSTANCES if type(ranker).__name__.startswith(starts)]


def _shown(ranker: Any) -> str:
    return " ".join(repr(ranker).split())[:80]


def _seconds(ranker: Any, X: Any, y: Any, qid: Any = None) -> str:
    """Seconds of fit and scoring, or the class of the error that refuses the data."""
    from sklearn.base import clone

    rows = slice(0, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            clone(ranker).fit(X[rows], y[rows], qid=None if qid is None else qid[rows])
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + LIMIT,) * 2)
            start = time.process_time()
            clone(ranker).fit(X, y, qid=qid).decision_function(X)
        except Exception as error:
            return f"{type(error).__name__[:8]:>8}"
    return f"{time.process_time() - start:8.2f}"


def _in_a_child(work: Callable[[], list[str]]) -> list[str]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "\n".join(work()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().split("\n")
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status)
        over = ended in (signal.SIGXCPU, signal.SIGKILL)
        return [f"{'> ' + str(LIMIT) if over else 'signal ' + str(ended):>8}"]
    return lines


def _wide(n: int) -> tuple[Any, Any, Any]:
    from scipy import sparse

    rng = np.random.default_rng(0)
    where = (np.repeat(np.arange(n), 30), rng.integers(0, 1_000_000, 30 * n))
    X = sparse.csr_array((rng.normal(size=30 * n), where), shape=(n, 1_000_000))
    return X, rng.integers(0, 4, n).astype(float), np.repeat(np.arange(n // 40), 40)


def _one_list(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    return X, np.digitize(X[:, 0] + rng.normal(size=n), [-1.0, 0.0, 1.0]).astype(float)
