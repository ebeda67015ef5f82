"""``rankwright rank``: the items of each query in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from rankwright.cli.console import print_json
from rankwright.cli.files import TableOptions, read_items, write_text
from rankwright.cli.files.systems import features_for
from rankwright.data.items import Items
from rankwright.exceptions import ParameterError
from rankwright.persist.scorer import load_scorer

__all__ = ["rank"]

Row = tuple[Any, str, int, float]


def rank(
    model: str,
    data: str,
    /,
    *,
    cutoff: int | None = None,
    trec: Annotated[bool, Parameter(negative="")] = False,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    name: str = "rankwright",
    json: Annotated[bool, Parameter(negative="")] = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Order the items of each query with a model, best first.

    Prints query, place, item and score, separated by tabs. Items without an id are called by
    their row in the data, from 1.

    Parameters
    ----------
    model
        A model file, written by `rankwright train`.
    data
        Items to order (LETOR, CSV, TSV, JSONL, Parquet; - is standard input).
    cutoff
        Only so many items of each query.
    trec
        Print a TREC run: query Q0 item place score name.
    output
        Write to this file instead of standard output.
    name
        The name of the run.
    json
        A JSON object of lists instead of lines.
    """
    if cutoff is not None and cutoff < 1:
        raise ParameterError(f"--cutoff {cutoff}: it must be at least 1.")
    scorer = load_scorer(model)
    items = read_items(data, table, graded=False, n_features=scorer.n_features)
    scores = scorer.decision_function(features_for(scorer, items, model), items.qid)
    rows = _ordered(items, scores, cutoff)
    if json:
        lists: dict[str, list[dict[str, Any]]] = {}
        for query, item, place, score in rows:
            entry = {"item": item, "rank": place, "score": score}
            lists.setdefault(str(query), []).append(entry)
        print_json({"model": model, "data": data, "queries": lists})
    elif trec:
        write_text((f"{q} Q0 {item} {k} {score!r} {name}\n" for q, item, k, score in rows), output)
    else:
        write_text((f"{q}\t{k}\t{item}\t{score:.6g}\n" for q, item, k, score in rows), output)


def _ordered(items: Items, scores: Any, cutoff: int | None) -> Iterator[Row]:
    """Query by query in order of appearance; equal scores keep the order of the data."""
    queries = items.queries
    places = queries.places(scores)
    for row in np.lexsort((places, queries.codes)).tolist():
        place = int(places[row])
        if cutoff is None or place <= cutoff:
            query = 0 if items.qid is None else items.qid[row]
            docid = None if items.docid is None else items.docid[row]
            yield query, str(row + 1 if docid is None else docid), place, float(scores[row])
