"""Preferences from clicks: a clicked item is preferred to items that were seen and skipped.

Use these rules for lists that were shown in random order. When one ranker made all lists, every
pair contradicts the order it showed, and a ranker that learns from them alone reverses that order;
``fit_feedback`` warns about it. In that case, use ``click_relevance``.

A *session* is one list shown to one user. Users read from the top: an item above a click was
probably seen and rejected, while items below the last click carry no information (Joachims 2002).
Clicks further down are stronger evidence, because fewer users look there: dividing by the
probability
that the position is examined (its *propensity*) removes that bias (Joachims et al. 2017).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import check_probabilities
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import frozen_rows
from rankwright.feedback.pairs import Pairs


def position_propensity(n_positions: int, severity: float = 1.0) -> FloatArray:
    """Power-law position bias: position p (from 1) is examined with probability p ** -severity.

    >>> position_propensity(4)
    array([1.        , 0.5       , 0.33333333, 0.25      ])
    """
    return np.arange(1, n_positions + 1, dtype=np.float64) ** -severity


def skip_above(
    rows: ArrayLike,
    clicked: ArrayLike,
    session: ArrayLike | None = None,
    position: ArrayLike | None = None,
    *,
    propensity: ArrayLike | None = None,
    max_weight: float = 100.0,
) -> Pairs:
    """Prefer each clicked item to the unclicked items shown above it.

    Parameters
    ----------
    rows : (n_shown,) row numbers of X, one for each item shown
    clicked : (n_shown,) whether it was clicked
    session : (n_shown,) ids of any type; None is one session
    position : (n_shown,) 1 = top; None uses the order given within each session
    propensity : probability that position 1, 2, .. is examined; the weight of a pair is 1 / that of
        its click
    max_weight : the largest weight of a pair, so that clicks far down do not dominate

    Examples
    --------
    One list of four items; the third was clicked, so it belongs above the first two:

    >>> pairs = skip_above(rows=[10, 11, 12, 13], clicked=[0, 0, 1, 0])
    >>> pairs.lower, pairs.upper
    (array([10, 11]), array([12, 12]))
    """
    shown = _Impressions(rows, clicked, session, position)
    return shown.preferences(shown.clicked, propensity, max_weight)


def last_click(
    rows: ArrayLike,
    clicked: ArrayLike,
    session: ArrayLike | None = None,
    position: ArrayLike | None = None,
    *,
    time: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    max_weight: float = 100.0,
) -> Pairs:
    """Prefer the last clicked item of a session to the unclicked items shown above it.

    ``time`` is the time of each click (unclicked items are ignored); without it the lowest click
    counts as the last. The other parameters are as in :func:`skip_above`.

    Examples
    --------
    >>> pairs = last_click(rows=[10, 11, 12, 13], clicked=[0, 1, 0, 1])
    >>> pairs.lower, pairs.upper
    (array([10, 12]), array([13, 13]))
    """
    shown = _Impressions(rows, clicked, session, position)
    when = shown.position if time is None else np.asarray(time, dtype=np.float64)[shown.order]
    clicks = np.flatnonzero(shown.clicked)
    clicks = clicks[np.lexsort((clicks, when[clicks], shown.session[clicks]))]
    is_last = np.ones(len(clicks), bool)
    is_last[:-1] = shown.session[clicks[1:]] != shown.session[clicks[:-1]]
    chosen = np.zeros(len(shown.clicked), dtype=bool)
    chosen[clicks[is_last]] = True
    return shown.preferences(chosen, propensity, max_weight)


class SkippedPairs(Pairs):
    """Pairs of a click and the items skipped above it.

    ``contrary`` is the share of the pairs whose clicked item was shown lower on average, over all
    sessions: about one half when lists were shuffled, one when a single ranker made them.
    """

    contrary: float

    def concerns(self) -> Iterator[str]:
        if self.n_pairs >= _MANY and self.contrary > 0.9:
            yield (
                f"{self.contrary:.0%} of the {self.n_pairs:,} pairs of clicked and skipped items "
                "contradict the order in which they were shown: a ranker that learns from them "
                "alone reverses that order. Use click_relevance(log, items, propensity).feedback, "
                "shuffle some of the lists, or add judgments of more weight."
            )


_MANY = 50  # with fewer pairs, one direction may be chance


class _Impressions:
    """Shown items sorted by session, then by position."""

    def __init__(
        self,
        rows: ArrayLike,
        clicked: ArrayLike,
        session: ArrayLike | None,
        position: ArrayLike | None,
    ) -> None:
        row = frozen_rows(rows, "rows")
        n = len(row)
        click = _one_per_item(clicked, n, "clicked")
        queries = Queries.from_ids(session, n)
        given = _one_per_item(np.arange(n) if position is None else position, n, "position")
        given = given.astype(np.float64)
        self.order: IntArray = np.lexsort((given, queries.codes))
        self.row, self.clicked = row[self.order], click[self.order].astype(bool)
        self.session, self.ids = queries.codes[self.order], queries.ids
        self.start = np.searchsorted(self.session, np.arange(queries.n_queries))
        if position is None:
            self.position = np.arange(n) - self.start[self.session] + 1.0
        else:
            self.position = given[self.order]
            bad = ~(np.isfinite(given) & (given >= 1))
            if bad.any():
                entry = int(np.argmax(bad))
                raise FeedbackError(
                    f"position[{entry}] is {given[entry]:g}: positions are finite numbers >= 1, "
                    "where 1 is the top of the list."
                )
        # Items at one position are side by side: the items above them end where they begin.
        new = np.ones(n, dtype=bool)
        new[1:] = (np.diff(self.session) != 0) | (np.diff(self.position) != 0)
        self._level = np.maximum.accumulate(np.where(new, np.arange(n), 0))

    def preferences(
        self, chosen: BoolArray, propensity: ArrayLike | None, max_weight: float
    ) -> Pairs:
        """The chosen items, each above the unclicked items above it."""
        skipped = np.flatnonzero(~self.clicked)
        before = np.concatenate([[0], np.cumsum(~self.clicked)])  # skipped items before each item
        winner = np.flatnonzero(chosen)
        first, stop = before[self.start[self.session[winner]]], before[self._level[winner]]
        counts = stop - first
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        lower = skipped[np.repeat(first, counts) + offset]
        upper = np.repeat(winner, counts)
        keep = self.row[lower] != self.row[upper]  # an item shown twice cannot beat itself
        lower, upper = lower[keep], upper[keep]
        weight = self._weights(upper, propensity, max_weight)
        low, up, query = self.row[lower], self.row[upper], self.ids[self.session[upper]]
        pairs = SkippedPairs(low, up, weight, query=query)
        mean = np.bincount(self.row, self.position) / np.maximum(np.bincount(self.row), 1)
        contrary = float(np.mean(mean[up] > mean[low])) if len(up) else 0.0
        object.__setattr__(pairs, "contrary", contrary)
        return pairs

    def _weights(
        self, upper: IntArray, propensity: ArrayLike | None, max_weight: float
    ) -> FloatArray | None:
        if propensity is None:
            return None
        chance = np.asarray(propensity, dtype=np.float64)
        if chance.ndim != 1:
            raise FeedbackError(
                f"propensity has shape {chance.shape}: give one probability for each position."
            )
        check_probabilities(chance, "propensity", zero=False, error=FeedbackError)
        position = self.position[upper].astype(np.int64)
        if len(position) and position.max() > len(chance):
            raise FeedbackError(
                f"propensity has {len(chance)} positions, but position {position.max()} was "
                "clicked. Give one probability for each position shown."
            )
        return np.minimum(1.0 / chance[position - 1], max_weight)


def _one_per_item(values: ArrayLike, n: int, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (n,):
        raise FeedbackError(f"{name} has shape {array.shape}; give one entry per shown item ({n}).")
    return array
