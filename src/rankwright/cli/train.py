"""``rankwright train``: graded items in, a model file out."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import note, plain_values, print_json, suggest
from rankwright.cli.evaluate import named
from rankwright.cli.files.items import TableOptions
from rankwright.cli.files.pipes import check_targets
from rankwright.cli.options import check_seed
from rankwright.cli.settings import make_ranker, parse_settings
from rankwright.cli.training import last_step, name_features, read_training_data
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
    random_state: int = 0,
    report: str | None = None,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Learn a model from graded items.

    By default, several rankers are trained on four fifths of the queries and evaluated on the
    rest; the best one is then trained on all queries. With fewer than 500 queries, they are
    evaluated by cross-validation over five folds of queries.

    ```text
    rankwright train train.txt
    rankwright train train.csv --y judgment --qid search -o shop.rw
    rankwright train train.txt --valid valid.txt --ranker RankSVM --set C=0.1
    rankwright train train.txt --ranker RankBoost --set early_stopping=20
    ```

    Parameters
    ----------
    data
        Graded items (LETOR, CSV, TSV, JSONL, Parquet; - is standard input).
    output
        Where to write the model.
    valid
        Graded items to evaluate on, instead of a fifth of the queries.
    ranker
        The name of a ranker, such as RankBoost, RankSVM, PRank; auto tries several.
    set
        A parameter of the ranker: --set n_estimators=200; may be repeated.
    measures
        The first one chooses, all are printed; by default NDCG@10 and AP.
    random_state
        Seeds the split and the ranker.
    report
        Write a page with tables and charts to this HTML file.
    json
        JSON instead of text.
    """
    began = time.perf_counter()
    check_seed(random_state, "--random-state")
    check_targets(output=output, report=report)
    if ranker == "auto" and set:
        raise ParameterError("--set needs --ranker: auto chooses the parameters itself.")
    chosen = None if ranker == "auto" else make_ranker(ranker, parse_settings(set))
    items, other = read_training_data(data, valid, table, chosen)
    auto = rw.AutoRanker(
        "default" if chosen is None else [(type(chosen).__name__, chosen)],
        measure=named(measures) or "auto",
        random_state=random_state,
        verbose=1,
    )
    eval_set = {} if other is None else {"eval_set": (other.X, other.y), "eval_qid": other.qid}
    auto.fit(items.X, items.y, qid=items.qid, **eval_set)
    name_features(auto.best_estimator_, items)
    rw.save(auto, output)
    if report is not None:
        from rankwright.cli.reporting import report_on_training

        rows = auto.held_out_rows_
        held_out = other if rows is None else items.take(rows)
        report_on_training(report, auto, held_out, data, {"random_state": random_state})
    if json:
        about = {"path": data, "n_items": items.n_items, "n_queries": items.n_queries}
        seconds = round(time.perf_counter() - began, 3)
        print_json({"model": output, **_summary(auto), "data": about, "seconds": seconds})
        return
    _print_validation(auto, valid, items.n_items)
    print(f"model: {output} ({auto.best_name_})")
    if report is not None:
        print(f"report: {report}")
    suggest("evaluate", output, valid or "TEST-DATA", *table.columns())


def _summary(auto: rw.AutoRanker) -> dict[str, Any]:
    comparison = auto.results_.comparison
    return {
        "ranker": auto.best_name_,
        "parameters": plain_values(last_step(auto.best_estimator_).get_params(deep=False)),
        "validation": None if comparison is None else comparison.to_dict(),
    }


def _print_validation(auto: rw.AutoRanker, valid: str | None, n_items: int) -> None:
    comparison, rows = auto.results_.comparison, auto.held_out_rows_
    if comparison is None:
        note("too few queries to hold some out: the model is trained on all, and not evaluated")
        return
    in_folds = rows is not None and len(rows) == n_items
    folds = "five folds of the queries" if in_folds else "a fifth of the queries, held out"
    table = comparison if len(auto.results_) > 1 else auto.results_[0].scores
    print(f"validation on {valid or folds}:\n\n{table}\n")
