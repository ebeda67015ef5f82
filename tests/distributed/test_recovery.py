"""Workers that die, fits that are cancelled, schedulers that are gone."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import rankwright as rw
from rankwright.distributed import engines
from rankwright.exceptions import ClusterError

pytestmark = [
    pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning"),
    pytest.mark.usefixtures("patience"),
]

QUIET = {"dashboard_address": ":0", "silence_logs": 50, "threads_per_worker": 1}


@pytest.fixture
def interrupt(monkeypatch):
    """Call a function when a fit collects results for the n-th time."""

    def at(number, function):
        collect, left = engines.DaskEngine._collect, [number]

        def collect_or_else(self, blocks):
            left[0] -= 1
            if left[0] == 0:
                function()
            return collect(self, blocks)

        monkeypatch.setattr(engines.DaskEngine, "_collect", collect_or_else)

    return at


def fit(judged):
    return rw.RidgeRanker().fit(np.nan_to_num(judged.X), judged.y, qid=judged.qid)


@contextmanager
def closed(cluster):
    """Close a cluster at the end; a busy machine may need longer than distributed waits for it."""
    try:
        yield
    finally:
        with suppress(TimeoutError):
            cluster.close()


def test_a_killed_worker_costs_time_only(judged, model_bytes, interrupt):
    distributed = pytest.importorskip("distributed")
    with rw.engine("local:2"):
        expected = model_bytes(fit(judged))
    cluster = distributed.LocalCluster(n_workers=3, processes=True, **QUIET)
    with closed(cluster), distributed.Client(cluster) as client, rw.engine(client):
        # Whether the cluster starts another worker is its own business: the third one is left.
        for number, victim in zip((1, 3), list(client.run(os.getpid).values()), strict=False):
            interrupt(number, lambda pid=victim: os.kill(pid, signal.SIGKILL))
            assert model_bytes(fit(judged)) == expected


def test_a_worker_that_is_killed_while_trees_grow_changes_no_byte(judged, model_bytes, monkeypatch):
    distributed = pytest.importorskip("distributed")
    model = rw.LambdaMART(n_estimators=20, min_samples_leaf=5)
    expected = model_bytes(model.fit(judged.X, judged.y, qid=judged.qid))
    cluster = distributed.LocalCluster(n_workers=2, processes=True, **QUIET)
    with closed(cluster), distributed.Client(cluster) as client, rw.engine(client):
        call, left = engines.DaskGang._call, [2]

        def kill_before_the_second(self, method, *arguments):
            left[0] -= method == "grow"
            if left[0] == 0:
                left[0] = -1
                os.kill(client.run(os.getpid)[self._where[0]], signal.SIGKILL)
            return call(self, method, *arguments)

        monkeypatch.setattr(engines.DaskGang, "_call", kill_before_the_second)
        assert model_bytes(model.fit(judged.X, judged.y, qid=judged.qid)) == expected
        assert left[0] < 0


@pytest.mark.parametrize("accident", ["connection", "cancelled", "worker"])
def test_what_happens_while_trees_grow_changes_no_byte(
    accident, judged, model_bytes, client, monkeypatch
):
    """A connection between workers ends, an object is cancelled, its worker is said to be lost."""
    model = rw.LambdaMART(n_estimators=20, min_samples_leaf=5)
    expected = model_bytes(model.fit(judged.X, judged.y, qid=judged.qid))
    gang = engines.DaskGang
    call, made, left = gang._call, gang._made, [2, 1]

    def call_or_not(self, method, *arguments):
        left[0] -= method == "grow"
        if left[0] == 0 and accident == "connection":
            left[0] = -1
            address = self._where[0]
            client.run(end_connections, workers=[address])
        elif left[0] == 0 and accident == "cancelled":
            left[0] = -1
            client.cancel(self._futures[1])
        return call(self, method, *arguments)

    class Lost:
        def result(self, timeout):
            raise RuntimeError("Worker holding Actor was lost")

    def made_or_lost(self, future):
        if accident == "worker" and left[1]:
            left[1] = 0
            future = Lost()
        return made(self, future)

    monkeypatch.setattr(gang, "_call", call_or_not)
    monkeypatch.setattr(gang, "_made", made_or_lost)
    with rw.engine(client):
        assert model_bytes(model.fit(judged.X, judged.y, qid=judged.qid)) == expected
    assert left[1] == 0 if accident == "worker" else left[0] < 0


def end_connections(dask_worker):
    for member in dask_worker.state.actors.values():
        member._ring.shut_down()


def test_a_task_that_somebody_else_cancels_is_an_error_that_says_so(judged, client, interrupt):
    with rw.engine(client) as engine:
        interrupt(3, lambda: client.cancel(list(engine._started)))
        with pytest.raises(ClusterError, match="cancelled by somebody else"):
            fit(judged)


def test_a_cancelled_fit_leaves_no_task(judged, client, interrupt):
    def stop():
        raise KeyboardInterrupt

    interrupt(3, stop)
    before = set(client.futures)  # of another test with the same client, as long as they are held
    with rw.engine(client), pytest.raises(KeyboardInterrupt):
        fit(judged)
    deadline = time.monotonic() + 60
    while any(client.processing().values()) or set(client.futures) - before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert client.submit(abs, -1).result() == 1


def test_a_cancelled_fit_keeps_what_else_the_client_computed(client):
    kept = client.submit(abs, -1, pure=False)
    assert kept.result() == 1
    engine = engines.DaskEngine(client)
    first = engine._apply(time.sleep, 1)
    last = engine._apply(repr, engine._apply(repr, first))  # nobody holds the one in the middle
    time.sleep(0.2)  # until the scheduler knows
    engine.cancel()
    assert client.submit(abs, -2, pure=False).result() == 2
    assert kept.result() == 1
    assert {first.key, last.key}.isdisjoint(client.futures)


def test_a_cluster_without_workers_is_an_error(judged, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "NO_WORKER", 0.5)
    monkeypatch.setattr(engines, "POLL", 0.2)
    quiet = QUIET | {"n_workers": 0, "processes": False}
    with (
        distributed.LocalCluster(**quiet) as cluster,
        distributed.Client(cluster) as client,
        rw.engine(client),
        pytest.raises(ClusterError, match="no worker"),
    ):
        fit(judged)


@pytest.mark.parametrize("who", ["client", "scheduler"])
def test_a_scheduler_that_is_gone_is_an_error(who, judged, interrupt, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "PATIENCE", 1.0)
    monkeypatch.setattr(engines, "POLL", 0.2)
    with distributed.LocalCluster(n_workers=1, processes=False, **QUIET) as cluster:
        client = distributed.Client(cluster)
        interrupt(2, client.close if who == "client" else cluster.close)
        start = time.monotonic()
        with rw.engine(client), pytest.raises(ClusterError, match="scheduler is gone"):
            fit(judged)
        assert time.monotonic() - start < 300
        client.close()
