"""Ratings from a file, with the options that name its columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cyclopts import Group, Parameter

import rankwright as rw
from rankwright.cli.files.formats import tell_format
from rankwright.cli.files.items import TableOptions, first_line
from rankwright.exceptions import DataError, FileFormatError, ParameterError

# What Python code would be told -> what to do at a shell.
FIXES = {
    "separator=": "ratings are lines such as user,item,rating; or say --ratings-format",
    "duplicates=": "remove one, or say which counts: --duplicates first, last or mean",
}
COLUMNS = "Name the columns with --user-column, --item-column and --rating-column."
WORDS = {
    r"Give \w+=(name or place|, item=, value=)\.": COLUMNS,
    r'format="(\w+)"': r"--ratings-format \1",
    r'Say which counts: .*"keep" for both\.': "Say which counts: --duplicates first, last or mean.",
}


@Parameter(name="*", group=Group("How to read ratings", sort_key=11))
@dataclass(frozen=True)
class RatingsOptions:
    """How to read ratings.

    Parameters
    ----------
    ratings_format
        movielens-1m, movielens-100k, jester, book-crossing, netflix, csv or parquet, where the
        content does not tell.
    user_column
        Column of the user in a table of ratings, by name or place from 0 (by default a usual name:
        user, user id, customer, reviewer).
    item_column
        Column of the item (item, item id, movie, film, product, book, isbn).
    rating_column
        Column of the rating (rating, value, score, stars, points).
    """

    ratings_format: str | None = None
    user_column: str | None = None
    item_column: str | None = None
    rating_column: str | None = None

    def columns(self) -> dict[str, Any]:
        """The columns that are named, as ``rankwright.read_ratings`` calls them."""
        given = {"user": self.user_column, "item": self.item_column, "value": self.rating_column}
        return {
            role: int(column) if column.isdigit() else column
            for role, column in given.items()
            if column is not None
        }


def read_ratings(path: str, options: RatingsOptions, duplicates: str = "keep") -> rw.Ratings:
    """Ratings; advice that names arguments of a Python function is said with options instead."""
    columns, named = options.columns(), options.ratings_format
    if columns and named not in (None, "csv", "parquet"):
        raise ParameterError(f"--ratings-format {named} has columns of its own: name no others.")
    try:
        return rw.read_ratings(path, named, duplicates=duplicates, **columns)
    except FileFormatError as error:
        fix = next((said for python, said in FIXES.items() if python in error.fix), error.fix)
        parts = (error.path, error.line, error.column, error.reason, error.text)
        raise FileFormatError(*parts, fix) from None
    except DataError as error:
        words = str(error)
        for python, said in WORDS.items():
            words = re.sub(python, said, words)
        raise DataError(words) from None


def tell_kind(path: str, table: TableOptions, reading: RatingsOptions) -> str:
    """The kind of a file, where it may hold ratings as well as items."""
    kind = tell_format(path, table.read_as)
    if reading != RatingsOptions() or (table == TableOptions() and _is_of_ratings(path, kind)):
        return "ratings"
    return kind


def _is_of_ratings(path: str, kind: str) -> bool:
    """Whether a table has columns of user, item and rating, and nothing else but a time.

    As items it would have no features worth the name.
    """
    from rankwright.data.ratings import usual_place

    if kind not in ("csv", "tsv"):
        return False
    try:
        names = first_line(path, "\t" if kind == "tsv" else None)
    except DataError:  # a damaged file: its reader says so
        return False
    places = {role: usual_place(role, names) for role in ("user", "item", "value", "time")}
    needed = [places[role] for role in ("user", "item", "value")]
    return None not in needed and set(places.values()) - {None} == set(range(len(names)))
