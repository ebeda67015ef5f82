"""``rankwright recommend``: items for users, from a file of ratings or events."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import DataError, ParameterError


def recommend(
    ratings: str,
    /,
    *,
    user: list[str] = [],  # noqa: B006
    new: list[str] = [],  # noqa: B006
    n: Annotated[opt.Count, Parameter(alias="-n")] = 10,
    explain: bool = False,
    evaluate: Literal["last", "time"] | None = None,
    ranker: str | None = None,
    set: opt.Settings = [],  # noqa: B006
    duplicates: Literal["error", "first", "last", "mean"] = "error",
    random_state: opt.RandomState = 0,
    save: str | None = None,
    output: opt.Output = None,
    json: opt.Json = False,
    reading: opt.RatingsOptions = opt.RatingsOptions(),  # noqa: B008
    events: opt.EventOptions = opt.EventOptions(),  # noqa: B008
) -> None:
    """Recommend items that users have not taken or rated yet.

    Prints user, rank, item, score and, if known, title, separated by tabs.

    rankwright recommend ratings.csv --user 42 -n 5
    rankwright recommend ratings.csv --new "Alien=5" --new "Titanic=1" --explain
    rankwright recommend ratings.csv --save films.rw --user 42
    rankwright recommend films.rw --user 43
    rankwright recommend log.csv --user-column shopper --item-column sku
    rankwright recommend log.csv --item-features catalog.csv --evaluate time
    rankwright recommend log.csv --output lists.parquet

    Parameters
    ----------
    ratings
        MovieLens, Jester, Book-Crossing, a CSV, Parquet or JSONL table of ratings or of events
        (user, item and perhaps a time), or a saved recommender (.rw).
    user
        The id of a user; may be repeated. By default all users, unless --new is given.
    new
        A rating of a new user: --new ITEM=RATING; may be repeated. With events also --new ITEM.
    n
        How many items.
    explain
        Say why each item is recommended.
    evaluate
        Instead of lists print how good they are over the whole catalog (events only): hold out the
        last item of each user, or the last tenth of the time.
    ranker
        Train this ranker for each user; by default a blend of several methods.
    duplicates
        What to do if a user rated an item twice.
    save
        Save the recommender to this file.
    """
    console.check_targets(ratings, save=save, output=console.file_name(output))
    as_table = output is not None and output.endswith((".jsonl", ".parquet")) and not new
    if evaluate is not None:
        _check_evaluate(ratings, user=user, new=new, explain=explain, save=save, output=output)
    if as_table:
        _refuse({"explain": explain}, f"{output} has a column for items and one for scores")
    learner = None if ranker is None else rw.make_ranker(ranker, opt.parse_settings(set))
    features = events.features()
    model = _load(ratings, ranker, features) if ratings.endswith(".rw") else None
    data = events.read(ratings, reading, duplicates) if model is None else model.data_
    console.note(f"{ratings}: {str(data).partition('(')[2].removesuffix(')')}")
    untrained = rw.Recommender(ranker=learner, random_state=random_state)
    if evaluate is not None:
        _evaluate(untrained, data, evaluate, n, json, features)
        return
    given, users = _parse_ratings(new, data), _find_users(user, data)
    if model is None:
        with console.working("learning"):
            model = untrained.fit(data, **features)
    if save is not None:
        rw.save(model, save)
    if as_table:
        model.recommend_all(users or None, n, output=output, progress=sys.stderr.isatty())
        return
    entries = _entries(model, given if new else None, users, n, explain)
    result = [console.to_json({"ratings": ratings, "users": entries})] if json else _lines(entries)
    console.write_result(result, output)


def _check_evaluate(path: str, **others: Any) -> None:
    _refuse(others, "--evaluate prints measures, not lists")
    if path.endswith(".rw"):
        raise ParameterError(
            f"--evaluate: {path} holds each pair of user and item once, so events that were "
            "repeated would look new. Give the file of events instead."
        )


def _find_users(names: list[str], data: Any) -> list[Any]:
    from rankwright.data.vocabulary import find_id

    return [find_id(name, data.users, "user") for name in names]


def _refuse(options: dict[str, Any], reason: str) -> None:
    given = next((name for name, value in options.items() if value), None)
    if given is not None:
        raise ParameterError(f"--{given}: {reason}. Leave one of the two out.")


def _entries(
    model: Any, given: dict[Any, float] | None, users: list[Any], n: int, explain: bool
) -> dict[str, list[dict[str, Any]]]:
    """The lists, by the name of the user."""
    lists: dict[str, tuple[Any, list[Any]]] = {}  # name -> (key of the user, recommendations)
    if given is not None:
        lists["new user"] = given, model.recommend_new(given, n)
    if users or given is None:
        by_user = model.recommend_all(users or None, n)
        lists |= {str(key): (key, items) for key, items in by_user.items()}
    titles = model.titles(item for _, items in lists.values() for item, _ in items)
    return {
        name: [_entry(model, key, rank, r, explain, titles) for rank, r in enumerate(items, 1)]
        for name, (key, items) in lists.items()
    }


def _evaluate(
    model: Any, data: Any, split: str, n: int, json: bool, features: dict[str, Any]
) -> None:
    with console.working("evaluating"):
        report = rw.recommend.evaluate_top_n(model, data, split, n, **features)
    if json:
        measures = {name: vars(estimate) for name, estimate in report.measures.items()}
        console.print_json({"n_users": report.n_users, "measures": measures})
    else:
        print(report)


def _load(path: str, ranker: str | None, features: dict[str, Any]) -> Any:
    model = rw.load(path)
    if not hasattr(model, "recommend"):
        raise DataError(f"{path} holds a {type(model).__name__}, not a recommender.")
    if ranker is not None:
        raise ParameterError(f"--ranker {ranker}: the recommender in {path} is trained already.")
    if features:
        option = next(iter(features)).replace("_", "-")
        raise ParameterError(f"--{option}: the recommender in {path} is trained already.")
    return model


def _entry(
    model: Any, user: Any, rank: int, recommendation: Any, explain: bool, titles: dict[Any, str]
) -> dict[str, Any]:
    more = {"title": titles[recommendation.item]} if recommendation.item in titles else {}
    if explain:
        more["why"] = str(model.explain(user, recommendation.item))
    return {"item": recommendation.item, "rank": rank, "score": recommendation.score, **more}


def _lines(entries: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for user, items in entries.items():
        for entry in items:
            title = f"\t{entry['title']}" if "title" in entry else ""
            yield f"{user}\t{entry['rank']}\t{entry['item']}\t{entry['score']:.6g}{title}\n"
            yield from (f"    {line}\n" for line in entry.get("why", "").splitlines())


def _parse_ratings(words: list[str], data: Any) -> dict[Any, float]:
    from rankwright.data.vocabulary import find_id

    ratings = {}
    for word in words:
        if isinstance(data, rw.Interactions) and "=" not in word:
            word += "=1"
        item, equals, text = word.rpartition("=")
        try:
            value = float(text) if equals else math.nan
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise ParameterError(f"--new {word}: write ITEM=RATING, such as --new 1193=5.")
        ratings[find_id(item, data.items, "item")] = value
    return ratings
