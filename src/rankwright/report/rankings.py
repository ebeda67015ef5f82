"""Two rankings of the same queries side by side, with the moves between them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries
from rankwright.report.page import Section

__all__ = ["rankings_section"]

N_QUERIES, N_PLACES = 3, 10


def rankings_section(
    scores: Mapping[str, ArrayLike], y: ArrayLike, qid: Any, docid: Any = None
) -> Section:
    """The lists of two systems for the queries where they differ most.

    Parameters
    ----------
    scores : mapping of two names to (n_items,) scores
    y : (n_items,) grades
    qid : (n_items,) queries, or None
    docid : (n_items,) ids, or None: items are then called by their row
    """
    (first, one), (second, two) = scores.items()
    grades = np.asarray(y, dtype=np.float64)
    queries = Queries.from_ids(qid, len(grades))
    before, after = (queries.places(np.asarray(each, dtype=np.float64)) for each in (one, two))
    moved = np.bincount(
        queries.codes, np.abs(before - after) / np.minimum(before, after), queries.n_queries
    )
    names = [f"row {k + 1}" for k in range(len(grades))] if docid is None else docid
    parts = []
    for query in np.argsort(-moved, kind="stable")[:N_QUERIES].tolist():
        rows = np.flatnonzero(queries.codes == query)
        title = "" if qid is None else f"<h4>query {html.escape(str(queries.ids[query]))}</h4>"
        lists = [
            _list(first, rows, before, after, grades, names, None),
            _list(second, rows, after, before, grades, names, first),
        ]
        parts.append(f'<div class="pair">{title}<div class="lists">{"".join(lists)}</div></div>')
    remark = (
        f"The queries on which {first} and {second} differ most near the top. The grade of each "
        f"item stands in the box; arrows show how many places {second} moved it."
    )
    return Section("Rankings side by side", "".join(parts), remark=remark)


def _list(
    name: str,
    rows: NDArray[np.int64],
    place: NDArray[np.int64],
    other: NDArray[np.int64],
    grades: NDArray[np.float64],
    names: Any,
    against: str | None,
) -> str:
    lines = []
    for row in rows[np.argsort(place[rows])][:N_PLACES].tolist():
        move = "" if against is None else _move(int(other[row] - place[row]))
        lines.append(
            f"<tr><td>{place[row]}</td><td><span class=grade>{grades[row]:g}</span></td>"
            f"<td>{html.escape(str(names[row]))}</td><td>{move}</td></tr>"
        )
    head = f"<tr><th>#</th><th>grade</th><th>{html.escape(name)}</th><th></th></tr>"
    table = f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _move(places: int) -> str:
    if places == 0:
        return '<span class="same" aria-label="not moved">=</span>'
    kind, arrow, word = ("up", "▲", "up") if places > 0 else ("down", "▼", "down")
    return f'<span class="{kind}" aria-label="{word} {abs(places)}">{arrow} {abs(places)}</span>'
