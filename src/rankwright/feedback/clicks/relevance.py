"""Relevance from clicks: click rates corrected for position bias.

An item shown at positions k = 1, 2, ... is clicked with probability
``slope[k] * relevance + offset[k]``. Without trust bias the slope is the propensity, the
probability that position k is examined, and the offset is 0. Summed over the times it was shown,
clicks minus offsets, divided by the sum of the slopes, estimates the relevance without bias (Wang
et al. 2016, Joachims et al. 2017; with offsets, Vardasbi et al. 2020). A ratio of sums has a lower
variance than a sum of click / propensity: one click at a low position cannot outweigh all others.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray, MatrixLike
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.items import Items
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import check_probabilities
from rankwright.exceptions import (
    ClickBiasWarning,
    DataError,
    DegenerateDataWarning,
    FeedbackError,
    Message,
    Setting,
)
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pairs import Pairs

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_MOST_HIDDEN = 0.7  # share of the items of a query that were never shown


@dataclass(frozen=True, eq=False)
class ClickRelevance:
    """The relevance of each row of a feature table, estimated from clicks.

    Attributes
    ----------
    relevance : (n_items,) float64
        The estimate, shrunk towards the expectation for its position; the less evidence, the more
        shrinkage.
    examined : (n_items,) float64
        The evidence: the expected number of times the item was examined; 0 if never shown.
    queries : Queries of the feature table
    weight : (n_items,) float64
        The weight of each row: 1 for items that were shown, else ``unseen``.
    """

    relevance: FloatArray
    examined: FloatArray
    queries: Queries
    weight: FloatArray

    @cached_property
    def feedback(self) -> Grades:
        """Feedback for pairwise rankers: the weight of a pair is the difference of its relevances.

        Rows of weight 0 are in no pair.
        """
        return Grades(self.relevance, self.queries, sample_weight=self.weight, magnitude=True)

    def fit(self, ranker: BaseEstimator, X: MatrixLike, *, qid: ArrayLike | None = None) -> Any:
        """Fit a ranker to weighted pairs if it supports them, otherwise to integer grades.

        ``qid`` is used only with ``normalize="query"`` and defaults to the queries of the table. If
        most items were never shown, a ranker without that normalization is fitted with a warning:
        compare it before use.
        """
        hidden, normalize = self.hidden_share, getattr(ranker, "normalize", None)
        is_hidden_used = bool(self.weight[self.examined == 0].any())
        if hidden > _MOST_HIDDEN and is_hidden_used and normalize != "query":
            warnings.warn(
                f"{hidden:.0%} of the items of these queries were never shown. They count as less "
                f"relevant, but {type(ranker).__name__}(normalize={normalize!r}) may still put "
                "some of them on top. Use RankSVM(normalize='query'), rerank only what the logging "
                "ranker shows, or compare the two online before you switch.",
                ClickBiasWarning,
                stacklevel=2,
            )
        qid = self.queries.ids[self.queries.codes] if qid is None else qid
        return ranker.fit_feedback(X, self.feedback_for(type(ranker)), qid=qid)

    @property
    def hidden_share(self) -> float:
        """The share of the items of the logged queries that were never shown."""
        shown = self.examined > 0
        logged = np.bincount(self.queries.codes, shown, self.queries.n_queries) > 0
        return float(1.0 - shown[logged[self.queries.codes]].mean()) if shown.any() else 0.0

    def feedback_for(self, kind: type[BaseEstimator]) -> Feedback:
        """The feedback in a form that a class of rankers takes."""
        if kind.takes(Pairs):
            return self.feedback if kind._grades_as_pairs else self.feedback.to_pairs()
        used = (self.weight > 0).astype(np.float64)
        return Grades(self.grades(), self.queries, sample_weight=used)

    def grades(self, n_levels: int = 5) -> IntArray:
        """Return integer grades from 0 to n_levels - 1, in equal steps of relevance, for any
        ranker."""
        if n_levels < 2:
            raise FeedbackError(f"n_levels is {n_levels}: give at least two grades.")
        shown = self.relevance[self.weight > 0]
        low, high = np.quantile(shown, [0.0, 0.99]) if len(shown) else (0.0, 0.0)
        step = (high - low) / (n_levels - 1)
        if step <= 0:
            return np.zeros(len(self.relevance), dtype=np.int64)
        grade = np.rint((self.relevance - low) / step)
        return np.clip(grade, 0, n_levels - 1).astype(np.int64)


def click_relevance(
    log: ImpressionLog,
    items: Items,
    propensity: ArrayLike | None = None,
    *,
    offset: ArrayLike | None = None,
    min_propensity: float = 0.01,
    prior: float | None = None,
    unseen: float = 0.0,
) -> ClickRelevance:
    """Estimate the relevance of the items of a feature table from the clicks of a log.

    Parameters
    ----------
    log : ImpressionLog
    items : Items with ids; joined by query and item
    propensity : (n_positions,) the probability that position 1, 2, ... is examined, such as
        ``estimate_propensities`` returns; None uses 1 for all, which leaves the position bias
    offset : (n_positions,) the probability of a click on an irrelevant item (trust bias); then
        ``propensity`` is the slope: the increase of the click probability from relevance 0 to 1
    min_propensity : lower limit to which propensities are clipped
    prior : strength of the shrinkage, in examinations, towards the click rate of the query and the
        mean trend of relevance over positions. With little evidence the order is then that of the
        logged lists. None estimates it (empirical Bayes)
    unseen : the weight of items of these queries that were never shown. With 0 nothing is learned
        about them, and a ranker may put any of them on top; otherwise their relevance is half that
        of the least relevant item shown, as the logging ranker suggests

    Examples
    --------
    An item at position 2, which half of the users examine, got half the clicks of the first:

    >>> log = ImpressionLog.from_arrays(
    ...     ["q"] * 8, ["a", "b"] * 4, [1, 0, 1, 1, 0, 0, 0, 0], position=[1, 2] * 4
    ... )
    >>> items = Items([[1.0], [2.0]], [0, 0], qid=["q", "q"], docid=["a", "b"])
    >>> click_relevance(log, items, propensity=[1.0, 0.5], prior=0.0).relevance
    array([0.5, 0.5])
    """
    row = log.rows_in(items)
    known = row >= 0
    slope, base = _per_position(log, propensity, offset, min_propensity)
    position, row = log.position[known] - 1, row[known]
    n = items.n_items
    examined = np.bincount(row, slope[position], n).astype(np.float64)
    clicks = np.bincount(row, log.clicked[known] - base[position], n).astype(np.float64)
    queries = items.queries
    if not log.clicked.any():
        warnings.warn(
            "the log has no clicks, so there is no order to learn.",
            DegenerateDataWarning,
            stacklevel=2,
        )
    trend = relevance_trend(log, slope, base)
    warn_of_overcorrection(trend)
    expected_clicks = np.bincount(row, slope[position] * _falling(trend.line)[position], n)
    expected = expected_clicks / np.where(examined > 0, examined, 1.0)
    relevance = _shrunk(clicks, examined, expected, queries, prior)
    return _with_unseen(relevance, examined, queries, unseen)


def _with_unseen(
    relevance: FloatArray, examined: FloatArray, queries: Queries, unseen: float
) -> ClickRelevance:
    """The estimate, with items that were never shown below the others of their query."""
    if not 0 <= unseen <= 1:
        raise FeedbackError(f"unseen is {unseen}: give a weight from 0 to 1.")
    shown, codes = examined > 0, queries.codes
    lowest = np.full(queries.n_queries, np.inf)
    np.minimum.at(lowest, codes[shown], relevance[shown])
    is_logged = np.isfinite(lowest)[codes]  # rows of queries that are in the log
    hidden = is_logged & ~shown
    value = np.where(hidden, 0.5 * lowest[codes], relevance) if hidden.any() else relevance
    weight = np.where(shown, 1.0, np.where(is_logged, unseen, 0.0))
    estimate = ClickRelevance(value, examined, queries, weight)
    if unseen == 0 and estimate.hidden_share > _MOST_HIDDEN:
        warnings.warn(
            Message(
                f"{estimate.hidden_share:.0%} of the items of these queries were never shown, and "
                "a ranker trained on the others may put any of them on top. Rerank only what the "
                "logging ranker shows, or pass ",
                Setting("unseen", 0.1),
                " to prefer shown items.",
            ),
            ClickBiasWarning,
            stacklevel=3,
        )
    return estimate


def _per_position(
    log: ImpressionLog, slope: ArrayLike | None, offset: ArrayLike | None, least: float
) -> tuple[FloatArray, FloatArray]:
    """Checked slope and offset for every position of the log."""
    n = log.n_positions
    chance = np.ones(n) if slope is None else np.asarray(slope, dtype=np.float64)
    base = np.zeros(n) if offset is None else np.asarray(offset, dtype=np.float64)
    for name, values in (("propensity", chance), ("offset", base)):
        if values.ndim != 1 or len(values) < n:
            raise FeedbackError(
                f"{name} has {values.size} entries, but position {n} was shown. Give one "
                "probability for each position."
            )
    check_probabilities(chance, "propensity", zero=False, error=FeedbackError)
    check_probabilities(base, "offset", one=False, error=FeedbackError)
    return np.maximum(chance, least), base


def _falling(line: FloatArray) -> FloatArray:
    """The relevance expected at each position; flat where it would rise, and never below 0."""
    flat = np.full(len(line), max(float(line.mean()), 0.0))
    return np.maximum(line, 0.05 * line.max()) if line[-1] < line[0] and line.max() > 0 else flat


def _shrunk(
    clicks: FloatArray,
    examined: FloatArray,
    expected: FloatArray,
    queries: Queries,
    prior: float | None,
) -> FloatArray:
    """clicks / examined, shrunk towards the expectation of the position, within 0 and 1.

    The expectation is scaled to the mean of the query, so that without evidence the order is that
    of the lists as they were shown.
    """
    codes, n = queries.codes, queries.n_queries
    query_clicks = np.maximum(np.bincount(codes, clicks, n), 0.0)
    scale = query_clicks / np.maximum(np.bincount(codes, examined * expected, n), 1e-12)
    mean = np.clip(expected * scale[codes], 0.0, 1.0)
    if prior is None:
        prior = _prior_strength(clicks, examined, mean)
    total = examined + prior
    value = (clicks + prior * mean) / np.where(total > 0, total, 1.0)
    return np.asarray(np.clip(np.where(total > 0, value, mean), 0.0, 1.0))


def _prior_strength(clicks: FloatArray, examined: FloatArray, mean: FloatArray) -> float:
    """How many examinations the expectation m is worth, by the method of moments.

    The squared distance of an item's rate from m is the spread of true relevances plus the noise
    m (1 - m) / examinations; the spread s gives the strength m (1 - m) / s - 1.
    """
    seen = examined > 0
    if not seen.any():
        return 1.0
    n_examined, m = examined[seen], mean[seen]
    noise = m * (1.0 - m)
    excess = np.sum(n_examined * (clicks[seen] / n_examined - m) ** 2 - noise)
    spread = max(excess / n_examined.sum(), 1e-6)
    return float(np.clip(np.average(noise, weights=n_examined) / spread - 1.0, 0.1, 1e4))


def effective_sample_size(weights: ArrayLike) -> float:
    """Number of equally weighted observations with the same variance: (sum w)^2 / sum w^2.

    >>> effective_sample_size([1, 1, 1, 1]), round(effective_sample_size([100, 1, 1, 1]), 2)
    (4.0, 1.06)
    """
    w = np.asarray(weights, dtype=np.float64)
    squares = float(np.sum(w**2))
    return float(np.sum(w)) ** 2 / squares if squares > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted and observed click rates in bins of equally many impressions.

    Attributes
    ----------
    predicted, observed : (n_bins,) mean prediction and share of clicks
    count : (n_bins,) impressions
    error : float, the mean absolute difference, weighted by the counts
    """

    predicted: FloatArray
    observed: FloatArray
    count: FloatArray
    error: float


def calibration(predicted: ArrayLike, clicked: ArrayLike, n_bins: int = 10) -> Calibration:
    """Compare predicted click probabilities with observed clicks; see ``plot.calibration``.

    >>> rng = np.random.default_rng(0)
    >>> chance = rng.random(50_000)
    >>> calibration(chance, rng.random(50_000) < chance).error < 0.02
    True
    """
    chance = np.asarray(predicted, dtype=np.float64)
    clicks = np.asarray(clicked, dtype=np.float64)
    if chance.shape != clicks.shape or chance.ndim != 1 or len(chance) == 0:
        raise DataError(
            f"predicted has shape {chance.shape}, clicked {clicks.shape}: give one of each per "
            "item shown."
        )
    parts = np.array_split(np.argsort(chance, kind="stable"), min(n_bins, len(chance)))
    mean = np.array([chance[part].mean() for part in parts])
    rate = np.array([clicks[part].mean() for part in parts])
    count = np.array([float(len(part)) for part in parts])
    return Calibration(mean, rate, count, float(np.average(np.abs(mean - rate), weights=count)))


class Trend(NamedTuple):
    """A line through the corrected click rates, over log2(1 + position).

    Attributes
    ----------
    line : (n_positions,) the relevance that an item shown there is expected to have
    rises : bool, whether it surely rises down the list, by more than a twentieth of the mean
    """

    line: FloatArray
    rises: bool


def relevance_trend(log: ImpressionLog, slope: FloatArray, offset: FloatArray) -> Trend:
    """How relevance, as the corrections see it, changes down the list."""
    n = log.n_positions
    shown = np.bincount(log.position, minlength=n + 1)[1:].astype(np.float64)
    clicks = np.bincount(log.position, log.clicked, n + 1)[1:]
    rate = (clicks / np.maximum(shown, 1) - offset[:n]) / slope[:n]
    noise = np.sqrt(np.maximum(clicks, 1.0)) / np.maximum(shown, 1.0) / slope[:n]
    weight = np.where(shown > 0, 1.0 / noise**2, 0.0)
    log_position = np.log2(np.arange(2, n + 2))
    mean, center = float(np.average(rate, weights=weight)), np.average(log_position, weights=weight)
    distance = log_position - center
    spread = float(np.sum(weight * distance**2))
    if spread <= 0:
        return Trend(np.full(n, mean), False)
    trend = float(np.sum(weight * distance * rate)) / spread
    rises = trend > 4.0 / np.sqrt(spread) and trend > 0.05 * mean
    # Few clicks say little: rankers in use are better than chance, so a fall is expected.
    fall = 0.2 * max(mean, 1e-6)
    trend = (spread * trend - fall / fall**2) / (spread + 1.0 / fall**2)
    return Trend(mean + trend * distance, rises)


def warn_of_overcorrection(trend: Trend) -> None:
    """Warn when the corrected click rate rises down the list.

    A ranker that is better than chance shows its best items first, so their relevance falls with
    the position. Propensities that are too small at low positions turn this around, and a ranker
    that learns from it reverses the order.
    """
    if trend.rises:
        warnings.warn(
            "after the correction, items shown lower look more relevant than those at the top: the "
            "propensities are too small at low positions (or the logging ranker is worse than "
            "chance). A ranker trained on this reverses the logged order. Estimate the "
            "propensities from the log with estimate_propensities.",
            DegenerateDataWarning,
            stacklevel=3,
        )
