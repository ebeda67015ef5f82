"""Types that many signatures use."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class SparseMatrix(Protocol):
    """A sparse matrix or array of SciPy, as far as this package uses one."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    data: FloatArray
    indices: NDArray[Any]
    indptr: NDArray[Any]
    nnz: int

    has_sorted_indices: bool
    has_canonical_format: bool

    @property
    def T(self) -> SparseMatrix: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __rmatmul__(self, other: Any) -> Any: ...
    def astype(self, dtype: DTypeLike) -> SparseMatrix: ...
    def copy(self) -> SparseMatrix: ...
    def multiply(self, other: ArrayLike) -> SparseMatrix: ...
    def power(self, n: int) -> SparseMatrix: ...
    def sort_indices(self) -> None: ...
    def sum_duplicates(self) -> None: ...
    def toarray(self) -> FloatArray: ...
    def tocoo(self) -> SparseMatrix: ...
    def tocsc(self) -> SparseMatrix: ...
    def tocsr(self) -> SparseMatrix: ...


class DataFrame(Protocol):
    """A data frame of pandas, polars or another library that narwhals reads."""

    @property
    def columns(self) -> Any: ...


Matrix: TypeAlias = FloatArray | SparseMatrix  # rows that have been checked
MatrixLike: TypeAlias = ArrayLike | SparseMatrix | DataFrame  # rows as users give them
TableLike: TypeAlias = DataFrame | Mapping[str, Any] | Sequence[Mapping[str, Any]]  # named columns
FilePath: TypeAlias = str | PathLike[str]
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
Id: TypeAlias = Hashable  # of a user, an item, a query or a document
Column: TypeAlias = ArrayLike | Sequence[object]  # one value per row, also a data frame's
