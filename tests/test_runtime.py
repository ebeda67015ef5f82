"""Threads: order kept, errors passed on, the caller and its process left as they were."""

from __future__ import annotations

import os
import threading

import numpy as np  # loads BLAS
import pytest
from threadpoolctl import threadpool_info

from rankwright.exceptions import ParameterError
from rankwright.runtime import Team, map_blocks, n_threads, ranges, single_threaded_blas


def test_results_come_in_the_order_of_the_blocks() -> None:
    assert map_blocks(lambda i: i * i, range(50), threads=4) == [i * i for i in range(50)]


def test_an_error_in_a_thread_is_raised_in_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda i: 1 // i, [1, 0, 2], threads=2)


@pytest.mark.parametrize(("n", "blocks"), [(0, 3), (1, 3), (7, 3), (8, 8), (100, 7)])
def test_ranges_cover_everything_once(n: int, blocks: int) -> None:
    assert [i for start, stop in ranges(n, blocks) for i in range(start, stop)] == list(range(n))


def test_the_number_of_threads_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANKWRIGHT_THREADS", "3")
    assert n_threads() == 3
    monkeypatch.setenv("RANKWRIGHT_THREADS", "many")
    with pytest.raises(ParameterError, match="RANKWRIGHT_THREADS='many'"):
        n_threads()
    monkeypatch.delenv("RANKWRIGHT_THREADS")
    assert n_threads() >= 1


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="CPU affinity is Linux only")
def test_no_thread_is_pinned_to_a_cpu() -> None:
    allowed = os.sched_getaffinity(0)
    with Team(len(allowed) + 1) as team:
        inside = team.map(lambda _: os.sched_getaffinity(0), range(8))
    assert [*inside, os.sched_getaffinity(0)] == [allowed] * 9


def blas_threads() -> set[int]:
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


@pytest.mark.usefixtures("two_blas_threads")
def test_overlapping_limits_restore_the_threads_of_blas() -> None:
    assert np.ones(2) @ np.ones(2) == 2.0
    before, entered, leave = blas_threads(), threading.Event(), threading.Event()

    def hold() -> None:
        with single_threaded_blas():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    entered.wait(10)
    with single_threaded_blas():
        assert blas_threads() == {1}
        leave.set()
        other.join()
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_any_interleaving_of_threads_restores_the_threads_of_blas() -> None:
    """The block that opens first closes first, while the thread that opened it stays alive."""
    before = blas_threads()
    for n_alive in (1, 3):
        opened, close, end = (threading.Event() for _ in range(3))

        def first(opened=opened, close=close, end=end) -> None:
            with single_threaded_blas():
                opened.set()
                close.wait(10)
            end.wait(10)

        alive = [threading.Thread(target=first) for _ in range(n_alive)]
        for thread in alive:
            thread.start()
        opened.wait(10)
        with single_threaded_blas():
            close.set()
        end.set()
        for thread in alive:
            thread.join()
        assert blas_threads() == before
