"""One BLAS thread while a ranker is trained, so that it learns the same bits with any number."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

_lock = Lock()
_open: list[ExitStack] = []  # what restores the limit, once for each block that is open


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with`` block.

    The limit belongs to the whole process. It is set when the first of several blocks opens and
    taken back when the last one closes, whichever threads they are in.
    """
    with _lock:
        _open.append(_open[0] if _open else _limit_blas())
    try:
        with _limit_of_this_thread():
            yield
    finally:
        with _lock:
            limit = _open.pop()
            if not _open:
                limit.close()


def _limit_blas() -> ExitStack:
    """Set the limit; closing the result restores it.

    threadpoolctl restores a limit only in the thread that set it, and the last block may close in
    another thread than the one that opened first. So a thread of its own does both.
    """
    stack = ExitStack()
    owner = stack.enter_context(ThreadPoolExecutor(1))
    limit = owner.submit(lambda: _blas().limit(limits=1, user_api="blas").__enter__()).result()
    stack.callback(lambda: owner.submit(limit.__exit__, None, None, None).result())
    return stack


def _limit_of_this_thread() -> Any:
    """A limit of one thread, needed only where the calling thread has set another one itself.

    While a thread holds a limit, threadpoolctl ignores those of all other threads.
    """
    libraries = _blas().select(user_api="blas")
    threads = [library.num_threads for library in libraries.lib_controllers]
    return libraries.limit(limits=1) if max(threads, default=1) > 1 else nullcontext()


@cache
def _blas() -> Any:
    """The BLAS libraries of this process; finding them takes milliseconds."""
    import scipy.linalg  # noqa: F401  (SciPy brings its own)
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
