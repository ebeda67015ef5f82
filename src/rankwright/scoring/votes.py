"""Many rules of thresholds, each with a vote on the grade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.scoring.base import FloatArray, Matrix, Scorer, must
from rankwright.scoring.kernel import row_blocks

__all__ = ["Votes", "nearest"]


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
