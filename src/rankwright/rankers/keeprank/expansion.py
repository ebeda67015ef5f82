"""A kernel expansion that grows block by block, with or without a budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers.keeprank.base import Relaxation, RowsAndPairs, Stored
from rankwright.runtime import map_blocks, n_threads, ranges
from rankwright.scoring.kernel import Kernel

AnyFloats = NDArray[Any]

BLOCK = 256  # examples scored together; the pass inside a block is serial
LARGEST_SINGLE = 1e37  # squared length up to which products of rows stay in single precision
MOST_DOUBLE = 1024  # rows up to which Gaussian kernels are computed in double precision


class SupportTable:
    """Support rows in a table that grows; many rows of a Gaussian kernel in single precision.

    The capacity doubles when the table is full, so that adding a row costs constant time.
    """

    def __init__(self, kernel: Kernel, table: AnyFloats) -> None:
        self._kernel, self._table, self.n = kernel, table, len(table)
        self._squares: AnyFloats = np.einsum("ij,ij->i", table, table)

    @classmethod
    def of(cls, kernel: Kernel, rows: FloatArray, most: int, more: FloatArray) -> SupportTable:
        """A table that starts with these rows and may grow to ``most``, by rows out of ``more``."""
        single = kernel.name == "rbf" and most > MOST_DOUBLE
        single = single and max(_largest_square(rows), _largest_square(more)) < LARGEST_SINGLE
        dtype = np.float32 if single else np.float64
        table = cls(kernel, np.empty((0, rows.shape[1]), dtype))
        table.extend(rows)
        return table

    @property
    def rows(self) -> AnyFloats:
        return self._table[: self.n]

    def extend(self, rows: FloatArray) -> None:
        stop = self.n + len(rows)
        if stop > len(self._table):
            capacity = max(stop, 2 * len(self._table), 2 * BLOCK)
            self._table = _enlarged(self._table, capacity, self.n)
            self._squares = _enlarged(self._squares, capacity, self.n)
        self._table[self.n : stop] = rows
        self._squares[self.n : stop] = np.einsum("ij,ij->i", rows, rows)
        self.n = stop

    def keep(self, index: IntArray) -> None:
        """Drop all rows but these."""
        self._table[: len(index)] = self._table[index]
        self._squares[: len(index)] = self._squares[index]
        self.n = len(index)

    def cast(self, rows: FloatArray) -> AnyFloats:
        return np.ascontiguousarray(rows, dtype=self._table.dtype)

    def kernel_with(self, rows: AnyFloats) -> AnyFloats:
        """The kernel of these rows with all rows of the table."""
        if self._table.dtype != np.float32:
            return self._kernel.block(rows, self.rows)
        from rankwright.rankers.keeprank import _kernels

        products, *norms, gamma = self._products(rows)
        map_blocks(
            lambda part: _kernels.rbf_values(products, *norms, gamma, *part),
            ranges(len(rows), n_threads()),
        )
        return products

    def scores(self, rows: AnyFloats, coef: FloatArray) -> FloatArray:
        """sum_s coef_s K(row, s) for each row, without keeping the kernel values."""
        if not self.n:
            return np.zeros(len(rows))
        if self._table.dtype != np.float32:
            return np.asarray(self.kernel_with(rows) @ coef, dtype=np.float64)
        from rankwright.rankers.keeprank import _kernels

        products, *norms, gamma = self._products(rows)
        weights, scores = coef.astype(np.float32), np.zeros(len(rows))
        map_blocks(
            lambda part: _kernels.rbf_scores(products, *norms, weights, gamma, *part, scores),
            ranges(len(rows), n_threads()),
        )
        return scores

    def sizes(self) -> FloatArray:
        """sqrt K(s, s) of every row of the table."""
        return np.sqrt(np.maximum(self._kernel.diagonal(self.rows), 0.0)).astype(np.float64)

    def _products(self, rows: AnyFloats) -> tuple[AnyFloats, AnyFloats, AnyFloats, np.float32]:
        """Products of rows and table, squared lengths of both, gamma: all single precision."""
        squares = np.einsum("ij,ij->i", rows, rows)
        gamma = np.float32(self._kernel.gamma)
        return rows @ self.rows.T, squares, self._squares[: self.n], gamma


def _largest_square(rows: FloatArray) -> float:
    return float(np.einsum("ij,ij->i", rows, rows).max(initial=0.0))


def _enlarged(array: AnyFloats, capacity: int, n: int) -> AnyFloats:
    larger = np.empty((capacity, *array.shape[1:]), array.dtype)
    larger[:n] = array[:n]
    return larger


class Expansion:
    """sum_s dual_s K(., s) over stored rows s: some old ones, some of the rows of this call.

    ``_origin`` numbers the stored rows by where they come from (old rows first, then the rows of
    this call); ``_index`` is where a row of this call is stored, or -1.
    """

    def __init__(
        self,
        kernel: Kernel,
        old: tuple[FloatArray, FloatArray, FloatArray],
        rows: FloatArray,
        budget: int | None,
    ) -> None:
        self._old, dual, drift = old
        n = len(self._old) + len(rows)
        most = n if budget is None else min(budget + 2 * BLOCK, n)
        self._table = SupportTable.of(kernel, self._old, most, rows)
        self._kernel, self._rows, self._budget = kernel, rows, budget
        self._dual, self._drift = dual.copy(), drift.copy()
        self._origin: IntArray = np.arange(len(self._old), dtype=np.int64)
        self._index: IntArray = np.full(len(rows), -1, dtype=np.int64)

    def learn(
        self,
        members: IntArray,
        examples: RowsAndPairs,
        relaxation: Relaxation,
        settings: tuple[float, float],
    ) -> None:
        """Learn from one block of examples; ``members`` are its rows among those of this call."""
        rows = self._table.cast(self._rows[members])
        gram = np.asarray(SupportTable(self._kernel, rows).kernel_with(rows), dtype=np.float64)
        scores = self._table.scores(rows, self._dual)
        if self._budget is None:
            steps, lags = relaxation.learn(gram, examples, scores, settings)
            moved = steps != 0
            self._store(members[moved])
            index = self._index[members[moved]]
            self._dual[index] += steps[moved]
            self._drift[index] += lags[moved]
            return
        self._store(members)
        stored = Stored(
            self._index[members],
            self._dual,
            self._drift,
            self._table.sizes(),
            np.asarray(self._table.kernel_with(rows), dtype=np.float64),
            int(self._budget),
        )
        relaxation.learn(gram, examples, scores, settings, stored)
        self._keep(np.flatnonzero(self._dual != 0))

    def state(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Copies of the stored rows, their coefficients, and the sums behind their means."""
        is_old = self._origin < len(self._old)
        rows = np.empty((len(self._origin), self._rows.shape[1]))
        rows[is_old] = self._old[self._origin[is_old]]
        rows[~is_old] = self._rows[self._origin[~is_old] - len(self._old)]
        return rows, self._dual.copy(), self._drift.copy()

    def _store(self, members: IntArray) -> None:
        """Store those of these rows that are not stored yet, with coefficient zero."""
        new = members[self._index[members] < 0]
        self._index[new] = self._table.n + np.arange(len(new))
        self._table.extend(self._rows[new])
        self._origin = np.concatenate([self._origin, len(self._old) + new])
        self._dual = np.concatenate([self._dual, np.zeros(len(new))])
        self._drift = np.concatenate([self._drift, np.zeros(len(new))])

    def _keep(self, index: IntArray) -> None:
        """Drop all stored rows but these."""
        if len(index) == len(self._dual):
            return
        self._table.keep(index)
        self._origin = self._origin[index]
        self._dual, self._drift = self._dual[index], self._drift[index]
        self._index[:] = -1
        is_new = self._origin >= len(self._old)
        self._index[self._origin[is_new] - len(self._old)] = np.flatnonzero(is_new)
