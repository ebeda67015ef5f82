"""Look for mistakes in data before they become results, and say what is in it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.behavior.ratings import Ratings, usual_place
from rankwright.data.inputs import parquet_names
from rankwright.data.io.files import read_text
from rankwright.data.io.items import ITEM_FORMATS, detect_format, first_fields, read_items
from rankwright.data.io.logs.impressions import LOG_COLUMNS, is_log, plain_name, read_log
from rankwright.data.io.logs.preferences import Preferences, is_preferences, read_preferences
from rankwright.data.items import Items
from rankwright.data.runs import Qrels, Run
from rankwright.data.validation.bad_lines import read_what_is_readable
from rankwright.data.validation.rules import (
    FEATURE_RULES,
    ITEM_RULES,
    LOG_RULES,
    PAIR_RULES,
    RATING_RULES,
    Finding,
    Lines,
    apply_rules,
    check_against,
)
from rankwright.exceptions import DataError, FileFormatError, ParameterError

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
        return [finding for finding in self if finding.status == "FAIL"]

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> list[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | list[Finding]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        lines = []
        for finding in self:
            where = f"{self.source}:{finding.line}: " if finding.line is not None else ""
            fix = f"\n      fix: {finding.fix}" if finding.fix and finding.status != "PASS" else ""
            lines.append(f"{finding.status}  {finding.rule}: {where}{finding.reason}{fix}")
        return "\n".join(lines)


def validate(
    data: Items | Ratings | str | os.PathLike[str],
    against: Items | str | os.PathLike[str] | None = None,
    *,
    kind: str | None = None,
    **options: Any,
) -> Findings:
    """Check items, ratings or a file for problems that invalidate results.

    Items: grades, queries of one item or one grade, repeated ids, copies and contradictions,
    constant features, a feature that is the grade. Ratings: repeated pairs, users who tell nothing
    about order. Logs: clicks, sessions, positions, items that never move. Pairs: contradictions.
    Files: also lines and columns that cannot be read; the rest is still checked.

    Parameters
    ----------
    data : Items, Ratings or path
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
    """
    if isinstance(data, Items | Ratings):
        source = kind = "items" if isinstance(data, Items) else "ratings"
        lines: Lines = np.arange(1, len(data) + 1)
        grade = None
        findings: list[Finding] = []
        content: Any = data
    elif (kind := kind or detect_kind(data)) in ("log", "pairs"):
        return _validate_log(os.fspath(data), kind, against)
    else:
        source = os.fspath(data)
        grade = options.get("y")
        content, lines, bad = read_what_is_readable(source, kind, **options)
        findings = [Finding("readable", "FAIL", b.reason, b.line, b.fix) for b in bad]
        findings = findings or [Finding("readable", "PASS", str(content))]
    if against is not None and kind != "items":
        raise ParameterError(f"against={str(against)!r}: it is for items, and {source} is {kind}.")
    if isinstance(content, Ratings):
        findings += apply_rules(RATING_RULES, content, lines)
    elif isinstance(content, Items):
        findings += apply_rules(ITEM_RULES, content, lines)
        if content.n_features:
            findings += apply_rules(FEATURE_RULES, content, lines)
        findings += click_findings(content, grade)
        if against is not None:
            name = ""
            if not isinstance(against, Items):
                name = os.fspath(against)
                like = None if content.feature_names is None else content
                options |= {"group": "auto"}  # its own, if it has one
                against = read_items(name, **options, like=like)
            findings.append(check_against(content, against, lines, name))
    return Findings(source, findings)


def _validate_log(path: str, kind: str, against: Any) -> Findings:
    """The findings about a log of impressions or a file of preferences."""
    if against is not None:
        raise ParameterError(f"against={str(against)!r}: it is for items, and {path} is a {kind}.")
    try:
        content: Any = read_log(path) if kind == "log" else read_preferences(path)
    except FileFormatError as error:
        return Findings(path, [Finding("readable", "FAIL", error.reason, error.line, error.fix)])
    except DataError as error:
        return Findings(path, [Finding("readable", "FAIL", str(error))])
    findings = [Finding("readable", "PASS", str(content))]
    findings += apply_rules(LOG_RULES if kind == "log" else PAIR_RULES, content, None)
    return Findings(path, findings)


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


def detect_kind(
    path: str | os.PathLike[str], format: str | None = None, *, by_columns: bool = True
) -> str:
    """What a file holds: ``"items"``, ``"ratings"``, ``"run"``, ``"qrels"``, ``"model"``, ...

    ``by_columns=False`` takes every table as items, whatever its columns are called.
    """
    name = os.fspath(path)
    format = format or detect_format(name) or "letor"
    if not by_columns:
        return "items" if format in ITEM_FORMATS else format
    if format in ("csv", "tsv"):
        try:
            columns = first_fields(name, "\t" if format == "tsv" else None)
        except DataError:  # a damaged file: its reader says so
            return "items"
        if is_log(columns) or is_preferences(columns):
            return "log" if is_log(columns) else "pairs"
        # Ratings have the columns user, item, rating and perhaps time, and no others.
        positions = [usual_place(role, columns) for role in ("user", "item", "value", "time")]
        known = set(positions) - {None}
        is_rating = None not in positions[:3] and len(known) == len(columns)
        return "ratings" if is_rating else "items"
    if format in ("jsonl", "parquet"):
        columns = _first_names(name, format)
        if is_log(columns) or {"kind", "event"} <= set(columns):
            return "log"
        if is_preferences(columns):
            return "pairs"
    return "items" if format in ITEM_FORMATS else format


def _first_names(path: str, format: str) -> list[str]:
    """The names of the columns of a Parquet file, or of the first object of a JSONL file."""
    try:
        if format == "parquet":
            return parquet_names(path)
        return list(json.loads(read_text(path).first_line))
    except Exception:  # damaged in one of many ways: the reader of the file says how
        return []


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
