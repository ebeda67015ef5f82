"""Rows that arrive in blocks become one matrix, dense or sparse, without a second copy of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import DataError

__all__ = ["Block", "Growing", "Matrix", "wants_dense"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

SMALL = 2**20  # cells; below that a dense matrix costs nothing worth saving
DENSITY = 0.25


@dataclass
class Block:
    """The rows of some lines, as flat arrays.

    labels    (n_rows,) float64
    counts    (n_rows,) int64, features written in each row
    indices   (n_values,) int32, columns from 0, ascending in a row
    values    (n_values,) float64
    qids      the query id of each run of rows with the same one (empty if lines have none)
    runs      how many rows each of those runs has
    docids    the id of each row, or None
    comments  the comment of each row, or None
    """

    labels: FloatArray
    counts: IntArray
    indices: NDArray[np.int32]
    values: FloatArray
    qids: list[bytes] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    docids: list[str | None] = field(default_factory=list)
    comments: list[str | None] = field(default_factory=list)


class Growing:
    """A one-dimensional array that grows without a second copy of itself.

    Its first room is a guess of all that is to come: pages of zeros cost nothing until they are
    written. Should the guess be too small, the array is resized where it stands.
    """

    def __init__(self, dtype: Any) -> None:
        self._array: NDArray[Any] = np.zeros(0, dtype)
        self.size = 0

    def reserve(self, n_more: int, share: float | None) -> None:
        """Make room; ``share`` is how much of all that is to come will then be there, if known."""
        needed = self.size + n_more
        if needed <= len(self._array):
            return
        total = max(needed, int(needed / share * 1.02) if share else 0)
        more = needed + needed // 2
        if len(self._array) > 0:
            self._array.resize(min(total, more) if share else more, refcheck=False)
            return
        try:
            self._array = np.zeros(total if share else more, self._array.dtype)
        except MemoryError:  # of the guess, perhaps not of what is needed
            self._array = np.zeros(needed, self._array.dtype)

    def append(self, values: NDArray[Any], share: float | None = None) -> None:
        self.reserve(len(values), share)
        self._array[self.size : self.size + len(values)] = values
        self.size += len(values)

    def extend_zeros(self, n: int, share: float | None) -> NDArray[Any]:
        """Add ``n`` zeros and return a view of them."""
        self.reserve(n, share)
        self.size += n
        return self._array[self.size - n : self.size]

    def view(self) -> NDArray[Any]:
        return self._array[: self.size]

    def finish(self) -> NDArray[Any]:
        """The array, cut to its size; nothing can be added after that."""
        array, self._array = self._array, np.zeros(0, self._array.dtype)
        array.resize(self.size, refcheck=False)
        return array


def wants_dense(n_rows: int, n_columns: int, n_written: int, density: float = DENSITY) -> bool:
    """Whether a matrix is better dense: it is small, or enough of its cells stand in the file."""
    cells = n_rows * n_columns
    return cells <= SMALL or n_written >= density * cells


class Matrix:
    """Collects blocks as a dense matrix or as CSR, and changes over when the other fits better.

    Parameters
    ----------
    dense : bool or None
        The layout; None chooses it by :func:`wants_dense`, which depends on the whole file only.
    n_features : int or None
        The number of columns; None takes the largest seen.
    """

    def __init__(self, dense: bool | None, n_features: int | None) -> None:
        self._choice, self._fixed = dense, n_features
        self._cells: _Dense | _Sparse = _Sparse() if dense is False else _Dense()
        self.n_columns = n_features or 0
        self.n_rows = self.n_written = 0

    def add(self, block: Block, share: float | None) -> None:
        """Append the rows of a block; ``share`` is how much of the file has then been read."""
        self.n_rows += len(block.counts)
        self.n_written += len(block.values)
        if not self._fixed and len(block.values):
            self.n_columns = max(self.n_columns, int(block.indices.max()) + 1)
        self._choose_layout()
        self._cells.add(block, self.n_columns, share)

    def finish(self) -> Any:
        """The matrix: a NumPy array or a SciPy CSR array."""
        if (
            isinstance(self._cells, _Sparse)
            and self._choice is None
            and wants_dense(self.n_rows, self.n_columns, self.n_written)
        ):
            self._cells = self._cells.to_dense(self.n_columns)
        return self._cells.finish(self.n_columns)

    def _choose_layout(self) -> None:
        if self._choice is not None:
            return
        size = self.n_rows, self.n_columns, self.n_written
        if isinstance(self._cells, _Dense):
            if not wants_dense(*size):
                self._cells = self._cells.to_sparse()
        # Twice the density, so that a file near the limit does not change over at every block.
        elif wants_dense(*size, 2 * DENSITY):
            self._cells = self._cells.to_dense(self.n_columns)


class _Dense:
    """Rows of a dense matrix."""

    def __init__(self, width: int = 0) -> None:
        self.n_rows, self.width, self.cells = 0, width, Growing(np.float64)

    def add(self, block: Block, width: int, share: float | None) -> None:
        try:
            self._widen(width)
            cells = self.cells.extend_zeros(len(block.counts) * width, share)
        except (MemoryError, ValueError, OverflowError):
            raise DataError(
                f"{self.n_rows + len(block.counts):,} rows of {width:,} features do not fit into "
                "memory as a dense matrix. Read the file with dense=False."
            ) from None
        self.n_rows += len(block.counts)
        _scatter(cells, block.counts, block.indices, block.values, width)

    def _widen(self, width: int) -> None:
        if width == self.width:
            return
        cells = Growing(np.float64)
        wide = cells.extend_zeros(self.n_rows * width, None).reshape(self.n_rows, width)
        wide[:, : self.width] = self.cells.view().reshape(self.n_rows, self.width)
        self.cells, self.width = cells, width

    def to_sparse(self) -> _Sparse:
        matrix = self.cells.view().reshape(self.n_rows, self.width)
        rows, columns = np.nonzero(matrix)
        sparse = _Sparse()
        sparse.data.append(matrix[rows, columns])
        sparse.indices.append(columns.astype(np.int32))
        sparse.counts.append(np.bincount(rows, minlength=self.n_rows))
        return sparse

    def finish(self, width: int) -> Any:
        self._widen(width)
        return self.cells.finish().reshape(self.n_rows, width)


class _Sparse:
    """Rows of a CSR matrix, without the zeros a file may write out."""

    def __init__(self) -> None:
        self.data, self.indices = Growing(np.float64), Growing(np.int32)
        self.counts = Growing(np.int64)

    def add(self, block: Block, width: int, share: float | None) -> None:
        keep = block.values != 0
        self.data.append(block.values[keep], share)
        self.indices.append(block.indices[keep], share)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
        ends = np.cumsum(block.counts)
        self.counts.append(before[ends] - before[ends - block.counts], share)

    def to_dense(self, width: int) -> _Dense:
        dense, counts = _Dense(width), self.counts.view()
        dense.n_rows = len(counts)
        cells = dense.cells.extend_zeros(len(counts) * width, None)
        _scatter(cells, counts, self.indices.view(), self.data.view(), width)
        return dense

    def finish(self, width: int) -> Any:
        from scipy.sparse import csr_array

        counts = self.counts.finish()
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        if self.data.size < 2**31:
            ends = ends.astype(np.int32)
        parts = self.data.finish(), self.indices.finish(), ends
        matrix = csr_array(parts, shape=(len(counts), width), copy=False)
        matrix.has_canonical_format = True
        return matrix


def _scatter(
    cells: FloatArray, counts: IntArray, indices: NDArray[Any], values: FloatArray, width: int
) -> None:
    """Write the values of some rows into their cells, which are zero before."""
    if len(values) == len(cells):  # ascending indices below width: every cell is written
        cells[:] = values
        return
    start = np.repeat(np.arange(len(counts), dtype=np.int64) * width, counts)
    start += indices
    cells[start] = values
