"""Grades read off a score by thresholds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.scoring.base import FloatArray, Matrix, Scorer, must

__all__ = ["Ordinal", "OrdinalProbit"]


@dataclass(frozen=True, eq=False)
class Ordinal(Scorer):
    """The grade of a row is the first one whose threshold lies above its score.

    >>> from rankwright.scoring import Linear
    >>> ordinal = Ordinal(Linear(np.array([1.0])), np.array([0.0, 2.0]), np.array([1.0, 2.0, 5.0]))
    >>> ordinal.predict(np.array([[-1.0], [0.0], [3.0]]))
    array([1., 2., 5.])
    """

    kind: ClassVar[str] = "ordinal"
    score: Scorer
    thresholds: FloatArray
    classes: FloatArray

    def __post_init__(self) -> None:
        must(isinstance(self.score, Scorer), "an ordinal scorer needs a scorer")
        must(self.thresholds.ndim == self.classes.ndim == 1, "thresholds and classes are rows")
        must(len(self.classes) == len(self.thresholds) + 1, "one class more than thresholds needed")
        must(np.isfinite(self.thresholds).all(), "thresholds must be finite")
        must((np.diff(self.thresholds) >= 0).all(), "thresholds must ascend")
        must((np.diff(self.classes) > 0).all(), "classes must ascend")

    @property
    def n_features(self) -> int:
        return self.score.n_features

    def decision_function(self, X: Matrix) -> FloatArray:
        return self.score.decision_function(X)

    def predict(self, X: Matrix) -> FloatArray:
        place = np.searchsorted(self.thresholds, self.decision_function(X), side="right")
        return np.asarray(self.classes[place], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class OrdinalProbit(Ordinal):
    """An ordinal scorer that also knows its noise: standard normal, added to the score.

    >>> from rankwright.scoring import Linear
    >>> scorer = OrdinalProbit(Linear(np.array([1.0])), np.array([0.0]), np.array([1.0, 2.0]))
    >>> scorer.expected(np.array([[-9.0], [0.0], [1.0]])).round(4)
    array([1.    , 1.5   , 1.8413])
    """

    kind: ClassVar[str] = "ordinal_probit"

    def expected(self, X: Matrix) -> FloatArray:
        """The mean grade under the noise."""
        distance = self.decision_function(X)[:, None] - self.thresholds
        twice = np.frompyfunc(math.erfc, 1, 1)(-math.sqrt(0.5) * distance)
        above = np.asarray(twice, dtype=np.float64) / 2
        return np.asarray(self.classes[0] + above @ np.diff(self.classes), dtype=np.float64)
