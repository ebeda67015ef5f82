"""Ratings in tables whose columns have names or places: CSV of any separator, and Parquet."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import numpy as np

from rankwright.data.fields import (
    Fields,
    is_number,
    likely_separator,
    parse_csv,
    quoted_rows,
)
from rankwright.data.frames import read_parquet
from rankwright.data.numeric import parse_numeric
from rankwright.data.ratings import Ratings, first_twice, settle_duplicates
from rankwright.data.ratings_columns import usual_place
from rankwright.data.text import Text
from rankwright.data.vocabulary import encode
from rankwright.exceptions import DataError, ParameterError

__all__ = ["read_csv_ratings", "read_parquet_ratings", "settle_in_file"]

Column = str | int | None


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
    text.decode()  # a byte of another encoding is refused before anything else
    separator = separator or likely_separator(text)
    if separator is None:
        text.refuse(1, 1, "no comma, semicolon, tab or bar between fields", "give separator=...")
    first = _first_row(text, separator)
    chosen = {"user": user, "item": item, "value": value, "time": time}
    header = _header(first, chosen)
    places = _places(header or len(first), chosen, text.path)
    ratings = _read_fast(text, separator, len(first), places, header is not None)
    if ratings is not None and (duplicates != "error" or first_twice(ratings) is None):
        return settle_duplicates(ratings, duplicates)
    return _read_exactly(text, separator, places, header is not None, duplicates)


def _first_row(text: Text, separator: str) -> list[str]:
    """The first line that is not blank, as fields (quotes may hold a line end)."""
    if b'"' in text.data:
        return next(quoted_rows(text, separator))[0]
    line = re.search(rb"[^\n]*\S[^\n]*", text.data)
    assert line is not None  # read_text refuses an empty file
    return line[0].decode(text.encoding).split(separator)


def _read_fast(
    text: Text, separator: str, n_fields: int, places: dict[str, int], has_header: bool
) -> Ratings | None:
    """A table of nothing but numbers, ids written as numbers are written; else None."""
    body = text.data.split(b"\n", 1)[-1] if has_header else text.data
    if b'"' in text.data or b" " in body or text.data[:1] == b"\n":
        return None
    if _has_odd_numbers(body, separator.encode()):
        return None
    ids = (places["user"], places["item"])
    dtype = [(f"f{k}", np.int64 if k in ids else np.float64) for k in range(n_fields)]
    rows = parse_numeric(text, separator, dtype, n_header=int(has_header))
    if rows is None or any(np.abs(rows[f"f{k}"]).max() >= 10**18 for k in ids):
        return None
    numbers = [rows[f"f{places[role]}"] for role in ("value", "time") if role in places]
    if not all(np.isfinite(column).all() for column in numbers):
        return None
    user, users = encode(rows[f"f{ids[0]}"])
    item, items = encode(rows[f"f{ids[1]}"])
    return Ratings(users, items, user, item, *(np.ascontiguousarray(c) for c in numbers))


def _has_odd_numbers(body: bytes, separator: bytes) -> bool:
    """Whether a field reads 007, +7 or -0: as a number it would not read back as it was written."""
    leads = [before + sign for before in (b"\n", separator) for sign in (b"+", b"0", b"-0")]
    body = b"\n" + body
    if not any(lead in body for lead in leads):  # far faster than the pattern
        return False
    return bool(re.search(rb"[\n" + re.escape(separator) + rb"](?:\+|0\d|-0(?!\.))", body))


def _read_exactly(
    text: Text, separator: str, places: dict[str, int], has_header: bool, duplicates: str
) -> Ratings:
    """Any table, field by field, so that what is wrong has a line and a column."""
    fields = parse_csv(text, separator, "the same columns as line 1")
    if has_header:
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


def _header(first: list[str], chosen: dict[str, Column]) -> list[str] | None:
    """The names in the first row, or None where that is a rating already."""
    if any(isinstance(column, str) for column in chosen.values()):
        return first
    if usual_place("value", first) is not None:
        return first
    place = chosen["value"] if isinstance(chosen["value"], int) else 2
    return None if place < len(first) and is_number(first[place]) else first


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
        return usual_place(role, names)
    return at if at < n_columns else None
