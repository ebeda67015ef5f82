"""Item neighbors: items taken by the same users, or soon after one another."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.vocabulary import read_only
from rankwright.rankers import schema
from rankwright.rankers.schema import floats32, integers32
from rankwright.recommend.events.base import FLUSHING, Expert, Scores
from rankwright.recommend.events.histories import Histories, HistoryRows
from rankwright.runtime import map_blocks, n_threads, ranges


class ItemCosine(Expert):
    """Items that the same users take: cosine of the columns of the user-item matrix.

    The similarity of an item to a neighbor with n and m users, c of them common, is
    ``c / (n**(1 - discount) * m**discount) * c / (c + shrinkage)``; ``discount=0.5`` is the
    cosine, more takes popular neighbors back. The score of an item is the sum over a history, where
    an item of weight w counts log2(1 + w) if events have types or a half-life.

    An update makes only the changed lists of neighbors, when they are next needed.

    Parameters
    ----------
    n_neighbors : neighbors kept for each item
    shrinkage : pulls similarities of few common users toward 0
    discount : exponent of the neighbor's number of users
    decay : an item k places before the last of a history counts ``decay**k``
    """

    _constraints: ClassVar = {
        "n_neighbors": schema.at_least(1),
        "shrinkage": schema.number(0.0),
        "discount": schema.between(0.0, 1.0),
        "decay": schema.positive(1.0),
    }
    _learned: ClassVar = {
        "neighbor_": integers32("n_items", "n_kept", low=-1, high="n_items"),
        "similarity_": floats32("n_items", "n_kept", low=0.0),
    }
    window = 0

    def __init__(
        self,
        n_neighbors: int = 100,
        shrinkage: float = 10.0,
        discount: float = 0.5,
        decay: float = 1.0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.shrinkage = shrinkage
        self.discount = discount
        self.decay = decay

    def fit(self, histories: Histories) -> Self:
        self._histories = histories
        n_items = histories.n_items
        width = max(1, min(self.n_neighbors, n_items - 1))
        self.neighbor_ = np.full((n_items, width), -1, np.int32)
        self.similarity_ = np.zeros((n_items, width), np.float32)
        self._stale = np.zeros(n_items, bool)
        self._refresh(np.arange(n_items))
        return self

    def _refresh(self, items: IntArray) -> None:
        from rankwright.recommend.events._kernels import Similarity, nearest

        data = self._histories
        pairs = neighbor_pairs(data)
        counts = np.maximum(data.item_counts, 1).astype(np.float64)
        # The row's own exponent is applied below; a constant does not change its order.
        how = Similarity(counts**self.discount, self.shrinkage, self.window)
        out = (self.neighbor_, self.similarity_)
        blocks = ranges(len(items), 8 * n_threads()) if len(items) > 64 else [(0, len(items))]
        map_blocks(lambda block: nearest(pairs, how, items, *block, *out), blocks)
        own = (counts[items] ** (1.0 - self.discount)).astype(np.float32)
        self.similarity_[items] /= own[:, None]
        self._stale[items] = False

    def update(self, histories: Histories, before: Histories, users: IntArray) -> None:
        grown = histories.n_items - len(self.neighbor_)
        if grown or self.neighbor_.shape[1] < min(self.n_neighbors, histories.n_items - 1):
            self.fit(histories)
            return
        self._histories = histories
        old = before.rows.take(users[users < before.n_users]).item
        own = np.concatenate([histories.rows.take(users).item, old])
        self._stale[own] = True
        self._stale[self._occur_with(added_items(histories, before, users))] = True

    def _occur_with(self, items: IntArray) -> IntArray:
        """What the users of some items took: its similarity to these items changes."""
        data = self._histories  # of one event: their users by item would take longer to sort
        entries = np.flatnonzero(np.isin(data.item, items))
        users = np.unique(np.searchsorted(data.ptr, entries, side="right") - 1)
        return np.asarray(data.rows.take(users).item)

    def prepare(self, histories: Histories) -> None:
        super().prepare(histories)
        self._stale = np.zeros(histories.n_items, bool)

    def flush(self, rows: HistoryRows | None = None) -> None:
        if not self._stale.any():
            return
        with FLUSHING:
            needed = np.arange(len(self._stale)) if rows is None else np.unique(rows.item)
            self._refresh(needed[self._stale[needed]].astype(np.int64))

    def scores(self, rows: HistoryRows) -> Scores:
        from rankwright.recommend.events._kernels import add_neighbors

        self.flush(rows)
        scores = np.zeros((rows.n_rows, len(self.neighbor_)), np.float32)
        strong = rows._replace(weight=rows.recent_strength if self.follows_order else rows.strength)
        table = (strong.frozen(), self.decay, self.neighbor_, self.similarity_)
        map_blocks(lambda block: add_neighbors(*table, *block, scores), row_ranges(rows.n_rows))
        return scores

    def contributions(
        self, items: NDArray[np.int32], weight: Scores, item: int, *, weighted: bool = False
    ) -> Scores:
        age = np.arange(len(items))[::-1]
        alone = super().contributions(items, weight, item, weighted=weighted)
        return np.asarray(alone * self.decay**age, np.float32)


class NextItems(ItemCosine):
    """Items that users take soon after an item (sequence neighbors); last items count more.

    As :class:`ItemCosine`, but what counts is an item at most ``window`` places later in a
    history: ``window`` if it is the next one, 1 if it is the last that counts. Where events have
    sessions, an item of an earlier session than the last one counts a tenth in scores.

    Parameters
    ----------
    n_neighbors, shrinkage, discount, decay : as in ItemCosine
    window : how many places later
    """

    follows_order: ClassVar = True
    _constraints: ClassVar = {**ItemCosine._constraints, "window": schema.at_least(1)}

    def __init__(
        self,
        n_neighbors: int = 100,
        shrinkage: float = 10.0,
        discount: float = 0.4,
        decay: float = 0.8,
        window: int = 10,
    ) -> None:
        super().__init__(n_neighbors, shrinkage, discount, decay)
        self.window = window


def neighbor_pairs(histories: Histories) -> Any:
    """The histories by user and by item, for kernels."""
    from rankwright.recommend.events._kernels import EventPairs

    columns: list[NDArray[Any]] = [histories.ptr, histories.item, histories.user]
    return EventPairs(*[read_only(column) for column in [*columns, *histories.by_item]])


def row_ranges(n_rows: int) -> list[tuple[int, int]]:
    return ranges(n_rows, 2 * n_threads()) if n_rows > 16 else [(0, n_rows)]


def added_items(histories: Histories, before: Histories, users: IntArray) -> IntArray:
    """Items that some of these users did not have before."""
    added = []
    for user in users.tolist():
        old = before.rows.row(user)[0] if user < before.n_users else np.zeros(0, np.int32)
        added.append(np.setdiff1d(histories.rows.row(user)[0], old))
    return np.unique(np.concatenate([np.zeros(0, np.int32), *added]))
