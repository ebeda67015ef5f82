"""What the generators share: samples that cannot be changed, grades by shares, checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.arrays import read_only
from rankwright.exceptions import ParameterError

__all__ = ["FloatArray", "IntArray", "Sample", "Seed", "cut_by_shares", "need"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Seed = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class Sample:
    """A draw together with what is known of it; its arrays are read-only."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, read_only(value))


def cut_by_shares(values: FloatArray, shares: Sequence[float] | NDArray[Any]) -> IntArray:
    """Grades 0 .. k - 1 such that each is taken by its share of the values.

    >>> cut_by_shares(np.array([0.1, 0.7, 0.3, 0.9]), [1, 1])
    array([0, 1, 0, 1])
    """
    upper = np.cumsum(shares)[:-1] / np.sum(shares)
    return np.searchsorted(np.quantile(values, upper), values)


def need(holds: bool, name: str, found: object, words: str) -> None:
    """Refuse an argument that is out of its range."""
    if not holds:
        raise ParameterError(f"{name}={found!r}: {name} must be {words}.")
