"""How work is spread over threads, without any effect on results."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Self, TypeVar

from rankwright.exceptions import ParameterError

Block = TypeVar("Block")
Result = TypeVar("Result")


def n_threads() -> int:
    """How many threads to use: ``RANKWRIGHT_THREADS``, else as many as this process may run on."""
    wish = os.environ.get("RANKWRIGHT_THREADS", "")
    if not wish:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if not wish.isdigit() or int(wish) < 1:
        raise ParameterError(f"RANKWRIGHT_THREADS={wish!r}: it must be an integer >= 1.")
    return int(wish)


def ranges(n: int, n_blocks: int) -> list[tuple[int, int]]:
    """Cut 0 .. n into nearly equal (start, stop) ranges, none of them empty.

    >>> ranges(7, 3)
    [(0, 3), (3, 5), (5, 7)]
    """
    n_blocks = max(1, min(n, n_blocks))
    size, extra = divmod(n, n_blocks)
    stops = [size * (i + 1) + min(i + 1, extra) for i in range(n_blocks)]
    return list(zip([0, *stops[:-1]], stops, strict=True))


def map_blocks(
    function: Callable[[Block], Result], blocks: Iterable[Block], threads: int | None = None
) -> list[Result]:
    """The function of each block, in the order of the blocks; the first error is raised.

    >>> map_blocks(sum, [(1, 2), (3, 4)])
    [3, 7]
    """
    work = list(blocks)
    workers = min(len(work), threads or n_threads())
    if workers <= 1:
        return [function(block) for block in work]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, work))


def _seats(threads: int) -> list[int]:
    """A processor for each thread of a team that takes all there are; else none in particular."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    processors = sorted(os.sched_getaffinity(0))
    return processors if len(processors) == threads else []


def _sit_down(seats: list[int]) -> None:
    """Keep this thread to one processor: else it is often woken where its waker goes on running,
    and waits there for its turn until the job is done."""
    if seats:
        os.sched_setaffinity(0, {seats.pop()})


@contextmanager
def _seated(seats: list[int]) -> Iterator[None]:
    """Keep this thread to the first seat, which no other thread takes, for a while."""
    if not seats:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, seats[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Team:
    """Threads that stay for many small jobs: a new pool for each would cost more than the job.

    >>> with Team(2) as team:
    ...     team.map(sum, [(1, 2), (3, 4)])
    [3, 7]
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or n_threads()
        self._seats = _seats(self.threads)
        self._pool = (
            ThreadPoolExecutor(self.threads - 1, initializer=_sit_down, initargs=(self._seats,))
            if self.threads > 1
            else None
        )

    def map(self, function: Callable[[Block], Result], blocks: Iterable[Block]) -> list[Result]:
        """The function of each block, in order; whoever is free takes the next block."""
        work = list(blocks)
        if self._pool is None or len(work) <= 1:
            return [function(block) for block in work]
        results: dict[int, Result] = {}
        waiting = deque(enumerate(work))

        def take() -> None:
            while waiting:
                try:
                    place, block = waiting.popleft()
                except IndexError:
                    return
                results[place] = function(block)

        with _seated(self._seats):
            others = [self._pool.submit(take) for _ in range(min(self.threads, len(work)) - 1)]
            try:
                take()
            finally:
                wait(others)
        for other in others:
            other.result()
        return [results[place] for place in range(len(work))]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
