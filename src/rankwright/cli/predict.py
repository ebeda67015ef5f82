"""``rankwright predict``: one score per line."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from rankwright.cli.console import print_json
from rankwright.cli.files import TableOptions, read_items, write_text
from rankwright.cli.files.systems import features_for
from rankwright.persist.scorer import load_scorer

__all__ = ["predict"]


def predict(
    model: str,
    data: str,
    /,
    *,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    grades: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Score items with a model: one number per line, in the order of the data.

    Parameters
    ----------
    model
        A model file, written by `rankwright train`.
    data
        Items to score (LETOR, CSV, TSV, JSONL, Parquet; - is standard input).
    output
        Write to this file instead of standard output.
    grades
        Predict in the units of the grades (for ordinal rankers) instead of scores.
    json
        A JSON object with a list instead of lines.
    """
    scorer = load_scorer(model)
    items = read_items(data, table, graded=False, n_features=scorer.n_features)
    X = features_for(scorer, items, model)
    values = scorer.predict(X, items.qid) if grades else scorer.decision_function(X, items.qid)
    if json:
        key = "grades" if grades else "scores"
        print_json({"model": model, "data": data, "n_items": items.n_items, key: values})
        return
    write_text((f"{value!r}\n" for value in values.tolist()), output)
