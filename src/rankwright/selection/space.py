"""Which parameters to try: a grid, random draws, or what a sampler proposes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.exceptions import ParameterError

__all__ = ["Range", "draw", "grid"]

Parameters = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """All numbers from low to high; whole numbers where both are.

    >>> Range(1, 8).at(0.5), round(Range(0.01, 100.0, log=True).at(0.5), 6)
    (5, 1.0)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise ParameterError(f"Range({self.low}, {self.high}): low must be below high.")
        if self.log and self.low <= 0:
            raise ParameterError(f"Range({self.low}, {self.high}, log=True): low must be > 0.")

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, share: float) -> float | int:
        """The number at this share (0 <= share < 1) of the way, on the log scale if asked."""
        high = self.high + 1 if self.is_whole else self.high
        if self.log:
            value = float(np.exp(np.log(self.low) + share * (np.log(high) - np.log(self.low))))
        else:
            value = float(self.low + share * (high - self.low))
        return min(int(value), int(self.high)) if self.is_whole else value


def grid(space: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> list[Parameters]:
    """Every combination of the values, of one table or of several in turn.

    >>> grid({"C": [1, 10], "loss": ["hinge"]})
    [{'C': 1, 'loss': 'hinge'}, {'C': 10, 'loss': 'hinge'}]
    """
    found: list[Parameters] = []
    for table in _tables(space):
        values = [_choices(name, choice) for name, choice in table.items()]
        found += [dict(zip(table, each, strict=True)) for each in itertools.product(*values)]
    return found


def draw(
    space: Mapping[str, Any] | Iterable[Mapping[str, Any]], n: int, rng: np.random.Generator
) -> list[Parameters]:
    """Random combinations; a choice is a list, a Range, or anything with ``rvs`` (SciPy).

    >>> draw({"C": Range(0.1, 10.0, log=True)}, 1, np.random.default_rng(0))[0]["C"] < 10
    True
    """
    tables = _tables(space)
    picked = [tables[int(rng.integers(len(tables)))] for _ in range(n)]
    return [{name: _one(choice, rng) for name, choice in table.items()} for table in picked]


def _one(choice: Any, rng: np.random.Generator) -> Any:
    if isinstance(choice, Range):
        return choice.at(float(rng.random()))
    if hasattr(choice, "rvs"):
        return choice.rvs(random_state=np.random.RandomState(int(rng.integers(2**31))))
    values = _choices("", choice)
    return values[int(rng.integers(len(values)))]


def _choices(name: str, choice: Any) -> list[Any]:
    if isinstance(choice, Range) or hasattr(choice, "rvs"):
        raise ParameterError(
            f"space[{name!r}] is {choice!r}: a grid needs a list of values. "
            "For ranges and distributions use search='random' or search='optuna'."
        )
    if isinstance(choice, str) or not isinstance(choice, Iterable):
        raise ParameterError(
            f"space[{name!r}] is {choice!r}: give a list of values to try, or a Range."
        )
    values = list(choice)
    if not values:
        raise ParameterError(f"space[{name!r}] is empty: give at least one value.")
    return values


def _tables(space: Any) -> list[Mapping[str, Any]]:
    tables = [space] if isinstance(space, Mapping) else list(space)
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise ParameterError("the space must be a table {parameter: values} or a list of these.")
    return tables
