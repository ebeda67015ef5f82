"""Verbs that use models: ``predict``, ``rank``, ``explain``, ``evaluate``, ``compare``, ..."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

import rankwright as rw
from rankwright.cli import _shell as sh
from rankwright.exceptions import ParameterError
from rankwright.scoring.kinds import HOLDS

MOST_SHOWN = 6  # contributions in a line


def predict(
    model: sh.ModelFile,
    data: sh.Data,
    /,
    *,
    output: sh.Output = None,
    grades: bool = False,
    cluster: sh.Cluster = None,
    json: sh.Json = False,
    table: sh.TableOptions = sh.TableOptions(),
    texts: sh.TextOptions = sh.TextOptions(),
) -> None:
    """Score items with a model: one score per line, in the order of the data.

    rankwright predict model.rw new.txt
    cat new.txt | rankwright predict model.rw - -o scores.txt
    rankwright predict model.rw 'part-*.parquet' --cluster tcp://scheduler:8786 -o folder
    rankwright predict model.rw pairs.csv --documents docs.jsonl --queries queries.csv

    Args:
        grades: Predict grades instead of scores, if the ranker is ordinal.
    """
    if cluster is not None:
        reading = table.for_workers(f"--cluster {cluster}", grades=grades, json=json)
        _score_files(model, data, output, cluster, ranked=False, **reading)
        return
    scorer, items = _open(model, data, output, table, texts)
    values = (scorer.predict if grades else scorer.decision_function)(items.X, items.qid)
    key = "grades" if grades else "scores"
    result = {"model": model, "data": data, "n_items": items.n_items, key: values}
    lines = (f"{value!r}\n" for value in values.tolist())
    sh.write_result([sh.to_json(result)] if json else lines, output)


def rank(
    model: sh.ModelFile,
    data: sh.Data,
    /,
    *,
    cutoff: sh.Cutoff = None,
    trec: bool = False,
    output: sh.Output = None,
    cluster: sh.Cluster = None,
    name: sh.RunName = "rankwright",
    json: sh.Json = False,
    table: sh.TableOptions = sh.TableOptions(),
    texts: sh.TextOptions = sh.TextOptions(),
) -> None:
    """Rank the items of each query with a model, best first.

    Prints query, rank, item and score, separated by tabs. An item without an
    id is identified by its row, from 1.

    rankwright rank model.rw new.txt --cutoff 10
    rankwright rank model.rw new.txt --trec --name mine -o mine.run
    rankwright rank model.rw 'part-*.parquet' --cluster local:4 -o folder --cutoff 10

    Args:
        trec: Print a TREC run: query Q0 item rank score name.
    """
    if json and trec:
        raise ParameterError("--json and --trec: give one of them.")
    if cluster is not None:
        reading = table.for_workers(f"--cluster {cluster}", trec=trec, json=json)
        _score_files(model, data, output, cluster, cutoff=cutoff, **reading)
        return
    scorer, items = _open(model, data, output, table, texts)
    sh.note_about(items, data)
    rows = items.ranking(scorer.decision_function(items.X, items.qid), cutoff)
    about = {"model": model, "data": data} if json else None
    sh.write_ranking(rows, output, name if trec else None, about)


def explain(
    model: sh.ModelFile,
    data: sh.Data,
    /,
    *,
    query: str | None = None,
    cutoff: sh.Count = 3,
    output: sh.Output = None,
    json: sh.Json = False,
    table: sh.TableOptions = sh.TableOptions(),
    texts: sh.TextOptions = sh.TextOptions(),
) -> None:
    """Explain the first items of each query: what each feature adds to the score.

    A contribution is how much the score would fall if the feature were as in the
    mean item of the query. Prints query, rank, item, score and the largest
    contributions, separated by tabs.

    rankwright explain model.rw new.txt --query 7
    rankwright explain model.rw pairs.csv --documents docs.jsonl --queries queries.csv

    Args:
        query: Explain this query only.
        cutoff: How many items of each query to explain.
    """
    import numpy as np

    scorer, items = _open(model, data, output, table, texts)
    explained: list[dict[str, Any]] = []
    for start, stop in pairwise(items.queries.ptr.tolist()):
        rows = items.queries.order[start:stop]
        name = None if items.qid is None else items.qid[rows[0]]
        if query is not None and str(name) != query:
            continue
        part = items.take(rows)
        changes = scorer.contributions(np.asarray(part.X))
        scores = scorer.decision_function(part.X)
        best = np.argsort(-scores, kind="stable")[:cutoff].tolist()
        for rank, row in enumerate(best, start=1):
            adds = {name: float(change[row]) for name, change in changes.items()}
            adds = dict(sorted(adds.items(), key=lambda pair: -abs(pair[1])))
            item = str(rows[row] + 1) if part.docid is None else part.docid[row]
            entry = {"query": name, "rank": rank, "item": item, "score": float(scores[row])}
            explained.append({**entry, "contributions": adds})
    if query is not None and not explained:
        raise ParameterError(f"--query {query}: there is no such query in {data}.")
    if json:
        result = {"model": model, "data": data, "items": explained}
        sh.write_result([sh.to_json(result)], output)
        return
    lines = []
    for one in explained:
        shown = [f"{name} {value:+.4g}" for name, value in one["contributions"].items() if value]
        head = "\t".join(str(one[key]) for key in ("query", "rank", "item"))
        lines.append(f"{head}\t{one['score']:.6g}\t{', '.join(shown[:MOST_SHOWN])}\n")
    sh.write_result(lines, output)


def _open(
    model: str,
    data: str,
    output: str | None,
    table: sh.TableOptions,
    texts: sh.TextOptions,
) -> tuple[Any, rw.Items]:
    sources = (model, data, table.group, texts.documents, texts.queries)
    sh.check_targets(*sources, output=output)
    scorer = rw.load_scorer(model)
    if (collection := texts.collection()) is not None:
        return scorer, collection.read_unjudged(data, like=scorer)
    return scorer, table.read(data, graded=False, like=scorer)


def _score_files(model: str, data: str, output: str | None, cluster: str, **how: Any) -> None:
    """A file of results for each file, in a folder."""
    if output is None:
        raise ParameterError(
            f"--cluster {cluster}: workers write a file of results for each file. Name the folder "
            "for them with --output."
        )
    scorer = rw.load_scorer(model)
    with rw.engine(cluster):
        counts = rw.score_files(scorer, data, output, **how)
    sh.note(f"{output}: {sum(counts.values()):,} items in {len(counts):,} files")


def evaluate(
    system: str,
    data: str,
    /,
    *,
    measures: sh.Measures = ["NDCG@10", "AP"],
    like: sh.Like = None,
    per_query: bool = False,
    fail_under: str | None = None,
    cluster: sh.Cluster = None,
    json: sh.Json = False,
    table: sh.GradedOptions = sh.GradedOptions(),
    texts: sh.TextOptions = sh.TextOptions(),
) -> None:
    """Evaluate a system on graded data.

    rankwright evaluate model.rw test.txt
    rankwright evaluate bm25.run qrels.txt -m AP,P@5
    rankwright evaluate model.rw test.txt --fail-under NDCG@10=0.45
    rankwright evaluate model.rw 'part-*.parquet' --cluster tcp://scheduler:8786
    rankwright evaluate model.rw judgments.csv --documents docs.jsonl --queries queries.csv

    Args:
        system: A model file, a TREC run, or a file with one score per line (- is standard input).
        data: Graded items (LETOR, CSV, TSV, JSONL, Parquet), or TREC qrels for a run.
        measures: NDCG@10, AP, P@5, RR, ..., separated by commas.
        per_query: Also print a line for each query.
        fail_under: Exit with 1 if a mean is worse: 0.4 (the first measure) or NDCG@10=0.4.
    """
    from rankwright.cli.systems import load_system
    from rankwright.metrics.measure import parse_limit, parse_measures

    chosen = parse_measures(measures)
    limit = None if fail_under is None else parse_limit(fail_under, chosen)
    if cluster is not None:
        files = table.for_workers(f"--cluster {cluster}")
        model = rw.load_scorer(system)
        with rw.engine(cluster):
            scores = rw.evaluate_files(model, data, chosen, like=like, **files)
    elif (collection := texts.collection()) is not None:
        from rankwright.cli.systems import evaluate_system

        loaded = load_system(system)
        judged_items = collection.read(data, like=loaded)
        scores = evaluate_system(loaded, judged_items, chosen, like=like, name=system, data=data)
    else:
        loaded = load_system(system)
        judged = _open_judged(data, table, loaded)
        scores = judged.evaluate(loaded, chosen, like=like, name=system)
    about = {"system": system, "data": data, **scores.describe(per_query=per_query)}
    sh.answer(json, scores.to_text(per_query=per_query), about)
    if limit is not None and (failure := scores.failure(*limit)) is not None:
        sh.note(f"rankwright: {failure}")
        sys.exit(1)


@Parameter(name="*", group=Group("How to compare on a log", sort_key=12))
@dataclass(frozen=True)
class LogOptions:
    """How to compare on a log.

    Args:
        log: A log of impressions, from which the reward of each model is estimated.
        features: Features of its items, by query and item; by default the log's other columns.
        method: pbm and doubly_robust need propensities; the others need lists that varied.
        measure: Clicks per session (CTR), or relevance discounted by position (DCG).
    """

    log: str | None = None
    features: str | None = None
    propensity: sh.Propensity = None
    method: Annotated[
        Literal["pbm", "doubly_robust", "item_position", "ips", "snips", "pseudo_inverse"],
        Parameter(name="--estimator"),
    ] = "pbm"
    measure: Annotated[Literal["CTR", "DCG"], Parameter(name="--reward")] = "CTR"

    def compare(self, models: dict[str, str], table: sh.TableOptions) -> Any:
        """Estimates of the reward of each model, and of their differences."""
        from rankwright.cli.systems import compare_models_on_log

        path = self.log or ""
        scorers = {name: rw.load_scorer(file) for name, file in models.items()}
        return compare_models_on_log(
            scorers,
            rw.service.read_log(path),
            lambda model: sh.read_log_features(path, self.features, table, like=model),
            **{name: getattr(self, name) for name in ("method", "measure", "propensity")},
        )


def compare(
    *files: str,
    measures: sh.Measures = ["NDCG@10", "AP"],
    names: list[str] = [],
    table: Literal["text", "markdown", "latex", "html"] = "text",
    intervals: bool = False,
    baseline: str | None = None,
    test: Literal["randomization", "t", "wilcoxon"] = "randomization",
    alpha: float = 0.05,
    like: sh.Like = None,
    output: sh.Output = None,
    report: sh.Report = None,
    json: sh.Json = False,
    reading: sh.GradedOptions = sh.GradedOptions(),
    on_log: LogOptions = LogOptions(),
) -> None:
    """Compare systems on the same data, in a table with significance tests.

    rankwright compare new.rw old.rw test.txt --report page.html
    rankwright compare bm25.run dense.run qrels.txt -m AP,NDCG@10 --baseline bm25
    rankwright compare new.rw old.rw test.txt --table latex -o table.tex
    rankwright compare old.rw new.rw --log log.csv --features features.parquet

    Args:
        files: Models, TREC runs or files of scores, then the data: graded items, or qrels for runs.
        measures: NDCG@10, AP, P@5, RR, ..., separated by commas.
        names: Names of the systems, in their order; by default those of the files.
        table: The format of the table.
        intervals: Also print the 95 % bootstrap interval of each mean.
        baseline: Test only against this system (its name in the table).
        test: The paired test over queries, with Holm's correction.
        alpha: Mark differences with a p-value up to this.
    """
    from rankwright.cli.systems import load_system, name_systems

    sources = (*files, on_log.log, on_log.features, reading.group)
    sh.check_targets(*sources, output=output, report=report)
    if on_log.log is not None:
        called = name_systems(files, sh.split(names))
        estimates = on_log.compare(called, reading)
        sh.answer(json, estimates, estimates.to_dict(), output)
        return
    if len(files) < 2:
        raise ParameterError("compare: give one or more systems, and the data last.")
    called = name_systems(files[:-1], sh.split(names))
    systems = {name: load_system(path) for name, path in called.items()}
    judged = _open_judged(files[-1], reading, next(iter(systems.values())))
    options: dict[str, Any] = {"test": test, "alpha": alpha, "baseline": baseline}
    options |= {"like": like, "called": called}
    comparison, scores = judged.compare(systems, measures, **options)
    form = getattr(comparison.table(intervals=intervals), f"to_{table}")
    sh.write_result([(comparison.to_json() if json else form()) + "\n"], output)
    if report is not None:
        about: dict[str, Any] = {"systems": judged.scored_items(systems), "files": files}
        about |= {"settings": {"command": sh.command()}}
        rw.report.write_comparison(comparison, scores, report, **about)
        sh.note(f"report: {report}")


def _open_judged(data: str, table: sh.TableOptions, first: Any) -> Any:
    from rankwright.cli.systems import EvaluationData

    judged = EvaluationData(data, **table.parameters(data))
    if judged.qrels is None:
        sh.note_about(judged.items(first), data)
    return judged


if TYPE_CHECKING:
    Target = str
else:
    Target = Literal[*HOLDS]


def export(
    model: sh.ModelFile,
    /,
    *,
    to: Target,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    allow_order_only: bool = False,
    check: str | None = None,
    missing: Literal["model", "zero", "never"] = "model",
    feature_names: list[str] = [],
    name: str | None = None,
    feature_set: str | None = None,
    constant: float | None = None,
    dialect: Literal["duckdb", "postgresql", "sqlite"] | None = None,
    json: sh.Json = False,
    table: sh.TableOptions = sh.TableOptions(),
) -> None:
    """Export a model to another program, with a certificate that it gives the same scores.

    rankwright export model.rw --to opensearch -o model.json
    rankwright export model.rw --to onnx --check test.txt
    rankwright export model.rw --to sql --dialect sqlite -o score.sql

    Args:
        to: The target.
        output: The file to write, by default named after the model; the certificate goes beside it.
        allow_order_only: Accept a file whose scores differ by a constant; the order is the same.
        check: Data to test the file with; by default rows are generated around every threshold.
        missing: A missing feature is handled as by the model, counts as 0, or never occurs.
        feature_names: Names of the features in the target, in order, separated by commas.
        name: The name of the model in the target; by default that of the model file.
        feature_set: Elasticsearch, OpenSearch: the feature set. Solr: the feature store.
        constant: Elasticsearch, OpenSearch: added to all scores so that none is negative.
        dialect: SQL: the database.
    """
    from rankwright.exports.writer import usual_extension

    stem = os.path.splitext(os.path.basename(model))[0]
    path = output or f"{stem}.{usual_extension(to)}"
    certificate_path = f"{os.path.splitext(path)[0]}.certificate.json"
    sh.check_targets(model, check, table.group, output=path, certificate=certificate_path)
    fitted = rw.load(model)
    # Rows for a fusion are places in runs; for others they look as the scorer of the file says.
    like = None if hasattr(fitted, "engines_") else rw.load_scorer(model)
    certificate = rw.export(
        fitted,
        path,
        to=to,
        feature_names=sh.split(feature_names) or None,
        missing=missing,
        allow_order_only=allow_order_only,
        check=None if check is None else table.read(check, graded=False, like=like),
        name=name or stem,
        feature_set=feature_set,
        constant=constant,
        dialect=dialect,
    )
    about = {"source": model, "file": path, **certificate.to_dict()}
    sh.answer(json, f"{path}: {certificate}", about)
