"""A kernel expansion that grows as rows are shown, block by block, with or without a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.parallel import map_blocks, n_threads, ranges
from rankwright.rankers.keeprank.base import Kept, Made, Visits, Walk
from rankwright.scoring.kernel import Kernel

AnyFloats = NDArray[Any]

BLOCK = 256  # visits evaluated together; the walk inside a block is serial
DOUBLE = 1024  # up to so many rows, float64


@dataclass
class Support:
    """Rows kept, in a table that grows, in the precision that suits their number.

    ``extend`` doubles the room when it is full, so that adding rows costs a constant each.
    """

    kernel: Kernel
    table: AnyFloats  # (room, n_features); the first n rows are used
    squares: AnyFloats
    n: int

    @classmethod
    def of(cls, kernel: Kernel, rows: FloatArray, most: int) -> Support:
        """A table that starts with these rows and may grow to ``most``."""
        dtype = np.float64 if most <= DOUBLE else np.float32
        support = cls(kernel, np.empty((0, rows.shape[1]), dtype), np.empty(0, dtype), 0)
        support.extend(rows)
        return support

    @classmethod
    def like(cls, other: Support, rows: AnyFloats) -> Support:
        """A table of these rows in the precision of another."""
        return cls(other.kernel, rows, np.einsum("ij,ij->i", rows, rows), len(rows))

    def extend(self, rows: FloatArray) -> None:
        stop = self.n + len(rows)
        if stop > len(self.table):
            room = max(stop, 2 * len(self.table), 2 * BLOCK)
            self.table = _grown(self.table, room, self.n)
            self.squares = _grown(self.squares, room, self.n)
        self.table[self.n : stop] = rows
        self.squares[self.n : stop] = np.einsum("ij,ij->i", rows, rows)
        self.n = stop

    def keep(self, places: NDArray[np.int64]) -> None:
        """Drop all rows but these."""
        self.table[: len(places)] = self.table[places]
        self.squares[: len(places)] = self.squares[places]
        self.n = len(places)

    def cast(self, rows: FloatArray) -> AnyFloats:
        return np.ascontiguousarray(rows, dtype=self.table.dtype)

    def block(self, rows: AnyFloats) -> AnyFloats:
        """The kernel of these rows with all rows of the table."""
        table = self.table[: self.n]
        if self.table.dtype == np.float64 or self.kernel.name != "rbf":
            return self.kernel.block(rows, table)
        from rankwright.rankers.keeprank import _kernels

        products = rows @ table.T
        left, right = np.einsum("ij,ij->i", rows, rows), self.squares[: self.n]
        gamma = np.float32(self.kernel.gamma)
        map_blocks(
            lambda part: _kernels.rbf_values(products, left, right, gamma, *part),
            ranges(len(rows), n_threads()),
        )
        return products

    def scores(self, rows: AnyFloats, coef: FloatArray) -> FloatArray:
        """sum_s coef_s K(row, s) for each row; the kernel values are not kept."""
        if not self.n:
            return np.zeros(len(rows))
        if self.table.dtype == np.float64 or self.kernel.name != "rbf":
            return np.asarray(self.block(rows) @ coef, dtype=np.float64)
        from rankwright.rankers.keeprank import _kernels

        products = rows @ self.table[: self.n].T
        left, right = np.einsum("ij,ij->i", rows, rows), self.squares[: self.n]
        weights, gamma = coef.astype(np.float32), np.float32(self.kernel.gamma)
        scores = np.zeros(len(rows))
        map_blocks(
            lambda part: _kernels.rbf_scores(products, left, right, weights, gamma, *part, scores),
            ranges(len(rows), n_threads()),
        )
        return scores


def _grown(array: AnyFloats, room: int, n: int) -> AnyFloats:
    larger = np.empty((room, *array.shape[1:]), array.dtype)
    larger[:n] = array[:n]
    return larger


class Expansion:
    """sum_s dual_s K(., s) over stored rows s: some from before, some of the rows now shown.

    A place is the number of a stored row. ``origin`` says where it came from (rows from before
    first, then the rows now shown), ``place_of`` where a row now shown is stored, or -1.
    """

    block_size = BLOCK

    def __init__(
        self,
        kernel: Kernel,
        before: FloatArray,
        dual: FloatArray,
        drift: FloatArray,
        rows: FloatArray,
        budget: int | None,
    ) -> None:
        most = len(before) + len(rows) if budget is None else budget + 2 * BLOCK
        self._support = Support.of(kernel, before, min(most, len(before) + len(rows)))
        self._before, self._rows, self._kernel = before, rows, kernel
        self._dual, self._drift = dual.copy(), drift.copy()
        self._origin: IntArray = np.arange(len(before), dtype=np.int64)
        self._place_of: IntArray = np.full(len(rows), -1, dtype=np.int64)
        self._budget = budget

    def show(self, members: IntArray, visits: Visits, walk: Walk) -> Made:
        """Show the visits of one block; ``members`` are its rows among the rows now shown."""
        rows = self._support.cast(self._rows[members])
        among = Support.like(self._support, rows)
        gram = np.asarray(among.block(rows), dtype=np.float64)
        first = visits.upper[0]
        walk.unit = walk.unit or float(gram[first, first]) or 1.0
        if self._budget is None:
            made = walk.show(gram, visits, self._support.scores(rows, self._dual))
            self._add(members, made)
            return made
        return self._show_within_budget(members, rows, gram, visits, walk)

    def kept(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The stored rows, their coefficients, and the sums behind the means of these."""
        old = self._origin < len(self._before)
        table = np.empty((len(self._origin), self._rows.shape[1]))
        table[old] = self._before[self._origin[old]]
        table[~old] = self._rows[self._origin[~old] - len(self._before)]
        return table, self._dual, self._drift

    def _add(self, members: IntArray, made: Made) -> None:
        new = (made.steps != 0) & (self._place_of[members] < 0)
        self._store(members[new])
        moved = made.steps != 0
        places = self._place_of[members[moved]]
        self._dual[places] += made.steps[moved]
        self._drift[places] += made.lags[moved]

    def _store(self, members: IntArray) -> None:
        self._place_of[members] = self._support.n + np.arange(len(members))
        self._support.extend(self._rows[members])
        self._origin = np.concatenate([self._origin, len(self._before) + members])
        self._dual = np.concatenate([self._dual, np.zeros(len(members))])
        self._drift = np.concatenate([self._drift, np.zeros(len(members))])

    def _show_within_budget(
        self, members: IntArray, rows: FloatArray, gram: FloatArray, visits: Visits, walk: Walk
    ) -> Made:
        """Rows of the block are stored at first; what has no coefficient at the end is dropped."""
        scores = self._support.scores(rows, self._dual)
        self._store(members[self._place_of[members] < 0])
        stored = self._support.table[: self._support.n]
        kept = Kept(
            self._place_of[members],
            self._dual,
            self._drift,
            np.sqrt(np.maximum(self._kernel.diagonal(stored), 0.0)).astype(np.float64),
            np.asarray(self._support.block(rows), dtype=np.float64),
            int(self._budget or 0),
        )
        made = walk.show(gram, visits, scores, kept)
        self._drop(np.flatnonzero(self._dual != 0))
        return made

    def _drop(self, alive: IntArray) -> None:
        """Forget all places but these."""
        if len(alive) == len(self._dual):
            return
        self._support.keep(alive)
        self._origin = self._origin[alive]
        self._dual, self._drift = self._dual[alive], self._drift[alive]
        self._place_of[:] = -1
        now = self._origin >= len(self._before)
        self._place_of[self._origin[now] - len(self._before)] = np.flatnonzero(now)
