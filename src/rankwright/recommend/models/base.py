"""The interface of rating models, and ratings grouped by user or by item."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.parallel import map_blocks
from rankwright.rankers.schema import Constraint, Holds, Learned


class Table(NamedTuple):
    """Ratings in compressed rows: row u is ``other[ptr[u]:ptr[u + 1]]`` with ``value``.

    >>> table = Table.by_user(Ratings.from_arrays(["b", "a", "b"], [7, 7, 8], [1.0, 2.0, 3.0]))
    >>> table.ptr, table.other, table.value
    (array([0, 2, 3]), array([0, 1, 0]), array([1., 3., 2.]))
    """

    ptr: IntArray
    other: IntArray
    value: FloatArray

    @classmethod
    def by_user(cls, ratings: Ratings, value: FloatArray | None = None) -> Table:
        """A row per user; ``value`` replaces the values of the ratings."""
        order = ratings.by_user.order
        value = ratings.value if value is None else value
        return cls(ratings.by_user.ptr, ratings.item[order], value[order])

    @classmethod
    def by_item(cls, ratings: Ratings, value: FloatArray | None = None) -> Table:
        """A row per item."""
        order = ratings.by_item.order
        value = ratings.value if value is None else value
        return cls(ratings.by_item.ptr, ratings.user[order], value[order])

    def row(self, number: int) -> tuple[IntArray, FloatArray]:
        """The others and the values of one row."""
        entries = slice(*self.ptr[number : number + 2])
        return self.other[entries], self.value[entries]

    def sizes(self, numbers: IntArray) -> IntArray:
        """The number of entries of some rows."""
        return np.asarray(self.ptr[numbers + 1] - self.ptr[numbers])

    def rows(self, numbers: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """The entries of some rows: the index into ``numbers``, the other, the value of each.

        >>> Table(np.array([0, 2, 3]), np.array([5, 6, 7]), np.ones(3)).rows(np.array([1, 0]))
        (array([0, 1, 1]), array([7, 5, 6]), array([1., 1., 1.]))
        """
        counts = self.sizes(numbers)
        before = np.cumsum(counts) - counts
        entries = np.repeat(self.ptr[numbers] - before, counts) + np.arange(counts.sum())
        return np.repeat(np.arange(len(numbers)), counts), self.other[entries], self.value[entries]

    def times(self, vectors: FloatArray) -> FloatArray:
        """The sparse matrix of the values times a dense one, on all cores.

        >>> Table(np.array([0, 2, 3]), np.array([0, 1, 1]), np.ones(3)).times(np.eye(2))
        array([[1., 1.],
               [0., 1.]])
        """
        from rankwright.recommend._kernels import add_rows

        total = np.empty((len(self.ptr) - 1, vectors.shape[1]))
        map_blocks(lambda block: add_rows(self, vectors, *block, total), self.blocks())
        return total

    def blocks(self, n_blocks: int = 16) -> list[tuple[int, int]]:
        """Ranges of rows with nearly the same number of entries each.

        >>> Table(np.array([0, 10, 11, 12, 20]), np.zeros(20), np.zeros(20)).blocks(2)
        [(0, 1), (1, 4)]
        """
        ptr = self.ptr
        marks = np.searchsorted(ptr, np.linspace(0, ptr[-1], n_blocks + 1)[1:-1], side="left")
        cuts = np.unique(np.concatenate([[0], marks, [len(ptr) - 1]])).tolist()
        return list(itertools.pairwise(cuts))


class RatingModel(BaseEstimator, ABC):  # type: ignore[misc]
    """A model of all ratings that scores items for any user, given the ratings of that user.

    ``_learned`` declares the attributes that a model file holds. ``prepare`` derives the rest from
    them and the ratings, after fitting and after loading.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {}
    _learned: ClassVar[dict[str, Learned | Holds]] = {}

    @abstractmethod
    def fit(self, ratings: Ratings) -> Self:
        """Learn from all ratings (every pair of user and item at most once)."""

    def refit(self, ratings: Ratings) -> Self:
        """Fit more ratings of the same users and items; may start from the present solution."""
        return self.fit(ratings)

    def prepare(self, ratings: Ratings) -> Self:
        """Derive what scoring needs from the learned attributes and these ratings."""
        return self

    @abstractmethod
    def scores(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        """Scores of ``items`` for a user who gave the items ``rated`` these values.

        Items are numbers, positions in ``ratings.items``. Scores are finite, also for a user
        without ratings.
        """

    @classmethod
    def learned(cls) -> dict[str, Learned | Holds]:
        """Every learned attribute, with what it may be."""
        return dict(cls._learned)

    def check_sizes(self, ratings: Ratings, **sizes: int) -> None:
        """Raise a DataError unless this could have been learned from these ratings."""
        sizes = {"n_users": ratings.n_users, "n_items": ratings.n_items, **sizes}
        for name, declared in self._learned.items():
            declared.check(name, getattr(self, name, None), sizes)
