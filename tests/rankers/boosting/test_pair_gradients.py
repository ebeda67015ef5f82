"""Gradients and Hessians of every pair loss under every weight equal sums over explicit pairs."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import rankwright as rw
from rankwright.exceptions import LongListWarning
from rankwright.feedback.base import Grades
from rankwright.feedback.losses import LOSSES
from rankwright.feedback.pair_losses import QueryPairs
from rankwright.rankers.boosting._kernels.pair_gradients import pair_terms
from rankwright.rankers.boosting.pair_losses import (
    ExponentialGradients,
    PairGradients,
    PairWeights,
)
from rankwright.runtime import Team

LAMBDAMART_LOSSES = (
    "logistic", "exponential", "fidelity", "squared_hinge", "smooth_hinge", "squared",
)  # fmt: skip
WEIGHTS = (None, "grade_difference", "NDCG", "NDCG@3", "AP", "AP@2", "ERR", "RR")


def slope_and_curvature(loss: str, d: Any, gap: Any) -> tuple[Any, Any]:
    """Minus the first derivative of a pair's loss, and the second (see pair_losses)."""
    right, wrong = 1 / (1 + np.exp(-d)), 1 / (1 + np.exp(d))
    if loss == "logistic":
        return wrong, wrong * right
    if loss == "exponential":
        return np.exp(-d), np.exp(-d)
    if loss == "fidelity":
        slope = 0.5 * np.sqrt(right) * wrong
        return slope, slope * (1 + 3 * right**2) / 4
    if loss == "squared_hinge":
        return 2 * np.maximum(1 - d, 0), 2.0 * (d < 1)
    if loss == "smooth_hinge":
        slope = np.clip(1 - d, 0, 1)
        return slope, slope / np.where(d < 1, 1 - d, 1)
    return 2 * (gap - d), 2 + 0 * d


def pair_loss(loss: str, d: Any, gap: float) -> Any:
    """The loss of a pair: the formula of the registry."""
    names = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "max": np.maximum}
    names |= {"d": d, "P": 1 / (1 + np.exp(-d)), "y_u": gap, "y_l": 0.0}
    return eval(LOSSES[loss].formula, names)


@pytest.mark.parametrize("loss", LAMBDAMART_LOSSES)
@given(st.floats(-5, 5), st.integers(1, 4))
def test_slopes_are_those_of_the_formula(loss: str, d: float, gap: int) -> None:
    """By finite differences; the Hessian of a convex loss is at least its second derivative."""
    assume(min(abs(d), abs(d - 1)) > 1e-3)  # where the hinges have no second derivative
    slope, curvature = pair_terms(d, float(gap), LOSSES[loss].code)
    below, at, above = (pair_loss(loss, d + step, gap) for step in (-1e-4, 0.0, 1e-4))
    assert -slope == pytest.approx((above - below) / 2e-4, rel=1e-4, abs=1e-4)
    if loss != "fidelity":
        assert curvature >= (above - 2 * at + below) / 1e-8 * (1 - 1e-3) - 1e-5


@given(st.floats(-5, 0.999), st.floats(-5, 5))
def test_the_parabola_of_the_smooth_hinge_lies_above_it(d: float, other: float) -> None:
    slope, curvature = pair_terms(d, 1.0, LOSSES["smooth_hinge"].code)
    parabola = pair_loss("smooth_hinge", d, 1) - slope * (other - d)
    parabola += 0.5 * curvature * (other - d) ** 2
    assert pair_loss("smooth_hinge", other, 1) <= parabola + 1e-9


def measure(name: str, grades: Any, lowest: float, highest: float) -> float:
    """The measure of a list of grades, best place first."""
    place = np.arange(1, len(grades) + 1)
    relevant = grades > lowest
    if name == "NDCG":
        return float(((2**grades - 1) / np.log2(place + 1)).sum())
    if name == "AP":
        return float((np.cumsum(relevant) / place)[relevant].mean())
    if name == "RR":
        return float(1 / place[relevant][0])
    stop = (2**grades - 1) / 2**highest
    still = np.concatenate([[1], np.cumprod(1 - stop)[:-1]])
    return float((still * stop / place).sum())


def pair_weight(weights: str | None, y: Any, order: Any, a: int, b: int) -> float:
    """The weight of the pair at places a < b of the order, by doing the swap."""
    if weights is None:
        return 1.0
    if weights == "grade_difference":
        return float(abs(y[order[a]] - y[order[b]]))
    name, _, cutoff = weights.partition("@")
    if cutoff and a >= int(cutoff):
        return 0.0
    swapped = order.copy()
    swapped[[a, b]] = swapped[[b, a]]
    before, after = (measure(name, y[rows], LOWEST, HIGHEST) for rows in (order, swapped))
    ideal = 1.0
    if name == "NDCG":
        best = np.sort(y)[::-1][: int(cutoff) if cutoff else None]
        ideal = measure(name, best, LOWEST, HIGHEST)
    return abs(after - before) / ideal


LOWEST, HIGHEST = 0.0, 3.0


def explicit(loss: str, weights: str | None, scores: Any, y: Any) -> Any:
    """Sums over the pairs of one query; rows of equal score and grade share theirs."""
    out, order, total = np.zeros((2, len(y))), np.lexsort((y, -scores)), 0.0
    for a, b in product(range(len(y)), repeat=2):
        if a >= b or y[order[a]] == y[order[b]]:
            continue
        upper, lower = (a, b) if y[order[a]] > y[order[b]] else (b, a)
        u, v = order[upper], order[lower]
        slope, curvature = slope_and_curvature(loss, scores[u] - scores[v], y[u] - y[v])
        w = pair_weight(weights, y, order, a, b)
        if weights not in (None, "grade_difference"):
            w /= 0.01 + scores[order[a]] - scores[order[b]]
            total += 2 * w * abs(slope)
        out[:, u] += w * slope, w * curvature
        out[:, v] += -w * slope, w * curvature
    for s, g in set(zip(scores.tolist(), y.tolist(), strict=True)):
        same = (scores == s) & (y == g)
        out[:, same] = out[:, same].mean(axis=1, keepdims=True)
    return out * (np.log2(1 + total) / total if total else 1.0)


@pytest.fixture(scope="module")
def lists() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    y = np.concatenate([[0.0, 3.0], rng.integers(0, 4, 41)]).astype(float)
    scores = np.round(rng.normal(size=43), 1) * 1.5  # with ties
    return scores, y, np.repeat([0, 1, 2], [15, 8, 20])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("loss", LAMBDAMART_LOSSES)
def test_gradients_and_hessians_are_sums_over_pairs(lists: Any, loss: str, weights: Any) -> None:
    scores, y, qid = lists
    pairs = PairGradients(Grades(y, qid), None, loss, PairWeights.parse(weights), Team(1))
    expected = np.concatenate(
        [explicit(loss, weights, scores[qid == q], y[qid == q]) for q in range(3)], axis=1
    )
    np.testing.assert_array_equal(pairs.rows, np.arange(43))
    np.testing.assert_allclose(np.array(pairs.at(scores)), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("weights", [None, "grade_difference"])
@pytest.mark.parametrize("loss", LAMBDAMART_LOSSES)
def test_a_long_list_is_summed_by_grades_to_the_same_numbers(loss: str, weights: Any) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 700).astype(float)
    scores = np.round(rng.normal(size=700) * 64) / 64  # differences without rounding
    pairs = PairGradients(Grades(y), None, loss, PairWeights.parse(weights), Team(1))
    above = y[:, None] > y[None]
    gap = np.where(above, y[:, None] - y[None], 0.0)
    slope, curvature = slope_and_curvature(loss, scores[:, None] - scores[None], gap)
    weight = gap if weights else above.astype(float)
    slope, curvature = weight * slope, weight * curvature
    pull, bend = pairs.at(scores)
    scale = np.abs(slope).sum(axis=1).max()
    np.testing.assert_allclose(pull, slope.sum(1) - slope.sum(0), rtol=1e-10, atol=1e-12 * scale)
    np.testing.assert_allclose(bend, curvature.sum(1) + curvature.sum(0), rtol=1e-10)


@pytest.mark.parametrize("weights", [None, "grade_difference"])
def test_the_exponential_loss_by_levels_is_that_by_pairs_but_for_a_factor(
    lists: Any, weights: Any
) -> None:
    scores, y, qid = lists
    parsed = PairWeights.parse(weights)
    grades = Grades(y, qid)
    levels = ExponentialGradients(grades, len(y), parsed, Team(1))
    pairs = PairGradients(grades, None, "exponential", parsed, Team(1))
    ours = np.array(levels.at(scores[levels.rows]))
    plain = np.array(pairs.at(scores))[:, levels.rows]
    np.testing.assert_allclose(ours / ours[1].sum(), plain / plain[1].sum(), rtol=1e-10, atol=1e-12)
    mean = plain[1].sum() / 2 / (grades.total_weight if weights is None else _gap_weight(y, qid))
    np.testing.assert_allclose(levels.bound(scores[levels.rows]), mean, rtol=1e-10)


def _gap_weight(y: Any, qid: Any) -> float:
    return float(Grades(y, qid, magnitude=True).total_weight)


@pytest.mark.parametrize("weights", ["NDCG@5", "AP", None])
def test_neither_threads_nor_the_order_of_rows_change_a_bit(weights: Any) -> None:
    rng = np.random.default_rng(2)
    y, qid = rng.integers(0, 3, 3000).astype(float), np.repeat(np.arange(60), 50)
    scores = np.round(rng.normal(size=3000), 1)
    shuffled = rng.permutation(3000)
    one = PairGradients(Grades(y, qid), None, "logistic", PairWeights.parse(weights), Team(1))
    expected = np.array(one.at(scores))
    with Team(2) as team:
        grades = Grades(y[shuffled], qid[shuffled])
        two = PairGradients(grades, None, "logistic", PairWeights.parse(weights), team)
        found = np.zeros_like(expected)
        found[:, shuffled[two.rows]] = two.at(scores[shuffled][two.rows])
    np.testing.assert_array_equal(found, expected)


@pytest.fixture
def long_list(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Rows of one query and their grades, where 200 rows are many."""
    monkeypatch.setattr("rankwright.feedback.pair_losses.LONGEST", 200)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1000, 3))
    return X, np.digitize(X[:, 0] + rng.normal(size=1000), [0.0, 1.0, 1.5]).astype(float)


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.LongListWarning")
def test_lists_of_a_sample_share_all_grades_and_the_weight_of_all_pairs(long_list: Any) -> None:
    X, y = long_list
    qid = np.append(np.zeros(900), np.ones(100))
    weight = np.random.default_rng(5).random(1000) + 0.5
    pairs = QueryPairs.of(Grades(y, qid, sample_weight=weight))
    sample = pairs.sampled(X)
    assert sample.n_units == np.ceil((900 / 200) ** 2) + 1
    np.testing.assert_array_equal(np.sort(sample.rows), pairs.rows)
    assert sample.total_weight == pytest.approx(pairs.total_weight)
    np.testing.assert_array_equal(np.sort(sample.rows[sample.ptr[-2] :]), np.arange(900, 1000))
    for grade in range(4):
        counts = np.add.reduceat(sample.grade == grade, sample.ptr[:-2])
        assert counts[:-1].max() - counts[:-1].min() <= 1


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.LongListWarning")
def test_gradients_of_a_sample_are_close_to_those_of_all_pairs(
    long_list: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = long_list
    sample = PairGradients(Grades(y), X, "logistic", PairWeights(None), Team(1))
    found = np.zeros((2, 1000))
    found[:, sample.rows] = sample.at(X[sample.rows, 0])
    monkeypatch.setattr("rankwright.feedback.pair_losses.LONGEST", 1000)
    exact = np.array(
        PairGradients(Grades(y), X, "logistic", PairWeights(None), Team(1)).at(X[:, 0])
    )
    for term in range(2):
        assert np.corrcoef(found[term], exact[term])[0, 1] > 0.97
        assert np.linalg.norm(found[term]) == pytest.approx(np.linalg.norm(exact[term]), rel=0.05)


def test_the_order_of_rows_does_not_change_a_sample_and_users_are_told(long_list: Any) -> None:
    X, y = long_list
    shuffled = np.random.default_rng(6).permutation(1000)
    model = rw.LambdaMART(n_estimators=5, weighting=None)
    with pytest.warns(LongListWarning):
        one = model.fit(X, y).decision_function(X)
    with pytest.warns(LongListWarning):
        two = model.fit(X[shuffled], y[shuffled]).decision_function(X)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("ranker", [rw.RankNet(random_state=0), rw.FRank()])
def test_other_rankers_with_smooth_losses_sample_the_pairs_of_long_lists(
    long_list: Any, ranker: Any
) -> None:
    X, y = long_list
    with pytest.warns(LongListWarning):
        ranker.fit(X, y)
    assert np.corrcoef(ranker.decision_function(X), y)[0, 1] > 0.5


def test_a_row_of_weight_two_counts_as_two_rows() -> None:
    y, scores = np.array([0.0, 1, 2, 0, 1]), np.array([0.3, 0.1, 0.2, 0.5, -1.0])
    weights = PairWeights.parse("NDCG@3")
    once = PairGradients(
        Grades(y, sample_weight=[1.0, 2, 1, 2, 1]), None, "logistic", weights, Team(1)
    ).at(scores)
    rows = [0, 1, 1, 2, 3, 3, 4]
    twice = PairGradients(Grades(y[rows]), None, "logistic", weights, Team(1)).at(scores[rows])
    for one, two in zip(once, twice, strict=True):
        np.testing.assert_allclose(one, np.bincount(rows, two), rtol=1e-12, atol=1e-15)


GRADIENTS = """
import numpy as np
from rankwright.feedback.base import Grades
from rankwright.runtime import Team
from rankwright.rankers.boosting.pair_losses import PairGradients, PairWeights
rng = np.random.default_rng(0)
y, scores = rng.integers(0, 2, 80), rng.normal(size=80)
with Team(1) as pool:
    gradients = PairGradients(Grades(y), None, "logistic", PairWeights.parse("NDCG"), pool)
    print(np.stack(gradients.at(scores)).tobytes().hex())
"""


def test_a_process_that_compiles_computes_the_bits_of_one_that_loads(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, loaded = (
        subprocess.run(
            [sys.executable, "-c", GRADIENTS], env=environment, capture_output=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert compiled == loaded
