"""What every scorer and transform is: an immutable record of arrays that checks its values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.inputs import checked_rows
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError

Matrix = Any  # (n_items, n_features) float64 array, or a SciPy CSR matrix of the same


class State(ABC):
    """A frozen dataclass whose fields are arrays, numbers, text, or other states.

    ``__post_init__`` checks every value, so any state that exists is safe to use. The methods
    ``_check_*`` raise a DataError that names the kind and the field.
    """

    kind: ClassVar[str]
    _width: ClassVar[str] = "coef"  # the field that says how many columns X must have

    @property
    def n_features(self) -> int:
        """How many columns X must have: a number, the last axis of an array, or a state's own."""
        value = getattr(self, self._width)
        if isinstance(value, State):
            return value.n_features
        return int(value.shape[-1] if isinstance(value, np.ndarray) else value)

    def values(self) -> dict[str, Any]:
        """The fields by name: what a model file keeps."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def _check(self, condition: Any, fault: str) -> None:
        if not bool(condition):
            raise DataError(f"{self.kind}: {fault}.")

    def _check_arrays(self, **shapes: tuple[int | str, ...]) -> None:
        """Check shapes (an axis is a size, or a name for one) and that all numbers are finite."""
        sizes: dict[int | str, int] = {}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if len(shape) != array.ndim or any(
                sizes.setdefault(axis, size if isinstance(axis, str) else axis) != size
                for axis, size in zip(shape, array.shape, strict=True)
            ):
                needed = tuple(sizes.get(axis, axis) for axis in shape)
                self._check(False, f"{name} has shape {array.shape}; it needs {needed}")
        for name, value in vars(self).items():
            finite = math.isfinite(value) if isinstance(value, float) else True
            if not finite or (name in shapes and not np.isfinite(value).all()):
                self._check(False, f"{name}: {not_finite(value)}")

    def _check_name(self, field: str, *known: str) -> None:
        name, listed = getattr(self, field), f"{', '.join(known[:-1])} or {known[-1]}"
        self._check(name in known, f"{field} {name!r} is not {listed}")

    def _check_range(self, name: str, low: float, high: float) -> None:
        value = np.asarray(getattr(self, name))
        inside = (value >= low) & (value <= high)
        if not inside.all():
            first = int(np.argmin(inside))
            shown = f"value {first} is {value.flat[first]:g}" if value.ndim else f"{value:g}"
            bounds = f">= {low:g}" if high == np.inf else f"from {low:g} to {high:g}"
            self._check(False, f"{name}: {shown}; it must be {bounds}")

    def _check_ascending(self, name: str, *, strictly: bool = False) -> None:
        value = getattr(self, name)
        right = value[1:] > value[:-1] if strictly else value[1:] >= value[:-1]
        if not right.all():
            first = int(np.argmin(right))
            pair = f"{value[first]:g} is followed by {value[first + 1]:g}"
            self._check(False, f"{name}: {pair}; the values must ascend")


def _of_checked_rows(method: Callable[[Any, Matrix], FloatArray]) -> Any:
    @wraps(method)
    def checked(self: Any, X: Matrix) -> FloatArray:
        return method(self, X if isinstance(X, np.ndarray) else checked_rows(X))

    return checked


def not_finite(values: Any) -> str:
    """What is wrong with values that must be finite.

    >>> not_finite(np.array([1.0, np.nan, np.nan]))
    '2 of 3 values are NaN; a model holds finite values only'
    """
    array = np.asarray(values)
    n_nan, n_bad = int(np.isnan(array).sum()), int((~np.isfinite(array)).sum())
    fault = "NaN" if n_nan == n_bad else "NaN or infinite" if n_nan else "infinite"
    verb = "is" if n_bad == 1 else "are"
    count = f"{n_bad} of {array.size} values {verb}" if array.ndim else "it is"
    return f"{count} {fault}; a model holds finite values only"


class Scorer(State):
    """Base class of scorers: maps rows to scores; higher ranks first.

    A sparse matrix is checked before any method of a subclass follows its indices.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("decision_function", "predict", "expected"):
            if name in vars(cls):
                setattr(cls, name, _of_checked_rows(vars(cls)[name]))

    @abstractmethod
    def decision_function(self, X: Matrix) -> FloatArray:
        """The score of each row."""

    def predict(self, X: Matrix) -> FloatArray:
        """A value on the scale of y: the score itself, unless the model predicts grades."""
        return self.decision_function(X)

    def split_values(self, feature: int) -> FloatArray | None:
        """The ascending values after which the score may jump; None if it is no step function."""
        return None

    def expected(self, X: Matrix) -> FloatArray:
        """The expected grade, where the model has one; otherwise the prediction."""
        return self.predict(X)


class Transform(State):
    """Base class of transforms: maps rows to rows, possibly using other rows of the same query."""

    @property
    def n_outputs(self) -> int:
        """How many columns the result has."""
        return self.n_features

    @abstractmethod
    def transform(self, X: Matrix, queries: Queries) -> Matrix:
        """The transformed rows, in the same order."""


class RowMap(Transform):
    """Base class of transforms that handle each row separately, without queries."""

    @abstractmethod
    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        """The mapped rows, in the same order."""


def in_blocks(function: Callable[[Matrix], FloatArray], X: Matrix, width: int) -> FloatArray:
    """One value per row, computed in blocks of rows that need (rows, width) numbers each."""
    values = np.empty(X.shape[0])
    for rows in row_blocks(X.shape[0], width):
        values[rows] = function(X[rows])
    return values


def row_blocks(n_rows: int, width: int, values: int = 1 << 22) -> list[slice]:
    """Slices of rows; a block of (rows, width) holds at most ``values`` numbers (default 32 MB)."""
    step = max(1, values // max(width, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
