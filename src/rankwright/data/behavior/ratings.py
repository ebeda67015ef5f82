"""Ratings of items by users, as flat arrays over two vocabularies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import Column, DataFrame, FloatArray, Id, IntArray
from rankwright.data import vocabulary
from rankwright.data.behavior.times import as_times
from rankwright.data.inputs import columns_of
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import UsersAndItems, as_column, as_ids, encode, entries, read_only
from rankwright.exceptions import DataError, Message, ParameterError, Setting

# Common names of columns, in lower case and without other characters.
_USUAL_NAMES = {
    "user": (
        *("user", "userid", "uid", "customer", "customerid", "reviewer", "reviewerid"),
        *("visitor", "visitorid", "member", "memberid", "session", "sessionid"),
    ),
    "item": (
        *("item", "itemid", "iid", "movie", "movieid", "film", "filmid", "product", "productid"),
        *("book", "bookid", "isbn", "asin", "joke", "jokeid", "article", "articleid"),
        *("track", "trackid", "song", "songid", "artist", "artistid"),
    ),
    "value": ("value", "rating", "score", "stars", "points", "bookrating", "overall"),
    "weight": ("weight", "count", "quantity", "qty", "plays", "playcount", "views", "clicks"),
    "event": ("event", "eventtype", "action", "behavior", "behaviour", "interaction"),
    "session": ("session", "sessionid", "visit", "visitid"),
    "time": (
        *("time", "timestamp", "unixreviewtime", "datetime", "date", "ts", "eventtime"),
        *("createdat", "utc"),
    ),
}


def usual_place(role: str, names: Sequence[str]) -> int | None:
    """The index of the column with a common name for this role, or None.

    >>> usual_place("item", ["userId", "movie_id", "rating"])
    1
    """
    plain = [re.sub(r"[^a-z]", "", name.lower()) for name in names]
    return next((plain.index(name) for name in _USUAL_NAMES[role] if name in plain), None)


def find_column(
    role: str, name: str | None, names: Sequence[str], *, optional: bool = False
) -> str | None:
    """The column with a given name, or else with a common name for this role.

    >>> find_column("time", None, ["user", "Date"]), find_column("weight", None, [], optional=True)
    ('Date', None)
    """
    index = usual_place(role, names) if name is None else None
    column = name if index is None else names[index]
    if column in names:
        return column
    if optional and name is None:
        return None
    missing = f"for the {role}" if name is None else repr(name)
    raise DataError(f"the frame has no column {missing}; it has {list(names)}. Give {role}=name.")


@dataclass(frozen=True, eq=False, repr=False)
class Ratings(UsersAndItems):
    """Ratings of items by users, one row each, in the order given.

    Attributes
    ----------
    users, items : (n_users,), (n_items,) arrays
        Ids as given, in order of first appearance.
    user, item : (n_ratings,) int64
        The user and the item of each rating, as indices into ``users`` and ``items``.
    value : (n_ratings,) float64
        The rating, higher is better.
    time : (n_ratings,) float64 or None
        The time of the rating, in the units of the source.

    Examples
    --------
    >>> ratings = Ratings.from_arrays(["ann", "bob", "ann"], ["Heat", "Heat", "Alien"], [5, 3, 4])
    >>> ratings
    Ratings(3 ratings, 2 users, 2 items, values 3 to 5)
    >>> ratings.rows_of("ann"), ratings.user_counts
    (array([0, 2]), array([2, 1]))
    >>> ratings.to_csr().toarray()
    array([[5., 4.],
           [3., 0.]])
    """

    users: NDArray[Any]
    items: NDArray[Any]
    user: IntArray
    item: IntArray
    value: FloatArray
    time: FloatArray | None = None

    def __post_init__(self) -> None:
        n_ratings = len(self.value)
        columns = {"users": np.asarray(self.users), "items": np.asarray(self.items)}
        for name, ids in (("user", columns["users"]), ("item", columns["items"])):
            columns[name] = _as_numbers(getattr(self, name), name, n_ratings, len(ids))
        columns["value"] = as_column(self.value, "value", n_ratings)
        if self.time is not None:
            columns["time"] = as_times(self.time, "time", n_ratings)
        for name, column in columns.items():
            object.__setattr__(self, name, read_only(column))

    @classmethod
    def from_arrays(
        cls,
        user: Column,
        item: Column,
        value: Column,
        time: Column | None = None,
        *,
        duplicates: str = "error",
    ) -> Ratings:
        """Build ratings from a user id, item id and value per row; ids of any hashable type.

        Parameters
        ----------
        user, item, value, time : (n_ratings,) arrays, lists or columns of a data frame
        duplicates : {"error", "first", "last", "mean", "keep"}, default="error"
            What to do if a user rated an item more than once.
        """
        pairs = encode_pairs(user=user, item=item, row="rating")
        value = as_column(value, "value", len(pairs[2]))
        times = None if time is None else as_times(time, "time", len(value))
        return resolve_duplicates(cls(*pairs, value, times), duplicates)

    @classmethod
    def from_frame(
        cls,
        frame: DataFrame,
        *,
        user: str | None = None,
        item: str | None = None,
        value: str | None = None,
        time: str | None = None,
        duplicates: str = "error",
    ) -> Ratings:
        """Convert three or four columns of a pandas, polars, pyarrow or other data frame.

        Parameters
        ----------
        frame : data frame
        user, item, value : str or None
            Columns; None looks for common names (``userId``, ``movie_id``, ``rating`` ...).
        time : str or None
            The column of times (numbers, dates or ISO strings); None looks for a common name
            (``timestamp``, ``date`` ...), and without one there are no times.
        duplicates : {"error", "first", "last", "mean", "keep"}, default="error"

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"who": [1, 2], "film": [7, 7], "stars": [4.5, 3.0]})
        >>> Ratings.from_frame(frame, user="who").value
        array([4.5, 3. ])
        """
        names = {"user": user, "item": item, "value": value, "time": time}
        columns = columns_by_role(frame, names, optional=("time",))
        return cls.from_arrays(**columns, duplicates=duplicates)

    def __len__(self) -> int:
        return len(self.value)

    @property
    def n_ratings(self) -> int:
        return len(self.value)

    @cached_property
    def by_user(self) -> Queries:
        """Which rows belong to which user: those of user u are ``order[ptr[u]:ptr[u + 1]]``."""
        return Queries(self.user, self.users)

    @cached_property
    def by_item(self) -> Queries:
        return Queries(self.item, self.items)

    @property
    def user_counts(self) -> IntArray:
        return self.by_user.sizes

    @property
    def item_counts(self) -> IntArray:
        return self.by_item.sizes

    def rows_of(self, user: Id) -> IntArray:
        """Return the rows of one user, by id, in the order given."""
        number = int(self.user_vocabulary.numbers([user])[0])
        start, stop = self.by_user.ptr[number : number + 2]
        return self.by_user.order[start:stop]

    def take(self, rows: ArrayLike | slice) -> Ratings:
        """Select rows by a mask, row numbers or a slice; users and items stay the same."""
        index = vocabulary.row_numbers(rows, len(self))
        time = None if self.time is None else self.time[index]
        return replace(
            self, user=self.user[index], item=self.item[index], value=self.value[index], time=time
        )

    def compact(self) -> Ratings:
        """Remove users and items that appear in no row.

        >>> ratings = Ratings.from_arrays([1, 2], [7, 8], [5, 3])
        >>> ratings.take([1]).n_users, ratings.take([1]).compact().n_users
        (2, 1)
        """
        users, user = np.unique(self.user, return_inverse=True)
        items, item = np.unique(self.item, return_inverse=True)
        kept = {"users": self.users[users], "items": self.items[items]}
        return replace(self, **kept, user=user.reshape(-1), item=item.reshape(-1))

    def only(
        self,
        users: Sequence[Any] | NDArray[Any] | None = None,
        items: Sequence[Any] | NDArray[Any] | None = None,
    ) -> Ratings:
        """Select the ratings of some users and items (ids; None means all), compacted."""
        keep = np.ones(len(self), dtype=bool)
        if users is not None:
            keep &= np.isin(self.user, self.user_vocabulary.numbers(users))
        if items is not None:
            keep &= np.isin(self.item, self.item_vocabulary.numbers(items))
        return self.take(keep).compact()

    def to_csr(self) -> Any:
        """Convert to a SciPy CSR array, users by items. A rating of 0 is stored, an absent one is
        not."""
        from scipy.sparse import csr_array

        if (repeat := first_twice(self)) is not None:
            row, earlier = repeat
            raise DataError(
                f"rows {earlier} and {row} rate the same item by the same user, and a matrix has "
                "one cell for both.",
                fix=Message(
                    "Create the ratings with ", Setting("duplicates", "last"), ' or "mean".'
                ),
            )
        order = np.lexsort((self.item, self.user))
        parts = (self.value[order], self.item[order], self.by_user.ptr)
        return csr_array(parts, shape=(self.n_users, self.n_items))

    def facts(self) -> str:
        """What it holds, in numbers."""
        parts = [f"{len(self):,} ratings", f"{self.n_users:,} users", f"{self.n_items:,} items"]
        if len(self):
            parts.append(f"values {self.value.min():g} to {self.value.max():g}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Ratings({self.facts()})"


def encode_pairs(*, row: str, **columns: Any) -> tuple[Any, Any, IntArray, IntArray]:
    """The distinct users and items, and two columns of ids as indices into them.

    >>> encode_pairs(row="event", users=["ann", "bob", "ann"], items=[7, 7, 8])[2:]
    (array([0, 1, 0]), array([0, 0, 1]))
    """
    encoded = [encode(in_int64(as_ids(ids, name)), name) for name, ids in columns.items()]
    (user, users), (item, items) = encoded
    if len(user) != len(item):
        first, second = columns
        counts = f"{first} has {entries(len(user))} and {second} {len(item)}"
        raise DataError(f"{counts}: give one of each per {row}.")
    return users, items, user, item


def columns_by_role(
    frame: DataFrame, names: dict[str, str | None], optional: Sequence[str] = ()
) -> dict[str, Any]:
    """Columns of a frame by role, by the names given or by common ones; None if there is none."""
    table = columns_of(frame)
    columns = {
        role: find_column(role, name, list(table), optional=role in optional)
        for role, name in names.items()
    }
    return {role: None if name is None else table[name] for role, name in columns.items()}


def in_int64(ids: NDArray[Any]) -> NDArray[Any]:
    """Integer ids as int64, the type that model files hold, if they fit; other ids as given."""
    fits = ids.dtype.kind in "iu" and int(ids.max(initial=0)) <= np.iinfo(np.int64).max
    return ids.astype(np.int64, copy=False) if fits else ids


def _as_numbers(values: ArrayLike, name: str, n_rows: int, n_ids: int) -> IntArray:
    numbers = np.asarray(values)
    if numbers.shape != (n_rows,) or (n_rows and numbers.dtype.kind not in "iu"):
        raise DataError(
            f"{name} is an array of {numbers.dtype} with shape {numbers.shape}: give one whole "
            f"number for each of {n_rows} ratings."
        )
    outside = (numbers < 0) | (numbers >= n_ids)
    if outside.any():
        row = int(np.argmax(outside))
        fix = f"there are {n_ids} ids, so give numbers in 0 .. {n_ids - 1}"
        raise DataError(f"{name} is {numbers[row]} in row {row}: {fix}.")
    return numbers.astype(np.int64)


def first_twice(ratings: Ratings) -> tuple[int, int] | None:
    """The first row that repeats a pair of user and item, and the row it repeats."""
    return vocabulary.first_repeat(ratings.user, ratings.item)


DUPLICATES = ("error", "first", "last", "mean", "keep")  # what to do with a second rating


def resolve_duplicates(ratings: Ratings, duplicates: str) -> Ratings:
    """Apply one of the rules in ``DUPLICATES``; the remaining rows keep their order."""
    if duplicates not in DUPLICATES:
        raise ParameterError(
            Setting("duplicates", duplicates), f": use one of {', '.join(DUPLICATES)}."
        )
    repeat = first_twice(ratings)
    if repeat is None or duplicates == "keep":
        return ratings
    if duplicates == "error":
        row, earlier = repeat
        user, item = ratings.users[ratings.user[row]], ratings.items[ratings.item[row]]
        raise DataError(
            f"user {user} rated item {item} in row {earlier} and again in row {row}.",
            fix=Message(
                "Choose one with ",
                Setting("duplicates", "first"),
                ', "last" or "mean", or use "keep" for both.',
            ),
        )
    keys = vocabulary.pair_keys(ratings.user, ratings.item)
    if duplicates == "last":
        from_the_end = np.unique(keys[::-1], return_index=True)[1]
        return ratings.take(np.sort(len(ratings) - 1 - from_the_end))
    _, first, pair = np.unique(keys, return_index=True, return_inverse=True)
    rows = np.argsort(first)
    kept = ratings.take(first[rows])
    if duplicates == "first":
        return kept
    mean = np.bincount(pair.reshape(-1), ratings.value) / np.bincount(pair.reshape(-1))
    return replace(kept, value=mean[rows])
