"""Minimize 1/2 |w|^2 + C * (weighted mean pair loss of the scores X w) by truncated Newton steps.

The objective is 1-strongly convex, so |gradient|^2 / 2 bounds its distance from the optimum: every
solution comes with a proven gap. The plain hinge is smoothed over a width u,

    h_u(d) = ((1 - d)_+^2 - (1 - u - d)_+^2) / (2 u),     h_u <= hinge <= h_u + u / 2,

a difference of two squared hinges, and u shrinks until the gap to the hinge itself is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rankwright._typing import FloatArray, Matrix
from rankwright.rankers.gradient.pair_sums import PairSums, PairSumsAt

SHRINK = 0.2  # of the smoothing width from one stage to the next
STALLED = 3  # Newton steps in sequence without progress that end the search
POLISH = 10  # Newton steps after convergence, at most

Scores = Any  # of all rows: added, multiplied by numbers, and otherwise left to ``PairLosses``
Terms = list[tuple[float, float]]  # factors and margins of the squared hinges in the loss


@dataclass(frozen=True)
class Minimum:
    """The minimizer, with its objective and how far at most that is above the least one."""

    coef: FloatArray
    objective: float
    gap: float
    n_iter: int
    converged: bool


def solve(
    losses: PairLosses, *, loss: str, C: float, tol: float, max_iter: int, least: float = 0.0
) -> Minimum:
    """Minimize until gap <= tol * |objective|, or max_iter Newton steps are done.

    An objective nearer to 0 than ``least`` times the bound of the first gap counts as that.

    A few cheap steps more bring the gradient down to 1e-3 * tol of the first one, so that rows in
    another order, or weights in place of copies, give the same model. Steps that no longer lower
    the objective in double precision (features of 1e8 and more, where the proven gap is dominated
    by rounding) end it too, not converged.
    """
    problem = _Problem(losses, C)
    width = None if loss == "squared_hinge" else 1.0
    start = np.zeros(losses.n_features)
    now = problem.at(start, losses.scores(start), width)
    least *= now.slack
    target, polish = 1e-3 * tol * float(np.linalg.norm(now.gradient)), POLISH
    best, stalled = now, 0
    for n_iter in range(max_iter):
        close = now.gap <= tol * max(abs(now.objective), least)
        if close:
            if polish == 0 or np.linalg.norm(now.gradient) <= target:
                return Minimum(now.coef, now.objective, now.gap, n_iter, True)
            polish -= 1
        elif width is not None and now.slack <= 0.1 * (now.gap - now.slack):
            # Smoothing is what keeps us away, not the solver: sharpen.
            width *= SHRINK
            now, stalled = problem.at(now.coef, now.scores, width), 0
        after = problem.newton_step(now, width)
        close = now.gap <= tol * max(abs(now.objective), least)
        stalled = 0 if close or after.smooth < now.smooth else stalled + 1
        now = after
        best = now if now.objective <= best.objective else best
        if stalled == STALLED:
            break
    done = best.gap <= tol * max(abs(best.objective), least)
    return Minimum(best.coef, best.objective, best.gap, n_iter + 1, done)


class LossPoint(Protocol):
    """The pair losses at some scores, with derivatives by the weights w."""

    value: float
    hinge: float  # the sum of the plain hinge, without a factor

    @property
    def gradient(self) -> FloatArray:
        """The derivative by the weights."""

    def diagonal(self) -> FloatArray:
        """Roughly the diagonal of the second derivative."""

    def product(self, vector: FloatArray) -> FloatArray:
        """The second derivative times a vector."""


class PairLosses(Protocol):
    """The pair losses of the scores X w."""

    n_features: int
    weight: float  # of all pairs together

    def scores(self, coef: FloatArray) -> Scores:
        """X w."""

    def at(self, scores: Scores, terms: Terms) -> LossPoint: ...

    def slope(self, scores: Scores, steps: Scores, terms: Terms) -> float:
        """The derivative along the steps."""


class RowLosses:
    """The pair losses of rows in memory; scores are (n_items,) arrays."""

    def __init__(self, X: Matrix, pairs: PairSums) -> None:
        self.X, self.pairs = X, pairs
        self.n_features, self.weight = X.shape[1], pairs.weight

    def scores(self, coef: FloatArray) -> Scores:
        return np.asarray(self.X @ coef)

    def at(self, scores: Scores, terms: Terms) -> RowPoint:
        points = [(factor, self.pairs.at(scores, margin)) for factor, margin in terms]
        slope = sum(f * point.slope for f, point in points)
        value = sum(f * point.squared for f, point in points)
        hinge = points[0][1].hinge
        return RowPoint(value, hinge, np.asarray(self.X.T @ slope), self.X, points)

    def slope(self, scores: Scores, steps: Scores, terms: Terms) -> float:
        slopes = [factor * self.pairs.at(scores, margin).slope for factor, margin in terms]
        return float(np.sum(slopes, axis=0) @ steps)


@dataclass(eq=False)
class RowPoint:
    """A ``LossPoint`` of rows in memory."""

    value: float
    hinge: float
    gradient: FloatArray
    X: Any
    points: list[tuple[float, PairSumsAt]]

    def product(self, vector: FloatArray) -> FloatArray:
        values = self.X @ vector
        return np.asarray(self.X.T @ sum(2.0 * f * p.product(values) for f, p in self.points))

    def diagonal(self) -> FloatArray:
        return diagonal(self.moments())

    def moments(self) -> FloatArray:
        curvature = sum(2.0 * f * point.curvature for f, point in self.points)
        return curvature_moments(self.X, np.asarray(curvature))


def curvature_moments(X: Matrix, curvature: FloatArray) -> FloatArray:
    """Sums of the curvature by score, times 1, the features and their squares."""
    first, second = X.T @ curvature, _squares_times(X, curvature)
    return np.concatenate([[np.sum(curvature)], first, second])


def diagonal(moments: FloatArray) -> FloatArray:
    """Roughly the diagonal of the second derivative, from ``curvature_moments``."""
    mass, (first, second) = float(moments[0]), np.split(moments[1:], 2)
    return np.maximum(second - first * first / mass, 0.0) if mass > 0 else np.zeros_like(first)


@dataclass(frozen=True)
class _State:
    """The objective around one w."""

    coef: FloatArray
    scores: Scores
    objective: float
    smooth: float  # the objective with the smoothed loss
    gradient: FloatArray
    loss: LossPoint

    @property
    def slack(self) -> float:
        """How far the smoothed objective is above its minimum, at most."""
        return 0.5 * float(self.gradient @ self.gradient)

    @property
    def gap(self) -> float:
        """How far the objective is above its minimum, at most."""
        return max(self.objective - self.smooth, 0.0) + self.slack


class _Problem:
    def __init__(self, losses: PairLosses, C: float) -> None:
        self.losses = losses
        self.factor = C / losses.weight if losses.weight > 0 else 0.0

    def at(self, coef: FloatArray, scores: Scores, width: float | None) -> _State:
        loss = self.losses.at(scores, self._terms(width))
        norm = 0.5 * float(coef @ coef)
        objective = norm + (loss.value if width is None else self.factor * loss.hinge)
        return _State(coef, scores, objective, norm + loss.value, coef + loss.gradient, loss)

    def newton_step(self, now: _State, width: float | None) -> _State:
        direction = self._conjugate_gradients(now)
        steps = self.losses.scores(direction)
        t = self._line_search(now, direction, steps, width)
        return self.at(now.coef + t * direction, now.scores + t * steps, width)

    def _terms(self, width: float | None) -> Terms:
        f = self.factor
        if width is None:
            return [(f, 1.0)]
        return [(f * (0.5 / width), 1.0), (f * (-0.5 / width), 1.0 - width)]

    def _conjugate_gradients(self, now: _State) -> FloatArray:
        """An approximate Newton direction; the closer to the end, the more exact."""
        scale = 1.0 + now.loss.diagonal()  # makes features of all scales alike
        residual = -now.gradient
        size = float(np.linalg.norm(residual))
        # Superlinear: the tolerance shrinks with the gradient itself.
        tolerance = min(0.1, np.sqrt(size / max(np.sqrt(2.0 * abs(now.smooth)), 1e-300))) * size
        solution, scaled = np.zeros_like(residual), residual / scale
        direction, old = scaled, float(residual @ scaled)
        for _ in range(max(20, 2 * len(residual))):
            if np.linalg.norm(residual) <= tolerance:
                break
            curved = direction + now.loss.product(direction)
            t = old / float(direction @ curved)
            solution = solution + t * direction
            residual = residual - t * curved
            scaled = residual / scale
            new = float(residual @ scaled)
            direction, old = scaled + (new / old) * direction, new
        return solution if solution.any() else -now.gradient

    def _line_search(
        self, now: _State, direction: FloatArray, steps: Scores, width: float | None
    ) -> float:
        """The step that (nearly) minimizes the convex objective along the direction."""
        linear, square = float(now.coef @ direction), float(direction @ direction)
        start = float(now.gradient @ direction)
        low, high, low_slope = 0.0, np.inf, start
        t = 1.0
        for _ in range(20):  # evaluating the loss along the way costs no product with X
            loss_slope = self.losses.slope(now.scores + t * steps, steps, self._terms(width))
            slope = linear + t * square + loss_slope
            if abs(slope) <= 0.1 * abs(start):
                return t
            if slope < 0:
                low, low_slope = t, slope
                t = 2.0 * t if high == np.inf else 0.5 * (low + high)
            else:
                high = t
                secant = low - low_slope * (high - low) / (slope - low_slope)
                t = min(max(secant, low + 0.1 * (high - low)), high - 0.1 * (high - low))
        return low if low > 0 else t


def _squares_times(X: Matrix, weights: FloatArray) -> FloatArray:
    """(X * X).T @ weights, without a second matrix of that size."""
    if not isinstance(X, np.ndarray):
        squares = X.copy()
        squares.data **= 2
        return np.asarray(squares.T @ weights)
    total = np.zeros(X.shape[1])
    for start in range(0, len(X), 4096):
        rows = X[start : start + 4096]
        total += (rows * rows).T @ weights[start : start + 4096]
    return total
