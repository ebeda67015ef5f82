"""Look for mistakes in data before they become results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from rankwright.data.io.items import ITEM_FORMATS, detect_format, first_fields, read_items
from rankwright.data.items import Items
from rankwright.data.ratings import Ratings, usual_place
from rankwright.data.validation.bad_lines import read_what_is_readable
from rankwright.data.validation.items import FEATURE_RULES, ITEM_RULES, check_against
from rankwright.data.validation.ratings import RATING_RULES
from rankwright.data.validation.rules import Finding, Lines, apply_rules
from rankwright.exceptions import DataError, ParameterError


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """What :func:`validate` found: a sequence of findings, which prints as a table.

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
        return "\n".join(map(self._line, self))

    def _line(self, finding: Finding) -> str:
        where = f"{self.source}:{finding.line}: " if finding.line is not None else ""
        fix = f"\n      fix: {finding.fix}" if finding.fix and finding.status != "PASS" else ""
        return f"{finding.status}  {finding.rule}: {where}{finding.reason}{fix}"


def validate(
    data: Items | Ratings | str | os.PathLike[str],
    against: Items | str | os.PathLike[str] | None = None,
    *,
    kind: str | None = None,
    **options: Any,
) -> Findings:
    """Check items, ratings or a file for mistakes that spoil results.

    Items: grades, queries of one item or one grade, repeated ids, copies and contradictions,
    constant features, a feature that is the grade. Ratings: repeated pairs, equal ratings, users
    who tell nothing about order. In a file also each line and column that cannot be read; the rest
    is checked without them.

    Parameters
    ----------
    data : Items, Ratings or path
    against : Items, path or None
        Other items, such as the test data: neither queries nor items may be in both.
    kind : {"items", "ratings", "run", "qrels"} or None
        What the file holds; None detects it.
    **options
        How to read the file: parameters of :func:`read_items`, for ratings those of
        :func:`read_ratings`.

    Returns
    -------
    findings : Findings
        One or more for each rule.

    Examples
    --------
    >>> items = Items([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]], [0, 1, 2], qid=[1, 1, 2])
    >>> findings = validate(items)
    >>> findings.ok
    True
    >>> print(findings)
    PASS  grades: whole numbers from 0 to 30, more than one
    WARN  queries: items:3: query 2 has a single item (1 of 2 queries)
          fix: such queries teach and measure nothing
    PASS  grades differ inside queries: every query has something to order
    PASS  ids: no id is repeated in a query
    PASS  duplicates: no two items are the same
    WARN  constant features: 1 of 2 features have the same value in all items: feature 2
          fix: remove them; they cannot order anything
    PASS  grade among the features: no feature repeats the grade
    """
    if isinstance(data, Items | Ratings):
        source = kind = "items" if isinstance(data, Items) else "ratings"
        lines: Lines = np.arange(1, len(data) + 1)
        findings: list[Finding] = []
        content: Any = data
    else:
        source = os.fspath(data)
        kind = kind or detect_kind(source)
        content, lines, bad = read_what_is_readable(source, kind, **options)
        findings = [Finding("readable", "FAIL", each.reason, each.line, each.fix) for each in bad]
        findings = findings or [Finding("readable", "PASS", str(content))]
    if against is not None and kind != "items":
        raise ParameterError(f"against={str(against)!r}: it is for items, and {source} is {kind}.")
    if isinstance(content, Ratings):
        findings += apply_rules(RATING_RULES, content, lines)
    elif isinstance(content, Items):
        findings += apply_rules(ITEM_RULES, content, lines)
        if content.n_features:
            findings += apply_rules(FEATURE_RULES, content, lines)
        if against is not None:
            findings.append(_check_against(content, against, lines, options))
    return Findings(source, findings)


def _check_against(
    items: Items, against: Items | str | os.PathLike[str], lines: Lines, options: dict[str, Any]
) -> Finding:
    if isinstance(against, Items):
        return check_against(items, against, lines)
    like = None if items.feature_names is None else items
    other = read_items(against, **options, like=like)
    return check_against(items, other, lines, os.fspath(against))


def detect_kind(path: str | os.PathLike[str]) -> str:
    """What a file holds: ``"items"``, ``"ratings"``, ``"run"``, ``"qrels"``, ``"model"``, ...

    A table whose columns are user, item, rating and perhaps time, and no others, holds ratings.
    """
    name = os.fspath(path)
    format = detect_format(name) or "letor"
    if format in ("csv", "tsv"):
        try:
            columns = first_fields(name, "\t" if format == "tsv" else None)
        except DataError:  # a damaged file: its reader says so
            return "items"
        positions = [usual_place(role, columns) for role in ("user", "item", "value", "time")]
        known = set(positions) - {None}
        is_rating = None not in positions[:3] and len(known) == len(columns)
        return "ratings" if is_rating else "items"
    return "items" if format in ITEM_FORMATS else format
