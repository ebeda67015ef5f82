"""Impression logs: which items were shown at which positions, and which were clicked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import BoolArray, Column, DataFrame, FloatArray, IntArray
from rankwright.data.items import Items
from rankwright.data.vocabulary import (
    Vocabulary,
    as_column,
    as_ids,
    encode,
    entries,
    first_repeat,
    pair_keys,
    read_only,
)
from rankwright.exceptions import DataError, DegenerateDataWarning, Message, Setting

COUNT_FIX = "give 0, 1 or the number of clicks"
POSITION_FIX = "give a whole number from 1, the top"
ROWS = ("session", "query", "item", "position", "clicks", "user", "time", "dwell", "ranker")


@dataclass(frozen=True, eq=False, repr=False)
class ImpressionLog:
    """A log of ranked lists: one row for each item shown, sorted by session, then by position.

    A session is one list shown to one user for one query. Rows contain dense numbers; the ids are
    stored separately. Arrays are read-only. Build a log with :meth:`from_frame` or
    :meth:`from_arrays`, or read it with ``read_log``.

    Attributes
    ----------
    session, query, item : (n_rows,) int64
        Dense numbers; the ids are in ``sessions``, ``queries`` and ``items``.
    position : (n_rows,) int64, 1 is the top of the list
    clicks : (n_rows,) int64, how often the item was clicked in this session
    sessions, queries, items : arrays of distinct ids
    user, time, dwell, ranker : (n_rows,) arrays or None
        The user, the time, the dwell time on the item, and the ranker that made the list.

    Examples
    --------
    >>> log = ImpressionLog.from_arrays(
    ...     query=["shoes"] * 4, item=["a", "b", "b", "a"], clicks=[0, 1, 1, 0],
    ...     session=[1, 1, 2, 2],
    ... )
    >>> log
    ImpressionLog(4 rows, 2 sessions, 1 queries, 2 items, 2 clicks)
    >>> log.position.tolist(), log.click_rates().tolist()
    ([1, 2, 1, 2], [0.5, 0.5])
    """

    session: IntArray
    query: IntArray
    item: IntArray
    position: IntArray
    clicks: IntArray
    sessions: NDArray[Any]
    queries: NDArray[Any]
    items: NDArray[Any]
    user: NDArray[Any] | None = None
    time: FloatArray | None = None
    dwell: FloatArray | None = None
    ranker: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name in (*ROWS, "sessions", "queries", "items"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_only(getattr(self, name)))

    @classmethod
    def from_frame(cls, frame: DataFrame, **columns: str) -> ImpressionLog:
        """Convert a data frame or a dict of columns, named as in :func:`rankwright.read_log`.

        >>> frame = {"query": [1, 1], "item": [7, 8], "clicked": [0, 1]}
        >>> ImpressionLog.from_frame(frame).clicks.tolist()
        [0, 1]
        """
        from rankwright.data.io.logs.impressions import frame_to_log

        return frame_to_log(frame, columns)

    @classmethod
    def from_arrays(
        cls,
        query: Column,
        item: Column,
        clicks: ArrayLike,
        *,
        position: ArrayLike | None = None,
        session: Column | None = None,
        user: Column | None = None,
        time: ArrayLike | None = None,
        dwell: ArrayLike | None = None,
        ranker: Column | None = None,
    ) -> ImpressionLog:
        """Build a log from arrays with one entry per item shown, in any order.

        Without ``position`` the order of the rows of a session is used. Without ``session``, a new
        one begins where query, user or time change, or where the position does not increase.
        """
        n = len(as_ids(query, "query"))
        columns: dict[str, Any] = {
            "query": _ids(query, n, "query"),
            "item": _ids(item, n, "item"),
            "clicks": _counts(clicks, n),
            "user": None if user is None else _ids(user, n, "user"),
            "time": None if time is None else as_column(time, "time", n),
            "dwell": None if dwell is None else as_column(dwell, "dwell", n, finite=False),
            "ranker": None if ranker is None else _ids(ranker, n, "ranker"),
            "position": None if position is None else _positions(position, n),
        }
        number, queries = encode(columns["query"], "query")
        numbers, items = encode(columns["item"], "item")
        lists = None if session is None else encode(_ids(session, n, "session"), "session")
        return cls.from_codes(columns | {"query": number, "item": numbers}, lists, queries, items)

    @classmethod
    def from_codes(
        cls,
        columns: dict[str, Any],
        lists: tuple[IntArray, NDArray[Any]] | None,
        queries: NDArray[Any],
        items: NDArray[Any],
    ) -> ImpressionLog:
        """A log from checked columns whose queries, items and sessions are dense numbers.

        ``columns`` is changed: with millions of rows, old and new columns would fill the memory.
        """
        if lists is None:
            session = _consecutive(columns)
            ids = np.arange(session.max(initial=-1) + 1)
        else:  # a session id that covers several queries is a list for each of them
            session, first = _distinct(pair_keys(lists[0], columns["query"]))
            ids = lists[1][lists[0][first]]
            del lists
        if columns["position"] is None:
            columns["position"] = _order_in(session)
        order = _sorted_order(session, columns["position"])
        if order is not None:
            session = session[order]
            for name in [name for name, values in columns.items() if values is not None]:
                columns[name] = columns[name][order]
        log = cls(session, **columns, sessions=ids, queries=queries, items=items)
        log._check_once()
        return log

    def _check_once(self) -> None:
        repeat = first_repeat(self.session, self.item)
        if repeat is not None:
            row = repeat[0]
            session, item = self.sessions[self.session[row]], self.items[self.item[row]]
            raise DataError(
                f"session {session} shows item {item} twice. Give each shown item one row with the "
                "sum of its clicks, and each list its own session id."
            )

    def __len__(self) -> int:
        return len(self.session)

    @property
    def n_sessions(self) -> int:
        return len(self.sessions)

    @cached_property
    def n_positions(self) -> int:
        """The lowest position shown."""
        return int(self.position.max(initial=0))

    @cached_property
    def clicked(self) -> BoolArray:
        """Whether each item shown was clicked at least once."""
        return read_only(self.clicks > 0)

    @cached_property
    def starts(self) -> IntArray:
        """Where each session starts in the rows; length n_sessions + 1."""
        return np.searchsorted(self.session, np.arange(self.n_sessions + 1)).astype(np.int64)

    @cached_property
    def documents(self) -> tuple[IntArray, IntArray]:
        """Distinct (query, item): the number of each row, and the first row of each number."""
        return _distinct(pair_keys(self.query, self.item))

    def click_rates(self) -> FloatArray:
        """Share of the items shown at position 1, 2, ... that were clicked."""
        shown = np.bincount(self.position, minlength=self.n_positions + 1)[1:]
        clicks = np.bincount(self.position, self.clicked, self.n_positions + 1)[1:]
        return np.asarray(clicks / np.maximum(shown, 1))

    def take(self, sessions: IntArray | BoolArray) -> ImpressionLog:
        """Select sessions by a boolean mask or session numbers; they keep their order.

        Queries and items keep their numbers.
        """
        chosen = np.zeros(self.n_sessions, dtype=bool)
        chosen[sessions] = True
        rows = chosen[self.session]
        number = np.cumsum(chosen) - 1
        part: dict[str, Any] = {
            n: None if (v := getattr(self, n)) is None else v[rows] for n in ROWS
        }
        part["session"] = number[self.session[rows]]
        return replace(self, **part, sessions=self.sessions[chosen])

    def split(self, fraction: float = 0.2, random_state: int = 0) -> tuple[Any, Any]:
        """Split into two logs, the second with a random fraction of the sessions."""
        held_out = np.random.default_rng(random_state).random(self.n_sessions) < fraction
        return self.take(~held_out), self.take(held_out)

    def rows_in(self, table: Items) -> IntArray:
        """Find the row of a feature table for each row of the log, by query and item; -1 is none.

        Ids are compared as text. A table without queries is joined by item alone. A warning gives
        the number of impressions without features.
        """
        if table.docid is None:
            fix = Message("Give their column as ", Setting("docid"), ".")
            raise DataError("the feature table has no item ids.", fix=fix)
        item = _found(self.items, table.docid)
        query = np.zeros(len(item), dtype=np.int64)
        log_query = np.zeros(len(self), dtype=np.int64)
        if table.qid is not None:
            query, log_query = _found(self.queries, table.qid), self.query
        rows = np.flatnonzero((item >= 0) & (query >= 0))
        keys = query[rows] * len(self.items) + item[rows]
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
        if len(twice := np.flatnonzero(keys[1:] == keys[:-1])):
            raise DataError(
                f"rows {rows[twice[0]] + 1} and {rows[twice[0] + 1] + 1} of the feature table are "
                "the same query and item. Keep one."
            )
        row = _look_up(keys, rows, log_query * len(self.items) + self.item)
        _warn_of_missing(row, self)
        return row

    def facts(self) -> str:
        """What it holds, in numbers."""
        parts = [f"{len(self):,} rows", f"{self.n_sessions:,} sessions"]
        parts += [f"{len(self.queries):,} queries", f"{len(self.items):,} items"]
        return f"{', '.join(parts)}, {self.clicks.sum():,} clicks"

    def __repr__(self) -> str:
        return f"ImpressionLog({self.facts()})"


def _ids(values: Column, n: int, name: str) -> NDArray[Any]:
    ids = as_ids(values, name)
    if len(ids) != n:
        raise DataError(f"{name} has {entries(len(ids))} and query has {n}: give one per row.")
    return ids


def _counts(clicks: ArrayLike, n: int) -> IntArray:
    values = as_column(clicks, "clicks", n)
    if (row := first_bad_count(values)) is not None:
        raise DataError(f"clicks is {values[row]:g} in row {row}: {COUNT_FIX}.")
    return values.astype(np.int64)


def first_bad_count(values: FloatArray) -> int | None:
    """The first row whose clicks are not a count."""
    bad = np.flatnonzero((values < 0) | (values != np.floor(values)))
    return int(bad[0]) if len(bad) else None


def _positions(position: ArrayLike, n: int) -> IntArray:
    values = as_column(position, "position", n)
    if (row := first_bad_position(values)) is not None:
        raise DataError(f"position is {values[row]:g} in row {row}: {POSITION_FIX}.")
    return values.astype(np.int64)


def first_bad_position(values: FloatArray) -> int | None:
    """The first row that is no position."""
    bad = np.flatnonzero((values < 1) | (values != np.floor(values)) | (values > 10**6))
    return int(bad[0]) if len(bad) else None


def _consecutive(columns: dict[str, Any]) -> IntArray:
    """Numbers of sessions whose rows follow each other."""
    n = len(columns["query"])
    new = np.zeros(n, dtype=bool)
    for name in ("query", "user", "time"):
        if columns[name] is not None:
            new[1:] |= columns[name][1:] != columns[name][:-1]
    if columns["position"] is not None:
        new[1:] |= columns["position"][1:] <= columns["position"][:-1]
    return np.cumsum(new).astype(np.int64)


def _distinct(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Dense numbers of the keys, and the first row of each number."""
    if len(keys) and (keys[1:] >= keys[:-1]).all():
        new = np.concatenate([[True], keys[1:] != keys[:-1]])
        return np.cumsum(new) - 1, np.flatnonzero(new)
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return number.astype(np.int64), first.astype(np.int64)


def _order_in(session: IntArray) -> IntArray:
    """The place of each row among the rows of its session, from 1."""
    order = np.argsort(session, kind="stable")
    starts = np.searchsorted(session[order], session[order])
    rank = np.empty(len(session), dtype=np.int64)
    rank[order] = np.arange(len(session)) - starts + 1
    return rank


def _sorted_order(session: IntArray, position: IntArray) -> IntArray | None:
    """Rows by session, then position; None when they are in that order already."""
    later, same = session[1:] > session[:-1], session[1:] == session[:-1]
    if (later | (same & (position[1:] >= position[:-1]))).all():
        return None
    return np.lexsort((position, session)).astype(np.int64)


def _found(known: NDArray[Any], ids: NDArray[Any]) -> IntArray:
    """The number of each id among the known ones, compared as text; -1 when unknown."""
    texts = Vocabulary(np.array([str(key) for key in known.tolist()], dtype=object))
    return texts.numbers(np.array([str(key) for key in ids.tolist()], object), unknown=-1)


def _look_up(keys: IntArray, values: IntArray, queried: IntArray) -> IntArray:
    """The value of each wanted key among sorted keys; -1 when it is absent."""
    if len(keys) == 0:
        return np.full(len(queried), -1, dtype=np.int64)
    position = np.minimum(np.searchsorted(keys, queried), len(keys) - 1)
    return np.where(keys[position] == queried, values[position], -1)


def _shown(log: ImpressionLog, row: int) -> str:
    return f"item {log.items[log.item[row]]} of query {log.queries[log.query[row]]}"


def _warn_of_missing(row: IntArray, log: ImpressionLog) -> None:
    missing = np.flatnonzero(row < 0)
    if len(missing) == len(row) > 0:
        raise DataError(
            "no query and item of the log is in the feature table; the log has, for example, "
            f"{_shown(log, 0)}. "
            "Check the columns of query and item in both."
        )
    if len(missing):
        first = missing[0]
        warnings.warn(
            f"{len(missing):,} of {len(row):,} shown items have no features, such as "
            f"{_shown(log, first)}; they are ignored.",
            DegenerateDataWarning,
            stacklevel=3,
        )
