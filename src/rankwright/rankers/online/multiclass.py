"""The multiclass perceptron: one prototype per grade, blind to the order of the grades."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright.rankers.base import FloatArray
from rankwright.rankers.learned import floats
from rankwright.rankers.online.base import STREAM, OnlineRanker, kernels
from rankwright.rankers.online.prank import PASSES_RULES
from rankwright.rankers.online.rows import IntArray, Rows
from rankwright.scoring import Prototypes, Scorer

__all__ = ["MulticlassPerceptron"]


class MulticlassPerceptron(OnlineRanker):
    """One weight vector per grade; the grade whose vector scores highest wins.

    On a wrong grade the row is added to the right grade's prototype and taken from the predicted
    one's. PRank's paper compares with it: it has k times as many weights and does not know that
    grades are ordered. Rows of the same predicted grade are ordered by how much nearer the next
    higher grade's prototype is than the next lower one's.

    Parameters
    ----------
    n_passes, shuffle, random_state : see PRank

    Attributes
    ----------
    coef_ : (n_grades, n_features) array
    classes_, n_mistakes_, n_seen_ : see PRank

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    >>> MulticlassPerceptron(n_passes=20).fit(X, [1, 2, 3, 3]).predict(X)
    array([1., 2., 3., 3.])
    """

    _rules: ClassVar = PASSES_RULES
    _learned: ClassVar = {**STREAM, "coef_": floats("n_grades", "n_features")}

    coef_: FloatArray

    def __init__(
        self, *, n_passes: int = 1, shuffle: bool = False, random_state: Any = None
    ) -> None:
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.random_state = random_state

    def _begin(self, n_features: int) -> None:
        self.coef_ = np.zeros((len(self.classes_), n_features))

    def _show(
        self, rows: Rows, grade: IntArray, order: IntArray, asked: bool
    ) -> tuple[Any, int, int]:
        (coef,) = self._writable("coef_")
        predicted = np.empty(len(order), np.int64)
        found = kernels().multiclass_pass(*rows, grade, order, coef, predicted)
        return predicted, *found

    def _scorer(self) -> Scorer:
        return Prototypes(self.coef_, self.classes_)
