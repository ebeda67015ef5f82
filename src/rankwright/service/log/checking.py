"""Is a log whole? Its pages and indexes, and every entry that it holds; what is left of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from rankwright.exceptions import ParameterError, RankwrightError
from rankwright.service.log.entries import DamagedStore, describe
from rankwright.service.log.reader import COLUMNS, LogEntry, LogReader

BLOCK = 256  # rows read at once
MOST_FAILED = 10_000  # numbers in a row that cannot be read, after which nothing more is
KINDS = ("event", "feedback", "judgment")


def damage(log: LogReader, stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """What is wrong with a log, one fault after another, until ``stop`` says True."""
    for (fault,) in log.select("PRAGMA integrity_check(20)"):
        if fault != "ok":
            yield f"SQLite: {fault}"
    for entry in takewhile(lambda _: not stop(), log.entries()):
        fault = fault_of(entry)
        if fault:
            yield fault


def fault_of(entry: LogEntry) -> str:
    """What is wrong with an entry; empty if nothing is."""
    about = describe(entry) if entry.kind in KINDS else {"kind": "damaged", "fault": "unknown"}
    if about["kind"] != "damaged":
        return ""
    return f"entry {entry.seq} ({entry.kind[:20]}): {about['fault']}"


class Digest(NamedTuple):
    """The number of entries up to ``last``, and the SHA-256 of all that they hold."""

    entries: int
    last: int
    sha256: str


def digest(log: LogReader, last: int | None = None) -> Digest:
    """The digest of a log, or of its entries up to a number."""
    state, n_entries, seq = hashlib.sha256(), 0, 0
    encoder = msgspec.msgpack.Encoder()
    for entry in takewhile(lambda entry: last is None or entry.seq <= last, log.entries()):
        state.update(encoder.encode(tuple(entry)))
        n_entries, seq = n_entries + 1, entry.seq
    return Digest(n_entries, seq, state.hexdigest())


class Report(NamedTuple):
    """What :func:`check_store` found. ``ranker`` is the digest of what was learned, by replay."""

    version: int
    digest: Digest
    models: list[str]
    ranker: str | None
    faults: list[str]


def check_store(path: str | os.PathLike[str], last: int | None = None) -> Report:
    """Read a whole store: its pages, entries and models; replay its log and compare.

    Parameters
    ----------
    path : the store; a service may be using it
    last : the last entry of the digest; by default that of the log
    """
    from rankwright.service.models import restored

    log = LogReader(path)
    try:
        faults = list(damage(log))
        version = int(log.select("PRAGMA user_version")[0][0])
        models = []
        for row in log.select("SELECT version, time, about, file FROM models ORDER BY time"):
            try:
                models.append(restored(*row).version)
            except (RankwrightError, ValueError) as error:
                faults.append(f"model {row[0]}: {error}")
        ranker, fault = _replay(log)
        faults += [fault] if fault else []
        return Report(version, digest(log, last), models, ranker, faults)
    finally:
        log.close()


def _replay(log: LogReader) -> tuple[str | None, str]:
    """The digest of the ranker that the log teaches; what is wrong with the snapshot."""
    from rankwright.service.learning.live import LiveRanker
    from rankwright.service.learning.log_learner import replayed

    content = log.state("live")
    if content is None:
        return None, ""
    try:
        progress = LiveRanker.restore(content).progress
        replay = replayed(log, progress.plan, progress.last_seq).snapshot()
    except (msgspec.DecodeError, DamagedStore) as error:
        return None, f"the ranker cannot be learned again: {error}"
    if replay == content:
        return hashlib.sha256(replay).hexdigest(), ""
    n_entries, last = log.select("SELECT count(*), max(seq) FROM log")[0]
    if n_entries < last:  # what was deleted stays learned
        return hashlib.sha256(content).hexdigest(), ""
    return None, f"the ranker is not what the log teaches up to entry {progress.last_seq}"


class Repaired(NamedTuple):
    """What is in the new store, and what is lost."""

    entries: int
    models: int
    lost: list[str]


def repair(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> Repaired:
    """Copy what is readable to a new store, and say what is not."""
    from rankwright.service.log.store import open_store
    from rankwright.service.models import restored

    if os.path.exists(target):
        raise ParameterError(f"{target} exists.", fix="Repair to a new file.")
    lost: list[str] = []
    log = LogReader(path)
    with closing(open_store(str(target))) as db, db:
        n_entries = n_models = 0
        for row in _readable(log, lost):
            fault = fault_of(LogEntry._make(row))
            if fault:
                lost.append(fault)
            else:
                db.execute(f"INSERT OR IGNORE INTO log({COLUMNS}) VALUES(?,?,?,?,?,?,?)", row)
                n_entries += db.changes()
        for name, value in _rows(log, "SELECT name, value FROM state", "the state", lost):
            db.execute("INSERT INTO state VALUES(?, ?)", (name, value))
        columns = "version, time, about, file"
        for row in _rows(log, f"SELECT {columns} FROM models", "the models", lost):
            try:
                restored(*row)
            except (RankwrightError, ValueError) as error:
                lost.append(f"model {row[0]}: {error}")
            else:
                db.execute("INSERT INTO models VALUES(?, ?, ?, ?)", row)
                n_models += 1
    log.close()
    return Repaired(n_entries, n_models, lost)


def _readable(log: LogReader, lost: list[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of the log that SQLite can read, in order; damaged pages are skipped."""
    query = f"SELECT {COLUMNS} FROM log NOT INDEXED WHERE seq >= ? ORDER BY seq LIMIT ?"
    start, size, n_failed = 0, BLOCK, 0
    while n_failed < MOST_FAILED:
        try:
            block = log.select(query, (start + n_failed, size))
        except DamagedStore:
            if size == 1:
                n_failed += 1
            size = 1
            continue
        if n_failed:
            following = f"{block[0][0] - 1}" if block else "the end"
            lost.append(f"entries {start} to {following}: unreadable")
        yield from block
        if len(block) < size:
            return
        start, n_failed = block[-1][0] + 1, 0
    lost.append(f"entries from {start} on: unreadable")


def _rows(log: LogReader, query: str, what: str, lost: list[str]) -> list[tuple[Any, ...]]:
    try:
        return log.select(query)
    except DamagedStore as error:
        lost.append(f"{what}: {error.message}")
        return []
