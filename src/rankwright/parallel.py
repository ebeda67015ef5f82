"""Threads and memory of one machine, and which engine fits run on. None changes a result."""

from __future__ import annotations

import math
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache, cached_property, wraps
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

from rankwright.exceptions import MemoryLimitError, ParameterError, Setting

Block = TypeVar("Block")
Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])

SMALL_BYTES = 2**26  # fewer bytes are allocated without a check
SMALL = 200_000  # cells of a matrix below which threads cost more than they save
FEW_ROWS = 20_000  # the same of rows that are swept in order of their scores
CGROUP_FILES = (  # limit and usage, of version 2 and version 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)

_ENGINE: ContextVar[Any] = ContextVar("rankwright_engine", default=None)
_ONE_THREAD: ContextVar[bool] = ContextVar("rankwright_one_thread", default=False)
_LOCKS: WeakKeyDictionary[Any, RLock] = WeakKeyDictionary()
_NEW_LOCK = RLock()


def current_engine() -> Any:
    """Return the engine of the innermost ``with rankwright.engine(...):``, or None."""
    return _ENGINE.get()


@contextmanager
def active_engine(engine: Any) -> Iterator[None]:
    """Run what is inside the ``with`` block on an engine; None is this process alone."""
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)


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


def available_memory() -> float:
    """Bytes that this process can still allocate; infinity where the system does not say.

    The least of what is free, what the control group allows, and the limit of the address space.
    """
    amounts = [math.inf]
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable"))
        amounts.append(1024.0 * float(free.split()[1]))
    for limit, usage in CGROUP_FILES:
        with suppress(OSError, ValueError):  # "max" is no number: no limit
            allowed, used = (float(Path(path).read_text()) for path in (limit, usage))
            amounts.append(max(allowed - used, 0.0))
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            amounts.append(max(most - float(pages * resource.getpagesize()), 0.0))
    return min(amounts)


def parse_bytes(size: int | str) -> int:
    """A number of bytes from a number or a text with a unit.

    >>> parse_bytes("2GB"), parse_bytes("512 MiB"), parse_bytes(10_000_000)
    (2000000000, 536870912, 10000000)
    """
    match = re.fullmatch(r"([0-9.]+)\s*([kMGT]?)(i?)B?", str(size).strip(), re.IGNORECASE)
    power = " KMGT".index(match[2].upper() or " ") if match else 0
    try:
        n = int(float(match[1]) * (1024 if match[3] else 1000) ** power) if match else 0
    except ValueError:
        n = 0
    if n < 1_000_000:
        raise ParameterError(
            Setting("memory", size), ": write a size of at least 1MB, such as '2GB'."
        )
    return n


def require_memory(n_bytes: float, what: str, advice: str) -> None:
    """Raise a MemoryLimitError, before anything is allocated, if that much is not available."""
    if n_bytes < SMALL_BYTES:
        return
    available = available_memory()
    if n_bytes > available:
        raise MemoryLimitError(
            f"{what} takes {n_bytes / 2**30:.1f} GiB of memory; {available / 2**30:.1f} GiB are "
            f"available. {advice}"
        )


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
    def for_rows(cls, X: Any) -> Self:
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
            _unlock_compiler()
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


def _compiler_locks() -> list[Any]:
    """The locks that numba and llvmlite hold while they compile or load compiled code."""
    ffi, numba = (
        sys.modules.get(name) for name in ("llvmlite.binding.ffi", "numba.core.compiler_lock")
    )
    library = getattr(getattr(ffi, "lib", None), "_lock", None)
    owners: tuple[Any, ...] = (getattr(numba, "global_compiler_lock", None), library)
    return [owner._lock for owner in owners if hasattr(owner, "_lock")]


def _unlock_compiler() -> None:
    """Release what this thread holds of the compiler's locks, when it does not compile.

    numba and llvmlite keep a lock for good if Ctrl-C comes just after they have taken it. Another
    thread that compiles would then wait forever.
    """
    for lock in _compiler_locks():
        while lock._is_owned():
            lock.release()


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


_BLAS_LOCK = Lock()
_BLAS_OPEN: list[ExitStack] = []  # what restores the limit, once for each block that is open


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with`` block.

    The limit belongs to the whole process. It is set when the first of several blocks opens and
    taken back when the last one closes, whichever threads they are in.
    """
    with _BLAS_LOCK:
        _BLAS_OPEN.append(_BLAS_OPEN[0] if _BLAS_OPEN else _limit_blas())
    try:
        with _limit_of_this_thread():
            yield
    finally:
        with _BLAS_LOCK:
            limit = _BLAS_OPEN.pop()
            if not _BLAS_OPEN:
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


def state_lock(ranker: Any) -> RLock:
    """The lock of a ranker that changes in place, held while it learns or scores.

    Locks are kept apart from the objects, which are copied and pickled.
    """
    lock = _LOCKS.get(ranker)
    if lock is None:
        with _NEW_LOCK:
            lock = _LOCKS.setdefault(ranker, RLock())
    return lock


def exclusive(method: Method) -> Method:
    """A method that runs while no other thread learns from or scores with the same object."""

    @wraps(method)
    def locked(self: Any, *args: Any, **options: Any) -> Any:
        with state_lock(self):
            return method(self, *args, **options)

    return locked  # type: ignore[return-value]


_HELD: list[Any] = []  # locks that a fork has taken


def _before_fork() -> None:
    """Wait until no thread is between two steps that a child must not find half done."""
    locks = (_NEW_LOCK, _BLAS_LOCK, *_compiler_locks())
    _HELD.extend(lock for lock in locks if lock.acquire(timeout=60.0))


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().release()


def _after_fork_in_child() -> None:
    """The child has no other threads: none learns, and none restores a limit of BLAS."""
    _after_fork()
    _LOCKS.clear()
    _BLAS_OPEN.clear()
    if sys.version_info < (3, 12):  # where a cached_property is locked while it is computed
        for attribute in _class_attributes():
            if isinstance(attribute, cached_property):
                vars(attribute)["lock"] = RLock()


def _class_attributes() -> Iterator[Any]:
    """What the classes of this package hold, as far as they are imported."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == __name__.split(".")[0]:
            for value in vars(module).values():
                yield from vars(value).values() if isinstance(value, type) else ()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork_in_child,
    )
