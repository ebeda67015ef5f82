"""What a rule says about data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Status = Literal["PASS", "WARN", "FAIL"]
Found = tuple[Status, str, int | None, str] | None  # status, reason, line, fix; None: kept


@dataclass(frozen=True)
class Finding:
    """What one rule says about the data."""

    rule: str
    status: Status
    reason: str
    line: int | None = None
    fix: str = ""


def state(found: Iterable[tuple[str, Found]], kept: dict[str, str]) -> Iterator[Finding]:
    """A finding for each rule; ``kept`` are the words for a rule that is kept."""
    for rule, broken in found:
        yield Finding(rule, "PASS", kept[rule]) if broken is None else Finding(rule, *broken)


def all_equal(values: NDArray[Any], group: NDArray[np.int64], n_groups: int) -> NDArray[np.bool_]:
    """For each group whether its values are one and the same.

    >>> all_equal(np.array([1.0, 2.0, 3.0, 3.0]), np.array([0, 0, 1, 1]), 2)
    array([False,  True])
    """
    low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return np.asarray(low == high)


def many(mask: Any) -> str:
    """How many are true, for a reason."""
    return f"{int(np.sum(mask)):,}"
