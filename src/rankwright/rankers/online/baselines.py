"""The multiclass perceptron: one prototype per grade, blind to the order of the grades."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import ConvergenceWarning
from rankwright.rankers import schema
from rankwright.rankers.online.base import STREAM, OnlineRanker, Rows, RuleRanker, kernels
from rankwright.rankers.online.prank import PASS_CONSTRAINTS
from rankwright.rankers.schema import floats
from rankwright.scoring.base import Scorer
from rankwright.scoring.ordinal import Prototypes

LARGEST_ERROR = 1e50


class WidrowHoff(RuleRanker):
    r"""Online regression on the grades (the delta rule), the competitor in both papers.

    :math:`w \leftarrow w - \eta\,(w \cdot x - y)\,x` after every row; the grade is the one nearest
    to :math:`w \cdot x`. There is no intercept: give a constant feature if one is wanted. A step
    greater than 2 / (largest squared length of a row) may diverge; rows whose error has grown
    beyond 1e50 are then no longer learned from, and a ConvergenceWarning says so: answers stay
    finite.

    Parameters
    ----------
    learning_rate : float > 0, default 0.1
    max_iter, shuffle, random_state : see PRank

    Attributes
    ----------
    coef_ : (n_features,) array
    thresholds_ : (n_grades - 1,) array
        Half way between neighboring grades.
    classes_, n_mistakes_, n_seen_ : see PRank

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    >>> WidrowHoff(learning_rate=0.1, max_iter=50).fit(X, [1, 2, 3, 4]).predict(X)
    array([1., 2., 3., 4.])
    """

    _constraints: ClassVar = {"learning_rate": schema.positive(), **PASS_CONSTRAINTS}
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_features"),
        "thresholds_": floats("n_thresholds"),
    }

    def __init__(
        self,
        *,
        learning_rate: float = 0.1,
        max_iter: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state

    def _begin(self, n_features: int) -> None:
        self.coef_ = np.zeros(n_features)
        self.thresholds_ = (self.classes_[1:] + self.classes_[:-1]) / 2

    def _show(
        self, rows: Rows, grade: IntArray, order: IntArray, asked: bool
    ) -> tuple[Any, int, int]:
        (coef,) = self._writable("coef_")
        predicted = np.empty(len(order), np.int64)
        found = kernels().widrow_hoff_pass(
            *rows,
            grade,
            order,
            coef,
            self.classes_,
            self.thresholds_,
            float(self.learning_rate),
            LARGEST_ERROR,
            predicted,
        )
        return predicted, *found

    def _warn_of_skips(self, skipped: int) -> None:
        warnings.warn(
            f"WidrowHoff(learning_rate={self.learning_rate!r}) diverged: {skipped} rows with "
            f"an error beyond {LARGEST_ERROR:g} were skipped. Use a smaller learning_rate or scale "
            "the features.",
            ConvergenceWarning,
            stacklevel=4,
        )


class MulticlassPerceptron(OnlineRanker):
    """One weight vector per grade; the grade whose vector scores highest wins.

    On a wrong grade the row is added to the right grade's prototype and taken from the predicted
    one's. PRank's paper compares with it: it has k times as many weights and does not know that
    grades are ordered. Rows of the same predicted grade are ordered by how much nearer the next
    higher grade's prototype is than the next lower one's.

    Parameters
    ----------
    max_iter, shuffle, random_state : see PRank

    Attributes
    ----------
    coef_ : (n_grades, n_features) array
    classes_, n_mistakes_, n_seen_ : see PRank

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    >>> MulticlassPerceptron(max_iter=20).fit(X, [1, 2, 3, 3]).predict(X)
    array([1., 2., 3., 3.])
    """

    _constraints: ClassVar = PASS_CONSTRAINTS
    _learned: ClassVar = {**STREAM, "coef_": floats("n_grades", "n_features")}

    coef_: FloatArray

    def __init__(
        self, *, max_iter: int = 1, shuffle: bool = False, random_state: Any = None
    ) -> None:
        self.max_iter = max_iter
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
