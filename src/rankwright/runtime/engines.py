"""The engine that fits run on: that of the innermost ``with rankwright.engine(...):``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from rankwright._typing import MatrixLike
from rankwright.runtime.threads import map_blocks

Result = TypeVar("Result")

_ENGINE: ContextVar[Any] = ContextVar("rankwright_engine", default=None)


def current_engine() -> Any:
    """Return the engine of the innermost ``with rankwright.engine(...):``, or None."""
    return _ENGINE.get()


@contextmanager
def active_engine(engine: object) -> Iterator[None]:
    """Run what is inside the ``with`` block on an engine; None is this process alone."""
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)


def is_path(X: MatrixLike) -> bool:
    """Whether rows are in files: a path, or a list of paths."""
    several = X if isinstance(X, list | tuple) and len(X) else [X]
    return all(isinstance(one, str | os.PathLike) for one in several)


def read_here(
    X: MatrixLike,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> tuple[Any, ...]:
    """All rows of files that the engine reads, or what was given: X, y, qid and sample_weight.

    For work that needs all rows in one place. In files, the others are names of columns.
    """
    engine = current_engine()
    if engine is None or not is_path(X):
        return X, y, qid, sample_weight
    rows: tuple[Any, ...] = engine.read(X, {"y": y, "qid": qid, "sample_weight": sample_weight})
    return rows


def map_jobs(
    function: Callable[..., Result], jobs: Iterable[Any], *shared: Any, threads: int | None = None
) -> list[Result]:
    """``function(job, *shared)`` of independent jobs, on the engine if there is one.

    >>> map_jobs(pow, [2, 3], 10)
    [1024, 59049]
    """
    engine = current_engine()
    if engine is not None:
        results: list[Result] = engine.run(function, jobs, *shared)
        return results
    return map_blocks(lambda job: function(job, *shared), jobs, threads)
