"""``rankwright evaluate``: how well a system orders what judges graded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import note, print_json
from rankwright.cli.files.items import TableOptions
from rankwright.cli.files.systems import read_judged, read_system, refuse_two_pipes
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    from rankwright.metrics.evaluation import Scores


Like = Literal["trec_eval", "letor3", "lightgbm", "xgboost", "sklearn", "ranx"]


def evaluate(
    system: str,
    data: str,
    /,
    *,
    measures: Annotated[list[str], Parameter(alias="-m")] = ["NDCG@10", "AP"],  # noqa: B006
    like: Like | None = None,
    per_query: bool = False,
    fail_under: str | None = None,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Measure a system on graded data.

    ```text
    rankwright evaluate model.rw test.txt
    rankwright evaluate bm25.run qrels.txt -m AP,P@5
    rankwright evaluate model.rw test.txt --fail-under NDCG@10=0.45
    ```

    Parameters
    ----------
    system
        A model file, a TREC run, or a file with one score per line (- is standard input).
    data
        Graded items (LETOR, CSV, TSV, JSONL, Parquet), or TREC qrels for a run.
    measures
        Names such as NDCG@10, AP, P@5, ERR@20, RR, RankLoss; repeat it, or separate by commas.
    like
        Take the conventions of this tool (with qrels, by default trec_eval's).
    per_query
        A line for each query as well.
    fail_under
        End with exit code 1 if a mean falls short: 0.4 (the first measure) or NDCG@10=0.4. For a
        measure that is better the lower it is, if the mean is above it.
    json
        JSON instead of a table.
    """
    names = named(measures)
    gate = None if fail_under is None else _gate(fail_under, names)
    refuse_two_pipes(system, data)
    read = read_system(system)
    scores = read.judge(read_judged(data, table, [read.model]), names, like)
    if json:
        print_json({"system": system, "data": data, **_as_dict(scores, per_query)})
    else:
        print(scores)
        if per_query:
            print()
            _print_queries(scores)
    if gate is not None:
        _hold(scores, *gate)


def named(measures: list[str]) -> list[str]:
    """Names of measures, given apart or separated by commas outside of parentheses.

    >>> named(["NDCG@10,AP", "P@5"]), named(["NDCG(gain=linear,discount=log2)@10"])
    (['NDCG@10', 'AP', 'P@5'], ['NDCG(gain=linear,discount=log2)@10'])
    """
    names, depth = [""], 0
    for sign in ",".join(measures):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += sign
    return [name.strip() for name in names if name.strip()]


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


def _print_queries(scores: Scores) -> None:
    print("\t".join(["query", *scores]))
    for number, query in enumerate(scores.query_ids.tolist()):
        # A query without anything to measure has no value, as in the table.
        values = ["-" if v != v else f"{v:.4f}" for v in scores.matrix[:, number]]
        print("\t".join([str(query), *values]))


def _gate(limit: str, names: list[str]) -> tuple[rw.Measure, float]:
    """The measure that ``--fail-under`` names, and its limit; refused before any work."""
    measures = [rw.Measure.parse(name) for name in names]
    name, equals, number = limit.rpartition("=")
    try:
        asked = [rw.Measure.parse(name)] if equals else measures[:1]
        least = float(number)
    except ValueError:
        asked, least = [], float("nan")
    if not asked or asked[0] not in measures or least != least:
        raise ParameterError(
            f"--fail-under {limit}: write a number, or MEASURE=number with one of "
            f"{', '.join(map(str, measures))}."
        )
    return asked[0], least


def _hold(scores: Scores, measure: rw.Measure, least: float) -> None:
    found = scores[measure]
    if found < least if measure.higher_is_better else found > least:
        side = "below" if measure.higher_is_better else "above"
        note(f"rankwright: {measure} is {found:.4f}, {side} the limit of {least:g}")
        sys.exit(1)
