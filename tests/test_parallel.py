"""Threads: order kept, errors passed on, wishes checked."""

from __future__ import annotations

import pytest

from rankwright.exceptions import ParameterError
from rankwright.parallel import map_blocks, n_threads, ranges


def test_results_come_in_the_order_of_the_blocks() -> None:
    assert map_blocks(lambda i: i * i, range(50), threads=4) == [i * i for i in range(50)]


def test_an_error_in_a_thread_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda i: 1 // i, [1, 0, 2], threads=2)


@pytest.mark.parametrize(("n", "blocks"), [(0, 3), (1, 3), (7, 3), (8, 8), (100, 7)])
def test_ranges_cover_everything_once(n: int, blocks: int) -> None:
    assert [i for start, stop in ranges(n, blocks) for i in range(start, stop)] == list(range(n))


def test_the_wish_for_threads_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKWRIGHT_THREADS", "3")
    assert n_threads() == 3
    monkeypatch.setenv("RANKWRIGHT_THREADS", "many")
    with pytest.raises(ParameterError, match="RANKWRIGHT_THREADS='many'"):
        n_threads()
    monkeypatch.delenv("RANKWRIGHT_THREADS")
    assert n_threads() >= 1
