"""Kernel values of a block of rows against many: the costly part, done by matrix products.

Against up to DOUBLE rows everything is float64. Beyond that single precision is used (products by
BLAS, the exponential fused with the sum): about twice to four times as fast, and exact to about
1e-6 of sum |coef| K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.parallel import map_blocks, n_threads, ranges
from rankwright.scoring import Kernel

__all__ = ["BLOCK", "DOUBLE", "Support"]

FloatArray = NDArray[np.float64]
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
        from rankwright.rankers.relaxation import _kernels

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
        from rankwright.rankers.relaxation import _kernels

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
