"""Landmarks picked from a stream of rows, as the basis of a kernel's features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from rankwright._typing import FloatArray
from rankwright.rankers.kernels import Gram, dense

BLOCK = 256  # rows whose kernels with the landmarks are computed at once


@dataclass(eq=False)
class Dictionary:
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

    def add(self, X: Any) -> FloatArray:
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
