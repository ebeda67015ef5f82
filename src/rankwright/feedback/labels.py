"""Grades as numbers, and the classes that ``partial_fit`` declares at its first call."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError


def as_grades(values: Any, name: str) -> FloatArray:
    """The values as float64; a DataError shows the first one that is not a number.

    >>> as_grades([2, "1", 0.5], "y")
    array([2. , 1. , 0.5])
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    culprit = "rows of different length"
    for value in np.asarray(values, dtype=object).ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError):
            culprit = repr(value)
            break
    raise DataError(
        f"{name} holds {culprit}: grades are numbers, the higher the better. Map each label to a "
        "number, for instance with {'bad': 0, 'good': 1}."
    )


def as_classes(classes: Any) -> FloatArray:
    """Declared grades, checked and sorted, without duplicates."""
    values = as_grades(list(classes), "classes")
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise DataError(f"classes={classes!r}: give a list of finite numbers, all possible grades.")
    return np.unique(values)


def check_same_classes(known: FloatArray, classes: Any) -> None:
    """Raise a DataError if the classes differ from those of the first call; None always passes."""
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise DataError(
            f"classes={np.unique(classes).tolist()} differ from those of the first call, "
            f"{known.tolist()}. Grades are declared once; fit() starts over."
        )


def codes_of(classes: FloatArray, values: FloatArray) -> NDArray[np.int64]:
    """The index of each grade among the declared ones."""
    codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
    if len(odd := np.flatnonzero(classes[codes] != values)):
        refuse_grade(classes, values[odd[0]])
    return codes.astype(np.int64)


def refuse_grade(classes: FloatArray, value: float) -> NoReturn:
    """Raise a DataError for a grade that was not declared."""
    raise DataError(
        f"grade {value:g} was not declared; known are {classes.tolist()}. Declare all possible "
        "grades at the first call: partial_fit(X, y, classes=[...])."
    )
