"""The features whose plain product is the polynomial kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt
from typing import ClassVar

import numpy as np

from rankwright.data.queries import Queries
from rankwright.scoring.base import FloatArray, Matrix, RowMap, Scorer, must
from rankwright.scoring.kernel import row_blocks

__all__ = ["Mapped", "Polynomial"]

MOST_COLUMNS = 1 << 20


@dataclass(frozen=True, eq=False)
class Polynomial(RowMap):
    """Rows mapped so that their product is (gamma a . b + coef0) ** degree.

    One column per product of at most ``degree`` features, the constant first.

    >>> rows = Polynomial(2, degree=2).transform(np.array([[1.0, 2.0], [3.0, -1.0]]))
    >>> rows.shape
    (2, 6)
    >>> round(float(rows[0] @ rows[1]), 9)  # (1 * 3 - 2 * 1 + 1) ** 2
    4.0
    """

    kind: ClassVar[str] = "polynomial"
    n_columns: int
    degree: int = 2
    gamma: float = 1.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        must(isinstance(self.n_columns, int) and self.n_columns >= 1, "n_columns must be >= 1")
        must(isinstance(self.degree, int) and 1 <= self.degree <= 100, "degree must be 1 .. 100")
        must(np.isfinite(self.gamma) and self.gamma > 0, "gamma must be > 0")
        must(np.isfinite(self.coef0) and self.coef0 >= 0, "coef0 must be >= 0")
        must(self.n_outputs <= MOST_COLUMNS, f"the map has more than {MOST_COLUMNS} columns")

    @property
    def n_features(self) -> int:
        return self.n_columns

    @property
    def n_outputs(self) -> int:
        """How many columns come out."""
        return self.width(self.n_columns, self.degree)

    @staticmethod
    def width(n_columns: int, degree: int) -> int:
        """The number of products of at most ``degree`` of so many columns."""
        return comb(n_columns + degree, degree)

    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        mapped = np.empty((rows.shape[0], self.n_outputs))
        column = 0
        for size in range(self.degree + 1):
            scale = comb(self.degree, size) * self.coef0 ** (self.degree - size) * self.gamma**size
            for chosen in combinations_with_replacement(range(self.n_columns), size):
                repeats = prod(factorial(times) for times in Counter(chosen).values())
                out = mapped[:, column]
                out[:] = sqrt(scale * (factorial(size) // repeats))
                for feature in chosen:
                    out *= rows[:, feature]
                column += 1
        return mapped


@dataclass(frozen=True, eq=False)
class Mapped(Scorer):
    """A scorer of mapped rows."""

    kind: ClassVar[str] = "mapped"
    map: RowMap
    score: Scorer

    def __post_init__(self) -> None:
        must(isinstance(self.map, RowMap), "a mapped scorer needs a map")
        must(isinstance(self.score, Scorer), "a mapped scorer needs a scorer")
        must(self.score.n_features == self.map.n_outputs, "map and scorer differ in columns")

    @property
    def n_features(self) -> int:
        return self.map.n_features

    def decision_function(self, X: Matrix) -> FloatArray:
        return self._in_blocks(X, self.score.decision_function)

    def predict(self, X: Matrix) -> FloatArray:
        return self._in_blocks(X, self.score.predict)

    def expected(self, X: Matrix) -> FloatArray:
        """What the inner scorer expects, where it has expectations."""
        return self._in_blocks(X, getattr(self.score, "expected", self.score.predict))

    def _in_blocks(self, X: Matrix, function: object) -> FloatArray:
        assert callable(function)
        values = np.empty(X.shape[0])
        for rows in row_blocks(X.shape[0], self.map.n_outputs):
            values[rows] = function(self.map.transform(X[rows]))
        return values
