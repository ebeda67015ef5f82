"""Kernel functions, and scorers that are sums of kernels around support rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.scoring.base import Matrix, RowMap, Scorer, State, in_blocks, product


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
        self._check_name("name", "linear", "poly", "rbf")
        self._check_arrays()
        self._check(self.gamma > 0, f"gamma is {self.gamma:g}; it must be > 0")
        self._check(isinstance(self.degree, int), f"degree {self.degree!r} is not an integer")
        self._check_range("degree", 1, 100)

    def block(self, A: Matrix, B: Matrix) -> FloatArray:
        """The kernel of every row of A with every row of B."""
        products = product(A, B.T)
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
    _width: ClassVar[str] = "support"

    def __post_init__(self) -> None:
        self._check_arrays(support=("n_support", "n_features"), coef=("n_support",))

    def decision_function(self, X: Matrix) -> FloatArray:
        def block(rows: Matrix) -> FloatArray:
            return np.asarray(self.kernel.block(rows, self.support) @ self.coef)

        return in_blocks(block, X, len(self.support)) + self.intercept


@dataclass(frozen=True, eq=False)
class KernelValues(RowMap):
    """Map rows to their kernel values with each support row, shared by several expansions.

    >>> KernelValues(Kernel("linear"), np.array([[1.0, 2.0]])).transform(np.array([[3.0, 1.0]]))
    array([[5.]])
    """

    kind: ClassVar[str] = "kernel_values"
    kernel: Kernel
    support: FloatArray
    _width: ClassVar[str] = "support"

    def __post_init__(self) -> None:
        self._check_arrays(support=("n_support", "n_features"))

    @property
    def n_outputs(self) -> int:
        return len(self.support)

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        return self.kernel.block(X, self.support)


def _squares(A: Matrix) -> FloatArray:
    if isinstance(A, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", A, A))
    return np.asarray(A.multiply(A).sum(axis=1), dtype=np.float64).ravel()
