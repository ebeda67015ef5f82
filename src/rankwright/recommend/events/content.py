"""Features of items and of users: the experts that know new items and new users."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.attributes import Attributes
from rankwright.data.behavior.ratings import Ratings
from rankwright.exceptions import DataError
from rankwright.rankers.schema import floats, floats32, integers, integers32
from rankwright.recommend.events.base import Expert, Scores
from rankwright.recommend.events.histories import Histories, HistoryRows
from rankwright.recommend.ratings.base import biases

N_LIKE = 10  # items whose scores a new item gets
N_USERS = 5.0  # users of an item who weigh as much as the items like it
N_RATINGS = 5.0  # ratings of a user that weigh as much as the users like it


class Content(Expert):
    """Features of items or users: rare ones count more (inverse document frequency), and the
    features of each have length 1."""

    _learned: ClassVar = {
        "idf_": floats("n_columns"),
        "ptr_": integers("n_rows", low=0),
        "column_": integers32("n_stored", low=0, high="n_columns"),
        "value_": floats32("n_stored"),
    }

    def __init__(self) -> None:  # without it, unknown parameters would pass
        super().__init__()

    @staticmethod
    @abstractmethod
    def ids(histories: Histories) -> Any:
        """The ids that have features: of items or of users."""

    def fit(self, histories: Histories, features: Attributes | None = None) -> Self:
        """Learn the features; without any, those of the last fit are kept."""
        if features is not None:
            table = features.rows_of(self.ids(histories))
            n_with = np.bincount(table.indices, minlength=table.shape[1])
            self.idf_ = np.log1p(table.shape[0] / np.maximum(n_with, 1))
            table = table.multiply(self.idf_[None, :]).tocsr()
            length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
            table = table.multiply((1.0 / np.maximum(length, 1e-12))[:, None]).tocsr()
            self.ptr_, self.column_ = table.indptr.astype(np.int64), table.indices.astype(np.int32)
            self.value_ = table.data.astype(np.float32)
        self._prepare(histories)
        return self

    def update(self, histories: Histories, before: Histories, users: IntArray) -> None:
        grown = len(self.ids(histories)) - (len(self.ptr_) - 1)
        self.ptr_ = np.concatenate([self.ptr_, np.full(grown, self.ptr_[-1])])
        self._prepare(histories)

    def prepare(self, histories: Histories) -> None:
        super().prepare(histories)
        if len(self.ptr_) != len(self.ids(histories)) + 1 or self.ptr_[-1] != len(self.value_):
            name = type(self).__name__
            raise DataError(f"{name}.ptr_ does not describe the features of this data.")
        self._prepare(histories)

    def _prepare(self, histories: Histories) -> None:
        from scipy.sparse import csr_array

        shape = (len(self.ptr_) - 1, len(self.idf_))
        self._table = csr_array((self.value_, self.column_, self.ptr_), shape=shape)

    @property
    def has_features(self) -> Any:
        """Which of the ids have features."""
        return np.diff(self.ptr_) > 0


class ItemContent(Content):
    """The average cosine of an item's features with those of the history's items.

    Rare features count more (inverse document frequency), and each item has length 1. An item
    without features scores 0. Updates do not change features; items that come with new events
    have none until the next ``fit``.
    """

    @staticmethod
    def ids(histories: Histories) -> Any:
        return histories.items

    def _prepare(self, histories: Histories) -> None:
        super()._prepare(histories)
        self._counts = histories.item_counts
        self._similar = self._neighbors_of_rare()

    def _neighbors_of_rare(self) -> Any:
        """For items with few users, (n_rare, n_items): the known items most like them."""
        from scipy.sparse import csr_array

        self._rare = np.flatnonzero((self._counts < 4 * N_USERS) & self.has_features)
        parts = []
        for start in range(0, len(self._rare), 256):
            cosine = (self._table[self._rare[start : start + 256]] @ self._table.T).toarray()
            cosine[:, self._counts < N_USERS] = 0.0
            kth = min(N_LIKE, cosine.shape[1]) - 1
            least = -np.partition(-cosine, kth, axis=1)[:, kth]
            parts.append(np.where(cosine >= np.maximum(least, 1e-6)[:, None], cosine, 0.0))
        if not parts:
            return csr_array((0, len(self._counts)), dtype=np.float32)
        near = csr_array(np.concatenate(parts)[:, :]).astype(np.float32)
        size = np.maximum(np.asarray((near > 0).sum(axis=1)).ravel(), 1)
        return near.multiply((1.0 / size)[:, None].astype(np.float32)).tocsr()

    def most_like(self, number: int) -> int:
        """The known item most like an item with few users; the most taken if there is none."""
        row = self._similar[np.flatnonzero(self._rare == number)]
        return int(np.argmax(row.toarray())) if row.nnz else int(np.argmax(self._counts))

    def smooth(self, scores: Scores, *, average: bool = False) -> Any:
        """Items with few users take part of the scores of the known items most like them.

        An item with n users keeps n / (n + 5) of its own score and gets, for the rest, the average
        score of the ten known items most like it, each times its cosine. With ``average`` the
        average is weighted by the cosines, for scores whose 0 means nothing; an item like none
        gets the average of all.
        """
        if len(self._rare):
            share = (N_USERS / (N_USERS + self._counts[self._rare])).astype(np.float32)
            borrowed = np.asarray((self._similar @ scores.T).T)
            if average:
                mass = np.asarray(self._similar.sum(axis=1)).ravel()
                middle = scores[:, self._counts > 0].mean(axis=1, keepdims=True)
                borrowed = np.where(mass > 0, borrowed / np.maximum(mass, 1e-9), middle)
            scores[:, self._rare] = (1.0 - share) * scores[:, self._rare] + share * borrowed
        return scores

    def own_share(self, item: int) -> float:
        """The share of an item's score that ``smooth`` leaves it."""
        if item not in self._rare:
            return 1.0
        return float(1.0 - N_USERS / (N_USERS + self._counts[item]))

    def contributions(
        self, items: NDArray[np.int32], weight: Scores, item: int, *, weighted: bool = False
    ) -> Scores:
        return super().contributions(items, weight, item) / np.float32(max(len(items), 1))

    def scores(self, rows: HistoryRows) -> Scores:
        profile = rows.matrix(self._table.shape[0]) @ self._table
        size = np.maximum(np.diff(rows.ptr), 1)[:, None].astype(np.float32)
        return np.asarray((profile @ self._table.T).toarray() / size, np.float32)


class UserContent(Content):
    """What users with the same features take: popularity among users like the user.

    An item's score is the square root of the sum of the cosines of the user's features with those
    of the users who took it. A user without features scores 0. Updates do not change features;
    users that come with new events have none until the next ``fit``.
    """

    personal: ClassVar = False

    @staticmethod
    def ids(histories: Histories) -> Any:
        return histories.users

    def _prepare(self, histories: Histories) -> None:
        super()._prepare(histories)
        self._taken = (self._table.T @ histories.rows.matrix(histories.n_items)).tocsr()

    def scores(self, rows: HistoryRows) -> Scores:
        if len(rows.user) == 0:
            return np.zeros((rows.n_rows, self._taken.shape[1]), np.float32)
        total = (self._table[rows.user] @ self._taken).toarray()
        return np.asarray(np.sqrt(np.maximum(total, 0.0)), np.float32)


class UserMeans(UserContent):
    """How users with the same features rate an item, beside all users: for ratings.

    The score of an item is the average deviation of its ratings from overall mean, user bias and
    item bias, weighted by the cosine of the features of those who rated it with the user's, and
    shrunk as if five more users of the average deviation 0 were like the user. A user without
    features scores 0.
    """

    def sum_deviations(self, ratings: Ratings) -> None:
        """Sum up the deviations by feature."""
        from scipy.sparse import csr_array

        mean, user, item = biases(ratings)
        rest = ratings.value - mean - user[ratings.user] - item[ratings.item]
        pairs, shape = (ratings.user, ratings.item), (ratings.n_users, ratings.n_items)
        magnitude = abs(self._table)
        self._sum = (self._table.T @ csr_array((rest, pairs), shape=shape)).tocsr()
        # Of cosines below 0 too: |cosine| is at most the sum over features of |product|.
        self._mass = (magnitude.T @ csr_array((np.ones_like(rest), pairs), shape=shape)).tocsr()
        self._n_rated = ratings.user_counts

    def offsets(self, user: int) -> FloatArray:
        """What the scores of all items of a user change by, (n_items,): the fewer ratings the
        user gave, the more."""
        own = self._table[[user]]
        total = (own @ self._sum).toarray()[0]
        mass = (abs(own) @ self._mass).toarray()[0]
        share = N_RATINGS / (N_RATINGS + self._n_rated[user])
        return np.asarray(share * total / (mass + N_USERS))
