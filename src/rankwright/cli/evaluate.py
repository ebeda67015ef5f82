"""``rankwright evaluate`` and ``rankwright compare``: systems on judged data."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import rankwright as rw
from rankwright.cli._console import check_targets, command, note, to_json, write_result
from rankwright.cli._options import (
    Measures,
    Output,
    TableOptions,
    local_file,
    note_missing_queries,
    read_system,
    refuse_two_pipes,
    split_measures,
)
from rankwright.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from rankwright.metrics.evaluation import Scores

Like = Literal["trec_eval", "letor3", "lightgbm", "xgboost", "sklearn", "ranx"]


def evaluate(
    system: str,
    data: str,
    /,
    *,
    measures: Measures = ["NDCG@10", "AP"],  # noqa: B006
    like: Like | None = None,
    per_query: bool = False,
    fail_under: str | None = None,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
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
    measures
        Names such as NDCG@10, AP, P@5, ERR@20, RR, RankLoss; repeat it, or separate by commas.
    like
        Use the conventions of this tool (with qrels, by default trec_eval's).
    per_query
        Print a line for each query as well.
    fail_under
        Exit with 1 if a mean is worse: 0.4 (the first measure) or NDCG@10=0.4.
    json
        JSON instead of a table.
    """
    names = split_measures(measures)
    limit = None if fail_under is None else _parse_limit(fail_under, names)
    refuse_two_pipes(system, data)
    ranking = read_system(system, "model", "run", "scores")
    with local_file(data) as local:
        scores = Judged(local, data, table).judge(system, ranking, names, like)
    if json:
        print(to_json({"system": system, "data": data, **_as_dict(scores, per_query)}), end="")
    else:
        print(scores)
        if per_query:
            print("\n" + "\t".join(["query", *scores]))
            for query, values in zip(scores.query_ids.tolist(), scores.matrix.T, strict=True):
                cells = ["-" if v != v else f"{v:.4f}" for v in values]  # NaN: not measured
                print("\t".join([str(query), *cells]))
    if limit is not None:
        measure, least = limit
        mean, higher = scores[measure], measure.higher_is_better
        if mean < least if higher else mean > least:
            side = "below" if higher else "above"
            note(f"rankwright: {measure} is {mean:.4f}, {side} the limit of {least:g}")
            sys.exit(1)


def compare(
    *files: str,
    measures: Measures = ["NDCG@10", "AP"],  # noqa: B006
    names: list[str] = [],  # noqa: B006
    table: Literal["text", "markdown", "latex", "html"] = "text",
    intervals: bool = False,
    baseline: str | None = None,
    test: Literal["randomization", "t", "wilcoxon"] = "randomization",
    alpha: float = 0.05,
    like: Like | None = None,
    output: Output = None,
    report: str | None = None,
    json: bool = False,
    reading: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Print the table of several systems on the same data, with significance letters.

        rankwright compare new.rw old.rw test.txt --report page.html
        rankwright compare bm25.run dense.run qrels.txt -m AP,NDCG@10 --baseline bm25
        rankwright compare new.rw old.rw test.txt --table latex -o table.tex

    Parameters
    ----------
    files
        Model files, TREC runs or files of scores, then the data: graded items, or qrels for runs.
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
        Use the conventions of this tool (with qrels, by default trec_eval's).
    output
        Write the table to this file instead of standard output.
    report
        Write a page with table and charts to this HTML file.
    json
        JSON with means, intervals and p-values.
    """
    if len(files) < 2:
        raise ParameterError("compare: give one or more systems, and the data last.")
    refuse_two_pipes(*files)
    check_targets(report=report)
    *paths, data = files
    called = _system_names(paths, [name for given in names for name in given.split(",")])
    rankings = [read_system(path, "model", "run", "scores") for path in paths]
    systems = dict(zip(called, zip(paths, rankings, strict=True), strict=True))
    with local_file(data) as local:
        judged = Judged(local, data, reading)
        scores = {
            name: judged.judge(path, ranking, split_measures(measures), like)
            for name, (path, ranking) in systems.items()
        }
        comparison = rw.compare(scores, test=test, alpha=alpha, baseline=baseline)
        if json:
            text = comparison.to_json()
        else:
            text = str(getattr(comparison.table(intervals=intervals), f"to_{table}")())
        write_result([text + "\n"], output)
        if report is not None:
            from rankwright.report.page import write_page
            from rankwright.report.pages import comparison_page, fingerprints

            scored = {
                name: judged.scored(path, ranking)
                for name, (path, ranking) in systems.items()
                if not isinstance(ranking, rw.Run)
            }
            settings = {"command": command(), **fingerprints(files)}
            page = comparison_page(comparison, scores, scored=scored, data=data, settings=settings)
            write_page(page, report)
            note(f"report: {report}")


class Judged:
    """What judges said, items with grades or qrels, to measure systems on."""

    def __init__(self, local: str, path: str, table: TableOptions) -> None:
        from rankwright.data.io.items import detect_format

        self.local, self.path, self.table = local, path, table
        self._items: dict[Any, rw.Items] = {}
        is_qrels = (table.read_as or detect_format(local)) == "qrels"
        self.qrels = rw.read_qrels(local) if is_qrels else None

    def items(self, ranking: Any = None) -> rw.Items:
        """The items, with the features of a model; read once for models with the same features."""
        model = ranking if hasattr(ranking, "feature_names") else None
        key = None if model is None else (model.n_features, model.feature_names)
        if key not in self._items:
            items = rw.read_items(self.local, like=model, **self.table.parameters())
            if not self._items:
                note_missing_queries(items, self.path)
            self._items[key] = items
        return self._items[key]

    def judge(self, path: str, ranking: Any, measures: Sequence[str], like: str | None) -> Scores:
        """The measures of a system; on qrels by trec_eval's conventions by default."""
        if isinstance(ranking, rw.Run):
            qrels = self._qrels_of_items() if self.qrels is None else self.qrels
            _note_missing_queries(ranking, qrels, path, self.path)
            beside = rw.align(ranking, qrels)
            like = like or (None if self.qrels is None else "trec_eval")
            columns: dict[str, Any] = {"docid": beside.docid, "like": like}
            return rw.evaluate(beside.scores, beside.y, beside.qid, measures, **columns)
        _, items, scores = self.scored(path, ranking)
        predictions = None
        if any(rw.Measure.parse(name).reads_predictions for name in measures):
            predictions = ranking.predict(items.X, items.qid) if ranking is not scores else None
        qid = None if items.qid is None else items.qid.astype(str)  # as runs name their queries
        columns = {"docid": items.docid, "like": like, "predictions": predictions}
        return rw.evaluate(scores, items.y, qid, measures, **columns)

    def scored(self, path: str, ranking: Any) -> tuple[Any, rw.Items, Any]:
        """A model (or None), the items with its features, and their scores."""
        if self.qrels is not None:
            raise DataError(
                f"{self.path} holds qrels and no features, which {path} needs. Rank the items "
                f"first: rankwright rank {path} DATA --trec -o system.run"
            )
        items = self.items(ranking)
        if hasattr(ranking, "decision_function"):
            return ranking, items, ranking.decision_function(items.X, items.qid)
        if len(ranking) != items.n_items:
            raise DataError(
                f"{path} has {len(ranking)} scores and the data {items.n_items} items: one score "
                "per item is needed, in the same order."
            )
        return None, items, ranking

    def _qrels_of_items(self) -> rw.Qrels:
        items = self.items()
        if items.docid is None or items.qid is None:
            raise DataError(
                f"{self.path} names no documents, so a run cannot be compared with it. Give qrels, "
                "or data with a qid and a docid in every line."
            )
        return rw.Qrels.from_arrays(items.qid.astype(str), items.docid, items.y)


def _note_missing_queries(run: rw.Run, qrels: rw.Qrels, path: str, judged: str) -> None:
    """Judged queries that a run does not answer count as failures: say how many."""
    answered, asked = set(map(str, run.queries)), list(map(str, qrels.queries))
    missing = [query for query in asked if query not in answered]

    def some(queries: Any) -> str:
        more = f" and {len(queries) - 3:,} more" if len(queries) > 3 else ""
        return ", ".join(map(str, queries[:3])) + more

    if len(missing) == len(asked):
        raise DataError(
            f"{path} and {judged} have no query in common: the run answers {some(run.queries)}, "
            f"judged are {some(asked)}. Give files that name their queries alike."
        )
    if missing:
        note(
            f"{path} does not answer {len(missing):,} of the {len(asked):,} judged queries "
            f"({some(missing)}), which count as failures"
        )


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
    """The measure that ``--fail-under`` names, and its limit."""
    measures = [rw.Measure.parse(name) for name in names]
    name, equals, number = limit.rpartition("=")
    try:
        measure, least = rw.Measure.parse(name) if equals else measures[0], float(number)
    except ValueError:
        measure, least = None, float("nan")
    if measure not in measures or least != least:
        raise ParameterError(
            f"--fail-under {limit}: write a number, or MEASURE=number with one of "
            f"{', '.join(map(str, measures))}."
        )
    return measure, least


def _system_names(paths: list[str], given: list[str]) -> list[str]:
    """File names without folder and extension, made different from each other."""
    if given:
        if len(given) != len(paths) or len(set(given)) < len(given):
            raise ParameterError(f"--names: give {len(paths)} different names.")
        return given
    short = [os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0] for path in paths]
    if len(set(short)) == len(short):
        return short
    return paths if len(set(paths)) == len(paths) else [f"{k} {p}" for k, p in enumerate(paths, 1)]
