"""The log of a service as it is read: entries in order, and which of its judgments count."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from rankwright.exceptions import DataError
from rankwright.service.log.entries import DamagedStore, decode_judgment, describe

if TYPE_CHECKING:
    from apsw import Connection

COLUMNS = "seq, time, kind, key, event, user, body"
APPLICATION_ID = 0x52616E6B  # "Rank": what `file` and SQLite know a store by
VERSION = 1  # of a store, its user_version
BLOCK = 256  # rows read at once

T = TypeVar("T")
_Document = tuple[str | None, str, tuple[str, ...]]  # a judge, a query, a document
_NONE: _Document = (None, "", ())


class LogEntry(NamedTuple):
    """A row of the log. ``body`` is what :mod:`rankwright.service.log.entries` encoded."""

    seq: int
    time: float
    kind: str
    key: str
    event: str | None
    user: str | None
    body: bytes


class LogReader:
    """A log file that is read: what is committed, also while a service writes to it.

    Parameters
    ----------
    path : the file that ``rankwright serve --store`` wrote
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            raise FileNotFoundError(f"{self.path}: there is no such log.")
        self._idle: list[Any] = []  # connections that no thread uses now

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()

    def find(self, key: str, kind: str) -> LogEntry | None:
        """The entry with this key, if it is of this kind."""
        query = f"SELECT {COLUMNS} FROM log WHERE key = ? AND kind = ?"
        return next(map(LogEntry._make, self.select(query, (key, kind))), None)

    def entries(
        self, kinds: Iterable[str] = (), *, after: int = 0, user: str | None = None
    ) -> Iterator[LogEntry]:
        """Entries in log order, of these kinds (all by default), with a higher ``seq``."""
        kinds = tuple(kinds)
        condition = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        condition += "" if user is None else " AND user = ?"
        values = (*kinds, *(() if user is None else (user,)))
        table = "log"
        if kinds == ("judgment",):  # far fewer rows than the others
            table, condition = "log INDEXED BY log_judgments", f" AND kind = 'judgment'{condition}"
        elif kinds and "event" not in kinds:  # far fewer rows than the events
            table, condition = "log INDEXED BY log_answers", f" AND kind != 'event'{condition}"
        query = f"SELECT {COLUMNS} FROM {table} WHERE seq > ?{condition} ORDER BY seq LIMIT {BLOCK}"
        while True:  # block by block: a long read would keep the WAL from being truncated
            block = [LogEntry._make(row) for row in self.select(query, (after, *values))]
            yield from block
            if len(block) < BLOCK:
                return
            after = block[-1].seq

    def select(self, query: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query, read with a connection that no other thread uses meanwhile."""
        import apsw  # here, because a log in a text file needs no service

        try:
            connection = self._idle_or_new()
            rows = list(connection.execute(query, tuple(values)))
        except apsw.Error as error:
            raise DamagedStore(
                f"it is not a log, or it is damaged ({error}).", file=self.path
            ) from error
        self._idle.append(connection)
        return rows

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection whose queries all see the log as it was at the first one."""
        import apsw

        try:
            connection = self._idle_or_new()
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
        except apsw.Error as error:
            raise DamagedStore(f"it cannot be read ({error}).", file=self.path) from error
        self._idle.append(connection)

    def state(self, name: str) -> bytes | None:
        """A value that was kept with :func:`put_state`."""
        rows = self.select("SELECT value FROM state WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def state_as(self, name: str, type_: type[T]) -> T | None:
        """The same, decoded; None if there is none."""
        content = self.state(name)
        try:
            return None if content is None else msgspec.msgpack.decode(content, type=type_)
        except msgspec.DecodeError as error:
            raise DamagedStore(f"its {name} cannot be read ({error}).", file=self.path) from error

    def _idle_or_new(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:  # other threads use them all
            return self._connect()

    def _connect(self) -> Any:
        import apsw

        connection = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(5000)
        check_version(connection, self.path)
        return connection


def check_version(db: Connection, path: str) -> None:
    """Refuse the file of another program, and a store that a newer rankwright wrote."""
    application = db.execute("PRAGMA application_id").get
    version = db.execute("PRAGMA user_version").get
    if application not in (0, APPLICATION_ID) or (application == 0 and version != 0):
        raise DamagedStore("it is not a log of rankwright.", file=path, fix="Use another file.")
    if version > VERSION:
        raise DataError(
            f"it is a store of version {version}, and this rankwright reads up to {VERSION}.",
            kind="newer",
            file=path,
            fix="Upgrade: pip install -U rankwright, or restore a backup of an earlier version.",
        )


def read_entries(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """What a log file holds, in order: the objects of the lines of ``GET /v1/log``.

    A service may be writing to the file meanwhile.

    Parameters
    ----------
    path : the file that ``rankwright serve --store`` wrote

    Yields
    ------
    dict with "kind" ("event", "feedback" or "judgment"), "time" and what that kind has

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from rankwright.service.log.entries import LoggedFeedback, encode
    >>> from rankwright.service.log.store import Store
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "feedback.db"
    >>> store = Store(path)
    >>> body = encode(LoggedFeedback(id="1", grades={"a": 2.0}))
    >>> _ = store.append("feedback", "e1/1", body, event="e1").result()
    >>> store.close()
    >>> [(line["event"], line["grades"]) for line in read_entries(path)]
    [('e1', {'a': 2.0})]
    """
    log = LogReader(path)
    try:
        for entry in log.entries(("event", "feedback", "judgment")):
            yield describe(entry)
    finally:
        log.close()


class CurrentJudgments:
    """The graded judgments that count: of each judge and document the last one, unless undone.

    It is a function of the log, entry by entry.

    Examples
    --------
    >>> from rankwright.service.log.entries import Judgment, encode
    >>> def entry(seq, action, **more):
    ...     body = encode(Judgment(action, "grades", **more))
    ...     return LogEntry(seq, 0.0, "judgment", f"k{seq}", None, "ann", body)
    >>> current, document = CurrentJudgments(), {"query": "q", "documents": ("d",)}
    >>> current.apply(entry(1, "judge", value=3, **document))
    []
    >>> current.apply(entry(2, "judge", value=4, **document))  # replaces the first one
    [1]
    >>> current.apply(entry(3, "undo", of="k2"))  # now the first one counts again
    [1, 2]
    >>> 1 in current, 2 in current
    (True, False)
    """

    def __init__(self, entries: Iterable[LogEntry] = ()) -> None:
        self._answers: dict[_Document, list[tuple[int, bool]]] = {}  # (seq, has a grade)
        self._keys: dict[str, tuple[_Document, int]] = {}
        self._counted: set[int] = set()
        for entry in entries:
            self.apply(entry)

    def __contains__(self, seq: int) -> bool:
        return seq in self._counted

    def apply(self, entry: LogEntry) -> list[int]:
        """Apply a judgment; the earlier ones that count no more, or count again."""
        judgment, judge = decode_judgment(entry.body), entry.user or ""
        if judgment.mode != "grades":
            return []
        undo = judgment.action == "undo"
        document: _Document = (judge, judgment.query, judgment.documents)
        seq = entry.seq
        if undo:
            document, seq = self._keys.get(judgment.of, (_NONE, 0))
            if document[0] != judge:  # unknown, or of another judge
                return []
            del self._keys[judgment.of]
        answers = self._answers.setdefault(document, [])
        before = self._last(answers)
        if undo:
            answers[:] = [answer for answer in answers if answer[0] != seq]
        else:
            self._keys[entry.key] = document, seq
            answers.append((seq, judgment.value is not None))
        after = self._last(answers)
        self._counted -= before
        self._counted |= after
        return sorted((before ^ after) - {entry.seq})

    def forget_until(self, seq: int) -> None:
        """Drop what is no longer in the log: it stays learned and cannot be taken back."""
        self._counted = {number for number in self._counted if number > seq}
        self._keys = {key: pair for key, pair in self._keys.items() if pair[1] > seq}
        for document, answers in self._answers.items():
            self._answers[document] = [answer for answer in answers if answer[0] > seq]

    @staticmethod
    def _last(answers: list[tuple[int, bool]]) -> set[int]:
        return {answers[-1][0]} if answers and answers[-1][1] else set()


def median_value(values: Iterable[float]) -> float:
    """The median of what several judges gave; between two grades, the higher one.

    >>> median_value([0, 3, 4]), median_value([2, 3])
    (3.0, 3.0)
    """
    return float(np.floor(np.median(list(values)) + 0.5))
