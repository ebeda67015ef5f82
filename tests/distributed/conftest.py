"""Dask clusters in this process, shared by the tests of this room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import rankwright as rw


@pytest.fixture(scope="session")
def patience() -> Iterator[None]:
    """On a busy machine a worker may take longer than the usual 30 seconds to start."""
    dask = pytest.importorskip("dask")
    with dask.config.set({"distributed.comm.timeouts.connect": "300s"}):
        yield


@pytest.fixture(scope="session")
def clients(patience: None) -> Iterator[dict[int, Any]]:
    """Clients of clusters of one, two and three workers."""
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "processes": False, "silence_logs": 50}
    with ExitStack() as stack:
        opened = {}
        for n_workers in (1, 2, 3):
            options |= {"n_workers": n_workers, "dashboard_address": ":0"}
            cluster = stack.enter_context(distributed.LocalCluster(**options))
            opened[n_workers] = stack.enter_context(distributed.Client(cluster))
            assert len(opened[n_workers].scheduler_info(n_workers=-1)["workers"]) == n_workers
        yield opened


@pytest.fixture(scope="session")
def client(clients: dict[int, Any]) -> Any:
    return clients[3]


@pytest.fixture(scope="session")
def judged() -> rw.Items:
    """600 rows of 40 queries with missing values, a category, and weights for some tests."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(600, 5)).round(2), rng.integers(0, 40, 600)
    X[:, 3] = rng.integers(0, 6, 600)
    gain = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=600)
    X[rng.random(X.shape) < 0.1] = np.nan
    return rw.Items(X, y=np.clip(np.round(gain + 1), 0, 4), qid=qid)
