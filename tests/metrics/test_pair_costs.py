"""Measures on pairs equal their definition written as a double loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright.data.queries import Queries
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.pairwise import count_ascents, pairwise_accuracy, sum_over_ascents


def _costs(h: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Mean cost over all ordered pairs (MPRank, eq 2 and 4 to 7)."""
    d, g = h[:, None] - h, y[:, None] - y
    wrong = d * g < 0
    costs = {"MSD": (d - g) ** 2, "M1D": abs(d - g)}
    for n in (1, 2):
        costs[f"HR(n={n})"] = np.where(wrong, abs(d) ** n, 0)
        costs[f"MP(n={n})"] = abs(d - g) ** n
        costs[f"HMP(n={n})"] = np.where(wrong, abs(d - g) ** n, 0)
        for eps in (0, 0.1, 1.5):
            costs[f"SVR(n={n},eps={eps})"] = np.maximum(0, abs(d - g) - eps) ** n
    return {name: float(cost.mean()) for name, cost in costs.items()}


def _shares(h: np.ndarray, y: np.ndarray) -> dict[str, float]:
    above = y[:, None] > y
    total = max(above.sum(), 1)
    wrong, tied = (above & (h[:, None] < h)).sum(), (above & (h[:, None] == h)).sum()
    return {"Disagreement": (wrong + tied / 2) / total, "Misranked": (wrong + tied) / total}


values = st.one_of(st.integers(-3, 3).map(float), st.floats(-100, 100, allow_nan=False, width=32))


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 3), values, values), min_size=1, max_size=40))
def test_costs_equal_the_double_loop_on_every_query(rows) -> None:
    qid, h, y = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    names = list(_costs(h, y)) + list(_shares(h, y))
    result = evaluate(h, y, qid, names, empty="zero")
    for number, query in enumerate(result.query_ids):
        some = qid == query
        expected = _costs(h[some], y[some]) | _shares(h[some], y[some])
        for name, value in expected.items():
            found = result.per_query(name)[number]
            assert found == pytest.approx(
                value, rel=1e-9, abs=1e-10 * (1 + np.ptp(h) + np.ptp(y)) ** 2
            )


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)),
        min_size=1,
        max_size=30,
    )
)
def test_pairwise_accuracy_weighs_a_pair_by_the_product_of_its_weights(rows) -> None:
    qid, h, y, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    shares = []
    for query in np.unique(qid):
        some = qid == query
        pairs = (y[some][:, None] > y[some]) * np.outer(weight[some], weight[some])
        right = (h[some][:, None] > h[some]) + 0.5 * (h[some][:, None] == h[some])
        if pairs.sum():
            shares.append((pairs * right).sum() / pairs.sum())
    value, n_queries = pairwise_accuracy(h, y, Queries.from_ids(qid), weight)
    assert n_queries == len(shares)
    assert value == pytest.approx(np.mean(shares) if shares else 0.0, abs=1e-12)


def test_equal_weights_change_nothing() -> None:
    rng = np.random.default_rng(0)
    h, y = rng.integers(0, 20, 500), rng.integers(0, 4, 500)
    queries = Queries.from_ids(rng.integers(0, 9, 500))
    plain = pairwise_accuracy(h, y, queries)
    assert pairwise_accuracy(h, y, queries, np.full(500, 0.3)) == pytest.approx(plain, abs=1e-12)


def test_a_zero_weight_takes_an_item_out() -> None:
    queries = Queries.from_ids(None, 3)
    value = pairwise_accuracy([1, 2, 3], [1, 2, 0], queries, np.array([1, 1, 0]))
    assert value == (1.0, 1)


def test_no_pair_gives_no_query() -> None:
    assert pairwise_accuracy([1, 2], [1, 1], Queries.from_ids([1, 2])) == (0.0, 0)


def test_a_list_of_100_000_items_takes_no_quadratic_memory() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 50, 100_000)
    h = y + rng.normal(0, 20, 100_000)
    names = ["Disagreement", "Misranked", "KendallTau", "HR", "HMP(n=2)", "SVR", "MSD", "M1D"]
    result = evaluate(h, y, measures=names)
    sample = rng.choice(100_000, 2000, replace=False)
    near = evaluate(h[sample], y[sample], measures=names)
    for name in names:
        assert result[name] == pytest.approx(near[name], rel=0.2)


def test_msd_is_twice_the_variance_of_the_residuals() -> None:
    rng = np.random.default_rng(0)
    h, y = rng.normal(size=50), rng.normal(size=50)
    assert evaluate(h, y, measures="MSD")["MSD"] == pytest.approx(2 * np.var(h - y), rel=1e-12)


def test_magnitudes_survive_a_large_common_offset() -> None:
    h, y = np.array([1.0, 2.0, 4.0]), np.array([2.0, 1.0, 3.0])
    names = ["HR", "HR(n=2)", "MSD", "M1D"]
    near, far = evaluate(h, y, measures=names), evaluate(h + 1e9, y, measures=names)
    for name in names:
        assert far[name] == pytest.approx(near[name], rel=1e-6)


@given(
    st.lists(st.lists(st.integers(0, 5), min_size=7, max_size=7), min_size=1, max_size=4),
    st.sampled_from([1, 100]),
)
def test_ascents_are_the_pairs_in_rising_order(rows, spread) -> None:
    codes = spread * np.array(rows)  # few small codes are counted in another way than many
    first, second = np.triu_indices(7, 1)
    rising = codes[:, first] < codes[:, second]
    assert count_ascents(codes).tolist() == rising.sum(axis=1).tolist()
    u, v = np.cos(codes), np.arange(codes.size).reshape(codes.shape) * 1.0
    expected = (rising * u[:, first] * v[:, second]).sum(axis=1)
    assert sum_over_ascents(codes, [(u, v)])[0] == pytest.approx(expected, abs=1e-9)
