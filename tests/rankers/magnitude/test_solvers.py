"""The insensitive cost in O(m log m) is the sum over explicit pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.rankers.magnitude.sample import WeightedRows
from rankwright.rankers.magnitude.solvers import InsensitiveCost


def explicit(
    pairs: Any, residual: np.ndarray, epsilon: float, power: int, mu: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """The loss, its gradient and its Hessian, pair by pair."""
    value, slope = 0.0, np.zeros(len(residual))
    hessian = np.zeros((len(residual), len(residual)))
    for i, j, weight in pairs:
        gap = residual[j] - residual[i]
        t = abs(gap) - epsilon
        if t <= 0:
            continue
        if power == 2:
            value, pull, bend = value + weight * t * t, 2 * t, 2.0
        elif t < mu:
            value, pull, bend = value + weight * t, t / mu, 1 / mu
        else:
            value, pull, bend = value + weight * t, 1.0, 0.0
        slope[j] += weight * pull * np.sign(gap)
        slope[i] -= weight * pull * np.sign(gap)
        apart = np.zeros(len(residual))
        apart[j], apart[i] = 1.0, -1.0
        hessian += weight * bend * np.outer(apart, apart)
    return value, slope, hessian


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@pytest.mark.parametrize("power, mu", [(2, 0.0), (1, 0.3), (1, 5.0), (1, 1e-6)])
@pytest.mark.parametrize("ties", [False, True])
def test_value_slope_and_curvature_are_sums_over_pairs(
    rows: Any, epsilon: float, power: int, mu: float, ties: bool
) -> None:
    sample = WeightedRows.of(
        rw.Grades(rows.y, rows.q, sample_weight=rows.u, query_weight=rows.v[rows.q])
    )
    residual = np.random.default_rng(0).normal(size=40) + 100.0
    residual = np.round(residual, 1) if ties else residual
    vector = np.random.default_rng(1).normal(size=40)
    value, slope, hessian = explicit(rows.pairs(7.0), residual, epsilon, power, mu)
    point = InsensitiveCost(sample, 7.0, epsilon, power).at(residual[sample.rows], mu)
    scale = np.abs(hessian).max() + 1.0
    assert point.exact == pytest.approx(value, rel=1e-10)
    if ties and power == 1 and mu < 1e-3:
        return  # rounding decides on which side of the kink a tie lies
    np.testing.assert_allclose(point.slope, slope[sample.rows], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        point.curvature(vector[sample.rows]), (hessian @ vector)[sample.rows], atol=1e-10 * scale
    )
    assert point.trace() == pytest.approx(np.trace(hessian), rel=1e-10)


def test_long_zones_agree_with_short_ones() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    cost = InsensitiveCost(WeightedRows.of(rw.Grades(y)), 3.0, 0.1, 1)
    gap = np.subtract.outer(y, y)
    excess = np.maximum(np.abs(gap) - 0.1, 0.0)
    slope = 2.0 * (np.sign(gap) * np.minimum(excess / 0.8, 1.0)).sum(axis=1)
    point = cost.at(y, 0.8)
    assert point.exact == pytest.approx(3.0 * excess.mean(), rel=1e-10)
    np.testing.assert_allclose(point.slope, 3.0 / 400**2 * slope, atol=1e-12)


def test_the_slack_is_the_loss_less_what_the_multipliers_account_for(rows: Any) -> None:
    sample = WeightedRows.of(
        rw.Grades(rows.y, rows.q, sample_weight=rows.u, query_weight=rows.v[rows.q])
    )
    epsilon, mu = 0.2, 0.5
    residual = np.random.default_rng(0).normal(size=40)
    point = InsensitiveCost(sample, 7.0, epsilon, 1).at(residual[sample.rows], mu)
    used = 0.0
    for i, j, weight in rows.pairs(7.0):
        t = abs(residual[j] - residual[i]) - epsilon
        used += weight * np.clip(t / mu, 0.0, 1.0) * t
    assert point.slack == pytest.approx(point.exact - used, rel=1e-10)
