"""Is a log whole? Its pages and indexes, and every entry that it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile

from rankwright.service.log.entries import describe
from rankwright.service.log.reader import LogReader

KINDS = ("event", "feedback", "judgment")


def damage(log: LogReader, stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """What is wrong with a log, one fault after another, until ``stop`` says True."""
    for (fault,) in log.select("PRAGMA integrity_check(20)"):
        if fault != "ok":
            yield f"SQLite: {fault}"
    for entry in takewhile(lambda _: not stop(), log.entries()):
        about = describe(entry) if entry.kind in KINDS else {"kind": "damaged", "fault": "unknown"}
        if about["kind"] == "damaged":
            yield f"entry {entry.seq} ({entry.kind[:20]}): {about['fault']}"
