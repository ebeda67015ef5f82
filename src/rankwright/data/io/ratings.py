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

from rankwright._typing import BoolArray, FloatArray
from rankwright.data.behavior.ratings import (
    DUPLICATES,
    Ratings,
    first_twice,
    resolve_duplicates,
    usual_place,
)
from rankwright.data.behavior.times import as_times, is_time
from rankwright.data.inputs import read_parquet
from rankwright.data.io import fields as lines
from rankwright.data.io.fields import Fields, is_number, likely_separator, split_fields
from rankwright.data.io.files import Text, bounded, is_parquet, read_text
from rankwright.data.vocabulary import encode
from rankwright.exceptions import DataError, FileFormatError, Message, ParameterError, Setting

Column = str | int | None


@bounded
def read_ratings(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    duplicates: str = "error",
    implicit: bool = False,
    max_bytes: int | None = None,
    **columns: Any,
) -> Ratings:
    """Read ratings from a file, gzipped or not.

    Parameters
    ----------
    path : path
    format : str or None
        None detects the format from the content; else one of

        ==================  =====================================================================
        ``movielens-1m``    ``user::movie::rating::time`` (also MovieLens 10M)
        ``movielens-100k``  the same, separated by tabs
        ``jester``          a line per user: number of ratings, then each joke; 99 = not rated
        ``book-crossing``   ``"user";"ISBN";"rating"`` with a header, latin-1; 0 = implicit
        ``netflix``         ``movie,customer,rating``
        ``csv``             any table with a separator; see ``columns``
        ``parquet``         any Parquet table; see ``columns``
        ==================  =====================================================================
    duplicates : {"error", "first", "last", "mean", "keep"}, default="error"
        What to do if a user rated an item more than once.
    implicit : bool, default=False
        Keep Book-Crossing's ratings of 0, which only record that a user came across a book.
    max_bytes : int or None
        Maximum number of bytes of text to read; None as in :func:`read_letor`.
    **columns
        For ``csv`` and ``parquet``: ``user``, ``item``, ``value``, ``time``, each a name or an
        index (from 0). The default is a common name (``userId``, ``movie_id``, ``rating`` ...), or
        this order in a CSV file without a header. For ``csv`` also ``separator``, ``encoding``.

    Returns
    -------
    ratings : Ratings
        Whole-number ids are int64, others text, in order of first appearance.

    Raises
    ------
    FileFormatError
        At the first bad line, such as a value outside the scale of the data set.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ratings.dat"
    >>> _ = path.write_text("1::1193::5::978300760\\n1::661::3::978302109\\n")
    >>> read_ratings(path)
    Ratings(2 ratings, 1 users, 2 items, values 3 to 5)
    """
    if duplicates not in DUPLICATES:
        raise ParameterError(
            Setting("duplicates", duplicates), f": use one of {', '.join(DUPLICATES)}."
        )
    if format == "parquet" or (format is None and is_parquet(path)):
        table = read_parquet(path)
        indices = _find_columns(list(table), _chosen(**columns), os.fspath(path))
        arrays = {role: list(table.values())[index] for role, index in indices.items()}
        return Ratings.from_arrays(**arrays, duplicates=duplicates)
    text = read_text(path, columns.pop("encoding", "utf-8"))
    format = format or _detect_format(text, columns)
    if format == "csv":
        separator = columns.pop("separator", None)
        return _read_csv(text, duplicates, _chosen(**columns), separator)
    if format not in _NAMED_FORMATS:
        known = ", ".join([*_NAMED_FORMATS, "csv", "parquet"])
        raise ParameterError(Setting("format", format), f": use one of {known}.")
    if columns:
        raise ParameterError(
            Setting(next(iter(columns))),
            f": the columns of {format!r} are fixed.",
            fix=Message("Leave it out, or use ", Setting("format", "csv"), "."),
        )
    ratings = _NAMED_FORMATS[format](text, duplicates)
    if format == "book-crossing" and not implicit:
        return ratings.take(ratings.value > 0).compact()
    return ratings


def _chosen(
    user: Column = None, item: Column = None, value: Column = None, time: Column = None
) -> dict[str, Column]:
    return {"user": user, "item": item, "value": value, "time": time}


def _detect_format(text: Text, columns: dict[str, Any]) -> str:
    if columns:
        return "csv"
    line = text.first_line.strip()
    number = rb"\s*[+-]?[\d.]+\s*"
    patterns = {
        "movielens-1m": number + rb"(::" + number + rb"){3}",
        "movielens-100k": rb"\d+(\t\d+){3}",
        "book-crossing": rb'"User-ID";"ISBN";"Book-Rating"',
        "jester": number + rb"(," + number + rb"){100}",
    }
    for name, pattern in patterns.items():
        if re.fullmatch(pattern, line):
            return name
    if re.fullmatch(number + rb"(," + number + rb"){2}", line):
        raise DataError(
            "three numbers without a header may be user, item, value or movie, customer, rating.",
            file=text.path,
            fix=Message(
                "Say ", Setting("format", "csv"), " or ", Setting("format", "netflix"), "."
            ),
        )
    return "csv"


@dataclass(frozen=True)
class _Layout:
    """A table with one rating per line."""

    separator: str
    n_fields: int
    columns: dict[str, int]  # index of user, item, value and perhaps time
    description: str = "the same columns as line 1"
    has_header: bool = False
    scale: tuple[float, float] | None = None  # of a named format, with whole numbers as ids


def _read_layout(layout: _Layout, text: Text, duplicates: str) -> Ratings:
    """With NumPy's parser if nothing is wrong; else field by field, to name the bad line."""
    ratings = _parse_fast(text, layout)
    if ratings is None or (duplicates == "error" and first_twice(ratings) is not None):
        return _parse_exactly(text, layout, duplicates)
    return resolve_duplicates(ratings, duplicates)


def _parse_fast(text: Text, layout: _Layout) -> Ratings | None:
    """A table of nothing but numbers; None if one of them must be looked at."""
    if layout.scale is None and has_odd_ids(text, layout.separator, has_header=layout.has_header):
        return None
    whole = ("user", "item") if layout.scale is None else ("user", "item", "time")
    integers = [layout.columns[role] for role in whole if role in layout.columns]
    dtype = [(f"f{k}", np.int64 if k in integers else np.float64) for k in range(layout.n_fields)]
    rows = lines.parse_numeric(text, layout.separator, dtype, n_header=int(layout.has_header))
    if rows is None:
        return None
    columns = {role: rows[f"f{index}"] for role, index in layout.columns.items()}
    if layout.scale is not None:
        low, high = layout.scale
        if not ((columns["value"] >= low) & (columns["value"] <= high)).all():  # NaN fails
            return None
        return _from_columns(columns)
    is_finite = all(np.isfinite(column).all() for column in columns.values())
    # The exact parser keeps ids of more than 18 digits as text.
    is_short = all(np.abs(columns[role]).max(initial=0) < 10**18 for role in whole)
    return _from_columns(columns) if is_finite and is_short else None


def _from_columns(columns: dict[str, NDArray[Any]]) -> Ratings:
    (user, users), (item, items) = encode(columns["user"]), encode(columns["item"])
    time = columns["time"].astype(float) if "time" in columns else None
    return Ratings(users, items, user, item, np.ascontiguousarray(columns["value"]), time)


def has_odd_ids(text: Text, separator: str, *, has_header: bool) -> bool:
    """Whether an id may not be written as a plain number: quoted, 007, +7, -0 or with spaces."""
    body = text.data.split(b"\n", 1)[-1] if has_header else text.data
    if b'"' in text.data or b" " in body or text.data[:1] == b"\n":
        return True
    body, mark = b"\n" + body, separator.encode()
    starts = [before + sign for before in (b"\n", mark) for sign in (b"+", b"0", b"-0")]
    if not any(start in body for start in starts):  # far faster than the pattern
        return False
    return bool(re.search(rb"[\n" + re.escape(mark) + rb"](?:\+|0\d|-0(?!\.))", body))


def _parse_exactly(text: Text, layout: _Layout, duplicates: str) -> Ratings:
    """Any table, field by field, so that every error has a line and a column."""
    index, is_named = layout.columns, layout.scale is not None
    if is_named:
        fields = split_fields(text, layout.separator, layout.n_fields, layout.description)
    else:
        fields = lines.parse_csv(text, layout.separator, layout.description)
    fields = fields.after_header() if layout.has_header else fields
    if fields.n_rows == 0:
        text.refuse(2, 1, "no line after the header", "give a file with at least one rating")
    value = fields.numbers(index["value"], "rating" if is_named else "value")
    if layout.scale is not None:
        _check_scale(fields, index["value"], value, layout.scale)
    time = _times(fields, index["time"], is_named) if "time" in index else None
    (user, users), (item, items) = (
        encode(fields.numbers(index[role], role, integer=True))
        if is_named
        else fields.encode(index[role], role)
        for role in ("user", "item")
    )
    ratings = Ratings(users, items, user, item, value, time)
    return _resolve_in_file(ratings, fields, index["item"], duplicates)


def _times(fields: Fields, field: int, is_named: bool) -> Any:
    """Numbers, or in a table also ISO strings; else the first bad line is named."""
    tokens = fields.column(field)
    if is_named or is_number(tokens[0]):
        return fields.numbers(field, "time", integer=is_named)
    for row, token in enumerate(tokens):
        if not is_time(token):
            fix = "write a number or an ISO time such as 2024-05-31T18:30:00Z"
            fields.refuse(row, field, f'time "{token}" is not a time', fix)
    return as_times(tokens, "time", len(tokens))


def _check_scale(fields: Fields, field: int, value: FloatArray, scale: tuple[float, float]) -> None:
    low, high = scale
    outside = (value < low) | (value > high)
    if outside.any():
        row = int(np.argmax(outside))
        reason = f"rating {value[row]:g} is outside {low:g} .. {high:g}"
        fix = Message("correct it, or read another scale with ", Setting("format", "csv"))
        fields.refuse(row, field, reason, fix)


def _resolve_in_file(ratings: Ratings, fields: Fields, item_field: int, duplicates: str) -> Ratings:
    repeat = first_twice(ratings) if duplicates == "error" else None
    if repeat is not None:
        row, earlier = repeat
        user, item = ratings.users[ratings.user[row]], ratings.items[ratings.item[row]]
        reason = f"user {user} rated item {item} in line {fields.lines[earlier]} already"
        fix = Message(
            "remove one, or choose which counts: ",
            Setting("duplicates", "first"),
            ', "last", "mean" or "keep"',
        )
        fields.refuse(row, item_field, reason, fix)
    return resolve_duplicates(ratings, duplicates)


def _read_csv(
    text: Text, duplicates: str, chosen: dict[str, Column], separator: str | None
) -> Ratings:
    if separator is not None and len(separator) != 1:
        raise ParameterError(Setting("separator", separator), ": give one character.")
    text.decode()  # refuse another encoding before anything else
    separator = separator or likely_separator(text)
    if separator is None:
        text.refuse(
            1,
            1,
            "no comma, semicolon, tab or bar between fields",
            Message("give its ", Setting("format"), ", or its separator"),
        )
    if b'"' in text.data:
        first = next(lines.quoted_rows(text, separator))[0]
    else:
        first = text.first_line.decode(text.encoding).split(separator)
    header = _header(first, chosen)
    columns = _find_columns(header or len(first), chosen, text.path)
    layout = _Layout(separator, len(first), columns, has_header=header is not None)
    return _read_layout(layout, text, duplicates)


def _header(first: list[str], chosen: dict[str, Column]) -> list[str] | None:
    """The names in the first row, or None if that is a rating already."""
    is_named = any(isinstance(column, str) for column in chosen.values())
    if is_named or usual_place("value", first) is not None:
        return first
    index = chosen["value"] if isinstance(chosen["value"], int) else 2
    return None if index < len(first) and is_number(first[index]) else first


def _find_columns(
    header: Sequence[str] | int, chosen: dict[str, Column], path: str
) -> dict[str, int]:
    """The index of user, item, value and perhaps time; a header without names is a number."""
    names = [] if isinstance(header, int) else list(header)
    n_columns = header if isinstance(header, int) else len(header)
    columns: dict[str, int] = {}
    for default, (role, column) in enumerate(chosen.items()):
        index: int | None
        if isinstance(column, str):
            index = names.index(column) if column in names else None
        elif column is None and names:
            index = usual_place(role, names)
        else:
            index = default if column is None else column
        if index is not None and 0 <= index < n_columns:
            columns[role] = index
        elif role != "time" or column is not None:
            missing = repr(column) if column is not None else f"for the {role}"
            known = ", ".join(names) if names else f"{n_columns} without names"
            raise DataError(
                f"no column {missing} among {known}.",
                file=path,
                fix=Message("Give ", Setting(role), " with a name or an index."),
            )
    if len(set(columns.values())) < len(columns):
        settings = [part for role in ("user", "item", "value") for part in (Setting(role), " ")]
        raise DataError(
            f"one column cannot have two roles ({columns}).",
            file=path,
            fix=Message("Give ", *settings[:-1], "."),
        )
    return columns


_UNRATED = 99.0  # in Jester's files


def _read_jester(text: Text, duplicates: str) -> Ratings:
    """A line per user: the number of ratings, then every joke. Ids count from 1."""
    table = _parse_dense(text)
    user, item = np.nonzero(table[:, 1:] != _UNRATED)
    n_users, n_items = len(table), table.shape[1] - 1
    value = table[:, 1:][user, item]
    return Ratings(np.arange(1, n_users + 1), np.arange(1, n_items + 1), user, item, value)


def _parse_dense(text: Text) -> FloatArray:
    fast = lines.parse_numeric(text, ",", np.float64, ndmin=2)
    if fast is not None and not _wrong_counts(fast).any() and not _outside(fast).any():
        return fast
    n_fields = text.first_line.count(b",") + 1
    fields = split_fields(
        text, ",", n_fields, "the number of ratings, then each joke, 99 = unrated"
    )
    columns = [fields.numbers(0, "number of ratings", integer=True)]
    columns += [fields.numbers(joke, f"rating of joke {joke}") for joke in range(1, n_fields)]
    table = np.column_stack(columns).astype(np.float64)
    if _outside(table).any():
        row, joke = np.argwhere(_outside(table))[0]
        reason = f"rating {table[row, joke + 1]:g} is outside -10 .. 10"
        fields.refuse(int(row), int(joke) + 1, reason, "correct it, or write 99 for not rated")
    if _wrong_counts(table).any():
        row = int(np.argmax(_wrong_counts(table)))
        n_ratings = int((table[row, 1:] != _UNRATED).sum())
        reason = f"the line starts with {table[row, 0]:g} ratings, but has {n_ratings}"
        fields.refuse(row, 0, reason, "restore the line from the original file")
    return table


def _outside(table: FloatArray) -> BoolArray:
    jokes = table[:, 1:]
    return np.asarray(~((np.abs(jokes) <= 10) | (jokes == _UNRATED)))


def _wrong_counts(table: FloatArray) -> BoolArray:
    return np.asarray(table[:, 0] != (table[:, 1:] != _UNRATED).sum(axis=1))


def _read_book_crossing(text: Text, duplicates: str) -> Ratings:
    """Every field in quotes, a quote inside a field after a backslash, latin-1, with a header."""
    text = replace(text, encoding="latin-1")
    layout = '"user";"ISBN";"rating"'
    lines = text.data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip() and not (len(line) > 1 and line[:1] == line[-1:] == b'"'):
            text.refuse(number, 1, "the line is not in quotes", f"a line holds: {layout}")
    bare = replace(text, data=b"\n".join([line[1:-1] for line in lines]))
    try:
        split = split_fields(bare, '";"', 3, layout)
    except FileFormatError as error:
        text.refuse(error.line, error.column + 1, error.message, error.fix)
    fields = replace(split, text=text).after_header()
    if fields.n_rows == 0:
        text.refuse(2, 1, "no line after the header", "give a file with at least one rating")
    value = fields.numbers(2, "rating", integer=True).astype(np.float64)
    _check_scale(fields, 2, value, (0, 10))
    user, users = fields.encode(0, "user")
    item, items = fields.encode(1, "ISBN", as_text=True)
    items = np.array([isbn.replace('\\"', '"') for isbn in items], dtype=object)
    return _resolve_in_file(Ratings(users, items, user, item, value), fields, 1, duplicates)


_MOVIELENS = {"user": 0, "item": 1, "value": 2, "time": 3}
_TABS = "user, item, rating, time, separated by tabs"
_LAYOUTS = {
    "movielens-1m": _Layout("::", 4, _MOVIELENS, "user::movie::rating::time", scale=(0.5, 5)),
    "movielens-100k": _Layout("\t", 4, _MOVIELENS, _TABS, scale=(0.5, 5)),
    "netflix": _Layout(
        ",", 3, {"user": 1, "item": 0, "value": 2}, "movie,customer,rating", scale=(1, 5)
    ),
}
_NAMED_FORMATS: dict[str, Callable[[Text, str], Ratings]] = {
    **{name: partial(_read_layout, layout) for name, layout in _LAYOUTS.items()},
    "jester": _read_jester,
    "book-crossing": _read_book_crossing,
}
