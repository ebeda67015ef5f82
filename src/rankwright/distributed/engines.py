"""``with rankwright.engine(...)``, and the engine that runs on threads of this process."""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np

from rankwright.distributed.base import (
    Engine,
    Handles,
    merged_pieces,
    side_by_side,
    split_pieces,
    tree_reduce,
)
from rankwright.exceptions import ParameterError
from rankwright.parallel import Team, active_engine, n_threads, one_thread, parse_bytes, ranges

SMALL = 1 << 16  # bytes of a block that is never stored
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
            self._blocks = min(64, 1 << (need - 1).bit_length())

    def _apply(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def _collect(self, blocks: Sequence[Any]) -> list[Any]:
        return list(blocks)

    def broadcast(self, value: Any) -> Any:
        return value

    def _apply_all(self, how: Any, function: Any, handles: Any, arguments: Any) -> list[Any]:
        def apply(block: tuple[Any, ...]) -> Any:
            with _released(block):
                return self._stored(how(function, len(block), *block, *arguments))

        return self._team.map(apply, side_by_side(handles))

    def unfold(self, function: Any, handles: Handles, *arguments: Any) -> Handles:
        """What ``function(value, *arguments)`` yields, each a value that is stored at once."""

        def stored(block: list[Any]) -> list[Any]:
            with one_thread():
                results = (r for value in block for r in function(value, *arguments))
                return [self._stored([result]) for result in results]

        blocks = [one for several in self._team.map(stored, handles.blocks) for one in several]
        return Handles(tuple(blocks), (1,) * len(blocks))

    def fold(self, function: Any, handles: Any, combine: Any, *arguments: Any) -> Any:
        blocks = side_by_side(handles)

        def total_of(bounds: tuple[int, int]) -> Any:
            total = None
            for block in blocks[slice(*bounds)]:
                with one_thread(), _released(block):
                    for values in zip(*block, strict=True):
                        total = function(*values, *arguments, total)
            return total

        return tree_reduce(self._team.map(total_of, ranges(len(blocks), self.threads)), combine)

    def _stored(self, block: Any) -> Any:
        """A block on disk, its arrays mapped to memory, if memory is limited."""
        if self._folder is None or _n_bytes(block) < SMALL:
            return block
        path = os.path.join(self._folder.name, uuid4().hex)
        mapped = _mapped(block, path)
        with suppress(OSError):  # where a mapped file cannot be removed, the folder is, at the end
            os.unlink(path)
        return mapped

    def exchange(self, handles: Handles, split: Any, merge: Any, n_values: int) -> Handles:
        n = self.n_blocks

        def cut(block: Any) -> Any:
            with _released([block]):
                return self._stored(split_pieces(split, block, n))

        parts = self._team.map(cut, handles.blocks)

        def merged(number: int) -> Any:
            with _released(parts):
                pieces = (part[number] for part in parts)
                return self._stored(merged_pieces(merge, number, n, *pieces))

        return Handles(tuple(self._team.map(merged, range(n))), (n_values // n,) * n)

    def adopt(self, delayed: Sequence[Any]) -> Handles:
        return self.map(_compute, self.scatter(delayed))

    def joblib(self, n_jobs: int | None) -> Any:
        from joblib import parallel_config

        return parallel_config("threading", n_jobs=n_jobs or self.threads)

    def close(self) -> None:
        self._team.__exit__()
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()


def _compute(delayed: Any) -> Any:
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


def _n_bytes(value: Any) -> int:
    """The bytes of the arrays in lists, tuples and objects that are not in files."""
    if isinstance(value, np.ndarray):
        return 0 if _is_mapped(value) else int(value.nbytes)
    if isinstance(value, list | tuple):
        return sum(map(_n_bytes, value))
    return sum(map(_n_bytes, vars(value).values())) if hasattr(value, "__dict__") else 0


def _is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, memoryview)


def open_engine(where: Any, memory: int | str | None = None) -> Engine:
    """The engine of a client, an address, or ``"local:4"``; ``close`` it after use."""
    from rankwright.distributed.dask import DaskEngine, connect

    limit = None if memory is None else parse_bytes(memory)
    if limit is not None and not (isinstance(where, str) and where.split(":")[0] == "local"):
        raise ParameterError(
            f"engine({where!r}, memory={memory!r}): the workers of a cluster have their own "
            "limits. Use memory with 'local' only."
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
def engine(where: Any = "local", *, memory: int | str | None = None) -> Iterator[Engine]:
    """Run every ``fit`` inside the ``with`` block on a cluster, with the same result.

    Parameters
    ----------
    where : a ``distributed.Client`` or cluster, the address of a scheduler (``"tcp://host:8786"``),
        or ``"local:4"``: four threads of this process
    memory : int or str, optional
        With ``"local"``: the approximate memory limit for rows, such as ``"2GB"``. Larger data are
        kept in memory-mapped files (in the folder for temporary files, see ``TMPDIR``).

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
