"""Base class of engines: map over shards, reduce by a fixed tree, broadcast.

:class:`ShardedValues` holds one value per shard, in blocks of neighboring shards. A block is one
task, so a round costs few tasks, regardless of the number of shards. The tree of ``reduce`` is that
of the shards: a block combines what it has of it, and the rest is combined between blocks. So the
rounding of sums of floats does not depend on the number of blocks.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from rankwright._typing import MatrixLike
from rankwright.distributed.logs import note
from rankwright.exceptions import ParameterError
from rankwright.persist.models import Checkpoint
from rankwright.runtime import active_engine, one_thread, single_threaded_blas

MANY_SHARDS = 1024  # of many rows, and the most blocks of a fit


class ShardedValues(NamedTuple):
    """Values in blocks that stay on the workers that computed them; ``sizes`` are their lengths."""

    blocks: tuple[Any, ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return sum(self.sizes)


OneOrMore = ShardedValues | tuple[ShardedValues, ...]


def side_by_side(values: OneOrMore) -> list[tuple[Any, ...]]:
    """The blocks of values; of several values, those that belong together."""
    several = (values,) if isinstance(values, ShardedValues) else values
    return list(zip(*(h.blocks for h in several), strict=True))


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


Nodes = dict[tuple[int, int], Any]  # values of a tree, by level from 0 and position in the level


def tree_nodes(nodes: Nodes, n: int, combine: Callable[[Any, Any], Any]) -> Nodes:
    """Combine what can be combined of the tree of ``tree_reduce`` over ``n`` values.

    >>> tree_nodes({(0, 1): "b", (0, 2): "c", (0, 3): "d"}, 5, lambda a, b: f"({a}{b})")
    {(0, 1): 'b', (1, 1): '(cd)'}
    """
    done, level = {}, 0
    current = dict(nodes)
    while n > 1:
        here = sorted(position for at, position in current if at == level)
        for position in here:
            if (level, position) not in current:
                continue  # combined with the one before it
            is_left, parent = position % 2 == 0, (level + 1, position // 2)
            if is_left and (level, position + 1) in current:
                left, right = (current.pop((level, position + i)) for i in (0, 1))
                current[parent] = combine(left, right)
            elif is_left and position == n - 1:  # the last one of an odd number
                current[parent] = current.pop((level, position))
            else:
                done[level, position] = current.pop((level, position))
        n, level = -(-n // 2), level + 1
    return done | current


# Cuts a value into a piece for each block; joins pieces to the values of a block (number, of all).
SplitFunction: TypeAlias = Callable[[Any, int], Iterable[Any]]
MergeFunction: TypeAlias = Callable[[list[Any], int, int], Iterable[Any]]


def block_bounds(n_values: int, n_blocks: int) -> list[int]:
    """Where each of some blocks of values starts, and where the last one ends.

    >>> block_bounds(64, 3)
    [0, 21, 42, 64]
    """
    return [n_values * block // n_blocks for block in range(n_blocks + 1)]


def block_sizes(n_values: int, n_blocks: int) -> tuple[int, ...]:
    bounds = block_bounds(n_values, n_blocks)
    return tuple(stop - start for start, stop in pairwise(bounds))


def _map_values(function: Callable[..., Any], n: int, *arguments: Any) -> list[Any]:
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


def _map_block(function: Callable[..., Any], n: int, *arguments: Any) -> list[Any]:
    with one_thread():
        return [function(*arguments)]


def split_pieces(split: SplitFunction, values: list[Any], n_blocks: int) -> list[Any]:
    """Per block, what each of the values gives to it."""
    return [list(pieces) for pieces in zip(*(split(v, n_blocks) for v in values), strict=True)]


def merged_pieces(merge: MergeFunction, number: int, n_blocks: int, *parts: list[Any]) -> list[Any]:
    return list(merge([piece for part in parts for piece in part], number, n_blocks))


def _block_nodes(
    values: list[Any], first: int, n: int, combine: Callable[[Any, Any], Any]
) -> Nodes:
    """What a block, whose values start with number ``first`` of ``n``, has of the tree."""
    with one_thread():
        nodes = {(0, first + number): value for number, value in enumerate(values)}
        return tree_nodes(nodes, n, combine)


def _joined_nodes(one: Nodes, other: Nodes, n: int, combine: Callable[[Any, Any], Any]) -> Nodes:
    with one_thread():
        return tree_nodes(one | other, n, combine)


class Gang(Protocol):
    """Objects that work together, one in each process."""

    def run(self, method: str, *arguments: Any, resume: Any) -> Any:
        """Call a method of all, and return what the first returns.

        If a process is lost, new objects are made and get ``resume`` when they start.
        """


class Engine(ABC):
    """Base class of engines: holds the shards of a fit and runs functions on them.

    A function is called with the value of one shard and the broadcast values. It must be a function
    of a module (workers import it), and it must not change its arguments: a lost result is computed
    again from them.
    """

    name: str
    threads: int  # how many tasks run at a time
    memory: int | None = None  # bytes that rows and what is made of them may take
    is_cluster = False
    checkpoint: Checkpoint | None = None  # of one fit, which goes on where it was interrupted
    _stage = ""

    @property
    def stage(self) -> str:
        """What a fit is doing, for whoever shows its progress."""
        return self._stage

    @stage.setter
    def stage(self, stage: str) -> None:
        self._stage = stage
        note("fit", stage, engine=self.name)

    @abstractmethod
    def _apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Start ``function(*arguments)``, some of which are blocks or broadcast values."""

    @abstractmethod
    def _collect(self, blocks: Sequence[Any]) -> list[Any]:
        """The values of blocks, here."""

    @abstractmethod
    def broadcast(self, value: object) -> Any:
        """Send a value to all workers once; pass the result to ``map``."""

    @abstractmethod
    def exchange(
        self, values: ShardedValues, split: SplitFunction, merge: MergeFunction, n_values: int
    ) -> ShardedValues:
        """Send parts of values to other blocks: the shuffle.

        ``split(value, n_blocks)`` gives a list with a piece for each block;
        ``merge(pieces, block number, n_blocks)`` gives the values of that block, in order. Pieces
        come in the order of the values that they were cut from. There are ``n_values`` in all.
        """

    @abstractmethod
    def adopt(self, delayed: Sequence[Any]) -> ShardedValues:
        """What ``dask.delayed`` objects compute, as values."""

    def scatter(self, values: Iterable[Any], *, blocks: int | None = None) -> ShardedValues:
        """Give values to workers, each value a block of its own, or in so many ``blocks``."""
        values = list(values)
        bounds = block_bounds(len(values), len(values) if blocks is None else blocks)
        cut = [values[start:stop] for start, stop in pairwise(bounds)]
        return ShardedValues(tuple(self.broadcast(b) for b in cut), tuple(map(len, cut)))

    def map(
        self, function: Callable[..., Any], values: OneOrMore, *arguments: Any
    ) -> ShardedValues:
        """``function(value, *arguments)`` of each value; the results stay with the workers.

        Of a tuple of values with the same blocks: ``function(one, other, *arguments)``.
        """
        sizes = (values if isinstance(values, ShardedValues) else values[0]).sizes
        return ShardedValues(
            tuple(self._apply_all(_map_values, function, values, arguments)), sizes
        )

    def map_blocks(
        self, function: Callable[..., Any], values: OneOrMore, *arguments: Any
    ) -> ShardedValues:
        """``function(values of a block, *arguments)``: one result a block.

        How many there are depends on the workers: use it for sums that do not depend on the order.
        """
        blocks = self._apply_all(_map_block, function, values, arguments)
        return ShardedValues(tuple(blocks), (1,) * len(blocks))

    def _apply_all(
        self,
        how: Callable[..., Any],
        function: Callable[..., Any],
        values: ShardedValues | tuple[ShardedValues, ...],
        arguments: tuple[Any, ...],
    ) -> list[Any]:
        blocks = side_by_side(values)
        return [self._apply(how, function, len(block), *block, *arguments) for block in blocks]

    def reduce(self, values: ShardedValues, combine: Callable[[Any, Any], Any]) -> Any:
        """The values combined by a fixed binary tree over the order of shards; the value is here.

        ``combine`` may change its first argument if that is a result of ``map`` nobody else uses.
        """
        n, first, blocks = len(values), 0, []
        for block, size in zip(values.blocks, values.sizes, strict=True):
            blocks.append(self._apply(_block_nodes, block, first, n, combine))
            first += size
        while len(blocks) > 8:  # the last few are combined here: a task costs more than that
            pairs = [
                self._apply(_joined_nodes, *blocks[i : i + 2], n, combine)
                for i in range(0, len(blocks) - 1, 2)
            ]
            blocks = pairs + blocks[2 * len(pairs) :]
        nodes: Nodes = {}
        for part in self._collect(blocks):
            nodes |= part
        (root,) = tree_nodes(nodes, n, combine).values()
        return root

    @abstractmethod
    def gang(
        self, cls: type[Any], values: tuple[ShardedValues, ...], *arguments: Any
    ) -> AbstractContextManager[Gang]:
        """One ``cls(values of its share, ..., *arguments)`` in each process, at the same time."""

    def gather(self, values: ShardedValues) -> list[Any]:
        """Return all values to this process, in order."""
        return [value for block in self._collect(values.blocks) for value in block]

    @property
    def n_blocks(self) -> int:
        """How many blocks to cut shards into: one for each thread."""
        return min(MANY_SHARDS, self.threads)

    def fit(self, estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, **arguments: Any) -> Any:
        """``estimator.fit(X, y, **arguments)`` on this engine; a fit that fails leaves no task."""
        from rankwright.distributed.fitting import fit_shards

        try:
            self.prepare()
            # What the fit itself fits, it fits here.
            with active_engine(None), single_threaded_blas():
                return fit_shards(self, estimator, X, y, **arguments)
        except BaseException:
            self.cancel()
            raise

    def read(self, path: str | os.PathLike[str], roles: dict[str, Any]) -> tuple[Any, ...]:
        """All rows of files in this process: X, y, qid and sample_weight."""
        from rankwright.distributed.inputs import read_rows

        return read_rows(self, path, roles)

    def run(self, function: Callable[..., Any], jobs: Iterable[Any], *shared: Any) -> list[Any]:
        """``function(job, *shared)`` of independent jobs: their results, here, in order.

        A fit inside a job runs on its worker only. A job that fails leaves no task behind.
        """
        try:
            self.prepare()
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

    def refuse(self, estimator: BaseEstimator) -> None:
        """Raise a ParameterError: this way of training does not run on an engine."""
        from rankwright.distributed.fitting import fit_function

        fit_function(estimator)
        raise ParameterError(
            f"{type(estimator).__name__} on an engine supports only fit(X, y, qid=qid). Call other "
            "training methods outside of rankwright.engine(...)."
        )

    def prepare(self) -> None:  # noqa: B027
        """Look at the workers before the first task; a ClusterError says what is wrong."""

    def cancel(self) -> None:  # noqa: B027 (threads of this process end with the fit)
        """Cancel everything that was started."""

    def close(self) -> None:  # noqa: B027
        """End what the engine itself opened."""
