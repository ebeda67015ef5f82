"""What each user took, oldest first: the data that experts learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.interactions import Interactions, joined
from rankwright.data.behavior.ratings import Ratings
from rankwright.data.behavior.times import check_unit
from rankwright.data.vocabulary import UsersAndItems, Vocabulary, hash_ids, read_only
from rankwright.exceptions import DataError

EARLIER = np.float32(0.1)  # what an item of an earlier session counts where order is followed
MAX_WEIGHT = 1e9  # of a user and an item, where a usual event has 1


class HistoryRows(NamedTuple):
    """Histories in compressed rows: row u has ``item[ptr[u]:ptr[u + 1]]``, oldest first."""

    ptr: NDArray[np.int64]
    item: NDArray[np.int32]
    weight: NDArray[np.float32]
    user: NDArray[np.int64] = np.zeros(0, np.int64)  # (n_rows,) numbers; empty for new users
    weighted: bool = False  # whether weights count in sums over a history
    recent: NDArray[np.float32] = np.zeros(0, np.float32)  # (n_entries,) 1 in the last session,
    # EARLIER before it; empty without sessions

    @classmethod
    def single(cls, items: IntArray, weight: FloatArray, *, weighted: bool = False) -> HistoryRows:
        """The history of one new user."""
        ptr = np.array([0, len(items)])
        columns = (items.astype(np.int32), weight.astype(np.float32))
        return cls(ptr, *columns, weighted=weighted)

    @classmethod
    def stacked(cls, parts: Sequence[HistoryRows]) -> HistoryRows:
        """The histories of several new users."""
        ptr = pointers(np.concatenate([np.zeros(0, np.int64), *(np.diff(p.ptr) for p in parts)]))
        item = np.concatenate([np.zeros(0, np.int32), *(part.item for part in parts)])
        weight = np.concatenate([np.zeros(0, np.float32), *(part.weight for part in parts)])
        return cls(ptr, item, weight, weighted=any(part.weighted for part in parts))

    @classmethod
    def of(cls, parts: Sequence[Entries], known: HistoryRows) -> HistoryRows:
        """The histories of some users as they are now, where ``known`` are those of the data."""
        ptr = pointers(np.array([len(part.item) for part in parts], np.int64))
        item = np.concatenate([part.item for part in parts])
        weight = np.concatenate([part.weight for part in parts])
        keys = [part.session for part in parts if part.session is not None]
        recent = recency(ptr, np.concatenate(keys)) if len(keys) == len(parts) > 0 else known.recent
        return cls(ptr, item, weight, known.user, known.weighted, recent)

    @property
    def n_rows(self) -> int:
        return len(self.ptr) - 1

    @property
    def number(self) -> IntArray:
        """The row of each entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.ptr))

    def row(self, number: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        entries = slice(*self.ptr[number : number + 2])
        return self.item[entries], self.weight[entries]

    def entries(self, numbers: IntArray) -> tuple[NDArray[np.int64], IntArray]:
        """The pointers of some of the rows when they are taken, and where their entries are."""
        counts = self.ptr[numbers + 1] - self.ptr[numbers]
        ptr = pointers(counts)
        return ptr, np.repeat(self.ptr[numbers] - ptr[:-1], counts) + np.arange(ptr[-1])

    def take(self, numbers: IntArray) -> HistoryRows:
        """Some of the rows."""
        ptr, entries = self.entries(numbers)
        user = self.user[numbers] if len(self.user) else self.user
        recent = self.recent[entries] if len(self.recent) else self.recent
        columns = (self.item[entries], self.weight[entries], user, self.weighted, recent)
        return HistoryRows(ptr, *columns)

    def frozen(self) -> HistoryRows:
        """The same as read-only views: kernels are compiled once, not for each mix of arrays."""
        return HistoryRows(read_only(self.ptr), read_only(self.item), read_only(self.weight))

    def matrix(self, n_items: int) -> Any:
        """A SciPy CSR array of ones, rows by items."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self.item), np.float32)
        return csr_array((ones, self.item, self.ptr), shape=(self.n_rows, n_items))

    @property
    def strength(self) -> NDArray[np.float32]:
        """How much each entry counts in a sum over a history: 1, or log2(1 + weight)."""
        if not self.weighted:
            return np.ones(len(self.weight), np.float32)
        return np.asarray(np.log2(1.0 + self.weight), np.float32)

    @property
    def recent_strength(self) -> NDArray[np.float32]:
        """How much each entry counts where order is followed: less in earlier sessions."""
        return self.strength * self.recent if len(self.recent) else self.strength


class Entries(NamedTuple):
    """The history of one user."""

    item: NDArray[np.int32]
    weight: NDArray[np.float32]
    time: NDArray[np.float64] | None
    session: NDArray[np.int32] | None = None

    def followed_by(
        self,
        item: IntArray,
        weight: FloatArray,
        time: FloatArray | None,
        session: NDArray[np.int32] | None = None,
    ) -> Entries:
        """With more events of positive weights; the same as :meth:`Histories.of` all of them."""
        items = np.concatenate([self.item, item.astype(np.int32)])
        weights = np.concatenate([self.weight.astype(np.float64), weight])
        times = keys = None
        if self.session is not None:
            if session is None:  # the visit goes on
                session = np.full(len(item), self.session[-1] if len(self.session) else 0, np.int32)
            keys = np.concatenate([self.session, session])
        if time is not None:
            times = time if self.time is None else np.concatenate([self.time, time])
            order = np.argsort(times, kind="stable")
            items, weights, times = items[order], weights[order], times[order]
            keys = None if keys is None else keys[order]
        kinds, first = np.unique(items[::-1], return_index=True)
        kept = np.sort(len(items) - 1 - first)
        place = np.searchsorted(kinds, items)
        total = np.bincount(place, weights)[place][kept]
        check_weights(total)
        times = None if times is None else times[kept]
        keys = None if keys is None else keys[kept]
        return Entries(items[kept], total.astype(np.float32), times, keys)


@dataclass(frozen=True, eq=False)
class Histories(UsersAndItems):
    """The items of each user, each once, oldest first; a repeated event counts as its last.

    A pair whose weights add up to 0 or less is not in a history, but among what users dislike.

    >>> events = Interactions(["a", "b", "a", "a"], [7, 7, 8, 7], time=[1, 5, 2, 9])
    >>> histories = Histories.of(events)
    >>> histories.ptr, histories.item, histories.weight
    (array([0, 2, 3]), array([1, 0, 0], dtype=int32), array([1., 2., 1.], dtype=float32))
    """

    users: NDArray[Any]  # (n_users,) ids
    items: NDArray[Any]  # (n_items,) ids
    ptr: NDArray[np.int64]  # (n_users + 1,)
    item: NDArray[np.int32]  # (n_pairs,)
    weight: NDArray[np.float32]  # (n_pairs,) sums of the weights of the events
    time: NDArray[np.float64] | None  # (n_pairs,) of the last event
    disliked: NDArray[np.int64] | None = None  # (n_disliked, 2) users and items
    dislike: NDArray[np.float64] | None = None  # (n_disliked, 2) weights <= 0, times or 0
    weighted: bool = False  # whether weights tell more than how often an event was repeated
    session: NDArray[np.int32] | None = None  # (n_pairs,) a hash of the session of the last event

    def __post_init__(self) -> None:
        n, ptr = len(self.item), self.ptr
        if (
            len(ptr) != len(self.users) + 1
            or ptr[0] != 0
            or ptr[-1] != n
            or (np.diff(ptr) < 0).any()
        ):
            raise DataError("Histories.ptr does not ascend from 0 to the number of pairs.")
        if n and not 0 <= self.item.min() <= self.item.max() < len(self.items):
            raise DataError(f"Histories.item: numbers must lie in 0 .. {len(self.items) - 1}.")
        for name in ("weight", "time", "session"):
            column = getattr(self, name)
            if column is not None and (len(column) != n or not np.isfinite(column).all()):
                raise DataError(f"Histories.{name}: {n} finite numbers needed.")
        if (self.disliked is None) != (self.dislike is None):
            raise DataError("Histories.disliked and dislike: both or none needed.")
        if self.disliked is not None and self.dislike is not None:
            shape, ends = (len(self.disliked), 2), (len(self.users), len(self.items))
            right = self.disliked.shape == self.dislike.shape == shape
            if not right or (self.disliked < 0).any() or (self.disliked >= ends).any():
                raise DataError("Histories.disliked: pairs of users and items of the data needed.")
        for name in ("item", "weight"):
            kind = np.int32 if name == "item" else np.float32
            object.__setattr__(self, name, read_only(np.asarray(getattr(self, name), kind)))

    @classmethod
    def of(cls, events: Interactions, session: NDArray[np.int32] | None = None) -> Histories:
        """Group events by user and sort them by time; equal times keep their order.

        ``session`` are the keys of the sessions of the events, by default from ``events.session``.
        """
        from rankwright.recommend.events._kernels import merge_repeats

        # Few copies at a time: with millions of events this is where memory peaks.
        if events.time is None:
            order = np.argsort(events.user, kind="stable")
        else:
            order = np.lexsort((events.time, events.user))
        if len(order) < 2**31:
            order = order.astype(np.int32)
        ptr = pointers(np.bincount(events.user, minlength=events.n_users))
        item = events.item.astype(np.int32)[order]
        total, kept = events.weight[order], np.ones(len(order), bool)
        merge_repeats(ptr, item, total, kept, np.full(events.n_items, -1))
        check_weights(total)
        disliked = dislike = None
        if (negative := kept & (total <= 0)).any():
            kept &= ~negative
            rows = order[negative]
            last = np.zeros(len(rows)) if events.time is None else events.time[rows]
            disliked = np.column_stack([events.user[rows], events.item[rows]])
            dislike = np.column_stack([total[negative], last])
        weight = total.astype(np.float32)
        del total
        if not kept.all():
            ptr = pointers(kept)[ptr]
            order, item, weight = order[kept], item[kept], weight[kept]
        time = None if events.time is None else events.time[order]
        keys = session_keys(events) if session is None else session
        return cls(
            events.users,
            events.items,
            ptr,
            item,
            weight,
            time,
            disliked,
            dislike,
            session=None if keys is None else keys[order],
        )

    @classmethod
    def of_ratings(cls, ratings: Ratings) -> Histories:
        """What each user rated."""
        return cls.of(Interactions.from_ratings(ratings))

    def __len__(self) -> int:
        return len(self.item)

    @cached_property
    def rows(self) -> HistoryRows:
        user, recent = np.arange(self.n_users), np.zeros(0, np.float32)
        if self.session is not None:
            recent = recency(self.ptr, self.session)
        return HistoryRows(self.ptr, self.item, self.weight, user, self.weighted, recent)

    def by_session(self) -> Histories:
        """A history for each session instead of one for each user."""
        if self.session is None or not len(self):
            return self
        keys = self.user.astype(np.int64) * 2**32 + self.session
        _, first, number = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first[number], kind="stable")  # in order of their first items
        ptr = pointers(np.bincount(number)[np.argsort(first)])
        users = np.arange(len(first))
        return Histories(users, self.items, ptr, self.item[order], self.weight[order], None)

    @cached_property
    def user(self) -> NDArray[np.int32]:
        """The user of each pair."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.ptr))

    @cached_property
    def share_later(self) -> NDArray[np.float64]:
        """For each pair, the share of the pairs that are later; needs times."""
        assert self.time is not None
        ascending = np.sort(self.time)
        return 1.0 - np.searchsorted(ascending, self.time, side="right") / max(len(self), 1)

    @cached_property
    def by_item(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Pointers and the entries of each item, as indices into the pairs."""
        from scipy.sparse import csr_array

        places = np.arange(len(self), dtype=np.int32)
        rows = csr_array((places, self.item, self.ptr), shape=(self.n_users, self.n_items))
        columns = rows.tocsc()
        return columns.indptr.astype(np.int64), columns.data

    @cached_property
    def item_counts(self) -> IntArray:
        """Users of each item."""
        return np.bincount(self.item, minlength=self.n_items)

    def with_items(self, ids: NDArray[Any]) -> Histories:
        """The same histories over a catalog that has these items too."""
        items, _ = extended(self.item_vocabulary, ids)
        return replace(self, items=items)

    def with_users(self, ids: NDArray[Any]) -> Histories:
        """The same histories, and empty ones of other users."""
        users, _ = extended(self.user_vocabulary, ids)
        grown = np.full(len(users) - self.n_users, len(self))
        return replace(self, users=users, ptr=np.concatenate([self.ptr, grown]))

    def merged(self, events: Interactions) -> tuple[Histories, IntArray]:
        """With new events, of known or new users and items; and the numbers of their users.

        The result is that of all events at once, users and items in order of first appearance.
        """
        if (self.time is None) != (events.time is None) and len(self):
            has = "have no times, but those of fit have" if self.time is not None else "have times"
            raise DataError(f"the new events {has}: give both with times, or both without.")
        if events.time is not None and self.time is not None:
            check_unit(events.time, "time", self.time)
        users, number = extended(self.user_vocabulary, events.users)
        items, item = extended(self.item_vocabulary, events.items)
        user = number[events.user]
        changed = np.unique(user)
        known = changed[changed < self.n_users]
        rows = self.rows.take(known)
        entries = self.rows.entries(known)[1]
        pairs, values = self._disliked_by(changed)
        time = None
        if events.time is not None:
            old = np.zeros(0) if self.time is None else self.time[entries]
            time = np.concatenate([old, values[:, 1], events.time])
        keys = session_keys(events)
        if self.session is not None:
            if keys is None:  # the visit goes on
                last = np.zeros(len(users), np.int32)
                some = np.flatnonzero(np.diff(self.ptr) > 0)
                last[some] = self.session[self.ptr[some + 1] - 1]
                keys = last[user]
            keys = np.concatenate([self.session[entries], np.zeros(len(pairs), np.int32), keys])
        else:
            keys = None
        part = Histories.of(
            Interactions.from_numbers(
                users,
                items,
                np.concatenate([np.repeat(known, np.diff(rows.ptr)), pairs[:, 0], user]),
                np.concatenate([rows.item.astype(np.int64), pairs[:, 1], item[events.item]]),
                np.concatenate([rows.weight, np.minimum(values[:, 0], -1e-9), events.weight]),
                time,
            ),
            keys,
        )
        return self._spliced(part, changed), changed

    def _disliked_by(
        self, users: IntArray, *, others: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """What some users, or all others, dislike: pairs, and their weights and times."""
        if self.disliked is None or self.dislike is None:
            return np.zeros((0, 2), np.int64), np.zeros((0, 2))
        kept = np.isin(self.disliked[:, 0], users, invert=others)
        return self.disliked[kept], self.dislike[kept]

    def disliked_in(self, rows: HistoryRows) -> tuple[IntArray, IntArray]:
        """Rows of known users, and the items that these users dislike."""
        if self.disliked is None or len(rows.user) == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        order = np.argsort(rows.user)
        place = np.searchsorted(rows.user[order], self.disliked[:, 0])
        place = order[np.minimum(place, len(order) - 1)]
        found = rows.user[place] == self.disliked[:, 0]
        return place[found], self.disliked[found, 1]

    def _spliced(self, part: Histories, changed: IntArray) -> Histories:
        """These histories, with those of some users taken from another."""
        counts = np.append(np.diff(self.ptr), np.zeros(part.n_users - self.n_users, np.int64))
        counts[changed] = np.diff(part.ptr)[changed]
        old = np.append(self.ptr, np.full(part.n_users - self.n_users, len(self)))
        # The rows before each changed one, then that one; at last the rows after all of them.
        kept = zip([0, *old[changed + 1]], [*old[changed], len(self)], strict=True)
        new = zip([*part.ptr[changed], 0], [*part.ptr[changed + 1], 0], strict=True)
        cuts = [(slice(*own), slice(*other)) for own, other in zip(kept, new, strict=True)]
        columns = [
            None
            if a is None or b is None
            else np.concatenate([piece for own, other in cuts for piece in (a[own], b[other])])
            for a, b in ((self.item, part.item), (self.weight, part.weight), (self.time, part.time))
        ]
        if self.disliked is not None or part.disliked is not None:
            both = self._disliked_by(changed, others=True), part._disliked_by(changed)
            columns += [np.concatenate(pair) for pair in zip(*both, strict=True)]
        session = None
        if self.session is not None and part.session is not None:
            pieces = [x for a, b in cuts for x in (self.session[a], part.session[b])]
            session = np.concatenate(pieces)
        spliced = replace(
            Histories(part.users, part.items, pointers(counts), *columns),  # type: ignore[arg-type]
            weighted=self.weighted,
            session=session,
        )
        for name, ids in (("user_vocabulary", self.users), ("item_vocabulary", self.items)):
            if len(ids) == len(getattr(spliced, name[:4] + "s")):
                vars(spliced)[name] = getattr(self, name)
        return spliced

    def events(self) -> Interactions:
        """The pairs as events, in order of time if there are times."""
        user = self.user.astype(np.int64)
        columns = (user, self.item.astype(np.int64), self.weight.astype(np.float64), self.time)
        return Interactions.from_numbers(self.users, self.items, *columns)


def pointers(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Where each row starts, and the end of the last one, from the lengths of the rows."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def session_keys(events: Interactions) -> NDArray[np.int32] | None:
    """A hash of the session of each event, the same in each call; None without sessions."""
    if events.session is None or events.sessions is None:
        return None
    return (hash_ids(events.sessions) >> np.uint64(33)).astype(np.int32)[events.session]


def recency(ptr: NDArray[np.int64], session: NDArray[np.int32]) -> NDArray[np.float32]:
    """1 for what belongs to the session of the last entry of its row, ``EARLIER`` for the rest."""
    last = np.repeat(session[np.maximum(ptr[1:] - 1, 0)], np.diff(ptr)) if len(session) else session
    return np.where(session == last, np.float32(1.0), EARLIER)


def check_weights(weight: NDArray[Any]) -> None:
    """Refuse sums of weights so large that nothing else counts."""
    if (largest := float(np.max(weight, initial=0.0))) > MAX_WEIGHT:
        raise DataError(
            f"the weights of the events of one user and item add up to {largest:g}: above "
            f"{MAX_WEIGHT:g} nothing else counts. Divide the weights, so that a usual event "
            "has about 1."
        )


def extended(known: Vocabulary, ids: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """All ids, new ones last, and the number of each of ``ids``."""
    numbers = known.numbers(ids, unknown=-1)
    new = np.flatnonzero(numbers < 0)
    numbers[new] = len(known) + np.arange(len(new))
    return (joined([known.ids, ids[new]]) if len(new) else known.ids), numbers
