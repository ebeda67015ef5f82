"""Who judged what: rebuilt from the log, entry by entry; the results as qrels, LETOR and CSV."""

from __future__ import annotations

import csv
import io
import threading
import time
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from rankwright.exceptions import DataError
from rankwright.metrics.agreement import (
    Agreement,
    ItemSpread,
    JudgePair,
    agreement,
    most_disputed,
)
from rankwright.metrics.agreement import judge_pairs as pairs_of_judges
from rankwright.service.judging.active_learning import Assignment, Example, Item, LiveModel
from rankwright.service.judging.queue import Document, Queue
from rankwright.service.learning.labels import letor_line, qrels_line
from rankwright.service.log.entries import MODES, Action, Judgment, Mode, decode_judgment
from rankwright.service.log.reader import median_value

KIND = "judgment"  # of an entry in the log
RESERVED_SECONDS = 300.0  # how long an item that was shown to one judge is kept from the others
MOST_NOTE = 2000  # characters
COLUMNS = ("time", "judge", "mode", "action", "query", "document", "other", "value", "note")


class Log(Protocol):
    """What the state is rebuilt from: entries with seq, key, user, time and body."""

    def entries(self, kinds: tuple[str, ...], *, after: int) -> Iterable[Any]: ...


class Record(NamedTuple):
    """A judgment that counts: its key in the log, whose it is, and when it was made."""

    key: str
    judge: str
    time: float
    judgment: Judgment


class JudgingProgress(NamedTuple):
    """How many items a judge has answered, and of how many."""

    done: int
    total: int


@dataclass(frozen=True)
class Task:
    """What a judge is shown next: one document, or two side by side."""

    mode: Mode
    query: str
    query_text: str
    documents: tuple[Document, ...]
    by_committee: bool
    in_query: JudgingProgress  # of this judge


class Judging:
    """The state of a queue: answers of each judge, what to show next, agreement, live models.

    Parameters
    ----------
    queue : Queue
    overlap : the share of items that every judge gets; the others go to one judge each
    seed : of the random orders

    Examples
    --------
    >>> rows = [{"query": "q", "id": f"d{i}", "x": i} for i in range(4)]
    >>> judging = Judging(Queue.from_rows(rows), overlap=1.0)
    >>> task = judging.next("ann", "grades")
    >>> judgment = judging.answer(task.mode, task.query, [task.documents[0].id], 3)
    >>> judging.apply("k1", "ann", judgment)
    True
    >>> judging.progress("ann", "grades")
    JudgingProgress(done=1, total=4)
    >>> judging.apply("k2", "ann", judging.undo("ann", "grades"))
    True
    >>> judging.progress("ann", "grades").done
    0
    """

    def __init__(self, queue: Queue, *, overlap: float = 0.3, seed: int = 0) -> None:
        self.queue = queue
        self.assignment = Assignment(queue, overlap, seed)
        self.lock = threading.RLock()
        self._last_seq = 0
        self._seen: set[str] = set()
        self._shown: dict[tuple[Mode, Item], tuple[str, float]] = {}
        self._clear()

    def _clear(self) -> None:
        self._records: dict[str, Record] = {}
        self._answers: dict[Mode, dict[str, dict[Item, Record]]] = {
            mode: defaultdict(dict) for mode in MODES
        }
        self._models: dict[Mode, LiveModel] = {}

    # What judges do.

    def answer(
        self,
        mode: Mode,
        query: str,
        documents: Iterable[str],
        value: float | None,
        *,
        action: Action = "judge",
        note: str = "",
    ) -> Judgment:
        """A checked judgment; it counts once it is in the log and was applied."""
        documents = tuple(documents)
        rows = self._rows(query, documents)
        if rows is None or len(rows) != (2 if mode == "pairs" else 1):
            raise DataError(
                f"query {query!r}, documents {documents!r}: not in the queue. Reload the page."
            )
        if action == "judge" and value not in self._allowed(mode):
            raise DataError(f"{value!r} is not a value of {mode}. Use the buttons of the page.")
        features = [self.queue.X[row].tolist() for row in rows]
        value = float(value) if action == "judge" and value is not None else None
        return Judgment(
            action, mode, query, documents, value, note.strip()[:MOST_NOTE],
            features=features if action == "judge" else [],
            names=list(self.queue.feature_names) if action == "judge" else None,
        )  # fmt: skip

    def undo(self, judge: str, mode: Mode) -> Judgment:
        """The entry that takes back the last answer of a judge in a mode."""
        last = self.last(judge, mode)
        if last is None:
            raise DataError(f"{judge} has no judgment of {mode} to take back.")
        return Judgment("undo", mode, of=last.key)

    def last(self, judge: str, mode: Mode) -> Record | None:
        """The last answer of a judge in a mode."""
        own = (r for r in reversed(self.records) if r.judge == judge and r.judgment.mode == mode)
        return next(own, None)

    def apply(self, key: str, judge: str, judgment: Judgment, when: float = 0.0) -> bool:
        """Apply an entry of the log; False if it was applied before."""
        with self.lock:
            if key in self._seen:
                return False
            self._seen.add(key)
            if judgment.action == "undo":
                self._take_back(judgment.of, judge)
            else:
                self._add(Record(key, judge, when, judgment))
            return True

    def follow(self, log: Log) -> None:
        """Apply what the log holds and was not applied yet, in its order."""
        with self.lock:
            for entry in log.entries((KIND,), after=self._last_seq):
                judgment = decode_judgment(entry.body)
                self.apply(entry.key, entry.user or "", judgment, entry.time)
                self._last_seq = entry.seq

    def forget(self, judge: str) -> None:
        """Drop everything of a judge, after it was deleted from the log."""
        with self.lock:
            kept = [record for record in self._records.values() if record.judge != judge]
            self._clear()
            for record in kept:
                self._add(record)

    def _add(self, record: Record) -> None:
        item = self._item(record.judgment)
        self._records[record.key] = record
        if item is None:  # of another queue in the same log
            return
        mode = record.judgment.mode
        replaced = self._answers[mode][record.judge].get(item)
        self._answers[mode][record.judge][item] = record
        self._shown.pop((mode, item), None)
        if replaced is not None and replaced.judgment.value is not None:
            self._models.pop(mode, None)  # learned again without it when it is needed
        elif mode in self._models and record.judgment.value is not None:
            self._models[mode].learn([self._example(record)])

    def _take_back(self, key: str, judge: str) -> None:
        record = self._records.get(key)
        if record is None or record.judge != judge:
            return
        del self._records[key]
        mode, item = record.judgment.mode, self._item(record.judgment)
        if item is not None:
            before = [r for r in self._records.values() if r.judge == judge
                      and r.judgment.mode == mode and self._item(r.judgment) == item]  # fmt: skip
            del self._answers[mode][judge][item]
            if before:
                self._answers[mode][judge][item] = before[-1]
            self._models.pop(mode, None)  # learned again without it when it is needed

    # What judges see.

    def next(self, judge: str, mode: Mode) -> Task | None:
        """What this judge should judge next; None when everything is done."""
        with self.lock:
            item, by_committee = self._choose(judge, mode)
            if item is None:
                return None
            self._shown[mode, item] = (judge, time.monotonic())
            return self._task(judge, mode, self.assignment.sides(judge, item), by_committee)

    def answered(self, judge: str, mode: Mode) -> list[Record]:
        """The answers of a judge that count, the newest first."""
        with self.lock:
            counting = {record.key for record in self._answers[mode][judge].values()}
            return [record for record in reversed(self.records) if record.key in counting]

    def again(self, judge: str, mode: Mode, key: str) -> tuple[Task, Judgment] | None:
        """An item as it was shown to this judge, and the answer; None if it no longer counts."""
        with self.lock:
            for item, record in self._answers[mode][judge].items():
                if record.key == key:
                    rows = self._rows(record.judgment.query, record.judgment.documents)
                    return self._task(judge, mode, rows or item, False), record.judgment
        return None

    def _task(self, judge: str, mode: Mode, rows: Item, by_committee: bool) -> Task:
        documents = tuple(self.queue.documents[row] for row in rows)
        query = documents[0].query
        text = self.queue.query_texts[query]
        return Task(mode, query, text, documents, by_committee, self._in_query(judge, mode, query))

    def _choose(self, judge: str, mode: Mode) -> tuple[Item | None, bool]:
        todo = self._todo(judge, mode, self._on_screens(judge, mode))
        fresh = [item for item in todo if item not in self._answers[mode][judge]]
        last = self.last(judge, mode)
        if last is not None:  # one query after another
            of_query = [item for item in fresh if self._query(item) == last.judgment.query]
            fresh = of_query or fresh
        if not fresh:  # what was put off comes last, in the order in which it was
            answers = self._answers[mode][judge]
            return min(todo, key=lambda item: answers[item].time, default=None), False
        model = self.model(mode)
        if mode == "pairs":
            priority = model.pair_priority(fresh)
        else:
            priority = model.priority()
            priority = None if priority is None else priority[[item[0] for item in fresh]]
        if priority is None or priority.max() == 0.0:
            return fresh[0], False
        return fresh[int(priority.argmax())], True

    def _todo(self, judge: str, mode: Mode, kept_back: Container[Item] = ()) -> list[Item]:
        """What is left for a judge, in the judge's own random order."""
        answers, shared = self._answers[mode][judge], self.assignment.is_shared
        taken = {
            item
            for name, given in self._answers[mode].items()
            if name != judge
            for item, record in given.items()
            if record.judgment.value is not None
        }
        return [
            item
            for item in self.assignment.order(judge, mode)
            if (item not in answers or answers[item].judgment.action == "later")
            and ((item not in taken and item not in kept_back) or shared(item))
        ]

    def _query(self, item: Item) -> str:
        return self.queue.documents[item[0]].query

    def _in_query(self, judge: str, mode: Mode, query: str) -> JudgingProgress:
        """How many items of a query a judge has answered, and of how many."""
        answers = self._answers[mode][judge].items()
        done = sum(
            record.judgment.action != "later" and self._query(item) == query
            for item, record in answers
        )
        left = sum(self._query(item) == query for item in self._todo(judge, mode))
        return JudgingProgress(done, done + left)

    def _on_screens(self, judge: str, mode: Mode) -> set[Item]:
        """Items that other judges were shown a moment ago."""
        moment = time.monotonic() - RESERVED_SECONDS
        return {
            item
            for (shown_in, item), (name, when) in self._shown.items()
            if name != judge and shown_in == mode and when > moment
        }

    def progress(self, judge: str, mode: Mode) -> JudgingProgress:
        """Answers of a judge, skipped items included, and the items that the judge gets in all."""
        with self.lock:
            answers = self._answers[mode][judge].values()
            done = sum(record.judgment.action != "later" for record in answers)
            return JudgingProgress(done, done + len(self._todo(judge, mode)))

    def title(self, judgment: Judgment, document: str) -> str:
        """The title of a document of a judgment, or its id."""
        row = self.queue.rows.get((judgment.query, document))
        return document if row is None else self.queue.documents[row].title or document

    # What was judged.

    @property
    def records(self) -> list[Record]:
        """Every answer about this queue that was not taken back, in log order."""
        records = list(self._records.values())
        return [record for record in records if self._item(record.judgment) is not None]

    @property
    def judges(self) -> list[str]:
        """The judges, in the order of their first answers."""
        return list(dict.fromkeys(record.judge for record in self.records))

    def values(self, mode: Mode) -> dict[str, dict[Item, float]]:
        """The values that each judge gave to rows of the queue (of pairs, for the lower row)."""
        with self.lock:
            return {
                judge: {
                    item: self._example(record).value
                    for item, record in answers.items()
                    if record.judgment.value is not None
                }
                for judge, answers in self._answers[mode].items()
            }

    def agreement(self, mode: Mode) -> Agreement:
        return agreement(self.values(mode))

    def judge_pairs(self, mode: Mode) -> list[JudgePair]:
        return pairs_of_judges(self.values(mode))

    def disputed(self, mode: Mode, n: int = 5) -> list[ItemSpread]:
        return most_disputed(self.values(mode), n)

    def model(self, mode: Mode) -> LiveModel:
        """The model that has learned all judgments of a mode that count, in log order."""
        with self.lock:
            if mode not in self._models:
                model = LiveModel(self.queue, mode)
                answers = self._answers[mode].values()
                counting = {record.key for given in answers for record in given.values()}
                records = (r for r in self.records if r.key in counting)
                model.learn([self._example(r) for r in records if r.judgment.value is not None])
                self._models[mode] = model
            return self._models[mode]

    def warm_up(self) -> None:
        """Compile what learns from judgments, or load it; the lock is free meanwhile."""
        LiveModel(self.queue, "grades").learn([Example((0,), 0.0)])

    def _allowed(self, mode: Mode) -> Container[float | None]:
        if mode == "pairs":
            return (-1, 0, 1)
        return range(101 if mode == "magnitudes" else self.queue.n_grades)

    def _rows(self, query: str, documents: tuple[str, ...]) -> Item | None:
        rows = [self.queue.rows.get((query, id)) for id in documents]
        return None if None in rows or len(set(rows)) < len(rows) else tuple(rows)  # type: ignore

    def _item(self, judgment: Judgment) -> Item | None:
        """The rows of a judgment in ascending order; None if the queue has no such documents."""
        rows = self._rows(judgment.query, judgment.documents)
        return None if rows is None else tuple(sorted(rows))

    def _example(self, record: Record) -> Example:
        """A judgment for its rows in ascending order: that of a pair may change its sign."""
        judgment = record.judgment
        rows = self._rows(judgment.query, judgment.documents)
        assert rows is not None
        assert judgment.value is not None
        item = tuple(sorted(rows))
        return Example(item, judgment.value if rows == item else -judgment.value)


# What was judged, as files.


def consensus(judging: Judging, mode: Mode = "grades") -> dict[int, float]:
    """The median of the judges' values for each row of the queue that was judged."""
    given: dict[int, list[float]] = {}
    for values in judging.values(mode).values():
        for (row,), value in values.items():
            given.setdefault(row, []).append(value)
    return {row: median_value(given[row]) for row in sorted(given)}


def to_qrels(judging: Judging) -> str:
    """Consensus grades as TREC qrels, for ``rankwright evaluate``."""
    return "".join(qrels_line(doc.query, doc.id, grade) for doc, _, grade in _graded(judging))


def to_letor(judging: Judging, mode: Mode = "grades") -> str:
    """Consensus grades or magnitudes with the features of the queue, for ``rankwright train``."""
    graded = _graded(judging, mode)
    return "".join(letor_line(doc.query, doc.id, grade, row) for doc, row, grade in graded)


def _graded(judging: Judging, mode: Mode = "grades") -> list[tuple[Document, list[float], float]]:
    """Documents with their features and consensus values."""
    values, queue = consensus(judging, mode), judging.queue
    if not values:
        raise DataError("No document has been judged yet: there is nothing to export.")
    return [(queue.documents[row], queue.X[row].tolist(), values[row]) for row in values]


def to_csv(judging: Judging) -> str:
    """Every answer of every judge, a row each, in the order in which they were made.

    Of two documents, a value of 1 says that ``document`` is better, -1 that ``other`` is.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in judging.records:
        judgment = record.judgment
        when = date(record.time)
        first, *other = judgment.documents
        value = "" if judgment.value is None else f"{judgment.value:g}"
        cells: list[Any] = [record.judge, judgment.mode, judgment.action, judgment.query, first]
        cells += [*(other or [""]), value, judgment.note]
        writer.writerow([when, *map(_not_a_formula, cells)])
    return file.getvalue()


def date(seconds: float) -> str:
    """Date and time (UTC); empty for what was simulated."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else ""


def _not_a_formula(cell: str) -> str:
    """A cell that a spreadsheet would run gets a quote in front; numbers are kept."""
    if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and cell != "-1":
        return "'" + cell
    return cell
