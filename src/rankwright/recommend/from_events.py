"""Lists, scores and reasons of a recommender that learned from events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError
from rankwright.recommend.experts.histories import Histories, Rows
from rankwright.recommend.explanations import EventExplanation, Recommendation, Taken, as_list
from rankwright.recommend.lists import POOL, Selection
from rankwright.recommend.topn import CELLS, TopN


class FromEvents:
    """What a recommender does with histories: rank the whole catalog for each.

    Parameters
    ----------
    data : Histories
    model : TopN
    titles : (n_items,) texts or None
    """

    def __init__(self, data: Histories, model: TopN, titles: Any = None) -> None:
        self.data, self.model, self.titles = data, model, titles
        self.known_items = model.known_items()

    @property
    def block_size(self) -> int:
        """Users whose lists are made at once."""
        return max(1, min(256, CELLS // max(self.data.n_items, 1)))

    def known(self, numbers: IntArray) -> Rows:
        """The histories of users of the data."""
        return self.data.rows.take(np.asarray(numbers, np.int64))

    def new(self, items: IntArray, weight: FloatArray, given: Mapping[Any, float]) -> Rows:
        """The history of a new user."""
        if (weight <= 0).any():
            bad = list(given)[int(np.argmax(weight <= 0))]
            raise DataError(f"item {bad!r} has the weight {given[bad]!r}: give weights > 0.")
        ptr = np.array([0, len(items)])
        return Rows(ptr, items.astype(np.int32), weight.astype(np.float32))

    def scores(self, history: Rows, items: IntArray) -> FloatArray:
        """Scores of some items for one history."""
        return np.asarray(self.model.scores(history)[0, items], np.float64)

    def lists(self, histories: Rows, n: int, chosen: Selection) -> list[list[Recommendation]]:
        """The best items for each history."""
        scores = self.model.scores(histories)
        hidden = np.flatnonzero(~(chosen.allowed & self.known_items))
        scores[:, hidden] = -np.inf
        if chosen.exclude_taken:
            row = np.repeat(np.arange(histories.n_rows), np.diff(histories.ptr))
            scores[row, histories.item] = -np.inf
        pool = n if chosen.is_plain else POOL * n
        if chosen.filter.max_per_category is not None:
            pool = scores.shape[1]
        best = self.model.best(scores, min(pool, scores.shape[1]))
        if chosen.is_plain:
            return self._plain(scores, best)
        lists = []
        for row, ranked in zip(scores, best, strict=True):
            picked = ranked[ranked >= 0]
            picked = chosen.pick(picked, row[picked], n)
            lists.append(as_list(self.data.items[picked].tolist(), row[picked].tolist()))
        return lists

    def _plain(self, scores: Any, best: NDArray[np.int64]) -> list[list[Recommendation]]:
        size = (best >= 0).sum(axis=1).tolist()
        ids = self.data.items[np.maximum(best, 0)].tolist()
        values = np.take_along_axis(scores, np.maximum(best, 0), axis=1).tolist()
        return [as_list(i[:k], v[:k]) for i, v, k in zip(ids, values, size, strict=True)]

    def likeness(self, number: int) -> FloatArray | None:
        """How like an item all items are by the experts; None if none looks at the history."""
        if not any(expert.personal for expert in self.model.experts_):
            return None
        rows = Rows(np.array([0, 1]), np.array([number], np.int32), np.ones(1, np.float32))
        return np.asarray(self.model.scores(rows, personal=True)[0], np.float64)

    def explain(self, history: Rows, number: int, n: int) -> EventExplanation:
        """The part of each expert, and the n items of the history that add most."""
        taken = history.row(0)[0]
        score = float(self.scores(history, np.array([number]))[0])
        parts, added = self.model.parts(history, number)
        first = [at for at in np.argsort(-added, kind="stable")[:n] if added[at] > 0]
        ids = self.data.items[taken[first]].tolist() if first else []
        titles = {}
        if self.titles is not None:
            named = [number, *(int(taken[at]) for at in first)]
            keys = self.data.items[named].tolist()
            titles = dict(zip(keys, self.titles[named].tolist(), strict=True))
        reasons = tuple(map(Taken, ids, added[first].tolist()))
        item = self.data.items[[number]].tolist()[0]
        return EventExplanation(item, score, parts, reasons, titles)
