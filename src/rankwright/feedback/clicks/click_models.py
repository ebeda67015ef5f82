"""Click models, estimated from a log.

Each model has ``fit(log)``, ``probabilities(log)``, ``log_likelihood(log)`` and
``perplexity(log)``. Compare models on sessions that were held out: ``train, test = log.split()``.
A document is an item of one query; new documents get the mean of the known ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import numpy as np

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.exceptions import FeedbackError
from rankwright.feedback.clicks.propensity import (
    Cells,
    _posteriors,
    check_limits,
    warn_of_convergence,
)

_LEAST = 1e-6  # probabilities of clicks stay this far from 0 and 1


class ClickModel(ABC):
    """Base class of the click models."""

    keys_: IntArray
    attractiveness_: FloatArray

    @abstractmethod
    def fit(self, log: ImpressionLog) -> Self:
        """Estimate the parameters from the sessions of a log."""

    @abstractmethod
    def _conditional(self, log: ImpressionLog) -> FloatArray:
        """The probability of a click on each row, given the clicks above it in its session."""

    def probabilities(self, log: ImpressionLog) -> FloatArray:
        """The probability of a click on each row, given the clicks above it in its session."""
        return np.clip(self._conditional(log), _LEAST, 1.0 - _LEAST)

    def log_likelihood(self, log: ImpressionLog) -> float:
        """Mean log-likelihood of a session; higher is better."""
        return float(self._log_terms(log).sum() / log.n_sessions)

    def perplexity(self, log: ImpressionLog) -> float:
        """2 ** -(mean log2-likelihood), averaged over positions; 1 is perfect, 2 is chance."""
        bits = self._log_terms(log) / np.log(2.0)
        shown = np.bincount(log.position, minlength=log.n_positions + 1)[1:]
        total = np.bincount(log.position, bits, log.n_positions + 1)[1:]
        return float(np.mean(2.0 ** -(total[shown > 0] / shown[shown > 0])))

    def relevance(self, log: ImpressionLog) -> FloatArray:
        """The estimated attractiveness of the item of each row."""
        return self._of_rows(self.attractiveness_, log)

    def _log_terms(self, log: ImpressionLog) -> FloatArray:
        chance = self.probabilities(log)
        return np.asarray(np.log(np.where(log.clicked, chance, 1.0 - chance)))

    def _set_keys(self, log: ImpressionLog) -> None:
        """Store the sorted keys of the documents, to look up those of other logs."""
        if not log.clicked.any():
            raise FeedbackError("the log has no clicks, so there is nothing to fit.")
        self.keys_ = np.sort(_keys(log)[log.documents[1]])

    def _of_rows(self, values: FloatArray, log: ImpressionLog) -> FloatArray:
        keys = _keys(log)
        index = np.minimum(np.searchsorted(self.keys_, keys), len(self.keys_) - 1)
        return np.where(self.keys_[index] == keys, values[index], values.mean())


def _keys(log: ImpressionLog) -> IntArray:
    """A number for the document of each row, the same in all parts of a log."""
    return log.query * np.int64(len(log.items)) + log.item


class PositionBasedModel(ClickModel):
    """PBM: a click requires an examined position and an attractive item, independently.

    Fitted by EM on counts per document and position, so time grows with their number, not with the
    number of sessions. Only items shown at several positions separate attractiveness from
    examination.

    Parameters
    ----------
    max_iter : int, default=200
    tol : float, default=1e-4, the change of the probabilities at which EM stops
    prior : float, default=1.0
        Number of pseudo-impressions at the mean click rate per document, which prevents extreme
        estimates from few clicks.

    Attributes
    ----------
    examination_ : (n_positions,) relative to position 1
    attractiveness_ : (n_documents,)
    n_iter_ : int

    Examples
    --------
    >>> from rankwright.data import ClickSimulator, Items, make_queries
    >>> sample = make_queries(40, docs_per_query=10, random_state=0)
    >>> items = Items(sample.X, sample.y, sample.qid)
    >>> users = ClickSimulator(items, examination=[1.0, 0.6, 0.3])
    >>> log = users.sessions(items.y, 20_000, experiment="shuffle")
    >>> model = PositionBasedModel().fit(log)
    >>> bool(np.abs(model.examination_ - [1.0, 0.6, 0.3]).max() < 0.05)
    True
    """

    examination_: FloatArray

    def __init__(self, max_iter: int = 200, tol: float = 1e-4, prior: float = 1.0) -> None:
        check_limits(max_iter, tol)
        self.max_iter, self.tol, self.prior = max_iter, tol, prior

    def fit(self, log: ImpressionLog) -> Self:
        self._set_keys(log)
        cells = Cells.of(log)
        shown = cells.by_document(cells.shown)
        impressions = np.maximum(cells.by_position(cells.shown), 1.0)
        rates = cells.by_position(cells.clicked) / impressions
        gamma = np.clip(rates / max(rates.max(), 1e-9), 0.01, 1.0)
        mean = min(float(rates.max()), 0.9)
        relevance = np.full(cells.n_documents, mean)
        for n_iter in range(1, self.max_iter + 1):
            self.n_iter_ = n_iter
            examined, relevant = _posteriors(cells, gamma, relevance)
            rate = (cells.by_document(relevant) + self.prior * mean) / (shown + self.prior)
            new = cells.by_position(examined) / impressions
            change = float(np.average(np.abs(rate - relevance), weights=shown))
            change = max(change, float(np.abs(new - gamma).max()))
            gamma, relevance, mean = new, rate, float(np.average(rate, weights=shown))
            if change < self.tol:
                break
        else:
            warn_of_convergence(type(self).__name__, self.max_iter, change)
        # Only the products are identified: position 1 is examined always.
        self.examination_ = np.clip(gamma / gamma[0], 1e-4, 1.0)
        self.attractiveness_ = np.minimum(relevance * gamma[0], 1.0)
        return self

    def _conditional(self, log: ImpressionLog) -> FloatArray:
        gamma = np.append(self.examination_, self.examination_[-1])
        index = np.minimum(log.position - 1, len(gamma) - 1)
        return np.asarray(gamma[index] * self.relevance(log))


class CascadeModel(ClickModel):
    """Cascade model: users read from the top and stop at the first click (Craswell et al. 2008).

    A session with two clicks is impossible under this model; its likelihood is nearly 0.

    Parameters
    ----------
    prior : float, default=1.0, impressions at the mean rate added to each document

    Attributes
    ----------
    attractiveness_ : (n_documents,)
    """

    def __init__(self, prior: float = 1.0) -> None:
        self.prior = prior

    def fit(self, log: ImpressionLog) -> Self:
        self._set_keys(log)
        document, first = log.documents
        examined = _clicks_above(log) == 0
        n_examined = np.bincount(document, examined, len(first))
        clicks = np.bincount(document, examined & log.clicked, len(first))
        mean = clicks.sum() / max(n_examined.sum(), 1.0)
        self.attractiveness_ = (clicks + self.prior * mean) / (n_examined + self.prior)
        return self

    def _conditional(self, log: ImpressionLog) -> FloatArray:
        return np.where(_clicks_above(log) == 0, self.relevance(log), 0.0)


class DynamicBayesianNetwork(ClickModel):
    """DBN: users read until a click satisfies them or they give up (Chapelle and Zhang 2009).

    Each item has a probability that a click on it satisfies the user. Otherwise the user continues
    to the next position with probability ``continuation_``. Fitted by EM.

    Parameters
    ----------
    max_iter, tol : int and float, when EM stops
    prior : float, default=1.0, observations at the mean rate added to each document

    Attributes
    ----------
    attractiveness_, satisfaction_ : (n_documents,)
    continuation_ : float
    n_iter_ : int
    """

    def __init__(self, max_iter: int = 100, tol: float = 1e-4, prior: float = 1.0) -> None:
        check_limits(max_iter, tol)
        self.max_iter, self.tol, self.prior = max_iter, tol, prior

    def fit(self, log: ImpressionLog) -> Self:
        self._set_keys(log)
        lists = _Lists.of(log)
        n, clicks = len(log.documents[1]), lists.clicked
        clicked = lists.by_document(clicks.astype(float), n)
        attract, satisfy = np.full(n, 0.3), np.full(n, 0.5)
        self.continuation_ = 0.8
        for n_iter in range(1, self.max_iter + 1):
            self.n_iter_ = n_iter
            post = _expectations(lists, attract, satisfy, self.continuation_)
            rate = self._rate(clicked, lists.by_document(post.examined, n))
            satisfy = self._rate(lists.by_document(post.satisfied, n), clicked)
            new = float(np.clip(post.n_continued / max(post.n_decisions, 1e-9), 0.01, 0.9999))
            change = max(abs(new - self.continuation_), float(np.abs(rate - attract).mean()))
            self.continuation_, attract = new, rate
            if change < self.tol:
                break
        else:
            warn_of_convergence(type(self).__name__, self.max_iter, change)
        self.attractiveness_, self.satisfaction_ = attract, satisfy
        return self

    def _rate(self, hits: FloatArray, trials: FloatArray) -> FloatArray:
        mean = hits.sum() / max(trials.sum(), 1e-9)
        rate = (hits + self.prior * mean) / np.maximum(trials + self.prior, 1e-9)
        return np.asarray(np.clip(rate, _LEAST, 1.0 - _LEAST))

    def _conditional(self, log: ImpressionLog) -> FloatArray:
        """The probability that a position is examined is updated from the top down."""
        lists = _Lists.of(log)
        attract = lists.spread(self.relevance(log))
        satisfy = lists.spread(self._of_rows(self.satisfaction_, log))
        click = np.zeros(attract.shape)
        examined = np.ones(len(attract))
        for k in range(attract.shape[1]):
            click[:, k] = examined * attract[:, k]
            no_click = np.maximum(1.0 - click[:, k], 1e-12)
            unsatisfied = np.where(
                lists.clicked[:, k],
                1.0 - satisfy[:, k],
                examined * (1.0 - attract[:, k]) / no_click,
            )
            examined = self.continuation_ * unsatisfied
        return np.asarray(click[lists.row, lists.column])


class _Lists(NamedTuple):
    """Sessions as rows of a table, items in the order shown; empty cells have document -1."""

    document: IntArray  # (n_sessions, n_columns)
    clicked: BoolArray
    row: IntArray  # (n_rows,) the row and the column of each impression of the log
    column: IntArray

    @classmethod
    def of(cls, log: ImpressionLog) -> _Lists:
        column = np.arange(len(log)) - log.starts[log.session]
        shape = log.n_sessions, int(column.max(initial=-1)) + 1
        document, clicked = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=bool)
        document[log.session, column] = log.documents[0]
        clicked[log.session, column] = log.clicked
        return cls(document, clicked, log.session, column)

    def spread(self, values: FloatArray) -> FloatArray:
        """A value per impression as a table; 0 in empty cells."""
        table = np.zeros(self.document.shape)
        table[self.row, self.column] = values
        return table

    def by_document(self, values: FloatArray, n: int) -> FloatArray:
        shown = self.row, self.column
        return np.bincount(self.document[shown], values[shown], n).astype(np.float64)


class _Posterior(NamedTuple):
    examined: FloatArray  # (n_sessions, n_columns) probability that the item was examined
    satisfied: FloatArray  # (n_sessions, n_columns) that a click on it satisfied the user
    n_continued: float  # expected number of times a user continued
    n_decisions: float  # expected number of times a user could continue


def _expectations(
    lists: _Lists, attract: FloatArray, satisfy: FloatArray, continuation: float
) -> _Posterior:
    """E-step: all items down to the last click were examined; below it, by Bayes' rule."""
    shown, clicked = lists.document >= 0, lists.clicked
    a = np.where(shown, attract[lists.document], 0.0)
    s = np.where(shown, satisfy[lists.document], 0.0)
    n_sessions, n = a.shape
    # no_click[:, k]: the probability of no click in columns k, k + 1, ... if k is examined
    no_click = np.ones((n_sessions, n + 1))
    for k in range(n - 1, -1, -1):
        after = continuation * no_click[:, k + 1] + 1.0 - continuation
        no_click[:, k] = np.where(shown[:, k], (1.0 - a[:, k]) * after, 1.0)
    last = np.where(clicked.any(axis=1), n - 1 - np.argmax(clicked[:, ::-1], axis=1), -1)
    column = np.arange(n)[None, :]
    examined = (column <= last[:, None]).astype(np.float64)
    examined[:, 0] = 1.0
    satisfied = np.zeros((n_sessions, n))
    continued = decisions = 0.0
    for k in range(n):
        after = 1.0 - continuation + continuation * no_click[:, k + 1]
        total = s[:, k] + (1.0 - s[:, k]) * after
        satisfied[:, k] = np.where(last == k, s[:, k] / np.maximum(total, 1e-12), 0.0)
        if k + 1 == n:
            break
        unsatisfied = examined[:, k] - satisfied[:, k]
        next_examined = unsatisfied * continuation * no_click[:, k + 1] / np.maximum(after, 1e-12)
        more = shown[:, k + 1]
        below = (k >= last) & more
        examined[:, k + 1] = np.where(below, next_examined, examined[:, k + 1] * more)
        continued += float(np.sum(np.where(more, examined[:, k + 1], 0.0)))
        decisions += float(np.sum(np.where(more, unsatisfied, 0.0)))
    return _Posterior(examined * shown, satisfied, continued, decisions)


def _clicks_above(log: ImpressionLog) -> IntArray:
    """How many items above each row were clicked in its session."""
    before = np.concatenate([[0], np.cumsum(log.clicked)])
    return np.asarray(before[:-1] - before[log.starts[log.session]])
