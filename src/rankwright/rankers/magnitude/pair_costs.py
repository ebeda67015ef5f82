"""The epsilon-insensitive cost of all pairs in O(m log m), by sorting and running sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers.magnitude.sample import Sample


@dataclass(frozen=True, eq=False)
class InsensitiveCost:
    r"""SVRank's loss :math:`C/M \sum_q 1/S_q \sum_{ij} s_i s_j \max(0, |r_j - r_i| - \epsilon)^n`.

    It depends on the residuals r = h - y only. For n = 1 the excess t of a pair, t = max(0,
    |r_j - r_i| - epsilon), may be smoothed: t^2 / (2 mu) up to t = mu, then t - mu / 2.

    >>> from rankwright.feedback.grades import Grades
    >>> cost = InsensitiveCost(Sample.of(Grades([0, 1, 3])), C=9.0, epsilon=0.5, power=1)
    >>> cost.at(np.array([0.0, -1.0, -3.0])).exact
    9.0
    """

    sample: Sample
    C: float
    epsilon: float
    power: int

    @cached_property
    def weight(self) -> FloatArray:
        """Row weights whose products are the weights of the pairs."""
        scale = np.sqrt(self.C / (self.sample.total * self.sample.sums))
        return self.sample.mass * scale[self.sample.codes]

    def at(self, residual: FloatArray, mu: float = 0.0) -> Point:
        """The loss at these residuals; for n = 1 it has a slope only if mu > 0."""
        centered = self.sample.centered(residual)
        if self.power == 1 and mu > 0:
            return _Smoothed(self, centered, mu)
        return _Plain(self, centered)


class Point(ABC):
    """The loss at one vector of residuals."""

    exact: float  # the loss
    slope: FloatArray  # (n_rows,) its gradient, smoothed if n = 1
    # The part of the loss that the slope, read as multipliers of the dual problem, does not account
    # for: 0 for n = 2, between 0 and mu / 4 times the weight of the pairs for n = 1.
    slack: float

    def __init__(self, cost: InsensitiveCost, residual: FloatArray) -> None:
        self._ptr, one = cost.sample.ptr, cost.sample.n_queries == 1
        # Rows sorted by residual within each query.
        self._order = np.argsort(residual) if one else np.lexsort((residual, cost.sample.codes))
        self._weight, self._residual = cost.weight[self._order], residual[self._order]

    @abstractmethod
    def curvature(self, vector: FloatArray) -> FloatArray:
        """The Hessian (of the smoothed loss, if n = 1) times a vector."""

    @abstractmethod
    def trace(self) -> float: ...

    def _beyond(self, theta: float) -> tuple[IntArray, IntArray]:
        from rankwright.rankers.magnitude._kernels import rows_beyond

        low, high = (np.empty(len(self._residual), np.int64) for _ in range(2))
        rows_beyond(self._residual, self._ptr, theta, low, high)
        return low, high

    def _unsorted(self, values: FloatArray) -> FloatArray:
        result = np.empty_like(values)
        result[self._order] = values
        return result

    def _prefix_weight(self) -> FloatArray:
        return np.concatenate([np.zeros(1), np.cumsum(self._weight)])


class _Plain(Point):
    def __init__(self, cost: InsensitiveCost, residual: FloatArray) -> None:
        super().__init__(cost, residual)
        self._low, self._high = self._beyond(cost.epsilon)
        first, second, slope = self._excess(self._residual, cost.epsilon)
        self.exact, self.slack = (second if cost.power == 2 else first), 0.0
        self.slope = self._unsorted(slope)

    def _excess(self, values: FloatArray, theta: float) -> tuple[float, float, FloatArray]:
        from rankwright.rankers.magnitude._kernels import squared_excess

        slope, rows = np.empty(len(values)), (self._low, self._high)
        sums = squared_excess(values, self._weight, self._ptr, theta, *rows, slope)
        return *sums, slope

    def curvature(self, vector: FloatArray) -> FloatArray:
        return self._unsorted(self._excess(vector[self._order], 0.0)[2])

    def trace(self) -> float:
        count, sizes = self._prefix_weight(), np.diff(self._ptr)
        starts, stops = np.repeat(self._ptr[:-1], sizes), np.repeat(self._ptr[1:], sizes)
        partners = count[self._low] - count[starts] + count[stops] - count[self._high]
        return 4.0 * float(self._weight @ partners)


class _Smoothed(Point):
    def __init__(self, cost: InsensitiveCost, residual: FloatArray, mu: float) -> None:
        from rankwright.rankers.magnitude._kernels import Zones, smoothed_excess

        super().__init__(cost, residual)
        low, high = self._beyond(cost.epsilon)
        near, far = self._beyond(cost.epsilon + mu)
        self._mu, self._zones = mu, Zones(near, low, high, far)
        slope = np.empty(len(residual))
        self.exact, self.slack = smoothed_excess(
            self._residual, self._weight, self._ptr, cost.epsilon, mu, self._zones, slope
        )
        self.slope = self._unsorted(slope)

    def curvature(self, vector: FloatArray) -> FloatArray:
        from rankwright.rankers.magnitude._kernels import smoothed_hessian_product

        result = np.empty(len(vector))
        smoothed_hessian_product(vector[self._order], self._weight, self._mu, self._zones, result)
        return self._unsorted(result)

    def trace(self) -> float:
        count, zones = self._prefix_weight(), self._zones
        partners = count[zones.low] - count[zones.near] + count[zones.far] - count[zones.high]
        return 2.0 * float(self._weight @ partners) / self._mu
