"""``rankwright evaluate`` and ``rankwright compare``: systems on judged data."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.cli import clicks
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    from rankwright.metrics.evaluation import Scores
    from rankwright.persist.systems import JudgedFile


def evaluate(
    system: str,
    data: str,
    /,
    *,
    measures: opt.Measures = ["NDCG@10", "AP"],  # noqa: B006
    like: opt.Like | None = None,
    per_query: bool = False,
    fail_under: str | None = None,
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
) -> None:
    """Measure a system on graded data.

    rankwright evaluate model.rw test.txt
    rankwright evaluate bm25.run qrels.txt -m AP,P@5
    rankwright evaluate model.rw test.txt --fail-under NDCG@10=0.45

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
    opt.refuse_two_pipes(system, data)
    ranking = opt.load_system(system, "model", "run", "scores")
    with opt.local_file(data) as local:
        judged = _open_judged(local, data, table, ranking)
        scores = judged.evaluate(ranking, names, like=like, name=system)
    if json:
        console.print_json({"system": system, "data": data, **_as_dict(scores, per_query)})
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
    on_log: clicks.LogOptions = clicks.LogOptions(),  # noqa: B008
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
        called = _system_names(list(files), [name for given in names for name in given.split(",")])
        models = dict(zip(called, files, strict=True))
        found = clicks.compare_on_log(models, on_log, reading)
        text = console.to_json(found.to_dict()) if json else str(found)
        console.write_result([text + "\n"], output)
        return
    if len(files) < 2:
        raise ParameterError("compare: give one or more systems, and the data last.")
    opt.refuse_two_pipes(*files)
    *paths, data = files
    called = _system_names(paths, [name for given in names for name in given.split(",")])
    rankings = [opt.load_system(path, "model", "run", "scores") for path in paths]
    systems = dict(zip(called, zip(paths, rankings, strict=True), strict=True))
    with opt.local_file(data) as local:
        judged = _open_judged(local, data, reading, rankings[0])
        scores = {
            name: judged.evaluate(ranking, opt.split_measures(measures), like=like, name=path)
            for name, (path, ranking) in systems.items()
        }
        comparison = rw.compare(scores, test=test, alpha=alpha, baseline=baseline)
        if json:
            text = comparison.to_json()
        else:
            text = str(getattr(comparison.table(intervals=intervals), f"to_{table}")())
        console.write_result([text + "\n"], output)
        if report is not None:
            from rankwright.report.page import write_page
            from rankwright.report.sections import comparison_page, fingerprints

            on_items = {
                name: (ranking, judged.items(ranking))
                for name, (_, ranking) in systems.items()
                if judged.qrels is None and not isinstance(ranking, rw.Run)
            }
            about = {"command": console.command(), **fingerprints(files)}
            page = comparison_page(comparison, scores, systems=on_items, data=data, settings=about)
            write_page(page, report)
            console.note(f"report: {report}")


def _open_judged(local: str, data: str, table: opt.TableOptions, first: Any) -> JudgedFile:
    from rankwright.persist.systems import JudgedFile

    judged = JudgedFile(local, data, **table.parameters(data))
    if judged.qrels is None:
        opt.note_missing_queries(judged.items(first), data)
    return judged


def _as_dict(scores: Scores, per_query: bool) -> dict[str, Any]:
    content: dict[str, Any] = {
        "n_queries": scores.n_queries,
        "measures": scores.to_dict(),
        "skipped": {name: scores.n_skipped(name) for name in scores},
        "conventions": dict(scores.conventions),
    }
    if per_query:
        ids = [str(query) for query in scores.query_ids.tolist()]
        content["per_query"] = {
            name: dict(zip(ids, scores.per_query(name).tolist(), strict=True)) for name in scores
        }
    return content


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


def _system_names(paths: list[str], given: list[str]) -> list[str]:
    """File names without folder and extension, made different from each other."""
    if given:
        if len(given) != len(paths) or len(set(given)) < len(given):
            raise ParameterError(f"--names: give {len(paths)} different names.")
        return given
    short = [os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0] for path in paths]
    numbered = [f"{number} {path}" for number, path in enumerate(paths, 1)]
    return next(names for names in (short, paths, numbered) if len(set(names)) == len(names))
