"""``rankwright predict`` and ``rankwright rank``: scores and ordered lists from a model."""

from __future__ import annotations

from typing import Any

import rankwright as rw
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
    cluster: opt.Cluster = None,
    json: opt.Json = False,
    table: opt.TableOptions = opt.TableOptions(),  # noqa: B008
) -> None:
    """Score items with a model: one number per line, in the order of the data.

    rankwright predict model.rw new.txt
    cat new.txt | rankwright predict model.rw - -o scores.txt
    rankwright predict model.rw 'part-*.parquet' --cluster tcp://scheduler:8786 -o folder

    Parameters
    ----------
    grades
        Predict grades (for ordinal rankers) instead of scores.
    """
    if cluster is not None:
        others = {"grades": grades, "json": json}
        _score_files(model, data, output, cluster, table, ranked=False, **others)
        return
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
    cluster: opt.Cluster = None,
    name: opt.RunName = "rankwright",
    json: opt.Json = False,
    table: opt.TableOptions = opt.TableOptions(),  # noqa: B008
) -> None:
    """Order the items of each query with a model, best first.

    Prints query, rank, item and score, separated by tabs. An item without
    an id is called by its row in the data, from 1.

    rankwright rank model.rw new.txt --cutoff 10
    rankwright rank model.rw new.txt --trec --name mine -o mine.run
    rankwright rank model.rw 'part-*.parquet' --cluster local:4 -o folder --cutoff 10

    Parameters
    ----------
    trec
        Print a TREC run: query Q0 item rank score name.
    """
    if json and trec:
        raise ParameterError("--json and --trec: give one of them.")
    if cluster is not None:
        others = {"trec": trec, "json": json}
        _score_files(model, data, output, cluster, table, cutoff=cutoff, **others)
        return
    console.check_targets(model, data, table.group, output=console.file_name(output))
    scorer = opt.load_system(model, "model")
    items = table.read(data, graded=False, like=scorer)
    opt.note_missing_queries(items, data)
    rows = items.ranking(scorer.decision_function(items.X, items.qid), cutoff)
    about = {"model": model, "data": data} if json else None
    console.write_ranking(rows, output, run_name=name if trec else None, about=about)


def _score_files(
    model: str, data: str, output: str | None, cluster: str, table: opt.TableOptions, **how: Any
) -> None:
    """A file of results for each file, in a folder; ``how`` also has options that are not used."""
    arguments = {name: how.pop(name) for name in ("ranked", "cutoff") if name in how}
    reading = table.of_many_files(cluster, **how)
    if output is None or console.file_name(output) is None:
        raise ParameterError(
            f"--cluster {cluster}: workers write a file of results for each file. Name the folder "
            "for them with --output."
        )
    scorer = opt.load_system(model, "model")
    with rw.engine(cluster):
        counts = rw.score_files(scorer, data, output, **arguments, **reading)
    console.note(f"{output}: {sum(counts.values()):,} items in {len(counts):,} files")
