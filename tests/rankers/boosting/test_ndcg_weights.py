"""Potentials with pairs weighed by |delta NDCG|, against pairs written out."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

from rankwright import RankBoost, evaluate
from rankwright.feedback.grades import Grades
from rankwright.feedback.pair_weights import PairDistribution


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
def test_potentials_equal_a_sum_over_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, weight = rng.integers(0, 3, 6), rng.random(6) * 0.9 + 0.1
    scores = rng.integers(0, 3, 6) * 0.7
    grades = Grades(y, sample_weight=weight)
    pairs = PairDistribution(grades, 6, weighting="ndcg")
    pairs.move(scores[pairs.rows], 1.0)
    gain = 2.0**y - 1
    ideal = np.sum(np.sort(gain)[::-1] / np.log2(np.arange(6) + 2))
    wanted = np.zeros(6)
    total = 0.0
    for low, up in zip(grades.to_pairs().lower, grades.to_pairs().upper, strict=True):
        share = weight[low] * weight[up] * np.exp(scores[low] - scores[up])
        share *= (gain[up] - gain[low]) / ideal * _expected_gap(scores, low, up)
        wanted[up] += share
        wanted[low] -= share
        total += share
    found = np.zeros(6)
    found[pairs.rows] = pairs.potential / pairs.total
    np.testing.assert_allclose(found, wanted / total, atol=1e-12)


def test_they_serve_the_top_of_the_list() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    X, qid = rng.normal(size=(n, 4)), np.repeat(np.arange(100), 30)
    # Feature 0 tells grades 0 and 1 apart, feature 1 finds the rare grade 3.
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    y[X[:, 1] + 0.3 * rng.normal(size=n) > 2] = 3
    plain, top = (
        RankBoost(n_estimators=4, weighting=w).fit(X, y, qid=qid).decision_function(X)
        for w in (None, "ndcg")
    )
    assert evaluate(top, y, qid)["NDCG@10"] > evaluate(plain, y, qid)["NDCG@10"]
