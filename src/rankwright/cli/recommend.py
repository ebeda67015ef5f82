"""``rankwright recommend``: items for users, from a file of ratings."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from rankwright.cli.console import note, print_json, working
from rankwright.cli.files import at_hand, write_text
from rankwright.cli.settings import make_ranker, parse_settings, parse_value
from rankwright.data.ratings import Ratings
from rankwright.data.ratings_files import read_ratings
from rankwright.exceptions import DataError, ParameterError

__all__ = ["recommend"]


def recommend(
    ratings: str,
    /,
    *,
    user: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006
    new: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006
    n: Annotated[int, Parameter(alias="-n")] = 10,
    explain: Annotated[bool, Parameter(negative="")] = False,
    ranker: str | None = None,
    set: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006
    ratings_format: str | None = None,
    duplicates: str = "error",
    seed: int = 0,
    output: Annotated[str | None, Parameter(alias="-o")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Recommend items that users have not rated yet.

    Prints user, place, item and score, separated by tabs.

    Parameters
    ----------
    ratings
        A file of ratings: MovieLens, Jester, Book-Crossing, or a CSV or Parquet table with
        columns such as user, item, rating (- is standard input).
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
        A parameter of that ranker: --set n_rounds=50; may be repeated.
    ratings_format
        movielens-1m, movielens-100k, jester, book-crossing, netflix, csv or parquet, where the
        content does not tell.
    duplicates
        What to do where a user rated an item twice: error, first, last, mean.
    seed
        Seeds what is random.
    output
        Write to this file instead of standard output.
    json
        A JSON object of lists instead of lines.
    """
    if n < 1:
        raise ParameterError(f"-n {n}: it must be at least 1.")
    learner = None if ranker is None else make_ranker(ranker, dict(parse_settings(set)))
    with at_hand(ratings) as local:
        data = read_ratings(local, ratings_format, duplicates=duplicates)
    note(f"{ratings}: {data}")
    from rankwright.recommend.recommender import Recommender

    with working("learning"):
        model = Recommender(ranker=learner, random_state=seed).fit(data)
    lists: dict[str, list[Any]] = {}
    reasons: dict[str, Any] = {}
    if new:
        given = _ratings_of(new, data)
        reasons["new user"] = given
        lists["new user"] = model.recommend_new(given, n)
    wanted = [_id(word, data.users, "user") for word in user]
    if wanted or not new:
        for key, found in model.recommend_all(n, wanted or None).items():
            reasons[str(key)], lists[str(key)] = key, found
    why = {
        who: [str(model.explain(reasons[who], each.item)) for each in found]
        for who, found in (lists.items() if explain else ())
    }
    if json:
        print_json(_as_dict(ratings, lists, why))
    else:
        write_text(_lines(lists, why), output)


def _lines(lists: dict[str, list[Any]], why: dict[str, list[str]]) -> Any:
    for who, found in lists.items():
        for place, each in enumerate(found, 1):
            yield f"{who}\t{place}\t{each.item}\t{each.score:.6g}\n"
            if who in why:
                yield "".join(f"    {line}\n" for line in why[who][place - 1].splitlines())


def _as_dict(path: str, lists: dict[str, list[Any]], why: dict[str, list[str]]) -> dict[str, Any]:
    def entry(who: str, place: int, each: Any) -> dict[str, Any]:
        reason = {"why": why[who][place]} if who in why else {}
        return {"item": each.item, "score": each.score, **reason}

    users = {
        who: [entry(who, place, each) for place, each in enumerate(found)]
        for who, found in lists.items()
    }
    return {"ratings": path, "users": users}


def _ratings_of(words: list[str], data: Ratings) -> dict[Any, float]:
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
        raise DataError(f"{what} {word!r} is not among the {len(known):,} of the ratings.")
    return key
