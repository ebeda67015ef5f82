"""Several threads on one tree: any start, any delay, the bits of one thread, and an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any

import numpy as np
import pytest

from rankwright import LambdaMART
from rankwright.rankers.boosting import grower
from rankwright.rankers.boosting._kernels import barrier
from rankwright.rankers.boosting._kernels import grower as kernels
from rankwright.rankers.boosting.binning import QuantileBins
from rankwright.runtime import Team

pytestmark = pytest.mark.skipif(not barrier.SHARES, reason="one thread grows all trees here")

N_ROWS, N_FEATURES = 1_000, 22


@pytest.fixture
def growers(monkeypatch: Any) -> Callable[[Team], grower.Grower]:
    """Growers on the same rows, that share trees however small they are."""
    monkeypatch.setattr(grower, "SERIAL", 0)
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES))
    rows, ones, none = np.arange(N_ROWS), np.ones(N_ROWS, np.int64), np.zeros(N_FEATURES, bool)
    with Team(1) as pool:
        bins = QuantileBins.learn(X, rows, ones, 63, none, pool)
        binned = bins.binned(X, rows, np.zeros(N_FEATURES), pool)
    options = grower.TreeOptions(max_leaf_nodes=12, min_samples_leaf=5, l2_regularization=1.0)
    return lambda pool: grower.Grower(binned, ones, bins.name_split, options, pool)


def grown(one: grower.Grower, n_trees: int = 2) -> list[Any]:
    rng = np.random.default_rng(1)
    trees = [one.grow(rng.normal(size=N_ROWS), rng.random(N_ROWS)) for _ in range(n_trees)]
    return [(n.feature, n.threshold, n.value, n.cover) for tree in trees for n in tree.nodes]


@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_threads_that_start_early_or_late_wait_or_are_waited_for(
    growers: Any, delay: float
) -> None:
    waiting = []

    class Delayed(Team):
        def start(self, function: Callable[[], object]) -> list[Future[object]]:
            calls = super().start(lambda: (time.sleep(delay), function()))
            deadline = time.monotonic() + 10
            while not delay and time.monotonic() < deadline:
                if shared._shared.team[barrier.ARRIVED] == len(calls):
                    break
                time.sleep(0.001)
            waiting.append(int(shared._shared.team[barrier.ARRIVED]))
            return calls

    with Team(1) as pool:
        expected = grown(growers(pool))
    with Delayed(3) as pool:
        for _ in range(3):
            shared = growers(pool)
            assert grown(shared) == expected
    assert waiting == [0 if delay else 2] * 6


def test_shared_trees_end_with_the_bits_of_one_thread(growers: Any, monkeypatch: Any) -> None:
    """The leading thread comes to jobs at random times while the others wait."""
    rng, work = np.random.default_rng(2), kernels.work
    delays = rng.choice([0.0, 5e-5, 3e-4, 3e-3], 5_000, p=[0.8, 0.1, 0.09, 0.01]).tolist()

    def work_late(bins: Any, shared: Any, growth: Any, leads: bool) -> None:
        if leads:
            time.sleep(delays.pop())
        work(bins, shared, growth, leads)

    with Team(1) as pool:
        expected = grown(growers(pool))
    results: list[bool] = []

    def grow_many() -> None:
        for n_threads in (2, 3, 5):
            with Team(n_threads) as pool:
                results.extend(grown(growers(pool)) == expected for _ in range(20))

    monkeypatch.setattr(kernels, "work", work_late)
    thread = Thread(target=grow_many, daemon=True)  # if it never ends, the test still does
    thread.start()
    thread.join(120)
    assert results == [True] * 60, f"{len(results)} of 60 fits ended"


@pytest.mark.parametrize("narrow", [False, True])
def test_many_trees_on_two_threads_have_the_bits_of_one(
    growers: Any, monkeypatch: Any, narrow: bool
) -> None:
    """Stress: thousands of meetings. Narrow histograms take the racy read of ``best.leader``."""
    if narrow:
        monkeypatch.setattr(grower, "MANY_FEATURES", 0)
    with Team(1) as pool:
        expected = grown(growers(pool), 3)
    results: list[bool] = []

    def grow_many() -> None:
        with Team(2) as pool:
            results.extend(grown(growers(pool), 3) == expected for _ in range(100))

    thread = Thread(target=grow_many, daemon=True)
    thread.start()
    thread.join(120)
    assert results == [True] * 100, f"{len(results)} of 100 fits ended"


def test_small_fits_on_two_threads_have_the_bits_of_one() -> None:
    rng = np.random.default_rng(3)
    X, qid = rng.normal(size=(1_300, 40)), np.arange(1_300) // 13
    assert X.size > grower.SERIAL
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-1, 0, 1])
    results: list[Any] = []

    def fit_many() -> None:
        for seed in range(12):
            fits = [
                LambdaMART(n_estimators=5, colsample_bytree=0.5, random_state=seed, n_jobs=n)
                for n in (1, 2)
            ]
            one, two = (model.fit(X, y, qid=qid).decision_function(X) for model in fits)
            results.append(one.tobytes() == two.tobytes())

    thread = Thread(target=fit_many, daemon=True)
    thread.start()
    thread.join(120)
    assert results == [True] * 12, f"{len(results)} of 12 fits ended"


def test_a_feature_with_few_bins_is_left_out_by_the_bits_of_its_gain() -> None:
    """Otherwise rounding and the order of threads decide between equal splits of a pure leaf."""
    rng, bits, ridge = np.random.default_rng(0), 12, 1e-3
    growth = grower.Growth(ridge, 1.0, 1.0, 1, bits, np.array([True, True]), False, False)
    for _ in range(50):
        n_rows, side = rng.integers(2, 30, 5), np.zeros((4, 256))
        hessian = n_rows * rng.integers(2**38, 2**40, 5)
        gradient = (hessian * (1.0 + 1e-5 * rng.normal(size=5))).astype(np.int64)
        at = np.zeros((6, 2), np.int64)
        at[:5] = np.stack([gradient, (hessian << bits) + n_rows], axis=1)
        total = at.sum(axis=0)
        kernels.add_up(at, 5, False, 0, bits, side)
        sums = float(total[0]), float(total[1] >> bits)
        expected = kernels.free_gains(side, 5, sums, (ridge, ridge), 1.0, float(n_rows.sum() - 1))
        assert kernels.narrow_gain(at, total, growth) == expected > 0
