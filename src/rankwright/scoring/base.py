"""The contract of a scorer: an immutable record of arrays and numbers with one method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError

Matrix = Any  # (n_items, n_features) float64 array, or a SciPy CSR matrix of the same


class State(ABC):
    """A frozen dataclass whose fields are arrays, numbers, text, or other states.

    ``__post_init__`` checks every value: a state that exists is safe to use, wherever its values
    came from.
    """

    kind: ClassVar[str]

    def values(self) -> dict[str, Any]:
        """Field by field, what a model file has to keep."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


class Scorer(State):
    """Rows in, scores out; higher comes first."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """How many columns X must have."""

    @abstractmethod
    def decision_function(self, X: Matrix) -> FloatArray:
        """The score of each row."""

    def predict(self, X: Matrix) -> FloatArray:
        """In the terms of y: the score itself, unless the model knows better."""
        return self.decision_function(X)


class Transform(State):
    """Rows in, rows out; may look at the other rows of the same query."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """How many columns X must have."""

    @property
    def n_outputs(self) -> int:
        """How many columns come out; as many as went in, unless it says otherwise."""
        return self.n_features

    @abstractmethod
    def transform(self, X: Matrix, queries: Queries) -> Matrix:
        """The transformed rows, in the same order."""


class RowMap(Transform):
    """A transform of each row by itself: it needs no queries."""

    @abstractmethod
    def transform(self, X: Matrix, queries: Queries | None = None) -> FloatArray:
        """The mapped rows, in the same order."""


def must(condition: Any, what: str) -> None:
    """Refuse a state whose values contradict each other."""
    if not bool(condition):
        raise DataError(f"{what}.")
