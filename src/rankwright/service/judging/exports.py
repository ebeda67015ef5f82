"""Judgments as TREC qrels, LETOR rows and CSV."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.data.io.letor.reader import write_letor
from rankwright.data.io.trec import write_qrels
from rankwright.data.items import Items
from rankwright.data.runs import Qrels
from rankwright.exceptions import DataError
from rankwright.service.judging.state import Judging
from rankwright.service.learning.labels import word
from rankwright.service.log.entries import Mode
from rankwright.service.log.standing import median_value

COLUMNS = ("time", "judge", "mode", "action", "query", "document", "other", "value", "note")


def consensus(judging: Judging, mode: Mode = "grades") -> dict[int, float]:
    """The median of the judges' values for each row of the queue that was judged."""
    given: dict[int, list[float]] = {}
    for values in judging.values(mode).values():
        for (row,), value in values.items():
            given.setdefault(row, []).append(value)
    return {row: median_value(given[row]) for row in sorted(given)}


def to_qrels(judging: Judging) -> str:
    """Consensus grades as TREC qrels, for ``rankwright evaluate``; blanks in ids become %20."""
    grades = consensus(judging)
    _refuse_empty(grades, "graded")
    documents = [judging.queue.documents[row] for row in grades]
    qrels = Qrels.from_arrays(
        [word(document.query) for document in documents],
        [word(document.id) for document in documents],
        np.array(list(grades.values())).astype(np.int64),
    )
    return _written(lambda path: write_qrels(qrels, path))


def to_letor(judging: Judging, mode: Mode = "grades") -> str:
    """Consensus grades or magnitudes with the features of the queue, for ``rankwright train``."""
    values = consensus(judging, mode)
    _refuse_empty(values, "judged")
    rows = list(values)
    documents = [judging.queue.documents[row] for row in rows]
    items = Items(
        judging.queue.X[rows],
        np.array(list(values.values())),
        qid=np.array([word(document.query) for document in documents]),
        docid=np.array([word(document.id) for document in documents]),
        feature_names=judging.queue.feature_names,
    )
    return _written(lambda path: write_letor(items, path))


def to_csv(judging: Judging) -> str:
    """Every answer of every judge, a row each, in the order in which they were made.

    Of two documents, a value of 1 says that ``document`` is better, -1 that ``other`` is.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in judging.records:
        judgment = record.judgment
        when = _date(record.time)
        first, *other = judgment.documents
        value = "" if judgment.value is None else f"{judgment.value:g}"
        cells: list[Any] = [record.judge, judgment.mode, judgment.action, judgment.query, first]
        cells += [*(other or [""]), value, judgment.note]
        writer.writerow([when, *map(_not_a_formula, cells)])
    return file.getvalue()


def _date(seconds: float) -> str:
    """Date and time (UTC); empty for what was simulated."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else ""


def _not_a_formula(cell: str) -> str:
    """A cell that a spreadsheet would run gets a quote in front; numbers are kept."""
    if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and cell != "-1":
        return "'" + cell
    return cell


def _refuse_empty(values: Any, verb: str) -> None:
    if not values:
        raise DataError(f"No document has been {verb} yet: there is nothing to export.")


def _written(write: Callable[[Path], None]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export"
        write(path)
        return path.read_text("utf-8")
