"""Training with the insensitive cost, in whichever space suits the kernel: SVRank's solver."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray
from rankwright.exceptions import ConvergenceWarning
from rankwright.rankers.magnitude.base import MagnitudeRanker, Problem
from rankwright.rankers.magnitude.pair_costs import InsensitiveCost, Point
from rankwright.rankers.magnitude.scatter import Sample, Scatter, too_large

PRECISION = 1e-3  # of a Newton step: its residual, relative to the gradient
MOST_PRODUCTS = 300  # with the Hessian, for one Newton step
PATIENCE = 30  # steps without a smaller gap: rounding has the upper hand
NEAR = 0.1  # how flat the objective must be at the end of a step, relative to its start


class Space(ABC):
    """Where the model lives: coefficients, the values they give on the rows, inner products."""

    n_coefficients: int

    @abstractmethod
    def values(self, coef: FloatArray) -> FloatArray:
        """The scores of the training rows."""

    @abstractmethod
    def gradient(self, slope: FloatArray) -> FloatArray:
        """The coefficients of the gradient, given the slopes of a function of the values."""

    @abstractmethod
    def inner(self, a: FloatArray, b: FloatArray, values_of_b: FloatArray) -> float:
        """The inner product of two models."""

    def precondition(self, coef: FloatArray, trace: float) -> FloatArray:
        """About the inverse of the Hessian, given the trace of the loss's Hessian."""
        return 0.5 * coef

    @abstractmethod
    def square(self, coef: FloatArray, seen: FloatArray) -> float:
        """The squared norm; ``seen`` are the values of the preconditioned coefficients."""

    def exact_step(self, point: Point, gradient: FloatArray) -> FloatArray | None:
        """The Newton step from the whole Hessian; None where that is too large a matrix."""
        return None


class RowSpace(Space):
    """score = X w. Preconditioned by the squared loss, whose Hessian is known in closed form."""

    largest = 2000  # features up to which the preconditioner pays

    def __init__(self, X: Any, sample: Sample) -> None:
        self.X, self.n_coefficients = X, X.shape[1]
        self._spread = None
        if self.n_coefficients <= self.largest:
            scatter = Scatter(self.n_coefficients)
            scatter.add(X, sample)
            spread, self._axes = linalg.eigh(scatter.products[:-1, :-1], driver="evd")
            self._spread = np.maximum(spread, 0.0)
            self._mass = float(sample.mass @ (1.0 - sample.unit**2))

    def values(self, coef: FloatArray) -> FloatArray:
        return np.asarray(self.X @ coef)

    def gradient(self, slope: FloatArray) -> FloatArray:
        return np.asarray(self.X.T @ slope)

    def inner(self, a: FloatArray, b: FloatArray, values_of_b: FloatArray) -> float:
        return float(a @ b)

    def precondition(self, coef: FloatArray, trace: float) -> FloatArray:
        if self._spread is None:
            return 0.5 * coef
        strength = trace / self._mass if self._mass > 0 else 0.0
        return np.asarray(self._axes @ ((self._axes.T @ coef) / (2.0 + strength * self._spread)))

    def square(self, coef: FloatArray, seen: FloatArray) -> float:
        return float(coef @ coef)


class GramSpace(Space):
    """score = K alpha, with the kernel's own inner product: one product with K a step."""

    largest = 2000  # rows up to which a factor costs less than conjugate gradients that fail

    def __init__(self, K: FloatArray) -> None:
        self.K, self.n_coefficients = K, len(K)

    def values(self, coef: FloatArray) -> FloatArray:
        return np.asarray(self.K @ coef)

    def gradient(self, slope: FloatArray) -> FloatArray:
        return slope.copy()

    def inner(self, a: FloatArray, b: FloatArray, values_of_b: FloatArray) -> float:
        return float(a @ values_of_b)

    def square(self, coef: FloatArray, seen: FloatArray) -> float:
        return 2.0 * float(coef @ seen)

    def exact_step(self, point: Point, gradient: FloatArray) -> FloatArray | None:
        if self.n_coefficients > self.largest:
            return None
        hessian = np.array([point.curvature(unit) for unit in np.eye(self.n_coefficients)])
        system = hessian @ self.K
        system.flat[:: len(system) + 1] += 2.0
        return np.asarray(linalg.lapack.dgesv(system, -gradient, overwrite_a=1)[2])


@dataclass(frozen=True, eq=False)
class Solution:
    """The model found, and how near it is to the best.

    Attributes
    ----------
    coef, values : coefficients and training scores
    objective : F
    gap : F less the value of a feasible dual solution: F is at most this far from the minimum
    n_iter : Newton steps
    settled : whether the gap is below tol times F
    """

    coef: FloatArray
    values: FloatArray
    objective: float
    gap: float
    n_iter: int
    settled: bool


def minimize(space: Space, cost: InsensitiveCost, tol: float, max_iter: int) -> Solution:
    """Minimize |w|^2 + loss(values - y); for n = 1 with a smoothing that shrinks as it converges.

    The slope of the loss gives feasible multipliers of the dual problem. At the model w with
    gradient G the gap is |G|^2 / 4 + slack: the first term is what Newton's method has left to do,
    the second what the smoothing costs, so mu shrinks when the second is the larger.
    """
    y = cost.sample.y
    coef, values = np.zeros(space.n_coefficients), np.zeros(len(y))
    mu = _first_width(cost) if cost.power == 1 else 0.0
    narrowest = 1e-14 * mu
    floor = np.finfo(np.float64).eps * cost.at(-y).exact
    best: Solution | None = None
    steps, stiff = 0, False
    while True:
        point = cost.at(values - y, mu)
        gradient = 2.0 * coef + space.gradient(point.slope)
        moved = space.values(gradient)
        rest = 0.25 * space.inner(gradient, gradient, moved)
        norm = space.inner(coef, coef, values)
        objective, gap = norm + point.exact, rest + point.slack
        settled = bool(gap <= tol * objective + floor)
        found = Solution(coef, values, objective, gap, steps, settled)
        if settled:
            return found
        if best is None or gap < best.gap:
            best = found
        if steps >= max_iter or steps > best.n_iter + PATIENCE:
            return replace(best, n_iter=steps)
        if cost.power == 1 and rest <= 0.2 * point.slack:
            mu *= 0.25
            if mu < narrowest:
                return replace(best, n_iter=steps)
            continue
        step = space.exact_step(point, gradient) if stiff else None
        if step is None:
            step, step_values, stiff = _direction(space, point, gradient, moved)
        else:
            step_values = space.values(step)
        ray = _Ray(
            cost, mu, values - y, step_values,
            space.inner(coef, step, step_values), space.inner(step, step, step_values),
        )  # fmt: skip
        length = _length(ray)
        if length == 0.0:  # rounding: nothing below this width can be told apart
            return replace(best, n_iter=steps)
        coef, values = coef + length * step, values + length * step_values
        steps += 1


def _first_width(cost: InsensitiveCost) -> float:
    y = cost.sample.centered(cost.sample.y)
    return float(np.sqrt(cost.sample.overall(y * y))) or 1.0


def _direction(
    space: Space, point: Point, gradient: FloatArray, moved: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Conjugate gradients for (Hessian) step = -gradient, in the space's inner product.

    Returns the step, its values, and whether it took more products than there may be.
    """
    trace = point.trace()
    step, step_values = np.zeros_like(gradient), np.zeros(len(point.slope))
    rest, wanted = -gradient, PRECISION**2 * space.inner(gradient, gradient, moved)
    turned = space.precondition(rest, trace)
    seen = space.values(turned)
    way, way_values = turned, seen
    size = space.inner(rest, turned, seen)
    for _ in range(MOST_PRODUCTS):
        bent = 2.0 * way + space.gradient(point.curvature(way_values))
        along = space.inner(bent, way, way_values)
        if not along > 0:
            break
        step, step_values = step + (size / along) * way, step_values + (size / along) * way_values
        rest = rest - (size / along) * bent
        turned = space.precondition(rest, trace)
        seen = space.values(turned)
        old, size = size, space.inner(rest, turned, seen)
        if space.square(rest, seen) <= wanted:
            break
        way, way_values = turned + (size / old) * way, seen + (size / old) * way_values
    else:
        return step, step_values, True
    return step, step_values, False


@dataclass(frozen=True, eq=False)
class _Ray:
    """The smoothed objective along a direction: what a line search asks for."""

    cost: InsensitiveCost
    mu: float
    residual: FloatArray
    ahead: FloatArray
    cross: float
    square: float

    def slope(self, length: float) -> float:
        point = self.cost.at(self.residual + length * self.ahead, self.mu)
        return 2.0 * (self.cross + length * self.square) + float(point.slope @ self.ahead)


def _length(ray: _Ray) -> float:
    """Near the minimum along the ray, by its slope (values have lost these digits long before).

    1 if that is near enough; else between the longest step known to be too short and the shortest
    known to be too long, by false position (Illinois).
    """
    short, slope = 0.0, ray.slope(0.0)
    first = abs(slope)
    length, end = 1.0, ray.slope(1.0)
    if end <= NEAR * first:
        return length if slope < 0 else 0.0
    long = length
    for _ in range(30):
        length = short + (long - short) * slope / (slope - end)
        here = ray.slope(length)
        if abs(here) <= NEAR * first:
            return length
        if here < 0:
            short, slope, end = length, here, 0.5 * end
        else:
            long, end, slope = length, here, 0.5 * slope
    return short


def fit_insensitive(
    ranker: MagnitudeRanker,
    problem: Problem,
    solver: str,
    cost: InsensitiveCost,
    tol: float | None = None,
) -> Solution:
    """Minimize |w|^2 + loss and leave the model in the ranker; ``tol`` in place of its own."""
    wanted = ranker.tol if tol is None else tol
    solution: Solution = SOLVERS[solver](ranker, problem, cost, wanted)
    if not np.isfinite(solution.objective) or not np.isfinite(solution.gap):
        raise too_large()
    if not solution.settled:
        warnings.warn(
            f"{type(ranker).__name__} stopped after {solution.n_iter} Newton steps with a duality "
            f"gap of {solution.gap:.3g} at the objective {solution.objective:.6g}; wanted: tol = "
            f"{wanted:g} of the objective. Raise max_iter, raise tol, or scale the features.",
            ConvergenceWarning,
            stacklevel=6,
        )
    sample = problem.sample
    ranker.n_iter_ = solution.n_iter
    ranker.cost_ = cost.at(solution.values - sample.y).exact / cost.C
    ranker.mass_, ranker.kappa_ = sample.total, problem.kappa
    ranker.objective_, ranker.gap_ = solution.objective, solution.gap
    return solution


def _primal(
    ranker: MagnitudeRanker, problem: Problem, cost: InsensitiveCost, tol: float
) -> Solution:
    rows, sample = problem.rows, problem.sample
    middle = np.zeros(rows.shape[1])
    if not sparse.issparse(rows):  # a shift that costs nothing and saves digits
        middle = sample.mass @ rows / sample.total
        rows = rows - middle
    solution = minimize(RowSpace(rows, sample), cost, tol, ranker.max_iter)
    ranker._keep_linear(solution.coef)
    mean = sample.overall(solution.values) + float(middle @ solution.coef)
    ranker.intercept_ = sample.overall(sample.y) - mean
    return solution


def _dual(ranker: MagnitudeRanker, problem: Problem, cost: InsensitiveCost, tol: float) -> Solution:
    solution = minimize(GramSpace(problem.matrix()), cost, tol, ranker.max_iter)
    ranker._keep_dual(problem, solution.coef)
    return _with_intercept(ranker, problem, solution)


def _nystroem(
    ranker: MagnitudeRanker, problem: Problem, cost: InsensitiveCost, tol: float
) -> Solution:
    landmarks = ranker._landmarks(problem)
    space = RowSpace(landmarks[:], problem.sample)
    solution = minimize(space, cost, tol, ranker.max_iter)
    ranker._keep_landmarks(problem, landmarks, solution.coef)
    return _with_intercept(ranker, problem, solution)


def _with_intercept(ranker: MagnitudeRanker, problem: Problem, solution: Solution) -> Solution:
    sample = problem.sample
    ranker.intercept_ = sample.overall(sample.y) - sample.overall(solution.values)
    return solution


SOLVERS: dict[str, Any] = {"primal": _primal, "dual": _dual, "nystroem": _nystroem}
