"""Rules that logs of impressions and files of preferences should keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.data.impressions import ImpressionLog
from rankwright.data.io.logs import LOG_COLUMNS, plain_name
from rankwright.data.io.preferences import Preferences
from rankwright.data.items import Items
from rankwright.data.validation.rules import Fault, Finding, Lines, Rule

_UNBIASED = "learn from the log itself: rankwright train LOG --clicks --features FEATURES"


def _check_clicks(log: ImpressionLog, lines: Lines) -> Fault | None:
    if not log.clicked.any():
        reason = "no item was clicked: there is nothing to learn"
        return "FAIL", reason, None, "check that this is the column of the clicks"
    if log.clicked.all():
        reason = "every item was clicked: the log lists clicks only"
        return "FAIL", reason, None, "log all items that were shown, with 0 where nobody clicked"
    silent = 1.0 - len(np.unique(log.session[log.clicked])) / log.n_sessions
    if silent > 0.99:
        reason = f"{silent:.1%} of the sessions have no click"
        return "WARN", reason, None, "collect more sessions"
    return None


def _check_sizes(log: ImpressionLog, lines: Lines) -> Fault | None:
    single = np.diff(log.starts) == 1
    if not single.any():
        return None
    row = int(log.starts[np.argmax(single)])
    session = log.sessions[log.session[row]]
    reason = f"session {session} shows a single item ({single.sum():,} of {len(single):,})"
    fix = "log all items that were shown, and give the items of one list one session id"
    return "FAIL" if single.all() else "WARN", reason, None, fix


def _check_gaps(log: ImpressionLog, lines: Lines) -> Fault | None:
    top = log.position[log.starts[:-1]]
    if (top == 1).all():
        return None
    share = float(np.mean(top != 1))
    reason = f"{share:.0%} of the sessions have no item at position 1"
    return "WARN", reason, None, "positions count from 1 at the top; log all items shown"


def _check_moves(log: ImpressionLog, lines: Lines) -> Fault | None:
    document, first = log.documents
    low, high = np.full(len(first), np.iinfo(np.int64).max), np.zeros(len(first), np.int64)
    np.minimum.at(low, document, log.position)
    np.maximum.at(high, document, log.position)
    moved = np.mean(high > low)
    if moved > 0.01:
        return None
    reason = "items keep their position, so what clicks owe to the position cannot be measured"
    return "WARN", reason, None, "swap or shuffle a small share of the lists"


LOG_RULES: list[Rule] = [
    ("clicks", "some items were clicked, others were not", _check_clicks),
    ("sessions", "every session shows several items", _check_sizes),
    ("positions", "every list starts at position 1", _check_gaps),
    ("items move", "items were shown at several positions", _check_moves),
]


def _check_contradictions(pairs: Preferences, lines: Lines) -> Fault | None:
    query = [""] * len(pairs.winner) if pairs.query is None else pairs.query.tolist()
    keys = list(zip(query, pairs.winner.tolist(), pairs.loser.tolist(), strict=True))
    known = set(keys)
    both = [row for row, (q, w, other) in enumerate(keys) if (q, other, w) in known]
    if not both:
        return None
    reason = f"{len(both):,} of {len(keys):,} pairs are also there the other way around"
    return "WARN", reason, both[0], "learners weigh them against each other; check they are meant"


PAIR_RULES: list[Rule] = [
    ("contradictions", "no pair is also there the other way around", _check_contradictions),
]


def click_findings(items: Items, grade: Any) -> list[Finding]:
    """Findings about a log that is read as graded items: clicks as grades, position as feature."""
    findings = []
    if isinstance(grade, str) and plain_name(grade) in LOG_COLUMNS["clicks"]:
        reason = f"the grade {grade!r} is a click: it depends on where the item was shown"
        findings.append(Finding("clicks as grades", "WARN", reason, None, _UNBIASED))
    for name in items.feature_names or ():
        if plain_name(name) in LOG_COLUMNS["position"]:
            reason = f"{name!r} is where the item was shown: it is not known before ranking"
            fix = f"leave it out: drop=[{name!r}]; {_UNBIASED}"
            findings.append(Finding("position among the features", "FAIL", reason, None, fix))
    return findings
