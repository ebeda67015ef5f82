"""One walk through the visits: thresholds, time, and what a block of visits changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.rankers.relaxation.visits import Visits

__all__ = ["Kept", "Made", "Walk"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
NONE = np.zeros(0)


@dataclass(frozen=True)
class Made:
    """What the visits of a block changed: steps along its rows, and steps times their time."""

    steps: FloatArray
    lags: FloatArray
    squares: float
    n_violations: int


@dataclass(frozen=True)
class Kept:
    """The rows kept so far, when there is a limit to them (see ``_kernels.relaxation_walk``)."""

    slot: IntArray
    dual: FloatArray
    drift: FloatArray
    sizes: FloatArray
    others: Any
    budget: int


@dataclass
class Walk:
    """Thresholds and time as they stand after the visits shown so far.

    The mean over time of anything that moves in steps is its last value minus
    (sum of step * time of the step) / time: so only that sum is kept, not the history.
    """

    thresholds: FloatArray
    margin: float
    step: float
    clock: float = 0.0
    lags: FloatArray = field(default_factory=lambda: NONE)
    unit: float = 0.0  # squared length of a unit of threshold; set when the first row is shown

    def __post_init__(self) -> None:
        if len(self.lags) != len(self.thresholds):
            self.lags = np.zeros(len(self.thresholds))

    def show(
        self, gram: FloatArray, visits: Visits, scores: FloatArray, kept: Kept | None = None
    ) -> Made:
        """Show the visits of one block; ``scores`` are those before the first of them."""
        from rankwright.rankers.relaxation import _kernels

        n = len(scores)
        kept = kept or Kept(np.zeros(0, np.int64), NONE, NONE, NONE, np.zeros((n, 0)), 0)
        steps, lags = np.zeros(n), np.zeros(n)
        self.clock, squares, n_violations = _kernels.relaxation_walk(
            gram, visits.upper, visits.lower, visits.code, visits.weight, kept.slot,
            scores, steps, lags, self.thresholds, self.lags,
            kept.dual, kept.drift, kept.sizes, kept.others,
            float(self.margin), float(self.step), self.unit, self.clock, kept.budget,
        )  # fmt: skip
        return Made(steps, lags, squares, n_violations)

    def final_thresholds(self, average: bool) -> FloatArray:
        if not average or self.clock == 0:
            return self.thresholds.copy()
        # A mean of ordered thresholds is ordered; only rounding could say otherwise.
        return np.maximum.accumulate(self.thresholds - self.lags / self.clock)
