"""Times of events as seconds: numbers, ISO strings, datetime objects, datetime columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from rankwright._typing import Column, FloatArray
from rankwright.data.vocabulary import as_column
from rankwright.exceptions import DataError

# Seconds, milliseconds, microseconds and nanoseconds since 1970 for the years 1980 to 2100 lie in
# four ranges that do not overlap.
UNITS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
FIRST, LAST = 3.1e8, 4.2e9


def as_times(values: Column, name: str, n_rows: int) -> FloatArray:
    """Finite float64 times: numbers as given, dates and ISO strings as seconds since 1970 (UTC).

    Times in seconds beside times in milliseconds since 1970 are refused.

    >>> as_times(["1970-01-02", "1970-01-01T00:00:01.5Z"], "time", 2)
    array([8.64e+04, 1.50e+00])
    """
    times = _as_seconds(values, name, n_rows)
    check_unit(times, name)
    return times


def check_unit(times: FloatArray, name: str, known: FloatArray | None = None) -> None:
    """Refuse times in another unit than the first ones, or than ``known`` ones.

    >>> check_unit(np.array([1714521600.0, 1714521600500.0]), "time")
    Traceback (most recent call last):
    ...
    rankwright.exceptions.DataError: time is 1714521600500 in row 1, which looks like ...
    """
    if len(times) == 0:
        return
    first = float((times if known is None or len(known) == 0 else known)[0])
    unit = _unit(first)
    if unit is None or {_unit(float(times.min())), _unit(float(times.max()))} <= {unit, None}:
        return
    for other, factor in UNITS.items():
        inside = (times >= FIRST * factor) & (times < LAST * factor)
        if other != unit and inside.any():
            row = int(np.argmax(inside))
            raise DataError(
                f"{name} is {times[row]:.16g} in row {row}, which looks like {other} since 1970; "
                f"other times, such as {first:.16g}, look like {unit}. Convert one of them."
            )


def _unit(time: float) -> str | None:
    """The unit in which a time since 1970 seems to be given."""
    inside = (unit for unit, factor in UNITS.items() if FIRST * factor <= time < LAST * factor)
    return next(inside, None)


def _as_seconds(values: Column, name: str, n_rows: int) -> FloatArray:
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    column = values if isinstance(values, np.ndarray) else np.asarray(values)
    if column.dtype.kind == "M":
        if np.isnat(column).any():
            row = int(np.argmax(np.isnat(column)))
            raise DataError(f"{name} is missing in row {row}: give a time, or drop the row.")
        micros = column.astype("datetime64[us]").astype(np.int64)
        return as_column(micros / 1e6, name, n_rows)
    if column.dtype.kind in "OU" and column.ndim == 1:
        distinct: dict[Any, float] = {}
        cells = column.tolist()
        for row, cell in enumerate(cells):
            if cell not in distinct:
                distinct[cell] = _seconds(cell, name, row)
        return as_column([distinct[cell] for cell in cells], name, n_rows)
    return as_column(column, name, n_rows)


def _seconds(cell: object, name: str, row: int) -> float:
    """One time; a text without an offset is UTC."""
    try:
        if isinstance(cell, str):
            text = cell.strip()
            cell = float(text) if _is_number(text) else datetime.fromisoformat(text)
        if isinstance(cell, datetime):
            return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp()
        if isinstance(cell, date):
            return datetime(cell.year, cell.month, cell.day, tzinfo=UTC).timestamp()
        return float(cell)  # type: ignore[arg-type]  # TypeError is caught below
    except (TypeError, ValueError):
        fix = "give a number or an ISO time such as 2024-05-31T18:30:00Z"
        raise DataError(f"{name} is {cell!r} in row {row}: {fix}.") from None


def is_time(text: str) -> bool:
    """Whether a text is a finite number or an ISO time.

    >>> is_time("2024-05-31 18:30"), is_time("soon")
    (True, False)
    """
    try:
        return bool(np.isfinite(_seconds(text, "time", 0)))
    except DataError:
        return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not (len(text) == 8 and text.isdigit() and text[:2] in ("19", "20"))  # 20240531
