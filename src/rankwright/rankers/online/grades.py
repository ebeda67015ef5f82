"""The grades of a stream: declared once, then looked up; and how often each row is shown."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from rankwright.exceptions import DataError
from rankwright.feedback import Grades
from rankwright.rankers.base import FloatArray
from rankwright.rankers.online.rows import IntArray

__all__ = ["as_classes", "codes_of", "refuse_grade", "visits"]


def as_classes(classes: Any) -> FloatArray:
    """Declared grades, checked."""
    values = np.asarray(list(classes), dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise DataError(f"classes={classes!r}: give the grades of the stream, finite numbers.")
    return values


def codes_of(classes: FloatArray, values: FloatArray) -> IntArray:
    """The place of each grade among the declared ones."""
    codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
    odd = np.flatnonzero(classes[codes] != values)
    if len(odd):
        refuse_grade(classes, values[odd[0]])
    return codes.astype(np.int64)


def refuse_grade(classes: FloatArray, value: float) -> NoReturn:
    """Say which grade was not declared, and how to declare it."""
    raise DataError(
        f"grade {value:g} was not declared; known are {classes.tolist()}. Declare every grade of "
        "the stream at the first call: partial_fit(X, y, classes=[...])."
    )


def visits(grades: Grades) -> IntArray:
    """Each row as often as its weight says (once without weights), in order."""
    times = grades.row_weight
    if not np.array_equal(times, np.round(times)):
        odd = int(np.flatnonzero(times != np.round(times))[0])
        raise DataError(
            f"row {odd} has weight {times[odd]:g}. An online ranker shows a row a whole number of "
            "times: give weights 0, 1, 2, ..."
        )
    order: IntArray = np.repeat(np.arange(len(times)), times.astype(np.int64))
    if len(order) == 0:
        raise DataError("every row has weight zero: there is nothing to show.")
    return order
