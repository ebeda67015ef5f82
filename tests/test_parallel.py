"""Threads: order kept, errors passed on, the caller and its process left as they were."""

from __future__ import annotations

import os
import pkgutil
import signal
import threading
import time
from functools import cached_property

import numpy as np  # loads BLAS
import pytest
from threadpoolctl import threadpool_info

from rankwright import parallel
from rankwright.exceptions import ParameterError
from rankwright.parallel import Team, map_blocks, n_threads, ranges, single_threaded_blas

# From Python 3.12 and from old versions of polars, if another test has imported it.
FORK_WARNINGS = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded, use of fork:DeprecationWarning",
    "ignore:Using fork:RuntimeWarning",
)


def test_results_come_in_the_order_of_the_blocks() -> None:
    assert map_blocks(lambda i: i * i, range(50), threads=4) == [i * i for i in range(50)]


def test_an_error_in_a_thread_is_raised_in_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda i: 1 // i, [1, 0, 2], threads=2)


@pytest.mark.parametrize(
    "lock", ["llvmlite.binding.ffi.lib._lock", "numba.core.compiler_lock.global_compiler_lock"]
)
def test_an_interrupt_that_leaves_the_compiler_locked_ends(lock: str) -> None:
    """As numba and llvmlite do, if Ctrl-C comes just after they have taken their lock."""
    compiler, caller = pkgutil.resolve_name(lock), threading.get_ident()
    locked = threading.Event()

    def compile_block(_: int) -> None:
        if threading.get_ident() == caller:
            compiler.__enter__()
            locked.set()
            raise KeyboardInterrupt
        assert locked.wait(10)
        assert compiler._lock.acquire(timeout=10)
        compiler._lock.release()

    with pytest.raises(KeyboardInterrupt):
        map_blocks(compile_block, range(2), threads=2)
    assert not compiler._lock._is_owned()


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@FORK_WARNINGS
@pytest.mark.parametrize("name", ["numba", "llvmlite", "blas"])
def test_a_fork_waits_for_a_thread_that_holds_a_lock_for_a_moment(name: str) -> None:
    pkgutil.resolve_name("numba:njit")
    locks = dict(zip(("numba", "llvmlite"), parallel._compiler_locks(), strict=True))
    lock, held = {**locks, "blas": parallel._BLAS_LOCK}[name], threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=5) else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    assert lock.acquire(timeout=5)
    lock.release()


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@FORK_WARNINGS
def test_a_limit_that_a_thread_of_the_parent_holds_does_not_block_the_child() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with single_threaded_blas():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # ends a child that hangs
        with single_threaded_blas():
            os._exit(0 if blas_threads() == {1} else 1)
    assert os.waitpid(child, 0)[1] == 0
    leave.set()
    thread.join()


class Slow:
    """A value that takes a while to compute."""

    @cached_property
    def value(self) -> int:
        time.sleep(0.5)
        return 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@FORK_WARNINGS
def test_a_value_that_a_thread_of_the_parent_computes_does_not_block_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parallel, "Slow", Slow, raising=False)
    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    time.sleep(0.1)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # ends a child that hangs
        os._exit(0 if Slow().value == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
