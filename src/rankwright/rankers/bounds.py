"""What theory promises of a fitted model, next to what is true of given rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bound:
    """One inequality.

    Attributes
    ----------
    name : str, what is bounded
    bound : float, infinite where the theorem promises nothing
    truth : float, the bounded quantity itself
    source : str, the theorem
    is_lower : bool, whether the truth is at least the bound, and not at most
    """

    name: str
    bound: float
    truth: float
    source: str
    is_lower: bool = False

    @property
    def holds(self) -> bool:
        """Whether the truth keeps the bound, but for rounding."""
        slack = 1e-9 * max(1.0, abs(self.truth))
        if self.is_lower:
            return self.truth >= self.bound - slack
        return self.truth <= self.bound + slack


@dataclass(frozen=True)
class Bounds(Mapping[str, Bound]):
    """The result of ``model.bounds(X, y)``: bounds by name, and the quantities in them.

    Attributes
    ----------
    entries : tuple of Bound
    quantities : dict of str to number or array, such as ``margin`` and ``radius``

    >>> Bounds((Bound("mistakes", 12.5, 4.0, "Theorem 1"),), {"margin": 0.4})
    bound              at most  truth  of
    mistakes              12.5      4  Theorem 1
    margin = 0.4
    """

    entries: tuple[Bound, ...]
    quantities: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Bound:
        return {entry.name: entry for entry in self.entries}[name]

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        width = max([16, *map(len, self)])
        lines = [f"{'bound':{width}} {'at most':>9} {'truth':>6}  of"]
        for entry in self.entries:
            least = " (at least)" if entry.is_lower else ""
            numbers = f"{entry.bound:9.4g} {entry.truth:6.4g}"
            lines.append(f"{entry.name:{width}} {numbers}  {entry.source}{least}")
        for name, value in self.quantities.items():
            shown = f"{value:.4g}" if np.ndim(value) == 0 else f"{len(value)} values"
            lines.append(f"{name} = {shown}")
        return "\n".join(lines)
