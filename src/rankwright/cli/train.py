"""``rankwright train`` and ``tune``: graded items, a log of clicks or pairs in, a model out."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, validators

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import DataError, ParameterError

Trained = tuple[Any, str, dict[str, Any]]  # a model, what to print about it, and as JSON


@Parameter(name="*", group=Group("How to learn from clicks and pairs", sort_key=12))
@dataclass(frozen=True)
class ClickOptions:
    """How to learn from clicks and pairs.

    Args:
        clicks: The data are a log: query, item, position and clicks of each item shown.
        features: Features of a log or of pairs, by query and item; by default the log's columns.
        judgments: Qrels to learn from as well as from the clicks.
        weight: The weight of all clicks together, where that of all judgments is 1: 0.1 by default.
        unseen: The weight of items that were never shown, taken to be worse than those shown.
    """

    clicks: bool = False
    features: str | None = None
    judgments: str | None = None
    weight: Annotated[float, Parameter(validator=validators.Number(gt=0))] | None = None
    propensity: opt.Propensity = None
    unseen: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] | None = None


@Parameter(name="*", group=Group("Where to train", sort_key=13))
@dataclass(frozen=True)
class EngineOptions:
    """Where to train.

    Args:
        cluster: Workers read DATA, also a folder or glob: address of a Dask scheduler, or local:4.
        memory: Train on this machine from files larger than memory: about how much may be used.
    """

    cluster: str | None = None
    memory: str | None = None

    def __str__(self) -> str:
        given = {"--cluster": self.cluster, "--memory": self.memory}
        return " ".join(f"{name} {value}" for name, value in given.items() if value is not None)


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
    report: opt.Report = None,
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
    clicks: ClickOptions = ClickOptions(),  # noqa: B008
    engine: EngineOptions = EngineOptions(),  # noqa: B008
) -> None:
    """Learn a model from graded items.

    By default, several rankers are trained on four fifths of the queries
    and evaluated on the rest; the best one is then trained on all queries.
    With fewer than 500 queries, they are evaluated by cross-validation over
    five folds of queries. Trees with the pair weights of the measure are
    among them; what is tried depends on the size of the data.

    rankwright train train.csv --y judgment --qid search -o shop.rw
    rankwright train train.txt --valid valid.txt --ranker RankSVM --set C=0.1
    rankwright train train.txt --ranker LambdaMART --set max_leaf_nodes=31 --set learning_rate=.05
    rankwright train train.txt --checkpoint work --report page.html
    rankwright train --log feedback.db
    rankwright train log.csv --clicks --features f.csv --judgments qrels.txt --weight 0.1
    rankwright train pairs.csv --features features.csv
    rankwright train 'part-*.parquet' --cluster tcp://scheduler:8786 --ranker LambdaMART
    rankwright train big.letor --memory 2GB

    Args:
        log: Instead of data: the log of `rankwright serve`, with its graded or clicked items.
        valid: Graded items to evaluate on, instead of a fifth of the queries.
        ranker: The name of a ranker, such as RankBoost, RankSVM, PRank; auto tries several.
        measures: NDCG@10, AP, P@5, ...; use commas. The first one chooses, all are printed.
        checkpoint: A folder for the models trained so far. If training is interrupted, the same
            command goes on where it stopped. Removed when the model is written.
    """
    start = time.perf_counter()
    sources = (data, log, valid, table.group, clicks.features, clicks.judgments)
    console.check_targets(*sources, output=output, report=report)
    if (data is None) == (log is None):
        raise ParameterError("give DATA to train on, or --log with the log of rankwright serve.")
    source, chosen = str(data or log), _make_ranker(ranker, set, engine)
    kind = "files" if str(engine) else "items" if log else _kind(source, table, clicks)
    if kind != "items":
        why = opt.UNREAD.format(engine) if str(engine) else "is for graded items. Leave it out."
        unused = {"--log": log, "--measures": measures, "--checkpoint": checkpoint}
        unused |= {"--valid": None if kind == "files" else valid, "--report": report}
        opt.refuse(why, unused)
    if kind == "items":
        read = rw.service.read_graded if log else table.read
        items = _read_items(source, valid, table, chosen, read)
        model = _choose(items, chosen, measures, random_state, checkpoint)
        text, about = model.summary(str(valid)), model.to_dict()
        about["data"] = {"n_items": items[0].n_items, "n_queries": items[0].n_queries}
    elif kind == "files":
        model, text, about = _train_on_files(source, chosen, valid, engine, table)
    else:
        model, text, about = _train_on_log(source, kind, chosen, clicks, table, random_state)
    rw.save(model, output)  # before the report, whose failure must not lose the model
    if checkpoint is not None:
        model.checkpoint.remove()
    if report is not None:
        how = {"random_state": random_state, "command": console.command()}
        rw.report.write_training(model, report, *items, data=source, settings=how)
    about |= {"data": {"path": source, **about.get("data", {})}}
    about = {"model": output, **about, "seconds": round(time.perf_counter() - start, 3)}
    page = f"\nreport: {report}" if report else ""
    following = console.next_command("evaluate", output, "TEST-DATA", *table.columns())
    text = f"{text}\n\nmodel: {output} ({about['ranker']}){page}\n{following}"
    console.answer(json, text, {**about, "report": report})


def _make_ranker(name: str, settings: list[str], engine: EngineOptions) -> Any:
    """The ranker that was asked for; None if AutoRanker is to choose one."""
    from rankwright.selection.by_name import parse_settings

    if name == "auto" and str(engine):  # several rankers would each need a pass over all files
        console.note(f"{engine}: training LambdaMART; choose another with --ranker")
        name = "LambdaMART"
    if name == "auto" and settings:
        raise ParameterError("--set needs --ranker: auto chooses the parameters itself.")
    return None if name == "auto" else rw.make_ranker(name, parse_settings(settings))


def _kind(data: str, table: opt.TableOptions, clicks: ClickOptions) -> str:
    """What the data are: items, a log or pairs."""
    from rankwright.data.io.items import detect_kind

    plain = table == type(table)()
    found = detect_kind(data, table.format, by_columns=plain)
    if clicks.clicks and found == "pairs":
        raise DataError(f"{data} holds pairs of winner and loser: leave --clicks out.")
    if found == "log" and not clicks.clicks:
        raise DataError(
            f"{data} is a log of impressions. Learn from its clicks with --clicks, and name the "
            "features of its items with --features FILE."
        )
    if found == "pairs" and clicks.features is None:
        raise DataError(
            f"{data} holds pairs of winner and loser: name the features of these items with "
            "--features FILE."
        )
    of_logs: dict[str, Any] = {"--judgments": clicks.judgments, "--weight": clicks.weight}
    of_logs |= {"--propensity": clicks.propensity, "--unseen": clicks.unseen}
    if not clicks.clicks:
        opt.refuse("is for logs: add --clicks, or leave it out.", of_logs)
        if found == "pairs" or (clicks.features and not plain):
            return "pairs"
        opt.refuse("is for logs (--clicks) and pairs.", {"--features": clicks.features})
    return "log" if clicks.clicks else "items"


def _choose(
    items: tuple[rw.Items, rw.Items | None],
    ranker: Any,
    measures: list[str],
    random_state: int,
    checkpoint: str | None,
) -> Any:
    return rw.AutoRanker(
        "default" if ranker is None else [(type(ranker).__name__, ranker)],
        measure=measures or "auto",
        random_state=random_state,
        verbose=1,
        checkpoint=None if checkpoint is None else rw.persist.Checkpoint(checkpoint),
    ).fit_items(*items)


def _train_on_log(
    data: str,
    kind: str,
    ranker: Any,
    clicks: ClickOptions,
    table: opt.TableOptions,
    random_state: int,
) -> Trained:
    """Learn from clicks, or from pairs of winner and loser."""
    with console.working(f"reading {data}"):
        log: Any = opt.read_log(data) if kind == "log" else rw.data.read_preferences(data)
        items = opt.read_log_features(data, clicks.features, table)
        judgments = None if clicks.judgments is None else rw.read_qrels(clicks.judgments)
    console.note_content(data, log)
    if kind == "log":
        learned: Any = rw.online_eval.learn_from_log(
            log,
            items,
            ranker,
            propensity=clicks.propensity,
            judgments=judgments,
            weight=clicks.weight,
            unseen=clicks.unseen or 0.0,
            random_state=random_state,
        )
    else:
        learned = rw.online_eval.learn_from_pairs(items, log, ranker)
    return learned.model, str(learned), learned.to_dict()


def _train_on_files(
    data: str, model: Any, valid: str | None, engine: EngineOptions, table: opt.TableOptions
) -> Trained:
    """Train on a file, folder or glob, with a line about it every ten seconds."""
    from rankwright.selection.base import Progress

    names = {name for name, value in vars(type(table)()).items() if vars(table)[name] != value}
    unread = {opt.option_names[name]: True for name in names - {"y", "qid"}}
    opt.refuse(opt.UNREAD.format(engine), unread)
    other = None if valid is None else table.read(valid)
    eval_set = {} if other is None else {"eval_set": (other.X, other.y), "eval_qid": other.qid}
    for name in ("distributed", "distributed.client"):  # an error says it in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    where = rw.engine(engine.cluster or "local", memory=engine.memory)
    with where as opened, Progress(active=True) as progress, progress.watching(model):
        progress.text = lambda: opened.stage
        model.fit(data, table.y, qid=table.qid, **eval_set)
    about = {"ranker": type(model).__name__, "parameters": model.get_params(deep=False)}
    about |= {"data": {"n_queries": model.n_queries_in_}}
    return model, f"trained on {model.n_queries_in_:,} queries", about


def tune(
    data: opt.Data,
    /,
    *,
    ranker: str = "RankBoost",
    grid: list[str] = [],  # noqa: B006
    set: list[str] = [],  # noqa: B006
    valid: str | None = None,
    cv: Annotated[int, Parameter(name="--folds", validator=validators.Number(gte=2))] = 5,
    measures: opt.Measures = [],  # noqa: B006
    search: Literal["grid", "random", "optuna"] | None = None,
    n_iter: Annotated[opt.MaybeCount, Parameter(name="--trials")] = None,
    early_stopping: opt.MaybeCount = None,
    random_state: opt.RandomState = 0,
    output: opt.NewModel = "model.rw",
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
) -> None:
    """Search the parameters of a ranker on folds of whole queries; train the best on all.

    rankwright tune train.txt --grid n_estimators=50,200 --grid criterion=r,z
    rankwright tune train.txt --valid valid.txt --trials 3
    rankwright tune train.txt --ranker RankSVM --search optuna --grid C=0.001..100 --trials 30
    rankwright tune train.txt --ranker LambdaMART --early-stopping 20 --grid max_leaf_nodes=8,16,32

    Args:
        ranker: The name of a ranker, such as RankBoost, RankSVM, RankNet.
        grid: Values to try: --grid C=0.1,1,10; may be repeated. Some rankers have usual values. A
            range for random and optuna: --grid C=0.01..100.
        set: A parameter that is not searched: --set loss=hinge; may be repeated.
        valid: Graded items to evaluate on, instead of folds of the queries.
        cv: The number of folds of queries.
        measures: The measure to choose by, such as NDCG@10 (default), AP, RR.
        search: Try all combinations (grid), draw different ones at random, or let Optuna propose
            them; by default grid, and random with --trials.
        n_iter: How many combinations random and optuna try; by default 20.
        early_stopping: Stop after so many rounds that were no better on a fifth of the queries.
    """
    from rankwright.metrics.measure import parse_measures
    from rankwright.selection.by_name import parse_grid, parse_settings

    start = time.perf_counter()
    console.check_targets(data, valid, table.group, output=output)
    chosen = parse_measures(measures) if measures else [None]
    if len(chosen) > 1:
        raise ParameterError(f"--measures {','.join(measures)}: tune chooses by one measure.")
    settings = parse_settings(set)
    estimator = rw.make_ranker(ranker, settings)
    space = parse_grid(estimator, parse_settings(grid, "--grid"))
    for key in settings.keys() & space.keys():
        raise ParameterError(f"--set {key}: it is searched. Leave it out, or give --grid.")
    if search == "grid" and n_iter is not None:
        raise ParameterError(f"--trials {n_iter}: a grid tries all. Give --search random.")
    if search in ("random", "optuna"):
        n_iter = n_iter or 20
    items, other = _read_items(data, valid, table, estimator)
    options: dict[str, Any] = {"cv": cv, "n_iter": n_iter, "early_stopping": early_stopping}
    options |= {"sampler": "optuna" if search == "optuna" else "random", "verbose": 1}
    options |= {"random_state": random_state, "scale": True}
    result = rw.tune(estimator, space, items, other, chosen[0], **options)
    rw.save(result.best_estimator_, output)
    name = type(estimator).__name__
    about = {"model": output, "ranker": name, **result.trials_.to_dict()}
    about["seconds"] = round(time.perf_counter() - start, 3)
    following = console.next_command("evaluate", output, valid or "TEST-DATA", *table.columns())
    console.answer(json, f"{result.trials_}\n\nmodel: {output} ({name})\n{following}", about)


def _read_items(
    data: str,
    valid: str | None,
    table: opt.TableOptions,
    ranker: Any,
    read: Callable[[str], rw.Items] | None = None,
) -> tuple[rw.Items, rw.Items | None]:
    """Training and validation items; those that the ranker cannot learn from are refused."""
    from rankwright.data.validation import click_findings
    from rankwright.selection.base import check_learnable

    with console.working(f"reading {data}"):
        items = (read or table.read)(data)
        other_table = dataclasses.replace(table, group=None)  # other data have their own groups
        other = None if valid is None else other_table.read(valid, like=items)
    console.note_content(data, items)
    if items.bad_lines:
        first = items.bad_lines[0]
        console.note(
            f"{len(items.bad_lines)} bad lines left out, first line {first.line}: {first.reason}"
        )
    opt.note_missing_queries(items, data)
    for finding in click_findings(items, table.y):
        console.note(f"warning: {data}: {finding.reason}. Learn from the log itself with --clicks.")
    for path, some in ((data, items), (valid, other)):
        if some is not None:
            check_learnable(some, ranker, str(path))
    return items, other
