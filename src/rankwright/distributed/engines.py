"""``with rankwright.engine(...)``: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import logging
import math
import mmap
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from rankwright.distributed.base import (
    Engine,
    MergeFunction,
    ShardedValues,
    SplitFunction,
    aligned,
    block_sizes,
    merged_pieces,
    side_by_side,
    split_pieces,
)
from rankwright.distributed.logs import note
from rankwright.distributed.shards import N_SHARDS
from rankwright.exceptions import ClusterError, ParameterError, Setting
from rankwright.persist.models import Checkpoint
from rankwright.runtime import Team, active_engine, n_threads, one_thread, parse_bytes

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed.deploy import Cluster

    from distributed import ActorFuture, Client, Future

SMALL = 1 << 16  # bytes of a block that is never stored
PATIENCE = 20.0  # seconds without a scheduler before a fit gives up
NO_WORKER = 300.0  # seconds without any worker, which may be on its way, before a fit gives up
POLL = 2.0  # seconds between looks at the connection
ATTEMPTS = 5  # how often objects on all workers are made again without progress
SAME_VERSION = ("rankwright", "numba", "numpy")  # on all workers: else models may differ
INSTALL = 'pip install "rankwright[cluster]"'
ALIGN = 64  # bytes that an array in a file starts at a multiple of


class LocalEngine(Engine):
    """Threads of this process.

    >>> import operator
    >>> local = LocalEngine(2)
    >>> squares = local.map(lambda value, power: value**power, local.scatter([1, 2, 3]), 2)
    >>> local.gather(squares), local.reduce(squares, operator.add)
    ([1, 4, 9], 14)
    """

    def __init__(self, threads: int | None = None, memory: int | None = None) -> None:
        self.threads, self.memory = threads or n_threads(), memory
        self.name = f"local:{self.threads}"
        self._team, self._blocks = Team(self.threads), 1
        self._folder = None if memory is None else TemporaryDirectory(prefix="rankwright-")

    @property
    def n_blocks(self) -> int:
        return max(super().n_blocks, self._blocks)

    def expect(self, n_bytes: int) -> None:
        if self.memory is not None:
            need = 16 * n_bytes * self.threads // self.memory + 1  # each thread has one block open
            self._blocks = min(N_SHARDS, 1 << (need - 1).bit_length())

    def _apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def _collect(self, blocks: Sequence[Any]) -> list[Any]:
        return list(blocks)

    def broadcast(self, value: object) -> Any:
        return value

    def _apply_all(
        self,
        how: Callable[..., Any],
        function: Callable[..., Any],
        values: ShardedValues | tuple[ShardedValues, ...],
        arguments: tuple[Any, ...],
    ) -> list[Any]:
        def apply(block: tuple[Any, ...]) -> Any:
            with _released(block):
                return self._stored(how(function, len(block), *block, *arguments))

        return self._team.map(apply, side_by_side(values))

    def unfold(
        self, function: Callable[..., Any], values: ShardedValues, *arguments: Any
    ) -> ShardedValues:
        """What ``function(value, *arguments)`` yields, each a value that is stored at once."""

        def stored(block: list[Any]) -> list[Any]:
            with one_thread():
                results = (r for value in block for r in function(value, *arguments))
                return [self._stored([result]) for result in results]

        blocks = [one for several in self._team.map(stored, values.blocks) for one in several]
        return ShardedValues(tuple(blocks), (1,) * len(blocks))

    @contextmanager
    def gang(
        self, cls: type[Any], values: tuple[ShardedValues, ...], *arguments: Any
    ) -> Iterator[_OfOne]:
        joined = [[value for block in one.blocks for value in block] for one in values]
        only = cls(*joined, *arguments, threads=self.threads, empty=self._empty)
        with closing(only):
            only.start(0, [], b"", [])
            yield _OfOne(only)

    def _empty(self, shape: tuple[int, ...], dtype: type[np.generic]) -> Any:
        """A new array, in a file that is mapped to memory if memory is limited and it is large."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if self._folder is None or n_bytes < SMALL:
            return np.empty(shape, dtype)
        with open(os.path.join(self._folder.name, uuid4().hex), "wb+") as file:
            file.truncate(n_bytes)
            array = np.frombuffer(mmap.mmap(file.fileno(), n_bytes), dtype).reshape(shape)
            with suppress(OSError):  # where it cannot be removed, the folder is, at the end
                os.unlink(file.name)
        return array

    def _stored(self, block: Any) -> Any:
        """A block on disk, its arrays mapped to memory, if memory is limited."""
        if self._folder is None or _n_bytes(block) < SMALL:
            return block
        path = os.path.join(self._folder.name, uuid4().hex)
        mapped = _mapped(block, path)
        with suppress(OSError):  # where a mapped file cannot be removed, the folder is, at the end
            os.unlink(path)
        return mapped

    def exchange(
        self, values: ShardedValues, split: SplitFunction, merge: MergeFunction, n_values: int
    ) -> ShardedValues:
        n = self.n_blocks

        def cut(block: Any) -> Any:
            with _released([block]):
                return self._stored(split_pieces(split, block, n))

        parts = self._team.map(cut, values.blocks)

        def merged(number: int) -> Any:
            with _released(parts):
                pieces = (part[number] for part in parts)
                return self._stored(merged_pieces(merge, number, n, *pieces))

        return ShardedValues(tuple(self._team.map(merged, range(n))), block_sizes(n_values, n))

    def adopt(self, delayed: Sequence[Any]) -> ShardedValues:
        return self.map(_compute, self.scatter(delayed))

    def joblib(self, n_jobs: int | None) -> Any:
        from joblib import parallel_config

        return parallel_config("threading", n_jobs=n_jobs or self.threads)

    def close(self) -> None:
        self._team.__exit__()
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()


class _OfOne:
    """The gang of a single process."""

    def __init__(self, only: Any) -> None:
        self._only = only

    def run(self, method: str, *arguments: Any, resume: Any) -> Any:
        return getattr(self._only, method)(*arguments)


def _compute(delayed: Delayed) -> Any:
    from dask.local import get_sync  # by name, older versions warn if there is a client

    return delayed.compute(scheduler=get_sync)


class _Mapped(list[Any]):
    """A block whose arrays are in a file that is mapped to memory."""

    file: Any = None


def _mapped(block: list[Any], path: str) -> _Mapped:
    """The block with its arrays in one new file; what is changed in them is lost."""
    arrays: list[pickle.PickleBuffer] = []
    outline = pickle.dumps(block, protocol=5, buffer_callback=arrays.append)
    bounds, start = [], 0
    with open(path, "wb") as file:
        for array in arrays:
            raw = array.raw()
            bounds.append((start, start + raw.nbytes))
            file.write(raw)
            start += -(-raw.nbytes // ALIGN) * ALIGN
            file.seek(start)
        file.truncate(max(start, 1))
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    view = memoryview(memory)
    mapped = _Mapped(pickle.loads(outline, buffers=[view[start:stop] for start, stop in bounds]))
    mapped.file = memory
    return mapped


@contextmanager
def _released(blocks: Iterable[Any]) -> Iterator[None]:
    """Give pages of files back after use; the system keeps them as long as it has room."""
    try:
        yield
    finally:
        for block in blocks:
            if isinstance(block, _Mapped) and block.file and hasattr(mmap, "MADV_DONTNEED"):
                block.file.madvise(mmap.MADV_DONTNEED)


def _n_bytes(value: object) -> int:
    """The bytes of the arrays in lists, tuples and objects that are not in files."""
    if isinstance(value, np.ndarray):
        return 0 if _is_mapped(value) else int(value.nbytes)
    if isinstance(value, list | tuple):
        return sum(map(_n_bytes, value))
    return sum(map(_n_bytes, vars(value).values())) if hasattr(value, "__dict__") else 0


def _is_mapped(array: object) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, memoryview)


class DaskEngine(Engine):
    """A Dask cluster. Every value is the result of a task, so a lost worker only costs time.

    Values from this process are sent inside tasks, through the scheduler. For more than a few GB,
    use files that the workers can read.

    Parameters
    ----------
    client : distributed.Client
    """

    is_cluster = True
    _announced: ClassVar[WeakKeyDictionary[Any, str]] = WeakKeyDictionary()

    def __init__(self, client: Client, *, owned: bool = False) -> None:
        self.client, self._owned = client, owned
        self._started: WeakSet[Any] = WeakSet()
        self._sound: set[str] = set()  # addresses of workers whose versions are ours
        self.name = _address(client)
        if client not in self._announced:
            self._announced[client] = _dashboard(client)
            shown = [f"rankwright: cluster {self.name}", *filter(None, [self._announced[client]])]
            print(", dashboard ".join(shown), file=sys.stderr)

    @property
    def threads(self) -> int:  # type: ignore[override]
        return max(1, sum(int(worker["nthreads"]) for worker in self.workers().values()))

    def _apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self._check()
        key = _key((*arguments[:1], function))
        future = self.client.submit(_guarded, function, *arguments, pure=False, key=key)
        self._started.add(future)
        return future

    def broadcast(self, value: object) -> Any:
        from dask import config

        with config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):
            return self._apply(_received, _Boxed(value))

    def exchange(
        self, values: ShardedValues, split: SplitFunction, merge: MergeFunction, n_values: int
    ) -> ShardedValues:
        n = self.n_blocks
        parts = [self._apply(split_pieces, split, block, n) for block in values.blocks]
        blocks = [
            self._apply(
                merged_pieces,
                merge,
                i,
                n,
                *(self._apply(_piece_for_block, part, i) for part in parts),
            )
            for i in range(n)
        ]
        return ShardedValues(tuple(blocks), block_sizes(n_values, n))

    def adopt(self, delayed: Sequence[Any]) -> ShardedValues:
        futures = self.client.compute(list(delayed))
        return ShardedValues(
            tuple(self._apply(_partition, f) for f in futures), (1,) * len(futures)
        )

    @contextmanager
    def gang(
        self, cls: type[Any], values: tuple[ShardedValues, ...], *arguments: Any
    ) -> Iterator[DaskGang]:
        gang = DaskGang(self, cls, values, arguments)
        with closing(gang):
            yield gang

    def workers(self) -> dict[str, Any]:
        """What the scheduler says of each worker, by address."""
        return dict(sorted(self.client.scheduler_info(n_workers=-1)["workers"].items()))

    def prepare(self) -> None:
        """Refuse workers with another version of what decides about the bits of a model."""
        deadline = time.monotonic() + PATIENCE
        while new := sorted(set(self.workers()) - self._sound):
            silent = self._compare_versions(new)
            if not silent & set(self.workers()):
                return
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self.name}: worker {min(silent)} does not answer.",
                    fix="Start it again, or see whether this process may connect to it.",
                )
            time.sleep(0.2)

    def _compare_versions(self, workers: list[str]) -> set[str]:
        """Refuse workers with other versions; returns those that do not answer, or are gone."""
        silent: set[str] = set()
        for package in SAME_VERSION:
            ours = _version(package)  # by the standard library: a worker may lack rankwright
            found = self.client.run(version, package, workers=workers, on_error="return")
            silent |= {worker for worker, theirs in found.items() if isinstance(theirs, OSError)}
            for worker, theirs in sorted(found.items()):
                if theirs != ours and worker not in silent:
                    has = f"has {package} {theirs}"
                    if isinstance(theirs, PackageNotFoundError):
                        has = f"does not have {package}"
                    raise ClusterError(
                        f"{self.name}: worker {worker} {has}, and this process has {package} "
                        f"{ours}. Models are equal only if all have the same versions.",
                        kind="version",
                        fix=f"Install {package}=={ours} on the workers and start them again.",
                    )
        self._sound |= set(workers) - silent
        return silent

    def _collect(self, blocks: Sequence[Any]) -> list[Any]:
        from distributed import CancelledError, KilledWorker

        try:
            self._wait(list(blocks))
            return list(self.client.gather(list(blocks)))
        except _TaskError as failed:
            raise failed.error.with_traceback(failed.__traceback__) from None
        except KilledWorker as error:
            raise ClusterError(
                f"{self.name}: several workers died running the same task ({error}). "
                "The usual cause is memory: give workers more, or use more workers."
            ) from error
        except CancelledError as error:
            self._check()
            raise ClusterError(
                f"{self.name}: a task of the fit was cancelled by somebody else. Repeat the fit."
            ) from error
        except (OSError, RuntimeError, ValueError):
            self._check()
            raise

    def _wait(self, blocks: list[Any]) -> None:
        """Wait for tasks, and look at the connection from time to time."""
        from distributed import wait

        lost: float | None = None
        alone: float | None = None
        while True:
            self._check()
            try:
                with self.client.as_current():
                    wait(blocks, timeout=POLL)
                return
            except TimeoutError:
                lost = None if self.client.status == "running" else lost or time.monotonic()
                if lost is not None and time.monotonic() - lost > PATIENCE:
                    raise self._gone() from None
                has_workers = lost is not None or self.workers()
                alone = None if has_workers else alone or time.monotonic()
                if alone is not None and time.monotonic() - alone > NO_WORKER:
                    raise ClusterError(
                        f"{self.name}: the cluster had no worker for {NO_WORKER:g} s. Start some, "
                        "and repeat the fit."
                    ) from None

    def _check(self) -> None:
        if self.client.status in ("closed", "closing"):
            raise self._gone()

    def _gone(self) -> ClusterError:
        return ClusterError(
            f"{self.name}: the scheduler is gone or the client was closed during the fit. "
            "Start the cluster again and repeat the fit."
        )

    def cancel(self) -> None:
        futures = list(self._started)
        self._started.clear()
        if self.client.status == "running":
            for future in futures:  # Client.cancel fails at the scheduler and loses its other tasks
                future.release()

    def joblib(self, n_jobs: int | None) -> Any:
        from joblib import parallel_config

        return parallel_config("dask", client=self.client, n_jobs=n_jobs or -1)

    def close(self) -> None:
        if self._owned:
            self.client.close()


class DaskGang:
    """Objects on all workers of a cluster, which are made again if a worker is lost.

    They are Dask actors: a method runs at once, whatever else the worker has to do.
    """

    def __init__(
        self,
        engine: DaskEngine,
        cls: type[Any],
        values: tuple[ShardedValues, ...],
        arguments: tuple[Any, ...],
    ) -> None:
        self._engine, self._values = engine, values
        self._make = cls, arguments
        self._actors: list[Any] = []
        self._futures: list[Any] = []
        self._where: list[str] = []

    def run(self, method: str, *arguments: Any, resume: Any) -> Any:
        attempts = 0
        while True:
            try:
                if not self._actors:
                    self._start(resume)
                return self._call(method, *(arguments for _ in self._actors))[0]
            except (_WorkerLost, ConnectionError, TimeoutError, OSError) as error:
                self.close()
                attempts += 1
                note("grow", "a worker or a connection was lost", level=logging.WARNING,
                     attempt=attempts, trees=len(resume), error=type(error).__name__)  # fmt: skip
                if attempts == ATTEMPTS or not self._some_worker():
                    raise ClusterError(
                        f"{self._engine.name}: workers were lost {attempts} times without a new "
                        f"tree ({error}). The usual cause is memory: give workers more, or use "
                        "more workers."
                    ) from error

    def _some_worker(self) -> bool:
        """Whether a worker is there, or comes back soon."""
        deadline = time.monotonic() + PATIENCE
        while not self._engine.workers() and time.monotonic() < deadline:
            self._engine._check()
            time.sleep(0.1)
        return bool(self._engine.workers())

    def _start(self, resume: Any) -> None:
        """One object on each worker, with equal shares of the values."""
        client, (cls, arguments) = self._engine.client, self._make
        self._engine.prepare()  # workers may have come since
        self._where = list(self._engine.workers())
        n_values, n = len(self._values[0]), len(self._where)
        for number, worker in enumerate(self._where):
            bounds = n_values * number // n, n_values * (number + 1) // n
            parts = [self._share(values, *bounds, worker) for values in self._values]
            names = {"workers": [worker], "pure": False, "key": _key((cls,))}
            self._futures.append(
                client.submit(_guarded, _make_member, cls, *parts, *arguments, actor=True, **names)
            )
        self._actors = [self._made(future) for future in self._futures]
        addresses, token = self._call("address", *(() for _ in self._actors)), os.urandom(32)
        note("grow", f"{n} workers grow trees together", workers=n, trees=len(resume))
        self._call("start", *((rank, addresses, token, resume) for rank in range(n)))

    def _share(self, values: ShardedValues, first: int, last: int, worker: str) -> Any:
        """The values first .. last as one list, on a worker."""
        pieces, start = [], 0
        for block, size in zip(values.blocks, values.sizes, strict=True):
            low, high = max(first - start, 0), min(last - start, size)
            if low < high:
                pieces.append(self._engine._apply(_slice, block, low, high))
            start += size
        submit = self._engine.client.submit
        return submit(_concatenated, *pieces, workers=[worker], pure=False, key=_key((_slice,)))

    def _call(self, method: str, *arguments: tuple[Any, ...]) -> list[Any]:
        """Call a method of all objects, each with its arguments, and wait for all."""
        from distributed import CancelledError

        try:
            calls = [
                getattr(actor, method)(*given)
                for actor, given in zip(self._actors, arguments, strict=True)
            ]
        except (RuntimeError, CancelledError) as error:
            raise _WorkerLost(str(error)) from error
        return [self._result(call) for call in calls]

    def _result(self, call: ActorFuture) -> Any:
        while True:
            try:
                return aligned(call.result(timeout=POLL), writable=True)
            except TimeoutError:
                if call.done():
                    raise
                self._check_workers()

    def _made(self, future: Future) -> Any:
        from distributed import CancelledError, KilledWorker

        while True:
            try:
                return future.result(timeout=POLL)
            except _TaskError as failed:
                raise failed.error.with_traceback(failed.__traceback__) from None
            except (KilledWorker, CancelledError, RuntimeError) as error:  # of Dask itself
                raise _WorkerLost(str(error)) from error
            except TimeoutError:
                self._check_workers()

    def _check_workers(self) -> None:
        """Objects are tied to their workers: tasks for one that is gone would wait for ever."""
        self._engine._check()
        if lost := set(self._where) - set(self._engine.workers()):
            raise _WorkerLost(f"worker {min(lost)} is gone")

    def close(self) -> None:
        """End all objects; those of lost workers have ended."""
        both = zip(self._actors, self._futures, strict=False)
        actors = [actor for actor, future in both if future.status == "finished"]
        self._actors = []
        for method in ("stop", "close"):  # close waits for a call that is under way
            for actor in actors:
                with suppress(Exception):
                    getattr(actor, method)()
        for future in self._futures:
            future.release()
        self._futures = []


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class _TaskError(Exception):
    """An error of a task; what it says may quote data, which logs of workers must not hold."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)

    @property
    def error(self) -> BaseException:
        error: BaseException = self.args[0]
        return error

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: the process that called fit says more"

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}(...)"


def _guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        raise _TaskError(error).with_traceback(error.__traceback__) from None


class _WorkerLost(Exception):
    """A worker that held an object of a gang is gone."""


def _make_member(cls: type[Any], *arguments: Any) -> Any:
    from distributed import get_worker

    worker = get_worker()
    return cls(*aligned(arguments), threads=worker.state.nthreads, worker=worker)


def _slice(values: list[Any], first: int, last: int) -> list[Any]:
    return values[first:last]


def _concatenated(*parts: list[Any]) -> list[Any]:
    return [value for part in parts for value in part]


class _Boxed:
    """A value that Dask passes on as it is, without a look inside."""

    def __init__(self, value: object) -> None:
        self.value = value


def _received(box: _Boxed) -> Any:
    return aligned(box.value, writable=True)


def _partition(value: object) -> list[Any]:
    return [value]


def _piece_for_block(values: Sequence[object], index: int) -> Any:
    return values[index]


def _key(arguments: tuple[Any, ...]) -> str:
    """The name of a task; the dashboard groups tasks by its beginning."""
    functions = (getattr(argument, "func", argument) for argument in arguments)  # of a partial
    names = [name for f in functions if (name := getattr(f, "__name__", ""))]
    return f"rankwright-{names[0].strip('_') if names else 'value'}-{uuid4().hex}"


def _address(client: Client) -> str:
    return str(client.scheduler.address if client.scheduler else "dask")


def _dashboard(client: Client) -> str:
    """The address of the dashboard; empty if the scheduler shows none, for want of bokeh."""
    try:
        shows = client.run_on_scheduler(find_spec, "bokeh") is not None
    except Exception:  # a scheduler that refuses to run functions
        return ""
    return str(client.dashboard_link) if shows else ""


def open_engine(
    where: str | Engine | Client | Cluster,
    memory: int | str | None = None,
) -> Engine:
    """The engine of a client, an address, or ``"local:4"``; ``close`` it after use."""
    limit = None if memory is None else parse_bytes(memory)
    if limit is not None and not (isinstance(where, str) and where.split(":")[0] == "local"):
        raise ParameterError(
            Setting("memory", memory),
            f" with {where!r}: the workers of a cluster have their own limits.",
            fix="Use memory with 'local' only.",
        )
    if isinstance(where, Engine):
        return where
    if isinstance(where, str):
        kind, _, threads = where.partition(":")
        if kind == "local":
            if threads and not (threads.isdigit() and int(threads) > 0):
                raise ParameterError(f"engine({where!r}): write 'local:4' for four threads.")
            return LocalEngine(int(threads) if threads else None, limit)
        return DaskEngine(connect(where), owned=True)
    if hasattr(where, "submit") and hasattr(where, "scheduler_info"):
        return DaskEngine(where)
    if hasattr(where, "scheduler_address"):  # a LocalCluster, or another cluster object
        return DaskEngine(connect(where.scheduler_address), owned=True)
    raise ParameterError(
        f"engine got {type(where).__name__}: give a dask.distributed Client or cluster, the "
        "address of a scheduler such as 'tcp://host:8786', or 'local:4'."
    )


@contextmanager
def engine(
    where: str | Engine | Client | Cluster = "local",
    *,
    memory: int | str | None = None,
    checkpoint: Checkpoint | None = None,
) -> Iterator[Engine]:
    """Run every ``fit`` inside the ``with`` block on a cluster, with the same result.

    Parameters
    ----------
    where : a ``distributed.Client`` or cluster, the address of a scheduler (``"tcp://host:8786"``),
        or ``"local:4"``: four threads of this process
    memory : int or str, optional
        With ``"local"``: the approximate memory limit for rows, such as ``"2GB"``. Larger data are
        kept in memory-mapped files (in the folder for temporary files, see ``TMPDIR``).
    checkpoint : :class:`rankwright.persist.Checkpoint`, optional
        A folder for the one ``fit`` in the block. The same fit with the same folder goes on after
        the trees of an interrupted ``LambdaMART``, and returns a finished model at once; the model
        is the same, bit for bit. Estimators need an integer ``random_state``.

    Examples
    --------
    >>> import numpy as np, rankwright as rw
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(300, 3)), np.repeat(np.arange(30), 10)
    >>> model = rw.LambdaMART(n_estimators=3)
    >>> with rw.engine("local:2"):
    ...     there = model.fit(X, X[:, 0] > 0, qid=qid).decision_function(X)
    >>> here = model.fit(X, X[:, 0] > 0, qid=qid).decision_function(X)
    >>> bool((here == there).all())
    True
    """
    opened = open_engine(where, memory)
    before, opened.checkpoint = opened.checkpoint, checkpoint
    try:
        with active_engine(opened):
            yield opened
    except BaseException:
        opened.cancel()
        raise
    finally:
        opened.checkpoint = before
        if opened is not where:
            opened.close()


def connect(address: str) -> Any:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"rankwright.engine({address!r}) needs {error.name}, which is not installed: {INSTALL}",
            name=error.name,
        ) from None
    try:
        return Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"rankwright.engine({address!r}): no scheduler answers ({error}). Start one with "
            "'dask scheduler', or use 'local:4'."
        ) from error
