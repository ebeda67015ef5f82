"""``rankwright fuse``: one run out of several."""

from __future__ import annotations

import os
from typing import Annotated, Any

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import as_json
from rankwright.cli.files import at_hand, write_answer
from rankwright.cli.settings import at_least, check_run_name
from rankwright.exceptions import ParameterError

__all__ = ["fuse"]


def fuse(
    *runs: str,
    method: str = "rrf",
    norm: str = "minmax",
    weights: list[float] = [],  # noqa: B006
    k: float = 60.0,
    qrels: str | None = None,
    ranker: str = "RankBoost",
    set: list[str] = [],  # noqa: B006
    cutoff: int | None = None,
    name: str = "fused",
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    json: bool = False,
) -> None:
    """Make one run of several, by a fixed rule or learned from judged queries.

    Prints a TREC run.

    ```text
    rankwright fuse bm25.run dense.run -o fused.run
    rankwright fuse bm25.run dense.run --method learned --qrels judged.qrels
    ```

    Parameters
    ----------
    runs
        Two TREC runs or more (one may be -, standard input).
    method
        By place: rrf, borda, median_rank, condorcet; by score: sum, mnz, anz, med, min, max;
        learned: a ranker over the engines' places, trained with --qrels.
    norm
        How to make scores comparable: minmax, max, sum, zscore, rank, borda or none.
    weights
        One weight per run, in their order; repeat it.
    k
        For rrf: the larger, the less the first places stand out.
    qrels
        Judged queries to learn from, for --method learned.
    ranker
        Which ranker learns.
    set
        A parameter of that ranker: --set n_rounds=200; may be repeated.
    cutoff
        Only so many documents of each query.
    name
        The name of the new run.
    output
        Write to this file instead of standard output.
    json
        A JSON object of lists instead of a TREC run.
    """
    if len(runs) < 2:
        raise ParameterError("fuse: give two runs or more.")
    at_least(1, cutoff=cutoff)
    check_run_name(name)
    lists = _read(runs)
    if method == "learned":
        fused = _learned(lists, qrels, ranker, set, name)
    else:
        _check_method(method)
        fused = rw.fuse(lists, method, norm=norm, weights=weights or None, k=k, name=name)
    if cutoff is not None:
        fused = fused.top(cutoff)
    found = {"name": name, "method": method, "queries": _nested(fused)} if json else None
    write_answer(_lines(fused) if found is None else [as_json(found)], output)


def _check_method(method: str) -> None:
    from rankwright.fusion.methods import METHODS

    if method not in METHODS:
        raise ParameterError(f"--method {method}: use one of {', '.join(METHODS)} or learned.")


def _read(paths: tuple[str, ...]) -> dict[str, rw.Run]:
    """Runs by name; where names clash, by file."""
    found: dict[str, rw.Run] = {}
    for path in paths:
        with at_hand(path) as local:
            run = rw.read_run(local)
        key = run.name if run.name not in found else os.path.basename(path)
        if key in found:
            raise ParameterError(f"fuse: two runs are called {key!r}. Rename one of them.")
        found[key] = run
    return found


def _learned(
    runs: dict[str, rw.Run], qrels: str | None, ranker: str, settings: list[str], name: str
) -> rw.Run:
    if qrels is None:
        raise ParameterError("--method learned: give the judged queries with --qrels.")
    from rankwright.cli.preparing import warn_of_compiling
    from rankwright.cli.settings import make_ranker, parse_settings

    warn_of_compiling()
    given: dict[str, Any] = dict(parse_settings(settings))
    usual = {"default": 0, "cumulative": True} if ranker.lower() == "rankboost" else {}
    fusion = rw.LearnedFusion(make_ranker(ranker, usual | given))
    return fusion.fit(runs, rw.read_qrels(qrels)).fuse(runs, name=name)


def _lines(run: rw.Run) -> Any:
    rows = run.order
    for query, doc, rank, score in zip(
        run.queries[run.query[rows]].tolist(),
        run.docs[run.doc[rows]].tolist(),
        run.rank[rows].tolist(),
        run.score[rows].tolist(),
        strict=True,
    ):
        yield f"{query} Q0 {doc} {rank} {score!r} {run.name}\n"


def _nested(run: rw.Run) -> dict[str, list[dict[str, Any]]]:
    lists: dict[str, list[dict[str, Any]]] = {}
    for row in run.order.tolist():
        entry = {
            "item": run.docs[run.doc[row]],
            "rank": int(run.rank[row]),
            "score": float(run.score[row]),
        }
        lists.setdefault(str(run.queries[run.query[row]]), []).append(entry)
    return lists
