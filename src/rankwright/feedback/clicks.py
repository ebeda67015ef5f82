"""Preferences read from clicks: what was clicked, against what was seen and passed over.

A *session* is one list shown to one person. People read from the top, so an item that stands above
a clicked one was most likely seen and rejected; items below the last click may never have been
seen, and say nothing (Joachims 2002). Because items at the top are seen more often, a click
further down is stronger evidence: dividing by the chance that its position is looked at (its
*propensity*) removes that bias (Joachims, Swaminathan, Schnabel 2017).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import frozen_rows
from rankwright.feedback.pairs import Pairs


def position_propensity(n_positions: int, severity: float = 1.0) -> FloatArray:
    """The usual model of attention: position p (from 1) is looked at with chance p ** -severity.

    >>> position_propensity(4)
    array([1.        , 0.5       , 0.33333333, 0.25      ])
    """
    return np.arange(1, n_positions + 1, dtype=np.float64) ** -severity


def skip_above(
    rows: ArrayLike,
    clicked: ArrayLike,
    session: Any = None,
    position: ArrayLike | None = None,
    *,
    propensity: ArrayLike | None = None,
    max_weight: float = 100.0,
) -> Pairs:
    """Every clicked item belongs above the unclicked items shown above it.

    Parameters
    ----------
    rows : (n_shown,) row numbers of X, one for each item shown
    clicked : (n_shown,) whether it was clicked
    session : (n_shown,) ids of any type; None is one session
    position : (n_shown,) 1 = top; None takes the order given within each session
    propensity : chance that position 1, 2, .. is looked at; the weight of a preference is one over
        that of the clicked item, at most ``max_weight`` (rare positions would rule otherwise)

    Examples
    --------
    One list of four items; the third was clicked, so it beats the two above it:

    >>> pairs = skip_above(rows=[10, 11, 12, 13], clicked=[0, 0, 1, 0])
    >>> pairs.lower, pairs.upper
    (array([10, 11]), array([12, 12]))
    """
    shown = _Shown(rows, clicked, session, position)
    return shown.preferences(shown.clicked, propensity, max_weight)


def last_click(
    rows: ArrayLike,
    clicked: ArrayLike,
    session: Any = None,
    position: ArrayLike | None = None,
    *,
    time: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    max_weight: float = 100.0,
) -> Pairs:
    """The last clicked item of a session belongs above the unclicked items shown above it.

    The last click is the one that ended the search. ``time`` says when each click came (the value
    at unclicked items is not read); without it the lowest click counts as the last.

    Examples
    --------
    >>> pairs = last_click(rows=[10, 11, 12, 13], clicked=[0, 1, 0, 1])
    >>> pairs.lower, pairs.upper
    (array([10, 12]), array([13, 13]))
    """
    shown = _Shown(rows, clicked, session, position)
    when = shown.position if time is None else np.asarray(time, dtype=np.float64)[shown.order]
    found = np.flatnonzero(shown.clicked)
    last = found[np.lexsort((found, when[found], shown.session[found]))]
    is_last = np.append(shown.session[last][1:] != shown.session[last][:-1], True)[: len(last)]
    chosen = np.zeros(len(shown.clicked), dtype=bool)
    chosen[last[is_last]] = True
    return shown.preferences(chosen, propensity, max_weight)


class _Shown:
    """Shown items sorted by session, then by position."""

    def __init__(
        self, rows: ArrayLike, clicked: ArrayLike, session: Any, position: ArrayLike | None
    ) -> None:
        row = frozen_rows(rows, "rows")
        n = len(row)
        click = np.asarray(clicked)
        if click.shape != (n,):
            raise FeedbackError(f"clicked has shape {click.shape}, one entry per shown item ({n}).")
        queries = Queries.from_ids(session, n)
        place = np.asarray(np.arange(n) if position is None else position, dtype=np.float64)
        if place.shape != (n,):
            raise FeedbackError(f"position has shape {place.shape}, one per shown item ({n}).")
        self.order: IntArray = np.lexsort((place, queries.codes))
        self.row, self.clicked = row[self.order], click[self.order].astype(bool)
        self.session, self.ids = queries.codes[self.order], queries.ids
        self.start = np.searchsorted(self.session, np.arange(queries.n_queries))
        if position is None:
            place = (np.arange(n) - self.start[self.session] + 1).astype(np.float64)
        else:
            place = place[self.order]
            if n and (not np.isfinite(place).all() or place.min() < 1):
                raise FeedbackError("position must be finite and >= 1: 1 is the top of the list.")
        self.position = place
        # Items at one position stand side by side: where they begin, what stood above them ends.
        new = np.ones(n, dtype=bool)
        new[1:] = (self.session[1:] != self.session[:-1]) | (place[1:] != place[:-1])
        self._level = np.maximum.accumulate(np.where(new, np.arange(n), 0))

    def preferences(self, chosen: Any, propensity: ArrayLike | None, max_weight: float) -> Pairs:
        """The chosen items, each above the unclicked items above it in its session."""
        skipped = ~self.clicked
        before = np.concatenate([[0], np.cumsum(skipped)])  # skipped items before each place
        skipped_at = np.flatnonzero(skipped)
        winner = np.flatnonzero(chosen)
        first, stop = before[self.start[self.session[winner]]], before[self._level[winner]]
        counts = stop - first
        repeated = np.repeat(np.arange(len(winner)), counts)
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        loser = skipped_at[np.repeat(first, counts) + offset]
        upper = winner[repeated]
        keep = self.row[loser] != self.row[upper]  # an item shown twice cannot beat itself
        upper, loser = upper[keep], loser[keep]
        weight = self._weights(upper, propensity, max_weight)
        return Pairs(self.row[loser], self.row[upper], weight, query=self.ids[self.session[upper]])

    def _weights(
        self, places: IntArray, propensity: ArrayLike | None, max_weight: float
    ) -> FloatArray | None:
        if propensity is None:
            return None
        chance = np.asarray(propensity, dtype=np.float64)
        if chance.ndim != 1 or not ((chance > 0) & (chance <= 1)).all():
            raise FeedbackError("propensity must hold one chance, 0 < p <= 1, for each position.")
        at = self.position[places].astype(np.int64)
        if len(at) and at.max() > len(chance):
            raise FeedbackError(
                f"propensity has {len(chance)} positions and a click came at position {at.max()}."
            )
        return np.minimum(1.0 / chance[at - 1], max_weight)
