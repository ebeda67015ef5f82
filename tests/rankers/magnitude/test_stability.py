"""The stability bound, and where a list is cut."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import rankwright as rw
from rankwright.exceptions import ParameterError


def test_the_bound_is_corollary_one_for_both_powers(twin: Any) -> None:
    rows = twin.rows("one list")
    m, C, M, delta, kappa = 40, 2.0, 1.5, 0.1, 1.0
    root = math.sqrt(2 / m * math.log(2 / delta))
    one = rw.SVRank(C=C, kernel="rbf").fit(rows.X, rows.y)
    wanted = one.cost_ + 8 * kappa**2 * C / m + 2 * (2 * kappa**2 * C + M) * root
    assert one.stability_bound(delta, M).bound == pytest.approx(wanted)
    two = rw.MPRank(C=C, kernel="rbf").fit(rows.X, rows.y)
    wanted = two.cost_ + 128 * kappa**2 * C * M**2 / m + 4 * M**2 * (16 * kappa**2 * C + 1) * root
    assert two.stability_bound(delta, M).bound == pytest.approx(wanted)


def test_the_tail_at_the_slack_is_delta(twin: Any) -> None:
    rows = twin.rows("one list")
    bound = rw.MPRank().fit(rows.X, rows.y).stability_bound(0.05, 2.0, kappa=3.0)
    assert bound.beta == pytest.approx(4 * 1.0 * (4 * 2.0) ** 2 * 9.0 / 40)
    assert bound.tail(bound.slack - 2 * bound.beta) == pytest.approx(0.05)


def test_kappa_is_the_root_of_the_largest_kernel_value(twin: Any) -> None:
    rows = twin.rows("one list")
    model = rw.MPRank().fit(rows.X, rows.y)
    assert model.kappa_ == pytest.approx(np.linalg.norm(rows.X, axis=1).max())
    stream = rw.MPRank().partial_fit(rows.X[:9], rows.y[:9]).partial_fit(rows.X[9:], rows.y[9:])
    assert stream.kappa_ == model.kappa_


def test_leaving_out_a_row_changes_no_cost_by_more_than_beta(twin: Any) -> None:
    rows = twin.rows("one list", n=25)
    model = rw.SVRank(C=0.5, epsilon=0.0, tol=1e-9).fit(rows.X, rows.y)
    beta = model.stability_bound(0.1, 1.0).beta
    h = model.predict(rows.X)
    for k in range(0, 25, 5):
        rest = np.arange(25) != k
        # The proof keeps 1/m^2 for the sample without row k.
        held = rw.SVRank(C=0.5 * (24 / 25) ** 2, epsilon=0.0, tol=1e-9)
        other = held.fit(rows.X[rest], rows.y[rest]).predict(rows.X)
        cost = np.abs(np.subtract.outer(h - rows.y, h - rows.y))
        without = np.abs(np.subtract.outer(other - rows.y, other - rows.y))
        assert np.abs(cost - without).max() <= beta


def test_a_row_of_several_queries_changes_no_cost_by_more_than_beta() -> None:
    """Row k of query q gets weight 0 in the objective with 1 / (m m_q) held."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(24, 2)), np.repeat([0, 1, 2], [4, 8, 12])
    y = X[:, 0] + rng.normal(size=24) + 3.0 * qid
    sizes = np.bincount(qid)[qid]

    def fitted(kept: Any, C: float = 0.5) -> Any:
        """|w|^2 + C / m sum over pairs of |difference| / m_q, minimized over a fine smoothing."""
        pairs = [(i, j) for i in kept for j in kept if qid[i] == qid[j] and i < j]
        one, other = np.array(pairs).T
        weight = 2 * C / 24 / sizes[one]

        def value(w: Any) -> float:
            gap = (X[one] - X[other]) @ w - (y[one] - y[other])
            return float(w @ w + weight @ np.sqrt(gap**2 + 1e-10))

        return optimize.minimize(value, np.zeros(2), method="BFGS").x

    model = rw.SVRank(C=0.5, epsilon=0.0, tol=1e-9).fit(X, y, qid=qid)
    np.testing.assert_allclose(model.coef_, fitted(range(24)), atol=1e-3)
    beta, h = model.stability_bound(0.1, 1.0).beta, X @ model.coef_ - y
    same = qid[:, None] == qid
    for k in (0, 5, 20):
        other = X @ fitted([i for i in range(24) if i != k]) - y
        change = np.abs(np.subtract.outer(h, h)) - np.abs(np.subtract.outer(other, other))
        assert np.abs(change[same]).max() <= beta


def test_a_list_is_cut_where_the_preference_drops() -> None:
    assert rw.cut_at_gap([5.0, 1.0, 4.8, 4.7, 0.9]) == 3
    assert rw.cut_at_gap([5.0, 1.0, 4.8, 4.7, 0.9], at_least=4) == 4
    assert rw.cut_at_gap([5.0, 1.0, 4.8, 4.7, 0.9], at_most=2) == 1
    assert rw.cut_at_gap([3.0, 2.0, 1.0]) == 1


def test_without_a_gap_the_list_stays_whole() -> None:
    assert rw.cut_at_gap([2.0, 2.0, 2.0]) == 3
    assert rw.cut_at_gap([2.0, 1.9, 1.8], min_gap=0.5) == 3
    assert rw.cut_at_gap([2.0, 1.9, 1.8], min_gap=0.5, at_most=2) == 2
    assert rw.cut_at_gap([7.0]) == 1
    assert rw.cut_at_gap([7.0], at_least=3) == 1


def test_each_query_is_cut_by_itself() -> None:
    kept = rw.cut_at_gap([9.0, 1.0, 8.0, 2.0, 1.9], qid=["b", "a", "b", "b", "a"])
    assert kept.tolist() == [2, 1]
    with pytest.raises(ParameterError, match="at_least"):
        rw.cut_at_gap([1.0], at_least=0)
    for gap in (np.nan, -1.0):
        with pytest.raises(ParameterError, match="min_gap must be a number >= 0"):
            rw.cut_at_gap([2.0, 1.0], min_gap=gap)
