"""Kernels, and Nystroem features: rows represented by their kernel with a few landmark rows.

``DrawnLandmarks`` are random, their features computed on demand in bounded memory.
``PickedLandmarks`` are picked greedily, always the row that is represented worst so far (pivoted
Cholesky): better features from as few landmarks, kept in memory, exact with all independent rows.
``StreamedLandmarks`` are added row by row, where the landmarks so far do not represent a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike, SparseMatrix
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError, MemoryLimitError
from rankwright.rankers import schema
from rankwright.runtime import require_memory
from rankwright.scoring.base import RowMap, Scorer, row_blocks
from rankwright.scoring.kernel import Kernel, KernelExpansion, KernelValues
from rankwright.scoring.linear import Linear

KernelFunction = Callable[[Any, Any], FloatArray]

MOST_ZEROS = 2**27  # values of a dense copy of sparse rows: a gigabyte
TOLERANCE = 1e-10  # of a row's squared length that may be left unrepresented
BLOCK = 256  # rows of a stream whose kernels with the landmarks are computed at once

# Shared by every ranker with a kernel: parameters of the same name and meaning as scikit-learn's.
KERNEL_CONSTRAINTS: dict[str, schema.Constraint] = {
    "kernel": schema.either(
        schema.one_of("linear", "poly", "rbf", "precomputed"), schema.function()
    ),
    "gamma": schema.either(schema.one_of("scale", "auto"), schema.positive()),
    "degree": schema.at_least(1),
    "coef0": schema.number(),
}


def resolve_gamma(gamma: float | str, X: Matrix, weight: FloatArray | None = None) -> float:
    """``"scale"`` is 1 / (n_features * weighted variance of X), ``"auto"`` is 1 / n_features."""
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
        with np.errstate(over="ignore"):  # resolve_gamma reports it
            spread = float(np.repeat(share, stored) @ np.square(X.data - mean))
        spread += float(share @ (X.shape[1] - stored)) * mean * mean
    else:
        spread = float(np.einsum("i,ij,ij->", share, X - mean, X - mean))
    # One value everywhere leaves the rounding error of the mean, no scale.
    return 1.0 if spread == 0 or math.sqrt(spread) < 1e-12 * abs(mean) else spread


def check_dense_size(n_rows: int, X: SparseMatrix) -> None:
    """Raise a MemoryLimitError if ``n_rows`` dense rows as wide as X are too large.

    More than a gigabyte that is nearly all zeros is too large on any machine: such a model would
    be as large, and slow.
    """
    values = float(n_rows) * X.shape[1]
    what = f"a dense copy of {n_rows:,} sparse rows of {X.shape[1]:,} columns"
    advice = (
        "Drop columns without values, X[:, np.unique(X.indices)], reduce them, for example with "
        "sklearn.decomposition.TruncatedSVD, or use a ranker that keeps rows sparse: RankSVM() or "
        "MPRank() with the linear kernel, PRank."
    )
    if values > MOST_ZEROS and X.nnz < 0.01 * X.shape[0] * X.shape[1]:
        share = 100.0 * X.nnz / (float(X.shape[0]) * X.shape[1])
        raise MemoryLimitError(
            f"{what} takes {8.0 * values / 2**30:.1f} GiB, and {100.0 - share:.4g} % of X is not "
            f"stored. {advice}"
        )
    require_memory(8.0 * values, what, advice)


def dense(X: Any) -> FloatArray:
    """The rows as a plain array."""
    if sparse.issparse(X):
        check_dense_size(X.shape[0], X)
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


@dataclass(frozen=True)
class Gram:
    """The kernel of one ranker: a named kernel, a function, or precomputed values.

    ``precomputed`` means that X holds kernel values: at training (n_items, n_items), later
    (n_rows, n_items).

    >>> gram = Gram.of("rbf", gamma=0.5)
    >>> gram.block(np.array([[0.0], [1.0]]), np.array([[1.0]])).round(4)
    array([[0.6065],
           [1.    ]])
    """

    kernel: Kernel | KernelFunction | None  # None is precomputed

    @classmethod
    def of(
        cls,
        kernel: str | Callable[..., Any],
        X: Any = None,
        *,
        gamma: float | str,
        degree: int = 3,
        coef0: float = 1.0,
    ) -> Gram:
        """The kernel that these parameters describe; X serves "scale" and "auto" only."""
        if callable(kernel):
            return cls(kernel)
        if kernel == "precomputed":
            return cls(None)
        width = 1.0 if kernel == "linear" else resolve_gamma(gamma, X)
        return cls(Kernel(kernel, gamma=width, degree=int(degree), coef0=float(coef0)))

    @property
    def is_precomputed(self) -> bool:
        return self.kernel is None

    def block(self, A: Matrix, B: Matrix) -> FloatArray:
        """The kernel of every row of A with every row of B."""
        if self.kernel is None:
            raise DataError(
                "kernel='precomputed' cannot compute kernel values of new rows. Pass the kernel "
                "matrix as X."
            )
        if isinstance(self.kernel, Kernel):
            return self.kernel.block(A, B)
        values = np.asarray(self.kernel(A, B), dtype=np.float64)
        if values.shape != (A.shape[0], B.shape[0]):
            raise DataError(
                f"the kernel function gave shape {values.shape} for {A.shape[0]} x {B.shape[0]} "
                "rows. It takes two tables of rows and gives one value per pair of rows."
            )
        return values

    def check_square(self, X: Matrix) -> None:
        """Raise a DataError if X holds the kernel of training rows and is not square."""
        if self.kernel is None and X.shape[0] != X.shape[1]:
            raise DataError(
                f"kernel='precomputed' needs a square X for training, got shape {X.shape}: "
                "X[i, j] is the kernel of rows i and j."
            )

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
        rows: IntArray,
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
    """A kernel expansion over a Python function; it cannot be saved to a file."""

    kind: ClassVar[str] = "function"
    function: KernelFunction
    support: FloatArray
    coef: FloatArray
    intercept: float = 0.0

    @property
    def n_features(self) -> int:
        return int(self.support.shape[1])

    def decision_function(self, X: MatrixLike) -> FloatArray:
        scores = self.function(X, self.support) @ self.coef + self.intercept
        return np.asarray(scores, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FunctionValues(RowMap):
    """Kernel values by a Python function; they cannot be saved to a file."""

    kind: ClassVar[str] = "function_values"
    function: KernelFunction
    support: FloatArray

    @property
    def n_features(self) -> int:
        return int(self.support.shape[1])

    @property
    def n_outputs(self) -> int:
        return len(self.support)

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        if len(self.support) == 0:
            return np.zeros((X.shape[0], 0))
        return np.asarray(self.function(X, self.support), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class DrawnLandmarks:
    """The rows of X as features K(x, landmarks) T: a matrix of shape (n_rows, rank) on demand.

    T T' is the pseudo-inverse of the landmarks' kernel, so that products of features are the
    projections of the kernel on the span of the landmarks.
    """

    gram: Gram
    X: Any
    rows: IntArray  # (n_landmarks,) which rows of X the landmarks are
    support: FloatArray  # (n_landmarks, n_features)
    basis: FloatArray  # (n_landmarks, rank), T

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.basis.shape[1]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, rows: IntArray | slice) -> FloatArray:
        return np.asarray(self._kernel(self.X[rows]) @ self.basis)

    def __matmul__(self, coef: FloatArray) -> FloatArray:
        result = np.empty(len(self))
        for rows in row_blocks(len(self), len(self.rows)):
            result[rows] = self._kernel(self.X[rows]) @ (self.basis @ coef)
        return result

    def on(self, X: MatrixLike) -> DrawnLandmarks:
        """The same landmarks, other rows."""
        return DrawnLandmarks(self.gram, X, self.rows, self.support, self.basis)

    def dual(self, coef: FloatArray) -> FloatArray:
        """The coefficients of the landmarks' kernels for these coefficients of the features."""
        return np.asarray(self.basis @ coef)

    def _kernel(self, X: Matrix) -> FloatArray:
        if self.gram.is_precomputed:
            return dense(X[:, self.rows])
        return self.gram.block(X, self.support)


def draw_landmarks(gram: Gram, X: Matrix, rows: IntArray, n: int, seed: int) -> DrawnLandmarks:
    """Draw landmarks among these rows of X, and orthogonalize their kernel."""
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.permutation(rows)[:n])
    support = dense(X[drawn])
    K = support[:, drawn] if gram.is_precomputed else gram.block(support, support)
    values, vectors = linalg.eigh(K, driver="evd")
    kept = values > values[-1] * len(K) * np.finfo(np.float64).eps
    basis = vectors[:, kept] / np.sqrt(values[kept])
    return DrawnLandmarks(gram, X, drawn, support, basis)


@dataclass(frozen=True, eq=False)
class PickedLandmarks:
    """Training rows as landmarks; features @ features.T is (nearly) the kernel matrix."""

    rows: IntArray  # (n_landmarks,)
    features: FloatArray  # (n_items, n_landmarks)

    def dual(self, coef: FloatArray) -> FloatArray:
        """The kernel weights of the landmarks that give the scores ``features @ coef``."""
        if not len(self.rows):
            return np.zeros(0)
        triangle = self.features[self.rows]
        return np.asarray(linalg.solve_triangular(triangle, coef, trans=1, lower=True))


def pick_landmarks(gram: Gram, X: Matrix, n_components: int | None) -> PickedLandmarks:
    """At most ``n_components`` landmarks (None: as many as there are independent rows)."""
    rest = np.array(gram.diagonal(X), dtype=np.float64)
    n = len(rest)
    most = n if n_components is None else min(n_components, n)
    floor = TOLERANCE * float(rest.max(initial=0.0))
    require_memory(
        2.0 * 8.0 * most * n,
        f"features of {n:,} rows by {most:,} landmarks",
        f"Lower n_components (each landmark takes {16.0 * n / 2**20:.1f} MiB), use "
        "MPRank(solver='nystroem'), which computes them on demand, or the linear kernel.",
    )
    columns = np.zeros((most, n))  # transposed, so that a column is contiguous
    rows: list[int] = []
    for k in range(most):
        pivot = int(np.argmax(rest))
        if rest[pivot] <= floor:
            break
        own = dense(X[:, [pivot]]) if gram.is_precomputed else gram.block(X, X[pivot : pivot + 1])
        column = own[:, 0] - columns[:k, pivot] @ columns[:k]
        column[rows] = 0.0
        column /= np.sqrt(rest[pivot])
        column[pivot] = np.sqrt(rest[pivot])
        columns[k] = column
        rest -= column * column
        rows.append(pivot)
        rest[rows] = -np.inf
    features = np.ascontiguousarray(columns[: len(rows)].T)
    return PickedLandmarks(np.array(rows, dtype=np.int64), features)


@dataclass(eq=False)
class StreamedLandmarks:
    """Rows that later rows are projected on (approximate linear dependence, Engel et al. 2004).

    A row becomes a landmark if the landmarks so far leave more than ``tol`` of its squared length
    unexplained, as long as there are fewer than ``limit``. Features are the coordinates of a row's
    projection in an orthonormal basis: with R R' the kernel of the landmarks, R^-1 K(landmarks, x).
    A new landmark adds a coordinate, in which all earlier rows are (nearly) zero: earlier rows are
    never needed again.
    """

    gram: Gram
    support: FloatArray  # (n_landmarks, n_features)
    root: FloatArray  # (n_landmarks, n_landmarks), R: lower triangular
    limit: int
    tol: float

    def add(self, X: Matrix) -> FloatArray:
        """The features of the rows, (n_rows, n_landmarks) after the last; landmarks are added."""
        blocks = [
            self._add_block(dense(X[start : start + BLOCK]))
            for start in range(0, X.shape[0], BLOCK)
        ]
        size = len(self.root)
        return np.vstack([np.pad(block, ((0, 0), (0, size - block.shape[1]))) for block in blocks])

    def dual(self, coef: FloatArray) -> FloatArray:
        """The coefficients of the landmarks' kernels for these coefficients of the features."""
        if not len(coef):
            return coef
        return np.asarray(linalg.solve_triangular(self.root, coef, trans=1, lower=True))

    def _add_block(self, rows: FloatArray) -> FloatArray:
        length = np.asarray(self.gram.diagonal(rows))
        features, size = self._coordinates(rows), len(self.root)
        rest = length - np.einsum("ij,ij->i", features, features)
        row = 0
        while size < self.limit:
            unexplained = np.flatnonzero(rest[row:] > self.tol * length[row:])
            if not len(unexplained):
                break
            row += int(unexplained[0])
            features = np.column_stack([features, np.zeros(len(rows))])
            later = slice(row + 1, None)
            spread = float(np.sqrt(rest[row]))
            kernel = self.gram.block(rows[later], rows[row : row + 1])[:, 0]
            along = (kernel - features[later, :size] @ features[row, :size]) / spread
            features[row, size], features[later, size] = spread, along
            rest[later] -= along**2
            self._append(rows[row], features[row])
            row, size = row + 1, size + 1
        return features

    def _coordinates(self, rows: FloatArray) -> FloatArray:
        if not len(self.root):
            return np.zeros((len(rows), 0))
        kernel = self.gram.block(self.support, rows)
        return np.ascontiguousarray(linalg.solve_triangular(self.root, kernel, lower=True).T)

    def _append(self, row: FloatArray, coordinates: FloatArray) -> None:
        self.support = np.vstack([self.support, row])
        self.root = np.pad(self.root, ((0, 1), (0, 1)))
        self.root[-1] = coordinates
