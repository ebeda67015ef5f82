"""The log of a service as it is read: what is committed, in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apsw

from rankwright.exceptions import DataError
from rankwright.service.log.entries import describe

COLUMNS = "seq, time, kind, key, event, user, body"
BLOCK = 256  # rows read at once


class Entry(NamedTuple):
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

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            raise FileNotFoundError(f"{self.path}: there is no such log.")
        self._local = threading.local()
        self._readers: list[Any] = []

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._readers:
            connection.close()

    def find(self, key: str, kind: str) -> Entry | None:
        """The entry with this key, if it is of this kind."""
        query = f"SELECT {COLUMNS} FROM log WHERE key = ? AND kind = ?"
        return next(map(Entry._make, self._reader().execute(query, (key, kind))), None)

    def entries(
        self, kinds: Iterable[str] = (), *, after: int = 0, user: str | None = None
    ) -> Iterator[Entry]:
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
            block = [Entry._make(row) for row in self._reader().execute(query, (after, *values))]
            yield from block
            if len(block) < BLOCK:
                return
            after = block[-1].seq

    def select(self, query: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; for counts and summaries."""
        return list(self._reader().execute(query, tuple(values)))

    def state(self, name: str) -> bytes | None:
        """A value that was kept with :func:`put_state`."""
        rows = self.select("SELECT value FROM state WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def _reader(self) -> Any:
        reader = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = apsw.Connection(
                self.path, flags=apsw.SQLITE_OPEN_READONLY
            )
            reader.set_busy_timeout(5000)
            self._readers.append(reader)
        return reader


def read_entries(path: Any) -> Iterator[dict[str, Any]]:
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
    >>> from rankwright.service import Store
    >>> from rankwright.service.log.entries import Feedback, encode
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "feedback.db"
    >>> store = Store(path)
    >>> body = encode(Feedback(id="1", grades={"a": 2.0}))
    >>> _ = store.append("feedback", "e1/1", body, event="e1").result()
    >>> store.close()
    >>> [(line["event"], line["grades"]) for line in read_entries(path)]
    [('e1', {'a': 2.0})]
    """
    log = LogReader(path)
    try:
        for entry in log.entries(("event", "feedback", "judgment")):
            yield describe(entry)
    except apsw.Error as error:
        raise DataError(f"{log.path} is not a log of rankwright ({error}).") from error
    finally:
        log.close()
