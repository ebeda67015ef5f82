"""Named columns as the features of a model: numbers by name, words as 0 and 1.

A model that was trained with ``one_hot`` has a feature ``column=word`` for each word. Its feature
names are all that is needed to encode new rows in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.vocabulary import is_missing
from rankwright.exceptions import DataError

# Cells that mean a missing value. Those of NOT_NAMES cannot be the name of a column (na is sodium).
NOT_NAMES = frozenset(["", "NA", "NaN", "nan", "NULL", "?"])
MISSING = NOT_NAMES | {"N/A", "n/a", "#N/A", "null", "None", "na"}


def feature_matrix(columns: Mapping[str, Any], names: Sequence[str]) -> FloatArray:
    """The features of these names, in this order; a word that no name has counts for nothing.

    >>> names = ("price", "color=blue", "color=red")
    >>> feature_matrix({"color": ["red", "green"], "price": [9.5, "NA"], "id": [1, 2]}, names)
    array([[9.5, 0. , 1. ],
           [nan, 0. , 0. ]])
    """
    sources = [_source(name, columns) for name in names]
    absent = [name for name, source in zip(names, sources, strict=True) if source is None]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        trained = f"This model was trained on: {', '.join(names[:20])}."
        raise DataError(f"X lacks the column {absent[0]!r}{more}. {trained}")
    n_rows = len(next(iter(columns.values()), ()))
    matrix = np.empty((n_rows, len(names)))
    words: dict[str, list[str | None]] = {}
    for k, (name, source) in enumerate(zip(names, sources, strict=True)):
        if source == name:
            matrix[:, k] = _numbers(columns[name], name)
            continue
        column = str(source)
        if column not in words:
            words[column] = [_word(cell) for cell in np.asarray(columns[column]).tolist()]
        own = name[len(column) + 1 :]
        matrix[:, k] = [cell == own for cell in words[column]]
    return matrix


def columns_of_rows(rows: Sequence[Mapping[Any, Any]]) -> dict[str, list[Any]]:
    """The columns of a list of dicts, which all have the same keys.

    >>> columns_of_rows([{"price": 9.5, "color": "red"}, {"color": "blue", "price": None}])
    {'price': [9.5, None], 'color': ['red', 'blue']}
    """
    first = rows[0].keys()
    for number, row in enumerate(rows):
        if row.keys() != first:
            name = sorted(map(str, row.keys() ^ first))[0]
            problem = "lacks" if name in map(str, first) else "has, unlike row 0,"
            raise DataError(f"row {number} {problem} {name!r}: give None for a missing value.")
    return {str(name): [row[name] for row in rows] for name in first}


def _source(name: str, columns: Mapping[str, Any]) -> str | None:
    """The column of a feature: its name, or what is before an ``=`` in it."""
    if name in columns:
        return name
    cuts = [i for i, character in enumerate(name) if character == "="]
    return next((name[:i] for i in cuts if name[:i] in columns), None)


def _numbers(column: Any, name: str) -> FloatArray:
    values = np.asarray(column)
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    cells: list[Any] = [
        None if isinstance(c, str) and c.strip() in MISSING else c for c in values.tolist()
    ]
    numbers = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        try:
            numbers[row] = np.nan if is_missing(cell) else float(cell)
        except (TypeError, ValueError):
            fault = f"{name} is {cell!r} in row {row}"
            raise DataError(f"{fault}; this model was trained on numbers there.") from None
    return numbers


def _word(cell: Any) -> str | None:
    """A cell as the file of the training data had it: 7.0 of a data frame is 7 there."""
    if is_missing(cell):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
