"""Training and test rows: whole queries, or part of every user's rows."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import as_column
from rankwright.exceptions import ParameterError

Seed = int | np.random.Generator | None


class Split(NamedTuple):
    """Ascending row numbers; every row is in exactly one of the two."""

    train: IntArray
    test: IntArray


def split_queries(qid: Any, *, test_size: float = 0.5, random_state: Seed = None) -> Split:
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


def fold_queries(qid: Any, n_folds: int = 5, *, random_state: Seed = None) -> list[Split]:
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


def halve_users(user: Any, *, random_state: Seed = None) -> Split:
    """Split every user's rows in half, at random; an odd row goes to training.

    Parameters
    ----------
    user : (n_rows,) ids of any type, such as ``ratings.user``
    random_state : int, Generator or None

    Examples
    --------
    >>> split = halve_users([7, 7, 7, 8, 8], random_state=0)
    >>> split.train, split.test
    (array([0, 1, 4]), array([2, 3]))
    """
    users = Queries.from_ids(user)
    key = np.random.default_rng(random_state).uniform(size=users.n_items)
    return _split(users.places(-key) <= users.sizes[users.codes] // 2)


def leave_out(
    user: Any, n_left_out: int = 1, *, time: Any = None, random_state: Seed = None
) -> Split:
    """Leave out a fixed number of every user's rows for testing: the latest ones, or random ones.

    Parameters
    ----------
    user : (n_rows,) ids of any type, such as ``ratings.user``
    n_left_out : int, default=1
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
    _need_at_least(1, "n_left_out", n_left_out)
    users = Queries.from_ids(user)
    if time is None:
        key = np.random.default_rng(random_state).uniform(size=users.n_items)
    else:
        key = as_column(time, "time", users.n_items)
    size = users.sizes[users.codes]
    return _split((size - users.places(-key) < n_left_out) & (size > n_left_out))


def _split(in_test: NDArray[np.bool_]) -> Split:
    return Split(np.flatnonzero(~in_test), np.flatnonzero(in_test))


def _shuffled(queries: Queries, parts: int, random_state: Seed) -> IntArray:
    n = queries.n_queries
    if n < parts:
        raise ParameterError(f"{n} queries cannot be split into {parts} parts: give more queries.")
    return np.random.default_rng(random_state).permutation(n)


def _need_at_least(low: int, name: str, given: Any) -> None:
    if not isinstance(given, Integral) or given < low:
        raise ParameterError(f"{name}={given!r}: must be an integer >= {low}.")


def need_a_share(test_size: Any) -> None:
    """Refuse a fraction of the rows that leaves one part empty."""
    if not isinstance(test_size, float | np.floating) or not 0 < test_size < 1:
        raise ParameterError(f"test_size={test_size!r}: must be a fraction between 0 and 1.")
