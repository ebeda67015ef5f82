"""The epsilon-insensitive cost of all pairs, and Newton's method for it: the solver of SVRank.

The cost takes O(m log m), by sorting and running sums.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.exceptions import ConvergenceWarning
from rankwright.rankers.kernels import DrawnLandmarks
from rankwright.rankers.magnitude.base import KernelProblem, MagnitudeRanker
from rankwright.rankers.magnitude.sample import Scatter, WeightedRows, too_large
from rankwright.runtime import require_memory

PRECISION = 1e-3  # of a Newton step: its residual, relative to the gradient
MAX_PRODUCTS = 300  # with the Hessian, for one Newton step
PATIENCE = 30  # steps without a smaller gap: rounding errors dominate
FLAT = 0.1  # slope of the objective at the end of a line search, relative to its start


@dataclass(frozen=True, eq=False)
class InsensitiveCost:
    r"""SVRank's loss :math:`C/M \sum_q 1/S_q \sum_{ij} s_i s_j \max(0, |r_j - r_i| - \epsilon)^n`.

    It depends on the residuals r = h - y only. For n = 1 the excess t of a pair, t = max(0,
    |r_j - r_i| - epsilon), may be smoothed: t^2 / (2 mu) up to t = mu, then t - mu / 2.

    >>> from rankwright.feedback.base import Grades
    >>> cost = InsensitiveCost(WeightedRows.of(Grades([0, 1, 3])), C=9.0, epsilon=0.5, power=1)
    >>> cost.at(np.array([0.0, -1.0, -3.0])).exact
    9.0
    """

    sample: WeightedRows
    C: float
    epsilon: float
    power: int

    @cached_property
    def weight(self) -> FloatArray:
        """Row weights whose products are the weights of the pairs."""
        scale = np.sqrt(self.C / (self.sample.total * self.sample.sums))
        return self.sample.mass * scale[self.sample.codes]

    def at(self, residual: FloatArray, mu: float = 0.0) -> LossAt:
        """The loss at these residuals; for n = 1 it has a slope only if mu > 0."""
        centered = self.sample.centered(residual)
        if self.power == 1 and mu > 0:
            return _Smoothed(self, centered, mu)
        return _Plain(self, centered)


class LossAt(ABC):
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


class _Plain(LossAt):
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


class _Smoothed(LossAt):
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


class Space:
    """Models score = X w: their scores of the training rows, gradients and inner products.

    Preconditioned by the squared loss, whose Hessian has a closed form.
    """

    largest = 2000  # coefficients up to which dense matrices save time

    def __init__(self, X: Matrix, sample: WeightedRows) -> None:
        self.X, self.n_coefficients = X, X.shape[1]
        self._spread = None
        if self.n_coefficients <= self.largest:
            products = Scatter.of(X, sample).products[:-1, :-1]
            spread, self._axes = linalg.eigh(products, driver="evd")
            self._spread = np.maximum(spread, 0.0)
            self._mass = float(sample.mass @ (1.0 - sample.unit**2))

    def values(self, coef: FloatArray) -> FloatArray:
        """The scores of the training rows."""
        return np.asarray(self.X @ coef)

    def gradient(self, slope: FloatArray) -> FloatArray:
        """The coefficients of the gradient, given the slopes of a function of the values."""
        return np.asarray(self.X.T @ slope)

    def inner(self, a: FloatArray, b: FloatArray, values_of_b: FloatArray) -> float:
        return float(a @ b)

    def precondition(self, coef: FloatArray, trace: float) -> FloatArray:
        """An approximate inverse of the Hessian, given the trace of the Hessian of the loss."""
        if self._spread is None:
            return 0.5 * coef
        strength = trace / self._mass if self._mass > 0 else 0.0
        return np.asarray(self._axes @ ((self._axes.T @ coef) / (2.0 + strength * self._spread)))

    def square(self, coef: FloatArray, preconditioned: FloatArray) -> float:
        """The squared norm, given also the values of the preconditioned coefficients."""
        return float(coef @ coef)

    def exact_step(self, point: LossAt, gradient: FloatArray) -> FloatArray | None:
        """The Newton step from a dense Hessian; None if that matrix would be too large."""
        return None


class GramSpace(Space):
    """Models score = K alpha, with the inner product of the kernel: one product with K a step."""

    def __init__(self, K: FloatArray) -> None:
        self.X, self.n_coefficients, self._spread = K, len(K), None

    def gradient(self, slope: FloatArray) -> FloatArray:
        return slope.copy()

    def inner(self, a: FloatArray, b: FloatArray, values_of_b: FloatArray) -> float:
        return float(a @ values_of_b)

    def square(self, coef: FloatArray, preconditioned: FloatArray) -> float:
        return 2.0 * float(coef @ preconditioned)

    def exact_step(self, point: LossAt, gradient: FloatArray) -> FloatArray | None:
        if self.n_coefficients > self.largest:
            return None
        hessian = np.array([point.curvature(unit) for unit in np.eye(self.n_coefficients)])
        system = hessian @ self.X
        system.flat[:: len(system) + 1] += 2.0
        return np.asarray(linalg.lapack.dgesv(system, -gradient, overwrite_a=1)[2])


class Solution(NamedTuple):
    """A model, and a bound on its distance from the optimum."""

    coef: FloatArray
    values: FloatArray  # training scores
    objective: float
    gap: float  # objective minus that of a feasible dual solution: at least the distance
    n_iter: int  # Newton steps
    converged: bool  # whether the gap is below tol times the objective


def minimize(space: Space, cost: InsensitiveCost, tol: float, max_iter: int) -> Solution:
    """Minimize |w|^2 + loss(values - y); for n = 1 with a smoothing that shrinks as it converges.

    The slope of the loss gives feasible multipliers of the dual problem. At the model w with
    gradient G the gap is |G|^2 / 4 + slack: the first term is what Newton's method has left to do,
    the second comes from the smoothing, so mu shrinks when the second is the larger.
    """
    y = cost.sample.y
    coef, values = np.zeros(space.n_coefficients), np.zeros(len(y))
    mu = 0.0
    if cost.power == 1:
        centered = cost.sample.centered(y)
        mu = float(np.sqrt(cost.sample.overall(centered * centered))) or 1.0
    narrowest = 1e-14 * mu
    floor = np.finfo(np.float64).eps * cost.at(-y).exact
    best: Solution | None = None
    steps, stiff = 0, False
    while True:
        point = cost.at(values - y, mu)
        gradient = 2.0 * coef + space.gradient(point.slope)
        gradient_values = space.values(gradient)
        rest = 0.25 * space.inner(gradient, gradient, gradient_values)
        norm = space.inner(coef, coef, values)
        objective, gap = norm + point.exact, rest + point.slack
        converged = bool(gap <= tol * objective + floor)
        solution = Solution(coef, values, objective, gap, steps, converged)
        if converged:
            return solution
        if best is None or gap < best.gap:
            best = solution
        if steps >= max_iter or steps > best.n_iter + PATIENCE:
            break
        if cost.power == 1 and rest <= 0.2 * point.slack:
            mu *= 0.25
            if mu < narrowest:
                break
            continue
        step = space.exact_step(point, gradient) if stiff else None
        if step is None:
            step, step_values, stiff = _newton_step(space, point, gradient, gradient_values)
        else:
            step_values = space.values(step)
        cross, square = (space.inner(model, step, step_values) for model in (coef, step))
        length = _line_search(cost, mu, values - y, step_values, cross, square)
        if length == 0.0:  # no progress beyond rounding errors
            break
        coef, values = coef + length * step, values + length * step_values
        steps += 1
    assert best is not None
    return best._replace(n_iter=steps)


def _newton_step(
    space: Space, point: LossAt, gradient: FloatArray, gradient_values: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """The step, its values, whether conjugate gradients took more than MAX_PRODUCTS products."""
    trace = point.trace()
    step, step_values = np.zeros_like(gradient), np.zeros(len(point.slope))
    residual = -gradient
    small = PRECISION**2 * space.inner(gradient, gradient, gradient_values)
    z = space.precondition(residual, trace)
    z_values = space.values(z)
    direction, direction_values = z, z_values
    size = space.inner(residual, z, z_values)
    for _ in range(MAX_PRODUCTS):
        product = 2.0 * direction + space.gradient(point.curvature(direction_values))
        curvature = space.inner(product, direction, direction_values)
        if not curvature > 0:
            break
        length = size / curvature
        step, step_values = step + length * direction, step_values + length * direction_values
        residual = residual - length * product
        z = space.precondition(residual, trace)
        z_values = space.values(z)
        old, size = size, space.inner(residual, z, z_values)
        if space.square(residual, z_values) <= small:
            break
        direction = z + (size / old) * direction
        direction_values = z_values + (size / old) * direction_values
    else:
        return step, step_values, True
    return step, step_values, False


def _line_search(
    cost: InsensitiveCost,
    mu: float,
    residual: FloatArray,
    step: FloatArray,
    cross: float,
    square: float,
) -> float:
    """A length near the minimum of the smoothed objective along a step with these values.

    ``cross`` and ``square`` are its inner products with the model and with itself. The search goes
    by the slope, because values lose these digits long before: 1 if that is near enough, else false
    position (Illinois) between lengths known to be too short and too long.
    """

    def slope_at(length: float) -> float:
        point = cost.at(residual + length * step, mu)
        return 2.0 * (cross + length * square) + float(point.slope @ step)

    short, slope = 0.0, slope_at(0.0)
    long, end = 1.0, slope_at(1.0)
    flat = FLAT * abs(slope)
    if end <= flat:
        return long if slope < 0 else 0.0
    for _ in range(30):
        length = short + (long - short) * slope / (slope - end)
        here = slope_at(length)
        if abs(here) <= flat:
            return length
        if here < 0:
            short, slope, end = length, here, 0.5 * end
        else:
            long, end, slope = length, here, 0.5 * slope
    return short


def _features(ranker: MagnitudeRanker, landmarks: DrawnLandmarks) -> FloatArray:
    """The features of all rows as one array: every Newton step needs them."""
    n, rank = landmarks.shape
    require_memory(
        3.0 * 8.0 * n * rank,
        f"{type(ranker).__name__}: features of {n:,} rows by {rank:,} landmarks",
        "Lower n_components, use MPRank(solver='nystroem', loss='squared'), which computes them on "
        "demand, or the linear kernel.",
    )
    return landmarks[:]


def fit_insensitive(
    ranker: MagnitudeRanker,
    problem: KernelProblem,
    solver: str,
    cost: InsensitiveCost,
    tol: float | None = None,
) -> None:
    """Minimize |w|^2 + loss and store the model in the ranker; ``tol`` replaces the ranker's."""
    sample, tol = problem.sample, ranker.tol if tol is None else tol
    landmarks = ranker._landmarks(problem) if solver == "nystroem" else None
    middle, space = None, GramSpace(problem.matrix()) if solver == "dual" else None
    rows = problem.rows if landmarks is None else _features(ranker, landmarks)
    if solver == "primal" and not sparse.issparse(rows):
        middle = sample.mass @ rows / sample.total  # changes no difference, and saves digits
        rows = rows - middle
    solution = minimize(space or Space(rows, sample), cost, tol, ranker.max_iter)
    mean = sample.overall(solution.values)
    if solver == "primal":
        ranker._keep_linear(solution.coef)
    else:
        ranker._keep_dual(problem, solution.coef, landmarks)
    if middle is not None:
        mean += float(middle @ solution.coef)
    if not np.isfinite([solution.objective, solution.gap]).all():
        raise too_large()
    if not solution.converged:
        warnings.warn(
            f"{type(ranker).__name__} stopped after {solution.n_iter} Newton steps with a duality "
            f"gap of {solution.gap:.3g} at the objective {solution.objective:.6g}, more than tol = "
            f"{tol:g} of the objective. Raise max_iter, raise tol, or scale the features.",
            ConvergenceWarning,
            stacklevel=6,
        )
    ranker.intercept_, ranker.n_iter_ = sample.overall(sample.y) - mean, solution.n_iter
    ranker.cost_ = cost.at(solution.values - sample.y).exact / cost.C
    ranker.mass_, ranker.kappa_ = sample.total, problem.kappa
    ranker.objective_, ranker.gap_ = solution.objective, solution.gap
