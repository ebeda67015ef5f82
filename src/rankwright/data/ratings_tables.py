"""Ratings in tables whose columns have names or places: CSV of any separator, and Parquet."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from rankwright.data.fields import Fields, likely_separator, parse_csv
from rankwright.data.frames import read_parquet
from rankwright.data.ratings import Ratings, first_twice, settle_duplicates
from rankwright.data.text import Text
from rankwright.exceptions import DataError, ParameterError

__all__ = ["read_csv_ratings", "read_parquet_ratings", "settle_in_file"]

Column = str | int | None

# Names as they are commonly written, in lower case and without signs between the words.
_USUAL_NAMES = {
    "user": ("user", "userid", "uid", "customer", "customerid", "reviewer", "reviewerid"),
    "item": (
        *("item", "itemid", "iid", "movie", "movieid", "film", "filmid", "product", "productid"),
        *("book", "bookid", "isbn", "asin", "joke", "jokeid"),
    ),
    "value": ("value", "rating", "score", "stars", "points", "bookrating", "overall"),
    "time": ("time", "timestamp", "unixreviewtime"),
}


def read_csv_ratings(
    text: Text,
    duplicates: str = "error",
    *,
    user: Column = None,
    item: Column = None,
    value: Column = None,
    time: Column = None,
    separator: str | None = None,
) -> Ratings:
    """Ratings from lines with a separator; see :func:`rankwright.read_ratings`."""
    if separator is not None and len(separator) != 1:
        raise ParameterError(f"separator={separator!r}: give one character.")
    separator = separator or likely_separator(text)
    if separator is None:
        text.refuse(1, 1, "no comma, semicolon, tab or bar between fields", "give separator=...")
    fields = parse_csv(text, separator, "the same columns as line 1")
    chosen = {"user": user, "item": item, "value": value, "time": time}
    header = _header(fields, chosen)
    places = _places(header or fields.n_fields, chosen, text.path)
    if header:
        fields = fields.after_header()
    if fields.n_rows == 0:
        text.refuse(2, 1, "no line after the header", "give a file with at least one rating")
    points = fields.numbers(places["value"], "value")
    when = fields.numbers(places["time"], "time") if "time" in places else None
    user_number, users = fields.encode(places["user"], "user")
    item_number, items = fields.encode(places["item"], "item")
    ratings = Ratings(users, items, user_number, item_number, points, when)
    return settle_in_file(ratings, fields, places["item"], duplicates)


def read_parquet_ratings(
    path: str | os.PathLike[str],
    duplicates: str = "error",
    *,
    user: Column = None,
    item: Column = None,
    value: Column = None,
    time: Column = None,
) -> Ratings:
    """Ratings from a Parquet file; see :func:`rankwright.read_ratings`."""
    table = read_parquet(path)
    chosen = {"user": user, "item": item, "value": value, "time": time}
    places = _places(list(table), chosen, os.fspath(path))
    columns = {name: list(table.values())[place] for name, place in places.items()}
    return Ratings.from_arrays(**columns, duplicates=duplicates)


def settle_in_file(ratings: Ratings, fields: Fields, item_field: int, duplicates: str) -> Ratings:
    """Apply the rule for duplicates; as an error it names the line."""
    twice = first_twice(ratings) if duplicates == "error" else None
    if twice is not None:
        row, earlier = twice
        who, what = ratings.users[ratings.user[row]], ratings.items[ratings.item[row]]
        fields.refuse(
            row,
            item_field,
            f"user {who} rated item {what} in line {fields.lines[earlier]} already",
            'remove one, or say which counts: duplicates="first", "last", "mean" or "keep"',
        )
    return settle_duplicates(ratings, duplicates)


def _header(fields: Fields, chosen: dict[str, Column]) -> list[str] | None:
    """The names in the first row, or None where that is a rating already."""
    first = fields.tokens[: fields.n_fields]
    if any(isinstance(column, str) for column in chosen.values()):
        return first
    place = chosen["value"] if isinstance(chosen["value"], int) else min(2, len(first) - 1)
    try:
        float(first[place])
    except (ValueError, IndexError):
        return first
    # A header may name another column by a number, but never the column of values.
    return first if _usual_place("value", first) is not None else None


def _places(header: Sequence[str] | int, chosen: dict[str, Column], path: str) -> dict[str, int]:
    """Where user, item, value and perhaps time stand."""
    names = [] if isinstance(header, int) else list(header)
    n_columns = header if isinstance(header, int) else len(header)
    places: dict[str, int] = {}
    for at, (role, column) in enumerate(chosen.items()):
        place = _place(role, column, names, at, n_columns)
        if place is not None:
            places[role] = place
        elif role != "time" or column is not None:
            wanted = repr(column) if column is not None else f"for the {role}"
            found = ", ".join(names) if names else f"{n_columns} without names"
            raise DataError(f"{path}: no column {wanted} among {found}. Give {role}=name or place.")
    if len(set(places.values())) < len(places):
        raise DataError(f"{path}: one column cannot be two of {places}. Give user=, item=, value=.")
    return places


def _place(role: str, column: Column, names: list[str], at: int, n_columns: int) -> int | None:
    if isinstance(column, str):
        return names.index(column) if column in names else None
    if column is not None:
        return column if 0 <= column < n_columns else None
    if names:
        return _usual_place(role, names)
    return at if at < n_columns else None


def _usual_place(role: str, names: Sequence[str]) -> int | None:
    plain = [re.sub(r"[^a-z]", "", name.lower()) for name in names]
    return next((plain.index(name) for name in _USUAL_NAMES[role] if name in plain), None)
