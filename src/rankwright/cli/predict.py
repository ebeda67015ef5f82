"""``rankwright predict``: one score per line."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from rankwright.cli.console import as_json
from rankwright.cli.files.items import TableOptions
from rankwright.cli.files.pipes import write_answer
from rankwright.cli.files.systems import features_for, read_for, read_model


def predict(
    model: str,
    data: str,
    /,
    *,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    grades: bool = False,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Score items with a model: one number per line, in the order of the data.

    ```text
    rankwright predict model.rw new.txt
    cat new.txt | rankwright predict model.rw - -o scores.txt
    ```

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
    scorer = read_model(model)
    items = read_for([scorer], data, table, graded=False)
    X = features_for(scorer, items, model)
    values = scorer.predict(X, items.qid) if grades else scorer.decision_function(X, items.qid)
    key = "grades" if grades else "scores"
    found = {"model": model, "data": data, "n_items": items.n_items, key: values}
    write_answer([as_json(found)] if json else (f"{v!r}\n" for v in values.tolist()), output)
