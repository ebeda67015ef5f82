"""``rankwright backup``, ``restore`` and ``check-store``: the store of a service."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rankwright.cli import _shell as sh
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    from rankwright.service.log.checking import Digest

Store = Annotated[str, Parameter(help="The store of a service.")]


def backup(store: Store, target: str, *, json: sh.Json = False) -> None:
    """Copy a store, also while a service writes to it.

    The first time, everything is copied (SQLite's backup API); later calls
    with the same TARGET ship what is new, and what was deleted, in one
    transaction.

    rankwright backup feedback.db /backups/feedback.db

    Args:
        target: The file of the backup.
    """
    from rankwright.service.log import backups

    done = backups.backup(store, target)
    how = "shipped" if done.incremental else "copied"
    text = f"{target}: {done.added:,} entries {how}, {_described(done.digest)}"
    facts = {**done.digest._asdict(), "added": done.added, "incremental": done.incremental}
    sh.answer(json, text, {"target": target, **facts})


def restore(
    backup: Annotated[str, Parameter(help="A file that `rankwright backup` wrote.")],
    store: Annotated[str, Parameter(help="The new store.")],
    *,
    until: str | None = None,
    json: sh.Json = False,
) -> None:
    """Make a store from a backup, as it was when it was made or at an earlier moment.

    rankwright restore /backups/feedback.db feedback.db
    rankwright restore /backups/feedback.db feedback.db --until 2026-11-18T09:30

    Args:
        until: Leave out later entries: a time such as 2026-11-18T09:30, or seconds since 1970.
    """
    from rankwright.service.log import backups

    found = backups.restore(backup, store, None if until is None else _moment(until))
    sh.answer(json, f"{store}: {_described(found)}", {"store": store, **found._asdict()})


def check_store(
    store: Store,
    *,
    last: sh.MaybeCount = None,
    repair: str | None = None,
    json: sh.Json = False,
) -> None:
    """Check a store: its pages, its entries and its models; replay its log.

    Prints a digest of the entries and one of the ranker that they teach. The
    exit code is 1 if something is damaged.

    rankwright check-store feedback.db
    rankwright check-store feedback.db --last 5000
    rankwright check-store feedback.db --repair repaired.db

    Args:
        last: The last entry of the digest; by default that of the log.
        repair: Copy what is readable to this new store, and say what is lost.
    """
    from rankwright.service.log import checking

    if repair is not None:
        sh.check_targets(store, repair=repair)
        made = checking.repair(store, repair)
        lines = [f"lost: {text}" for text in made.lost] or ["nothing is lost"]
        text = "\n".join([f"{repair}: {made.entries:,} entries, {made.models} models", *lines])
        sh.answer(json, text, {"store": repair, **made._asdict()})
        return
    found = checking.check_store(store, last)
    lines = [
        f"{store}: version {found.version}, {_described(found.digest)}",
        f"models: {', '.join(found.models) or 'none'}",
        *([] if found.ranker is None else [f"ranker, learned again from the log: {found.ranker}"]),
        *(f"damaged: {fault}" for fault in found.faults),
        "damaged: copy what is left with --repair FILE" if found.faults else "whole",
    ]
    facts = {**found._asdict(), "digest": found.digest._asdict()}
    sh.answer(json, "\n".join(lines), {"store": store, **facts})
    if found.faults:
        raise SystemExit(1)


def _described(digest: Digest) -> str:
    return f"{digest.entries:,} entries up to {digest.last:,}, digest {digest.sha256}"


def _moment(text: str) -> float:
    """A time as seconds.

    >>> _moment("1970-01-01T00:01:00+00:00"), _moment("60.5")
    (60.0, 60.5)
    """
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise ParameterError(
            f"--until {text}: write a time such as 2026-11-18T09:30, or seconds since 1970."
        ) from None
