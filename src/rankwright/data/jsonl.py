"""JSON lines: an object a line, as named columns; what is wrong is named by its line."""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn

import numpy as np

from rankwright.data.frames import Columns
from rankwright.data.text import Text, read_text

__all__ = ["read_jsonl"]


def read_jsonl(path: str | os.PathLike[str]) -> Columns:
    """The columns of a file of JSON objects, one a line, gzipped or not.

    Every object has the same fields, and a field is a number, a text or null (which becomes NaN).
    ``"features": [0.1, 0.2]`` is taken apart into columns ``1``, ``2``, ...; an object of named
    features into a column for each name.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> _ = path.write_text('{"qid": 7, "grade": 2, "features": [0.5, null]}\\n')
    >>> read_jsonl(path)
    {'qid': array([7]), 'grade': array([2]), '1': array([0.5]), '2': array([nan])}
    """
    text = read_text(path)
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, line in enumerate(text.decode().split("\n"), start=1):
        if line.strip():
            rows.append(_flat(text, number, _parse(text, number, line)))
            numbers.append(number)
    names = list(rows[0])
    for number, row in zip(numbers, rows, strict=True):
        if row.keys() != rows[0].keys():
            odd = sorted(row.keys() ^ rows[0].keys())[0]
            where = "is missing" if odd in rows[0] else "is new"
            text.refuse(number, 1, f'field "{odd}" {where} here', "give every line the same fields")
    return {name: _column([row[name] for row in rows]) for name in names}


def _parse(text: Text, number: int, line: str) -> dict[str, Any]:
    def refuse_constant(word: str) -> NoReturn:
        text.refuse(number, line.find(word) + 1, f"{word} is no JSON", "write null for a gap")

    try:
        row = json.loads(line, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        text.refuse(number, error.colno, f"not JSON ({error.msg})", "write one object a line")
    except RecursionError:
        text.refuse(number, 1, "nested too deep", "write one flat object a line")
    if not isinstance(row, dict):
        text.refuse(number, 1, "this is no JSON object", 'write {"name": value, ...} a line')
    return row


def _flat(text: Text, number: int, row: dict[str, Any]) -> dict[str, Any]:
    features = row.pop("features", {})
    if isinstance(features, list):
        features = {str(place): value for place, value in enumerate(features, start=1)}
    if not isinstance(features, dict) or features.keys() & row.keys():
        reason = '"features" must be a list, or an object with names that are not used already'
        text.refuse(number, 1, reason, "rename the features")
    for name, value in features.items():
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            text.refuse(number, 1, f'feature "{name}" is no number', "write a number or null")
    row |= features
    for name, value in row.items():
        if isinstance(value, list | dict):
            text.refuse(number, 1, f'field "{name}" is nested', "write numbers and texts only")
    return row


def _column(values: list[Any]) -> Any:
    if any(isinstance(value, str) for value in values):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    return np.array([np.nan if value is None else value for value in values])
