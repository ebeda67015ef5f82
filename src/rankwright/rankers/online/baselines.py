"""Baselines of the papers: Widrow-Hoff regression and the multiclass perceptron."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, RandomState
from rankwright.rankers import schema
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.online.base import (
    PASS_CONSTRAINTS,
    STREAM,
    Examples,
    OnlineRanker,
    ThresholdRanker,
    kernels,
)
from rankwright.rankers.schema import floats
from rankwright.scoring.base import Scorer
from rankwright.scoring.ordinal import Prototypes

LARGEST_ERROR = 1e50


class WidrowHoff(ThresholdRanker):
    r"""Widrow-Hoff (delta rule): online linear regression on the grades.

    :math:`w \leftarrow w - \eta\,(w \cdot x - y)\,x` after every row; the grade is the one nearest
    to :math:`w \cdot x`. There is no intercept: add a constant feature if you need one. A step
    greater than 2 / (largest squared length of a row) may diverge. Rows with an error above 1e50
    are then skipped, with a ConvergenceWarning, so that predictions stay finite.

    Parameters
    ----------
    learning_rate : float > 0, default 0.1
    max_iter, shuffle, random_state, early_stopping : see PRank

    Attributes
    ----------
    coef_ : (n_features,) array
    thresholds_ : (n_grades - 1,) array
        Halfway between neighboring grades.
    classes_, n_mistakes_, n_seen_, validation_, best_iteration_ : see PRank

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
        random_state: RandomState = None,
        early_stopping: EarlyStopping | bool | int | None = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.early_stopping = early_stopping

    def _begin(self, n_features: int) -> None:
        self.coef_ = np.zeros(n_features)
        self.thresholds_ = (self.classes_[1:] + self.classes_[:-1]) / 2

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        (coef,) = self._writable("coef_")
        predicted, step = np.empty(len(examples.order), np.int64), float(self.learning_rate)
        counts = kernels("prank").widrow_hoff_pass(
            tuple(examples), coef, self.classes_, self.thresholds_, step, LARGEST_ERROR, predicted
        )
        return predicted, *counts

    def _skip_message(self, skipped: int) -> str:
        return (
            f"WidrowHoff(learning_rate={self.learning_rate!r}) diverged: {skipped} rows with an "
            f"error above {LARGEST_ERROR:g} were skipped. Use a smaller learning_rate or scale "
            "the features."
        )


class MulticlassPerceptron(OnlineRanker):
    """Multiclass perceptron: one weight vector per grade; the highest score gives the grade.

    On a wrong grade the row is added to the right grade's vector and subtracted from the predicted
    grade's. It is a baseline of the PRank paper, with k times as many weights and no order among
    the grades. Rows of the same predicted grade are ordered by how much higher the next
    grade's vector scores than the previous grade's.

    Parameters
    ----------
    max_iter, shuffle, random_state, early_stopping : see PRank

    Attributes
    ----------
    coef_ : (n_grades, n_features) array
    classes_, n_mistakes_, n_seen_, validation_, best_iteration_ : see PRank

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    >>> MulticlassPerceptron(max_iter=20).fit(X, [1, 2, 3, 3]).predict(X)
    array([1., 2., 3., 3.])
    """

    _scores_as: ClassVar = "prototypes"
    _constraints: ClassVar = PASS_CONSTRAINTS
    _learned: ClassVar = {**STREAM, "coef_": floats("n_grades", "n_features")}

    coef_: FloatArray

    def __init__(
        self,
        *,
        max_iter: int = 1,
        shuffle: bool = False,
        random_state: RandomState = None,
        early_stopping: EarlyStopping | bool | int | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.early_stopping = early_stopping

    def _begin(self, n_features: int) -> None:
        self.coef_ = np.zeros((len(self.classes_), n_features))

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        (coef,) = self._writable("coef_")
        predicted = np.empty(len(examples.order), np.int64)
        return predicted, *kernels("prank").multiclass_pass(tuple(examples), coef, predicted)

    def _scorer(self) -> Scorer:
        return Prototypes(self.coef_, self.classes_)
