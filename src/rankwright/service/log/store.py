"""The log of a service: one SQLite file, append-only, with one writer and group commit."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import chain, groupby
from typing import Any, NamedTuple, TextIO

import apsw
import msgspec

from rankwright.exceptions import ParameterError, RankwrightError
from rankwright.service.log.clock import Clock
from rankwright.service.log.entries import DamagedStore
from rankwright.service.log.reader import (
    APPLICATION_ID,
    VERSION,
    LogEntry,
    LogReader,
    check_version,
)

OLDEST_SQLITE = (3, 51, 3)  # earlier versions can lose a WAL checkpoint race
GROUP_SECONDS = 0.002  # how long a commit waits for more rows to share its fsync
QUIET_SECONDS = 0.05  # the same for rows that nobody waits for
TRUNCATE_SECONDS = 5.0  # that a deletion waits for the readers of the log
MOST_PENDING = 64 * 2**20  # bytes of rows that wait for the disk
MOST_RECENT = 4 * 2**20  # bytes of written events that are kept in memory for their feedback
ROWS_AT_ONCE = 16  # events of one INSERT: the thread gives up the interpreter's lock once for all
log = logging.getLogger("rankwright.service")

SCHEMA = """
CREATE TABLE log(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE, event TEXT, user TEXT, body BLOB NOT NULL) STRICT;
CREATE INDEX log_user ON log(user) WHERE user IS NOT NULL;
CREATE INDEX log_answers ON log(seq) WHERE kind != 'event';
CREATE INDEX log_judgments ON log(seq) WHERE kind = 'judgment';
CREATE TABLE models(
    version TEXT PRIMARY KEY, time REAL NOT NULL, about BLOB NOT NULL, file BLOB NOT NULL) STRICT;
CREATE TABLE state(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
"""
# How a store of each version becomes one of the next; version 0 had no application_id.
MIGRATIONS: tuple[str, ...] = ("",)
assert len(MIGRATIONS) == VERSION
TABLES = {
    "log": ["seq", "time", "kind", "key", "event", "user", "body"],
    "models": ["version", "time", "about", "file"],
    "state": ["name", "value"],
}
REVISION = "revision"
_ROW = "(?, ?, ?, ?, ?, ?)"
INSERT, INSERT_MANY = (
    f"INSERT INTO log(time, kind, key, event, user, body) VALUES {', '.join([_ROW] * n_rows)} "
    "ON CONFLICT(key) DO NOTHING"
    for n_rows in (1, ROWS_AT_ONCE)
)


class StoreError(RankwrightError, OSError):
    """The log cannot be written: the disk is full, too slow, or not writable.

    Clients see the message; the path of the store is in ``file``.
    """


class NotLeader(StoreError):
    """The service does not accept writes: another one leads, or may lead."""


class Appended(NamedTuple):
    """Where an entry is in the log, and whether one with its key was there before."""

    seq: int
    duplicate: bool


class _Job(NamedTuple):
    """Work of the writer: events, or a function of the connection that somebody waits for."""

    events: list[LogEntry]
    run: Callable[[apsw.Connection], Any]
    future: Future[Any] | None
    size: int = 0


class Store(LogReader):
    """The log, the model files and the snapshots of one service.

    All writes go through one thread. It runs everything that arrives within a few milliseconds in
    one transaction, and answers when the transaction is on the disk (WAL, ``synchronous=FULL``).
    A transaction of events alone, for which nobody waits, is left to the system to write
    (``synchronous=NORMAL``): a killed process loses none, and the next transaction that somebody
    waits for takes those before it to the disk. Reads use connections of their own and see what is
    committed.

    Parameters
    ----------
    path : the SQLite file; it is created, with permissions for its owner only
    wait : seconds to wait for a file that another service uses

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from rankwright.service.log.entries import encode
    >>> judgment = encode({"query": "q", "item": "a", "grade": 2})
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()) / "feedback.db")
    >>> store.append("judgment", "j1", judgment).result().duplicate
    False
    >>> store.append("judgment", "j1", judgment).result().duplicate
    True
    >>> [entry.key for entry in store.entries()]
    ['j1']
    >>> store.close()
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: float = 0.0) -> None:
        path = os.path.realpath(path)  # a second name of the file is the same lock
        self._lock_file = _lock(path, wait)
        try:
            self._writer = open_store(path)
        except apsw.Error as error:
            self._lock_file.close()
            raise DamagedStore(f"it is not a log of rankwright ({error}).", file=path) from error
        except BaseException:
            self._lock_file.close()
            raise
        super().__init__(path)
        self._jobs: list[_Job] = []
        self._pending = 0
        self._ready = threading.Condition()
        self._closed = False
        self._listeners: list[Callable[[], None]] = []
        self.recent: OrderedDict[str, LogEntry] = OrderedDict()
        self._n_recent = 0  # bytes of them
        self._synchronous = "FULL"
        self.clock = Clock()
        self.refusal: str | None = None  # why nothing is accepted; None on a leader
        self.on_refusal: Callable[[], None] = _no_work
        self.before_unknown: Callable[[], None] = _no_work  # before an event counts as unknown
        self.error: str | None = None  # why the last commit failed; None when it succeeded
        self._thread = threading.Thread(target=self._run, name="rankwright-log", daemon=True)
        self._thread.start()

    # Writing.

    def append(
        self, kind: str, key: str, body: bytes, *, event: str | None = None, user: str | None = None
    ) -> Future[Appended]:
        """Append an entry; the future resolves when it is on the disk.

        A key that the log already has appends nothing: the answer is the entry that was there.
        """
        entry = LogEntry(0, self.clock.stamp(), kind, key, event, user, body)
        future: Future[Appended] = Future()
        job = _Job([], lambda db: _insert(db, entry), future, len(body))
        self._submit(job, leader_only=True)
        return future

    def append_event(self, event: str, body: bytes, user: str | None = None) -> None:
        """Append what was shown, without waiting; its feedback comes later in the same log."""
        self.append_events([(self.clock.stamp(), event, user, body)])

    def append_events(self, events: Iterable[tuple[float, str, str | None, bytes]]) -> None:
        """The same for several: when each was shown, its id, the user, and the encoded event."""
        entries = [
            LogEntry(0, self.clock.stamp(moment), "event", event, event, user, body)
            for moment, event, user, body in events
        ]
        if not entries:
            return
        size = sum(len(entry.body) for entry in entries)
        with self._ready:
            self._submit(_Job(entries, _nothing, None, size), leader_only=True)
            self.recent.update((entry.key, entry) for entry in entries)
            self._n_recent += size
            while self._n_recent > MOST_RECENT + self._pending:  # the oldest are written
                self._forget(next(iter(self.recent)))

    def write(self, run: Callable[[apsw.Connection], Any]) -> Future[Any]:
        """Run a function of the writing connection in the next transaction."""
        future: Future[Any] = Future()
        self._submit(_Job([], run, future))
        return future

    def change(self, run: Callable[[apsw.Connection], Any]) -> Future[Any]:
        """The same for a change that replicas have to make, too; refused if this is a replica."""

        def run_and_count(db: apsw.Connection) -> Any:
            result = run(db)
            put_state(db, REVISION, msgspec.msgpack.encode(read_revision(db) + 1))
            return result

        future: Future[Any] = Future()
        self._submit(_Job([], run_and_count, future), leader_only=True)
        return future

    def refuse_writes(self, reason: str | None) -> None:
        """Accept nothing more, for a reason; what was accepted before is written."""
        with self._ready:
            self.refusal = reason
        self.on_refusal()

    def delete_user(self, user: str) -> int:
        """Delete every entry with this user id; the number of entries."""
        with self._ready:
            for event in [name for name, entry in self.recent.items() if entry.user == user]:
                self._forget(event)

        def delete(db: apsw.Connection) -> int:
            n_entries = _delete(db, "user = ?", (user,))
            if n_entries:  # what was learned from them goes with them
                db.execute("DELETE FROM state WHERE name GLOB 'live*'")
            return n_entries

        n_entries = int(self.change(delete).result())
        self._truncate()
        return n_entries

    def delete_before(self, moment: float, last_seq: int | None = None) -> int:
        """Delete entries older than a moment, up to ``last_seq``; the number of entries."""
        limit = 2**62 if last_seq is None else last_seq
        condition = "time < ? AND seq <= ? AND kind != 'model'"
        n_entries = int(self.change(lambda db: _delete(db, condition, (moment, limit))).result())
        self._truncate()
        return n_entries

    def _forget(self, event: str) -> None:
        self._n_recent -= len(self.recent.pop(event).body)

    def _truncate(self) -> None:
        """Move the WAL into the file, so that deleted rows are in neither.

        SQLite would wait for readers, such as a backup, with the lock of the writer. So the
        connection waits for nobody, and tries again.
        """
        db = apsw.Connection(self.path)
        db.set_busy_timeout(0)
        deadline = time.monotonic() + TRUNCATE_SECONDS
        while not (done := _truncates(db)) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not done:
            log.warning("deleted rows stay in %s-wal until its readers have ended", self.path)
        db.close()

    def flush(self) -> None:
        """Wait until everything appended so far is on the disk."""
        if not self._closed:
            self.write(lambda db: None).result()

    def close(self) -> None:
        """Commit what is waiting, then close the file."""
        with self._ready:
            if self._closed:
                return
            self._closed = True
            self._ready.notify()
        self._thread.join()
        super().close()
        self._writer.close()
        self._lock_file.close()

    # Reading.

    def event(self, event: str) -> LogEntry | None:
        """What was shown under this id, also if it is not on the disk yet."""
        found = self.recent.get(event) or self.find(event, "event")
        if found is None:
            self.before_unknown()
            found = self.recent.get(event)
        return found

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Call this after every commit of more than events, in the writer's thread."""
        self._listeners = [*self._listeners, listener]

    def off_commit(self, listener: Callable[[], None]) -> None:
        """Call this no more."""
        self._listeners = [other for other in self._listeners if other != listener]

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending(self) -> int:
        """Bytes that wait for the disk."""
        return self._pending

    # The writer's thread.

    def _submit(self, job: _Job, leader_only: bool = False) -> None:
        with self._ready:
            if leader_only and self.refusal is not None:
                raise NotLeader(self.refusal)
            if self._closed:
                raise StoreError("the log is closed.")
            if self._pending > MOST_PENDING:
                raise StoreError(
                    f"{self._pending:,} bytes wait for the disk, which is too slow.",
                    fix="Try again later.",
                )
            self._jobs.append(job)
            self._pending += job.size
            if len(self._jobs) == 1 or job.future is not None:
                self._ready.notify()

    def _run(self) -> None:
        while jobs := self._next_jobs():
            results = self._commit(jobs)
            with self._ready:
                self._pending -= sum(job.size for job in jobs)
            for job, result in zip(jobs, results, strict=True):
                _resolve(job.future, result)
            if any(job.future is not None for job in jobs):  # more than events
                for listener in self._listeners:
                    listener()

    def _next_jobs(self) -> list[_Job]:
        """Wait for work, and a few milliseconds longer for more; empty at the end."""
        with self._ready:
            while not self._jobs and not self._closed:
                self._ready.wait()
            if not self._closed:
                deadline = time.monotonic() + QUIET_SECONDS
                while time.monotonic() < deadline and not self._closed:
                    if any(job.future for job in self._jobs):
                        break
                    self._ready.wait(deadline - time.monotonic())
        if not self._closed:
            time.sleep(GROUP_SECONDS)
        with self._ready:
            jobs, self._jobs = self._jobs, []
            return jobs

    def _commit(self, jobs: list[_Job]) -> list[Any]:
        """Run the jobs in one transaction. If one fails, each gets a transaction of its own."""
        try:
            self._set_synchronous("FULL" if any(job.future for job in jobs) else "NORMAL")
            self._writer.execute("BEGIN IMMEDIATE")
            results = self._work(jobs)
            self._writer.execute("COMMIT")
        except Exception as error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            if len(jobs) > 1:
                return [self._commit([job])[0] for job in jobs]
            job = jobs[0]
            if len(job.events) > 1:
                return [self._commit([job._replace(events=[each])])[0] for each in job.events][:1]
            self._forget_unwritten(error)
            return [StoreError(f"the log cannot be written ({error}).")]
        self.error = None
        return results

    def _set_synchronous(self, value: str) -> None:
        if value != self._synchronous:
            self._writer.execute(f"PRAGMA synchronous={value}")
            self._synchronous = value

    def _work(self, jobs: list[_Job]) -> list[Any]:
        """The result of each job; events that follow one another are inserted together."""
        results: list[Any] = []
        for are_events, group in groupby(jobs, lambda job: bool(job.events)):
            members = list(group)
            if are_events:
                _insert_events(self._writer, [e[1:] for job in members for e in job.events])
                results += [None] * len(members)
            else:
                results += [job.run(self._writer) for job in members]
        return results

    def _forget_unwritten(self, error: Exception) -> None:
        """After a failed commit, answer "unknown event" rather than log feedback without it."""
        self.error = str(error)
        with self._ready:
            self.recent.clear()
            self._n_recent = 0


def read_revision(db: apsw.Connection) -> int:
    """How many changes were made that are not entries of the log."""
    content = db.execute("SELECT value FROM state WHERE name = ?", (REVISION,)).get
    return 0 if content is None else msgspec.msgpack.decode(content, type=int)


def put_state(db: apsw.Connection, name: str, value: bytes) -> None:
    """Keep a value under a name, in a transaction of :meth:`Store.write`."""
    db.execute("INSERT OR REPLACE INTO state VALUES(?, ?)", (name, value))


def _insert(db: apsw.Connection, entry: LogEntry) -> Appended:
    rows: list[Any] = db.execute(f"{INSERT} RETURNING seq", entry[1:]).fetchall()
    duplicate = not rows
    if duplicate:
        rows = list(db.execute("SELECT seq FROM log WHERE key = ?", (entry.key,)))
    return Appended(rows[0][0], duplicate)


def _insert_events(db: apsw.Connection, rows: list[Any]) -> None:
    n_grouped = len(rows) - len(rows) % ROWS_AT_ONCE
    for start in range(0, n_grouped, ROWS_AT_ONCE):
        db.execute(INSERT_MANY, tuple(chain.from_iterable(rows[start : start + ROWS_AT_ONCE])))
    db.executemany(INSERT, rows[n_grouped:])


def _delete(db: apsw.Connection, condition: str, values: tuple[Any, ...]) -> int:
    db.execute(f"DELETE FROM log WHERE {condition}", values)
    return int(db.changes())


def _truncates(db: apsw.Connection) -> bool:
    """Try to empty the WAL; whether nobody used it."""
    try:
        ((is_busy, *_),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except apsw.BusyError:
        return False
    return not is_busy


def _no_work() -> None:
    return None


def _nothing(db: apsw.Connection) -> None:
    return None


def _resolve(future: Future[Any] | None, result: object) -> None:
    if future is not None and future.set_running_or_notify_cancel():
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def open_store(path: str) -> apsw.Connection:
    """The writing connection: durable commits, deleted rows overwritten, no shared writer."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < OLDEST_SQLITE:
        raise ParameterError(
            f"SQLite {apsw.sqlite_lib_version()} is too old to keep a log safely; "
            f"{'.'.join(map(str, OLDEST_SQLITE))} is needed. Upgrade apsw."
        )
    os.close(_opened(path))
    db = apsw.Connection(path)
    db.set_busy_timeout(5000)
    db.execute("PRAGMA page_size=16384")  # of a new file: lists with features are tens of kB
    for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "mmap_size=0"):
        db.execute(f"PRAGMA {setting}").fetchall()
    db.execute("PRAGMA wal_autocheckpoint=1000").fetchall()
    try:
        _migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: apsw.Connection, path: str) -> None:
    """Make a new store, or bring an older one up to date, in one transaction."""
    check_version(db, path)
    version = db.execute("PRAGMA user_version").get
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")}
    with db:
        if version == 0:
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        if version == 0 and not tables:
            db.execute(SCHEMA)
        else:
            for change in MIGRATIONS[version:]:
                db.execute(change)
        for table, columns in TABLES.items():
            found = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            if found != columns:
                raise DamagedStore(f"its table {table} has the columns {found}.", file=path)
        db.execute(f"PRAGMA user_version={VERSION}")


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Keep services away from a file for a while."""
    file = _lock(path, 0.0)
    try:
        yield
    finally:
        file.close()


def _opened(path: str) -> int:
    """A file for its owner only, made if it is not there."""
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, os.O_RDWR)
    give_to_owner_of_folder(number, path)
    return number


def give_to_owner_of_folder(number: int, path: str) -> None:
    """Let the service that runs in a folder own what root makes there, such as a restored store."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        folder = os.stat(os.path.dirname(os.path.abspath(path)))
        with suppress(OSError):  # NFS, or a container without the right: as before
            os.fchown(number, folder.st_uid, folder.st_gid)


def _lock(path: str, wait: float) -> TextIO:
    """Keep a second service away from the file; the lock ends with the process."""
    file = open(_opened(f"{path}-lock"), "w")  # noqa: SIM115
    with suppress(ImportError):
        import fcntl

        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() < deadline:
                    time.sleep(0.02)
                    continue
                file.close()
                raise ParameterError(
                    f"{path} is in use by another service. Stop that one, or use another file."
                ) from None
    return file
