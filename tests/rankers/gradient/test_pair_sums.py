"""Sums over pairs by sorting, against the same sums written out pair by pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankwright.exceptions import DataError, FeedbackError
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.rankers.gradient.pair_sums import pair_sums


def make_feedback(name: str, rng: Any, n: int = 60) -> Feedback:
    qid = rng.integers(0, 4, n)
    y = rng.integers(0, 4, n).astype(float)
    pairs = Pairs(*np.array([rng.permutation(n)[:2] for _ in range(80)]).T, rng.random(80))
    halves = [rng.permutation(n) for _ in range(3)]
    return {
        "grades": lambda: Grades(y, qid),
        "weights": lambda: Grades(
            y, qid, sample_weight=rng.integers(0, 3, n), query_weight=rng.random(4)[: len(set(qid))]
        ),
        "magnitude": lambda: Grades(y - 7.5, qid, magnitude=True, sample_weight=rng.random(n)),
        "all different": lambda: Grades(rng.random(n)),
        "pairs": lambda: pairs,
        "bipartite": lambda: sum(
            (Bipartite(half[:9], half[9:20], rng.random(9)) for half in halves[1:]),
            start=Bipartite(halves[0][:5], halves[0][5:30]) * 0.5,
        ),
        "sum": lambda: 0.3 * Grades(y, qid) + pairs + 2.0 * Bipartite([0, 1, 2], [3, 4]),
    }[name]()


NAMES = ["grades", "weights", "magnitude", "all different", "pairs", "bipartite", "sum"]


def explicit(scores: Any, margin: float, pairs: Pairs) -> tuple[float, float, Any, Any]:
    """Hinge, squared hinge, gradient and Hessian of the latter, one pair after the other."""
    n = len(scores)
    hinge = squared = 0.0
    gradient, hessian = np.zeros(n), np.zeros((n, n))
    for low, up, weight in zip(pairs.lower, pairs.upper, pairs.weight, strict=True):
        room = margin - (scores[up] - scores[low])
        if room > 0:
            hinge += weight * room
            squared += weight * room**2
            gradient[up] -= 2 * weight * room
            gradient[low] += 2 * weight * room
            hessian[[up, low], [up, low]] += weight
            hessian[[up, low], [low, up]] -= weight
    return hinge, squared, gradient, 2 * hessian


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("margin", [1.0, 0.3, -0.2])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_value_gradient_and_hessian_equal_the_sums_over_written_out_pairs(
    name: str, margin: float, offset: float
) -> None:
    rng = np.random.default_rng(3)
    feedback = make_feedback(name, rng)
    scores = np.round(8 * rng.normal(size=60)) / 8 + offset  # many ties, all exact
    point = pair_sums(feedback, 60).at(scores, margin)
    hinge, squared, gradient, hessian = explicit(scores, margin, feedback.to_pairs())
    assert point.hinge == pytest.approx(hinge, rel=1e-9)
    assert point.squared == pytest.approx(squared, rel=1e-9)
    np.testing.assert_allclose(point.slope, gradient, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(2 * point.curvature, np.diag(hessian), rtol=1e-9, atol=1e-9)
    vector = rng.normal(size=60)
    np.testing.assert_allclose(2 * point.product(vector), hessian @ vector, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_the_weight_of_all_pairs_is_that_of_the_feedback(name: str) -> None:
    feedback = make_feedback(name, np.random.default_rng(5))
    assert pair_sums(feedback, 60).weight == pytest.approx(feedback.total_weight)


def ndcg_weights(y: Any) -> Pairs:
    """What exchanging two rows of the right order costs, the mean over orders of equal grades."""
    n = len(y)
    discount = 1.0 / np.log2(np.arange(n) + 2.0)
    place = np.argsort(np.argsort(-y, kind="stable"))
    mean = {grade: discount[place[y == grade]].mean() for grade in y}
    ideal = sum((2.0**grade - 1) * discount[where] for grade, where in zip(y, place, strict=True))
    low, up = np.nonzero(y[:, None] < y[None, :])
    weight = [
        (2.0 ** y[j] - 2.0 ** y[i]) * (mean[y[j]] - mean[y[i]]) / ideal
        for i, j in zip(low, up, strict=True)
    ]
    return Pairs(low, up, weight)


def test_ndcg_weights_are_what_an_exchange_in_the_right_order_costs() -> None:
    rng = np.random.default_rng(2)
    y, scores = rng.integers(0, 4, 30).astype(float), rng.normal(size=30)
    point = pair_sums(Grades(y), 30, "NDCG").at(scores, 1.0)
    _, squared, gradient, hessian = explicit(scores, 1.0, ndcg_weights(y))
    assert point.squared == pytest.approx(squared)
    np.testing.assert_allclose(point.slope, gradient, atol=1e-12)
    vector = rng.normal(size=30)
    np.testing.assert_allclose(2 * point.product(vector), hessian @ vector, atol=1e-12)


def test_ndcg_weights_count_a_row_of_weight_two_as_two_rows() -> None:
    y, scores = np.array([0.0, 2.0, 1.0, 0.0]), np.array([0.3, 0.1, 0.2, 0.5])
    copies = np.repeat(np.arange(4), [1, 2, 1, 3])
    weighted = pair_sums(Grades(y, sample_weight=[1, 2, 1, 3]), 4, "NDCG").at(scores, 1.0)
    repeated = pair_sums(Grades(y[copies]), 7, "NDCG").at(scores[copies], 1.0)
    assert weighted.squared == pytest.approx(repeated.squared)
    np.testing.assert_allclose(weighted.slope, np.bincount(copies, repeated.slope), atol=1e-12)


def test_ndcg_weights_of_pairs_are_refused() -> None:
    with pytest.raises(FeedbackError, match="needs grades"):
        pair_sums(Pairs([0], [1]), 2, "NDCG")


def test_ndcg_weights_of_negative_grades_are_refused() -> None:
    with pytest.raises(DataError, match="gain"):
        pair_sums(Grades([-1.0, 2.0]), 2, "NDCG")
