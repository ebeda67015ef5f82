"""``rankwright fuse``: one run out of several."""

from __future__ import annotations

from typing import Any, Literal

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import DataError, ParameterError

Method = Literal[
    "rrf", "borda", "median_rank", "condorcet", "sum", "mnz", "anz", "med", "min", "max", "learned"
]
Norm = Literal["minmax", "max", "sum", "zscore", "rank", "borda", "none"]


def fuse(
    *runs: str,
    method: Method | None = None,
    norm: Norm = "minmax",
    weights: list[float] = [],  # noqa: B006
    k: float = 60.0,
    qrels: str | None = None,
    ranker: str | None = None,
    set: opt.Settings = [],  # noqa: B006
    save: str | None = None,
    model: str | None = None,
    cutoff: opt.Cutoff = None,
    name: opt.RunName = "fused",
    output: opt.Output = None,
    json: opt.Json = False,
) -> None:
    """Make one run of several, by a fixed rule or learned from judged queries.

    Prints a TREC run.

    rankwright fuse bm25.run dense.run -o fused.run
    rankwright fuse bm25.run dense.run --qrels judged.qrels --save fusion.rw
    rankwright fuse new-bm25.run new-dense.run --model fusion.rw -o fused.run

    Args:
        runs: Two TREC runs or more (one may be -, standard input).
        method: By rank (rrf to condorcet), by score (sum to max) or learned; by default rrf.
        norm: How to make scores comparable.
        weights: One weight per run, in their order; repeat it.
        k: For rrf: the larger, the less the first ranks stand out.
        qrels: Judged queries to learn from.
        ranker: The ranker that learns from the ranks in the runs; by default RankBoost.
        save: Save the learned fusion to this file.
        model: A learned fusion that --save wrote, to use it again. It knows runs by their names.
    """
    if len(runs) < 2:
        raise ParameterError("fuse: give two runs or more.")
    console.check_targets(*runs, qrels, model, save=save, output=console.file_name(output))
    method = method or ("learned" if qrels or model or save else "rrf")
    _check_method(method, qrels, model, save, ranker or set)
    lists = rw.data.read_runs(runs)
    if method != "learned":
        fused = rw.fuse(lists, method, norm=norm, weights=weights or None, k=k, name=name)
    else:
        from rankwright.selection.by_name import parse_settings

        defaults = {} if ranker else rw.LearnedFusion.default_ranker().get_params(deep=False)
        learner = rw.make_ranker(ranker or "RankBoost", defaults | parse_settings(set))
        fusion = rw.LearnedFusion(learner) if model is None else rw.load(model)
        if not isinstance(fusion, rw.LearnedFusion):
            raise DataError(f"{model} holds a {type(fusion).__name__}, not a learned fusion.")
        if qrels is not None:
            fusion.fit(lists, rw.read_qrels(qrels))
        if save is not None:
            rw.save(fusion, save)
        fused = fusion.fuse(lists, name=name)
    about = {"name": name, "method": method} if json else None
    console.write_ranking(fused.ranking(cutoff), output, name, about)


def _check_method(
    method: str, qrels: str | None, model: str | None, save: str | None, learner: Any
) -> None:
    """Refuse options that do not go together, before anything is read."""
    if method != "learned" and (qrels or model or save):
        raise ParameterError(
            f"--method {method} learns nothing: leave it out, or --qrels, --model and --save."
        )
    if method == "learned" and (qrels is None) == (model is None):
        raise ParameterError("--method learned: give either --qrels to learn from, or --model.")
    if qrels is None and (save or learner):
        raise ParameterError("--save, --ranker and --set are for learning: give --qrels as well.")
