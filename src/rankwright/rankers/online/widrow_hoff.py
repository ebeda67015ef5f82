"""Widrow-Hoff: online least squares on the grades, rounded to the nearest grade."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from rankwright.exceptions import ConvergenceWarning
from rankwright.rankers import rules
from rankwright.rankers.learned import floats
from rankwright.rankers.online.base import STREAM, kernels
from rankwright.rankers.online.prank import PASSES_RULES
from rankwright.rankers.online.rows import IntArray, Rows
from rankwright.rankers.online.rule import RuleRanker

__all__ = ["WidrowHoff"]

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
    step : float > 0, default 0.1
    n_passes, shuffle, random_state : see PRank

    Attributes
    ----------
    coef_ : (n_features,) array
    thresholds_ : (n_grades - 1,) array
        Half way between neighbouring grades.
    classes_, n_mistakes_, n_seen_ : see PRank

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    >>> WidrowHoff(step=0.1, n_passes=50).fit(X, [1, 2, 3, 4]).predict(X)
    array([1., 2., 3., 4.])
    """

    _rules: ClassVar = {"step": rules.positive(), **PASSES_RULES}
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_features"),
        "thresholds_": floats("n_thresholds"),
    }

    def __init__(
        self,
        *,
        step: float = 0.1,
        n_passes: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.step = step
        self.n_passes = n_passes
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
            float(self.step),
            LARGEST_ERROR,
            predicted,
        )
        return predicted, *found

    def _warn_of_skips(self, skipped: int) -> None:
        warnings.warn(
            f"WidrowHoff(step={self.step!r}) diverged: {skipped} rows with an error beyond "
            f"{LARGEST_ERROR:g} were not learned from. Take a smaller step or scale the features.",
            ConvergenceWarning,
            stacklevel=4,
        )
