"""``rankwright recommend``: items for users, from a file of ratings or events."""

from __future__ import annotations

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

    Args:
        ratings: MovieLens, Jester, Book-Crossing, a CSV, Parquet or JSONL table of ratings or of
            events (user, item and perhaps a time), or a saved recommender (.rw).
        user: The id of a user; may be repeated. By default all users, unless --new is given.
        new: A rating of a new user: --new ITEM=RATING, with events --new ITEM; may be repeated.
        n: How many items.
        explain: Say why each item is recommended.
        evaluate: Instead of lists print how good they are over the whole catalog (events only):
            hold out the last item of each user, or the last tenth of the time.
        ranker: Train this ranker for each user; by default a blend of several methods.
        duplicates: What to do if a user rated an item twice.
        save: Save the recommender to this file.
    """
    from rankwright.data.vocabulary import find_id, parse_ratings
    from rankwright.selection.by_name import parse_settings

    sources = (ratings, events.item_features, events.user_features)
    console.check_targets(*sources, save=save, output=console.file_name(output))
    as_table = output is not None and output.endswith((".jsonl", ".parquet")) and not new
    if evaluate is not None:
        lists = {"--user": user, "--new": new, "--explain": explain, "--save": save}
        why = "with --evaluate, which prints measures and no lists. Leave one of the two out."
        opt.refuse(why, lists | {"--output": output})
    if as_table:
        opt.refuse(f"with {output}, which has no column for reasons.", {"--explain": explain})
    learner = None if ranker is None else rw.make_ranker(ranker, parse_settings(set))
    model = _load(ratings, evaluate, ranker, events) if ratings.endswith(".rw") else None
    features = events.features()
    data = events.read(ratings, reading, duplicates) if model is None else model.data_
    console.note_content(ratings, data)
    untrained = rw.Recommender(ranker=learner, random_state=random_state)
    if evaluate is not None:
        with console.working("evaluating"):
            report = rw.recommend.evaluate_top_n(untrained, data, evaluate, n, **features)
        measures = {name: vars(estimate) for name, estimate in report.measures.items()}
        console.answer(json, report, {"n_users": report.n_users, "measures": measures})
        return
    default = 1.0 if isinstance(data, rw.Interactions) else None
    given = parse_ratings(new, data.items, default)
    users = [find_id(name, data.users, "user") for name in user]
    if model is None:
        with console.working("learning"):
            model = untrained.fit(data, **features)
    if save is not None:
        rw.save(model, save)
    if as_table:
        model.recommend_all(users or None, n, output=output, progress=sys.stderr.isatty())
        return
    entries = _entries(model, given if new else None, users, n, explain)
    content = {"ratings": ratings, "users": entries}
    console.write_result([console.to_json(content)] if json else _lines(entries), output)


def _load(path: str, evaluate: str | None, ranker: str | None, events: opt.EventOptions) -> Any:
    """A saved recommender; options that would train another one are refused."""
    if evaluate is not None:
        raise ParameterError(
            f"--evaluate: {path} holds each pair of user and item once, so events that were "
            "repeated would look new. Give the file of events instead."
        )
    tables = {"--item-features": events.item_features, "--user-features": events.user_features}
    why = f"with {path}, which is trained already. Leave it out."
    opt.refuse(why, {"--ranker": ranker, **tables})
    model = rw.load(path)
    if not hasattr(model, "recommend"):
        raise DataError(f"{path} holds a {type(model).__name__}, not a recommender.")
    return model


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
    entries: dict[str, list[dict[str, Any]]] = {}
    for name, (key, items) in lists.items():
        entries[name] = [
            {"item": item, "rank": rank, "score": score}
            | ({"title": titles[item]} if item in titles else {})
            | ({"why": str(model.explain(key, item))} if explain else {})
            for rank, (item, score) in enumerate(items, 1)
        ]
    return entries


def _lines(entries: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for user, items in entries.items():
        for entry in items:
            title = f"\t{entry['title']}" if "title" in entry else ""
            yield f"{user}\t{entry['rank']}\t{entry['item']}\t{entry['score']:.6g}{title}\n"
            yield from (f"    {line}\n" for line in entry.get("why", "").splitlines())
