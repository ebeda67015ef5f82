"""Files of events: a CSV, Parquet or JSONL table with a user and an item in each row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray
from rankwright.data.behavior.attributes import Attributes
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.behavior.ratings import Ratings, find_column, usual_place
from rankwright.data.inputs import Columns, read_parquet
from rankwright.data.io.fields import first_fields, first_line, is_number, parse_numeric
from rankwright.data.io.files import Text, bounded, is_parquet, read_text
from rankwright.data.io.ratings import has_odd_ids, read_ratings
from rankwright.data.io.tables import is_index, read_jsonl, text_rows
from rankwright.data.vocabulary import as_column
from rankwright.exceptions import DataError, ParameterError, Setting

ROLES = ("user", "item", "weight", "time", "event", "session")
OPTIONAL = ROLES[2:]
FORMATS = ("csv", "parquet", "jsonl")


@bounded
def read_interactions(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    at_least: float | None = None,
    event_weights: Mapping[Any, float] | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    max_bytes: int | None = None,
    **columns: Any,
) -> Interactions:
    """Read events from a file, gzipped or not.

    Parameters
    ----------
    path : path
    format : str or None
        ``csv``, ``parquet`` or ``jsonl`` (one object per line); None detects it. A format of
        :func:`read_ratings` (``movielens-1m`` ...) reads ratings as events.
    at_least : number or None
        If rows have a rating: skip rows with a lower rating.
    event_weights : mapping of event types to weights, or None
        If rows have a type (a column ``event``, ``action`` ...): as in
        :meth:`Interactions.weighted`.
    separator, encoding : of a CSV file
    max_bytes : int or None
        Maximum number of bytes of text to read; None as in :func:`read_letor`.
    **columns
        ``user``, ``item``, ``weight``, ``time``, ``event``, ``session``: names of columns, or
        indices from 0 in a CSV file without a header. The default is a common name (``user_id``,
        ``product``, ``quantity``, ``timestamp`` ...), or the order user, item, time without a
        header. Times are numbers or ISO strings.

    Returns
    -------
    interactions : Interactions

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("user,item,timestamp\\nann,7,2024-05-01\\nann,8,2024-05-02\\n")
    >>> read_interactions(path)
    Interactions(2 events, 1 users, 2 items, times 1714521600 to 1714608000)
    """
    if unknown := sorted(set(columns) - set(ROLES)):
        raise ParameterError(
            f"read_interactions({unknown[0]}=...): columns are {', '.join(ROLES)}."
        )
    if format is not None and format not in FORMATS:
        if columns:
            name = next(iter(columns))
            raise ParameterError(f"read_interactions({name}=...): {format!r} has fixed columns.")
        ratings = read_ratings(path, format, duplicates="last")
        return Interactions.from_ratings(ratings, at_least=at_least)
    table = _read(path, format, separator, encoding)
    try:
        events = _from_table(table, columns, at_least, os.fspath(path))
        return events if event_weights is None else events.weighted(event_weights)
    except DataError as error:  # about columns and values: it does not know the file
        raise error.in_file(path) from None


def _from_table(
    table: Mapping[str, NDArray[Any]], columns: Mapping[str, Any], at_least: float | None, path: str
) -> Interactions:
    names = list(table)
    roles = {
        role: find_column(
            role,
            _named(role, columns.get(role), names),
            names,
            optional=role in OPTIONAL,
        )
        for role in ROLES
    }
    kept = slice(None) if at_least is None else _rated(table, at_least, path)
    arrays = {role: table[name][kept] for role, name in roles.items() if name is not None}
    return Interactions(arrays.pop("user"), arrays.pop("item"), **arrays)


@bounded
def read_attributes(
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    title: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    max_bytes: int | None = None,
) -> Attributes:
    """Read features of items or users from a CSV, Parquet or JSONL table.

    Parameters
    ----------
    path : path
    id, title : columns, as in :meth:`Attributes.from_frame`. A column of a CSV file is numeric if
        all its cells are numbers; an empty cell is missing.
    separator, encoding : of a CSV file
    max_bytes : as in :func:`read_interactions`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "films.csv"
    >>> _ = path.write_text("item,title,genres,year\\n7,Heat,Crime|Drama,1995\\n8,Alien,Horror,\\n")
    >>> read_attributes(path).names
    ('genres=Crime', 'genres=Drama', 'genres=Horror', 'year')
    """
    table = read_columns(path, id, separator, encoding)
    columns = {name: column for name, column in table.items() if name == id or not is_index(name)}
    return Attributes.from_frame(columns, id=id, title=title)


def read_columns(
    path: str | os.PathLike[str],
    id: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Columns:
    """The columns of a CSV, Parquet or JSONL table of items or users."""
    if is_parquet(path):
        return read_parquet(path)
    if _is_jsonl(path):
        return read_jsonl(path)
    return _read_text_columns(path, id, separator, encoding)


def _read_text_columns(
    path: str | os.PathLike[str], id: str | None, separator: str | None, encoding: str
) -> Columns:
    fields, names, is_named = text_rows(read_text(path, encoding), separator, None)
    if not is_named:
        raise DataError(f"{path}: features need a header with the names of the columns.")
    table = {name: _typed(fields.column(index)) for index, name in enumerate(names)}
    key = id or find_column("item", None, names, optional=True) or find_column("user", None, names)
    if key in names:  # an id is an integer or a text
        number, distinct = fields.encode(names.index(str(key)), str(key))
        table[str(key)] = np.asarray(distinct[number])
    return table


def _typed(cells: list[str]) -> NDArray[Any]:
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        return np.array([cell or None for cell in cells], object)


@bounded
def read_feedback(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    events: bool = False,
    at_least: float | None = None,
    **options: Any,
) -> Ratings | Interactions:
    """Read ratings, or events if the file has no column of ratings.

    ``options`` as in :func:`read_ratings` (with ``value`` for the rating) and
    :func:`read_interactions`; ``value`` selects ratings and ``weight`` selects events. With
    ``events``, or with ``at_least``, ratings are read as events too.
    """
    duplicates = options.pop("duplicates", "error")
    options.pop("max_bytes", None)
    if events or at_least is not None:
        return read_interactions(path, format, at_least=at_least, **options)
    if "value" not in options and ("weight" in options or _without_ratings(path, format, options)):
        return read_interactions(path, format, **options)
    return read_ratings(path, format, duplicates=duplicates, **options)


def _without_ratings(path: Any, format: str | None, chosen: Mapping[str, Any]) -> bool:
    """Whether the names of the columns tell of users, items and times, but not of ratings.

    A column that is neither of these may hold the ratings, unless there is a time.
    """
    if format not in (None, *FORMATS):
        return False
    if format == "jsonl" or (format is None and _is_jsonl(path)):
        return True
    if format == "parquet" or is_parquet(path):
        names = list(read_parquet(path))
    else:
        names = first_fields(path, None)
    known = {
        role
        for role in (*ROLES, "value")
        if chosen.get(role) is not None or usual_place(role, names) is not None
    }
    if "value" in known or not {"user", "item"} <= known:
        return False
    return "time" in known or len(names) <= len(known)


def _is_jsonl(path: str | os.PathLike[str]) -> bool:
    return not is_parquet(path) and first_line(path).lstrip().startswith(b"{")


def _read(
    path: str | os.PathLike[str], format: str | None, separator: str | None, encoding: str
) -> Mapping[str, NDArray[Any]]:
    if format == "parquet" or (format is None and is_parquet(path)):
        return read_parquet(path)
    if format == "jsonl" or (format is None and _is_jsonl(path)):
        return read_jsonl(path)
    text = read_text(path, encoding)
    return _numeric(text, separator or ",") or _Cells(text, separator)


def _numeric(text: Text, separator: str) -> Columns | None:
    """A table of whole numbers below a header; None if one cell is something else."""
    text.decode()  # refuse another encoding with its line
    names = [name.strip() for name in text.first_line.decode(text.encoding).split(separator)]
    if b'"' in text.data or any(map(is_number, names)) or len(names) < 2:
        return None
    if has_odd_ids(text, separator, has_header=True):
        return None
    dtype = [(f"f{index}", np.int64) for index in range(len(names))]
    rows = parse_numeric(text, separator, dtype, n_header=1)
    if rows is None or len(set(names)) < len(names):
        return None
    return {name: np.ascontiguousarray(rows[f"f{index}"]) for index, name in enumerate(names)}


class _Cells(Mapping[str, NDArray[Any]]):
    """The columns of a text, each parsed when it is needed."""

    def __init__(self, text: Text, separator: str | None) -> None:
        self._fields, names, is_named = text_rows(text, separator, None)
        if not is_named:
            order = ("user", "item", "time", "weight")
            names = [*order[: len(names)], *names[len(order) :]]
        self._places = {name: index for index, name in enumerate(names)}

    def __getitem__(self, name: str) -> NDArray[Any]:
        number, distinct = self._fields.encode(self._places[name], name)
        return np.asarray(distinct[number])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _named(role: str, column: str | int | None, names: list[str]) -> Any:
    if isinstance(column, int) and not isinstance(column, bool):
        if not 0 <= column < len(names):
            raise DataError(f"read_interactions({role}={column}): there are {len(names)} columns.")
        return names[column]
    return column


def _rated(table: Mapping[str, NDArray[Any]], at_least: float, path: str) -> BoolArray:
    index = usual_place("value", list(table))
    if index is None:
        raise DataError(Setting("at_least", at_least), " needs a column of ratings.", file=path)
    ratings = table[list(table)[index]]
    return as_column(ratings, "rating", len(ratings)) >= at_least
