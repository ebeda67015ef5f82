"""``rankwright predict`` and ``rankwright rank``: scores and ordered lists from a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import DataError, ParameterError

Row = tuple[Any, str, int, float]  # query, item, rank, score


def predict(
    model: opt.ModelFile,
    data: opt.Data,
    /,
    *,
    output: opt.Output = None,
    grades: bool = False,
    json: opt.Json = False,
    table: opt.TableOptions = opt.TableOptions(),  # noqa: B008
) -> None:
    """Score items with a model: one number per line, in the order of the data.

    rankwright predict model.rw new.txt
    cat new.txt | rankwright predict model.rw - -o scores.txt

    Parameters
    ----------
    grades
        Predict grades (for ordinal rankers) instead of scores.
    """
    console.check_targets(model, data, table.group, output=console.file_name(output))
    scorer = opt.load_system(model, "model")
    items = table.read(data, graded=False, like=scorer)
    values = (scorer.predict if grades else scorer.decision_function)(items.X, items.qid)
    key = "grades" if grades else "scores"
    result = {"model": model, "data": data, "n_items": items.n_items, key: values}
    lines = (f"{value!r}\n" for value in values.tolist())
    console.write_result([console.to_json(result)] if json else lines, output)


def rank(
    model: opt.ModelFile,
    data: opt.Data,
    /,
    *,
    cutoff: opt.Cutoff = None,
    trec: bool = False,
    output: opt.Output = None,
    name: opt.RunName = "rankwright",
    json: opt.Json = False,
    table: opt.TableOptions = opt.TableOptions(),  # noqa: B008
) -> None:
    """Order the items of each query with a model, best first.

    Prints query, rank, item and score, separated by tabs. An item without
    an id is called by its row in the data, from 1.

    rankwright rank model.rw new.txt --cutoff 10
    rankwright rank model.rw new.txt --trec --name mine -o mine.run

    Parameters
    ----------
    trec
        Print a TREC run: query Q0 item rank score name.
    """
    if json and trec:
        raise ParameterError("--json and --trec: give one of them.")
    console.check_targets(model, data, table.group, output=console.file_name(output))
    scorer = opt.load_system(model, "model")
    items = table.read(data, graded=False, like=scorer)
    opt.note_missing_queries(items, data)
    rows = _ordered(items, scorer.decision_function(items.X, items.qid), cutoff)
    if json:
        lines = iter([console.to_json({"model": model, "data": data, "queries": nested(rows)})])
    elif trec:
        lines = iter(run_lines(rows, name))
    else:
        lines = (f"{q}\t{k}\t{item}\t{score:.6g}\n" for q, item, k, score in rows)
    console.write_result(lines, output)


def nested(rows: Iterator[Row]) -> dict[str, list[dict[str, Any]]]:
    lists: dict[str, list[dict[str, Any]]] = {}
    for query, item, position, score in rows:
        entry = {"item": item, "rank": position, "score": score}
        lists.setdefault(str(query), []).append(entry)
    return lists


def run_lines(rows: Iterable[Row], name: str) -> list[str]:
    """The lines of a TREC run, whose columns are separated by blanks, so no id may have one."""
    lines = [f"{q} Q0 {item} {k} {score!r} {name}\n" for q, item, k, score in rows]
    for line in lines:
        if len(line.split()) != 6 or "  " in line:
            raise DataError(
                f"an id is empty or has a blank, which a TREC run cannot hold: {line.rstrip()!r}. "
                "Use other ids, or another format."
            )
    return lines


def _ordered(items: rw.Items, scores: Any, cutoff: int | None) -> Iterator[Row]:
    """Query by query in order of appearance; equal scores keep the order of the data."""
    import numpy as np

    positions = items.queries.places(scores)
    for row in np.lexsort((positions, items.queries.codes)).tolist():
        position = int(positions[row])
        if cutoff is None or position <= cutoff:
            query = 0 if items.qid is None else items.qid[row]
            docid = None if items.docid is None else items.docid[row]
            yield query, str(row + 1 if docid is None else docid), position, float(scores[row])
