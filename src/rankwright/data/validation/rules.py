"""Rules that data should keep, and what a rule says about data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray

Status = Literal["PASS", "WARN", "FAIL"]
Fault = tuple[Status, str, int | None, str]  # status, reason, row, fix
Lines = IntArray | None  # the line of each row; None where a line holds several ratings
Rule = tuple[str, str, Callable[[Any, Any], Fault | None]]  # name, what holds, check


@dataclass(frozen=True)
class Finding:
    """What one rule says about the data.

    ``line`` is the line of the file, or the row counted from 1 for data in memory.
    """

    rule: str
    status: Status
    reason: str
    line: int | None = None
    fix: str = ""


def apply_rules(rules: Sequence[Rule], data: Any, lines: Lines) -> Iterator[Finding]:
    """A finding for each rule."""
    for name, holds, check in rules:
        fault = check(data, lines)
        if fault is None:
            yield Finding(name, "PASS", holds)
        else:
            status, reason, row, fix = fault
            line = None if row is None or lines is None else int(lines[row])
            yield Finding(name, status, reason, line, fix)


def all_equal(values: FloatArray, group: IntArray, n_groups: int) -> NDArray[np.bool_]:
    """For each group whether its values are all the same."""
    low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return np.asarray(low == high)


def count(mask: Any) -> str:
    return f"{int(np.sum(mask)):,}"
