"""``rankwright compare``: systems x measures, with significance."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from cyclopts import Parameter

from rankwright.cli.console import note
from rankwright.cli.evaluate import Like, named
from rankwright.cli.files import TableOptions, write_text
from rankwright.cli.files.systems import Judged, System, read_judged, read_system
from rankwright.exceptions import ParameterError
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.comparison import compare as compare_scores
from rankwright.metrics.scores import Scores

__all__ = ["compare"]


def compare(
    *files: str,
    measures: Annotated[list[str], Parameter(alias="-m", negative="")] = ["NDCG@10", "AP"],  # noqa: B006
    names: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006
    table: Literal["text", "markdown", "latex", "html"] = "text",
    intervals: Annotated[bool, Parameter(negative="")] = False,
    baseline: str | None = None,
    test: Literal["randomization", "t", "wilcoxon"] = "randomization",
    alpha: float = 0.05,
    like: Like | None = None,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    report: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    reading: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Print the table of several systems on the same data, best marked, with significance letters.

    Parameters
    ----------
    files
        Two systems or more (model files, TREC runs, files of scores), then the data: graded items,
        or qrels for runs.
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
    *paths, data = files
    systems = [read_system(path) for path in paths]
    widths = {s.model.n_features for s in systems if s.model is not None}
    judged = read_judged(data, reading, max(widths) if widths else None)
    called = _names(paths, [name for given in names for name in given.split(",")])
    scores = {
        name: system.judge(judged, named(measures), like)
        for name, system in zip(called, systems, strict=True)
    }
    comparison = compare_scores(scores, test=test, alpha=alpha, baseline=baseline)
    write_text([_printed(comparison, "json" if json else table, intervals) + "\n"], output)
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
