"""Which kernel a ranker uses, from its parameters; Gram matrices of training rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankwright.exceptions import DataError
from rankwright.rankers import rules
from rankwright.scoring import Kernel, KernelExpansion, KernelValues, Linear, RowMap, Scorer

__all__ = ["KERNEL_RULES", "FunctionExpansion", "FunctionValues", "Gram", "dense", "resolve_gamma"]

FloatArray = NDArray[np.float64]
KernelFunction = Callable[[Any, Any], FloatArray]

# Shared by every ranker with a kernel: parameters of the same name and meaning as scikit-learn's.
KERNEL_RULES: dict[str, rules.Rule] = {
    "kernel": rules.either(
        rules.one_of("linear", "poly", "rbf", "precomputed"), rules.a_function()
    ),
    "gamma": rules.either(rules.one_of("scale", "auto"), rules.positive()),
    "degree": rules.at_least(1),
    "coef0": rules.number(),
}


def resolve_gamma(gamma: float | str, X: Any, weight: FloatArray | None = None) -> float:
    """``"scale"`` is 1 / (n_features * variance of X), ``"auto"`` is 1 / n_features.

    A row of weight 2 counts as two rows in the variance.
    """
    if not isinstance(gamma, str):
        return float(gamma)
    spread = _variance(X, weight) if gamma == "scale" else 1.0
    width = 1.0 / (int(X.shape[1]) * spread)
    if not width > 0:
        raise DataError(
            "the features are too large to be squared in double precision: scale them, for "
            "instance with sklearn.preprocessing.StandardScaler."
        )
    return width


def _variance(X: Any, weight: FloatArray | None) -> float:
    """The variance of all entries; 1 where they are all the same."""
    share = np.ones(X.shape[0]) if weight is None or not weight.any() else weight
    share = share / (share.sum() * X.shape[1])
    mean = float(np.sum(share @ X))
    # Squares around the mean: those around zero would lose all digits far from it.
    if sparse.issparse(X):
        stored = np.diff(X.indptr)
        with np.errstate(over="ignore"):  # resolve_gamma speaks of it
            spread = float(np.repeat(share, stored) @ np.square(X.data - mean))
        spread += float(share @ (X.shape[1] - stored)) * mean * mean
    else:
        spread = float(np.einsum("i,ij,ij->", share, X - mean, X - mean))
    # One value everywhere leaves the rounding error of the mean, no scale.
    return 1.0 if spread == 0 or math.sqrt(spread) < 1e-12 * abs(mean) else spread


def dense(X: Any) -> FloatArray:
    """The rows as a plain array."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


@dataclass(frozen=True)
class Gram:
    """The kernel of one ranker: a named kernel, a function, or numbers computed beforehand.

    ``precomputed`` means that X holds kernel values: at training (n_items, n_items), later
    (n_rows, n_items).

    >>> gram = Gram.of("rbf", gamma=0.5)
    >>> gram.block(np.array([[0.0], [1.0]]), np.array([[1.0]])).round(4)
    array([[0.6065],
           [1.    ]])
    """

    kernel: Kernel | KernelFunction | None  # None is precomputed

    PRECOMPUTED: ClassVar[str] = "precomputed"

    @classmethod
    def of(
        cls,
        kernel: str | KernelFunction,
        X: Any = None,
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
    ) -> Gram:
        """The kernel that these parameters describe; X is asked only for ``gamma`` by name."""
        if callable(kernel):
            return cls(kernel)
        if kernel == cls.PRECOMPUTED:
            return cls(None)
        width = 1.0 if kernel == "linear" else resolve_gamma(gamma, X)
        return cls(Kernel(kernel, gamma=width, degree=int(degree), coef0=float(coef0)))

    @property
    def is_precomputed(self) -> bool:
        return self.kernel is None

    def block(self, A: Any, B: Any) -> FloatArray:
        """The kernel of every row of A with every row of B."""
        if self.kernel is None:
            raise DataError("a precomputed kernel has no rows to compute it from.")
        if isinstance(self.kernel, Kernel):
            return self.kernel.block(A, B)
        values = np.asarray(self.kernel(A, B), dtype=np.float64)
        if values.shape != (A.shape[0], B.shape[0]):
            raise DataError(
                f"the kernel function gave shape {values.shape} for {A.shape[0]} x {B.shape[0]} "
                "rows. It takes two tables of rows and gives one value per pair of rows."
            )
        return values

    def square(self, X: Any) -> FloatArray:
        """The kernel of the training rows with each other."""
        if self.kernel is not None:
            return self.block(X, X)
        if X.shape[0] != X.shape[1]:
            raise DataError(
                f"kernel='precomputed' needs a square X at training, found {X.shape}: "
                "X[i, j] is the kernel of rows i and j."
            )
        return dense(X)

    def diagonal(self, X: Any) -> FloatArray:
        """The kernel of each training row with itself."""
        if self.kernel is None:
            return np.asarray(X.diagonal(), dtype=np.float64)
        if isinstance(self.kernel, Kernel):
            return self.kernel.diagonal(X)
        return np.concatenate(
            [self.block(X[i : i + 1], X[i : i + 1])[0] for i in range(X.shape[0])]
        )

    def expansion(
        self,
        support: FloatArray,
        rows: NDArray[np.int64],
        coef: FloatArray,
        n_features: int,
        intercept: float = 0.0,
    ) -> Scorer:
        """The scorer sum_s coef_s K(., support_s); ``rows`` are the support's training rows."""
        if self.kernel is None:
            weights = np.zeros(n_features)
            np.add.at(weights, rows, coef)
            return Linear(weights, intercept)
        if isinstance(self.kernel, Kernel):
            return KernelExpansion(self.kernel, support, coef, intercept)
        return FunctionExpansion(self.kernel, support, coef, intercept)

    def values_with(self, support: FloatArray) -> RowMap | None:
        """The map from rows to their kernels with the support; None where rows are kernels."""
        if self.kernel is None:
            return None
        if isinstance(self.kernel, Kernel):
            return KernelValues(self.kernel, support)
        return FunctionValues(self.kernel, support)


@dataclass(frozen=True, eq=False)
class FunctionExpansion(Scorer):
    """A kernel expansion over a Python function: it scores here, it cannot be saved to a file."""

    kind: ClassVar[str] = "function"
    function: KernelFunction
    support: FloatArray
    coef: FloatArray
    intercept: float = 0.0

    @property
    def n_features(self) -> int:
        return int(self.support.shape[1])

    def decision_function(self, X: Any) -> FloatArray:
        scores = self.function(X, self.support) @ self.coef + self.intercept
        return np.asarray(scores, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FunctionValues(RowMap):
    """Kernel values by a Python function: they serve here, they cannot be saved to a file."""

    kind: ClassVar[str] = "function_values"
    function: KernelFunction
    support: FloatArray

    @property
    def n_features(self) -> int:
        return int(self.support.shape[1])

    @property
    def n_outputs(self) -> int:
        return len(self.support)

    def transform(self, X: Any, queries: Any = None) -> FloatArray:
        if len(self.support) == 0:
            return np.zeros((X.shape[0], 0))
        return np.asarray(self.function(X, self.support), dtype=np.float64)
