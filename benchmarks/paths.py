"""What each fast path gains: the same call with the path and without it, in one run.

A fast path is a second implementation of an operation; docs/architecture.md lists them. Each is
switched off by the constant that is its switch point. CPU time of one thread, the least of several
calls, with and without in turns. ``python -m benchmarks paths leaf_masks`` runs one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.trees import workload
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
    from rankwright.scoring import Additive, base

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


def few_levels() -> None:
    """Queries of few grades described by a few numbers, against trees of sums (criterion z)."""
    import_module("rankwright.rankers.boosting._kernels.per_query")
    for n, d, per_query in ((1_000, 2_000, 20), (5_000, 500, 50)):
        X = sparse.random(n, d, 0.01, format="csr", random_state=0)
        y = np.digitize(np.asarray(X[:, :50].sum(axis=1)).ravel(), [0.1, 0.2, 0.4])
        model = rw.RankBoost(n_estimators=20, criterion="z", absent="abstain")
        _gain(
            f"few levels: RankBoost(criterion='z'), {n:,} x {d:,} sparse, four grades",
            lambda X=X, y=y, m=model, q=per_query: m.fit(X, y, qid=np.arange(len(y)) // q),  # type: ignore[misc]
            "rankers.boosting._kernels.per_query", "MAX_LEVELS", 0, 2,
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
    """Histograms of a small leaf: its codes copied side by side first; off, where they are."""
    from rankwright.rankers.boosting._kernels import histogram

    rng = np.random.default_rng(0)
    for n, n_features in ((100_000, 46), (300_000, 46), (500_000, 136)):
        by_row = rng.integers(0, 2**32, (n, -(-n_features // 4)), np.uint32)
        codes = np.ascontiguousarray(by_row.T)
        sums = np.zeros((len(codes), 4, 256, 2), np.int64)
        for share in (16, 64):
            rows = np.sort(rng.permutation(n)[: n // share]).astype(np.int32)
            pairs = np.ones((len(rows), 2), np.int64)
            copied = np.zeros((len(codes), 16 * (len(rows) // 16 | 1) + 32), np.uint32)
            second = np.zeros((4, 256, 2), np.int64)

            def add_up(
                words: Any,
                rows: Any = rows,
                pairs: Any = pairs,
                sums: Any = sums,
                second: Any = second,
            ) -> None:
                for block in range(len(sums)):
                    histogram.sum_block(words[block], rows, pairs, sums[block], second)

            def copy_first(by_row: Any = by_row, rows: Any = rows, copied: Any = copied) -> None:
                histogram.copy_codes(by_row, rows, copied[:, : len(rows)])
                add_up(copied[:, : len(rows)])

            seconds = [
                min(_cpu_time(call) for _ in range(7))
                for call in (copy_first, partial(add_up, codes))
            ]
            name = f"copied codes: a leaf of 1/{share} of {n:,} x {n_features}"
            gain = seconds[1] / seconds[0]
            print(f"  {name:64} {1e3 * seconds[0]:9.3f} ms  {gain:6.2f} x", flush=True)


def two_histograms() -> None:
    """Rows added to two histograms in turns, where a feature is mostly zero; off, to one."""
    import numba

    from rankwright.rankers.boosting._kernels import histogram

    rng = np.random.default_rng(0)
    usual, histogram.MANY_ROWS = histogram.MANY_ROWS, NEVER
    one = numba.njit(histogram.sum_block.py_func, error_model="numpy")
    pairs, sums = np.ones((100_000, 2), np.int64), np.zeros((2, 4, 256, 2), np.int64)
    one(np.zeros(1, np.uint32), np.zeros(1, np.int32), pairs, *sums)  # compiles without them
    histogram.MANY_ROWS = usual
    for n in (1_000, 10_000, 100_000):
        codes = rng.integers(0, 255, (n, 4))
        codes[rng.random(n) < 0.7, 2] = 0
        words = (codes << np.arange(0, 32, 8)).sum(axis=1).astype(np.uint32)
        rows = np.arange(n, dtype=np.int32)
        seconds = [np.inf, np.inf]
        for _ in range(30):
            for i, add in enumerate((histogram.sum_block, one)):
                start = time.process_time()
                add(words, rows, pairs[:n], *sums)
                seconds[i] = min(seconds[i], time.process_time() - start)
        gain = seconds[1] / seconds[0]
        name = f"two histograms: {n:,} rows, one of four features 70 % zero"
        print(f"  {name:64} {1e3 * seconds[0]:9.3f} ms  {gain:6.2f} x", flush=True)


def logistic_ndcg() -> None:
    """The logistic loss weighted by NDCG in its own kernel; off, by the kernel of all losses."""
    _compiled_gain("logistic_ndcg", "logistic", "NDCG@30", 40, "kernels.WIDEST = 0.0")


def grade_sums() -> None:
    """Gradients from sums over grades; off, pair by pair."""
    off = "kernels.is_worth_it = numba.njit(lambda m, spread, loss: False)"
    for per_query in (10, 40, 200):
        for loss in ("logistic", "squared_hinge"):
            _compiled_gain("grade_sums", loss, "None", per_query, off)


def _compiled_gain(name: str, loss: str, weights: str, per_query: int, off: str) -> None:
    """What a switch that is compiled in gains: each way compiles in a process of its own."""
    what = f"{name}: {loss}, weights {weights}, 100,000 rows, {per_query} to a query"
    milliseconds = []
    for change in ("", off):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", GRADIENTS, change, loss, weights, str(per_query)],
                check=True, capture_output=True, text=True,
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
            )  # fmt: skip
        milliseconds.append(float(done.stdout))
    gain = milliseconds[1] / milliseconds[0]
    print(f"  {what:64} {milliseconds[0]:9.3f} ms  {gain:6.2f} x", flush=True)


GRADIENTS = """
import sys, time
import numba
import numpy as np
from rankwright.feedback import Grades
from rankwright.rankers.boosting._kernels import pair_gradients as kernels
from rankwright.rankers.boosting.pair_losses import PairGradients, PairWeights
from rankwright.runtime import Team

change, loss, weights, per_query = sys.argv[1:]
exec(change)
rng = np.random.default_rng(0)
grades = Grades(rng.integers(0, 5, 100_000), np.arange(100_000) // int(per_query))
weights = PairWeights.parse(None if weights == "None" else weights)
pairs = PairGradients(grades, None, loss, weights, Team(1))
scores, seconds = rng.normal(size=len(pairs.rows)), []
for _ in range(6):
    start = time.process_time()
    pairs.at(scores)
    seconds.append(time.process_time() - start)
print(1e3 * min(seconds))
"""


def potentials() -> None:
    """The exponential loss by RankBoost's potentials, against sums over the grades of a query."""
    from rankwright.feedback import Grades
    from rankwright.rankers.boosting import pair_losses
    from rankwright.runtime import Team

    rng, n = np.random.default_rng(0), 100_000
    scores = [rng.normal(size=n) for _ in range(4)]
    weights = pair_losses.PairWeights.parse(None)
    for per_query in (10, 40, 200):
        grades = Grades(rng.integers(0, 5, n), np.arange(n) // per_query)
        ways = (
            pair_losses.ExponentialGradients(grades, n, weights, Team(1)),
            pair_losses.PairGradients(grades, None, "exponential", weights, Team(1)),
        )
        seconds = [min(_cpu_time(partial(way.at, s, 0)) for s in scores) for way in ways]
        what = f"potentials: exponential loss, {n:,} rows, {per_query} to a query"
        print(
            f"  {what:64} {1e3 * seconds[0]:9.3f} ms  {seconds[1] / seconds[0]:6.2f} x", flush=True
        )


def _cpu_time(call: Call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def few_codes() -> None:
    """Pairs in the wrong order counted grade by grade, against merging sorted halves."""
    from rankwright.metrics.pairwise import count_ascents

    rng = np.random.default_rng(0)
    for n, width in ((10_000, 10), (1_000, 100), (1, 100_000)):
        codes = rng.integers(0, 5, (n, width))
        _gain(
            f"few codes: {n:,} lists of {width:,} rows, five grades",
            lambda codes=codes: count_ascents(codes),  # type: ignore[misc]
            "metrics.pairwise", "_FEW_CODES", -1,
        )  # fmt: skip


def used_columns() -> None:
    """VSIM's scores of sparse rows from the columns with a weight, against all columns."""
    from rankwright.scoring.linear import Deviations

    n_columns = 200_000
    X = sparse.random(500, n_columns, 0.001, format="csr", random_state=0)
    coef = np.zeros(n_columns)
    coef[:2_000] = 1.0
    scorer = Deviations(np.zeros(n_columns), coef)
    _gain(
        f"used columns: 500 x {n_columns:,} sparse, 2,000 columns with a weight",
        lambda: scorer.decision_function(X), "scoring.linear", "MANY_COLUMNS", NEVER, 2,
    )  # fmt: skip


def spectrum() -> None:
    """One eigendecomposition for many values of C, against Cholesky factors for each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 20))
    K, y = X @ X.T, X[:, 0] + np.sin(X[:, 1])
    for n in (10, 50):
        model = rw.MPRankCV(kernel="precomputed", Cs=np.logspace(-3, 3, n))
        _gain(
            f"spectrum: a kernel matrix of rank 20, 1,000 rows, {n} values of C",
            lambda model=model: model.fit(K, y),  # type: ignore[misc]
            "rankers.magnitude.smoothers", "_few_features", lambda K: None, 2,
        )  # fmt: skip
    for m in (300, 1_000):
        X = rng.normal(size=(m, 20))
        y = X[:, 0] + np.sin(X[:, 1])
        for n in (13, 25, 50):
            model = rw.MPRankCV(kernel="rbf", Cs=np.logspace(-3, 3, n))
            _gain(
                f"spectrum: MPRankCV(kernel='rbf'), {m:,} rows, {n} values of C",
                lambda X=X, y=y, model=model: model.fit(X, y),  # type: ignore[misc]
                "rankers.magnitude.smoothers", "FEW", NEVER, 2,
            )  # fmt: skip


def single_precision() -> None:
    """Kernels of many support rows in single precision, compiled, against NumPy's in double."""
    rng = np.random.default_rng(0)
    for n in (3_000, 10_000):
        X = rng.normal(size=(n, 20))
        y = np.digitize(X[:, 0] * X[:, 1], [-1, 0, 1])
        model = rw.OnlineKeepRank(kernel="rbf")
        _gain(
            f"single precision: OnlineKeepRank(kernel='rbf'), {n:,} x 20",
            lambda X=X, y=y, model=model: model.fit(X, y),  # type: ignore[misc]
            "rankers.keeprank.expansion", "MOST_DOUBLE", NEVER, 2,
        )  # fmt: skip


def sparse_rows() -> None:
    """RankNet on sparse rows that stay sparse, against rows made dense."""
    for d, density in ((5_000, 0.02), (12_000, 0.01), (20_000, 0.002)):
        X = sparse.random(2_000, d, density, format="csr", random_state=0)
        y = (np.asarray(X[:, :100].sum(axis=1)).ravel() > 0.1).astype(float)
        place = import_module("rankwright.rankers.gradient.ranknet")
        usual, place.MANY_COLUMNS = place.MANY_COLUMNS, 0
        _gain(
            f"sparse rows: RankNet, 2,000 x {d:,}, {density:.1%} stored",
            lambda X=X, y=y: rw.RankNet(max_iter=2).fit(X, y, qid=np.arange(2_000) // 20),  # type: ignore[misc]
            "rankers.gradient.ranknet", "MANY_COLUMNS", NEVER, 1,
        )  # fmt: skip
        place.MANY_COLUMNS = usual


def solvers() -> None:
    """MPRank's primal and dual solver, each where "auto" takes it."""
    rng = np.random.default_rng(0)
    for m, d in ((2_000, 50), (2_000, 1_000), (200, 5_000)):
        X, seconds = rng.normal(size=(m, d)), {}
        for solver in ("auto", "primal", "dual"):
            model = rw.MPRank(solver=solver)
            seconds[solver] = min(
                _cpu_time(lambda X=X, model=model: model.fit(X, X[:, 0]))  # type: ignore[misc]
                for _ in range(3)
            )
        gain = max(seconds["primal"], seconds["dual"]) / seconds["auto"]
        what = f"solvers: MPRank(solver='auto'), {m:,} x {d:,}, against the other"
        print(f"  {what:64} {1e3 * seconds['auto']:9.3f} ms  {gain:6.2f} x", flush=True)


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


def request_products() -> None:
    """Kernels of 100 rows in blocks of one BLAS thread, beside other work; means of 200 calls."""
    from rankwright.scoring import base, kernel

    os.environ.pop("OPENBLAS_NUM_THREADS", None)
    rng, usual = np.random.default_rng(0), base.ONE_THREAD
    support, X = rng.normal(size=(128, 136)), rng.normal(size=(100, 136))
    scorer = kernel.KernelExpansion(kernel.Kernel("rbf"), support, rng.normal(size=128))
    for n_busy in (0, 2 * (os.cpu_count() or 1)):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_busy)]
        times: dict[int, list[float]] = {usual: [], 0: []}
        for _ in range(200):
            for base.ONE_THREAD in times:
                start = time.perf_counter()
                scorer.decision_function(X)
                times[base.ONE_THREAD].append(1e3 * (time.perf_counter() - start))
        for process in busy:
            process.kill()
        base.ONE_THREAD = usual
        ours, plain = (float(np.mean(times[value])) for value in (usual, 0))
        what = f"request products: 100 rows, 128 support rows, {n_busy} busy processes"
        print(f"  {what:64} {ours:9.3f} ms  {plain / ours:6.2f} x", flush=True)


PARTS = {
    part.__name__: part
    for part in (
        kernels, steps, leaf_masks, few_steps, lanes, gain_bounds, few_levels, narrow_histograms,
        copied_codes, two_histograms, logistic_ndcg, grade_sums, potentials, letor, metric_blocks,
        few_codes, explicit_map, used_columns, spectrum, single_precision, sparse_rows, solvers,
        request_products,
    )
}  # fmt: skip


def run(*parts: str) -> None:
    os.environ["RANKWRIGHT_THREADS"] = "1"
    for part in parts or PARTS:
        PARTS[part]()
