"""``rankwright fuse``: one run out of several."""

from __future__ import annotations

import os
from typing import Annotated, Any

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import as_json
from rankwright.cli.files.pipes import at_hand, check_targets, write_answer
from rankwright.cli.options import at_least, check_run_name
from rankwright.exceptions import DataError, ParameterError


def fuse(
    *runs: str,
    method: str | None = None,
    norm: str = "minmax",
    weights: list[float] = [],  # noqa: B006
    k: float = 60.0,
    qrels: str | None = None,
    ranker: str = "RankBoost",
    set: list[str] = [],  # noqa: B006
    save: str | None = None,
    model: str | None = None,
    cutoff: int | None = None,
    name: str = "fused",
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    json: bool = False,
) -> None:
    """Make one run of several, by a fixed rule or learned from judged queries.

    Prints a TREC run.

    ```text
    rankwright fuse bm25.run dense.run -o fused.run
    rankwright fuse bm25.run dense.run --qrels judged.qrels --save fusion.rw
    rankwright fuse new-bm25.run new-dense.run --model fusion.rw -o fused.run
    ```

    Parameters
    ----------
    runs
        Two TREC runs or more (one may be -, standard input).
    method
        By place: rrf, borda, median_rank, condorcet; by score: sum, mnz, anz, med, min, max;
        learned: a ranker over the engines' places. By default rrf; learned with --qrels, --model.
    norm
        How to make scores comparable: minmax, max, sum, zscore, rank, borda or none.
    weights
        One weight per run, in their order; repeat it.
    k
        For rrf: the larger, the less the first places stand out.
    qrels
        Judged queries to learn from.
    ranker
        Which ranker learns.
    set
        A parameter of that ranker: --set n_estimators=200; may be repeated.
    save
        Keep what was learned in this file.
    model
        What --save wrote: nothing is learned anew. Runs are known by their names.
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
    check_targets(save=save)
    method = method or ("learned" if qrels or model or save else "rrf")
    _check_method(method, qrels=qrels, model=model, save=save)
    lists = _read(runs)
    if model is not None:
        fused = _saved(model).fuse(lists, name=name)
    elif qrels is not None:
        fusion = _learned(lists, qrels, ranker, set)
        fused = fusion.fuse(lists, name=name)
        if save is not None:
            rw.save(fusion, save)
    else:
        fused = rw.fuse(lists, method, norm=norm, weights=weights or None, k=k, name=name)
    if cutoff is not None:
        fused = fused.top(cutoff)
    found = {"name": name, "method": method, "queries": _nested(fused)} if json else None
    write_answer(_lines(fused) if found is None else [as_json(found)], output)


def _check_method(method: str, *, qrels: str | None, model: str | None, save: str | None) -> None:
    """Refuse options that do not go together before anything is read."""
    from rankwright.fusion.methods import METHODS

    if method != "learned":
        if method not in METHODS:
            raise ParameterError(f"--method {method}: use one of {', '.join(METHODS)} or learned.")
        if (qrels, model, save) != (None, None, None):
            raise ParameterError(
                f"--method {method} learns nothing: leave it out, or --qrels, --model and --save."
            )
    elif (qrels is None) == (model is None):
        raise ParameterError(
            "--method learned: give the judged queries with --qrels, or what --save wrote with "
            "--model; not both."
        )
    elif model is not None and save is not None:
        raise ParameterError("--save with --model: nothing is learned that could be kept.")


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


def _saved(path: str) -> rw.LearnedFusion:
    model = rw.load(path)
    if not isinstance(model, rw.LearnedFusion):
        raise DataError(f"{path} holds a {type(model).__name__}, not a fusion that --save wrote.")
    return model


def _learned(
    runs: dict[str, rw.Run], qrels: str, ranker: str, settings: list[str]
) -> rw.LearnedFusion:
    from rankwright.cli.settings import make_ranker, parse_settings
    from rankwright.cli.training import warn_of_compiling

    warn_of_compiling()
    given: dict[str, Any] = dict(parse_settings(settings))
    if ranker.lower() == "rankboost":
        given = rw.LearnedFusion().default_ranker().get_params(deep=False) | given
    return rw.LearnedFusion(make_ranker(ranker, given)).fit(runs, rw.read_qrels(qrels))


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
