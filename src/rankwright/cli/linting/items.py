"""Rules on items: grades, queries, ids, features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.cli.linting.findings import Finding, Found, Status, all_equal, many, state
from rankwright.data.items import Items


def check_items(items: Items, lines: NDArray[np.int64]) -> Iterator[Finding]:
    """Every rule on one file of items; those on features where there are any."""
    rules = _CONSTRAINTS | (_ON_FEATURES if items.n_features else {})
    return state(((rule, check(items, lines)) for rule, check in rules.items()), _KEPT)


def _grades(items: Items, lines: NDArray[np.int64]) -> Found:
    if np.unique(items.y).size == 1:
        fix = "check that this is the column of the grades"
        reason = f"every item has the grade {items.y[0]:g}: there is nothing to learn"
        return "FAIL", reason, None, fix
    odd = (items.y < 0) | (items.y > 30) | (items.y != np.round(items.y))
    if odd.any():
        row = int(np.argmax(odd))
        reason = f"grade {items.y[row]:g}: NDCG takes whole grades from 0 to 30 ({many(odd)})"
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
        reason = f"query {name} has one item only ({many(sizes == 1)} of {len(sizes)} queries)"
        status: Status = "FAIL" if (sizes == 1).all() else "WARN"
        return status, reason, int(lines[row]), "such queries teach and measure nothing"
    return None


def _one_grade(items: Items, lines: NDArray[np.int64]) -> Found:
    codes, n_queries = items.queries.codes, items.queries.n_queries
    equal = all_equal(items.y, codes, n_queries)
    flat = equal & (items.queries.sizes > 1)
    if not flat.any():
        return None
    query = int(np.argmax(flat))
    row = int(np.argmax(codes == query))
    name = "" if items.qid is None else f"query {items.queries.ids[query]}: "
    reason = (
        f"{name}all items have the grade {items.y[row]:g} ({many(flat)} of {n_queries} queries)"
    )
    status: Status = "FAIL" if equal.all() else "WARN"
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
        reason = f"a second line with the same query, features and grade ({many(repeats)})"
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


_CONSTRAINTS: dict[str, Callable[[Items, NDArray[np.int64]], Found]] = {
    "grades": _grades,
    "queries": _queries,
    "grades differ inside queries": _one_grade,
    "ids": _ids,
}
_ON_FEATURES: dict[str, Callable[[Items, NDArray[np.int64]], Found]] = {
    "duplicates": _duplicates,
    "constant features": _constant,
    "grade among the features": _told,
}
_KEPT = {
    "grades": "whole numbers from 0 to 30, more than one",
    "queries": "every query has several items",
    "grades differ inside queries": "every query has something to order",
    "ids": "no item stands twice in a query",
    "duplicates": "no two lines say the same",
    "constant features": "every feature varies",
    "grade among the features": "no feature repeats the grade",
}


def check_against(items: Items, other: Items, path: str, lines: NDArray[np.int64]) -> Finding:
    """Whether queries or rows of one file stand in the other, which must not know them."""
    rule = f"nothing shared with {path}"
    if items.qid is not None and other.qid is not None:
        there = {str(query) for query in other.queries.ids.tolist()}
        shared = np.array([str(query) in there for query in items.queries.ids.tolist()])
        if shared.any():
            query = int(np.argmax(shared))
            row = int(np.argmax(items.queries.codes == query))
            reason = f"query {items.queries.ids[query]} is in both files ({many(shared)} queries)"
            return Finding(rule, "FAIL", reason, int(lines[row]), "split the data by query")
    keys = set(_row_keys(other, with_query=False))
    same = np.array([key in keys for key in _row_keys(items, with_query=False)])
    if same.mean() > 0.01:
        row = int(np.argmax(same))
        reason = f"{many(same)} of {items.n_items} items have the very features of items there"
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
