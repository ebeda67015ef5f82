"""Engines: map over shards, reduce by a fixed tree, broadcast. Threads of this process, or Dask.

Values live in :class:`Handles`: one value a shard, in blocks of neighboring shards. A block is one
task, so a round costs a few tasks however many shards there are. Blocks have a power of two of
shards and start at multiples of it, so the tree of ``reduce`` is the same for every number of
blocks, and with it the rounding of sums of floats.
"""

from __future__ import annotations

import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from rankwright.exceptions import ClusterError, ParameterError
from rankwright.parallel import (
    Team,
    active_engine,
    n_threads,
    one_thread,
    single_threaded_blas,
)

PATIENCE = 20.0  # seconds without a scheduler before a fit gives up
POLL = 2.0  # seconds between looks at the connection
SMALL = 1 << 20  # bytes of a block that is never stored
INSTALL = 'pip install "rankwright[cluster]"'


class Handles(NamedTuple):
    """Values that stay where they were computed, in blocks; ``sizes`` counts the values of each."""

    blocks: tuple[Any, ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return sum(self.sizes)


Several = Handles | tuple[Handles, ...]


def _several(handles: Several) -> tuple[Handles, ...]:
    return (handles,) if isinstance(handles, Handles) else handles


def tree_reduce(values: Iterable[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine neighbors, then neighbors of the results, and so on.

    >>> tree_reduce("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    level = list(values)
    while len(level) > 1:
        pairs = [combine(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def _each(function: Any, n: int, *arguments: Any) -> list[Any]:
    """Of the values of the first ``n`` arguments, which are blocks, side by side."""
    # BLAS adds in another order with other threads, or if an array came in a message and does not
    # start where a number may.
    given = aligned(arguments)
    with one_thread():
        return [function(*values, *given[n:]) for values in zip(*given[:n], strict=True)]


def aligned(value: Any, *, writable: bool = False) -> Any:
    """The same with arrays that are aligned in memory, in lists, tuples, dicts and matrices.

    With ``writable`` they can be written to as well: kernels are compiled again for those that
    cannot, as arrays of a message are.

    >>> odd = np.frombuffer(bytes(17), np.float64, 2, offset=1)
    >>> odd.flags.aligned, aligned([odd])[0].flags.aligned
    (False, True)
    """
    again = partial(aligned, writable=writable)
    if isinstance(value, np.ndarray):
        sound = value.flags.aligned and (value.flags.writeable or not writable)
        return value if sound else value.copy(order="K")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(again, value))
    if isinstance(value, list | tuple):
        return type(value)(map(again, value))
    if isinstance(value, dict):
        return {key: again(part) for key, part in value.items()}
    if hasattr(type(value), "tocsr") and again(value.data) is not value.data:
        return value.copy()
    return value


def _whole(function: Any, n: int, *arguments: Any) -> list[Any]:
    with one_thread():
        return [function(*arguments)]


def _pieces(split: Any, values: list[Any], n_blocks: int) -> list[Any]:
    """Per block, what each of the values gives to it."""
    return [list(pieces) for pieces in zip(*(split(v, n_blocks) for v in values), strict=True)]


def _merged(merge: Any, number: int, n_blocks: int, *parts: list[Any]) -> list[Any]:
    return list(merge([piece for part in parts for piece in part], number, n_blocks))


def _reduced(values: list[Any], combine: Any) -> Any:
    with one_thread():
        return tree_reduce(values, combine)


class Engine(ABC):
    """Where the shards of a fit are and where functions of them run.

    A function is called with the value of one shard and the broadcast values. It must be a function
    of a module (workers import it), and it must not change its arguments: a lost result is computed
    again from them.
    """

    name: str
    threads: int  # how many tasks run at a time
    memory: int | None = None  # bytes that rows and what is made of them may take

    @abstractmethod
    def _apply(self, function: Any, *arguments: Any) -> Any:
        """Start ``function(*arguments)``, some of which are blocks or broadcast values."""

    @abstractmethod
    def _collect(self, blocks: Sequence[Any]) -> list[Any]:
        """The values of blocks, here."""

    @abstractmethod
    def broadcast(self, value: Any) -> Any:
        """Give a value to all workers once; pass the result to ``map``."""

    @abstractmethod
    def exchange(self, handles: Handles, split: Any, merge: Any, n_values: int) -> Handles:
        """Send parts of values to other blocks: the shuffle.

        ``split(value, n_blocks)`` gives a list with a piece for each block;
        ``merge(pieces, block number, n_blocks)`` gives the values of that block, in order. Pieces
        come in the order of the values that they were cut from. There are ``n_values`` in all.
        """

    def scatter(self, values: Iterable[Any], *, blocks: int | None = None) -> Handles:
        """Give values to workers, each value a block of its own, or in so many ``blocks``."""
        values = list(values)
        size = 1 if blocks is None else len(values) // blocks
        cut = [values[i : i + size] for i in range(0, len(values), size)]
        return Handles(tuple(self.broadcast(b) for b in cut), tuple(map(len, cut)))

    def map(self, function: Callable[..., Any], handles: Several, *arguments: Any) -> Handles:
        """``function(value, *arguments)`` of each value; the results stay with the workers.

        Of a tuple of handles with the same blocks: ``function(one, other, *arguments)``.
        """
        several, each = _several(handles), self._apply_all(_each, function, handles, arguments)
        return Handles(tuple(each), several[0].sizes)

    def map_blocks(self, function: Any, handles: Several, *arguments: Any) -> Handles:
        """``function(values of a block, *arguments)``: one result a block.

        How many there are depends on the workers: use it for sums that do not depend on the order.
        """
        blocks = self._apply_all(_whole, function, handles, arguments)
        return Handles(tuple(blocks), (1,) * len(blocks))

    def _apply_all(self, how: Any, function: Any, handles: Any, arguments: Any) -> list[Any]:
        several = _several(handles)
        blocks = zip(*(h.blocks for h in several), strict=True)
        return [self._apply(how, function, len(several), *b, *arguments) for b in blocks]

    def reduce(self, handles: Handles, combine: Callable[[Any, Any], Any]) -> Any:
        """The values combined by a fixed binary tree over the order of shards; the value is here.

        ``combine`` may change its first argument if that is a result of ``map`` nobody else uses.
        """
        blocks = list(handles.blocks)
        if any(size > 1 for size in handles.sizes):
            blocks = [self._apply(_reduced, block, combine) for block in blocks]
            return tree_reduce(self._collect(blocks), combine)
        while len(blocks) > 8:  # the last few are combined here: a task costs more than that
            pairs = [
                self._apply(_combined, combine, *blocks[i : i + 2])
                for i in range(0, len(blocks) - 1, 2)
            ]
            blocks = pairs + blocks[2 * len(pairs) :]
        return tree_reduce([value for (value,) in self._collect(blocks)], combine)

    def gather(self, handles: Handles) -> list[Any]:
        """All values, here, in order."""
        return [value for block in self._collect(handles.blocks) for value in block]

    @property
    def n_blocks(self) -> int:
        """How many blocks to cut shards into: the power of two that keeps all threads busy."""
        return min(64, 1 << (self.threads - 1).bit_length())

    def fit(self, estimator: Any, X: Any, y: Any, **arguments: Any) -> Any:
        """``estimator.fit(X, y, **arguments)`` on this engine; a fit that fails leaves no task."""
        from rankwright.distributed.fitting import fit_shards

        try:
            # What the fit itself fits, it fits here.
            with active_engine(None), single_threaded_blas():
                return fit_shards(self, estimator, X, y, **arguments)
        except BaseException:
            self.cancel()
            raise

    def run(self, function: Callable[..., Any], jobs: Iterable[Any], *shared: Any) -> list[Any]:
        """``function(job, *shared)`` of independent jobs: their results, here, in order.

        What a job fits, it fits on its worker alone. A job that fails leaves no task behind.
        """
        try:
            with active_engine(None):
                common = [self.broadcast(value) for value in shared]
                return self.gather(self.map(function, self.scatter(jobs), *common))
        except BaseException:
            self.cancel()
            raise

    @abstractmethod
    def joblib(self, n_jobs: int | None) -> Any:
        """A context in which joblib runs its jobs on this engine, ``n_jobs`` at a time."""

    def expect(self, n_bytes: int) -> None:  # noqa: B027
        """Choose blocks for so many bytes of rows, if memory is limited."""

    def refuse(self, estimator: Any) -> None:
        """Raise a ParameterError: this way of training does not run on an engine."""
        from rankwright.distributed.fitting import fit_function

        fit_function(estimator)
        raise ParameterError(
            f"{type(estimator).__name__} on an engine learns by fit(X, y, qid=qid) only: leave "
            "the block of rankwright.engine(...) for its other ways to train."
        )

    def cancel(self) -> None:  # noqa: B027 (threads of this process end with the fit)
        """Cancel everything that was started."""

    def close(self) -> None:  # noqa: B027
        """End what the engine itself opened."""


def _combined(combine: Any, one: list[Any], other: list[Any]) -> list[Any]:
    return [combine(one[0], other[0])]


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
            self._blocks = min(64, 1 << (need - 1).bit_length())

    def _apply(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def _collect(self, blocks: Sequence[Any]) -> list[Any]:
        return list(blocks)

    def broadcast(self, value: Any) -> Any:
        return value

    def _apply_all(self, how: Any, function: Any, handles: Any, arguments: Any) -> list[Any]:
        several = _several(handles)
        blocks = list(zip(*(h.blocks for h in several), strict=True))
        return self._team.map(
            lambda b: self._stored(how(function, len(several), *b, *arguments)), blocks
        )

    def _stored(self, block: Any) -> Any:
        """A block on disk, its arrays mapped to memory, if memory is limited."""
        if self._folder is None or _n_bytes(block) < SMALL:
            return block
        import joblib

        path = os.path.join(self._folder.name, uuid4().hex)
        joblib.dump(block, path)
        mapped = joblib.load(path, mmap_mode="c")
        with suppress(OSError):  # where a mapped file cannot be removed, the folder is, at the end
            os.unlink(path)
        return mapped

    def exchange(self, handles: Handles, split: Any, merge: Any, n_values: int) -> Handles:
        n = self.n_blocks
        parts = self._team.map(lambda b: self._stored(_pieces(split, b, n)), handles.blocks)

        def merged(number: int) -> Any:
            pieces = (part[number] for part in parts)
            return self._stored(_merged(merge, number, n, *pieces))

        return Handles(tuple(self._team.map(merged, range(n))), (n_values // n,) * n)

    def joblib(self, n_jobs: int | None) -> Any:
        from joblib import parallel_config

        return parallel_config("threading", n_jobs=n_jobs or self.threads)

    def close(self) -> None:
        self._team.__exit__()
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()


def _n_bytes(value: Any) -> int:
    """The bytes of the arrays in lists, tuples and objects."""
    if isinstance(value, np.memmap):
        return 0
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, list | tuple):
        return sum(map(_n_bytes, value))
    return sum(map(_n_bytes, vars(value).values())) if hasattr(value, "__dict__") else 0


class DaskEngine(Engine):
    """A Dask cluster. Every value is the result of a task, so a lost worker costs time only.

    Values that this process gives to workers travel inside tasks, through the scheduler. For more
    than a few GB give files that the workers can read.

    Parameters
    ----------
    client : distributed.Client
    """

    _announced: ClassVar[WeakKeyDictionary[Any, str]] = WeakKeyDictionary()

    def __init__(self, client: Any, *, owned: bool = False) -> None:
        self.client, self._owned = client, owned
        self._started: WeakSet[Any] = WeakSet()
        self.name = _address(client)
        if client not in self._announced:
            self._announced[client] = client.dashboard_link
            print(f"rankwright: cluster {self.name}, dashboard {client.dashboard_link}",
                  file=sys.stderr)  # fmt: skip

    @property
    def threads(self) -> int:  # type: ignore[override]
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return max(1, sum(int(worker["nthreads"]) for worker in workers.values()))

    def _apply(self, function: Any, *arguments: Any) -> Any:
        self._check()
        future = self.client.submit(function, *arguments, pure=False, key=_key(arguments))
        self._started.add(future)
        return future

    def broadcast(self, value: Any) -> Any:
        from dask import config

        with config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):
            return self._apply(_identity, _Boxed(value))

    def exchange(self, handles: Handles, split: Any, merge: Any, n_values: int) -> Handles:
        n = self.n_blocks
        parts = [self._apply(_pieces, split, block, n) for block in handles.blocks]
        blocks = [
            self._apply(_merged, merge, i, n, *(self._apply(_item, part, i) for part in parts))
            for i in range(n)
        ]
        return Handles(tuple(blocks), (n_values // n,) * n)

    def adopt(self, futures: Any) -> Handles:
        """Futures of other code as values."""
        return Handles(tuple(self._apply(_listed, f) for f in futures), (1,) * len(futures))

    def _collect(self, blocks: Sequence[Any]) -> list[Any]:
        from distributed.client import FutureCancelledError

        from distributed import KilledWorker, wait

        lost: float | None = None
        while True:
            try:
                self._check()
                with self.client.as_current():
                    wait(list(blocks), timeout=POLL)
                return list(self.client.gather(list(blocks)))
            except TimeoutError:
                lost = None if self.client.status == "running" else lost or time.monotonic()
                if lost is not None and time.monotonic() - lost > PATIENCE:
                    raise self._gone() from None
                self._check()
            except KilledWorker as error:
                raise ClusterError(
                    f"{self.name}: workers died again and again under the same task ({error}). "
                    "This is usually memory: give workers more, or use more workers."
                ) from error
            except FutureCancelledError as error:
                raise self._gone(f" ({error.reason})") from error
            except (OSError, RuntimeError, ValueError):
                self._check()  # else it is the error of a task
                raise

    def _check(self) -> None:
        if self.client.status in ("closed", "closing"):
            raise self._gone()

    def _gone(self, reason: str = "") -> ClusterError:
        return ClusterError(
            f"{self.name}: the scheduler is gone or the client was closed during the fit{reason}. "
            "Start the cluster again and repeat the fit."
        )

    def cancel(self) -> None:
        futures = list(self._started)
        self._started.clear()
        if futures and self.client.status == "running":
            self.client.cancel(futures, force=True)

    def joblib(self, n_jobs: int | None) -> Any:
        from joblib import parallel_config

        return parallel_config("dask", client=self.client, n_jobs=n_jobs or -1)

    def close(self) -> None:
        if self._owned:
            self.client.close()


class _Boxed:
    """A value that Dask passes on as it is, without a look inside."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _identity(box: _Boxed) -> Any:
    return aligned(box.value, writable=True)


def _listed(value: Any) -> list[Any]:
    return [value]


def _item(values: Any, index: int) -> Any:
    return values[index]


def _key(arguments: tuple[Any, ...]) -> str:
    """The name of a task; the dashboard groups tasks by its beginning."""
    names = [getattr(a, "__name__", "") for a in arguments[:1]]
    return f"rankwright-{names[0] if names and names[0] else 'value'}-{uuid4().hex}"


def _address(client: Any) -> str:
    return str(client.scheduler.address if client.scheduler else "dask")


def _connect(address: str) -> Any:
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


def open_engine(where: Any, memory: int | str | None = None) -> Engine:
    """The engine of a client, an address, or ``"local:4"``; ``close`` it after use."""
    limit = None if memory is None else parse_bytes(memory)
    if limit is not None and not (isinstance(where, str) and where.split(":")[0] == "local"):
        raise ParameterError(
            f"engine({where!r}, memory={memory!r}): the workers of a cluster have limits of their "
            "own. Give memory with 'local' only."
        )
    if isinstance(where, Engine):
        return where
    if isinstance(where, str):
        kind, _, threads = where.partition(":")
        if kind == "local":
            if threads and not (threads.isdigit() and int(threads) > 0):
                raise ParameterError(f"engine({where!r}): write 'local:4' for four threads.")
            return LocalEngine(int(threads) if threads else None, limit)
        return DaskEngine(_connect(where), owned=True)
    if hasattr(where, "submit") and hasattr(where, "scheduler_info"):
        return DaskEngine(where)
    if hasattr(where, "scheduler_address"):  # a LocalCluster, or another cluster object
        return DaskEngine(_connect(where.scheduler_address), owned=True)
    raise ParameterError(
        f"engine got {type(where).__name__}: give a dask.distributed Client or cluster, the "
        "address of a scheduler such as 'tcp://host:8786', or 'local:4'."
    )


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
        raise ParameterError(f"memory={size!r}: write a size of at least 1MB, such as '2GB'.")
    return n


@contextmanager
def engine(where: Any = "local", *, memory: int | str | None = None) -> Iterator[Engine]:
    """Run every ``fit`` inside the ``with`` block on a cluster, with the same result.

    Parameters
    ----------
    where : a ``distributed.Client`` or cluster, the address of a scheduler (``"tcp://host:8786"``),
        or ``"local:4"``: four threads of this process
    memory : int or str, optional
        With ``"local"``: about how much memory the rows may take, such as ``"2GB"``. What is larger
        is kept in files (in the folder for temporary files, see ``TMPDIR``), mapped to memory.

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
    try:
        with active_engine(opened):
            yield opened
    except BaseException:
        opened.cancel()
        raise
    finally:
        if opened is not where:
            opened.close()
