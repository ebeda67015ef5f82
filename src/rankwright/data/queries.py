"""Which rows belong to which query, and how to split data into whole queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import Column, IntArray
from rankwright.data.vocabulary import as_column, as_ids, encode, entries
from rankwright.exceptions import DataError, ParameterError


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries of a list of items, in order of first appearance.

    Attributes
    ----------
    codes : (n_items,) int64
        The query of each row, 0 .. n_queries - 1.
    ids : (n_queries,) array
        The id of each query, as given.

    Examples
    --------
    >>> queries = Queries.from_ids(["b", "a", "b"])
    >>> queries.codes, queries.ids.tolist(), queries.sizes
    (array([0, 1, 0]), ['b', 'a'], array([2, 1]))
    >>> queries.order, queries.ptr
    (array([0, 2, 1]), array([0, 2, 3]))
    """

    codes: IntArray
    ids: NDArray[Any]

    def __post_init__(self) -> None:
        self.codes.setflags(write=False)
        self.ids.setflags(write=False)

    @classmethod
    def from_ids(
        cls, qid: Column | None, n_items: int | None = None, *, name: str = "qid"
    ) -> Queries:
        """From one id per row, of any hashable type, in any order; ``None`` is a single query.

        ``name`` is the parameter that errors speak of.
        """
        if qid is None:
            if n_items is None:
                raise DataError("qid is None, so the number of rows is unknown: give n_items.")
            codes = np.zeros(n_items, dtype=np.int64)
            return cls(codes, np.zeros(1 if n_items else 0, dtype=np.int64))
        ids = as_ids(qid, name)
        if n_items is not None and len(ids) != n_items:
            raise DataError(
                f"{name} has {entries(len(ids))} and X has {n_items} rows. {name} needs one id per "
                "row (for group sizes, use np.repeat(np.arange(len(sizes)), sizes)).",
                parameter=name,
            )
        return cls(*encode(ids, name))

    @property
    def n_items(self) -> int:
        return len(self.codes)

    @property
    def n_queries(self) -> int:
        return len(self.ids)

    @cached_property
    def sizes(self) -> IntArray:
        """How many rows each query has."""
        return np.bincount(self.codes, minlength=self.n_queries).astype(np.int64)

    @cached_property
    def ptr(self) -> IntArray:
        """Where each query starts in ``order``; length n_queries + 1."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the rows are sorted by query, in the order of ``ids``."""
        return bool(np.all(self.codes[1:] >= self.codes[:-1]))

    @cached_property
    def order(self) -> IntArray:
        """Rows grouped by query; within a query they keep their order."""
        if self.is_contiguous:
            return np.arange(self.n_items, dtype=np.int64)
        return np.argsort(self.codes, kind="stable").astype(np.int64)

    def places(self, scores: NDArray[np.float64]) -> IntArray:
        """The rank of each row in its query, 1 for the highest; equal scores keep their order.

        >>> Queries.from_ids(["b", "a", "b"]).places(np.array([0.5, 3.0, 2.0]))
        array([2, 1, 1])
        """
        order = np.lexsort((-scores, self.codes))
        ranks = np.empty(self.n_items, dtype=np.int64)
        ranks[order] = np.arange(self.n_items) - self.ptr[self.codes[order]] + 1
        return ranks


Seed = int | np.random.Generator | None


class Split(NamedTuple):
    """Row numbers of the training and test parts, ascending; each row is in exactly one part."""

    train: IntArray
    test: IntArray


def split_queries(
    qid: Column | None, *, test_size: float = 0.5, random_state: Seed = None
) -> Split:
    """Split at random into training and test rows, keeping each query whole.

    Parameters
    ----------
    qid : (n_rows,) ids of any type, in any order
    test_size : float, default=0.5
        Fraction of the queries (not of the rows) in the test part: at least one query, at most all
        but one.
    random_state : int, Generator or None

    Examples
    --------
    >>> split = split_queries(["a", "b", "a", "c"], test_size=0.3, random_state=1)
    >>> split.train, split.test
    (array([1, 3]), array([0, 2]))
    """
    queries = Queries.from_ids(qid)
    need_a_share(test_size)
    shuffled = _shuffled(queries, 2, random_state)
    n_test = min(max(round(test_size * queries.n_queries), 1), queries.n_queries - 1)
    return _split(np.isin(queries.codes, shuffled[:n_test]))


def fold_queries(qid: Column | None, n_folds: int = 5, *, random_state: Seed = None) -> list[Split]:
    """Split the queries into folds of equal size for cross-validation; each is tested once.

    Parameters
    ----------
    qid : (n_rows,) ids of any type, in any order
    n_folds : int, default=5
    random_state : int, Generator or None

    Examples
    --------
    >>> [split.test.tolist() for split in fold_queries([1, 1, 2, 3], 3, random_state=0)]
    [[3], [0, 1], [2]]
    """
    queries = Queries.from_ids(qid)
    _need_at_least(2, "n_folds", n_folds)
    fold = np.empty(queries.n_queries, dtype=np.int64)
    fold[_shuffled(queries, n_folds, random_state)] = np.arange(queries.n_queries) % n_folds
    return [_split(fold[queries.codes] == k) for k in range(n_folds)]


def split_within_users(user: Column, *, random_state: Seed = None) -> Split:
    """Split every user's rows in half, at random; an odd row goes to training.

    Parameters
    ----------
    user : (n_rows,) ids of any type, such as ``ratings.user``
    random_state : int, Generator or None

    Examples
    --------
    >>> split = split_within_users([7, 7, 7, 8, 8], random_state=0)
    >>> split.train, split.test
    (array([0, 1, 4]), array([2, 3]))
    """
    users = Queries.from_ids(user)
    key = np.random.default_rng(random_state).uniform(size=users.n_items)
    return _split(users.places(-key) <= users.sizes[users.codes] // 2)


def leave_out(
    user: Column, n: int = 1, *, time: Column | None = None, random_state: Seed = None
) -> Split:
    """Hold out a fixed number of rows of every user for testing: the latest ones, or random ones.

    Parameters
    ----------
    user : (n_rows,) ids of any type, such as ``ratings.user``
    n : int, default=1
        Test rows per user. A user with no more rows than that stays in training.
    time : (n_rows,) numbers or None
        The time of each row. The latest rows are left out (of equal times, the later row); None
        leaves out rows at random.
    random_state : int, Generator or None

    Examples
    --------
    >>> leave_out([7, 7, 7, 8], time=[30, 10, 20, 10]).test
    array([0])
    """
    _need_at_least(1, "n", n)
    users = Queries.from_ids(user)
    if time is None:
        key = np.random.default_rng(random_state).uniform(size=users.n_items)
    else:
        key = as_column(time, "time", users.n_items)
    size = users.sizes[users.codes]
    return _split((size - users.places(-key) < n) & (size > n))


def _split(in_test: NDArray[np.bool_]) -> Split:
    return Split(np.flatnonzero(~in_test), np.flatnonzero(in_test))


def _shuffled(queries: Queries, parts: int, random_state: Seed) -> IntArray:
    n = queries.n_queries
    if n < parts:
        raise ParameterError(f"{n} queries cannot be split into {parts} parts: give more queries.")
    return np.random.default_rng(random_state).permutation(n)


def _need_at_least(low: int, name: str, given: object) -> None:
    if not isinstance(given, Integral) or given < low:
        raise ParameterError(f"{name}={given!r}: must be an integer >= {low}.")


def need_a_share(test_size: object) -> None:
    """Refuse a fraction of the rows that leaves one part empty."""
    if not isinstance(test_size, float | np.floating) or not 0 < test_size < 1:
        raise ParameterError(
            f"test_size={test_size!r}: must be a fraction between 0 and 1.", parameter="test_size"
        )
