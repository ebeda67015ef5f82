"""``rankwright compare``: systems x measures, with significance."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import note
from rankwright.cli.evaluate import Like, named
from rankwright.cli.files.items import TableOptions
from rankwright.cli.files.pipes import check_targets, write_answer
from rankwright.cli.files.systems import Judged, System, read_judged, read_system, refuse_two_pipes
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    from rankwright.metrics.comparison import Comparison
    from rankwright.metrics.evaluation import Scores


def compare(
    *files: str,
    measures: Annotated[list[str], Parameter(alias="-m")] = ["NDCG@10", "AP"],  # noqa: B006
    names: list[str] = [],  # noqa: B006
    table: Literal["text", "markdown", "latex", "html"] = "text",
    intervals: bool = False,
    baseline: str | None = None,
    test: Literal["randomization", "t", "wilcoxon"] = "randomization",
    alpha: float = 0.05,
    like: Like | None = None,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    report: str | None = None,
    json: bool = False,
    reading: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Print the table of several systems on the same data, best marked, with significance letters.

    ```text
    rankwright compare new.rw old.rw test.txt --report page.html
    rankwright compare bm25.run dense.run qrels.txt -m AP,NDCG@10 --baseline bm25
    rankwright compare new.rw old.rw test.txt --table latex -o table.tex
    ```

    Parameters
    ----------
    files
        The systems (model files, TREC runs, files of scores), then the data: graded items, or qrels
        for runs. One of them may be - (standard input).
    measures
        Names such as NDCG@10, AP, P@5; repeat it, or separate by commas.
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
        Take the conventions of this tool (with qrels, by default trec_eval's).
    output
        Write the table to this file instead of standard output.
    report
        Write a page with table and charts to this HTML file.
    json
        JSON with means, intervals and p-values.
    """
    if len(files) < 2:
        raise ParameterError("compare: give one system or more, and the data last.")
    refuse_two_pipes(*files)
    check_targets(report=report)
    *paths, data = files
    systems = [read_system(path) for path in paths]
    judged = read_judged(data, reading, [system.model for system in systems])
    called = _names(paths, [name for given in names for name in given.split(",")])
    scores = {
        name: system.judge(judged, named(measures), like)
        for name, system in zip(called, systems, strict=True)
    }
    comparison = rw.compare(scores, test=test, alpha=alpha, baseline=baseline)
    write_answer([_printed(comparison, "json" if json else table, intervals) + "\n"], output)
    if report is not None:
        _write_report(report, dict(zip(called, systems, strict=True)), judged, comparison, scores)


def _printed(comparison: Comparison, kind: str, intervals: bool) -> str:
    if kind == "json":
        return comparison.to_json()
    found = comparison.table(intervals=intervals)
    return str(getattr(found, f"to_{kind}")())


def _names(paths: list[str], given: list[str]) -> list[str]:
    """File names without folder and ending, made different from each other."""
    if given:
        if len(given) != len(paths) or len(set(given)) < len(given):
            raise ParameterError(f"--names: give {len(paths)} different names.")
        return given
    short = [os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0] for path in paths]
    if len(set(short)) == len(short):
        return short
    return paths if len(set(paths)) == len(paths) else [f"{k} {p}" for k, p in enumerate(paths, 1)]


def _write_report(
    path: str,
    systems: dict[str, System],
    judged: Judged,
    comparison: Comparison,
    scores: dict[str, Scores],
) -> None:
    from rankwright.cli.reporting import report_on_systems

    report_on_systems(path, systems, judged, comparison, scores)
    note(f"report: {path}")
