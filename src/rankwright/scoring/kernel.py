"""Sums of kernels around the training rows that matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.scoring.base import Matrix, RowMap, Scorer, State, must


@dataclass(frozen=True, eq=False)
class Kernel(State):
    """A kernel function of two rows.

    ``linear``  a . b
    ``poly``    (gamma a . b + coef0) ** degree
    ``rbf``     exp(-gamma |a - b|^2)

    >>> a = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> Kernel("poly", gamma=1.0, degree=2, coef0=1.0).block(a, a)
    array([[ 4.,  1.],
           [ 1., 25.]])
    """

    kind: ClassVar[str] = "kernel_function"
    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def __post_init__(self) -> None:
        must(self.name in ("linear", "poly", "rbf"), "the kernel is linear, poly or rbf")
        must(np.isfinite(self.gamma) and self.gamma > 0, "gamma must be > 0")
        must(isinstance(self.degree, int) and 1 <= self.degree <= 100, "degree must be 1 .. 100")
        must(np.isfinite(self.coef0), "coef0 must be finite")

    def block(self, A: Matrix, B: Matrix) -> FloatArray:
        """The kernel of every row of A with every row of B."""
        products = A @ B.T
        values = np.asarray(products.toarray() if hasattr(products, "toarray") else products)
        if self.name == "linear":
            return values
        if self.name == "poly":
            values *= self.gamma
            values += self.coef0
            return np.asarray(values**self.degree)
        values *= -2.0
        values += _squares(A)[:, None]
        values += _squares(B)[None, :]
        np.maximum(values, 0.0, out=values)  # rounding can make a distance negative
        values *= -self.gamma
        return np.asarray(np.exp(values, out=values))

    def diagonal(self, A: Matrix) -> FloatArray:
        """The kernel of each row with itself."""
        if self.name == "rbf":
            return np.ones(A.shape[0])
        squares = _squares(A)
        if self.name == "linear":
            return squares
        return np.asarray((self.gamma * squares + self.coef0) ** self.degree)


@dataclass(frozen=True, eq=False)
class KernelExpansion(Scorer):
    """score(x) = sum over support rows s of coef_s K(x, s), plus an intercept."""

    kind: ClassVar[str] = "kernel"
    kernel: Kernel
    support: FloatArray
    coef: FloatArray
    intercept: float = 0.0

    def __post_init__(self) -> None:
        must(isinstance(self.kernel, Kernel), "a kernel expansion needs a kernel")
        must(self.support.ndim == 2 and self.coef.ndim == 1, "support is a table, coef a row")
        must(len(self.support) == len(self.coef), "one coefficient per support row")
        must(np.isfinite(self.support).all(), "support rows must be finite")
        must(np.isfinite(self.coef).all(), "coefficients must be finite")
        must(np.isfinite(self.intercept), "intercept must be finite")

    @property
    def n_features(self) -> int:
        return int(self.support.shape[1])

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.empty(X.shape[0])
        for rows in row_blocks(X.shape[0], len(self.support)):
            scores[rows] = self.kernel.block(X[rows], self.support) @ self.coef
        return scores + self.intercept


@dataclass(frozen=True, eq=False)
class KernelValues(RowMap):
    """Rows mapped to their kernel with each support row, for many expansions over one support.

    >>> KernelValues(Kernel("linear"), np.array([[1.0, 2.0]])).transform(np.array([[3.0, 1.0]]))
    array([[5.]])
    """

    kind: ClassVar[str] = "kernel_values"
    kernel: Kernel
    support: FloatArray

    def __post_init__(self) -> None:
        must(isinstance(self.kernel, Kernel), "kernel values need a kernel")
        must(self.support.ndim == 2, "support is a table")
        must(np.isfinite(self.support).all(), "support rows must be finite")

    @property
    def n_features(self) -> int:
        return int(self.support.shape[1])

    @property
    def n_outputs(self) -> int:
        return len(self.support)

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        return self.kernel.block(X, self.support)


def row_blocks(n_rows: int, width: int, values: int = 1 << 22) -> list[slice]:
    """Slices of rows whose (rows x width) blocks hold at most so many values (32 MB)."""
    step = max(1, values // max(width, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _squares(A: Any) -> FloatArray:
    if isinstance(A, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", A, A))
    return np.asarray(A.multiply(A).sum(axis=1), dtype=np.float64).ravel()
