"""Rules that data should keep: each gives a finding that says where, why and what to do."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright.cli.files import TableOptions, read_items
from rankwright.data.items import Items
from rankwright.data.letor import read_letor
from rankwright.data.trec import read_qrels, read_run
from rankwright.exceptions import DataError, FileFormatError, ParameterError

__all__ = ["Finding", "check_file"]

Status = Literal["PASS", "WARN", "FAIL"]
Reader = Callable[[str], Any]
MOST_BAD_LINES, MOST_ALIKE = 20, 5


@dataclass(frozen=True)
class Finding:
    """What one rule says about the data."""

    rule: str
    status: Status
    reason: str
    line: int | None = None
    fix: str = ""


def check_file(path: str, kind: str, table: TableOptions, against: str | None) -> list[Finding]:
    """Every rule on a file of this kind; ``against`` is a second file of items."""
    if kind in ("run", "qrels"):
        if against is not None:
            raise ParameterError(f"--against {against}: it is for items, and {path} is a {kind}.")
        return _judged(path, kind)
    return _items(path, kind, table, against)


def _items(path: str, kind: str, table: TableOptions, against: str | None) -> list[Finding]:
    with TemporaryDirectory() as folder:
        if kind == "letor":
            read: Reader = partial(read_letor, on_bad_line="skip", max_bad=10**9)
        else:
            read = partial(read_items, options=replace(table, read_as=kind))
        items, local, findings = _readable(path, kind, read, folder)
        if items is None:
            return findings
        lines = _line_numbers(local, kind, items)
    findings += _check_items(items, lines)
    if against is not None:
        other = read_items(against, table)
        findings.append(_check_against(items, other, against, lines))
    return findings


def _judged(path: str, kind: str) -> list[Finding]:
    with TemporaryDirectory() as folder:
        return _readable(path, kind, read_run if kind == "run" else read_qrels, folder)[2]


def _readable(path: str, kind: str, read: Reader, folder: str) -> tuple[Any, str, list[Finding]]:
    """What can be read (None: nothing), the file it came from, and a finding for each bad line.

    A bad line is blanked in a copy and the reading goes on, so that one look shows them all.
    """
    bad: dict[int | None, Finding] = {}
    found, local, more = None, path, ""
    while not _enough(bad.values()):
        try:
            found = read(local)
            break
        except FileFormatError as error:
            if error.line in bad:  # nothing is left of the file
                break
            bad[error.line] = Finding("readable", "FAIL", error.reason, error.line, error.fix)
            head = kind in ("csv", "tsv") and error.line == 1
            if error.line is None or head or kind == "parquet":
                break
            local = _without_line(local, error.line, folder)
        except DataError as error:
            bad[None] = Finding("readable", "FAIL", str(error))
            break
    else:
        more = "there may be more bad lines than these"
    skipped = getattr(found, "bad_lines", [])
    for line in skipped[:MOST_BAD_LINES]:
        fix = "mend the line or leave it out"
        bad[line.line] = Finding("readable", "FAIL", line.reason, line.line, fix)
    if len(skipped) > MOST_BAD_LINES:
        more = f"{len(skipped) - MOST_BAD_LINES} more lines are bad"
    findings = sorted(bad.values(), key=lambda finding: finding.line or 0)
    if more:
        findings.append(Finding("readable", "FAIL", more))
    return found, local, findings or [Finding("readable", "PASS", str(found))]


def _enough(findings: Iterable[Finding]) -> bool:
    """Whether more of the same would help nobody: a column of words is bad in every line."""
    fixes = Counter(finding.fix for finding in findings)
    return fixes.total() >= MOST_BAD_LINES or max(fixes.values(), default=0) >= MOST_ALIKE


def _without_line(path: str, number: int, folder: str) -> str:
    """A copy in which one line is blank, so that the others keep their numbers."""
    with gzip.open(path, "rb") if _is_zipped(path) else open(path, "rb") as file:
        lines = file.read().split(b"\n")
    if number <= len(lines):
        lines[number - 1] = b""
    copy = os.path.join(folder, "copy")
    with open(copy, "wb") as file:
        file.write(b"\n".join(lines))
    return copy


def _line_numbers(path: str, kind: str, items: Items) -> NDArray[np.int64]:
    """The line on which each item begins, where that is certain; else its row, from 1."""
    rows = np.arange(1, items.n_items + 1)
    if kind == "parquet":
        return rows
    skipped = {bad.line for bad in items.bad_lines}
    opened = gzip.open if _is_zipped(path) else open
    with opened(path, "rb") as file:
        numbers = [number for number in _beginnings(file, kind) if number not in skipped]
    if kind in ("csv", "tsv"):
        numbers, rows = numbers[1:], rows + 1  # the header
    return np.array(numbers) if len(numbers) == items.n_items else rows


def _beginnings(lines: Iterable[bytes], kind: str) -> Iterator[int]:
    """Lines that begin an item: not those inside a quoted cell, not the comments of LETOR."""
    quoted = False
    for number, line in enumerate(lines, 1):
        comment = kind == "letor" and line.lstrip()[:1] == b"#"
        if line.strip() and not comment and not quoted:
            yield number
        quoted ^= kind in ("csv", "tsv") and line.count(b'"') % 2 == 1


def _is_zipped(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _check_items(items: Items, lines: NDArray[np.int64]) -> Iterator[Finding]:
    """Every rule on one file of items."""
    for rule, check in _RULES.items():
        found = check(items, lines)
        yield Finding(rule, "PASS", _PASSED[rule]) if found is None else Finding(rule, *found)


Found = tuple[Status, str, int | None, str] | None


def _grades(items: Items, lines: NDArray[np.int64]) -> Found:
    if np.unique(items.y).size == 1:
        fix = "check that this is the column of the grades"
        reason = f"every item has the grade {items.y[0]:g}: there is nothing to learn"
        return "FAIL", reason, None, fix
    odd = (items.y < 0) | (items.y > 30) | (items.y != np.round(items.y))
    if odd.any():
        row = int(np.argmax(odd))
        reason = f"grade {items.y[row]:g}: NDCG takes whole grades from 0 to 30 ({_many(odd)})"
        return "WARN", reason, int(lines[row]), "measure pairs (Disagreement), or map the grades"
    return None


def _queries(items: Items, lines: NDArray[np.int64]) -> Found:
    if items.qid is None:
        fix = "write qid:<id> on each line, or name the column with --qid"
        return "WARN", "no queries are named: all items are taken as one list", None, fix
    sizes = items.queries.sizes
    if (sizes == 1).any():
        query = int(np.argmax(sizes == 1))
        row = int(np.argmax(items.queries.codes == query))
        name = items.queries.ids[query]
        reason = f"query {name} has one item only ({_many(sizes == 1)} of {len(sizes)} queries)"
        status: Status = "FAIL" if (sizes == 1).all() else "WARN"
        return status, reason, int(lines[row]), "such queries teach and measure nothing"
    return None


def _one_grade(items: Items, lines: NDArray[np.int64]) -> Found:
    codes, n_queries = items.queries.codes, items.queries.n_queries
    low, high = np.full(n_queries, np.inf), np.full(n_queries, -np.inf)
    np.minimum.at(low, codes, items.y)
    np.maximum.at(high, codes, items.y)
    flat = (low == high) & (items.queries.sizes > 1)
    if not flat.any():
        return None
    query = int(np.argmax(flat))
    row = int(np.argmax(codes == query))
    name = "" if items.qid is None else f"query {items.queries.ids[query]}: "
    reason = f"{name}all items have the grade {low[query]:g} ({_many(flat)} of {n_queries} queries)"
    status: Status = "FAIL" if (low == high).all() else "WARN"
    return status, reason, int(lines[row]), "judge more items of these queries, or leave them out"


def _ids(items: Items, lines: NDArray[np.int64]) -> Found:
    if items.docid is None:
        return None
    seen: dict[tuple[int, Any], int] = {}
    for row, key in enumerate(zip(items.queries.codes.tolist(), items.docid.tolist(), strict=True)):
        if key[1] is None:
            continue
        if key in seen:
            name = "" if items.qid is None else f" in query {items.qid[row]}"
            first = int(lines[seen[key]])
            reason = f"item {key[1]}{name} stands on line {first} already"
            return "FAIL", reason, int(lines[row]), "keep one of the two lines"
        seen[key] = row
    return None


def _duplicates(items: Items, lines: NDArray[np.int64]) -> Found:
    first: dict[bytes, int] = {}
    repeats = np.zeros(items.n_items, dtype=bool)
    for row, key in enumerate(_row_keys(items, with_query=True)):
        earlier = first.setdefault(key, row)
        if earlier == row:
            continue
        repeats[row] = True
        if items.y[earlier] != items.y[row]:
            reason = (
                f"the same features as line {int(lines[earlier])} in the same query, but grade "
                f"{items.y[row]:g} instead of {items.y[earlier]:g}"
            )
            return "WARN", reason, int(lines[row]), "no ranker can tell the two apart: judge again"
    if repeats.any():
        row = int(np.argmax(repeats))
        reason = f"a second line with the same query, features and grade ({_many(repeats)})"
        return "WARN", reason, int(lines[row]), "leave out copies, unless they are meant as weights"
    return None


def _constant(items: Items, lines: NDArray[np.int64]) -> Found:
    constant = [k for k in range(items.n_features) if _is_constant(_column(items, k))]
    if not constant:
        return None
    names = ", ".join(_name(items, k) for k in constant[:8]) + (" ..." if constant[8:] else "")
    status: Status = "FAIL" if len(constant) == items.n_features else "WARN"
    reason = f"{len(constant)} of {items.n_features} features have one value throughout: {names}"
    return status, reason, None, "leave them out; they cannot order anything"


def _told(items: Items, lines: NDArray[np.int64]) -> Found:
    """A feature that is the grade itself."""
    if np.unique(items.y).size < 2:
        return None
    for k in range(items.n_features):
        column = _column(items, k)
        if not np.isnan(column).any() and not _is_constant(column):
            with np.errstate(invalid="ignore"):
                alike = np.corrcoef(column, items.y)[0, 1]
            if abs(alike) > 1 - 1e-9:
                reason = f"{_name(items, k)} is the grade itself (correlation {alike:+.3f})"
                return "FAIL", reason, None, "leave it out: it will not be known for new items"
    return None


_RULES: dict[str, Callable[[Items, NDArray[np.int64]], Found]] = {
    "grades": _grades,
    "queries": _queries,
    "grades differ inside queries": _one_grade,
    "ids": _ids,
    "duplicates": _duplicates,
    "constant features": _constant,
    "grade among the features": _told,
}
_PASSED = {
    "grades": "whole numbers from 0 to 30, more than one",
    "queries": "every query has several items",
    "grades differ inside queries": "every query has something to order",
    "ids": "no item stands twice in a query",
    "duplicates": "no two lines say the same",
    "constant features": "every feature varies",
    "grade among the features": "no feature repeats the grade",
}


def _check_against(items: Items, other: Items, path: str, lines: NDArray[np.int64]) -> Finding:
    """Whether queries or rows of one file stand in the other, which must not know them."""
    rule = f"nothing shared with {path}"
    if items.qid is not None and other.qid is not None:
        there = {str(query) for query in other.queries.ids.tolist()}
        shared = np.array([str(query) in there for query in items.queries.ids.tolist()])
        if shared.any():
            query = int(np.argmax(shared))
            row = int(np.argmax(items.queries.codes == query))
            reason = f"query {items.queries.ids[query]} is in both files ({_many(shared)} queries)"
            return Finding(rule, "FAIL", reason, int(lines[row]), "split the data by query")
    keys = set(_row_keys(other, with_query=False))
    same = np.array([key in keys for key in _row_keys(items, with_query=False)])
    if same.mean() > 0.01:
        row = int(np.argmax(same))
        reason = f"{_many(same)} of {items.n_items} items have the very features of items there"
        fix = "check that the same documents are not in both"
        status: Status = "FAIL" if same.mean() > 0.5 else "WARN"  # real sets share empty rows
        return Finding(rule, status, reason, int(lines[row]), fix)
    return Finding(rule, "PASS", "no query and hardly an item in common")


def _row_keys(items: Items, *, with_query: bool) -> Iterator[bytes]:
    codes = items.queries.codes
    for row in range(items.n_items):
        if items.is_sparse:
            part = items.X[[row]]
            key = part.indices.tobytes() + part.data.tobytes()
        else:
            key = np.ascontiguousarray(items.X[row]).tobytes()
        yield key + codes[row].tobytes() if with_query else key


def _column(items: Items, k: int) -> NDArray[np.float64]:
    if items.is_sparse:
        return np.asarray(items.X[:, [k]].toarray())[:, 0]
    return np.asarray(items.X[:, k])


def _is_constant(column: NDArray[np.float64]) -> bool:
    known = column[~np.isnan(column)]
    some_missing = 0 < len(known) < len(column)
    return not some_missing and (len(known) == 0 or bool((known == known[0]).all()))


def _name(items: Items, k: int) -> str:
    return f"feature {k + 1}" if items.feature_names is None else items.feature_names[k]


def _many(mask: Any) -> str:
    return f"{int(np.sum(mask)):,}"
