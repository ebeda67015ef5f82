"""Events between users and items, without ratings: clicks, plays, purchases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import Column, DataFrame, FloatArray, IntArray
from rankwright.data import vocabulary
from rankwright.data.behavior.ratings import Ratings, columns_by_role, encode_pairs, in_int64
from rankwright.data.behavior.times import as_times
from rankwright.data.inputs import checked_csr
from rankwright.data.vocabulary import UsersAndItems, as_column, as_ids, read_only
from rankwright.exceptions import DataError, ParameterError


class Interactions(UsersAndItems):
    """Events of users with items (clicks, plays, purchases), one row each, in the order given.

    A pair of user and item may occur many times; its weights are added up. A negative weight is a
    dislike: where the weights of a pair add up to 0 or less, the item is not among those that the
    user took, and is not recommended to the user. Later means a larger ``time``; without times,
    later in the order given. Times need not ascend.

    Parameters
    ----------
    users, items : (n_events,) ids of any hashable type
        The user and the item of each event.
    weight : (n_events,) numbers other than 0, or None
        The weight of an event, such as a number of plays; None gives every event weight 1.
    time : (n_events,) numbers, ISO strings or dates, or None
        The time of each event. Strings and dates become seconds since 1970.
    event : (n_events,) types such as "view" and "purchase", or None
        What kind of event it is; :meth:`weighted` and ``Recommender(event_weights=...)`` use it.
    session : (n_events,) ids or None
        The visit that an event belongs to. Experts that learn order (``NextItems``, ``SLIT``)
        follow what was taken in the present visit; see the guide.

    Attributes
    ----------
    users, items : (n_users,), (n_items,) arrays
        The distinct ids, in order of first appearance.
    user, item : (n_events,) int64
        The user and the item of each event, as indices into ``users`` and ``items``.
    weight : (n_events,) float64
    time : (n_events,) float64 or None
    event_types : array of the distinct types, in order of first appearance, or None
    event : (n_events,) indices into ``event_types``, or None
    sessions : array of the distinct ids of sessions, in order of first appearance, or None
    session : (n_events,) indices into ``sessions``, or None

    Examples
    --------
    >>> events = Interactions(["ann", "bob", "ann"], ["Heat", "Heat", "Alien"], time=[3, 1, 2])
    >>> events
    Interactions(3 events, 2 users, 2 items, times 1 to 3)
    >>> events.users, events.user
    (array(['ann', 'bob'], dtype='<U3'), array([0, 1, 0]))
    """

    users: NDArray[Any]
    items: NDArray[Any]
    user: IntArray
    item: IntArray
    weight: FloatArray
    time: FloatArray | None
    event: IntArray | None = None
    event_types: NDArray[Any] | None = None
    session: IntArray | None = None
    sessions: NDArray[Any] | None = None

    def __init__(
        self,
        users: Column,
        items: Column,
        *,
        weight: Column | None = None,
        time: Column | None = None,
        event: Column | None = None,
        session: Column | None = None,
    ) -> None:
        self._set(*encode_pairs(users=users, items=items, row="event"), weight, time)
        if event is not None:
            self.event, self.event_types = map(read_only, self._encoded(event, "event"))
        if session is not None:
            self.session, self.sessions = map(read_only, self._encoded(session, "session"))

    def _encoded(self, values: Column, name: str) -> tuple[IntArray, NDArray[Any]]:
        ids = as_ids(values, name)
        if len(ids) != len(self.user):
            raise DataError(
                f"Interactions: {name} has {vocabulary.entries(len(ids))} for {len(self.user)} "
                "events. Give one for each."
            )
        return vocabulary.encode(ids, name)

    def _set(
        self,
        users: NDArray[Any],
        items: NDArray[Any],
        user: IntArray,
        item: IntArray,
        weight: Column | None,
        time: Column | None,
    ) -> None:
        n = len(user)
        weight = np.ones(n) if weight is None else as_column(weight, "weight", n)
        if (weight == 0).any():
            row = int(np.argmax(weight == 0))
            fix = "give a weight > 0 (or < 0 for a dislike), or drop the event"
            raise DataError(f"Interactions: weight is 0 in row {row}. Fix: {fix}.")
        self.users, self.items = read_only(users), read_only(items)
        self.user, self.item = read_only(user), read_only(item)
        self.weight = read_only(weight)
        self.time = None if time is None else read_only(as_times(time, "time", n))

    @classmethod
    def from_numbers(
        cls,
        users: NDArray[Any],
        items: NDArray[Any],
        user: IntArray,
        item: IntArray,
        weight: FloatArray | None,
        time: FloatArray | None,
    ) -> Self:
        """Events as indices into distinct ids, of which some may have no event."""
        events = cls.__new__(cls)
        events._set(np.asarray(users), np.asarray(items), user, item, weight, time)
        return events

    @classmethod
    def from_frame(
        cls,
        frame: DataFrame,
        *,
        user: str | None = None,
        item: str | None = None,
        weight: str | None = None,
        time: str | None = None,
        event: str | None = None,
        session: str | None = None,
        event_weights: Mapping[Any, float] | None = None,
    ) -> Self:
        """Convert a pandas, polars, pyarrow or other data frame, or a dict of columns.

        Parameters
        ----------
        frame : data frame
        user, item, weight, time, event, session : str or None
            Columns; None looks for common names (``user_id``, ``product``, ``quantity``,
            ``timestamp``, ``event_type`` ...). Only ``user`` and ``item`` must exist. A rating is
            not a weight unless you name its column.
        event_weights : mapping of event types to weights, or None
            As in :meth:`weighted`.

        Examples
        --------
        >>> log = {"visitor": ["a", "a"], "product": [7, 8], "date": ["2024-05-01", "2024-05-02"]}
        >>> Interactions.from_frame(log).time
        array([1.7145216e+09, 1.7146080e+09])
        """
        names = {"user": user, "item": item, "weight": weight, "time": time}
        names |= {"event": event, "session": session}
        columns = columns_by_role(frame, names, optional=("weight", "time", "event", "session"))
        events = cls(columns.pop("user"), columns.pop("item"), **columns)
        return events if event_weights is None else events.weighted(event_weights)

    def weighted(self, event_weights: Mapping[Any, float]) -> Self:
        """The same events, each weight times that of its type; 0 drops the events of a type.

        A negative weight is a dislike. Every type of the data needs a weight.

        >>> log = Interactions([1, 1, 2], [7, 8, 7], event=["view", "purchase", "view"])
        >>> log.weighted({"view": 1, "purchase": 5}).weight
        array([1., 5., 1.])
        """
        if self.event is None or self.event_types is None:
            raise DataError(
                "event_weights: these events have no types. Read them with an event column: "
                "event=name."
            )
        types = self.event_types.tolist()
        for name, weight in event_weights.items():
            if not isinstance(weight, int | float) or not np.isfinite(weight):
                raise ParameterError(
                    f"event_weights: {name!r} has the weight {weight!r}: give a finite number."
                )
        if missing := [name for name in types if name not in event_weights]:
            row = int(np.argmax(self.event == types.index(missing[0])))
            raise ParameterError(
                f"event_weights: no weight for {missing[0]!r}, the type of row {row}. Types are "
                f"{types}; a weight of 0 drops the events of a type.",
                parameter="event_weights",
            )
        factor = np.array([float(event_weights[name]) for name in types])[self.event]
        kept = factor != 0
        return self.take(kept).with_weights(self.weight[kept] * factor[kept])

    def with_weights(self, weight: FloatArray) -> Self:
        """The same events with other weights."""
        events = self.take(slice(None))
        events._set(self.users, self.items, self.user, self.item, weight, self.time)
        return events

    @classmethod
    def from_csr(
        cls, matrix: Any, *, users: Column | None = None, items: Column | None = None
    ) -> Self:
        """Convert a SciPy sparse matrix, users by items; stored zeros are ignored.

        ``users`` and ``items`` are the ids of its rows and columns, 0, 1, ... by default.

        >>> from scipy.sparse import csr_array
        >>> Interactions.from_csr(csr_array([[2, 0], [1, 1]]), items=["Heat", "Alien"]).weight
        array([2., 1., 1.])
        """
        from scipy.sparse import coo_array, issparse

        if not issparse(matrix) or matrix.ndim != 2:
            kind = type(matrix).__name__
            raise DataError(f"from_csr got {kind}: give a SciPy sparse matrix, users by items.")
        cells = coo_array(checked_csr(matrix, "from_csr"))
        ids = []
        for size, given, name in zip(cells.shape, (users, items), ("users", "items"), strict=True):
            names = np.arange(size) if given is None else in_int64(as_ids(given, name))
            if len(names) != size:
                raise DataError(f"from_csr: {len(names)} {name} for {size}. Give one id for each.")
            ids.append(vocabulary.Vocabulary(names, name).ids)
        kept = cells.data != 0
        user, item = (index[kept].astype(np.int64) for index in (cells.row, cells.col))
        return cls.from_numbers(
            ids[0], ids[1], user, item, cells.data[kept].astype(np.float64), None
        )

    @classmethod
    def from_ratings(cls, ratings: Ratings, *, at_least: float | None = None) -> Self:
        """Convert ratings to events of weight 1: all, or those of at least ``at_least``.

        >>> ratings = Ratings.from_arrays([1, 1, 2], [7, 8, 7], [5, 2, 4])
        >>> len(Interactions.from_ratings(ratings, at_least=4))
        2
        """
        kept = ratings if at_least is None else ratings.take(ratings.value >= at_least).compact()
        return cls.from_numbers(kept.users, kept.items, kept.user, kept.item, None, kept.time)

    @classmethod
    def concat(cls, parts: Sequence[Interactions | Ratings]) -> Self:
        """Concatenate events of several sources; ratings count as events of weight 1.

        Times, types of events and sessions are each kept if every part has them.

        >>> Interactions.concat([Interactions([1], [7]), Ratings.from_arrays([1], [8], [5])])
        Interactions(2 events, 1 users, 2 items)
        """
        events = [cls.from_ratings(p) if isinstance(p, Ratings) else p for p in parts]
        if not events:
            raise DataError("Interactions.concat got no parts: give one or more.")
        columns = [
            joined([getattr(part, ids)[getattr(part, numbers)] for part in events])
            for ids, numbers in (("users", "user"), ("items", "item"))
        ]
        times = [part.time for part in events if part.time is not None]
        time = np.concatenate(times) if len(times) == len(events) else None
        more: dict[str, Any] = {}
        if all(part.event is not None for part in events):
            kinds = [part.event_types[part.event] for part in events]  # type: ignore[index]
            more["event"] = joined(kinds)
        if all(part.session is not None and part.sessions is not None for part in events):
            visits = [part.sessions[part.session] for part in events]  # type: ignore[index]
            more["session"] = joined(visits)
        weight = np.concatenate([part.weight for part in events])
        return cls(*columns, weight=weight, time=time, **more)

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n_events(self) -> int:
        return len(self.user)

    @cached_property
    def user_counts(self) -> IntArray:
        """Number of events of each user."""
        return np.bincount(self.user, minlength=self.n_users)

    @cached_property
    def item_counts(self) -> IntArray:
        """Number of events of each item."""
        return np.bincount(self.item, minlength=self.n_items)

    def take(self, rows: ArrayLike | slice) -> Self:
        """Select events by a mask, row numbers or a slice; users and items stay the same."""
        index = vocabulary.row_numbers(rows, len(self))
        time = None if self.time is None else self.time[index]
        taken = self.from_numbers(
            self.users, self.items, self.user[index], self.item[index], self.weight[index], time
        )
        taken.event_types, taken.sessions = self.event_types, self.sessions
        for name in ("event", "session"):
            column = getattr(self, name)
            setattr(taken, name, None if column is None else read_only(column[index]))
        return taken

    def to_csr(self) -> Any:
        """Convert to a SciPy CSR array, users by items, with the sum of the weights of each
        pair."""
        from scipy.sparse import csr_array

        shape = (self.n_users, self.n_items)
        return csr_array((self.weight, (self.user, self.item)), shape=shape)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return ids, weights and times as columns, for
        ``pandas.DataFrame(events.to_columns())``."""
        columns = {"user": self.users[self.user], "item": self.items[self.item]}
        columns["weight"] = self.weight
        columns |= {} if self.time is None else {"time": self.time}
        if self.event is not None and self.event_types is not None:
            columns["event"] = self.event_types[self.event]
        if self.session is not None and self.sessions is not None:
            columns["session"] = self.sessions[self.session]
        return columns

    def facts(self) -> str:
        """What it holds, in numbers."""
        parts = [f"{len(self):,} events", f"{self.n_users:,} users", f"{self.n_items:,} items"]
        if self.time is not None and len(self):
            parts.append(f"times {self.time.min():.10g} to {self.time.max():.10g}")
        if self.event is not None and self.event_types is not None and len(self):
            share = np.bincount(self.event, minlength=len(self.event_types)) / len(self)
            pairs = zip(self.event_types.tolist(), share.tolist(), strict=True)
            parts.append("types " + ", ".join(f"{name} {100 * s:.3g} %" for name, s in pairs))
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Interactions({self.facts()})"


def joined(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """One column of ids; kinds are kept apart, as 7 and "7" are two ids."""
    if len({column.dtype.kind for column in columns}) == 1:
        return np.concatenate(columns)
    return np.concatenate([column.astype(object) for column in columns])
