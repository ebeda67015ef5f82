"""Copies of a store: made while a service writes to it, brought up to date, and restored."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec

from rankwright.exceptions import DataError, ParameterError
from rankwright.service.log.checking import Digest, digest
from rankwright.service.log.entries import DamagedStore
from rankwright.service.log.reader import VERSION, LogReader
from rankwright.service.log.store import StoreError, give_to_owner_of_folder, locked, open_store

PAGES_AT_ONCE = -1  # all: one snapshot of the source, whatever is written to it meanwhile


class BackedUp(NamedTuple):
    """What a backup holds, and how many entries this one added."""

    digest: Digest
    added: int
    incremental: bool


def backup(store: str | os.PathLike[str], target: str | os.PathLike[str]) -> BackedUp:
    """Copy a store to a file, also while a service writes to it.

    If the file is an earlier backup of the same store, only what is new or was deleted since is
    shipped, in one transaction. Otherwise SQLite's backup API copies the pages to a new file,
    which appears when it is complete.
    """
    store, target = _existing(store), os.path.realpath(target)
    if store == target:
        raise ParameterError(f"{target}: a store cannot be its own backup. Use another file.")
    before = 0
    incremental = os.path.exists(target)
    with locked(target), _told(target):
        if incremental:
            before = _count(target)
            _ship(store, target)
        else:
            _copy(store, target)
    log = LogReader(target)
    try:
        found = digest(log)
    finally:
        log.close()
    return BackedUp(found, found.entries - before, incremental)


def restore(
    source: str | os.PathLike[str], store: str | os.PathLike[str], until: float | None = None
) -> Digest:
    """Make a store from a backup, as it was at a moment; a store that exists is not replaced.

    With ``until``, a time in seconds, later entries are left out, and a ranker that has learned one
    of them learns the log again. Models and experiments are those of the backup.
    """
    source, store = _existing(source), os.path.realpath(store)
    if os.path.exists(store):
        raise ParameterError(
            f"{store} exists.", fix="Move it away first, or restore to another file."
        )
    with locked(store), _told(store), new_file(store) as path:
        copy_store(source, path)
        if until is not None:
            _cut(path, until)
    log = LogReader(store)
    try:
        return digest(log)
    finally:
        log.close()


def _existing(path: str | os.PathLike[str]) -> str:
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: there is no such store.")
    return str(os.path.realpath(path))


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of SQLite, such as a full disk, as ours."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
        raise DamagedStore(f"it cannot be copied ({error}).", file=path) from error
    except apsw.Error as error:
        raise StoreError(f"it cannot be written ({error}).", file=path) from error


@contextmanager
def new_file(path: str) -> Iterator[str]:
    """A file beside a path that takes its place when it is complete and on the disk."""
    folder = os.path.dirname(path)
    number, name = tempfile.mkstemp(prefix=".rankwright-", dir=folder)
    give_to_owner_of_folder(number, path)
    os.close(number)
    try:
        yield name
        with open(name, "rb") as file:
            os.fsync(file.fileno())
        os.replace(name, path)
        number = os.open(folder, os.O_RDONLY)
        os.fsync(number)
        os.close(number)
    finally:
        for ending in ("", "-wal", "-shm"):
            Path(name + ending).unlink(missing_ok=True)


def _copy(source: str, target: str) -> None:
    with new_file(target) as path:
        copy_store(source, path)


def copy_store(source: str, target: str) -> None:
    """Copy a store as it is now to a file that is there, also while it is written to."""
    _count(source)  # refuse what is not a store
    flags = apsw.SQLITE_OPEN_READONLY
    with (
        closing(apsw.Connection(source, flags=flags)) as old,
        closing(apsw.Connection(target)) as new,
    ):
        old.set_busy_timeout(5000)
        with new.backup("main", old, "main") as copying:
            while not copying.done:
                copying.step(PAGES_AT_ONCE)
    open_store(target).close()  # of the present version


def _count(path: str) -> int:
    log = LogReader(path)
    try:
        return int(log.select("SELECT count(*) FROM log")[0][0])
    finally:
        log.close()


def _ship(source: str, target: str) -> None:
    """Bring a backup up to date: new entries, deletions, models and state, in one transaction."""
    log = LogReader(source)
    version = log.select("PRAGMA user_version")[0][0]
    log.close()
    if version != VERSION:
        with new_file(target) as path:
            copy_store(source, path)
        return
    with closing(open_store(target)) as db:
        db.execute("ATTACH ? AS new", (source,))
        with db:
            same = "SELECT (SELECT value FROM {}.state WHERE name = 'secret')"
            if db.execute(same.format("main")).get != db.execute(same.format("new")).get:
                raise ParameterError(
                    f"{target} is a backup of another store.", fix="Use another file."
                )
            db.execute(
                "INSERT INTO main.log SELECT * FROM new.log "
                "WHERE seq > (SELECT coalesce(max(seq), 0) FROM main.log)"
            )
            db.execute("DELETE FROM main.log WHERE seq NOT IN (SELECT seq FROM new.log)")
            db.execute(
                "DELETE FROM main.models WHERE version NOT IN (SELECT version FROM new.models)"
            )
            db.execute(
                "INSERT OR REPLACE INTO main.models SELECT n.* FROM new.models n "
                "LEFT JOIN main.models o USING (version) WHERE o.time IS NOT n.time"
            )
            db.execute("DELETE FROM main.state; INSERT INTO main.state SELECT * FROM new.state")
            db.execute("DELETE FROM main.sqlite_sequence")
            db.execute("INSERT INTO main.sqlite_sequence SELECT * FROM new.sqlite_sequence")


def _cut(path: str, until: float) -> None:
    """Leave out what came after a moment."""
    from rankwright.service.experiments import Counts
    from rankwright.service.learning.live import LiveRanker

    with closing(open_store(path)) as db, db:
        last = db.execute("SELECT max(seq) FROM log WHERE time <= ?", (until,)).get or 0
        db.execute("DELETE FROM log WHERE time > ?", (until,))
        rows = list(db.execute("SELECT name, value FROM state WHERE name GLOB 'live*'"))
        kept: dict[int, bytes] = {}
        for _, value in rows:
            try:
                seq = LiveRanker.restore(value).progress.last_seq
            except msgspec.DecodeError as error:
                raise DataError(f"{path}: a snapshot cannot be read ({error}).") from error
            if seq <= last:
                kept[seq] = value
        db.execute("DELETE FROM state WHERE name GLOB 'live*'")
        for seq, value in kept.items():
            name = "live" if seq == max(kept) else f"live/{seq}"
            db.execute("INSERT INTO state VALUES(?, ?)", (name, value))
        content = db.execute("SELECT value FROM state WHERE name = 'experiments'").get
        if content is not None:
            counts = msgspec.msgpack.decode(content, type=Counts)
            if counts.last_seq > last:
                counts.reset()
                value = msgspec.msgpack.encode(counts)
                db.execute("UPDATE state SET value = ? WHERE name = 'experiments'", (value,))
