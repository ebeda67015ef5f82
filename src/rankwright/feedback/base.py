"""The base class of all feedback, weighted sums of feedback, and grades as numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError, FeedbackError

if TYPE_CHECKING:
    from rankwright.feedback.pairs import Pairs


class Feedback(ABC):
    """Base class of feedback: weighted preferences between rows.

    Feedback is immutable. It can be added (``a + b``) and scaled (``2.0 * a``). Contradictions and
    cycles are allowed: a learner weighs them against each other.
    """

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The highest row number in this feedback, plus one."""

    @property
    @abstractmethod
    def n_pairs(self) -> int:
        """The number of pairs (counted, not built)."""

    @property
    @abstractmethod
    def total_weight(self) -> float:
        """The sum of the weights of all pairs (computed without building them)."""

    @abstractmethod
    def to_pairs(self) -> Pairs:
        """All pairs as a list. Quadratic for grades: for tests and small data."""

    def terms(self) -> Iterator[tuple[float, Feedback]]:
        """The terms of the sum that this feedback is, each with its factor."""
        yield 1.0, self

    def concerns(self) -> Iterator[str]:
        """Reasons why a ranker that learns from this feedback alone may turn out worse."""
        yield from ()

    def check_rows(self, n_items: int) -> None:
        """Raise a FeedbackError if this feedback names rows that ``X`` does not have."""
        if self.n_rows > n_items:
            raise FeedbackError(
                f"{type(self).__name__} names row {self.n_rows - 1}, but X has {n_items} rows. "
                "Rows are counted from 0, in the order of X."
            )

    def __add__(self, other: Feedback) -> Mixture:
        if not isinstance(other, Feedback):
            return NotImplemented
        return Mixture((*self.terms(), *other.terms()))

    def __mul__(self, factor: float) -> Mixture:
        if not isinstance(factor, int | float | np.floating | np.integer):
            return NotImplemented
        if not (np.isfinite(factor) and factor >= 0):
            raise FeedbackError(
                f"feedback times {factor}: the factor must be a finite number >= 0. To reverse "
                "preferences, swap their lower and upper rows."
            )
        return Mixture(tuple((float(factor) * inner, term) for inner, term in self.terms()))

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class Mixture(Feedback):
    """A weighted sum of feedback.

    Examples
    --------
    >>> from rankwright.feedback.grades import Grades
    >>> from rankwright.feedback.pairs import Pairs
    >>> mixed = Grades([0, 1, 2]) + 0.5 * Pairs([2], [0])
    >>> mixed.n_pairs, mixed.total_weight
    (4, 3.5)
    """

    parts: tuple[tuple[float, Feedback], ...]

    @property
    def n_rows(self) -> int:
        return max((part.n_rows for _, part in self.parts), default=0)

    @property
    def n_pairs(self) -> int:
        return sum(part.n_pairs for _, part in self.parts)

    @property
    def total_weight(self) -> float:
        return sum(factor * part.total_weight for factor, part in self.parts)

    def to_pairs(self) -> Pairs:
        from rankwright.feedback.pairs import Pairs

        lists = [(factor, part.to_pairs()) for factor, part in self.parts]
        columns = ((p.lower, p.upper, factor * p.weight, p.confidence) for factor, p in lists)
        lower, upper, weight, confidence = map(np.concatenate, zip(*columns, strict=True))
        return Pairs(lower, upper, weight, confidence=confidence)

    def terms(self) -> Iterator[tuple[float, Feedback]]:
        yield from self.parts

    def concerns(self) -> Iterator[str]:
        for factor, part in self.parts:
            if 2 * factor * part.total_weight > self.total_weight:
                yield from part.concerns()


def frozen_rows(rows: Any, name: str) -> IntArray:
    """Row numbers as a read-only int64 copy."""
    array = np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise FeedbackError(
            f"{name} must be a list of row numbers, found {array.dtype} of shape {array.shape}."
        )
    array = array.astype(np.int64)
    if array.size and array.min() < 0:
        raise FeedbackError(f"{name} has row {array.min()}: rows are counted from 0.")
    array.setflags(write=False)
    return array


def frozen_weights(weights: Any, n: int, name: str) -> FloatArray:
    """Weights >= 0 as a read-only float64 copy; ``None`` is all ones."""
    array = np.array(1.0 if weights is None else weights, dtype=np.float64)
    array = np.full(n, float(array)) if array.ndim == 0 else array
    if array.shape != (n,):
        raise FeedbackError(f"{name} has shape {array.shape}; its shape must be ({n},).")
    if len(bad := np.flatnonzero(~(np.isfinite(array) & (array >= 0)))):
        raise FeedbackError(f"{name}[{bad[0]}] is {array[bad[0]]}: it must be finite and >= 0.")
    array.setflags(write=False)
    return array


def as_grades(values: Any, name: str) -> FloatArray:
    """The values as float64; a DataError shows the first one that is not a number.

    >>> as_grades([2, "1", 0.5], "y")
    array([2. , 1. , 0.5])
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    bad_value = "rows of different length"
    for value in np.asarray(values, dtype=object).ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError):
            bad_value = repr(value)
            break
    raise DataError(
        f"{name} holds {bad_value}: grades are numbers; higher is better. Map each label to a "
        "number, for example with {'bad': 0, 'good': 1}."
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
            f"{known.tolist()}. Declare the grades once, or call fit() to start over."
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
        f"grade {value:g} was not declared; declared are {classes.tolist()}. Declare all possible "
        "grades at the first call: partial_fit(X, y, classes=[...])."
    )
