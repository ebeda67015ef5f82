"""What a rule says about data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

__all__ = ["Finding", "Found", "Status", "many", "state"]

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


def many(mask: Any) -> str:
    """How many are true, for a reason."""
    return f"{int(np.sum(mask)):,}"
