"""``rankwright evaluate`` and ``rankwright compare``: systems on judged data."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Group, Parameter

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from rankwright.persist import JudgedFile


def evaluate(
    system: str,
    data: str,
    /,
    *,
    measures: opt.Measures = ["NDCG@10", "AP"],  # noqa: B006
    like: opt.Like | None = None,
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

    Parameters
    ----------
    system
        A model file, a TREC run, or a file with one score per line (- is standard input).
    data
        Graded items (LETOR, CSV, TSV, JSONL, Parquet), or TREC qrels for a run.
    like
        Use the conventions of this tool (with qrels, by default trec_eval's).
    per_query
        Print a line for each query as well.
    fail_under
        Exit with 1 if a mean is worse: 0.4 (the first measure) or NDCG@10=0.4.
    """
    names = opt.split_measures(measures)
    limit = None if fail_under is None else _parse_limit(fail_under, names)
    scores = _measured(system, data, names, like, cluster, table)
    if json:
        about = {"system": system, "data": data}
        console.print_json({**about, **scores.describe(per_query=per_query)})
    else:
        print(scores)
        if per_query:
            print("\n" + "\t".join(["query", *scores]))
            for query, values in zip(scores.query_ids.tolist(), scores.matrix.T, strict=True):
                cells = ["-" if v != v else f"{v:.4f}" for v in values]  # NaN: not measured
                print("\t".join([str(query), *cells]))
    if limit is not None:
        measure, least = limit
        mean, side = scores[measure], "below" if measure.higher_is_better else "above"
        if mean < least if side == "below" else mean > least:
            console.note(f"rankwright: {measure} is {mean:.4f}, {side} the limit of {least:g}")
            sys.exit(1)


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

    def compare(self, models: dict[str, str], table: opt.TableOptions) -> Any:
        """Estimates of what each model would have earned, and their differences."""
        path = str(self.log)
        loaded = {name: opt.load_system(file, "model") for name, file in models.items()}
        try:
            return rw.persist.compare_models_on_log(
                loaded,
                opt.read_log(path),
                lambda model: opt.read_log_features(path, self.features, table, like=model),
                method=self.estimator,
                measure=self.earned,
                propensity=opt.parse_propensity(self.propensity),
            )
        except DataError as error:
            where = "" if str(error).startswith(path) else f"{self.features or path}: "
            raise DataError(f"{where}{error}") from None


def _measured(
    system: str,
    data: str,
    names: list[str],
    like: Any,
    cluster: str | None,
    table: opt.GradedOptions,
) -> Any:
    if cluster is not None:
        reading = table.of_many_files(cluster)
        model = opt.load_system(system, "model")
        with rw.engine(cluster):
            return rw.evaluate_files(model, data, names, like=like, **reading)
    opt.refuse_two_pipes(system, data)
    ranking = opt.load_system(system, "model", "run", "scores")
    with opt.local_file(data) as local:
        judged = _open_judged(local, data, table, ranking)
        return judged.evaluate(ranking, names, like=like, name=system)


def compare(
    *files: str,
    measures: opt.Measures = ["NDCG@10", "AP"],  # noqa: B006
    names: list[str] = [],  # noqa: B006
    table: Literal["text", "markdown", "latex", "html"] = "text",
    intervals: bool = False,
    baseline: str | None = None,
    test: Literal["randomization", "t", "wilcoxon"] = "randomization",
    alpha: float = 0.05,
    like: opt.Like | None = None,
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

    Parameters
    ----------
    files
        Model files, TREC runs or files of scores, then the data: graded items, or qrels for runs.
    names
        What to call the systems, in their order; by default the names of the files.
    table
        How to print the table.
    intervals
        Print the 95 % bootstrap interval of each mean as well.
    baseline
        Test against this system only (its name in the table).
    test
        The paired test over queries; Holm's correction is applied.
    alpha
        Mark differences with a p-value up to this.
    like
        Use the conventions of this tool (with qrels, by default trec_eval's).
    """
    sources = (*files, on_log.log, on_log.features, reading.group)
    console.check_targets(*sources, output=console.file_name(output), report=report)
    if on_log.log is not None:
        estimates = on_log.compare(_named(list(files), names), reading)
        text = console.to_json(estimates.to_dict()) if json else str(estimates)
        console.write_result([text + "\n"], output)
        return
    if len(files) < 2:
        raise ParameterError("compare: give one or more systems, and the data last.")
    opt.refuse_two_pipes(*files)
    called = _named(list(files[:-1]), names)
    systems = {n: opt.load_system(path, "model", "run", "scores") for n, path in called.items()}
    with opt.local_file(files[-1]) as local:
        judged = _open_judged(local, files[-1], reading, next(iter(systems.values())))
        options: dict[str, Any] = {"test": test, "alpha": alpha, "baseline": baseline}
        options |= {"like": like, "called": called}
        comparison, scores = judged.compare(systems, opt.split_measures(measures), **options)
        form = "" if json else str(getattr(comparison.table(intervals=intervals), f"to_{table}")())
        console.write_result([(comparison.to_json() if json else form) + "\n"], output)
        if report is not None:
            about: dict[str, Any] = {"settings": {"command": console.command()}, "files": files}
            rw.report.write_comparison(
                comparison, scores, report, judged=judged, systems=systems, **about
            )
            console.note(f"report: {report}")


def _open_judged(local: str, data: str, table: opt.TableOptions, first: Any) -> JudgedFile:
    judged = rw.persist.JudgedFile(local, data, **table.parameters(data))
    if judged.qrels is None:
        opt.note_missing_queries(judged.items(first), data)
    return judged


def _parse_limit(limit: str, names: list[str]) -> tuple[rw.Measure, float]:
    measures = [rw.Measure.parse(name) for name in names]
    name, equals, number = limit.rpartition("=")
    try:
        measure = rw.Measure.parse(name) if equals else measures[0]
        if measure in measures and float(number) == float(number):  # not NaN
            return measure, float(number)
    except ValueError:
        pass
    form = f"a number, or MEASURE=number with one of {', '.join(map(str, measures))}"
    raise ParameterError(f"--fail-under {limit}: write {form}.")


def _named(paths: list[str], names: list[str]) -> dict[str, str]:
    """Files by ``--names``, or else by their names without folder and extension."""
    given = [name for text in names for name in text.split(",")]
    if given and (len(given) != len(paths) or len(set(given)) < len(given)):
        raise ParameterError(f"--names: give {len(paths)} different names.")
    short = [os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0] for path in paths]
    numbered = [f"{number} {path}" for number, path in enumerate(paths, 1)]
    called = next(n for n in (given, short, paths, numbered) if len(set(n)) == len(paths))
    return dict(zip(called, paths, strict=True))
