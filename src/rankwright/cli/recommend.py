"""``rankwright recommend``: items for users, from a file of ratings."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import as_json, note, working
from rankwright.cli.files.pipes import at_hand, check_targets, write_answer
from rankwright.cli.files.ratings import RatingsOptions, read_ratings
from rankwright.cli.options import at_least, check_seed
from rankwright.cli.settings import make_ranker, parse_settings, parse_value
from rankwright.cli.training import warn_of_compiling
from rankwright.exceptions import DataError, ParameterError


def recommend(
    ratings: str,
    /,
    *,
    user: list[str] = [],  # noqa: B006
    new: list[str] = [],  # noqa: B006
    n: Annotated[int, Parameter(alias="-n")] = 10,
    explain: bool = False,
    ranker: str | None = None,
    set: list[str] = [],  # noqa: B006
    duplicates: str = "error",
    seed: int = 0,
    save: str | None = None,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    json: bool = False,
    reading: RatingsOptions = RatingsOptions(),  # noqa: B008
) -> None:
    """Recommend items that users have not rated yet.

    Prints user, place, item and score, separated by tabs.

    ```text
    rankwright recommend ratings.csv --user 42 -n 5
    rankwright recommend ratings.csv --new "Alien=5" --new "Titanic=1" --explain
    rankwright recommend ratings.csv --save films.rw --user 42
    rankwright recommend films.rw --user 43
    rankwright recommend log.csv --user-column shopper --item-column sku
    ```

    Parameters
    ----------
    ratings
        A file of ratings: MovieLens, Jester, Book-Crossing, or a CSV or Parquet table with
        columns such as user, item, rating (- is standard input). Or a recommender that --save
        wrote (its name ends in .rw): nothing is learned anew.
    user
        The id of a user of the data; may be repeated. All users when neither this nor --new is
        given.
    new
        What somebody new thinks: --new ITEM=RATING; may be repeated.
    n
        How many items.
    explain
        Say why each item is recommended.
    ranker
        Learn a ranking problem for each user with this ranker; by default a blend of several
        methods.
    set
        A parameter of that ranker: --set n_estimators=50; may be repeated.
    duplicates
        What to do where a user rated an item twice: error, first, last, mean.
    seed
        Seeds what is random.
    save
        Keep what was learned in this file.
    output
        Write to this file instead of standard output.
    json
        A JSON object of lists instead of lines.
    """
    at_least(1, n=n)
    check_seed(seed)
    check_targets(save=save)
    learner = None if ranker is None else make_ranker(ranker, dict(parse_settings(set)))
    with at_hand(ratings) as local:
        model = _saved(local, ranker) if ratings.endswith(".rw") else None
        data = read_ratings(local, reading, duplicates) if model is None else model.ratings_
    note(f"{ratings}: {str(data).removeprefix('Ratings(').removesuffix(')')}")
    given = _ratings_of(new, data)
    wanted = [_id(word, data.users, "user") for word in user]
    if model is None:
        model = _learned(data, learner, seed)
    if save is not None:
        rw.save(model, save)
    lists: dict[str, list[Any]] = {}
    reasons: dict[str, Any] = {}
    if new:
        reasons["new user"] = given
        lists["new user"] = model.recommend_new(given, n)
    if wanted or not new:
        for key, found in model.recommend_all(n, wanted or None).items():
            reasons[str(key)], lists[str(key)] = key, found
    why = {
        who: [str(model.explain(reasons[who], each.item)) for each in found]
        for who, found in (lists.items() if explain else ())
    }
    write_answer([as_json(_as_dict(ratings, lists, why))] if json else _lines(lists, why), output)


def _learned(data: rw.Ratings, learner: Any, seed: int) -> Any:
    warn_of_compiling()
    with working("learning"):
        return rw.Recommender(ranker=learner, random_state=seed).fit(data)


def _saved(path: str, ranker: str | None) -> Any:
    model = rw.load(path)
    if not hasattr(model, "recommend"):
        raise DataError(f"{path} holds a {type(model).__name__}, not a recommender.")
    if ranker is not None:
        raise ParameterError(f"--ranker {ranker}: the recommender in {path} has learned already.")
    return model


def _lines(lists: dict[str, list[Any]], why: dict[str, list[str]]) -> Any:
    for who, found in lists.items():
        for place, each in enumerate(found, 1):
            yield f"{who}\t{place}\t{each.item}\t{each.score:.6g}\n"
            if who in why:
                yield "".join(f"    {line}\n" for line in why[who][place - 1].splitlines())


def _as_dict(path: str, lists: dict[str, list[Any]], why: dict[str, list[str]]) -> dict[str, Any]:
    def entry(who: str, place: int, each: Any) -> dict[str, Any]:
        reason = {"why": why[who][place]} if who in why else {}
        return {"item": each.item, "rank": place + 1, "score": each.score, **reason}

    users = {
        who: [entry(who, place, each) for place, each in enumerate(found)]
        for who, found in lists.items()
    }
    return {"ratings": path, "users": users}


def _ratings_of(words: list[str], data: rw.Ratings) -> dict[Any, float]:
    given = {}
    for word in words:
        item, equals, text = word.rpartition("=")
        value = parse_value(text)
        if not equals or isinstance(value, bool) or not isinstance(value, int | float):
            raise ParameterError(f"--new {word}: write ITEM=RATING, such as --new 1193=5.")
        given[_id(item, data.items, "item")] = float(value)
    return given


def _id(word: str, known: Any, what: str) -> Any:
    """An id as the data write it: a number or a text."""
    kind = known.dtype.kind
    key: Any = int(word) if kind in "iu" and word.removeprefix("-").isdigit() else word
    if not (known == key).any():
        near = get_close_matches(word, [str(each) for each in known.tolist()], 3)
        hint = f" Near it: {', '.join(near)}." if near else f" One of them is {known[0]!r}."
        raise DataError(f"{what} {word!r} is not among the {len(known):,} of the ratings.{hint}")
    return key
