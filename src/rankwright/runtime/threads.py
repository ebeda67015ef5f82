"""How many threads to use, and pools of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self, TypeVar

from rankwright._typing import Matrix
from rankwright.exceptions import ParameterError
from rankwright.runtime.blas import single_threaded_blas

Block = TypeVar("Block")
Result = TypeVar("Result")

SMALL = 200_000  # cells of a matrix below which threads cost more than they save
FEW_ROWS = 20_000  # the same of rows that are swept in order of their scores

_ONE_THREAD: ContextVar[bool] = ContextVar("rankwright_one_thread", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, of BLAS too, inside a ``with`` block: other blocks keep the other CPUs busy."""
    token = _ONE_THREAD.set(True)
    try:
        with single_threaded_blas():
            yield
    finally:
        _ONE_THREAD.reset(token)


def n_threads() -> int:
    """The number of threads to use: ``RANKWRIGHT_THREADS``, or all CPUs of this process."""
    if _ONE_THREAD.get():
        return 1
    setting = os.environ.get("RANKWRIGHT_THREADS", "")
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise ParameterError(f"RANKWRIGHT_THREADS={setting!r}: set it to an integer >= 1.")
        return int(setting)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ranges(n: int, n_blocks: int) -> list[tuple[int, int]]:
    """Cut 0 .. n into nearly equal (start, stop) ranges, none of them empty.

    >>> ranges(7, 3)
    [(0, 3), (3, 5), (5, 7)]
    """
    n_blocks = max(1, min(n, n_blocks))
    size, extra = divmod(n, n_blocks)
    stops = [size * (i + 1) + min(i + 1, extra) for i in range(n_blocks)]
    return list(zip([0, *stops[:-1]], stops, strict=True))


class Team:
    """A pool of threads for many small jobs; the calling thread takes its share of the blocks.

    >>> with Team(2) as team:
    ...     team.map(sum, [(1, 2), (3, 4)])
    [3, 7]
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or n_threads()
        self._pool = ThreadPoolExecutor(self.threads - 1) if self.threads > 1 else None

    @classmethod
    def for_rows(cls, X: Matrix) -> Self:
        """One thread or all of them, whichever is faster for as many cells as X has."""
        return cls(1 if X.shape[0] * X.shape[1] < SMALL else None)

    def map(self, function: Callable[[Block], Result], blocks: Iterable[Block]) -> list[Result]:
        """Apply the function to each block; results come in the order of the blocks."""
        blocks = list(blocks)
        if self._pool is None or len(blocks) <= 1:
            return [function(block) for block in blocks]
        results: dict[int, Result] = {}
        queue = deque(enumerate(blocks))

        def run() -> None:
            while True:
                try:
                    index, block = queue.popleft()
                except IndexError:
                    return
                results[index] = function(block)

        others = [self._pool.submit(run) for _ in range(min(self.threads, len(blocks)) - 1)]
        try:
            run()
        except BaseException:
            queue.clear()
            raise
        finally:
            wait(others)
        for other in others:
            other.result()  # raises the error of that thread, if any
        return [results[index] for index in range(len(blocks))]

    def start(self, function: Callable[[], object]) -> list[Future[object]]:
        """Call the function in every other thread, and do not wait; see ``finish``."""
        if self._pool is None:
            return []
        return [self._pool.submit(function) for _ in range(self.threads - 1)]

    def finish(self, calls: list[Future[object]]) -> None:
        """Wait for calls that have started, and drop those that have not."""
        for call in calls:
            if not call.cancel():
                call.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def map_blocks(
    function: Callable[[Block], Result], blocks: Iterable[Block], threads: int | None = None
) -> list[Result]:
    """Apply the function to each block on several threads; results come in order.

    >>> map_blocks(sum, [(1, 2), (3, 4)])
    [3, 7]
    """
    blocks = list(blocks)
    with Team(max(1, min(len(blocks), threads or n_threads()))) as team:
        return team.map(function, blocks)
