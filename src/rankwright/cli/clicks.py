"""Verbs on logs and preferences: what ``train`` and ``compare`` do with clicks and pairs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, validators

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.cli._training import make_ranker, name_features
from rankwright.exceptions import DataError, ParameterError

Weight = Annotated[float, Parameter(validator=validators.Number(gt=0))]


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
    weight: Weight | None = None
    propensity: str | None = None
    unseen: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] | None = None

    def chances(self) -> list[float] | None:
        """The propensities as numbers."""
        if self.propensity is None:
            return None
        try:
            return [float(word) for word in self.propensity.split(",")]
        except ValueError:
            raise ParameterError(
                f"--propensity {self.propensity}: write numbers with commas, such as 1,0.6,0.4."
            ) from None

    def read_features(self, log: str, table: opt.TableOptions) -> rw.Items:
        if self.features is None:
            with opt.local_file(log) as local:
                return rw.data.read_log_features(local)
        return table.read(self.features, graded=False)


@Parameter(name="*", group=Group("How to compare on a log", sort_key=12))
@dataclass(frozen=True)
class LogOptions:
    """How to compare on a log.

    Parameters
    ----------
    log
        A log of impressions: estimate what each model would have earned there.
    features
        The features of its items, with a column for query and item. By default the other columns
        of the log.
    propensity
        The chance that position 1, 2, ... is examined: 1,0.6,0.4. By default estimated.
    estimator
        How to estimate; pbm and doubly_robust need propensities, the others lists that varied.
    earned
        Clicks per session (CTR), or relevance discounted by position (DCG).
    """

    log: str | None = None
    features: str | None = None
    propensity: str | None = None
    estimator: Literal[
        "pbm", "doubly_robust", "item_position", "ips", "snips", "pseudo_inverse"
    ] = "pbm"
    earned: Literal["CTR", "DCG"] = "CTR"


@dataclass(frozen=True)
class Job:
    """What ``train`` was asked for."""

    data: str
    output: str
    ranker: str
    settings: dict[str, Any]
    random_state: int
    json: bool
    table: opt.TableOptions
    options: ClickOptions


def train_if_asked(job: Job) -> bool:
    """Train from a log or from pairs if that is what the data are; else False."""
    if job.options.clicks:
        _train_from_log(job)
        return True
    kind = _kind(job)
    if kind == "log":
        raise DataError(
            f"{job.data} is a log of impressions. Learn from its clicks with --clicks, and name "
            "the features of its items with --features FILE."
        )
    for option in ("judgments", "weight", "propensity", "unseen"):
        if getattr(job.options, option) is not None:
            raise ParameterError(f"--{option} is for logs: add --clicks, or leave it out.")
    if kind != "pairs":
        if job.options.features is not None:
            raise ParameterError("--features is for logs (--clicks) and pairs.")
        return False
    _train_from_pairs(job)
    return True


def _kind(job: Job) -> str | None:
    """What the data are, where no option says it."""
    from rankwright.data.validation.findings import detect_kind

    if job.data in ("-", console.STDIN) or job.table != type(job.table)():
        return "pairs" if job.options.features is not None else None
    return detect_kind(job.data)


def _read_log(path: str) -> rw.ImpressionLog:
    """A log from a file, or from the store of ``rankwright serve``."""
    with open(path, "rb") as file:
        is_store = file.read(15) == b"SQLite format 3"
    if not is_store:
        return rw.read_log(path)
    from rankwright.service import read_entries

    return rw.data.log_from_events(read_entries(path))


def _train_from_log(job: Job) -> None:
    from rankwright.online_eval import learn_from_log

    start = time.perf_counter()
    options = job.options
    if options.weight is not None and options.judgments is None:
        raise ParameterError("--weight weighs clicks against judgments: name those: --judgments.")
    with console.working(f"reading {job.data}"):
        with opt.local_file(job.data) as local:
            log = _read_log(local)
        items = options.read_features(job.data, job.table)
        judgments = None if options.judgments is None else rw.read_qrels(options.judgments)
    console.note(f"{job.data}: {str(log).removeprefix('ImpressionLog(').removesuffix(')')}")
    chosen = None if job.ranker == "auto" else make_ranker(job.ranker, job.settings)
    found = learn_from_log(
        log,
        items,
        chosen,
        propensity=options.chances(),
        judgments=judgments,
        weight=0.1 if options.weight is None else options.weight,
        unseen=options.unseen or 0.0,
        random_state=job.random_state,
    )
    name_features(found.model, items)
    rw.save(found.model, job.output)
    if job.json:
        comparison = None if found.comparison is None else found.comparison.to_dict()
        console.print_json(
            {
                "model": job.output,
                "ranker": found.name,
                "propensity": [round(float(p), 4) for p in found.propensity],
                "propensity_method": found.method,
                "comparison": comparison,
                "seconds": round(time.perf_counter() - start, 3),
            }
        )
        return
    shown = ", ".join(f"{p:.2f}" for p in found.propensity[:10])
    print(f"propensities ({found.method}): {shown}")
    if found.comparison is None:
        console.note("too few queries to hold some out: trained on all, and not compared")
    else:
        print(f"clicks per session on a fifth of the queries, held out:\n\n{found.comparison}\n")
        if found.comparison.better() is None:
            console.note("not surely better than what was shown: collect more sessions")
    print(f"model: {job.output} ({found.name})")


def _train_from_pairs(job: Job) -> None:
    if job.options.features is None:
        raise DataError(
            f"{job.data} holds pairs of winner and loser: name the features of these items with "
            "--features FILE."
        )
    with opt.local_file(job.data) as local:
        pairs = rw.data.read_preferences(local)
    items = job.options.read_features(job.data, job.table)
    feedback = rw.Pairs.from_ids(items, *pairs)
    console.note(f"{job.data}: {feedback.n_pairs:,} pairs")
    name = "RankSVM" if job.ranker == "auto" else job.ranker
    model = make_ranker(name, job.settings)
    model.fit_feedback(items.X, feedback, qid=items.qid)
    scores = model.decision_function(items.X, items.qid)
    right = scores[feedback.upper] > scores[feedback.lower]
    agreed = float((right * feedback.weight).sum() / feedback.total_weight)
    name_features(model, items)
    rw.save(model, job.output)
    if job.json:
        result = {"model": job.output, "ranker": type(model).__name__, "n_pairs": feedback.n_pairs}
        console.print_json(result | {"training_agreement": round(agreed, 4)})
        return
    print(f"the model agrees with {agreed:.1%} of the training pairs")
    print(f"model: {job.output} ({type(model).__name__})")


def compare_on_log(models: dict[str, str], options: LogOptions, table: opt.TableOptions) -> Any:
    """Estimates of what each model would have earned on a log, and their differences."""
    from rankwright.online_eval import compare_on_log
    from rankwright.persist.systems import score_items

    assert options.log is not None
    clicks = ClickOptions(features=options.features, propensity=options.propensity)
    with opt.local_file(options.log) as local:
        log = _read_log(local)
    scores = {}
    for name, path in models.items():
        model = opt.load_system(path, "model")
        items = _features_for(model, options, table)
        rows = log.rows_in(items)
        if (rows < 0).any():
            raise DataError(f"{options.features}: some items of the log have no features.")
        scores[name] = score_items(model, items, path)[rows]
    return compare_on_log(
        log,
        scores,
        method=options.estimator,
        measure=options.earned,
        propensity=clicks.chances(),
    )


def _features_for(model: Any, options: LogOptions, table: opt.TableOptions) -> rw.Items:
    if options.features is None:
        with opt.local_file(str(options.log)) as local:
            return rw.data.read_log_features(local)
    return table.read(options.features, graded=False, like=model)
