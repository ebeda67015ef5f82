"""Grades of items from feedback and judgments; the log as qrels, LETOR lines or items."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.io.logs import impressions
from rankwright.data.io.logs.features import features_from_events, read_log_features
from rankwright.data.io.logs.impressions import is_store, log_from_events
from rankwright.data.items import Items
from rankwright.exceptions import DataError, RankwrightWarning
from rankwright.service.log.entries import (
    Event,
    LoggedFeedback,
    decode_event,
    decode_feedback,
    decode_judgment,
    describe,
)
from rankwright.service.log.reader import CurrentJudgments, LogReader, median_value, read_entries

CLICKED, SKIPPED = 1.0, 0.0


def grades_of(feedback: LoggedFeedback, ids: Iterable[str], labels: str) -> dict[str, float]:
    """The grade that feedback gives to each item, in the order of the list.

    With ``labels="clicks"`` a clicked item has grade 1, and an item above the lowest click that was
    not clicked has grade 0: the user saw it and went on.

    >>> shown = ["a", "b", "c", "d"]
    >>> grades_of(LoggedFeedback("1", clicks=["b"]), shown, "clicks")
    {'a': 0.0, 'b': 1.0}
    >>> grades_of(LoggedFeedback("1", grades={"c": 3.0, "a": 2.0}), shown, "grades")
    {'a': 2.0, 'c': 3.0}
    """
    ids = list(ids)
    if labels == "grades":
        given = feedback.grades or {}
        return {item: given[item] for item in ids if item in given}
    clicked = set(feedback.clicks or ())
    lowest = max((i for i, item in enumerate(ids) if item in clicked), default=-1)
    return {item: CLICKED if item in clicked else SKIPPED for item in ids[: lowest + 1]}


class Label(NamedTuple):
    """The grade of an item of a query, and the entry of the log that has its features."""

    query: str
    item: str
    grade: float
    kind: Literal["event", "judgment"]
    key: str


def labels_of(log: LogReader, labels: str, user: str | None = None) -> list[Label]:
    """One grade of every (query, item), in the order of the entries that gave them.

    Of feedback, the last grade counts. Where judges graded the item at ``/judge``, their consensus
    counts and feedback does not: the median of the last grades of the judges that were not taken
    back, between two grades the higher one.
    """
    last: dict[tuple[str, str], Label] = {}
    for entry in log.entries(("feedback",), user=user):
        shown = log.find(entry.event or "", "event")
        if shown is not None:
            event = decode_event(shown.body)
            query = str(entry.event) if event.query is None else event.query
            graded = grades_of(decode_feedback(entry.body), event.ids, labels)
            for item, grade in graded.items():
                last.pop((query, item), None)
                last[query, item] = Label(query, item, grade, "event", str(entry.event))
    if labels == "grades":
        for label in _judged(log, user):
            last.pop((label.query, label.item), None)
            last[label.query, label.item] = label
    return list(last.values())


def _judged(log: LogReader, user: str | None) -> list[Label]:
    """The consensus of the judges about each document."""
    current = CurrentJudgments(log.entries(("judgment",), user=user))
    given: dict[tuple[str, str], list[float]] = {}
    keys: dict[tuple[str, str], str] = {}
    for entry in log.entries(("judgment",), user=user):
        if entry.seq in current:
            judgment = decode_judgment(entry.body)
            assert judgment.value is not None
            document = judgment.query, judgment.documents[0]
            given.setdefault(document, []).append(judgment.value)
            keys[document] = entry.key
    return [
        Label(*document, median_value(values), "judgment", keys[document])
        for document, values in given.items()
    ]


def json_lines(log: LogReader, after: int = 0, user: str | None = None) -> Iterator[bytes]:
    """The log as JSON lines: one event, feedback or judgment a line."""
    encoder = msgspec.json.Encoder()
    for entry in log.entries(("event", "feedback", "judgment"), after=after, user=user):
        yield encoder.encode(describe(entry)) + b"\n"


def qrels_lines(log: LogReader, labels: str, user: str | None = None) -> Iterator[bytes]:
    """The grade of every item of a query as TREC qrels; blanks in ids become %20."""
    for label in labels_of(log, labels, user):
        yield qrels_line(label.query, label.item, label.grade).encode()


def letor_lines(log: LogReader, labels: str, user: str | None = None) -> Iterator[bytes]:
    """Graded items with their features as LETOR lines, grouped by query.

    The columns are those of :func:`items_from_log`, and items with other features are left out.
    """
    for label, features in _with_features(log, _labeled_items(log, labels, user)):
        if features is not None:
            yield letor_line(label.query, label.item, label.grade, features).encode()


def items_from_log(log: LogReader, labels: str = "auto") -> Items:
    """Graded items of the log with their features, as rankers are trained on them.

    The features are those of the latest graded list, or of the latest judgment where feedback
    graded no list with features. Items that lack some of them are left out, with a warning.
    """
    source = choose_labels(log) if labels == "auto" else labels
    labeled = _labeled_items(log, source)
    pairs = [(label, row) for label, row in _with_features(log, labeled) if row is not None]
    if not pairs:
        raise DataError(
            f"{log.path}: no list has {source} and features. Rank with features and send "
            "feedback first."
        )
    n_others = len(labeled.labels) - len(pairs)
    if n_others:
        warnings.warn(
            f"{log.path}: {n_others} of {len(labeled.labels)} graded items have no features, or "
            f"others than the latest list ({_feature_list(labeled)}), and are left out. Log all of "
            "them with the same features to train on all.",
            RankwrightWarning,
            stacklevel=2,
        )
    rows = np.array([features for _, features in pairs], dtype=np.float64)
    grades = np.array([label.grade for label, _ in pairs])
    queries = np.array([label.query for label, _ in pairs])
    docs = np.array([label.item for label, _ in pairs])
    names = None if labeled.names is None else tuple(labeled.names)
    return Items(rows, grades, queries, docs, feature_names=names)


def read_graded(path: str | os.PathLike[str]) -> Items:
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


def read_log(path: str | os.PathLike[str]) -> ImpressionLog:
    """The lists that a service showed, and their clicks.

    Parameters
    ----------
    path : the file that ``rankwright serve --store`` writes, or a log that
        :func:`rankwright.read_log` reads
    """
    return log_from_events(read_entries(path)) if is_store(path) else impressions.read_log(path)


def read_impression_features(path: str | os.PathLike[str]) -> Items:
    """The features of the items that a service showed, one row for each query and item.

    Parameters
    ----------
    path : the file that ``rankwright serve --store`` writes, or a log that
        :func:`rankwright.data.read_log_features` reads
    """
    if is_store(path):
        return features_from_events(read_entries(path), os.fspath(path))
    return read_log_features(path)


def choose_labels(log: LogReader) -> str:
    """Grades where the log has any, of feedback or of judges, else clicks."""
    graded = any(decode_feedback(e.body).grades for e in log.entries(("feedback",)))
    return "grades" if graded or _judged(log, None) else "clicks"


def qrels_line(query: str, item: str, grade: float) -> str:
    """A line of a TREC qrels file; blanks in ids become %20.

    >>> qrels_line("red shoes", "d-12/ä", 3.0)
    'red%20shoes 0 d-12/ä 3\\n'
    """
    return f"{_word(query)} 0 {_word(item)} {grade + 0.0:g}\n"  # -0.0 is 0


def letor_line(query: str, item: str, grade: float, features: Iterable[float]) -> str:
    """A line of a LETOR file; a missing value is NULL, as :func:`rankwright.write_letor` writes it.

    >>> letor_line("red shoes", "d1", 3.0, [0.5, float("nan")])
    '3 qid:red%20shoes 1:0.5 2:NULL #docid = d1\\n'
    """
    texts = (repr(value) if value == value else "NULL" for value in features)
    values = " ".join(f"{number}:{text}" for number, text in enumerate(texts, 1))
    return f"{grade + 0.0:g} qid:{_word(query)} {values} #docid = {_word(item)}\n"


def _word(text: str) -> str:
    """An id as one word of a file."""
    return "".join(quote(c) if c.isspace() or c in "#%" or not c.isprintable() else c for c in text)


def in_order(
    rows: FloatArray, names: list[str] | None, known: list[str] | None, n_features: int
) -> FloatArray | None:
    """Rows with their features in a known order; None if they lack some of these features.

    >>> in_order(np.array([[1.0, 2.0, 3.0]]), ["a", "b", "c"], ["c", "a"], 2)
    array([[3., 1.]])
    """
    if names == known:
        return rows if rows.shape[1] == n_features else None
    if names is None or known is None or not set(known) <= set(names):
        return None
    return rows[:, [names.index(name) for name in known]]


class _LabeledItems(NamedTuple):
    """Labels, and the features that their rows are written with."""

    labels: list[Label]
    names: list[str] | None
    n_features: int


def _labeled_items(log: LogReader, labels: str, user: str | None = None) -> _LabeledItems:
    graded = labels_of(log, labels, user)
    for kind in ("event", "judgment"):
        for label in reversed(graded):
            shown = _shown(log, label) if label.kind == kind else None
            if shown is not None:
                return _LabeledItems(graded, shown.names, shown.rows().shape[1])
    return _LabeledItems(graded, None, 0)


def _with_features(
    log: LogReader, labeled: _LabeledItems
) -> Iterator[tuple[Label, list[float] | None]]:
    """Labels with the features of their items, the labels of a query together."""
    queries = list(dict.fromkeys(label.query for label in labeled.labels))
    order = dict(zip(queries, range(len(queries)), strict=True))
    key, rows = "", dict[str, list[float]]()
    for label in sorted(labeled.labels, key=lambda label: order[label.query]):
        if label.key != key:
            key, rows = label.key, _rows(_shown(log, label), labeled)
        yield label, rows.get(label.item)


def _shown(log: LogReader, label: Label) -> Event | None:
    """The list with the features of an item; a judged document is a list of one."""
    entry = log.find(label.key, label.kind)
    if entry is None:
        return None
    judged = label.kind == "judgment"
    event = decode_judgment(entry.body).as_feedback()[1] if judged else decode_event(entry.body)
    return event if event.features else None


def _rows(event: Event | None, labeled: _LabeledItems) -> dict[str, list[float]]:
    """The features of each item of a list; none if they are others."""
    if event is None:
        return {}
    rows = in_order(event.rows(), event.names, labeled.names, labeled.n_features)
    return {} if rows is None else dict(zip(event.ids, rows.tolist(), strict=True))


def _feature_list(labeled: _LabeledItems) -> str:
    if labeled.names is None:
        return f"{labeled.n_features} without names"
    return ", ".join(labeled.names[:10]) + (", ..." if len(labeled.names) > 10 else "")
