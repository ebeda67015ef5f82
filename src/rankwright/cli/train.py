"""``rankwright train`` and ``tune``: graded items, a log of clicks or pairs in, a model out."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter, validators

import rankwright as rw
from rankwright.cli import _shell as sh
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from rankwright.features.judged import TextCollection


@Parameter(name="*", group=Group("How to learn from clicks and pairs", sort_key=12))
@dataclass(frozen=True)
class ClickOptions:
    """How to learn from clicks and pairs.

    Args:
        clicks: DATA is a log with the query, item, position and clicks of each item shown.
        item_features: Features of the items, by query and item; by default the log's other columns.
        judgments: Qrels to learn from in addition to the clicks.
        weight: Total weight of the clicks relative to that of the judgments; by default 0.1.
        unseen: Weight of items that were never shown, which count as worse than those shown.
    """

    clicks: bool = False
    item_features: Annotated[str | None, Parameter(name="--features")] = None
    judgments: str | None = None
    weight: Annotated[float, Parameter(validator=validators.Number(gt=0))] | None = None
    propensity: sh.Propensity = None
    unseen: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] = 0.0


@Parameter(name="*", group=Group("Where to train", sort_key=13))
@dataclass(frozen=True)
class EngineOptions:
    """Where to train.

    Args:
        memory: Train on this machine with at most about this much memory, such as 2GB.
    """

    cluster: sh.Cluster = None
    memory: str | None = None

    def __str__(self) -> str:
        given = {"--cluster": self.cluster, "--memory": self.memory}
        return " ".join(f"{name} {value}" for name, value in given.items() if value is not None)


@Parameter(name="*", group=Group("How to choose", sort_key=11))
@dataclass(frozen=True)
class ChoiceOptions:
    """How to choose and combine rankers.

    Args:
        quality: The effort, from 1 (one default, no evaluation) to 5; by default 3, and 2 with
            --ranker.
        time_limit: Seconds after which no further ranker is tried.
        single: Keep the best ranker instead of combining all.
        prefer: With --single: the best one, or the simplest within one standard error of it.
        deploy_to: Try only what this target of `rankwright export` can hold: elasticsearch, onnx.
        max_score_ms: The most milliseconds that scoring 100 items may take on this machine.
    """

    quality: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=5))] | None = None
    time_limit: Annotated[float, Parameter(validator=validators.Number(gt=0))] | None = None
    single: Annotated[bool, Parameter(negative="")] = False
    prefer: Literal["best", "simple"] = "best"
    deploy_to: str | None = None
    max_score_ms: Annotated[float, Parameter(validator=validators.Number(gt=0))] | None = None

    def parameters(self, named: bool) -> dict[str, Any]:
        """The parameters of AutoRanker; a ranker that was named is kept as it is."""
        if self.prefer != "best" and not (self.single or named):
            raise ParameterError("--prefer simple chooses one ranker: add --single.")
        if named and self.single:
            raise ParameterError("--single chooses among rankers, and --ranker names one.")
        return {
            "quality": self.quality or (2 if named else 3),
            "time_limit": self.time_limit,
            "combine": not (self.single or named),
            "prefer": self.prefer,
            "deploy_to": self.deploy_to,
            "max_score_ms": self.max_score_ms,
        }


def train(
    data: sh.Data | None = None,
    /,
    *,
    log: str | None = None,
    output: sh.NewModel = "model.rw",
    valid: str | None = None,
    ranker: str = "auto",
    set: sh.Settings = [],
    measures: sh.Measures = [],
    random_state: sh.RandomState = 0,
    checkpoint: str | None = None,
    report: sh.Report = None,
    json: sh.Json = False,
    table: sh.GradedOptions = sh.GradedOptions(),
    choice: ChoiceOptions = ChoiceOptions(),
    clicks: ClickOptions = ClickOptions(),
    engine: EngineOptions = EngineOptions(),
    texts: sh.TextOptions = sh.TextOptions(),
    feature_spec: str | None = None,
) -> None:
    """Train a model on graded items, on the clicks of a log, or on pairs.

    By default, several rankers are trained on folds of the queries and evaluated
    on the queries that they have not seen. The model is an ensemble of them, with
    weights learned on these queries. Which rankers are tried depends on --quality
    and the size of the data.

    rankwright train train.csv --y judgment --qid search -o shop.rw
    rankwright train train.txt --valid valid.txt --ranker RankSVM --set C=0.1
    rankwright train train.txt --ranker LambdaMART --set max_leaf_nodes=31 --set learning_rate=.05
    rankwright train train.txt --checkpoint work --report page.html
    rankwright train train.txt --quality 4 --time-limit 600 --deploy-to elasticsearch
    rankwright train train.txt --single
    rankwright train --log feedback.db
    rankwright train log.csv --clicks --features f.csv --judgments qrels.txt --weight 0.1
    rankwright train pairs.csv --features features.csv
    rankwright train 'part-*.parquet' --cluster tcp://scheduler:8786 --ranker LambdaMART
    rankwright train big.letor --memory 2GB
    rankwright train judgments.csv --documents docs.jsonl --queries queries.csv
    rankwright train judgments.csv --documents docs.jsonl --feature-spec features.toml

    Args:
        log: Instead of DATA: the store of `rankwright serve`, with graded or clicked items.
        valid: Graded items to stop and evaluate by, instead of the queries held out of each fold.
        ranker: The name of a ranker, such as RankBoost, RankSVM, PRank; auto combines several.
        measures: NDCG@10, AP, P@5, ..., separated by commas. The first one decides.
        checkpoint: A folder of fitted models to resume from; removed when the model is written.
        feature_spec: Features of --documents in TOML; by default chosen from their columns.
    """
    start = time.perf_counter()
    sources = (data, log, valid, table.group, clicks.item_features, clicks.judgments)
    of_texts = (texts.documents, texts.queries, feature_spec)
    sh.check_targets(*sources, *of_texts, output=output, report=report)
    if (data is None) == (log is None):
        raise ParameterError("give DATA to train on, or --log with the log of rankwright serve.")
    source, chosen = data or log or "", _make_ranker(ranker, set, engine, random_state)
    collection = texts.collection()
    if collection is None:
        sh.refuse("declares features of texts: give --documents.", {"--feature-spec": feature_spec})
        kind = "files" if str(engine) else "items" if log else _detect_kind(source, table, clicks)
    else:
        kind = "items"
        unused_here = {"--log": log, "--cluster, --memory": str(engine), "--clicks": clicks.clicks}
        sh.refuse("cannot be used with --documents. Leave it out.", unused_here)
    if kind != "items":
        why = sh.UNREAD.format(engine) if str(engine) else "is for graded items. Leave it out."
        unused: dict[str, Any] = {"--log": log, "--measures": measures, "--report": report}
        if kind != "files":
            unused |= {"--checkpoint": checkpoint, "--valid": valid}
        unused |= {"--quality": choice.quality, "--time-limit": choice.time_limit}
        unused |= {"--single": choice.single or None, "--deploy-to": choice.deploy_to}
        unused |= {"--max-score-ms": choice.max_score_ms}
        sh.refuse(why, unused)
    kept = None if checkpoint is None else rw.persist.Checkpoint(checkpoint)
    if kind == "items":
        if collection is None:
            items = _read_items(source, valid, table, chosen, is_log=log is not None)
        else:
            items = _read_texts(source, valid, collection, feature_spec)
        how: dict[str, Any] = {"measure": measures or "auto", "random_state": random_state}
        how |= choice.parameters(named=chosen is not None)
        how["checkpoint"] = kept
        candidates = "default" if chosen is None else [(type(chosen).__name__, chosen)]
        model = rw.AutoRanker(candidates, verbose=1, **how).fit_items(*items)
        text, about = model.summary(str(valid)), model.to_dict()
        about["data"] = {"n_items": items[0].n_items, "n_queries": items[0].n_queries}
    elif kind == "files":
        model, text, about = _train_on_files(source, chosen, valid, engine, table, kept)
    else:
        fit = _train_on_log(source, kind, chosen, clicks, table, random_state)
        model, text, about = fit.model, str(fit), fit.to_dict()
    made: dict[str, Any] = {"command": sh.command(), "random_state": random_state}
    made["name"] = os.path.basename(source)
    if kind == "items":
        made |= {"items": items[0], "measures": model.held_out_measures()}
        made["measured_on"] = "folds of held-out queries" if valid is None else str(valid)
    # before the report, whose failure must not lose the model
    rw.save(model, output, provenance=rw.persist.provenance_of(model, **made))
    if kept is not None:
        kept.remove()
    if report is not None:
        settings = {"random_state": random_state, "command": sh.command()}
        rw.report.write_training(model, report, *items, data=source, settings=settings)
    about |= {"data": {"path": source, **about.get("data", {})}}
    about = {"model": output, **about, "seconds": round(time.perf_counter() - start, 3)}
    page = f"\nreport: {report}" if report else ""
    files = {"--documents": texts.documents, "--queries": texts.queries}
    given = [word for option, path in files.items() if path for word in (option, path)]
    following = sh.command("evaluate", output, "TEST-DATA", *table.columns(), *given)
    text = f"{text}\n\nmodel: {output} ({about['ranker']}){page}\nnext: {following}"
    sh.answer(json, text, {**about, "report": report})


def _make_ranker(name: str, settings: list[str], engine: EngineOptions, seed: int) -> Any:
    """The ranker that is named; None if AutoRanker chooses one."""
    if name == "auto" and str(engine):  # several rankers would each need a pass over all files
        sh.note(f"{engine}: training LambdaMART; choose another with --ranker")
        name = "LambdaMART"
    if name == "auto" and settings:
        raise ParameterError("--set needs --ranker: auto chooses the parameters itself.")
    return None if name == "auto" else rw.make_ranker(name, settings, random_state=seed)


def _detect_kind(data: str, table: sh.TableOptions, clicks: ClickOptions) -> str:
    from rankwright.selection.base import detect_training_kind

    if not clicks.clicks:
        of_logs: dict[str, Any] = {"--judgments": clicks.judgments, "--weight": clicks.weight}
        of_logs |= {"--propensity": clicks.propensity, "--unseen": clicks.unseen}
        sh.refuse("is for logs: add --clicks, or leave it out.", of_logs)
    how: dict[str, Any] = {"clicks": clicks.clicks, "item_features": clicks.item_features}
    return detect_training_kind(data, table.format, by_columns=table == type(table)(), **how)


def _train_on_log(
    data: str,
    kind: str,
    ranker: BaseEstimator,
    clicks: ClickOptions,
    table: sh.TableOptions,
    seed: int,
) -> Any:
    """Learn from clicks, or from pairs of winner and loser."""
    read: Any = rw.service.read_log if kind == "log" else rw.data.read_preferences
    with sh.working(f"reading {data}"):
        log = read(data)
        items = sh.read_log_features(data, clicks.item_features, table)
        judgments = None if clicks.judgments is None else rw.read_qrels(clicks.judgments)
    sh.note_content(data, log)
    if kind == "pairs":
        return rw.online_eval.learn_from_pairs(items, log, ranker)
    how: dict[str, Any] = {"propensity": clicks.propensity, "weight": clicks.weight}
    how |= {"unseen": clicks.unseen, "judgments": judgments, "random_state": seed}
    return rw.online_eval.learn_from_log(log, items, ranker, **how)


def _train_on_files(
    data: str,
    model: BaseEstimator,
    valid: str | None,
    engine: EngineOptions,
    table: sh.TableOptions,
    checkpoint: rw.persist.Checkpoint | None,
) -> tuple[Any, str, dict[str, Any]]:
    """Train on a file, folder or glob, by the workers of an engine."""
    columns = table.for_workers(str(engine), ("y", "qid"))
    items = None if valid is None else table.read(valid)
    with rw.engine(engine.cluster or "local", memory=engine.memory, checkpoint=checkpoint):
        rw.fit_files(model, data, valid=items, verbose=1, **columns)
    about = {"ranker": type(model).__name__, "parameters": model.get_params(deep=False)}
    about["data"] = {"n_queries": model.n_queries_in_}
    return model, f"trained on {model.n_queries_in_:,} queries", about


def tune(
    data: sh.Data,
    /,
    *,
    ranker: str = "RankBoost",
    grid: list[str] = [],
    set: list[str] = [],
    valid: str | None = None,
    cv: Annotated[int, Parameter(name="--folds", validator=validators.Number(gte=2))] = 5,
    measure: Annotated[str | None, Parameter(name="--measures", alias="-m")] = None,
    search: Literal["grid", "random", "optuna"] | None = None,
    n_iter: Annotated[sh.MaybeCount, Parameter(name="--trials")] = None,
    early_stopping: sh.MaybeCount = None,
    random_state: sh.RandomState = 0,
    output: sh.NewModel = "model.rw",
    json: sh.Json = False,
    cluster: sh.Cluster = None,
    table: sh.GradedOptions = sh.GradedOptions(),
) -> None:
    """Tune the parameters of a ranker by cross-validation; train the best on all queries.

    rankwright tune train.txt --grid n_estimators=50,200 --grid criterion=r,z
    rankwright tune train.txt --valid valid.txt --trials 3
    rankwright tune train.txt --ranker RankSVM --search optuna --grid C=0.001..100 --trials 30
    rankwright tune train.txt --ranker LambdaMART --early-stopping 20 --grid max_leaf_nodes=8,16,32
    rankwright tune 'part-*.parquet' --cluster tcp://scheduler:8786 --grid n_estimators=50,200

    Args:
        ranker: The name of a ranker, such as RankBoost, RankSVM, RankNet.
        grid: Values to try: --grid C=0.1,1,10, or a range, C=0.01..100; may be repeated. Some
            rankers have a default grid.
        set: A fixed parameter: --set loss=hinge; may be repeated.
        valid: Graded items to evaluate on, instead of folds of the queries.
        cv: The number of folds of queries.
        measure: The measure that selects the best, such as NDCG@10 (default), AP, RR.
        search: Try all combinations, or --trials of them, drawn at random or proposed by Optuna;
            by default grid, and random with --trials.
        n_iter: The number of combinations that random and optuna try; by default 20.
        early_stopping: Stop after this many rounds without improvement on a fifth of the queries.
    """
    from rankwright.selection.by_name import parse_grid, parse_settings

    start = time.perf_counter()
    sh.check_targets(data, valid, table.group, output=output)
    if measure is not None and "," in measure:
        raise ParameterError(f"--measures {measure}: tune chooses by one measure.")
    chosen = None if measure is None else rw.Measure.parse(measure)
    estimator = rw.make_ranker(ranker, set)
    space = parse_grid(estimator, grid)
    for key in parse_settings(set).keys() & space.keys():
        raise ParameterError(f"--set {key}: it is searched. Leave it out, or give --grid.")
    if search == "grid" and n_iter is not None:
        raise ParameterError(f"--trials {n_iter}: a grid tries all. Give --search random.")
    n_iter = n_iter or (20 if search in ("random", "optuna") else None)
    options: dict[str, Any] = {"cv": cv, "n_iter": n_iter, "early_stopping": early_stopping}
    options |= {"sampler": "optuna" if search == "optuna" else "random", "verbose": 1}
    options |= {"random_state": random_state, "scale": True}
    with nullcontext() if cluster is None else rw.engine(cluster):
        if cluster is None:
            items, other = _read_items(data, valid, table, estimator)
        else:
            items = _gather_items(data, table.for_workers(f"--cluster {cluster}", ("y", "qid")))
            other = None if valid is None else table.read(valid, like=items)
        result = rw.tune(estimator, space, items, other, chosen, **options)
    best = result.best_estimator_
    made: dict[str, Any] = {"command": sh.command(), "random_state": random_state}
    made |= {"name": os.path.basename(data), "measured_on": valid or f"{cv} folds of queries"}
    made["measures"] = {str(chosen or "NDCG@10"): result.best_score_}
    rw.save(best, output, provenance=rw.persist.provenance_of(best, items, **made))
    name = type(estimator).__name__
    about = {"model": output, "ranker": name, **result.trials_.to_dict()}
    about["seconds"] = round(time.perf_counter() - start, 3)
    following = sh.command("evaluate", output, valid or "TEST-DATA", *table.columns())
    sh.answer(json, f"{result.trials_}\n\nmodel: {output} ({name})\nnext: {following}", about)


def _gather_items(data: str, columns: dict[str, Any]) -> rw.Items:
    """The rows of files that workers read; a search needs all of them in one place."""
    from rankwright.runtime import read_here

    X, y, qid, _ = read_here([data], **columns)
    names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    return rw.Items(X if names is None else X.to_numpy(), y, qid, feature_names=names)


def _read_texts(
    data: str, valid: str | None, collection: TextCollection, spec: str | None
) -> tuple[rw.Items, rw.Items | None]:
    """Judged pairs of a collection as items, with features computed from their fields."""
    features = None if spec is None else rw.features.FeatureSet.from_toml(spec)
    with sh.working(f"reading {data}"):
        items = collection.read(data, features)
        other = None if valid is None else collection.read(valid, like=items)
    sh.note_content(data, items)
    for read in items.read:
        sh.note(f"  {read.name}: {read.kind}")
    sh.note(f"features: {', '.join(items.feature_names or ())}")
    return replace(items, read=()), other


def _read_items(
    data: str,
    valid: str | None,
    table: sh.TableOptions,
    ranker: BaseEstimator,
    is_log: bool = False,
) -> tuple[rw.Items, rw.Items | None]:
    """Training and validation items; those that the ranker cannot learn from are refused."""
    from rankwright.selection.base import read_training
    from rankwright.service.learning.labels import read_graded

    with sh.working(f"reading {data}"):
        source = read_graded(data) if is_log else data
        items, other = read_training(source, valid, ranker, **table.parameters(data))
    sh.note_content(data, items)
    sh.note_about(items, data, table.y)
    return items, other
