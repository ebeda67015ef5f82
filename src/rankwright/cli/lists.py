"""Verbs that make lists: ``recommend`` items to users, ``fuse`` several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

import rankwright as rw
from rankwright.cli import _shell as sh
from rankwright.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rankwright.data.behavior.interactions import Interactions
    from rankwright.data.behavior.ratings import Ratings
    from rankwright.data.runs import Run

NEW_USER = "new user"  # whose ratings --new gives


@Parameter(name="*", group=Group("What lists may hold", sort_key=13))
@dataclass(frozen=True)
class ListOptions:
    """What lists may hold.

    Args:
        filter: Only these items: ids, or a text file with one id per line; may be repeated.
        exclude: No such items: ids, or a text file with one id per line; may be repeated.
        categories: A table with the category of each item (columns item and category).
        only: Only items of this category; may be repeated.
        cap: At most so many items of a category in a list.
    """

    filter: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    categories: str | None = None
    only: list[str] = field(default_factory=list)
    cap: sh.Count | None = None

    def given(self) -> dict[str, Any]:
        """The options that are set."""
        return {f"--{name}": value for name, value in vars(self).items() if value}

    def parameters(self, data: Ratings | Interactions) -> dict[str, Any]:
        """``exclude`` and ``filter`` of ``recommend``."""
        if self.categories is None and (self.only or self.cap):
            raise ParameterError("--only and --cap need --categories, a table of items.")
        categories = None if self.categories is None else _categories(self.categories, data)
        if self.only and categories is not None:
            known = sorted({str(kind) for kind in categories.values()})
            if missing := [kind for kind in self.only if kind not in known]:
                raise DataError(
                    f"--only {missing[0]}: {self.categories} has the categories "
                    f"{', '.join(known[:10])}{', ...' if len(known) > 10 else ''}."
                )
        allowed = rw.recommend.Filter(
            allow=_ids(self.filter, data.items) if self.filter else None,
            categories=categories,
            only=self.only or None,
            max_per_category=self.cap,
        )
        return {
            "exclude": _ids(self.exclude, data.items) if self.exclude else "taken",
            "filter": allowed,
        }


def _ids(words: list[str], known: NDArray[Any]) -> list[Any]:
    """Ids that were typed or are the lines of files, as the data have them."""
    from rankwright.data.vocabulary import find_id

    names = []
    for word in sh.split(words):
        path = Path(word)
        names += path.read_text("utf-8").split("\n") if path.is_file() else [word]
    return [find_id(name.strip(), known, "item") for name in names if name.strip()]


def _categories(path: str, data: Ratings | Interactions) -> dict[Any, str]:
    """The category of each item of a table; items that are not in the data do not matter."""
    from rankwright.data.behavior.ratings import find_column
    from rankwright.data.io.interactions import read_columns

    table = read_columns(path)
    column = find_column("item", None, list(table))
    if "category" not in table:
        raise DataError(f"{path} has no column 'category'; it has {list(table)}.")
    texts = {str(item): item for item in data.items.tolist()}
    pairs = zip(table[str(column)].tolist(), table["category"].tolist(), strict=True)
    return {texts[str(item)]: str(kind) for item, kind in pairs if str(item) in texts}


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
    limits: ListOptions = ListOptions(),
) -> None:
    """Recommend items that users have not rated or taken yet.

    Prints user, rank, item, score and, if known, title, separated by tabs.

    rankwright recommend ratings.csv --user 42 -n 5
    rankwright recommend ratings.csv --new "Alien=5" --new "Titanic=1" --explain
    rankwright recommend ratings.csv --save films.rw --user 42
    rankwright recommend films.rw --user 43
    rankwright recommend log.csv --user-column shopper --item-column sku
    rankwright recommend log.csv --item-features catalog.csv --evaluate time
    rankwright recommend log.csv --event-weight view=1 --event-weight purchase=5
    rankwright recommend shop.rw --filter stock.txt --categories catalog.csv --cap 2
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
        sh.refuse(why, unused | {"--output": output} | limits.given())
    if as_table:
        sh.refuse(f"with {output}, which has no column for reasons.", {"--explain": explain})
    learner = None if ranker is None else rw.make_ranker(ranker, set)
    model = _load(ratings, evaluate, ranker, events) if ratings.endswith(".rw") else None
    features = events.features()
    data = events.read(ratings, reading, duplicates) if model is None else model.data_
    sh.note_content(ratings, data)
    weights = events.weights()
    untrained = rw.Recommender(ranker=learner, event_weights=weights, random_state=random_state)
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
    allowed = limits.parameters(data)
    if as_table:
        model.recommend_all(users or None, n, output=output, progress=True, **allowed)
        return
    lists: dict[Any, Any] = {NEW_USER: model.recommend_new(given, n, **allowed)} if new else {}
    lists |= model.recommend_all(users or None, n, **allowed) if users or not new else {}
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
    sh.refuse(why, {"--ranker": ranker, "--event-weight": events.event_weight, **tables})
    return _load_recommender(path)


def _load_recommender(path: str) -> Any:
    model = rw.load(path)
    if not hasattr(model, "recommend"):
        raise DataError(f"{path} holds a {type(model).__name__}, not a recommender.")
    return model


def similar(
    ratings: str,
    /,
    *,
    item: list[str] = [],
    user: list[str] = [],
    n: Annotated[sh.Count, Parameter(alias="-n")] = 10,
    duplicates: Literal["error", "first", "last", "mean"] = "error",
    random_state: sh.RandomState = 0,
    output: sh.Output = None,
    json: sh.Json = False,
    reading: sh.RatingsOptions = sh.RatingsOptions(),
    events: sh.EventOptions = sh.EventOptions(),
) -> None:
    """List the items or users most like some items or users.

    Prints the id asked for, rank, id and similarity, separated by tabs.

    rankwright similar shop.rw --item 42 -n 5
    rankwright similar log.csv --user ann

    Args:
        ratings: A table of ratings or events (user, item, time), or a saved recommender (.rw).
        item: The id of an item; may be repeated.
        user: The id of a user; may be repeated.
        n: The number of items or users for each.
        duplicates: Which rating to keep if a user rated an item twice.
    """
    from rankwright.data.vocabulary import find_id

    if not item and not user:
        raise ParameterError("similar: give --item or --user.")
    sh.check_targets(ratings, events.item_features, events.user_features, output=output)
    if ratings.endswith(".rw"):
        model = _load_recommender(ratings)
    else:
        data = events.read(ratings, reading, duplicates)
        untrained = rw.Recommender(event_weights=events.weights(), random_state=random_state)
        with sh.working("learning"):
            model = untrained.fit(data, **events.features())
    known = model.data_
    found = {word: model.similar_items(find_id(word, known.items, "item"), n) for word in item}
    found |= {word: model.similar_users(find_id(word, known.users, "user"), n) for word in user}
    records = {
        word: [{"rank": rank, "id": one[0], "score": one[1]} for rank, one in enumerate(best, 1)]
        for word, best in found.items()
    }
    lines = (
        f"{word}\t{one['rank']}\t{one['id']}\t{one['score']:.6g}\n"
        for word, best in records.items()
        for one in best
    )
    content = {"ratings": ratings, "similar": records}
    sh.write_result([sh.to_json(content)] if json else lines, output)


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
    from rankwright.data.io.trec import read_runs

    lists = read_runs(runs)
    if method == "learned":
        fusion = _fit_fusion(lists, qrels, ranker, set) if model is None else _load_fusion(model)
        if save is not None:
            rw.save(fusion, save)
        fused = fusion.fuse(lists, name=name)
    else:
        fused = rw.fuse(lists, method, norm=norm, weights=weights or None, k=k, name=name)
    about = {"name": name, "method": method} if json else None
    sh.write_ranking(fused.ranking(cutoff), output, name, about)


def _fit_fusion(
    runs: Mapping[str, Run], qrels: Any, ranker: str | None, settings: list[str]
) -> Any:
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
