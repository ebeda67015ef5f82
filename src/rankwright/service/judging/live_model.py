"""The model that learns from judgments as they are made, its committee and its learning curve."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import FloatArray
from rankwright.service.judging.assignment import pair_disagreement, rank_variance
from rankwright.service.judging.queue import Queue
from rankwright.service.log.entries import Mode

MEMBERS = 50
FIRST = 20  # judgments that are chosen at random, before the members know enough to differ
REFRESH = 5  # judgments after which the committee is asked again


class Example(NamedTuple):
    """A judgment as a model learns it: one row of the queue and its value, or two and -1, 0, 1."""

    rows: tuple[int, ...]
    value: float


class LiveModel:
    """A BayesianPRank that predicts each judgment, then learns from it.

    Grades and magnitudes (in steps of ten) are ordinal levels of a document. A preference is an
    ordinal level of the difference of two documents (-1, 0 for a tie, 1), learned in both
    directions. An OAP-BPM on the same examples is the committee that says what to judge next.
    Features are standardized over the queue.
    """

    def __init__(self, queue: Queue, mode: Mode) -> None:
        from sklearn.preprocessing import StandardScaler

        from rankwright.rankers.online import OAPBPM, BayesianPRank

        self.queue, self.mode = queue, mode
        filled = np.where(np.isnan(queue.X), _column_means(queue.X), queue.X)
        self.scaler = StandardScaler().fit(filled)
        self.rows: FloatArray = self.scaler.transform(filled)
        self.classes = _classes(mode, queue.n_grades)
        self.ranker = BayesianPRank().start(self.rows.shape[1], self.classes)
        self.committee = OAPBPM(n_estimators=MEMBERS, random_state=0)
        self.committee.start(self.rows.shape[1], self.classes)
        self.losses: list[float] = []
        self.baseline_losses: list[float] = []
        self._sorted: list[float] = []  # the judgments so far
        self._priority: tuple[int, FloatArray] | None = None

    def learn(self, examples: Sequence[Example]) -> None:
        """Predict each judgment just before learning from it; how far off goes to the curve."""
        if not examples:
            return
        X = np.array([self._row(example.rows) for example in examples])
        values = np.array([example.value for example in examples])
        y = self.classes[np.abs(values[:, None] - self.classes).argmin(axis=1)]
        if self.mode == "pairs":
            X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
            X[1::2], y[1::2] = -X[1::2], -y[1::2]
        predicted = self.ranker.partial_fit_predict(X, y)[:: len(X) // len(values)]
        self.committee.partial_fit(X, y)
        self.losses += np.abs(predicted - values).tolist()
        for value in values.tolist():
            self.baseline_losses.append(abs(self._median() - value))
            insort(self._sorted, value)

    def _median(self) -> float:
        """Of the judgments so far; of all grades before the first one."""
        ordered = self._sorted or self.classes.tolist()
        half = len(ordered) // 2
        return float(ordered[half] + ordered[-half - 1]) / 2.0

    def _row(self, rows: tuple[int, ...]) -> FloatArray:
        row: FloatArray = self.rows[rows[0]]
        return row if len(rows) == 1 else row - self.rows[rows[1]]

    @property
    def n_seen(self) -> int:
        return len(self.losses)

    def curve(self) -> FloatArray:
        """The mean rank loss (absolute difference) of the predictions so far."""
        return np.cumsum(self.losses) / np.arange(1, self.n_seen + 1)

    def baseline(self) -> FloatArray:
        """The same for always predicting the median of the judgments before."""
        return np.cumsum(self.baseline_losses) / np.arange(1, self.n_seen + 1)

    def scores(self) -> FloatArray:
        """What the model orders the documents of the queue by."""
        scores: FloatArray = self.ranker.decision_function(self.rows)
        return scores

    def priority(self) -> FloatArray | None:
        """How much the members differ on each document; None before the first judgments."""
        if self.n_seen < FIRST:
            return None
        if self._priority is None or self.n_seen - self._priority[0] >= REFRESH:
            variance = rank_variance(self.committee, self.rows, self.queue.queries)
            self._priority = (self.n_seen, variance)
        return self._priority[1]

    def pair_priority(self, pairs: Any) -> FloatArray | None:
        """How much the members differ on each pair of rows; None before the first judgments."""
        if self.n_seen < FIRST:
            return None
        return pair_disagreement(self.committee.member_scores(self.rows), pairs)

    def pipeline(self) -> Any:
        """The model for documents with the named features of the queue, not standardized."""
        from sklearn.pipeline import Pipeline

        self.scaler.feature_names_in_ = np.array(self.queue.feature_names, dtype=object)
        return Pipeline([("scale", self.scaler), ("rank", self.ranker)])


def _classes(mode: Mode, n_grades: int) -> FloatArray:
    if mode == "pairs":
        return np.array([-1.0, 0.0, 1.0])
    return np.arange(0.0, 101.0, 10.0) if mode == "magnitudes" else np.arange(float(n_grades))


def _column_means(X: FloatArray) -> FloatArray:
    """The mean of each column without NaN; 0 where there is nothing else."""
    known = ~np.isnan(X)
    means: FloatArray = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return means
