"""Every ranker with bounds checks compiled in: no matrix makes a kernel leave its arrays.

``NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=<new folder> python -m benchmarks bounds``: an IndexError of
a kernel ends the run. It takes minutes, because every kernel is compiled for it.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from rankwright.exceptions import DataError
from rankwright.testing.inputs import make_problem


def run() -> None:
    if os.environ.get("NUMBA_BOUNDSCHECK") != "1" or "NUMBA_CACHE_DIR" not in os.environ:
        print("skipped: set NUMBA_BOUNDSCHECK=1 and NUMBA_CACHE_DIR to a new folder")
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from contract.instances import INSTANCES

    start = time.perf_counter()
    counts = {"fitted": 0, "refused": 0}
    for ranker in INSTANCES:
        for X in _odd_matrices():
            counts[_fit_and_score(ranker, X)] += 1
        print(f"{time.perf_counter() - start:6.0f} s  {ranker!r}"[:100], flush=True)
    print(f"{counts['fitted']} fits in bounds, {counts['refused']} refused, 0 left their arrays")


def _fit_and_score(ranker: Any, X: Any) -> str:
    problem = make_problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = clone(ranker).fit(X, problem.y, qid=problem.qid)
            model.decision_function(X)
        except DataError:
            return "refused"
    return "fitted"


def _odd_matrices() -> list[Any]:
    """Valid but unusual: unsorted and repeated columns, stored zeros, empty rows, int64 indices."""
    X = make_problem().X
    X[np.abs(X) < 0.5] = 0.0
    X[3] = 0.0
    table = sparse.csr_array(X)
    twice = sparse.csr_array(
        (np.repeat(table.data / 2, 2), np.repeat(table.indices, 2), 2 * table.indptr),
        shape=X.shape,
    )
    backwards = sparse.csr_array(X[:, ::-1])
    backwards.indices = (X.shape[1] - 1 - backwards.indices).astype(np.int64)
    backwards.indptr = backwards.indptr.astype(np.int64)
    zeros = sparse.csr_array(make_problem().X)
    zeros.data[::3] = 0.0
    stale = sparse.csr_array(make_problem().X)
    assert stale.has_canonical_format  # SciPy keeps this answer although it becomes wrong
    stale.indices[::2] = 1
    return [X, twice, backwards, zeros, stale]
