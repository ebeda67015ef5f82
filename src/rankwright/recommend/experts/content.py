"""Items like those of the history, by their features: the only expert that knows new items."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from rankwright.data.features import Features
from rankwright.exceptions import DataError
from rankwright.rankers.schema import floats, floats32, integers, integers32
from rankwright.recommend.experts.base import Expert, Scores
from rankwright.recommend.experts.histories import Histories, Rows

N_LIKE = 10  # items whose scores a new item gets
N_USERS = 5.0  # users of an item who weigh as much as the items like it


class ItemContent(Expert):
    """The average cosine of an item's features with those of the history's items.

    Rare features count more (inverse document frequency), and each item has length 1. An item
    without features scores 0. Updates do not change features; items that come with new events
    have none until the next ``fit``.
    """

    _learned: ClassVar = {
        "idf_": floats("n_columns"),
        "ptr_": integers("n_rows", low=0),
        "column_": integers32("n_stored", low=0, high="n_columns"),
        "value_": floats32("n_stored"),
    }

    def fit(self, histories: Histories, features: Features | None = None) -> Self:
        """Learn the features; without any, those of the last fit are kept."""
        if features is not None:
            table = features.rows_of(histories.items)
            n_with = np.bincount(table.indices, minlength=table.shape[1])
            self.idf_ = np.log1p(table.shape[0] / np.maximum(n_with, 1))
            table = table.multiply(self.idf_[None, :]).tocsr()
            length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
            table = table.multiply((1.0 / np.maximum(length, 1e-12))[:, None]).tocsr()
            self.ptr_, self.column_ = table.indptr.astype(np.int64), table.indices.astype(np.int32)
            self.value_ = table.data.astype(np.float32)
        self._prepare(histories)
        return self

    def update(self, histories: Histories, before: Histories, users: Any) -> None:
        grown = histories.n_items - (len(self.ptr_) - 1)
        self.ptr_ = np.concatenate([self.ptr_, np.full(grown, self.ptr_[-1])])
        self._prepare(histories)

    def prepare(self, histories: Histories) -> None:
        super().prepare(histories)
        if len(self.ptr_) != histories.n_items + 1 or self.ptr_[-1] != len(self.value_):
            raise DataError("ItemContent.ptr_ does not describe the features of these items.")
        self._prepare(histories)

    def _prepare(self, histories: Histories) -> None:
        from scipy.sparse import csr_array

        shape = (histories.n_items, len(self.idf_))
        self._table = csr_array((self.value_, self.column_, self.ptr_), shape=shape)
        self._counts = histories.item_counts
        self._proxies = self._like_new_items()

    def _like_new_items(self) -> Any:
        """For items with few users, (n_few, n_items): the known items most like them."""
        from scipy.sparse import csr_array

        self._few = np.flatnonzero((self._counts < 4 * N_USERS) & (np.diff(self.ptr_) > 0))
        parts = []
        for start in range(0, len(self._few), 256):
            cosine = (self._table[self._few[start : start + 256]] @ self._table.T).toarray()
            cosine[:, self._counts < N_USERS] = 0.0
            kth = min(N_LIKE, cosine.shape[1]) - 1
            least = -np.partition(-cosine, kth, axis=1)[:, kth]
            parts.append(np.where(cosine >= np.maximum(least, 1e-6)[:, None], cosine, 0.0))
        if not parts:
            return csr_array((0, len(self._counts)), dtype=np.float32)
        near = csr_array(np.concatenate(parts)[:, :]).astype(np.float32)
        size = np.maximum(np.asarray((near > 0).sum(axis=1)).ravel(), 1)
        return near.multiply((1.0 / size)[:, None].astype(np.float32)).tocsr()

    def lend(self, scores: Scores) -> Scores:
        """Items with few users take part of the scores of the known items most like them.

        An item with n users keeps n / (n + 5) of its own score and gets, for the rest, the average
        score of the ten known items most like it, each times its cosine.
        """
        if len(self._few):
            share = (N_USERS / (N_USERS + self._counts[self._few])).astype(np.float32)
            lent = np.asarray((self._proxies @ scores.T).T)
            scores[:, self._few] = (1.0 - share) * scores[:, self._few] + share * lent
        return scores

    def scores(self, rows: Rows) -> Scores:
        profile = rows.matrix(self._table.shape[0]) @ self._table
        size = np.maximum(np.diff(rows.ptr), 1)[:, None].astype(np.float32)
        return np.asarray((profile @ self._table.T).toarray() / size, np.float32)
