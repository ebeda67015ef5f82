"""Rating models: their interface, ratings by user or by item, and averages."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.ratings import Ratings
from rankwright.rankers.schema import Constraint, Holds, Learned, floats, real
from rankwright.runtime import map_blocks

FEW_ENTRIES = 5_000  # ratings below which threads cost more than they save


class RatingRows(NamedTuple):
    """Ratings in compressed rows: row u has ``other[ptr[u]:ptr[u + 1]]`` and such ``value``.

    >>> table = RatingRows.by_user(Ratings.from_arrays(["b", "a", "b"], [7, 7, 8], [1.0, 2.0, 3.0]))
    >>> table.ptr, table.other, table.value
    (array([0, 2, 3]), array([0, 1, 0]), array([1., 3., 2.]))
    """

    ptr: IntArray
    other: IntArray
    value: FloatArray

    @classmethod
    def by_user(cls, ratings: Ratings, value: FloatArray | None = None) -> RatingRows:
        """A row per user; ``value`` replaces the values of the ratings."""
        rows, value = ratings.by_user, ratings.value if value is None else value
        return cls(rows.ptr, ratings.item[rows.order], value[rows.order])

    @classmethod
    def by_item(cls, ratings: Ratings, value: FloatArray | None = None) -> RatingRows:
        """A row per item."""
        rows, value = ratings.by_item, ratings.value if value is None else value
        return cls(rows.ptr, ratings.user[rows.order], value[rows.order])

    def row(self, number: int) -> tuple[IntArray, FloatArray]:
        entries = slice(*self.ptr[number : number + 2])
        return self.other[entries], self.value[entries]

    def sizes(self, numbers: IntArray) -> IntArray:
        return np.asarray(self.ptr[numbers + 1] - self.ptr[numbers])

    def rows(self, numbers: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """The entries of some rows: the index into ``numbers``, the other, the value of each.

        >>> RatingRows(np.array([0, 2, 3]), np.array([5, 6, 7]), np.ones(3)).rows(np.array([1, 0]))
        (array([0, 1, 1]), array([7, 5, 6]), array([1., 1., 1.]))
        """
        counts = self.sizes(numbers)
        before = np.cumsum(counts) - counts
        entries = np.repeat(self.ptr[numbers] - before, counts) + np.arange(counts.sum())
        return np.repeat(np.arange(len(numbers)), counts), self.other[entries], self.value[entries]

    def times(self, vectors: FloatArray) -> FloatArray:
        """The sparse matrix of the values times a dense one, on all cores.

        >>> RatingRows(np.array([0, 2, 3]), np.array([0, 1, 1]), np.ones(3)).times(np.eye(2))
        array([[1., 1.],
               [0., 1.]])
        """
        from rankwright.recommend.ratings._kernels import add_rows

        total = np.empty((len(self.ptr) - 1, vectors.shape[1]))
        self.map(lambda block: add_rows(self, vectors, *block, total))
        return total

    def map(self, function: Callable[[tuple[int, int]], object]) -> None:
        """Call a function of ranges of rows, on several threads if there are many entries."""
        map_blocks(function, self.blocks(), 1 if len(self.other) < FEW_ENTRIES else None)

    def blocks(self, n_blocks: int = 16) -> list[tuple[int, int]]:
        """Ranges of rows with nearly the same number of entries each.

        >>> RatingRows(np.array([0, 10, 11, 12, 20]), np.zeros(20), np.zeros(20)).blocks(2)
        [(0, 1), (1, 4)]
        """
        ptr = self.ptr
        marks = np.searchsorted(ptr, np.linspace(0, ptr[-1], n_blocks + 1)[1:-1], side="left")
        cuts = np.unique(np.concatenate([[0], marks, [len(ptr) - 1]])).tolist()
        return list(itertools.pairwise(cuts))


class Reasons(NamedTuple):
    """What a model says about the score of one item, in numbers of users and ratings."""

    users: IntArray = np.zeros(0, np.int64)  # other users who rated the item
    points: FloatArray = np.zeros(0)  # their ratings
    weight: FloatArray = np.zeros(0)  # their agreement with the user, or what their rating adds
    rated: IntArray = np.zeros(0, np.int64)  # which of the user's own ratings matter
    added: FloatArray = np.zeros(0)  # what they add


class RatingModel(BaseEstimator, ABC):  # type: ignore[misc]
    """A model of all ratings that scores items for any user, given the ratings of that user."""

    _constraints: ClassVar[dict[str, Constraint]] = {}
    _learned: ClassVar[dict[str, Learned | Holds]] = {}

    @abstractmethod
    def fit(self, ratings: Ratings) -> Self:
        """Learn from all ratings (every pair of user and item at most once)."""

    def refit(self, ratings: Ratings) -> Self:
        """Fit more ratings of the same users and items; may start from the present solution."""
        return self.fit(ratings)

    def prepare(self, ratings: Ratings) -> Self:
        """After fitting or loading: derive what scoring needs from ``_learned`` and ratings."""
        return self

    @abstractmethod
    def scores(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        """Finite scores of ``items`` for a user who gave the items ``rated`` these values."""

    @classmethod
    def learned(cls) -> dict[str, Learned | Holds]:
        return dict(cls._learned)

    def check_sizes(self, ratings: Ratings, **sizes: int) -> None:
        """Raise a DataError unless this could have been learned from these ratings."""
        sizes = {"n_users": ratings.n_users, "n_items": ratings.n_items, **sizes}
        for name, declared in self._learned.items():
            declared.check(name, getattr(self, name, None), sizes)


class ItemMeans(RatingModel):
    """Item averages, corrected for user biases and shrunk toward the overall mean.

    >>> ratings = Ratings.from_arrays([1, 1, 2, 2], ["A", "B", "A", "B"], [5, 3, 4, 2])
    >>> ItemMeans().fit(ratings).scores(np.zeros(0, int), np.zeros(0), np.array([0, 1])).round(2)
    array([3.79, 3.21])
    """

    _learned: ClassVar = {"mean_": real(), "item_bias_": floats("n_items")}

    def fit(self, ratings: Ratings) -> Self:
        self.mean_, _, self.item_bias_ = biases(ratings)
        return self

    def scores(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        return self.mean_ + self.item_bias_[items]


def biases(
    ratings: Ratings, item_damping: float = 5.0, user_damping: float = 10.0, max_iter: int = 5
) -> tuple[float, FloatArray, FloatArray]:
    """Fit rating = mean + user bias + item bias, with biases shrunk toward 0."""
    mean = float(ratings.value.mean()) if len(ratings) else 0.0
    user, item = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    rest = ratings.value - mean
    for _ in range(max_iter):
        total = np.bincount(ratings.item, rest - user[ratings.user], ratings.n_items)
        item = total / (ratings.item_counts + item_damping)
        total = np.bincount(ratings.user, rest - item[ratings.item], ratings.n_users)
        user = total / (ratings.user_counts + user_damping)
    return mean, user, item


class Biased(RatingModel):
    """A model of deviations from mean, user bias and item bias."""

    mean_: float
    item_bias_: FloatArray  # (n_items,)

    def user_bias(self, rated: IntArray, value: FloatArray) -> float:
        """The bias of a user with these ratings, shrunk as in ``biases``."""
        return float((value - self.mean_ - self.item_bias_[rated]).sum()) / (len(value) + 10.0)
