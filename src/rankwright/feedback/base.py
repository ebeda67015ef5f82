"""The contract of a feedback, and sums of feedbacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import FeedbackError

if TYPE_CHECKING:
    from rankwright.feedback.pairs import Pairs


class Feedback(ABC):
    """Which rows belong above which others, and how much that matters.

    Feedbacks are immutable. They add up (``a + b``) and scale (``2.0 * a``); contradictions and
    cycles are allowed, a learner weighs them against each other.
    """

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows this feedback speaks of: the highest row it names, plus one."""

    @property
    @abstractmethod
    def n_pairs(self) -> int:
        """How many preferences it stands for (counted, not built)."""

    @property
    @abstractmethod
    def total_weight(self) -> float:
        """The sum of the weights of all its preferences (computed without building them)."""

    @abstractmethod
    def to_pairs(self) -> Pairs:
        """Write every preference out. Quadratic for grades: for tests and small data."""

    def terms(self) -> Iterator[tuple[float, Feedback]]:
        """The simple feedbacks this one is the sum of, each with its factor."""
        yield 1.0, self

    def check_rows(self, n_items: int) -> None:
        """Refuse a feedback that names rows which ``X`` does not have."""
        if self.n_rows > n_items:
            raise FeedbackError(
                f"{type(self).__name__} speaks of row {self.n_rows - 1} and X has {n_items} rows. "
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
                f"feedback times {factor}: the factor must be a finite number >= 0. "
                "To turn preferences round, exchange their lower and upper rows."
            )
        return Mixture(tuple((float(factor) * each, term) for each, term in self.terms()))

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class Mixture(Feedback):
    """A weighted sum of feedbacks.

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

        written = [(factor, part.to_pairs()) for factor, part in self.parts]
        return Pairs(
            np.concatenate([pairs.lower for _, pairs in written]),
            np.concatenate([pairs.upper for _, pairs in written]),
            np.concatenate([factor * pairs.weight for factor, pairs in written]),
        )

    def terms(self) -> Iterator[tuple[float, Feedback]]:
        yield from self.parts


def frozen_rows(rows: Any, name: str) -> IntArray:
    """Row numbers as a read-only int64 array of our own."""
    given = np.asarray(rows)
    if given.size == 0:
        given = given.astype(np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise FeedbackError(
            f"{name} must be a list of row numbers, found {given.dtype} of shape {given.shape}."
        )
    array = given.astype(np.int64)
    if array.size and array.min() < 0:
        raise FeedbackError(f"{name} has row {array.min()}: rows are counted from 0.")
    array.setflags(write=False)
    return array


def frozen_weights(weights: Any, n: int, name: str) -> FloatArray:
    """Weights >= 0 as a read-only float64 array of our own; ``None`` is all ones."""
    array = np.ones(n) if weights is None else np.array(weights, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise FeedbackError(f"{name} has shape {array.shape}, one weight for each of {n} needed.")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        raise FeedbackError(
            f"{name}[{bad[0]}] is {array[bad[0]]}: weights must be finite and >= 0."
        )
    array.setflags(write=False)
    return array
