"""``rankwright train``: graded items in, a model file out."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import note, plain_values, print_json, suggest, working
from rankwright.cli.evaluate import named
from rankwright.cli.files.items import TableOptions, describe, read_items
from rankwright.cli.files.pipes import check_targets
from rankwright.cli.files.systems import read_like
from rankwright.cli.options import check_seed
from rankwright.cli.preparing import last_step, name_features, refuse_gaps, warn_of_compiling
from rankwright.cli.settings import make_ranker, parse_settings
from rankwright.exceptions import ParameterError


def train(
    data: str,
    /,
    *,
    output: Annotated[str, Parameter(alias="-o")] = "model.rw",
    valid: str | None = None,
    ranker: str = "auto",
    set: list[str] = [],  # noqa: B006
    measures: Annotated[list[str], Parameter(alias="-m")] = [],  # noqa: B006
    seed: int = 0,
    report: str | None = None,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Learn a model from graded items.

    Without further options, a few rankers learn from four fifths of the queries, the others
    choose the best of them (and when to stop), and the best is trained again on all queries. Of
    fewer than 500 queries each fifth is held out in its turn.

    ```text
    rankwright train train.txt
    rankwright train train.csv --y judgment --qid search -o shop.rw
    rankwright train train.txt --valid valid.txt --ranker RankSVM --set C=0.1
    rankwright train train.txt --report page.html
    ```

    Parameters
    ----------
    data
        Graded items (LETOR, CSV, TSV, JSONL, Parquet; - is standard input).
    output
        Where to write the model.
    valid
        Graded items to choose and stop by, instead of a fifth of the queries.
    ranker
        The name of a ranker, such as RankBoost, RankSVM, PRank; auto tries several.
    set
        A parameter of the ranker: --set n_estimators=200; may be repeated.
    measures
        What to choose by (the first) and print: NDCG@10, AP by default.
    seed
        Seeds the split and the ranker.
    report
        Write a page with table and charts to this HTML file.
    json
        JSON instead of text.
    """
    from rankwright.cli.choosing import attempt, best_of, default_measure, hold_out, wanted

    began = time.perf_counter()
    check_seed(seed)
    check_targets(output=output, report=report)
    settings: dict[str, Any] = parse_settings(set)
    made = None if ranker == "auto" else _checked(ranker, settings, seed)
    if made is None and settings:
        raise ParameterError("--set needs --ranker: auto chooses the parameters itself.")
    with working(f"reading {data}"):
        items = read_items(data, table)
        other = None if valid is None else read_like(items, valid, table)
    describe(items, data)
    for path, some in ((data, items), (valid, other)):
        if made is not None and some is not None:
            refuse_gaps(made, some, str(path))
    folds = hold_out(items, seed) if other is None else [(items, other)]
    if not folds:
        note("too few queries to hold some out: the model is trained on all, and not judged")
    warn_of_compiling()
    names = named(measures) or [default_measure(items.y), "AP"]
    tried = []
    for name, each in wanted(ranker, settings, items, folds).items():
        with working(f"training {name}", spins="RankBoost" not in name):
            tried.append(attempt(name, each, items, folds, names))
    best = best_of(tried)
    model = best.model
    if folds and other is None:
        words = f"training {best.name} on all {items.n_queries} queries"
        with working(words, spins="RankBoost" not in best.name):
            model = best.again(items)
    name_features(model, items)
    rw.save(model, output)
    judged = {each.name: each.scores for each in tried if each.scores is not None}
    comparison = rw.compare(judged) if judged else None
    if report is not None:
        from rankwright.cli.reporting import report_on_training

        held_out = rw.Items.concat([valid for _, valid in folds]) if folds else None
        report_on_training(report, tried, best, held_out, comparison, data, {"seed": seed})
    if json:
        print_json(
            {
                "model": output,
                "ranker": best.name,
                "parameters": _parameters(model),
                "data": {"path": data, "n_items": items.n_items, "n_queries": items.n_queries},
                "validation": None if comparison is None else comparison.to_dict(),
                "seconds": round(time.perf_counter() - began, 3),
                "report": report,
            }
        )
        return
    if comparison is not None:
        one = "a fifth of the queries, held out"
        where = valid or (one if len(folds) == 1 else "each fifth of the queries, held out in turn")
        print(f"validation on {where}:\n\n{comparison if len(tried) > 1 else best.scores}\n")
    print(f"model: {output} ({best.name})")
    if report is not None:
        print(f"report: {report}")
    suggest("evaluate", output, valid or "TEST-DATA", *table.columns())


def _checked(ranker: str, settings: dict[str, Any], seed: int) -> Any:
    """The ranker; wrong names and values are refused before any data are read."""
    made = make_ranker(ranker, settings)
    if "random_state" in made.get_params() and "random_state" not in settings:
        settings["random_state"] = seed
    made._check_parameters()
    return made


def _parameters(model: Any) -> dict[str, Any]:
    return plain_values(last_step(model).get_params(deep=False))
