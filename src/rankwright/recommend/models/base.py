"""What an expert is, and the ratings in the two orders that experts read them in."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.parallel import map_blocks
from rankwright.rankers.schema import Constraint, Holds, Learned


@dataclass(frozen=True, eq=False)
class Table:
    """Ratings grouped by row: those of row u are ``other[ptr[u]:ptr[u + 1]]`` with ``value``.

    >>> table = Table.by_user(Ratings.from_arrays(["b", "a", "b"], [7, 7, 8], [1.0, 2.0, 3.0]))
    >>> table.ptr, table.other, table.value
    (array([0, 2, 3]), array([0, 1, 0]), array([1., 3., 2.]))
    """

    ptr: IntArray
    other: IntArray
    value: FloatArray

    @classmethod
    def by_user(cls, ratings: Ratings) -> Table:
        order = ratings.by_user.order
        return cls(ratings.by_user.ptr, ratings.item[order], ratings.value[order])

    @classmethod
    def by_item(cls, ratings: Ratings) -> Table:
        order = ratings.by_item.order
        return cls(ratings.by_item.ptr, ratings.user[order], ratings.value[order])

    def row(self, number: int) -> tuple[IntArray, FloatArray]:
        """The others and the values of one row."""
        entries = slice(*self.ptr[number : number + 2])
        return self.other[entries], self.value[entries]

    def rows_of(self, numbers: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """The entries of some rows: the place in ``numbers``, the other, the value of each.

        >>> Table(np.array([0, 2, 3]), np.array([5, 6, 7]), np.ones(3)).rows_of(np.array([1, 0]))
        (array([0, 1, 1]), array([7, 5, 6]), array([1., 1., 1.]))
        """
        counts = self.sizes[numbers]
        before = np.cumsum(counts) - counts
        entries = np.repeat(self.ptr[numbers] - before, counts) + np.arange(counts.sum())
        place = np.repeat(np.arange(len(numbers)), counts)
        return place, self.other[entries], self.value[entries]

    def times(self, vectors: FloatArray) -> FloatArray:
        """The sparse matrix of the values times a dense one, on all cores.

        >>> Table(np.array([0, 2, 3]), np.array([0, 1, 1]), np.ones(3)).times(np.eye(2))
        array([[1., 1.],
               [0., 1.]])
        """
        from rankwright.recommend import _kernels

        total = np.empty((self.n_rows, vectors.shape[1]))
        map_blocks(
            lambda block: _kernels.add_rows(
                self.ptr, self.other, self.value, vectors, *block, total
            ),
            blocks_of(self.ptr),
        )
        return total

    @property
    def n_rows(self) -> int:
        return len(self.ptr) - 1

    @cached_property
    def sizes(self) -> IntArray:
        """The number of entries of each row."""
        return np.diff(self.ptr)


class Expert(BaseEstimator, ABC):  # type: ignore[misc]
    """Fitted on all ratings, it scores any items for anybody who rated some.

    ``_learned`` declares what a model file holds of it (attributes ending in ``_``); what follows
    from that and the ratings is laid out by ``ready``, after fitting and after loading.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {}
    _learned: ClassVar[dict[str, Learned | Holds]] = {}

    @abstractmethod
    def fit(self, ratings: Ratings) -> Self:
        """Learn from all ratings (every pair of user and item at most once)."""

    def refit(self, ratings: Ratings) -> Self:
        """Learn anew from more ratings of the same users and items; may begin at what it knows."""
        return self.fit(ratings)

    def ready(self, ratings: Ratings) -> Self:
        """Lay out for scoring what was learned from these ratings."""
        return self

    @abstractmethod
    def scores(self, rated: IntArray, value: FloatArray, wanted: IntArray) -> FloatArray:
        """Scores of the items ``wanted`` for somebody who gave the items ``rated`` these values.

        Items are numbers, places in ``ratings.items``; higher comes first. Finite for any input,
        an empty one too.
        """

    @classmethod
    def learned(cls) -> dict[str, Learned | Holds]:
        """Every learned attribute, with what it may be."""
        return dict(cls._learned)

    def check_sizes(self, ratings: Ratings) -> None:
        """Raise a DataError unless this could have been learned from these ratings."""
        sizes = {"n_users": ratings.n_users, "n_items": ratings.n_items}
        for name, declared in self._learned.items():
            declared.check(name, getattr(self, name, None), sizes)


def blocks_of(ptr: IntArray, n_blocks: int = 16) -> list[tuple[int, int]]:
    """Ranges of rows with nearly the same number of entries each.

    >>> blocks_of(np.array([0, 10, 11, 12, 20]), 2)
    [(0, 1), (1, 4)]
    """
    marks = np.searchsorted(ptr, np.linspace(0, ptr[-1], n_blocks + 1)[1:-1], side="left")
    cuts = np.unique(np.concatenate([[0], marks, [len(ptr) - 1]])).tolist()
    return list(itertools.pairwise(cuts))
