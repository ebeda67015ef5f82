"""One weight vector per grade: the grade whose product with the row is greatest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.scoring.base import Matrix, Scorer, must
from rankwright.scoring.kernel import row_blocks


@dataclass(frozen=True, eq=False)
class Ordinal(Scorer):
    """The grade of a row is the first one whose threshold lies above its score.

    >>> from rankwright.scoring.linear import Linear
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

    >>> from rankwright.scoring.linear import Linear
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


@dataclass(frozen=True, eq=False)
class Votes(Scorer):
    """The mean of the grades that several linear rules predict, weighted by their votes.

    ``decision_function`` is that mean; rows with the same mean are ordered by the rules' mean
    score. ``predict`` is the grade nearest to the mean (the higher one half way between two).

    >>> votes = Votes(np.array([[1.0], [1.0]]), np.array([[0.0], [2.0]]), np.array([3.0, 1.0]),
    ...               np.array([1.0, 2.0]))
    >>> votes.expected(np.array([[-1.0], [1.0], [3.0]]))
    array([1.  , 1.75, 2.  ])
    >>> votes.predict(np.array([[-1.0], [1.0], [3.0]]))
    array([1., 2., 2.])
    """

    kind: ClassVar[str] = "votes"
    coef: FloatArray
    thresholds: FloatArray
    votes: FloatArray
    classes: FloatArray

    def __post_init__(self) -> None:
        must(self.coef.ndim == self.thresholds.ndim == 2, "coef and thresholds are tables")
        must(self.votes.ndim == self.classes.ndim == 1, "votes and classes are rows")
        must(len(self.coef) == len(self.thresholds) == len(self.votes) >= 1, "one vote per rule")
        must(len(self.classes) == self.thresholds.shape[1] + 1, "one class more than thresholds")
        for array in (self.coef, self.thresholds, self.votes, self.classes):
            must(np.isfinite(array).all(), "rules, votes and classes must be finite")
        must((np.diff(self.classes) > 0).all(), "classes must ascend")
        must((self.votes >= 0).all() and self.votes.sum() > 0, "some rule must have a vote")

    @property
    def n_features(self) -> int:
        return int(self.coef.shape[1])

    def decision_function(self, X: Matrix) -> FloatArray:
        gap = np.diff(self.classes).min(initial=1.0) / self.votes.sum()
        mean, score = self._mean_and_score(X)
        scale = 1.0 + np.abs(self.thresholds).max(initial=0.0)
        return np.asarray(mean + 0.49 * gap * (score / (scale + np.abs(score))))

    def expected(self, X: Matrix) -> FloatArray:
        """The mean grade."""
        return self._mean_and_score(X)[0]

    def predict(self, X: Matrix) -> FloatArray:
        return nearest(self.classes, self.expected(X))

    def _mean_and_score(self, X: Matrix) -> tuple[FloatArray, FloatArray]:
        mean, score = np.empty(X.shape[0]), np.empty(X.shape[0])
        total, gaps = self.votes.sum(), np.diff(self.classes)
        for rows in row_blocks(X.shape[0], len(self.coef)):
            scores = np.asarray(X[rows] @ self.coef.T)
            summed = np.full(len(scores), self.classes[0] * total)  # exact for whole numbers
            for r, gap in enumerate(gaps):
                summed += gap * ((scores >= self.thresholds[:, r]) @ self.votes)
            mean[rows] = summed / total
            score[rows] = scores @ self.votes / total
        return mean, score


def nearest(classes: FloatArray, values: FloatArray) -> FloatArray:
    """The class nearest to each value; the higher one half way between two."""
    middles = (classes[1:] + classes[:-1]) / 2
    return np.asarray(classes[np.searchsorted(middles, values, side="right")], dtype=np.float64)


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
