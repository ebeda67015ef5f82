"""Processes that grow the same trees: sums over sockets, leaves without rows, lost connections."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rankwright as rw
from rankwright.distributed import ring
from rankwright.distributed.ring import Door, Ring
from rankwright.rankers.boosting.binning import QuantileBins
from rankwright.rankers.boosting.grower import Grower, TreeOptions
from rankwright.runtime import Team

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")


def connected(doors):
    addresses, token = [door.address for door in doors], bytes(range(32))
    with ThreadPoolExecutor(len(doors)) as pool:
        calls = [pool.submit(door.connect, i, addresses, token) for i, door in enumerate(doors)]
        return [call.result() for call in calls]


@pytest.fixture
def rings():
    """Connected rings of n processes, which are threads here."""
    opened = []

    def connect(n):
        opened.append(connected([Door() for _ in range(n)]))
        return opened[-1]

    yield connect
    for one in [one for several in opened for one in several]:
        one.close()


def at_once(function, *arguments):
    with ThreadPoolExecutor(len(arguments[0])) as pool:
        return list(pool.map(function, *arguments))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_trees_on_shares_of_the_rows_are_those_on_all_rows(n, rings):
    """Shares are uneven, one is empty, and some leaves have no row of some shares."""
    rng = np.random.default_rng(n)
    X, gradient, hessian = (
        rng.normal(size=(900, 11)).round(1),
        rng.normal(size=900),
        rng.random(900),
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    owner = np.minimum(rng.integers(0, n + 2, 900), n - 1) if n < 5 else rng.integers(0, 4, 900)
    options = TreeOptions(31, 3, 1.0)
    with Team(1) as pool:
        ones = np.ones(900, np.int64)
        bins = QuantileBins.learn(X, np.arange(900), ones, 64, np.zeros(11, bool), pool)

        def grow(rows, peers):
            binned = bins.binned(X, rows, np.zeros(11), pool)
            grower = Grower(binned, ones[rows], bins.name_split, options, pool, peers)
            tree = grower.grow(gradient[rows], hessian[rows])
            scores = np.zeros(len(rows))
            grower.add_values(1.0, scores)
            return tree, scores

        expected, scores = grow(np.arange(900), None)
        shares = [np.flatnonzero(owner == number) for number in range(n)]
        for rows, (tree, own) in zip(shares, at_once(grow, shares, rings(n)), strict=True):
            assert np.array_equal(own, scores[rows])
            assert [vars_of(node) for node in tree.nodes] == [vars_of(m) for m in expected.nodes]


def vars_of(node):
    names = ("feature", "threshold", "default", "low", "high", "value", "gain", "cover")
    return [getattr(node, name) for name in names]


def test_more_is_sent_than_sockets_hold(rings, monkeypatch):
    monkeypatch.setattr(ring, "BUFFER", 1 << 16)
    values = np.arange(3_000_000)
    for total in at_once(lambda one: one.total(values), rings(3)):
        assert np.array_equal(total, 3 * values)


def test_a_stranger_at_the_door_is_sent_away():
    doors = [Door(), Door()]
    with socket.create_connection(doors[0].address) as stranger:
        stranger.sendall(bytes(40))
        both = connected(doors)
        totals = at_once(lambda one: one.total(np.ones(1, int)).tolist(), both)
        assert totals == [[2], [2]]
        assert stranger.recv(1) == b""
    for one in both:
        one.close()


def test_a_process_that_is_gone_or_silent_is_an_error(rings, monkeypatch):
    gone, left = rings(2)
    gone.close()
    with pytest.raises(OSError, match=r"closed its connection|reset"):
        left.total(np.ones(3, int))
    monkeypatch.setattr(ring, "TIMEOUT", 0.2)
    _silent, left = rings(2)
    with pytest.raises(TimeoutError, match="no byte"):
        left.total(np.ones(3, int))


def test_a_fit_goes_on_from_its_trees_when_a_process_is_lost(
    judged, model_bytes, client, monkeypatch
):
    """The third exchange of some histograms fails on one worker, twice in a fit."""
    failures = [40, 150]
    exchange, calls = Ring._exchange, [0]

    def sometimes(self, sent, received):
        calls[0] += 1
        if failures and calls[0] == failures[0]:
            failures.pop(0)
            self.close()
            raise ConnectionError("planted")
        exchange(self, sent, received)

    model = rw.LambdaMART(n_estimators=12, min_samples_leaf=5, max_leaf_nodes=12)
    expected = model_bytes(model.fit(judged.X, judged.y, qid=judged.qid))
    monkeypatch.setattr(Ring, "_exchange", sometimes)
    with rw.engine(client):
        assert model_bytes(model.fit(judged.X, judged.y, qid=judged.qid)) == expected
    assert not failures
