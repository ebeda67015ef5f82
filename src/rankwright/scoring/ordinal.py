"""Scorers that also predict a grade."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.scoring.base import Matrix, Scorer, row_blocks


@dataclass(frozen=True, eq=False)
class Ordinal(Scorer):
    """Ordinal scorer: the grade of a row is the first one whose threshold is above its score.

    >>> from rankwright.scoring.linear import Linear
    >>> ordinal = Ordinal(Linear(np.array([1.0])), np.array([0.0, 2.0]), np.array([1.0, 2.0, 5.0]))
    >>> ordinal.predict(np.array([[-1.0], [0.0], [3.0]]))
    array([1., 2., 5.])
    """

    kind: ClassVar[str] = "ordinal"
    score: Scorer
    thresholds: FloatArray
    classes: FloatArray
    _width: ClassVar[str] = "score"

    def __post_init__(self) -> None:
        n_classes = self.thresholds.size + 1
        self._check_arrays(thresholds=(n_classes - 1,), classes=(n_classes,))
        self._check_ascending("thresholds")
        self._check_ascending("classes", strictly=True)

    def decision_function(self, X: Matrix) -> FloatArray:
        return self.score.decision_function(X)

    def predict(self, X: Matrix) -> FloatArray:
        number = np.searchsorted(self.thresholds, self.decision_function(X), side="right")
        return np.asarray(self.classes[number], dtype=np.float64)


def normal_cdf(values: FloatArray) -> FloatArray:
    """The standard normal distribution function."""
    twice = np.frompyfunc(math.erfc, 1, 1)(-math.sqrt(0.5) * values)
    return np.asarray(twice, dtype=np.float64) / 2


def grade_probabilities(above: FloatArray) -> FloatArray:
    """Probabilities of grades from those of lying above each threshold, which must descend.

    >>> grade_probabilities(np.array([[0.75, 0.25]]))
    array([[0.25, 0.5 , 0.25]])
    """
    edges = np.column_stack([np.ones(len(above)), above, np.zeros(len(above))])
    return np.asarray(-np.diff(edges, axis=1))


@dataclass(frozen=True, eq=False)
class OrdinalProbit(Ordinal):
    """An ordinal scorer with standard normal noise added to the score.

    >>> from rankwright.scoring.linear import Linear
    >>> scorer = OrdinalProbit(Linear(np.array([1.0])), np.array([0.0]), np.array([1.0, 2.0]))
    >>> scorer.expected(np.array([[-9.0], [0.0], [1.0]])).round(4)
    array([1.    , 1.5   , 1.8413])
    """

    kind: ClassVar[str] = "ordinal_probit"

    def expected(self, X: Matrix) -> FloatArray:
        above = normal_cdf(self.decision_function(X)[:, None] - self.thresholds)
        return np.asarray(self.classes[0] + above @ np.diff(self.classes), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Votes(Scorer):
    """Weighted mean of the grades that several linear ordinal models predict.

    ``decision_function`` is that mean; rows with the same mean are ordered by the rules' mean
    score. ``predict`` is the grade nearest to the mean (the higher one halfway between two).

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
        n = "n_rules"
        self._check_arrays(coef=(n, "n_features"), thresholds=(n, "n_thresholds"), votes=(n,))
        self._check_arrays(classes=(self.thresholds.shape[1] + 1,))
        self._check_ascending("classes", strictly=True)
        self._check_range("votes", 0, np.inf)
        self._check(self.votes.sum() > 0, "votes: all are 0; at least one rule needs a vote")

    def decision_function(self, X: Matrix) -> FloatArray:
        gap = np.diff(self.classes).min(initial=1.0) / self.votes.sum()
        mean, score = self._mean_and_score(X)
        scale = 1.0 + np.abs(self.thresholds).max(initial=0.0)
        return np.asarray(mean + 0.49 * gap * (score / (scale + np.abs(score))))

    def expected(self, X: Matrix) -> FloatArray:
        return self._mean_and_score(X)[0]

    def predict(self, X: Matrix) -> FloatArray:
        return nearest(self.classes, self.expected(X))

    def probabilities(self, X: Matrix) -> FloatArray:
        """The share of the votes for each grade: (n_rows, n_classes)."""
        above = np.empty((X.shape[0], self.thresholds.shape[1]))
        for rows in row_blocks(X.shape[0], len(self.coef)):
            scores = np.asarray(X[rows] @ self.coef.T)
            for r, threshold in enumerate(self.thresholds.T):
                above[rows, r] = (scores >= threshold) @ self.votes / self.votes.sum()
        return grade_probabilities(above)

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
    """The class nearest to each value; the higher one halfway between two."""
    middles = (classes[1:] + classes[:-1]) / 2
    return np.asarray(classes[np.searchsorted(middles, values, side="right")], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Prototypes(Scorer):
    """One prototype per grade: predict the grade of the highest score (the lowest such grade).

    ``decision_function`` orders rows of the same grade by how much nearer the next higher grade's
    prototype is than the next lower one's.

    >>> table = Prototypes(np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, 2.0, 3.0]))
    >>> table.predict(np.array([[-2.0], [0.0], [0.5]]))
    array([1., 1., 3.])
    """

    kind: ClassVar[str] = "prototypes"
    coef: FloatArray
    classes: FloatArray

    def __post_init__(self) -> None:
        self._check_arrays(coef=("n_classes", "n_features"), classes=("n_classes",))
        self._check(len(self.classes), "classes is empty; it needs at least one")
        self._check_ascending("classes", strictly=True)

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.asarray(X @ self.coef.T)
        rows, best = np.arange(len(scores)), scores.argmax(axis=1)
        top = scores[rows, best]
        above = scores[rows, np.minimum(best + 1, len(self.classes) - 1)] - top
        lean = above - (scores[rows, np.maximum(best - 1, 0)] - top)
        gap = np.diff(self.classes).min(initial=1.0)
        return np.asarray(self.classes[best] + 0.49 * gap * lean / (1.0 + np.abs(lean)))

    def predict(self, X: Matrix) -> FloatArray:
        return np.asarray(self.classes[np.asarray(X @ self.coef.T).argmax(axis=1)])
