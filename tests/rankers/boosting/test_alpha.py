"""The three ways to weigh a weak ranking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.rankers.boosting.weak_learners.features import edge_alpha, newton_alpha, split_alpha

shares = st.floats(0.0, 1.0)


@given(shares, shares, st.sampled_from([1e-12, 1e-6, 1e-2]))
def test_newton_finds_the_closed_form_of_zero_one_rankings(
    right: float, wrong: float, s: float
) -> None:
    right, wrong = right / 2, wrong / 2
    rest = 1 - right - wrong

    def curve(a: float) -> tuple[float, float, float]:
        down, up = right * np.exp(-a), wrong * np.exp(a)
        return down + rest + up, up - down, up + down

    assert newton_alpha(curve, 1.0, s) == pytest.approx(split_alpha(right, wrong, s), abs=1e-9)


@given(st.lists(st.tuples(shares, st.floats(-1.0, 1.0)), min_size=1, max_size=8))
def test_newton_stops_where_the_slope_is_zero(pairs: list[tuple[float, float]]) -> None:
    weight, gap = np.array(pairs).T
    weight = (weight + 0.01) / (weight + 0.01).sum()

    def curve(a: float) -> tuple[float, float, float]:
        each = weight * np.exp(a * gap)
        return each.sum(), (each * gap).sum(), (each * gap**2).sum()

    a = newton_alpha(curve, 1.0, 1e-3)
    slope = curve(a)[1] + 1e-3 * (np.exp(a) - np.exp(-a))
    curvature = curve(a)[2] + 1e-3 * (np.exp(a) + np.exp(-a))
    assert abs(slope) <= 1e-9 * max(1.0, curvature)


@given(st.floats(-1.0, 1.0))
def test_the_third_method_is_odd_and_finite(r: float) -> None:
    assert edge_alpha(-r, 1e-12) == pytest.approx(-edge_alpha(r, 1e-12))
    assert np.isfinite(edge_alpha(r, 1e-12))


def test_a_perfect_ranking_gets_a_weight_that_smoothing_decides() -> None:
    assert split_alpha(1.0, 0.0, 0.01) == pytest.approx(0.5 * np.log(1.01 / 0.01))
    assert edge_alpha(1.0, 0.01) == pytest.approx(0.5 * np.log(1.98 / 0.02))
