"""``rankwright train``: graded items in, a model file out."""

from __future__ import annotations

import time

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.cli import clicks
from rankwright.cli._training import (
    make_ranker,
    name_features,
    one_source,
    parse_settings,
    read_training_data,
)
from rankwright.cli.cluster import Engine, Job, train_on_engine
from rankwright.exceptions import ParameterError


def train(
    data: opt.Data | None = None,
    /,
    *,
    log: str | None = None,
    output: opt.NewModel = "model.rw",
    valid: str | None = None,
    ranker: str = "auto",
    set: opt.Settings = [],  # noqa: B006
    measures: opt.Measures = [],  # noqa: B006
    random_state: opt.RandomState = 0,
    checkpoint: str | None = None,
    cluster: str | None = None,
    memory: str | None = None,
    report: opt.Report = None,
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
    click_options: clicks.ClickOptions = clicks.ClickOptions(),  # noqa: B008
) -> None:
    """Learn a model from graded items.

    By default, several rankers are trained on four fifths of the queries
    and evaluated on the rest; the best one is then trained on all queries.
    With fewer than 500 queries, they are evaluated by cross-validation over
    five folds of queries. Trees with the pair weights of the measure are
    among them; what is tried depends on the size of the data.

    rankwright train train.txt
    rankwright train train.csv --y judgment --qid search -o shop.rw
    rankwright train train.txt --valid valid.txt --ranker RankSVM --set C=0.1
    rankwright train train.txt --ranker RankBoost --set early_stopping=20
    rankwright train train.txt --ranker LambdaMART --set max_leaf_nodes=31 --set learning_rate=.05
    rankwright train train.txt --checkpoint work --report page.html
    rankwright train --log feedback.db
    rankwright train log.csv --clicks --features features.parquet
    rankwright train log.csv --clicks --features f.csv --judgments qrels.txt --weight 0.1
    rankwright train pairs.csv --features features.csv
    rankwright train 'part-*.parquet' --cluster tcp://scheduler:8786 --ranker LambdaMART
    rankwright train big.letor --memory 2GB

    Parameters
    ----------
    log
        Instead of data: the log of `rankwright serve`, with its graded or clicked items.
    valid
        Graded items to evaluate on, instead of a fifth of the queries.
    ranker
        The name of a ranker, such as RankBoost, RankSVM, PRank; auto tries several.
    measures
        The first one chooses, all are printed; by default NDCG@10 and AP.
    checkpoint
        A folder for the models trained so far. If training is interrupted, the same
        command goes on where it stopped. Removed when the model is written.
    cluster
        Train on a Dask cluster: the address of its scheduler, or local:4 for four threads
        here. DATA may be a folder or a glob; the workers read the files.
    memory
        Train on this machine from files larger than memory: about how much may be used.
    """
    start = time.perf_counter()
    sources = (data, log, valid, table.group, click_options.features, click_options.judgments)
    console.check_targets(*sources, output=output, report=report)
    settings = parse_settings(set)
    if ranker == "auto" and settings and cluster is None and memory is None:
        raise ParameterError("--set needs --ranker: auto chooses the parameters itself.")
    data = one_source(data, log)
    if cluster is not None or memory is not None:
        asked = Job(data, valid, ranker, settings, output, table, json)
        others = {"log": log, "measures": measures, "checkpoint": checkpoint, "report": report}
        train_on_engine(asked, Engine(cluster, memory), **others)
        return
    job = clicks.Job(data, output, ranker, settings, random_state, json, table, click_options)
    if log is None and clicks.train_if_asked(job):
        return
    chosen = None if ranker == "auto" else make_ranker(ranker, settings)
    if chosen is not None:
        chosen._check_parameters()
    items, other = read_training_data(data, valid, table, chosen, is_log=log is not None)
    auto = rw.AutoRanker(
        "default" if chosen is None else [(type(chosen).__name__, chosen)],
        measure=opt.split_measures(measures) or "auto",
        random_state=random_state,
        verbose=1,
        checkpoint=None if checkpoint is None else rw.persist.Checkpoint(checkpoint),
    )
    eval_set = {} if other is None else {"eval_set": (other.X, other.y), "eval_qid": other.qid}
    auto.fit(items.X, items.y, qid=items.qid, sample_weight=items.weight, **eval_set)
    name_features(auto.best_estimator_, items)
    rw.save(auto, output)
    if checkpoint is not None:
        auto.checkpoint.remove()
    if report is not None:
        from rankwright.report.page import write_page
        from rankwright.report.sections import fingerprints, training_page

        held_out = other if auto.held_out_rows_ is None else items.take(auto.held_out_rows_)
        about = {"random_state": random_state, "command": console.command(), **fingerprints([data])}
        write_page(training_page(auto, held_out, data=data, settings=about), report)
    if json:
        model, comparison = auto.best_estimator_, auto.results_.comparison
        last = model[-1] if hasattr(model, "steps") else model
        result = {
            "model": output,
            "ranker": auto.best_name_,
            "parameters": console.plain_values(last.get_params(deep=False)),
            "data": {"path": data, "n_items": items.n_items, "n_queries": items.n_queries},
            "not_tried": auto.dropped_,
            "validation": None if comparison is None else comparison.to_dict(),
            "seconds": round(time.perf_counter() - start, 3),
            "report": report,
        }
        console.print_json(result)
        return
    _print_validation(auto, valid, items.n_items)
    print(f"model: {output} ({auto.best_name_})" + (f"\nreport: {report}" if report else ""))
    console.suggest("evaluate", output, "TEST-DATA", *table.columns())


def _print_validation(auto: rw.AutoRanker, valid: str | None, n_items: int) -> None:
    comparison, rows = auto.results_.comparison, auto.held_out_rows_
    if comparison is None:
        console.note("too few queries to hold some out: trained on all, and not evaluated")
        return
    all_rows = rows is not None and len(rows) == n_items
    folds = "five folds of the queries" if all_rows else "a fifth of the queries, held out"
    scores = comparison if len(auto.results_) > 1 else auto.results_[0].scores
    print(f"validation on {valid or folds}:\n\n{scores}\n")
