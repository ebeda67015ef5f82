"""How many users take an item, with more weight on recent events."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from rankwright.rankers import schema
from rankwright.rankers.schema import floats
from rankwright.recommend.experts.base import Expert, Scores
from rankwright.recommend.experts.histories import Histories, Rows


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
        weight = None
        if self.half_life is not None and histories.time is not None:
            weight = np.exp2(-histories.share_later / self.half_life)
        counts = np.bincount(histories.item, weight, histories.n_items)
        self.count_ = counts.astype(np.float64)
        return self

    def scores(self, rows: Rows) -> Scores:
        return np.tile(np.sqrt(self.count_).astype(np.float32), (rows.n_rows, 1))
