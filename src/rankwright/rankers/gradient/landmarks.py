"""Kernels as features: rows become vectors whose products are the kernel, or nearly.

Pivoted Cholesky decomposition takes, row by row, the training row that is worst represented so far
as the next landmark. Carried to the end it is exact; cut short it is the Nystroem approximation
with greedily chosen landmarks. Only the columns of the kernel matrix it asks for are computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from rankwright.rankers.gram import Gram, dense

__all__ = ["Landmarks", "find_landmarks"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TOLERANCE = 1e-10  # of a row's squared length that may be left unrepresented


@dataclass(frozen=True)
class Landmarks:
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
        return np.asarray(solve_triangular(triangle, coef, trans=1, lower=True))


def find_landmarks(gram: Gram, X: Any, n_components: int | None) -> Landmarks:
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
    return Landmarks(found, np.ascontiguousarray(columns[: len(rows)].T))


def _column(gram: Gram, X: Any, pivot: int) -> FloatArray:
    if gram.is_precomputed:
        return dense(X[:, [pivot]])[:, 0]
    return gram.block(X, X[pivot : pivot + 1])[:, 0]
