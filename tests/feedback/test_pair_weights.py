"""Sums over pairs that are never built, against the pairs written out."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

from rankwright import RankBoost, evaluate
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pair_weights import PairDistribution
from rankwright.feedback.pairs import Bipartite, Pairs

MIXED = Grades([0, 2, 1, 0, 1, 2], [0, 0, 0, 1, 1, 1], magnitude=True) + 0.5 * Pairs([0, 5], [4, 2])
ALL_KINDS = MIXED + Bipartite([0, 1], [5])


@pytest.mark.parametrize("feedback", [Grades([0.5, 3, 1, 1, 0, 2]), MIXED, ALL_KINDS])
@pytest.mark.parametrize("far", [1.0, 200.0])
def test_every_sum_equals_a_sum_over_the_pairs(feedback: Feedback, far: float) -> None:
    rng = np.random.default_rng(0)
    scores, binary, real = rng.normal(size=6) * far, rng.integers(0, 2, 6), rng.random(6)
    pairs, whole = feedback.to_pairs(), PairDistribution(feedback, 6)
    rows = whole.rows
    whole.move(scores[rows], 1.0)
    exponent = np.log(pairs.weight) + scores[pairs.lower] - scores[pairs.upper]
    share = np.exp(exponent - exponent.max())
    share /= share.sum()
    potential = np.bincount(pairs.upper, share, 6) - np.bincount(pairs.lower, share, 6)
    np.testing.assert_allclose(whole.potential / whole.total, potential[rows], atol=1e-12)
    gap = binary[pairs.upper] - binary[pairs.lower]
    right, wrong = whole.split(binary[rows].astype(np.uint8))
    np.testing.assert_allclose([right, wrong], [share[gap > 0].sum(), share[gap < 0].sum()])
    gap = real[pairs.lower] - real[pairs.upper]
    each = share * np.exp(0.3 * gap)
    derivatives = [each.sum(), (each * gap).sum(), (each * gap**2).sum()]
    np.testing.assert_allclose(whole.curve(real[rows])(0.3), derivatives, atol=1e-12)
    leaves = whole.leaf_curve(np.arange(6, dtype=np.int32), real[rows])
    np.testing.assert_allclose(leaves(0.3), derivatives, atol=1e-12)
    misordered = pairs.weight[scores[pairs.lower] > scores[pairs.upper]].sum()
    np.testing.assert_allclose(whole.disorder(), [misordered / pairs.weight.sum(), 0.0], atol=1e-12)
    assert whole.n_pairs == len(pairs.lower)


def test_moving_by_steps_ends_where_moving_at_once_does() -> None:
    rng = np.random.default_rng(1)
    one, other = PairDistribution(ALL_KINDS, 6), PairDistribution(ALL_KINDS, 6)
    for _ in range(120):  # more than between two refreshes
        h = rng.integers(0, 2, 6).astype(np.uint8)
        one.move(h, 0.3)
    other.move(one.scores.copy(), 1.0)
    np.testing.assert_allclose(one.log_weight, other.log_weight, rtol=1e-12)
    np.testing.assert_allclose(one.potential / one.total, other.potential / other.total)


def _expected_gap(scores: Any, i: int, j: int) -> float:
    """Mean of |discount(i) - discount(j)| over all orders of tied items."""
    orders = [
        order
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    places = [(order.index(i) + 2, order.index(j) + 2) for order in orders]
    return float(np.mean([abs(1 / np.log2(a) - 1 / np.log2(b)) for a, b in places]))


@pytest.mark.parametrize("seed", range(5))
def test_ndcg_potentials_equal_a_sum_over_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, weight = rng.integers(0, 3, 6), rng.random(6) * 0.9 + 0.1
    scores = rng.integers(0, 3, 6) * 0.7
    grades = Grades(y, sample_weight=weight)
    pairs = PairDistribution(grades, 6, weighting="NDCG")
    pairs.move(scores[pairs.rows], 1.0)
    gain = 2.0**y - 1
    ideal = np.sum(np.sort(gain)[::-1] / np.log2(np.arange(6) + 2))
    expected = np.zeros(6)
    total = 0.0
    for low, up in zip(grades.to_pairs().lower, grades.to_pairs().upper, strict=True):
        share = weight[low] * weight[up] * np.exp(scores[low] - scores[up])
        share *= (gain[up] - gain[low]) / ideal * _expected_gap(scores, low, up)
        expected[up] += share
        expected[low] -= share
        total += share
    found = np.zeros(6)
    found[pairs.rows] = pairs.potential / pairs.total
    np.testing.assert_allclose(found, expected / total, atol=1e-12)


def test_ndcg_weights_serve_the_top_of_the_list() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    X, qid = rng.normal(size=(n, 4)), np.repeat(np.arange(100), 30)
    # Feature 0 tells grades 0 and 1 apart, feature 1 finds the rare grade 3.
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    y[X[:, 1] + 0.3 * rng.normal(size=n) > 2] = 3
    plain, top = (
        RankBoost(n_estimators=4, weighting=w).fit(X, y, qid=qid).decision_function(X)
        for w in (None, "NDCG")
    )
    assert evaluate(top, y, qid)["NDCG@10"] > evaluate(plain, y, qid)["NDCG@10"]
