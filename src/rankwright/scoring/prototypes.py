"""One weight vector per grade: the grade whose product with the row is greatest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.scoring.base import FloatArray, IntArray, Matrix, Scorer, must

__all__ = ["Prototypes"]


@dataclass(frozen=True, eq=False)
class Prototypes(Scorer):
    """The grade of the prototype that scores highest (the lowest such grade).

    For ordering, rows of the same grade are told apart by how much nearer the next higher grade's
    prototype is than the next lower one's.

    >>> table = Prototypes(np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, 2.0, 3.0]))
    >>> table.predict(np.array([[-2.0], [0.0], [0.5]]))
    array([1., 1., 3.])
    """

    kind: ClassVar[str] = "prototypes"
    coef: FloatArray
    classes: FloatArray

    def __post_init__(self) -> None:
        must(self.coef.ndim == 2 and self.classes.ndim == 1, "coef is a table, classes a row")
        must(len(self.coef) == len(self.classes) >= 1, "one prototype per class")
        must(np.isfinite(self.coef).all() and np.isfinite(self.classes).all(), "they are finite")
        must((np.diff(self.classes) > 0).all(), "classes must ascend")

    @property
    def n_features(self) -> int:
        return int(self.coef.shape[1])

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.asarray(X @ self.coef.T)
        place = scores.argmax(axis=1)
        top = self._at(scores, place)
        above = self._at(scores, np.minimum(place + 1, len(self.classes) - 1)) - top
        below = self._at(scores, np.maximum(place - 1, 0)) - top
        lean = above - below
        gap = np.diff(self.classes).min(initial=1.0)
        return np.asarray(self.classes[place] + 0.49 * gap * lean / (1.0 + np.abs(lean)))

    def predict(self, X: Matrix) -> FloatArray:
        return np.asarray(self.classes[np.asarray(X @ self.coef.T).argmax(axis=1)])

    @staticmethod
    def _at(scores: FloatArray, place: IntArray) -> FloatArray:
        return np.asarray(np.take_along_axis(scores, place[:, None], axis=1)[:, 0])
