"""Grades of items from feedback, and the log as TREC qrels, LETOR lines or a table of items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np

from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.io.logs.impressions import log_from_events
from rankwright.data.items import Items
from rankwright.exceptions import DataError
from rankwright.service.log.entries import Feedback, decode_event, decode_feedback, describe
from rankwright.service.log.reader import Entry, LogReader, read_entries

CLICKED, SKIPPED = 1.0, 0.0


def grades_of(feedback: Feedback, ids: Iterable[str], labels: str) -> dict[str, float]:
    """The grade that feedback gives to each item, in the order of the list.

    With ``labels="clicks"`` a clicked item has grade 1, and an item above the lowest click that was
    not clicked has grade 0: the user saw it and went on.

    >>> shown = ["a", "b", "c", "d"]
    >>> grades_of(Feedback("1", clicks=["b"]), shown, "clicks")
    {'a': 0.0, 'b': 1.0}
    >>> grades_of(Feedback("1", grades={"c": 3.0, "a": 2.0}), shown, "grades")
    {'a': 2.0, 'c': 3.0}
    """
    ids = list(ids)
    if labels == "grades":
        given = feedback.grades or {}
        return {item: given[item] for item in ids if item in given}
    clicked = set(feedback.clicks or ())
    lowest = max((place for place, item in enumerate(ids) if item in clicked), default=-1)
    return {item: CLICKED if item in clicked else SKIPPED for item in ids[: lowest + 1]}


class Label(NamedTuple):
    """The last grade of an item of a query, and the event whose list it was in."""

    query: str
    item: str
    grade: float
    event: str


def last_labels(log: LogReader, labels: str, user: str | None = None) -> list[Label]:
    """The last grade of every (query, item), in the order of the events."""
    last: dict[tuple[str, str], Label] = {}
    for entry in log.entries(("feedback",), user=user):
        shown = log.find(entry.event or "", "event")
        if shown is not None:
            event = decode_event(shown.body)
            query = str(entry.event) if event.query is None else event.query
            graded = grades_of(decode_feedback(entry.body), event.ids, labels)
            for item, grade in graded.items():
                last.pop((query, item), None)
                last[query, item] = Label(query, item, grade, str(entry.event))
    return list(last.values())


def json_lines(log: LogReader, after: int = 0, user: str | None = None) -> Iterator[bytes]:
    """The log as JSON lines: one event, feedback or judgment a line."""
    encoder = msgspec.json.Encoder()
    for entry in log.entries(("event", "feedback", "judgment"), after=after, user=user):
        yield encoder.encode(describe(entry)) + b"\n"


def qrels_lines(log: LogReader, labels: str, user: str | None = None) -> Iterator[bytes]:
    """The last grade of every item of a query as TREC qrels; blanks in ids become %20."""
    for label in last_labels(log, labels, user):
        yield f"{word(label.query)} 0 {word(label.item)} {label.grade:g}\n".encode()


def letor_lines(log: LogReader, labels: str, user: str | None = None) -> Iterator[bytes]:
    """Graded items with their features as LETOR lines, grouped by query."""
    for label, features in _with_features(log, labels, user):
        values = " ".join(
            f"{number}:{value!r}" for number, value in enumerate(features, 1) if value == value
        )
        line = f"{label.grade:g} qid:{word(label.query)} {values} #docid = {word(label.item)}\n"
        yield line.encode()


def items_from_log(log: LogReader, labels: str = "auto") -> Items:
    """Graded items of the log with their features, as rankers are trained on them."""
    source = choose_labels(log) if labels == "auto" else labels
    pairs = list(_with_features(log, source))
    widths = {len(features) for _, features in pairs}
    if not pairs:
        raise DataError(
            f"{log.path}: no list has {source} and features. Rank with features and send "
            "feedback first."
        )
    if len(widths) > 1:
        raise DataError(f"{log.path}: lists have {sorted(widths)} features; one width is needed.")
    rows = np.array([features for _, features in pairs], dtype=np.float64)
    grades = np.array([label.grade for label, _ in pairs])
    queries = np.array([label.query for label, _ in pairs])
    docs = np.array([label.item for label, _ in pairs])
    return Items(rows, grades, queries, docs, feature_names=_names(log, pairs[-1][0].event))


def read_graded(path: Any) -> Items:
    """The graded, or else clicked, items of the log of a service, which may be running.

    Parameters
    ----------
    path : the file that ``rankwright serve --store`` writes
    """
    log = LogReader(path)
    try:
        return items_from_log(log)
    finally:
        log.close()


def read_impressions(path: Any) -> ImpressionLog:
    """The lists that a service showed, and their clicks.

    Parameters
    ----------
    path : the file that ``rankwright serve --store`` writes
    """
    return log_from_events(read_entries(path))


def choose_labels(log: LogReader) -> str:
    """Grades where the log has any, else clicks."""
    graded = any(decode_feedback(e.body).grades for e in log.entries(("feedback",)))
    return "grades" if graded else "clicks"


def word(text: str) -> str:
    """An id as one word of a TREC or LETOR file.

    >>> word("red shoes"), word("d-12/ä")
    ('red%20shoes', 'd-12/ä')
    """
    return "".join(quote(c) if c.isspace() or c in "#%" or not c.isprintable() else c for c in text)


def _with_features(
    log: LogReader, labels: str, user: str | None = None
) -> Iterator[tuple[Label, list[float]]]:
    """Labels with the features of their items, the labels of a query together."""
    found = last_labels(log, labels, user)
    order = {query: place for place, query in enumerate(dict.fromkeys(x.query for x in found))}
    event_id, rows = "", {}
    for label in sorted(found, key=lambda label: order[label.query]):
        if label.event != event_id:
            event_id, rows = label.event, _rows(log.find(label.event, "event"))
        if label.item in rows:
            yield label, rows[label.item]


def _rows(entry: Entry | None) -> dict[str, list[float]]:
    event = None if entry is None else decode_event(entry.body)
    if event is None or not event.features:
        return {}
    return dict(zip(event.ids, event.rows().tolist(), strict=True))


def _names(log: LogReader, event_id: str) -> Any:
    entry = log.find(event_id, "event")
    return None if entry is None else decode_event(entry.body).names
