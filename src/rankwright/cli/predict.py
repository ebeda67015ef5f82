"""``rankwright predict`` and ``rankwright rank``: scores and ordered lists from a model."""

from __future__ import annotations

from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import ParameterError


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
    rows = items.ranking(scorer.decision_function(items.X, items.qid), cutoff)
    about = {"model": model, "data": data} if json else None
    console.write_ranking(rows, output, run_name=name if trec else None, about=about)
