"""Look for mistakes in data before they become results, and say what is in it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import IntArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.behavior.ratings import Ratings
from rankwright.data.display import html_table
from rankwright.data.io.fields import likely_separator, plain_name, quoted_rows
from rankwright.data.io.files import Text, is_parquet, open_text
from rankwright.data.io.items import (
    detect_format,
    detect_kind,
    read_items,
)
from rankwright.data.io.letor.reader import read_letor
from rankwright.data.io.logs.impressions import LOG_COLUMNS, read_log
from rankwright.data.io.logs.preferences import Preferences, read_preferences
from rankwright.data.io.ratings import read_ratings
from rankwright.data.io.trec import read_qrels, read_run
from rankwright.data.items import Items
from rankwright.data.runs import Qrels, Run
from rankwright.data.validation_rules import (
    FEATURE_RULES,
    ITEM_RULES,
    LEAK_RULES,
    LOG_RULES,
    PAIR_RULES,
    RATING_RULES,
    Finding,
    Lines,
    apply_rules,
    check_against,
)
from rankwright.exceptions import DataError, FileFormatError, Message, ParameterError, Setting

_UNBIASED = (
    "learn from the log itself: online_eval.learn_from_log, or rankwright train LOG --clicks "
    "--features FEATURES"
)


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """The result of :func:`validate`: a sequence of findings that prints as a table.

    Attributes
    ----------
    source : str
        The file, or ``"items"`` or ``"ratings"``.
    findings : list of Finding
    """

    source: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no rule failed; a warning is not a failure."""
        return not self.failed

    @property
    def failed(self) -> list[Finding]:
        """The findings with the status FAIL."""
        return self.failures()

    @property
    def columns(self) -> list[str]:
        """The columns that should be left out: leaks, and ids."""
        return list(dict.fromkeys(name for finding in self for name in finding.columns))

    def failures(self, *, strict: bool = False) -> list[Finding]:
        """The findings with the status FAIL; with ``strict`` also those with WARN."""
        failing = ("FAIL", "WARN") if strict else ("FAIL",)
        return [finding for finding in self if finding.status in failing]

    def summary(self, *, strict: bool = False) -> str:
        """``passed``, or how many of the rules failed."""
        failed, rules = {f.rule for f in self.failures(strict=strict)}, {f.rule for f in self}
        return f"{len(failed)} of {len(rules)} rules failed" if failed else "passed"

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> list[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | list[Finding]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def text(self) -> Message:
        """The table that is printed."""
        parts: list[str] = []
        for finding in self:
            where = f"{self.source}:{finding.line}: " if finding.line is not None else ""
            parts += [f"\n{finding.status}  {finding.rule}: {where}", finding.reason]
            if finding.fix and finding.status != "PASS":
                parts += ["\n      fix: ", finding.fix]
        return Message(*(part.lstrip("\n") if k == 0 else part for k, part in enumerate(parts)))

    def __str__(self) -> str:
        return str(self.text())

    def _repr_html_(self) -> str:
        rows = [
            (found.status, found.rule, found.line, str(found.reason), str(found.fix or ""))
            for found in self
        ]
        return html_table(("status", "rule", "line", "found", "fix"), rows, self.source)


def validate(
    data: Items | Ratings | ImpressionLog | str | os.PathLike[str],
    against: Items | str | os.PathLike[str] | None = None,
    *,
    kind: str | None = None,
    **options: Any,
) -> Findings:
    """Check items, ratings, a log or a file for problems that invalidate results.

    Items: grades, queries of one item or one grade, repeated ids, copies and contradictions,
    constant features, features that give the grade away or identify rows. Ratings: repeated pairs,
    users who tell nothing about order. Logs: clicks, sessions, positions, items that never move.
    Pairs: contradictions. Files: also lines and columns that cannot be read; the rest is checked.

    Parameters
    ----------
    data : Items, Ratings, ImpressionLog or path
    against : Items, path or None
        Other items, such as the test data: neither queries nor items may be in both.
    kind : {"items", "ratings", "run", "qrels", "log", "pairs"} or None
        What the file holds; None detects it.
    **options
        How to read the file: parameters of :func:`read_items` or :func:`read_ratings`.

    Returns
    -------
    findings : Findings
        One or more for each rule.

    Examples
    --------
    >>> items = Items([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]], [0, 1, 2], qid=[1, 1, 2])
    >>> print(validate(items))
    PASS  grades: whole numbers from 0 to 30, more than one
    WARN  queries: items:3: query 2 has a single item (1 of 2 queries)
          fix: remove such queries: they have no pairs to learn from
    PASS  grades differ within queries: every query has something to order
    PASS  ids: no id is repeated in a query
    PASS  duplicates: no two items are the same
    WARN  constant features: 1 of 2 features have the same value in all items: feature 2
          fix: remove them; they have no information about the order
    PASS  grade among the features: no feature repeats the grade
    PASS  one feature alone: no feature alone orders the queries
    PASS  known too late: no feature is named after clicks or orders
    PASS  ids among the features: no feature numbers the rows
    """
    if isinstance(data, ImpressionLog):
        source = kind = "log"
    elif isinstance(data, Items | Ratings):
        source = kind = "items" if isinstance(data, Items) else "ratings"
    else:
        source, kind = os.fspath(data), kind or detect_kind(data)
    if against is not None and kind != "items":
        raise ParameterError(
            Setting("against", str(against)),
            f" compares items, but {source} holds {kind}.",
            fix="Leave it out.",
        )
    if kind in ("log", "store", "pairs"):
        return _validate_log(data, source, kind)
    content: Any = data
    lines: Lines = None
    findings: list[Finding] = []
    if isinstance(data, Items | Ratings):
        lines = np.arange(1, len(data) + 1)
    else:
        content, lines, bad = read_leniently(source, kind, **options)
        findings = [Finding("readable", "FAIL", b.reason, b.line, b.fix) for b in bad]
        findings = findings or [Finding("readable", "PASS", str(content))]
        findings += _left_out(content)
    if isinstance(content, Ratings):
        findings += apply_rules(RATING_RULES, content, lines)
    elif isinstance(content, Items):
        findings += apply_rules(ITEM_RULES, content, lines)
        if content.n_features:
            findings += apply_rules(FEATURE_RULES, content, lines)
        findings += click_findings(content, options.get("y"))
        if against is not None:
            name = ""
            if not isinstance(against, Items):
                name = os.fspath(against)
                like = None if content.feature_names is None else content
                options |= {"group": "auto"}  # its own, if it has one
                against = read_items(name, **options, like=like)
            findings.append(check_against(content, against, lines, name))
    return Findings(source, findings)


def _left_out(content: Any) -> list[Finding]:
    """Columns of a table that reading left out by itself: constants, ids, free text."""
    read = getattr(content, "read", ())
    names = [f"{column.name} ({column.why})" for column in read if column.kind == "drop"]
    return [Finding("columns left out", "PASS", ", ".join(names))] if names else []


def _validate_log(content: Any, path: str, kind: str) -> Findings:
    """The findings about a log of impressions, or the file of a log or of preferences."""
    try:
        if not isinstance(content, ImpressionLog):
            content = read_preferences(path) if kind == "pairs" else read_log(path)
    except FileFormatError as error:
        return Findings(path, [Finding("readable", "FAIL", error.message, error.line, error.fix)])
    except DataError as error:
        return Findings(path, [Finding("readable", "FAIL", error.message, None, error.fix)])
    findings = [Finding("readable", "PASS", str(content))]
    findings += apply_rules(LOG_RULES if kind == "log" else PAIR_RULES, content, None)
    return Findings(path, findings)


def reading_notes(items: Items, y: ArrayLike | None = None) -> list[Message]:
    """Remarks on items that were read: skipped lines, no queries, clicks as grades.

    ``y`` is the column of the grades, if one was named.
    """
    notes = []
    if items.bad_lines:
        first, n_bad = items.bad_lines[0], len(items.bad_lines)
        note = f"{n_bad} bad lines left out, first line {first.line}: {first.reason}"
        notes.append(Message(note))
    if items.qid is None:
        fault, fix = "no line has a qid", "Give LightGBM's file of query sizes with "
        setting = Setting("group")
        if items.feature_names is not None:
            fault = "no column is called qid, query, session or the like"
            fix, setting = "Name the column of the query with ", Setting("qid")
        notes.append(Message(f"{fault}, so all items are taken as one list. {fix}", setting, "."))
    findings = click_findings(items, y)
    if items.n_features and items.y is not None:
        findings += [f for f in apply_rules(LEAK_RULES, items, None) if f.status != "PASS"]
    return [*notes, *(Message(f"warning: {f.reason}; ", f.fix) for f in findings)]


def click_findings(items: Items, grade: object) -> list[Finding]:
    """Findings about a log that is read as graded items: clicks as grades, position as feature."""
    findings = []
    if isinstance(grade, str) and plain_name(grade) in LOG_COLUMNS["clicks"]:
        reason = f"the grade {grade!r} is a click: it depends on where the item was shown"
        findings.append(Finding("clicks as grades", "WARN", reason, None, _UNBIASED))
    for name in items.feature_names or ():
        if plain_name(name) in LOG_COLUMNS["position"]:
            reason = f"{name!r} is where the item was shown: it is not known before ranking"
            fix = Message("leave it out: ", Setting("drop", [name]), f"; {_UNBIASED}")
            rule = "position among the features"
            findings.append(Finding(rule, "FAIL", reason, None, fix, (name,)))
    return findings


def describe(data: Items | Ratings | Run | Qrels | ImpressionLog | Preferences) -> dict[str, Any]:
    """Describe data: counts, grades and query sizes, as ``rankwright info`` prints them.

    Examples
    --------
    >>> describe(Run.from_arrays(["q", "q"], ["a", "b"], [2.0, 1.0], name="bm25"))
    {'n_rows': 2, 'n_queries': 1, 'name': 'bm25', 'rows_per_query': '2 to 2, mean 2.0'}
    """
    if isinstance(data, Items):
        values = data.X.data if data.is_sparse else data.X
        return {
            "n_items": data.n_items,
            "n_features": data.n_features,
            "n_queries": None if data.qid is None else data.n_queries,
            "items_per_query": _spread(data.queries.sizes),
            "grades": _counts(data.y),
            "features": None if data.feature_names is None else list(data.feature_names[:20]),
            "ids": data.docid is not None,
            "missing": int((values != values).sum()),
            "sparse": data.is_sparse,
        }
    if isinstance(data, ImpressionLog):
        rates = data.click_rates()[:20]
        return {
            "n_rows": len(data),
            "n_sessions": data.n_sessions,
            "n_queries": len(data.queries),
            "n_items": len(data.items),
            "n_clicks": int(data.clicks.sum()),
            "items_per_session": _spread(np.diff(data.starts)),
            "click_rate_by_position": [float(f"{rate:.4g}") for rate in rates],
        } | ({} if data.ranker is None else {"rankers": sorted(set(map(str, data.ranker)))})
    if isinstance(data, Preferences):
        ids = set(data.winner.tolist()) | set(data.loser.tolist())
        return {
            "n_pairs": len(data.winner),
            "n_items": len(ids),
            "n_queries": None if data.query is None else len(set(data.query.tolist())),
            "weighted": data.weight is not None,
        }
    if isinstance(data, Ratings):
        return {
            "n_ratings": len(data),
            "n_users": data.n_users,
            "n_items": data.n_items,
            "values": _counts(data.value),
            "density": float(f"{len(data) / (data.n_users * data.n_items):.4g}"),
            "ratings_per_user": _spread(data.user_counts),
            "ratings_per_item": _spread(data.item_counts),
        }
    more = {"name": data.name} if isinstance(data, Run) else {"grades": _counts(data.grade)}
    sizes = _spread(data.by_query.sizes)
    return {"n_rows": len(data), "n_queries": data.n_queries, **more, "rows_per_query": sizes}


def _spread(sizes: NDArray[Any]) -> str:
    return f"{sizes.min()} to {sizes.max()}, mean {sizes.mean():.1f}"


def _counts(grades: NDArray[Any]) -> dict[str, int] | str:
    values, counts = np.unique(grades, return_counts=True)
    if len(values) > 12:
        return f"{values.min():g} to {values.max():g}, {len(values)} values"
    return {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}


MAX_BAD_LINES, MAX_SAME_FIX = 20, 5


class Unreadable(NamedTuple):
    """A line or column that cannot be read: where, why and what to do."""

    line: int | None
    reason: str
    fix: str = ""


class PartialRead(NamedTuple):
    """What can be read of a file (None: nothing), the line of each row, and the bad places."""

    data: Any
    lines: IntArray | None
    bad: list[Unreadable]


def read_leniently(path: str, kind: str, **options: Any) -> PartialRead:
    """Read a file of this kind (items, ratings, run, qrels) with the options of its reader."""
    if kind == "items":
        kind = options.pop("format", None) or detect_format(path) or "letor"
    if not is_parquet(path):
        try:
            _content(path)
        except FileFormatError as error:  # not text, or damaged gzip
            return PartialRead(None, None, [Unreadable(error.line, error.message, error.fix)])
    read = _reader(kind, options)
    with TemporaryDirectory() as folder:
        data, local, bad_lines = _read_without_bad_lines(
            path, kind, read, os.path.join(folder, "copy")
        )
        lines = None if data is None else _lines_of_rows(local, kind, data)
    return PartialRead(data, lines, sorted(bad_lines, key=lambda place: place.line or 10**12))


def _reader(kind: str, options: dict[str, Any]) -> Callable[[str], Any]:
    if kind in ("run", "qrels"):
        return read_run if kind == "run" else read_qrels
    if kind == "ratings":
        return partial(read_ratings, duplicates="keep", **options)
    if kind == "letor":
        return partial(read_letor, on_bad_line="skip", max_bad=10**9)
    return partial(read_items, **{**options, "format": kind, "verbose": False})


def _read_without_bad_lines(
    path: str, kind: str, read: Callable[[str], Any], copy: str
) -> tuple[Any, str, list[Unreadable]]:
    """The data, the file that they were read from in the end, and the bad lines."""
    bad: dict[int | None, Unreadable] = {}
    data, local, more = None, path, ""
    while not _limit_reached(bad.values()):
        try:
            data = read(local)
            break
        except FileFormatError as error:
            if error.line in bad:  # nothing is left of the file
                break
            bad[error.line] = Unreadable(error.line, error.message, error.fix)
            is_header = kind in ("csv", "tsv", "ratings") and error.line == 1
            if error.line is None or is_header or kind == "parquet" or error.kind == "text grades":
                break
            _blank_record(local, kind, error.line, copy)
            local = copy
        except DataError as error:
            bad[None] = Unreadable(None, error.message, error.fix)
            break
    else:
        more = "there may be more bad lines than these"
    skipped = getattr(data, "bad_lines", ())
    for line in skipped[:MAX_BAD_LINES]:
        bad[line.line] = Unreadable(line.line, line.reason, "correct the line or remove it")
    if len(skipped) > MAX_BAD_LINES:
        more = f"{len(skipped) - MAX_BAD_LINES} more lines are bad"
    return data, local, [*bad.values(), *([Unreadable(None, more)] if more else [])]


def _limit_reached(bad: Iterable[Unreadable]) -> bool:
    fixes = Counter(entry.fix for entry in bad)
    return fixes.total() >= MAX_BAD_LINES or max(fixes.values(), default=0) >= MAX_SAME_FIX


def _blank_record(path: str, kind: str, number: int, copy: str) -> None:
    """Write a copy in which a record is blank, so that the other lines keep their numbers."""
    starts, end = _record_lines(path, kind)
    stop = next((start for start in starts if start > number), end)
    if number not in starts:  # broken quotes: the end of the record is unknown
        stop = number + 1
    lines = _content(path).split(b"\n")
    lines = [b"" if number <= k < stop else line for k, line in enumerate(lines, 1)]
    with open(copy, "wb") as file:
        file.write(b"\n".join(lines))


def _lines_of_rows(path: str, kind: str, data: Any) -> IntArray | None:
    """The line (or row, from 1) of each item or rating; None if a line holds several ratings."""
    rows = np.arange(1, len(data) + 1)
    if kind in ("run", "qrels") or is_parquet(path):
        return rows
    starts = _record_lines(path, kind)[0]
    if kind == "ratings":
        n_more = len(starts) - len(data)  # perhaps a header
        return np.array(starts[n_more:]) if n_more in (0, 1) else None
    skipped = {bad.line for bad in data.bad_lines} if isinstance(data, Items) else set()
    numbers = [number for number in starts if number not in skipped]
    if kind in ("csv", "tsv"):
        numbers, rows = numbers[1:], rows + 1  # the header
    return np.array(numbers) if len(numbers) == len(data) else rows


def _record_lines(path: str, kind: str) -> tuple[list[int], int]:
    """The lines on which records (not comments) begin, and the line after the last one."""
    content = _content(path)
    if kind in ("csv", "tsv", "ratings") and b'"' in content:
        text, starts = Text(path, content), list[int]()
        separator = "\t" if kind == "tsv" else likely_separator(text) or ","
        try:
            starts.extend(line for _, line in quoted_rows(text, separator))
        except FileFormatError as error:
            return starts, error.line
        return starts, content.count(b"\n") + 2
    comment = b"#" if kind == "letor" else b"\n"
    lines = content.split(b"\n")
    starts = [k for k, line in enumerate(lines, 1) if line.strip() and line.lstrip()[:1] != comment]
    return starts, len(lines) + 1


def _content(path: str) -> bytes:
    with open_text(path) as file:
        return file.read()
