"""Files of ratings: MovieLens, Jester, Book-Crossing, Netflix, and any CSV or Parquet table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.frames import read_parquet
from rankwright.data.io.fields import (
    Fields,
    is_number,
    likely_separator,
    parse_csv,
    parse_numeric,
    quoted_rows,
    split_fields,
)
from rankwright.data.io.files import Text, read_text
from rankwright.data.ratings import (
    DUPLICATES,
    Ratings,
    first_twice,
    resolve_duplicates,
    usual_place,
)
from rankwright.data.vocabulary import encode
from rankwright.exceptions import DataError, FileFormatError, ParameterError

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
        return resolve_duplicates(ratings, duplicates)
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
    return resolve_duplicates(ratings, duplicates)


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
            return resolve_duplicates(ratings, duplicates)
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


def read_ratings(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    duplicates: str = "error",
    implicit: bool = False,
    **columns: Any,
) -> Ratings:
    """Read a file of ratings, gzipped or not.

    Parameters
    ----------
    path : path
    format : str or None
        None tells the format by its content; else one of

        ==================  =====================================================================
        ``movielens-1m``    ``user::movie::rating::time`` (also MovieLens 10M)
        ``movielens-100k``  the same, separated by tabs
        ``jester``          a line per user: how many were rated, then each joke; 99 = not rated
        ``book-crossing``   ``"user";"ISBN";"rating"`` with a header, latin-1; 0 = implicit
        ``netflix``         ``movie,customer,rating``
        ``csv``             any table with a separator; see ``columns``
        ``parquet``         any Parquet table; see ``columns``
        ==================  =====================================================================
    duplicates : {"error", "first", "last", "mean", "keep"}, default="error"
        What to do where a user rated an item more than once.
    implicit : bool, default=False
        Keep Book-Crossing's ratings of 0, which say "came across it" and are no points.
    **columns
        For ``csv`` and ``parquet``: ``user``, ``item``, ``value``, ``time``, each the name of a
        column or its place (from 0). Left out, the usual names are looked for (``userId``,
        ``movie_id``, ``rating``, ``timestamp`` and so on); a CSV file without a header holds user,
        item, value and perhaps time. For ``csv`` also ``separator`` and ``encoding``.

    Returns
    -------
    ratings : Ratings
        Whole-number ids are int64, others text, in order of first appearance.

    Raises
    ------
    FileFormatError
        With file, line, column, reason and fix, for the first line that is not as it should be:
        another number of fields, an id or value missing or not a number, a value outside the
        scale of the named data set, a pair of user and item that came before.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ratings.dat"
    >>> _ = path.write_text("1::1193::5::978300760\\n1::661::3::978302109\\n")
    >>> read_ratings(path)
    Ratings(2 ratings, 1 users, 2 items, values 3 to 5)
    """
    if duplicates not in DUPLICATES:
        raise ParameterError(f"duplicates={duplicates!r}: use one of {', '.join(DUPLICATES)}.")
    if format == "parquet" or (format is None and _is_parquet(path)):
        return read_parquet_ratings(path, duplicates, **columns)
    text = read_text(path, columns.pop("encoding", "utf-8"))
    format = format or _told_by_content(text, columns)
    if format == "csv":
        return read_csv_ratings(text, duplicates, **columns)
    if format not in NAMED_FORMATS:
        known = ", ".join([*NAMED_FORMATS, "csv", "parquet"])
        raise ParameterError(f"read_ratings(format={format!r}): use one of {known}.")
    if columns:
        raise ParameterError(f"{', '.join(columns)}: there is no choice of it in {format!r}.")
    ratings = NAMED_FORMATS[format](text, duplicates)
    if format == "book-crossing" and not implicit:
        return ratings.take(ratings.value > 0).compact()
    return ratings


def _is_parquet(path: str | os.PathLike[str]) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _told_by_content(text: Text, columns: dict[str, Any]) -> str:
    """The format, from the first line that is not blank."""
    line = text.data.lstrip().split(b"\n", 1)[0].strip()
    number = rb"\s*[+-]?[\d.]+\s*"
    signs = {
        "movielens-1m": number + rb"(::" + number + rb"){3}",
        "movielens-100k": rb"\d+(\t\d+){3}",
        "book-crossing": rb'"User-ID";"ISBN";"Book-Rating"',
        "jester": number + rb"(," + number + rb"){100}",
    }
    found = next((name for name, sign in signs.items() if re.fullmatch(sign, line)), "csv")
    if columns:
        return "csv"
    if found == "csv" and re.fullmatch(number + rb"(," + number + rb"){2}", line):
        raise DataError(
            f"{text.path}: three numbers without a header may be user, item, value or movie, "
            'customer, rating. Say format="csv" or format="netflix".'
        )
    return found
