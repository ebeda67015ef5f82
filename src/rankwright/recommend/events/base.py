"""The interface of experts, and the simplest one: popularity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import RLock
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from rankwright._typing import IntArray
from rankwright.rankers import schema
from rankwright.rankers.foreign_names import ExplainsParameters
from rankwright.rankers.schema import Constraint, Holds, Learned, floats
from rankwright.recommend.events.histories import Histories, HistoryRows

Scores = NDArray[np.float32]
FLUSHING = RLock()  # one thread at a time does the pending work of updates


class Expert(ExplainsParameters, BaseEstimator, ABC):  # type: ignore[misc]
    """A model of all histories that scores every item for any history.

    ``update`` follows new events. With ``exact`` the updated expert is bit for bit the one that
    ``fit`` would make of all events; otherwise its docstring says what stays behind.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {}
    _learned: ClassVar[dict[str, Learned | Holds]] = {}
    exact: ClassVar[bool] = True
    personal: ClassVar[bool] = True  # whether scores depend on the history
    follows_order: ClassVar[bool] = False  # whether items of earlier sessions count less

    @abstractmethod
    def fit(self, histories: Histories) -> Self:
        """Learn from all histories."""

    def refit(self, histories: Histories) -> None:
        """Fit again on histories that differ a little; an iteration may start where it ended."""
        self.fit(histories)

    def update(self, histories: Histories, before: Histories, users: IntArray) -> None:
        """Follow the histories of some users, which changed from ``before``."""
        self.fit(histories)

    def prepare(self, histories: Histories) -> None:
        """After loading: check sizes, and derive what scoring needs."""
        self._histories = histories
        sizes = {"n_users": histories.n_users, "n_items": histories.n_items}
        for name, declared in self._learned.items():
            declared.check(name, getattr(self, name, None), sizes)

    def flush(self, rows: HistoryRows | None = None) -> None:
        """Do the pending work of updates: what these rows need, or (None) all of it."""

    @abstractmethod
    def scores(self, rows: HistoryRows) -> Scores:
        """Finite scores, (n_rows, n_items) float32; 0 where nothing is known."""

    def contributions(
        self, items: NDArray[np.int32], weight: Scores, item: int, *, weighted: bool = False
    ) -> Scores:
        """What each item of a history adds to the score of an item."""
        columns = (np.arange(len(items) + 1), items, np.asarray(weight, np.float32))
        return self.scores(HistoryRows(*columns, weighted=weighted))[:, item]

    @classmethod
    def learned(cls) -> dict[str, Learned | Holds]:
        return dict(cls._learned)


class Popularity(Expert):
    """The square root of the number of users of each item, where an event counts half after each
    half-life.

    Parameters
    ----------
    half_life : the share of all events after which an event counts half: with 0.1, one that a
        tenth of the events came after; None counts all alike, and so do data without times
    """

    personal: ClassVar = False
    _constraints: ClassVar = {"half_life": schema.optional(schema.positive())}
    _learned: ClassVar = {"count_": floats("n_items", low=0.0)}

    def __init__(self, half_life: float | None = 0.1) -> None:
        self.half_life = half_life

    def fit(self, histories: Histories) -> Self:
        self._pending: Histories | None = None
        weight = None
        if self.half_life is not None and histories.time is not None:
            weight = np.exp2(-histories.share_later / self.half_life)
        counts = np.bincount(histories.item, weight, histories.n_items)
        self.count_ = counts.astype(np.float64)
        return self

    def update(self, histories: Histories, before: Histories, users: IntArray) -> None:
        self._pending = histories

    def prepare(self, histories: Histories) -> None:
        super().prepare(histories)
        self._pending = None

    def flush(self, rows: HistoryRows | None = None) -> None:
        with FLUSHING:
            if self._pending is not None:
                self.fit(self._pending)

    def scores(self, rows: HistoryRows) -> Scores:
        self.flush()
        return np.tile(np.sqrt(self.count_).astype(np.float32), (rows.n_rows, 1))
