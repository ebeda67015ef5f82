"""``rankwright train``: graded items, a log of clicks or pairs in, a model file out."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

from cyclopts import Group, Parameter, validators

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import DataError, ParameterError


@Parameter(name="*", group=Group("How to learn from clicks and pairs", sort_key=12))
@dataclass(frozen=True)
class ClickOptions:
    """How to learn from clicks and pairs.

    Parameters
    ----------
    clicks
        The data are a log: a row for each item shown, with query, item, position and clicks.
    features
        The features of the items of a log or of pairs, with a column for query and item.
        By default the other columns of the log.
    judgments
        Qrels to learn from as well as from the clicks.
    weight
        The weight of all clicks together, where that of all judgments is 1: 0.1 by default.
    propensity
        The chance that position 1, 2, ... is examined: 1,0.6,0.4. By default estimated.
    unseen
        The weight of items that were never shown, taken to be worse than those shown.
    """

    clicks: bool = False
    features: str | None = None
    judgments: str | None = None
    weight: Annotated[float, Parameter(validator=validators.Number(gt=0))] | None = None
    propensity: str | None = None
    unseen: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] | None = None


@Parameter(name="*", group=Group("Where to train", sort_key=13))
@dataclass(frozen=True)
class EngineOptions:
    """Where to train.

    Parameters
    ----------
    cluster
        Train on a Dask cluster: the address of its scheduler, or local:4 for four threads
        here. DATA may be a folder or a glob; the workers read the files.
    memory
        Train on this machine from files larger than memory: about how much may be used.
    """

    cluster: str | None = None
    memory: str | None = None

    def __str__(self) -> str:
        given = {"--cluster": self.cluster, "--memory": self.memory}
        return " ".join(f"{name} {value}" for name, value in given.items() if value is not None)


class Trained(NamedTuple):
    """A model to save, what to print about it, and what to print as JSON."""

    model: Any
    name: str
    text: str
    about: dict[str, Any]
    size: str = ""
    write_report: Callable[[], None] | None = None


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
    """
    start = time.perf_counter()
    sources = (data, log, valid, table.group, clicks.features, clicks.judgments)
    console.check_targets(*sources, output=output, report=report)
    if (data is None) == (log is None):
        raise ParameterError("give DATA to train on, or --log with the log of rankwright serve.")
    job = Job(str(data or log), log is not None, valid, ranker, set, random_state, table)
    chosen = opt.split_measures(measures)
    if str(engine):
        others = {"log": log, "measures": chosen, "checkpoint": checkpoint, "report": report}
        trained = _train_on_engine(job, engine, **others)
    elif (kind := _kind(job, clicks)) == "items":
        trained = _train_on_items(job, chosen, checkpoint, report)
    else:
        trained = _train_on_log(job, clicks) if kind == "log" else _train_on_pairs(job, clicks)
    rw.save(trained.model, output)  # before the report, whose failure must not lose the model
    if checkpoint is not None:
        trained.model.checkpoint.remove()
    if trained.write_report is not None:
        trained.write_report()
    if json:
        seconds = round(time.perf_counter() - start, 3)
        name = {"model": output, "ranker": trained.name}
        console.print_json({**name, **trained.about, "seconds": seconds, "report": report})
        return
    if trained.text:
        print(trained.text)
    print(f"model: {output} ({trained.name}{trained.size})")
    if report:
        print(f"report: {report}")
    console.suggest("evaluate", output, "TEST-DATA", *table.columns())


@dataclass(frozen=True)
class Job:
    """The data to train on, and the ranker to train."""

    data: str
    is_store: bool
    valid: str | None
    ranker: str
    settings: list[str]
    random_state: int
    table: opt.TableOptions

    def make_ranker(self, auto: str | None = None) -> Any:
        """The ranker that was asked for; ``auto``, or None, if none was."""
        settings = opt.parse_settings(self.settings)
        if self.ranker == "auto" and settings and auto is None:
            raise ParameterError("--set needs --ranker: auto chooses the parameters itself.")
        name = auto if self.ranker == "auto" else self.ranker
        return None if name is None else rw.make_ranker(name, settings)


def _kind(job: Job, clicks: ClickOptions) -> str:
    """What the data are: items, a log or pairs."""
    from rankwright.data.validation.findings import detect_kind

    kind = "log" if clicks.clicks else "items"
    plain = job.data not in ("-", console.STDIN) and job.table == type(job.table)()
    if not (clicks.clicks or job.is_store):
        detected = detect_kind(job.data) if plain else "pairs" if clicks.features else kind
        kind = detected if detected in ("log", "pairs") else kind
    elif clicks.clicks and plain and os.path.isfile(job.data) and detect_kind(job.data) == "pairs":
        raise DataError(f"{job.data} holds pairs of winner and loser: leave --clicks out.")
    if kind == "log" and not clicks.clicks:
        raise DataError(
            f"{job.data} is a log of impressions. Learn from its clicks with --clicks, and name "
            "the features of its items with --features FILE."
        )
    for option in ("judgments", "weight", "propensity", "unseen"):
        if kind != "log" and getattr(clicks, option) is not None:
            raise ParameterError(f"--{option} is for logs: add --clicks, or leave it out.")
    if kind == "items" and clicks.features is not None:
        raise ParameterError("--features is for logs (--clicks) and pairs.")
    return kind


def _train_on_items(
    job: Job, measures: list[str], checkpoint: str | None, report: str | None
) -> Trained:
    chosen = job.make_ranker()
    read = rw.service.read_graded if job.is_store else job.table.read
    items, other = opt.read_training_data(job.data, job.valid, job.table, chosen, read)
    auto = rw.AutoRanker(
        "default" if chosen is None else [(type(chosen).__name__, chosen)],
        measure=measures or "auto",
        random_state=job.random_state,
        verbose=1,
        checkpoint=None if checkpoint is None else rw.persist.Checkpoint(checkpoint),
    ).fit_items(items, other)
    settings = {"random_state": job.random_state, "command": console.command()}
    write_report = None
    if report is not None:
        write_report = partial(
            rw.report.write_training, auto, report, items, other, data=job.data, settings=settings
        )
    comparison, model = auto.results_.comparison, auto.best_estimator_
    last = model[-1] if hasattr(model, "steps") else model
    about = {
        "parameters": console.plain_values(last.get_params(deep=False)),
        "data": {"path": job.data, "n_items": items.n_items, "n_queries": items.n_queries},
        "not_tried": auto.dropped_,
        "validation": None if comparison is None else comparison.to_dict(),
    }
    if comparison is None:
        console.note("too few queries to hold some out: trained on all, and not evaluated")
        return Trained(auto, auto.best_name_, "", about, write_report=write_report)
    rows = auto.held_out_rows_
    all_rows = rows is not None and len(rows) == items.n_items
    folds = "five folds of the queries" if all_rows else "a fifth of the queries, held out"
    scores = comparison if len(auto.results_) > 1 else auto.results_[0].scores
    why = f"\n{auto.results_.reason}" if auto.results_.reason else ""
    text = f"validation on {job.valid or folds}:\n\n{scores}{why}\n"
    return Trained(auto, auto.best_name_, text, about, write_report=write_report)


def _train_on_log(job: Job, clicks: ClickOptions) -> Trained:
    from rankwright.online_eval import learn_from_log

    if clicks.weight is not None and clicks.judgments is None:
        raise ParameterError("--weight weighs clicks against judgments: add --judgments FILE.")
    with console.working(f"reading {job.data}"):
        log = opt.read_log(job.data)
        items = opt.read_log_features(job.data, clicks.features, job.table)
        judgments = None if clicks.judgments is None else rw.read_qrels(clicks.judgments)
    console.note(f"{job.data}: {str(log).removeprefix('ImpressionLog(').removesuffix(')')}")
    learned = learn_from_log(
        log,
        items,
        job.make_ranker(),
        propensity=opt.parse_propensity(clicks.propensity),
        judgments=judgments,
        weight=0.1 if clicks.weight is None else clicks.weight,
        unseen=clicks.unseen or 0.0,
        random_state=job.random_state,
    )
    if learned.comparison is None:
        console.note("too few queries to hold some out: trained on all, and not compared")
    elif learned.comparison.better() is None:
        console.note("not surely better than what was shown: collect more sessions")
    return Trained(learned.model, learned.name, str(learned), learned.to_dict())


def _train_on_pairs(job: Job, clicks: ClickOptions) -> Trained:
    from rankwright.online_eval import learn_from_pairs

    if clicks.features is None:
        raise DataError(
            f"{job.data} holds pairs of winner and loser: name the features of these items with "
            "--features FILE."
        )
    with opt.local_file(job.data) as local:
        pairs = rw.data.read_preferences(local)
    items = opt.read_log_features(job.data, clicks.features, job.table)
    learned = learn_from_pairs(items, pairs, job.make_ranker())
    console.note(f"{job.data}: {learned.feedback.n_pairs:,} pairs")
    text = f"the model agrees with {learned.agreement:.1%} of the training pairs"
    about = {"n_pairs": learned.feedback.n_pairs, "training_agreement": round(learned.agreement, 4)}
    return Trained(learned.model, type(learned.model).__name__, text, about)


def _train_on_engine(job: Job, engine: EngineOptions, **others: Any) -> Trained:
    """Train on a file, folder or glob; ``others`` are options that must not be set."""
    from rankwright.selection.base import Progress

    given, defaults = dataclasses.asdict(job.table), type(job.table)()
    unread = {n: v for n, v in given.items() if n not in ("y", "qid") and v != getattr(defaults, n)}
    opt.refuse_with(str(engine), **unread, **others)
    if job.ranker == "auto":  # several rankers would each need a pass over all files
        console.note(f"{engine}: training LambdaMART; choose another with --ranker")
    model = job.make_ranker("LambdaMART")
    verbose = model.get_params().get("verbose")
    eval_set: dict[str, Any] = {}
    if job.valid is not None:
        other = job.table.read(job.valid)
        eval_set = {"eval_set": (other.X, other.y), "eval_qid": other.qid}
    # At a terminal boosting shows a bar; elsewhere and before it there is a line every ten seconds.
    bar = verbose == 0 and sys.stderr.isatty() and "verbose" not in " ".join(job.settings)
    where = rw.engine(engine.cluster or "local", memory=engine.memory)
    with where as opened, Progress(active=True) as progress, progress.watching(model):
        for name in ("distributed", "distributed.client"):  # an error says it in one line
            logging.getLogger(name).setLevel(logging.CRITICAL)
        progress.text = lambda: "" if bar and "training" in opened.stage else opened.stage
        model.set_params(**({"verbose": 1} if bar else {}))
        model.fit(job.data, job.table.y, qid=job.table.qid, **eval_set)
        model.set_params(**({"verbose": 0} if bar else {}))
    parameters = console.plain_values(model.get_params(deep=False))
    about = {"parameters": parameters, "data": {"path": job.data, "n_queries": model.n_queries_in_}}
    return Trained(model, type(model).__name__, "", about, f", {model.n_queries_in_} queries")
