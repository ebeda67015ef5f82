"""``rankwright rank``: the items of each query in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import as_json
from rankwright.cli.files.items import TableOptions, remark_on_queries
from rankwright.cli.files.pipes import write_answer
from rankwright.cli.files.systems import features_for, read_for, read_model
from rankwright.cli.options import at_least, check_run_name
from rankwright.exceptions import DataError, ParameterError

Row = tuple[Any, str, int, float]


def rank(
    model: str,
    data: str,
    /,
    *,
    cutoff: int | None = None,
    trec: bool = False,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    name: str = "rankwright",
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Order the items of each query with a model, best first.

    Prints query, place, item and score, separated by tabs. Items without an id are called by
    their row in the data, from 1.

    ```text
    rankwright rank model.rw new.txt --cutoff 10
    rankwright rank model.rw new.txt --trec --name mine -o mine.run
    ```

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
    at_least(1, cutoff=cutoff)
    if json and trec:
        raise ParameterError("--json and --trec: give one of them.")
    check_run_name(name)
    scorer = read_model(model)
    items = read_for([scorer], data, table, graded=False)
    remark_on_queries(items, data)
    scores = scorer.decision_function(features_for(scorer, items, model), items.qid)
    rows = _ordered(items, scores, cutoff)
    if json:
        lines = iter([as_json({"model": model, "data": data, "queries": _nested(rows)})])
    elif trec:
        _refuse_blanks(items)
        lines = (f"{q} Q0 {item} {k} {score!r} {name}\n" for q, item, k, score in rows)
    else:
        lines = (f"{q}\t{k}\t{item}\t{score:.6g}\n" for q, item, k, score in rows)
    write_answer(lines, output)


def _nested(rows: Iterator[Row]) -> dict[str, list[dict[str, Any]]]:
    lists: dict[str, list[dict[str, Any]]] = {}
    for query, item, place, score in rows:
        entry = {"item": item, "rank": place, "score": score}
        lists.setdefault(str(query), []).append(entry)
    return lists


def _refuse_blanks(items: rw.Items) -> None:
    """Blanks separate the columns of a TREC run, so no id may hold one."""
    queries = () if items.qid is None else map(str, items.queries.ids.tolist())
    documents = () if items.docid is None else map(str, items.docid.tolist())
    for what, ids in (("query", queries), ("item", documents)):
        for each in ids:
            if each.split() != [each]:
                raise DataError(
                    f"{what} {each!r} is empty or holds a blank, which a TREC run cannot say. "
                    "Use other ids, or leave out --trec."
                )


def _ordered(items: rw.Items, scores: Any, cutoff: int | None) -> Iterator[Row]:
    """Query by query in order of appearance; equal scores keep the order of the data."""
    import numpy as np

    queries = items.queries
    places = queries.places(scores)
    for row in np.lexsort((places, queries.codes)).tolist():
        place = int(places[row])
        if cutoff is None or place <= cutoff:
            query = 0 if items.qid is None else items.qid[row]
            docid = None if items.docid is None else items.docid[row]
            yield query, str(row + 1 if docid is None else docid), place, float(scores[row])
