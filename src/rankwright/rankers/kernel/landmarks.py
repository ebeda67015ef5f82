"""Nystroem features: rows seen through their kernel with a few landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from rankwright.rankers.gram import Gram, dense
from rankwright.rankers.kernel.sample import FloatArray, IntArray
from rankwright.scoring.kernel import row_blocks

__all__ = ["Landmarks", "choose_landmarks"]


@dataclass(frozen=True, eq=False)
class Landmarks:
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

    def on(self, X: Any) -> Landmarks:
        """The same landmarks, other rows."""
        return Landmarks(self.gram, X, self.rows, self.support, self.turn)

    def dual(self, coef: FloatArray) -> FloatArray:
        """The coefficients of the landmarks' kernels for these coefficients of the features."""
        return np.asarray(self.turn @ coef)

    def _kernel(self, X: Any) -> FloatArray:
        return (
            dense(X[:, self.rows]) if self.gram.is_precomputed else self.gram.block(X, self.support)
        )


def choose_landmarks(gram: Gram, X: Any, rows: IntArray, n: int, seed: int) -> Landmarks:
    """Draw landmarks among these rows of X, and orthogonalise their kernel."""
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.permutation(rows)[:n])
    support = dense(X[drawn])
    K = support[:, drawn] if gram.is_precomputed else gram.block(support, support)
    values, vectors = linalg.eigh(K, driver="evd")
    kept = values > values[-1] * len(K) * np.finfo(np.float64).eps
    turn = vectors[:, kept] / np.sqrt(values[kept])
    return Landmarks(gram, X, drawn, support, turn)
