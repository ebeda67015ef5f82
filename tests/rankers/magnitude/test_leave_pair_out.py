"""Leave-out errors in closed form are what retraining gives."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import rankwright as rw
from rankwright.exceptions import ParameterError

KERNELS = {"linear": {}, "rbf": {"kernel": "rbf", "gamma": 0.2}}


def small(twin: Any, kind: str) -> Any:
    """Fourteen rows; with queries, two of the queries have two rows and one has one."""
    rows = twin.rows("one list" if kind == "one list" else "queries", n=14)
    if kind == "one list":
        return rows
    rng = np.random.default_rng(4)
    q = rng.permutation(np.repeat([0, 1, 2, 3, 4], [2, 2, 4, 5, 1]))
    u, v = np.ones(14), np.ones(5)
    if kind == "weights":  # at most 1: the whole row is left out
        u, v = rng.uniform(0.2, 1.0, 14), rng.uniform(0.2, 1.0, 5)
    return type(rows)(rows.X, rows.y, q, u, v)


def retrained(rows: Any, twin: Any, C: float, name: str, refit: bool = False) -> Any:
    """Costs and weights of all ordered pairs, each under a model trained without the pair."""
    kernel, costs = getattr(twin, name), []
    for i in range(len(rows.y)):
        for j in np.flatnonzero(rows.q == rows.q[i]):
            if i == j:
                continue
            rest = rows.take(np.setdiff1d(np.arange(len(rows.y)), [i, j]))
            held = C if refit else C * rest.total / rows.total
            h = twin.ridge(rest, held, kernel)(rows.X[[i, j]])
            cost = ((h[1] - h[0]) - (rows.y[j] - rows.y[i])) ** 2
            costs.append((rows.q[i], rows.u[i] * rows.u[j], cost))
    return np.array(costs).T


@pytest.mark.parametrize("C", [0.7, 50.0])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", ["one list", "queries", "weights"])
def test_leave_pair_out_is_retraining_without_each_pair(
    twin: Any, kind: str, name: str, C: float
) -> None:
    rows = small(twin, kind)
    query, weight, cost = retrained(rows, twin, C, name)
    weight = weight * rows.v[query.astype(int)]
    for solver in ("auto", "dual", "nystroem"):
        model = rw.MPRank(C=C, solver=solver, **KERNELS[name])
        model.fit(rows.X, rows.y, **rows.fit_arguments)
        wanted = float(weight @ cost / weight.sum())
        assert model.leave_pair_out() == pytest.approx(wanted, rel=1e-9)
        assert model.estimate_leave_pair_out().value == pytest.approx(wanted, rel=1e-9)
    chosen = rw.MPRankCV(Cs=[C], gammas=[0.2], kernel=name)
    chosen.fit(rows.X, rows.y, **rows.fit_arguments)
    assert chosen.leave_pair_out_ == pytest.approx(wanted, rel=1e-9)


def test_each_query_may_count_alike(twin: Any) -> None:
    rows = small(twin, "queries")
    query, _, cost = retrained(rows, twin, 3.0, "linear")
    wanted = np.mean([cost[query == q].mean() for q in np.unique(query)])
    model = rw.MPRank(C=3.0).fit(rows.X, rows.y, qid=rows.q)
    assert model.leave_pair_out(average="queries") == pytest.approx(wanted, rel=1e-9)
    found = model.estimate_leave_pair_out(average="queries")
    assert found.value == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", ["one list", "queries"])
def test_refit_holds_c_instead_of_c_over_m(twin: Any, kind: str, name: str) -> None:
    rows = small(twin, kind)
    wanted = retrained(rows, twin, 9.0, name, refit=True)[2].mean()
    model = rw.MPRank(C=9.0, **KERNELS[name]).fit(rows.X, rows.y, qid=rows.q)
    assert model.leave_pair_out(refit=True) == pytest.approx(wanted, rel=1e-9)


def test_a_row_of_weight_three_is_three_copies_of_which_one_is_left_out(twin: Any) -> None:
    rows = small(twin, "queries")
    rng = np.random.default_rng(0)
    weight, queries = rng.integers(1, 4, 14), {0: 1, 1: 2, 2: 3, 3: 1, 4: 2}
    place, qid = [], []
    for row in range(14):
        for number in range(queries[rows.q[row]]):
            place += [row] * weight[row]
            qid += [(rows.q[row], number)] * weight[row]
    for options in ({}, {"kernel": "rbf"}):
        model = rw.MPRank(C=4.0, **options)
        copies = clone(model).fit(rows.X[place], rows.y[place], qid=[str(one) for one in qid])
        model.fit(rows.X, rows.y, qid=rows.q, sample_weight=weight, query_weight=queries)
        for average in ("pairs", "queries"):
            wanted = copies.leave_pair_out(average=average)
            assert model.leave_pair_out(average=average) == pytest.approx(wanted, rel=1e-9)
            found = model.estimate_leave_pair_out(average=average).value
            assert found == pytest.approx(wanted, rel=1e-9)
            wanted = copies.leave_query_out(average=average)
            assert model.leave_query_out(average=average) == pytest.approx(wanted, rel=1e-9)
        wanted = copies.leave_pair_out(refit=True)
        assert model.leave_pair_out(refit=True) == pytest.approx(wanted, rel=1e-9)


def test_leave_query_out_is_retraining_without_each_query(twin: Any) -> None:
    rows = small(twin, "weights")
    for name, options in KERNELS.items():
        costs, weights = np.zeros(5), np.zeros(5)
        for query in range(4):  # query 4 has one row, no pair
            rest, own = rows.take(rows.q != query), np.flatnonzero(rows.q == query)
            h = twin.ridge(rest, 6.0 * rest.total / rows.total, getattr(twin, name))
            left = h(rows.X[own]) - rows.y[own]
            weight = np.outer(rows.u[own], rows.u[own]) * ~np.eye(len(own), dtype=bool)
            costs[query] = (weight * np.subtract.outer(left, left) ** 2).sum()
            weights[query] = weight.sum()
        model = rw.MPRank(C=6.0, **options).fit(rows.X, rows.y, **rows.fit_arguments)
        wanted = float(rows.v @ costs / (rows.v @ weights))
        assert model.leave_query_out(average="pairs") == pytest.approx(wanted, rel=1e-9)
        kept = rows.v[:4]
        wanted = float(kept @ (costs[:4] / weights[:4]) / kept.sum())
        assert model.leave_query_out() == pytest.approx(wanted, rel=1e-9)


def paper_approximation(K: np.ndarray, y: np.ndarray, C: float) -> float:
    """The formula after Proposition 2, entry by entry (the sign that eq 24 lost put back)."""
    m = len(y)
    scale = 2.0 * C / m
    J = np.eye(m) - 1.0 / m
    U = scale * K @ J @ np.linalg.inv(np.eye(m) + scale * J @ K @ J)
    h = U @ (y - y.mean())
    total = 0.0
    for i in range(m):
        for j in range(m):
            if i == j:
                continue
            others = np.setdiff1d(np.arange(m), [i, j])

            def V(a: int, b: int, others: Any = others) -> float:
                return float(U[a, b] - U[a, others].sum() / (m - 2))

            vii, vij, vji, vjj = V(i, i), V(i, j), V(j, i), V(j, j)
            top = (1 - vii - vij) * (h[j] - y[j]) - (1 - vji - vjj) * (h[i] - y[i])
            top -= ((1 - vii - vij) * (vjj + vji) - (1 - vji - vjj) * (vii + vij)) * (
                h.mean() - y.mean()
            )
            total += (top / ((1 - vjj) * (1 - vii) - vij * vji)) ** 2
    return total / (m * (m - 1))


@pytest.mark.parametrize("name", KERNELS)
def test_the_inexact_form_is_the_papers_approximation(twin: Any, name: str) -> None:
    rows = twin.rows("one list", n=12)
    wanted = paper_approximation(getattr(twin, name)(rows.X, rows.X), rows.y, 5.0)
    model = rw.MPRank(C=5.0, **KERNELS[name]).fit(rows.X, rows.y)
    assert model.leave_pair_out(exact=False) == pytest.approx(wanted, rel=1e-10)


def test_the_papers_approximation_comes_near_the_exact_error(twin: Any) -> None:
    rows = twin.rows("one list", n=200)
    model = rw.MPRank(C=5.0, kernel="rbf", gamma=0.2).fit(rows.X, rows.y)
    assert model.leave_pair_out(exact=False) == pytest.approx(model.leave_pair_out(), rel=0.02)
    per_query = rw.MPRank(C=5.0, kernel="rbf", gamma=0.2)
    per_query.fit(rows.X, rows.y, qid=np.repeat(np.arange(10), 20))
    assert per_query.leave_pair_out(exact=False) == pytest.approx(
        per_query.leave_pair_out(), rel=0.2
    )


@pytest.mark.parametrize("n_queries", [1, 3, 75])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_sample_of_rows_estimates_the_error_within_its_own_error(
    twin: Any, n_queries: int, kernel: str
) -> None:
    rows = twin.rows("one list", n=300)
    model = rw.MPRank(C=20.0, kernel=kernel).fit(rows.X, rows.y, qid=np.arange(300) % n_queries)
    exact = model.leave_pair_out()
    off = []
    for seed in range(12):
        found = model.estimate_leave_pair_out(100, random_state=seed)
        off.append((found.value - exact) / found.error)
    assert 0.2 < np.median(np.abs(off)) < 1.3  # 0.67 for a normal variable


def test_copies_and_pickles_do_not_carry_the_training_rows(twin: Any) -> None:
    rows = twin.rows("one list")
    model = rw.MPRank().fit(rows.X, rows.y)
    for other in (copy.copy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(rows.X), model.predict(rows.X))
        with pytest.raises(ParameterError, match="Call fit"):
            other.leave_pair_out()
    assert model.leave_pair_out() > 0


@pytest.mark.parametrize("kind", ["one list", "queries"])
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_svrank_without_tolerance_leaves_out_what_mprank_does(
    twin: Any, kind: str, refit: bool, kernel: str
) -> None:
    rows = small(twin, kind)
    options = {"C": 3.0, "kernel": kernel, "gamma": 0.5}
    fit = {"qid": rows.q} if kind == "queries" else {}
    exact = rw.MPRank(**options).fit(rows.X, rows.y, **fit)
    model = rw.SVRank(**options, epsilon=0.0, power=2, tol=1e-10).fit(rows.X, rows.y, **fit)
    wanted = exact.leave_pair_out(refit=refit)
    assert model.leave_pair_out(refit=refit) == pytest.approx(wanted, rel=1e-4)
    if kind == "queries" and not refit:
        by_query = exact.leave_pair_out(average="queries")
        assert model.leave_pair_out(average="queries") == pytest.approx(by_query, rel=1e-4)


def test_svrank_estimates_from_a_sample_of_pairs(twin: Any) -> None:
    rows = small(twin, "one list")
    model = rw.SVRank(C=3.0, epsilon=0.2).fit(rows.X, rows.y)
    all_pairs, sampled = model.leave_pair_out(), model.estimate_leave_pair_out(40, random_state=0)
    assert abs(sampled.value - all_pairs) < 4 * sampled.error
    every = model.estimate_leave_pair_out(10_000)
    assert every.value == pytest.approx(all_pairs)
