"""``rankwright evaluate`` and ``rankwright compare``: systems on judged data."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    from rankwright.persist import EvaluationData


def evaluate(
    system: str,
    data: str,
    /,
    *,
    measures: opt.Measures = ["NDCG@10", "AP"],  # noqa: B006
    like: opt.Like = None,
    per_query: bool = False,
    fail_under: str | None = None,
    cluster: opt.Cluster = None,
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
) -> None:
    """Measure a system on graded data.

    rankwright evaluate model.rw test.txt
    rankwright evaluate bm25.run qrels.txt -m AP,P@5
    rankwright evaluate model.rw test.txt --fail-under NDCG@10=0.45
    rankwright evaluate model.rw 'part-*.parquet' --cluster tcp://scheduler:8786

    Args:
        system: A model file, a TREC run, or a file with one score per line (- is standard input).
        data: Graded items (LETOR, CSV, TSV, JSONL, Parquet), or TREC qrels for a run.
        measures: NDCG@10, AP, P@5, RR, ...; use commas.
        per_query: Print a line for each query as well.
        fail_under: Exit with 1 if a mean is worse: 0.4 (the first measure) or NDCG@10=0.4.
    """
    from rankwright.metrics.measure import parse_measures

    chosen = parse_measures(measures)
    limit = None if fail_under is None else _parse_limit(fail_under, chosen)
    if cluster is not None:
        files = table.of_many_files(cluster, {})
        model = rw.persist.load_system(system, ["model"])
        with rw.engine(cluster):
            scores = rw.evaluate_files(model, data, chosen, like=like, **files)
    else:
        loaded = rw.persist.load_system(system)
        judged = _open_judged(data, table, loaded)
        scores = judged.evaluate(loaded, chosen, like=like, name=system)
    about = {"system": system, "data": data, **scores.describe(per_query=per_query)}
    console.answer(json, scores.to_text(per_query=per_query), about)
    if limit is not None and (failure := scores.failure(*limit)) is not None:
        console.note(f"rankwright: {failure}")
        sys.exit(1)


@Parameter(name="*", group=Group("How to compare on a log", sort_key=12))
@dataclass(frozen=True)
class LogOptions:
    """How to compare on a log.

    Args:
        log: A log of impressions: estimate the reward that each model would have had there.
        features: Features of its items, by query and item; by default the log's other columns.
        method: pbm and doubly_robust need propensities, the others lists that varied.
        measure: Clicks per session (CTR), or relevance discounted by position (DCG).
    """

    log: str | None = None
    features: str | None = None
    propensity: opt.Propensity = None
    method: Annotated[
        Literal["pbm", "doubly_robust", "item_position", "ips", "snips", "pseudo_inverse"],
        Parameter(name="--estimator"),
    ] = "pbm"
    measure: Annotated[Literal["CTR", "DCG"], Parameter(name="--reward")] = "CTR"

    def compare(self, models: dict[str, str], table: opt.TableOptions) -> Any:
        """Estimates of the reward of each model, and of their differences."""
        path = str(self.log)
        return rw.persist.compare_models_on_log(
            {name: rw.persist.load_system(file, ["model"]) for name, file in models.items()},
            opt.read_log(path),
            lambda model: opt.read_log_features(path, self.features, table, like=model),
            method=self.method,
            measure=self.measure,
            propensity=self.propensity,
        )


def compare(
    *files: str,
    measures: opt.Measures = ["NDCG@10", "AP"],  # noqa: B006
    names: list[str] = [],  # noqa: B006
    table: Literal["text", "markdown", "latex", "html"] = "text",
    intervals: bool = False,
    baseline: str | None = None,
    test: Literal["randomization", "t", "wilcoxon"] = "randomization",
    alpha: float = 0.05,
    like: opt.Like = None,
    output: opt.Output = None,
    report: opt.Report = None,
    json: opt.Json = False,
    reading: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
    on_log: LogOptions = LogOptions(),  # noqa: B008
) -> None:
    """Print the table of several systems on the same data, with significance letters.

    rankwright compare new.rw old.rw test.txt --report page.html
    rankwright compare bm25.run dense.run qrels.txt -m AP,NDCG@10 --baseline bm25
    rankwright compare new.rw old.rw test.txt --table latex -o table.tex
    rankwright compare old.rw new.rw --log log.csv --features features.parquet

    Args:
        files: Models, TREC runs or files of scores, then the data: graded items, or qrels for runs.
        measures: NDCG@10, AP, P@5, RR, ...; use commas.
        names: What to call the systems, in their order; by default the names of the files.
        table: How to print the table.
        intervals: Print the 95 % bootstrap interval of each mean as well.
        baseline: Test against this system only (its name in the table).
        test: The paired test over queries; Holm's correction is applied.
        alpha: Mark differences with a p-value up to this.
    """
    from rankwright.persist.systems import name_systems

    sources = (*files, on_log.log, on_log.features, reading.group)
    console.check_targets(*sources, output=console.file_name(output), report=report)
    if on_log.log is not None:
        called = name_systems(files, opt.split(names))
        estimates = on_log.compare(called, reading)
        console.answer(json, estimates, estimates.to_dict(), output)
        return
    if len(files) < 2:
        raise ParameterError("compare: give one or more systems, and the data last.")
    called = name_systems(files[:-1], opt.split(names))
    systems = {name: rw.persist.load_system(path) for name, path in called.items()}
    judged = _open_judged(files[-1], reading, next(iter(systems.values())))
    options: dict[str, Any] = {"test": test, "alpha": alpha, "baseline": baseline}
    options |= {"like": like, "called": called}
    comparison, scores = judged.compare(systems, measures, **options)
    form = getattr(comparison.table(intervals=intervals), f"to_{table}")
    console.write_result([(comparison.to_json() if json else form()) + "\n"], output)
    if report is not None:
        about: dict[str, Any] = {
            "settings": {"command": console.command()},
            "files": files,
            "systems": systems,
        }
        rw.report.write_comparison(comparison, scores, report, judged=judged, **about)
        console.note(f"report: {report}")


def _open_judged(data: str, table: opt.TableOptions, first: Any) -> EvaluationData:
    judged = rw.persist.EvaluationData(data, **table.parameters(data))
    if judged.qrels is None:
        opt.note_missing_queries(judged.items(first), data)
    return judged


def _parse_limit(limit: str, measures: list[rw.Measure]) -> tuple[rw.Measure, float]:
    name, equals, number = limit.rpartition("=")
    try:
        measure = rw.Measure.parse(name) if equals else measures[0]
        if measure in measures and float(number) == float(number):  # not NaN
            return measure, float(number)
    except ValueError:
        pass
    form = f"a number, or MEASURE=number with one of {', '.join(map(str, measures))}"
    raise ParameterError(f"--fail-under {limit}: write {form}.")
