"""Who leads, which part of a log two stores share, and what a leader sends to its replica."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import apsw
import msgspec

from rankwright.service.log.reader import COLUMNS, LogReader
from rankwright.service.log.store import Store, put_state, read_revision

STATE = "leadership"  # name in the table of states
MOST_BYTES = 8 * 2**20  # of the entries of one shipment
MOST_ENTRIES = 5000  # in one shipment
MOST_RUNS = 1000  # that a store remembers
Run = tuple[int, int]  # a term, which begins with a promotion, and a start of the leader in it


class Leadership(msgspec.Struct, frozen=True):
    """Which terms and runs wrote a log, and where each began.

    A term begins with a promotion, a run with a start of the leader. Two logs are the same up to
    the point where a run began that only one of them knows.

    Parameters
    ----------
    run : the term and the run that write, or wrote last
    starts : each run, and the last entry before it
    fenced : a later term that another store leads, if one does
    replicated : whether a replica has copied this log since the term began
    replica_of : the leader that this store is a copy of; None if this store leads
    promoted_from : the leader that this store was a copy of before it was promoted
    unfenced : the same, as long as that leader has not been told
    """

    run: Run = (0, 0)
    starts: tuple[tuple[int, int, int], ...] = ()
    fenced: int | None = None
    replicated: bool = False
    replica_of: str | None = None
    promoted_from: str | None = None
    unfenced: str | None = None

    def next_run(self, last: int, *, promoted: bool = False) -> Leadership:
        """The same log, continued by a new leader or by a new start of the same one.

        >>> Leadership().next_run(10).next_run(20, promoted=True).starts
        ((0, 1, 10), (1, 0, 20))
        """
        term, number = self.run
        run = (term + 1, 0) if promoted else (term, number + 1)
        starts = (*self.starts, (*run, last))[-MOST_RUNS:]
        return msgspec.structs.replace(self, run=run, starts=starts)

    def shares(self, run: Run, last: int, own_last: int) -> bool:
        """Whether a log of a run that ends with ``last`` is the beginning of this one.

        >>> leader = Leadership().next_run(10).next_run(20, promoted=True)
        >>> [leader.shares((0, 1), last, 50) for last in (15, 20, 21)]
        [True, True, False]
        """
        later = [before for *began, before in self.starts if tuple(began) > run]
        oldest = self.starts[0] if self.starts else (0, 0, 0)
        known = run == self.run or run >= oldest[:2] or len(self.starts) < MOST_RUNS
        return known and last <= min([*later, own_last])


class Position(msgspec.Struct, frozen=True):
    """How far a store is: its last entry, and the number of its other changes."""

    last: int
    revision: int

    def reaches(self, other: Position) -> bool:
        return self.last >= other.last and self.revision >= other.revision


class ModelRow(msgspec.Struct, frozen=True):
    """A model of the store, as it is sent."""

    version: str
    time: float
    about: bytes
    file: bytes


class Shipment(msgspec.Struct, frozen=True):
    """What a replica lacks.

    ``entries`` are rows of the log. If the rest of the store has changed, and no more entries are
    missing, ``state`` has all states, ``models`` the versions of the models and when they came, and
    ``ranges`` the first and last numbers of the entries that are left. ``diverged``: the log of the
    replica is not the beginning of this one.
    """

    leadership: Leadership
    position: Position
    entries: list[tuple[int, float, str, str, str | None, str | None, bytes]] = []
    state: dict[str, bytes] | None = None
    models: dict[str, float] = {}
    ranges: list[tuple[int, int]] = []
    diverged: bool = False


def identity(log: LogReader) -> str:
    """What a store and its copies have in common, and other stores do not."""
    return hashlib.sha256(b"store" + (log.state("secret") or b"")).hexdigest()[:16]


def leadership(log: LogReader) -> Leadership:
    return log.state_as(STATE, Leadership) or Leadership()


def set_leadership(store: Store, value: Leadership) -> None:
    """Keep it on the disk; replicas copy it with the next other change."""
    content = msgspec.msgpack.encode(value)
    store.write(lambda db: put_state(db, STATE, content)).result()


def position(log: LogReader) -> Position:
    with log.reading() as db:
        return _position(db)


def _position(db: apsw.Connection) -> Position:
    last: Any = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").get
    return Position(last or 0, read_revision(db))


def ship(log: LogReader, run: Run, since: Position) -> Shipment:
    """What a replica lacks that has the beginning of the log, read in one transaction."""
    with log.reading() as db:
        content: Any = db.execute("SELECT value FROM state WHERE name = ?", (STATE,)).get
        own = msgspec.msgpack.decode(content, type=Leadership) if content else Leadership()
        here = _position(db)
        if not own.shares(run, since.last, here.last):
            return Shipment(own, here, diverged=True)
        query = f"SELECT {COLUMNS} FROM log WHERE seq > ? ORDER BY seq LIMIT ?"
        entries: list[Any] = []
        size = 0
        for row in db.execute(query, (since.last, MOST_ENTRIES)):
            entries.append(row)
            size += len(row[-1])
            if size > MOST_BYTES:
                break
        complete = len(entries) < MOST_ENTRIES and size <= MOST_BYTES
        if since.revision == here.revision or not complete:
            return Shipment(own, here, entries)
        rows: Any = db.execute("SELECT name, value FROM state")
        state = dict(rows)
        models: Any = db.execute("SELECT version, time FROM models")
        numbers: Any = (seq for (seq,) in db.execute("SELECT seq FROM log ORDER BY seq"))
        return Shipment(own, here, entries, state, dict(models), list(ranges_of(numbers)))


def read_model(log: LogReader, version: str) -> ModelRow | None:
    rows = log.select("SELECT version, time, about, file FROM models WHERE version = ?", (version,))
    return ModelRow(*rows[0]) if rows else None


def missing_models(log: LogReader, wanted: dict[str, float]) -> list[str]:
    """Versions that a replica has to fetch."""
    own = dict(log.select("SELECT version, time FROM models"))
    return [version for version, time in wanted.items() if own.get(version) != time]


def apply_shipment(
    db: apsw.Connection, shipment: Shipment, models: list[ModelRow], leader: str
) -> None:
    """Make a replica what its leader was, in a transaction of :meth:`Store.write`."""
    marks = ", ".join("?" * len(COLUMNS.split(",")))
    db.executemany(f"INSERT INTO log({COLUMNS}) VALUES({marks})", shipment.entries)
    if shipment.state is not None:
        _apply_state(db, shipment, shipment.state, models)
    own = msgspec.structs.replace(
        shipment.leadership, replica_of=leader, fenced=None, promoted_from=None, unfenced=None
    )
    put_state(db, STATE, msgspec.msgpack.encode(own))


def _apply_state(
    db: apsw.Connection, shipment: Shipment, state: dict[str, bytes], models: list[ModelRow]
) -> None:
    kept = [(0, 0), *shipment.ranges, (2**62, 2**62)]
    for (_, before), (after, _) in pairwise(kept):
        if after - before > 1:
            db.execute("DELETE FROM log WHERE seq > ? AND seq < ?", (before, after))
    for (version,) in list(db.execute("SELECT version FROM models")):
        if version not in shipment.models:
            db.execute("DELETE FROM models WHERE version = ?", (version,))
    for model in models:
        row = (model.version, model.time, model.about, model.file)
        db.execute("INSERT OR REPLACE INTO models VALUES(?, ?, ?, ?)", row)
    db.execute("DELETE FROM state")
    db.executemany("INSERT INTO state VALUES(?, ?)", state.items())
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'log'")
    db.execute("INSERT INTO sqlite_sequence VALUES('log', ?)", (shipment.position.last,))


def ranges_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as the first and last of each run without a gap.

    >>> list(ranges_of([1, 2, 3, 7, 9, 10]))
    [(1, 3), (7, 7), (9, 10)]
    """
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last
