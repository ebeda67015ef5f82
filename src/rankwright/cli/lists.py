"""Verbs that make lists: ``recommend`` items to users, ``fuse`` several runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli import _shell as sh
from rankwright.exceptions import DataError, ParameterError

NEW_USER = "new user"  # whose ratings --new gives


def recommend(
    ratings: str,
    /,
    *,
    user: list[str] = [],
    new: list[str] = [],
    n: Annotated[sh.Count, Parameter(alias="-n")] = 10,
    explain: bool = False,
    evaluate: Literal["last", "time"] | None = None,
    ranker: str | None = None,
    set: sh.Settings = [],
    duplicates: Literal["error", "first", "last", "mean"] = "error",
    random_state: sh.RandomState = 0,
    save: str | None = None,
    output: sh.Output = None,
    json: sh.Json = False,
    reading: sh.RatingsOptions = sh.RatingsOptions(),
    events: sh.EventOptions = sh.EventOptions(),
) -> None:
    """Recommend items that users have not rated or taken yet.

    Prints user, rank, item, score and, if known, title, separated by tabs.

    rankwright recommend ratings.csv --user 42 -n 5
    rankwright recommend ratings.csv --new "Alien=5" --new "Titanic=1" --explain
    rankwright recommend ratings.csv --save films.rw --user 42
    rankwright recommend films.rw --user 43
    rankwright recommend log.csv --user-column shopper --item-column sku
    rankwright recommend log.csv --item-features catalog.csv --evaluate time
    rankwright recommend log.csv --output lists.parquet

    Args:
        ratings: A table of ratings or events (user, item, time), or a saved recommender (.rw).
        user: The id of a user; may be repeated. By default all users, unless --new is given.
        new: A rating of a new user: --new ITEM=RATING, with events --new ITEM; may be repeated.
        n: The number of items for each user.
        explain: Print why each item is recommended.
        evaluate: For events: evaluate on the last item of each user, or the last tenth of the time.
        ranker: Train this ranker for each user; by default a blend of several methods.
        duplicates: Which rating to keep if a user rated an item twice.
        save: Save the recommender to this file.
    """
    from rankwright.data.vocabulary import find_id, parse_ratings

    sources = (ratings, events.item_features, events.user_features)
    sh.check_targets(*sources, save=save, output=output)
    as_table = output is not None and output.endswith((".jsonl", ".parquet")) and not new
    if evaluate is not None:
        unused = {"--user": user, "--new": new, "--explain": explain, "--save": save}
        why = "with --evaluate, which prints measures and no lists. Leave one of the two out."
        sh.refuse(why, unused | {"--output": output})
    if as_table:
        sh.refuse(f"with {output}, which has no column for reasons.", {"--explain": explain})
    learner = None if ranker is None else rw.make_ranker(ranker, set)
    model = _load(ratings, evaluate, ranker, events) if ratings.endswith(".rw") else None
    features = events.features()
    data = events.read(ratings, reading, duplicates) if model is None else model.data_
    sh.note_content(ratings, data)
    untrained = rw.Recommender(ranker=learner, random_state=random_state)
    if evaluate is not None:
        with sh.working("evaluating"):
            report = rw.recommend.evaluate_top_n(untrained, data, evaluate, n, **features)
        measures = {name: vars(estimate) for name, estimate in report.measures.items()}
        sh.answer(json, report, {"n_users": report.n_users, "measures": measures})
        return
    default = 1.0 if isinstance(data, rw.Interactions) else None
    given = parse_ratings(new, data.items, default)
    users = [find_id(name, data.users, "user") for name in user]
    if model is None:
        with sh.working("learning"):
            model = untrained.fit(data, **features)
    if save is not None:
        rw.save(model, save)
    if as_table:
        model.recommend_all(users or None, n, output=output, progress=sys.stderr.isatty())
        return
    lists: dict[Any, Any] = {NEW_USER: model.recommend_new(given, n)} if new else {}
    lists |= model.recommend_all(users or None, n) if users or not new else {}
    records = model.to_records(lists, explain=explain, new={NEW_USER: given})
    content = {"ratings": ratings, "users": records}
    sh.write_result([sh.to_json(content)] if json else _lines(records), output)


def _load(path: str, evaluate: str | None, ranker: str | None, events: sh.EventOptions) -> Any:
    """A saved recommender; options that would train another one are refused."""
    if evaluate is not None:
        raise ParameterError(
            f"--evaluate: {path} holds each pair of user and item once, so events that were "
            "repeated would look new. Give the file of events instead."
        )
    tables = {"--item-features": events.item_features, "--user-features": events.user_features}
    why = f"with {path}, which is trained already. Leave it out."
    sh.refuse(why, {"--ranker": ranker, **tables})
    model = rw.load(path)
    if not hasattr(model, "recommend"):
        raise DataError(f"{path} holds a {type(model).__name__}, not a recommender.")
    return model


def _lines(records: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for user, items in records.items():
        for record in items:
            title = f"\t{record['title']}" if "title" in record else ""
            yield f"{user}\t{record['rank']}\t{record['item']}\t{record['score']:.6g}{title}\n"
            yield from (f"    {line}\n" for line in record.get("why", "").splitlines())


Method = Literal[
    "rrf", "borda", "median_rank", "condorcet", "sum", "mnz", "anz", "med", "min", "max", "learned"
]
Norm = Literal["minmax", "max", "sum", "zscore", "rank", "borda", "none"]


def fuse(
    *runs: str,
    method: Method | None = None,
    norm: Norm = "minmax",
    weights: list[float] = [],
    k: float = 60.0,
    qrels: str | None = None,
    ranker: str | None = None,
    set: sh.Settings = [],
    save: str | None = None,
    model: str | None = None,
    cutoff: sh.Cutoff = None,
    name: sh.RunName = "fused",
    output: sh.Output = None,
    json: sh.Json = False,
) -> None:
    """Merge several runs into one, by a fixed rule or one learned from judged queries.

    Prints a TREC run.

    rankwright fuse bm25.run dense.run -o fused.run
    rankwright fuse bm25.run dense.run --qrels judged.qrels --save fusion.rw
    rankwright fuse new-bm25.run new-dense.run --model fusion.rw -o fused.run

    Args:
        runs: Two or more TREC runs (one may be -, standard input).
        method: By rank (rrf to condorcet), by score (sum to max) or learned; by default rrf.
        norm: How to normalize scores.
        weights: The weight of a run; repeat it for each run, in their order.
        k: For rrf: the larger, the less the top ranks dominate.
        qrels: Judged queries to learn from.
        ranker: The ranker that learns from the ranks in the runs; by default RankBoost.
        save: Save the learned fusion to this file.
        model: A learned fusion written by --save; it identifies runs by their names.
    """
    if len(runs) < 2:
        raise ParameterError("fuse: give two runs or more.")
    sh.check_targets(*runs, qrels, model, save=save, output=output)
    method = method or ("learned" if qrels or model or save else "rrf")
    if method != "learned" and (qrels or model or save):
        raise ParameterError(
            f"--method {method} learns nothing: leave it out, or --qrels, --model and --save."
        )
    if method == "learned" and (qrels is None) == (model is None):
        raise ParameterError("--method learned: give either --qrels to learn from, or --model.")
    if qrels is None and (save or ranker or set):
        raise ParameterError("--save, --ranker and --set are for learning: give --qrels as well.")
    lists = rw.data.read_runs(runs)
    if method == "learned":
        fusion = _fit_fusion(lists, qrels, ranker, set) if model is None else _load_fusion(model)
        if save is not None:
            rw.save(fusion, save)
        fused = fusion.fuse(lists, name=name)
    else:
        fused = rw.fuse(lists, method, norm=norm, weights=weights or None, k=k, name=name)
    about = {"name": name, "method": method} if json else None
    sh.write_ranking(fused.ranking(cutoff), output, name, about)


def _fit_fusion(runs: Any, qrels: Any, ranker: str | None, settings: list[str]) -> Any:
    from rankwright.selection.by_name import parse_settings

    defaults = {} if ranker else rw.LearnedFusion.default_ranker().get_params(deep=False)
    params = defaults | parse_settings(settings)
    learner = rw.make_ranker(ranker or "RankBoost", params, random_state=0)
    return rw.LearnedFusion(learner).fit(runs, rw.read_qrels(qrels))


def _load_fusion(path: str) -> Any:
    fusion = rw.load(path)
    if not isinstance(fusion, rw.LearnedFusion):
        raise DataError(f"{path} holds a {type(fusion).__name__}, not a learned fusion.")
    return fusion
