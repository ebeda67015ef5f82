"""Nystroem features: rows seen through their kernel with a few of them, the landmarks.

``DrawnLandmarks`` are drawn at random and features are computed when asked for, so that memory does
not grow with the rows. ``PickedLandmarks`` are picked one by one, always the row that is worst
represented so far (pivoted Cholesky decomposition): better features from as few landmarks, all of
them kept; carried to the end they are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from rankwright.rankers.gram import Gram, dense
from rankwright.scoring.kernel import row_blocks

__all__ = ["DrawnLandmarks", "PickedLandmarks", "draw_landmarks", "pick_landmarks"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TOLERANCE = 1e-10  # of a row's squared length that may be left unrepresented


@dataclass(frozen=True, eq=False)
class DrawnLandmarks:
    """The rows of X as features K(x, landmarks) T, computed when asked for.

    T T' is the pseudo-inverse of the landmarks' kernel, so that products of features are the
    projections of the kernel on the span of the landmarks. It stands in for a matrix of shape
    (n_rows, rank): slices, row numbers and products with a vector are all that is asked of it.

    Attributes
    ----------
    rows : (n_landmarks,) which rows of X the landmarks are
    support : (n_landmarks, n_features) the landmarks
    turn : (n_landmarks, rank) T
    """

    gram: Gram
    X: Any
    rows: IntArray
    support: FloatArray
    turn: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.turn.shape[1]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, rows: Any) -> FloatArray:
        return np.asarray(self._kernel(self.X[rows]) @ self.turn)

    def __matmul__(self, coef: FloatArray) -> FloatArray:
        result = np.empty(len(self))
        for rows in row_blocks(len(self), len(self.rows)):
            result[rows] = self._kernel(self.X[rows]) @ (self.turn @ coef)
        return result

    def on(self, X: Any) -> DrawnLandmarks:
        """The same landmarks, other rows."""
        return DrawnLandmarks(self.gram, X, self.rows, self.support, self.turn)

    def dual(self, coef: FloatArray) -> FloatArray:
        """The coefficients of the landmarks' kernels for these coefficients of the features."""
        return np.asarray(self.turn @ coef)

    def _kernel(self, X: Any) -> FloatArray:
        return (
            dense(X[:, self.rows]) if self.gram.is_precomputed else self.gram.block(X, self.support)
        )


def draw_landmarks(gram: Gram, X: Any, rows: IntArray, n: int, seed: int) -> DrawnLandmarks:
    """Draw landmarks among these rows of X, and orthogonalise their kernel."""
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.permutation(rows)[:n])
    support = dense(X[drawn])
    K = support[:, drawn] if gram.is_precomputed else gram.block(support, support)
    values, vectors = linalg.eigh(K, driver="evd")
    kept = values > values[-1] * len(K) * np.finfo(np.float64).eps
    turn = vectors[:, kept] / np.sqrt(values[kept])
    return DrawnLandmarks(gram, X, drawn, support, turn)


@dataclass(frozen=True, eq=False)
class PickedLandmarks:
    """features @ features.T is the kernel matrix (nearly); the landmarks are training rows.

    Attributes
    ----------
    rows : (n_landmarks,) training rows
    features : (n_items, n_landmarks)
    """

    rows: IntArray
    features: FloatArray

    def dual(self, coef: FloatArray) -> FloatArray:
        """The kernel weights of the landmarks that give the scores ``features @ coef``."""
        if not len(self.rows):
            return np.zeros(0)
        triangle = self.features[self.rows]
        return np.asarray(linalg.solve_triangular(triangle, coef, trans=1, lower=True))


def pick_landmarks(gram: Gram, X: Any, n_components: int | None) -> PickedLandmarks:
    """At most so many landmarks (None: as many as there are independent rows)."""
    rest = np.array(gram.diagonal(X), dtype=np.float64)
    n = len(rest)
    most = n if n_components is None else min(n_components, n)
    floor = TOLERANCE * float(rest.max(initial=0.0))
    columns = np.zeros((most, n))  # transposed while it grows: a column is then one stretch
    rows: list[int] = []
    for k in range(most):
        pivot = int(np.argmax(rest))
        if rest[pivot] <= floor:
            break
        column = _column(gram, X, pivot) - columns[:k, pivot] @ columns[:k]
        column[rows] = 0.0
        column /= np.sqrt(rest[pivot])
        column[pivot] = np.sqrt(rest[pivot])
        columns[k] = column
        rest -= column * column
        rows.append(pivot)
        rest[rows] = -np.inf
    found = np.array(rows, dtype=np.int64)
    return PickedLandmarks(found, np.ascontiguousarray(columns[: len(rows)].T))


def _column(gram: Gram, X: Any, pivot: int) -> FloatArray:
    if gram.is_precomputed:
        return dense(X[:, [pivot]])[:, 0]
    return gram.block(X, X[pivot : pivot + 1])[:, 0]
