"""What counts as a ranked list: a run, scores by document, or documents best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from reprlib import repr as short
from typing import Any

import numpy as np

from rankwright.data.runs import Run
from rankwright.exceptions import DataError

__all__ = ["as_runs"]

UNNAMED = Run.from_arrays([], [], []).name


def as_runs(runs: Any) -> list[Run]:
    """Runs from runs, ``{query: {doc: score}}``, ``{query: [doc, ...]}`` or ``[doc, ...]``.

    Documents in a sequence stand best first; a sequence without a query is the list of a single
    query 0. What has no name of its own (a Run that was given none too) is called ``run-0``,
    ``run-1`` and so on by its place, and a mapping ``{name: list}`` around everything names all.

    >>> as_runs({"ours": ["a", "b"], "theirs": ["b"]})
    [Run('ours', 2 rows, 1 queries), Run('theirs', 1 rows, 1 queries)]
    >>> as_runs([["a", "b"], {"q1": {"a": 0.5}}])
    [Run('run-0', 2 rows, 1 queries), Run('run-1', 1 rows, 1 queries)]
    """
    if isinstance(runs, Run | str) or not isinstance(runs, Iterable):
        raise DataError(
            f"runs is {type(runs).__name__}: give several runs, [run, run] or {{name: run}}."
        )
    if isinstance(runs, Mapping):
        found = [replace(_as_run(run, str(name)), name=str(name)) for name, run in runs.items()]
    else:
        found = [_as_run(run, f"run-{place}") for place, run in enumerate(runs)]
    if not found:
        raise DataError("there is no run to fuse. Give at least one.")
    names = [run.name for run in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"two runs are called {twice!r}. Give each a name of its own: {{name: run}}, or "
            "name= where the run is made."
        )
    return found


def _as_run(ranking: Any, name: str) -> Run:
    if isinstance(ranking, Run):
        return replace(ranking, name=name) if ranking.name == UNNAMED else ranking
    lists = ranking if isinstance(ranking, Mapping) else {0: ranking}
    rows = [row for query, listed in lists.items() for row in _rows(query, listed, name)]
    qid, docid, score = zip(*rows, strict=True) if rows else ((), (), ())
    try:
        return Run.from_arrays(list(qid), list(docid), list(score), name=name)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error


def _rows(query: Any, listed: Any, name: str) -> list[tuple[Any, Any, Any]]:
    if isinstance(listed, Mapping):
        return [(query, doc, score) for doc, score in listed.items()]
    if isinstance(listed, Sequence | np.ndarray) and not isinstance(listed, str | bytes):
        pair = next((doc for doc in listed if isinstance(doc, tuple | list | np.ndarray)), None)
        if pair is not None:
            raise DataError(
                f"{name}, query {query}: {short(pair)} in a list of documents is no document. "
                "Documents with scores are written {query: {doc: score}}."
            )
        return [(query, doc, -float(place)) for place, doc in enumerate(listed, start=1)]
    raise DataError(
        f"{name}: {short(listed)} is not a ranked list. Each run is a Run, "
        "{query: {doc: score}}, {query: [doc, ...]} or [doc, ...], best first; around several "
        "stands [run, run] or {name: run}."
    )
