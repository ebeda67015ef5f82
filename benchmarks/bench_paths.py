"""What each fast path gains: the same call with the path and without it, in one run.

A fast path is a second implementation of an operation; docs/architecture.md lists them. Each is
switched off by the constant that is its switch point. CPU time of one thread, the least of several
calls, with and without in turns. ``python -m benchmarks.bench_paths leaf_masks`` runs one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.bench_trees import workload
from scipy import sparse

import rankwright as rw

NEVER = 1 << 60
Call = Callable[[], Any]


def _gain(name: str, call: Call, module: str, constant: str, off: Any, repeats: int = 5) -> None:
    """Time a call with a constant of the package as it is, and with the value that is ``off``."""
    place = import_module(f"rankwright.{module}")
    usual = getattr(place, constant)
    seconds = {usual: np.inf, off: np.inf}
    for _ in range(repeats + 1):  # the first one may compile
        for value in seconds:
            setattr(place, constant, value)
            start = time.process_time()
            call()
            seconds[value] = min(seconds[value], time.process_time() - start)
    setattr(place, constant, usual)
    gain = seconds[off] / seconds[usual]
    print(f"  {name:64} {1e3 * seconds[usual]:9.3f} ms  {gain:6.2f} x", flush=True)


def _trees(n_features: int = 46) -> Any:
    X, y, qid = workload(5_000, n_features)
    return rw.LambdaMART(n_estimators=300, tree="leafwise").fit(X, y, qid=qid), X


def kernels() -> None:
    """Compiled scoring against NumPy, of scorers as ``load_scorer`` gives them."""
    from rankwright.scoring import base

    scorers = [("300 trees, 46 features", *_trees())]
    for d in (10, 46):
        X, y, qid = workload(5_000, d)
        model = rw.RankBoost(n_estimators=300).fit(X, y, qid=qid)
        scorers.append((f"300 thresholds, {d} features", model, X))
    module, usual = base.compile_kernels(), base.kernels
    base.kernels = lambda n_pairs: module
    for what, model, X in scorers:
        scorer = model._scorer()
        for n in (100, 5_000):
            rows = X[:n].copy()
            _gain(
                f"kernels: {what}, {n:,} rows",
                lambda scorer=scorer, rows=rows: scorer.decision_function(rows),  # type: ignore[misc]
                "scoring.base", "kernels", lambda n_pairs: None, 20,
            )  # fmt: skip
    base.kernels = usual


def steps() -> None:
    """Compiled scoring of random thresholds against NumPy, by shape."""
    from rankwright.scoring import base
    from rankwright.scoring.linear import Additive

    rng = np.random.default_rng(0)
    module, usual = base.compile_kernels(), base.kernels
    base.kernels = lambda n_pairs: module
    for d, k in ((10, 300), (46, 300), (46, 3_000), (136, 300)):
        feature, default = rng.integers(d, size=k), rng.integers(2, size=k)
        scorer = Additive.from_rounds(d, feature, rng.normal(size=k), default, rng.normal(size=k))
        for n in (10, 100, 5_000, 60_000):
            rows = rng.normal(size=(n, d))
            _gain(
                f"steps: {k:,} thresholds on {d} features, {n:,} rows",
                lambda scorer=scorer, rows=rows: scorer.decision_function(rows),  # type: ignore[misc]
                "scoring.base", "kernels", lambda n_pairs: None, 100 if n < 1_000 else 4,
            )  # fmt: skip
    base.kernels = usual


def leaf_masks() -> None:
    """Masks of leaves against walking down the trees, both compiled."""
    from rankwright.scoring import base

    model, X = _trees()
    base.compile_kernels()
    for n in (16, 100, 5_000):
        _gain(
            f"leaf masks: 300 trees, {n:,} rows",
            lambda n=n: model.decision_function(X[:n]),  # type: ignore[misc]
            "scoring.trees", "ROWS_FOR_MASKS", NEVER, 30,
        )  # fmt: skip


def few_steps() -> None:
    """Thresholds of additive models by comparison with all of them, NumPy, against bisection."""
    from rankwright.scoring import base

    X, y, qid = workload(5_000, 46)
    model = rw.RankBoost(n_estimators=300).fit(X, y, qid=qid)
    usual = base.kernels
    base.kernels = lambda n_pairs: None
    for n in (1, 100):
        _gain(
            f"few steps: 300 thresholds on 46 features, {n} rows, NumPy",
            lambda n=n: model.decision_function(X[:n]),  # type: ignore[misc]
            "scoring.linear", "FEW_STEPS", 0, 50,
        )  # fmt: skip
    base.kernels = usual


def lanes() -> None:
    """The members of an OAP ensemble side by side against one after the other."""
    for d in (6, 32):
        X = np.random.default_rng(0).normal(size=(10_000, d))
        y = np.digitize(X[:, 0] + X[:, 1], [-1, 0, 1])
        model = rw.OAPBPM(n_estimators=100, random_state=0)
        _gain(
            f"lanes: OAPBPM, 100 members, 10,000 x {d}",
            lambda X=X, y=y, model=model: model.fit(X, y),  # type: ignore[misc]
            "rankers.online.members", "MOST_LANES", 0, 3,
        )  # fmt: skip


def gain_bounds() -> None:
    """Features of sparse rows that cannot be best are left out (criterion z)."""
    X = sparse.random(1_000, 2_000, 0.01, format="csr", random_state=0)
    y = (X[:, :50].sum(axis=1) > 0.2).astype(float)
    model = rw.RankBoost(n_estimators=20, criterion="z")
    _gain(
        "gain bounds: RankBoost(criterion='z'), 1,000 x 2,000 sparse",
        lambda: model.fit(X, np.asarray(y).ravel(), qid=np.arange(1_000) // 20),
        "rankers.boosting.weak_learners.query_splitting", "MANY_FEATURES", NEVER, 2,
    )  # fmt: skip


def narrow_histograms() -> None:
    """Histograms with as many bins as features have values, where features are many."""
    X = np.random.default_rng(0).integers(0, 4, (1_000, 5_000)).astype(float)
    model = rw.LambdaMART(n_estimators=10, tree="leafwise")
    _gain(
        "narrow histograms: LambdaMART, 1,000 x 5,000, four values",
        lambda: model.fit(X, X[:, 0] + X[:, 1], qid=np.arange(1_000) // 20),
        "rankers.boosting.grower", "MANY_FEATURES", NEVER, 2,
    )  # fmt: skip


def copied_codes() -> None:
    """The codes of a small leaf copied side by side before they are summed."""
    X, y, qid = workload(100_000, 46)
    model = rw.LambdaMART(n_estimators=10, tree="leafwise")
    _gain(
        "copied codes: LambdaMART, 100,000 x 46, 10 trees",
        lambda: model.fit(X, y, qid=qid), "rankers.boosting.grower", "SPARSE", NEVER, 3,
    )  # fmt: skip


def logistic_ndcg() -> None:
    """The logistic loss weighted by NDCG in its own kernel; off, by the kernel of all losses.

    The switch is compiled in, so each way compiles in a process of its own.
    """
    print("  logistic_ndcg: gradients of 100,000 rows, 40 to a query, NDCG@30", end="", flush=True)
    milliseconds = []
    for widest in ("None", "0.0"):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", GRADIENTS, widest], check=True, capture_output=True,
                text=True, env={**os.environ, "NUMBA_CACHE_DIR": folder},
            )  # fmt: skip
        milliseconds.append(float(done.stdout))
    print(f" {milliseconds[0]:9.3f} ms  {milliseconds[1] / milliseconds[0]:6.2f} x", flush=True)


GRADIENTS = """
import sys, time
import numpy as np
from rankwright.feedback.base import Grades
from rankwright.rankers.boosting._kernels import pair_gradients as kernels
from rankwright.rankers.boosting.pair_losses import PairGradients, PairWeights
from rankwright.runtime import Team

kernels.WIDEST = kernels.WIDEST if sys.argv[1] == "None" else float(sys.argv[1])
rng = np.random.default_rng(0)
grades = Grades(rng.integers(0, 5, 100_000), np.arange(100_000) // 40)
pairs = PairGradients(grades, None, "logistic", PairWeights.parse("NDCG@30"), Team(1))
scores, seconds = rng.normal(size=len(pairs.rows)), []
for _ in range(6):
    start = time.process_time()
    pairs.at(scores)
    seconds.append(time.process_time() - start)
print(1e3 * min(seconds))
"""


def letor() -> None:
    """The compiled parser of LETOR files against the one that explains every fault."""
    X, y, qid = workload(5_000, 46)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.txt")
        rw.write_letor(rw.Items(X, y, qid=qid), path)
        size = os.path.getsize(path) / 1e6
        rw.read_letor(path)
        import_module("rankwright.data.io.letor._kernels")
        _gain(f"LETOR parser: {size:.1f} MB", lambda: rw.read_letor(path),
              "data.io.letor.reader", "_LARGE", NEVER, 3)  # fmt: skip


def metric_blocks() -> None:
    """Queries of similar length as one matrix in cache, against one matrix of all of them."""
    rng = np.random.default_rng(0)
    for constant, off, n in (("BLOCK_CELLS", 1 << 40, 10_000), ("FEW_CELLS", 0, 20)):
        qid = np.repeat(np.arange(n), rng.integers(5, 100, n))
        scores, y = rng.normal(size=len(qid)), rng.integers(0, 4, len(qid))
        _gain(
            f"metrics, {constant}: NDCG@10 and AP of {n:,} queries",
            lambda s=scores, y=y, qid=qid: rw.evaluate(s, y, qid, ["NDCG@10", "AP"]),  # type: ignore[misc]
            "metrics.ranked_lists", constant, off, 3,
        )  # fmt: skip


def explicit_map() -> None:
    """Weights of monomials against a growing support, for polynomial kernels."""
    X = np.random.default_rng(0).normal(size=(2_000, 10))
    y = np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-1, 0, 1])
    model = rw.KernelPRank(kernel="poly", degree=2)
    _gain(
        "explicit map: KernelPRank(kernel='poly', degree=2), 2,000 x 10",
        lambda: model.fit(X, y), "rankers.online.support_vectors", "MOST_EXPLICIT", 0, 2,
    )  # fmt: skip


PARTS = {
    part.__name__: part
    for part in (
        kernels, steps, leaf_masks, few_steps, lanes, gain_bounds, narrow_histograms, copied_codes,
        logistic_ndcg, letor, metric_blocks, explicit_map,
    )
}  # fmt: skip


def run(*parts: str) -> None:
    os.environ["RANKWRIGHT_THREADS"] = "1"
    for part in parts or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    run(*sys.argv[1:])
