"""The formats of named sets of ratings, each fast where nothing is wrong and exact where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.fields import Fields, split_fields
from rankwright.data.numeric import parse_numeric
from rankwright.data.ratings import Ratings, first_twice, settle_duplicates
from rankwright.data.ratings_tables import settle_in_file
from rankwright.data.text import Text
from rankwright.data.vocabulary import encode
from rankwright.exceptions import FileFormatError

__all__ = ["NAMED_FORMATS"]

_UNRATED = 99.0  # Jester's mark


@dataclass(frozen=True)
class _Layout:
    """Fields of whole-number ids and a rating, one rating a line."""

    separator: str
    columns: tuple[str, ...]
    scale: tuple[float, float]
    words: str

    @property
    def dtype(self) -> list[tuple[str, type]]:
        return [(name, np.float64 if name == "value" else np.int64) for name in self.columns]


_MOVIELENS = ("user", "item", "value", "time")
_LAYOUTS = {
    "movielens-1m": _Layout("::", _MOVIELENS, (0.5, 5), "user::movie::rating::time"),
    "movielens-100k": _Layout(
        "\t", _MOVIELENS, (0.5, 5), "user, item, rating, time, with tabs between"
    ),
    "netflix": _Layout(",", ("item", "user", "value"), (1, 5), "movie,customer,rating"),
}


def _read_layout(layout: _Layout, text: Text, duplicates: str) -> Ratings:
    """The fast way where nothing is wrong; else line by line, to name the line."""
    rows = _parse_fast(text, layout)
    if rows is not None:
        ratings = _from_rows(rows)
        if duplicates != "error" or first_twice(ratings) is None:
            return settle_duplicates(ratings, duplicates)
    return _parse_exactly(text, layout, duplicates)


def _parse_fast(text: Text, layout: _Layout) -> NDArray[Any] | None:
    """All rows by NumPy's own parser, or None where something is not as it should be."""
    rows = parse_numeric(text, layout.separator, layout.dtype)
    if rows is None:
        return None
    low, high = layout.scale
    within = (rows["value"] >= low) & (rows["value"] <= high)  # NaN is not
    return rows if within.all() else None


def _parse_exactly(text: Text, layout: _Layout, duplicates: str) -> Ratings:
    fields = split_fields(text, layout.separator, len(layout.columns), layout.words)
    rows = np.empty(fields.n_rows, layout.dtype)
    for place, name in enumerate(layout.columns):
        rows[name] = fields.numbers(place, _WORDS[name], integer=name != "value")
    places = {name: place for place, name in enumerate(layout.columns)}
    _refuse_outside(fields, places["value"], rows["value"], layout.scale)
    return settle_in_file(_from_rows(rows), fields, places["item"], duplicates)


_WORDS = {"user": "user", "item": "item", "value": "rating", "time": "time"}


def _from_rows(rows: NDArray[Any]) -> Ratings:
    user, users = encode(rows["user"])
    item, items = encode(rows["item"])
    time = rows["time"].astype(np.float64) if "time" in (rows.dtype.names or ()) else None
    return Ratings(users, items, user, item, np.ascontiguousarray(rows["value"]), time)


def _refuse_outside(
    fields: Fields, field: int, value: NDArray[np.float64], scale: tuple[float, float]
) -> None:
    low, high = scale
    outside = (value < low) | (value > high)
    if outside.any():
        row = int(np.argmax(outside))
        reason = f"rating {value[row]:g} is outside {low:g} .. {high:g}"
        fields.refuse(row, field, reason, "correct it, or read a scale of your own as csv")


def _read_jester(text: Text, duplicates: str) -> Ratings:
    """A line per user: the number rated, then every joke. Users and jokes count from 1."""
    table = _parse_dense(text)
    user, item = np.nonzero(table[:, 1:] != _UNRATED)
    n_users, n_items = len(table), table.shape[1] - 1
    value = table[:, 1:][user, item]
    return Ratings(np.arange(1, n_users + 1), np.arange(1, n_items + 1), user, item, value)


def _parse_dense(text: Text) -> NDArray[np.float64]:
    fast = parse_numeric(text, ",", np.float64, ndmin=2)
    if fast is not None and not _wrong_counts(fast).any() and not _outside(fast).any():
        return fast
    n_fields = text.data.lstrip().split(b"\n", 1)[0].count(b",") + 1
    fields = split_fields(
        text, ",", n_fields, "the number of jokes rated, then each joke, 99 = unrated"
    )
    columns = [fields.numbers(0, "number rated", integer=True)]
    columns += [fields.numbers(joke, f"rating of joke {joke}") for joke in range(1, n_fields)]
    table = np.column_stack(columns).astype(np.float64)
    if _outside(table).any():
        row, joke = np.argwhere(_outside(table))[0]
        reason = f"rating {table[row, joke + 1]:g} is outside -10 .. 10"
        fields.refuse(int(row), int(joke) + 1, reason, "correct it, or write 99 for not rated")
    if _wrong_counts(table).any():
        row = int(np.argmax(_wrong_counts(table)))
        found = int((table[row, 1:] != _UNRATED).sum())
        reason = f"the line says {table[row, 0]:g} jokes were rated, and holds {found} ratings"
        fields.refuse(row, 0, reason, "restore the line from the source")
    return table


def _outside(table: NDArray[np.float64]) -> NDArray[np.bool_]:
    jokes = table[:, 1:]
    return np.asarray(~((np.abs(jokes) <= 10) | (jokes == _UNRATED)))


def _wrong_counts(table: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(table[:, 0] != (table[:, 1:] != _UNRATED).sum(axis=1))


def _read_book_crossing(text: Text, duplicates: str) -> Ratings:
    """Every field in quotes, quotes inside a field after a backslash, latin-1, with a header."""
    text = replace(text, encoding="latin-1")
    words = '"user";"ISBN";"rating"'
    lines = text.data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip() and not (len(line) > 1 and line[:1] == line[-1:] == b'"'):
            text.refuse(number, 1, "the line is not in quotes", f"a line holds: {words}")
    bare = replace(text, data=b"\n".join([line[1:-1] for line in lines]))
    try:
        split = split_fields(bare, '";"', 3, words)
    except FileFormatError as error:
        text.refuse(error.line, error.column + 1, error.reason, error.fix)
    fields = replace(split, text=text).after_header()
    value = fields.numbers(2, "rating", integer=True).astype(np.float64)
    _refuse_outside(fields, 2, value, (0, 10))
    user, users = fields.encode(0, "user")
    item, items = fields.encode(1, "ISBN", as_text=True)
    items = np.array([isbn.replace('\\"', '"') for isbn in items], dtype=object)
    return settle_in_file(Ratings(users, items, user, item, value), fields, 1, duplicates)


NAMED_FORMATS: dict[str, Callable[[Text, str], Ratings]] = {
    **{name: partial(_read_layout, layout) for name, layout in _LAYOUTS.items()},
    "jester": _read_jester,
    "book-crossing": _read_book_crossing,
}
