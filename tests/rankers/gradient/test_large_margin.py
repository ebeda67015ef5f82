"""Rank boundaries: midway where grades are apart, least rank loss where they overlap."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest

from rankwright import LargeMarginOrdinal, RankSVM
from rankwright.rankers.gradient.ranksvm import rank_boundaries
from rankwright.testing.inputs import make_problem

PROBLEM = make_problem()


def test_scores_are_those_of_ranksvm() -> None:
    ordinal = LargeMarginOrdinal().fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    plain = RankSVM().fit(PROBLEM.X, PROBLEM.y, qid=PROBLEM.qid)
    np.testing.assert_array_equal(
        ordinal.decision_function(PROBLEM.X), plain.decision_function(PROBLEM.X)
    )


def test_boundaries_lie_midway_between_the_closest_scores_of_neighboring_grades() -> None:
    scores = np.array([0.0, 1.0, 3.0, 4.0, 10.0])
    boundaries = rank_boundaries(scores, np.array([0, 0, 1, 1, 2]), np.ones(5))
    np.testing.assert_array_equal(boundaries, [2.0, 7.0])


@pytest.mark.parametrize("seed", range(20))
def test_no_other_boundaries_have_less_rank_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, code = rng.integers(0, 8, 12).astype(float), rng.integers(0, 3, 12)
    code[:3] = [0, 1, 2]
    weight = rng.integers(1, 4, 12).astype(float)

    def loss(boundaries: object) -> float:
        found = np.searchsorted(np.asarray(boundaries), scores, side="right")
        return float(weight @ np.abs(found - code))

    places = np.arange(-0.5, 8.0)
    best = min(loss(pair) for pair in combinations_with_replacement(places, 2))
    boundaries = rank_boundaries(scores, code, weight)
    assert loss(boundaries) == best
    assert (np.diff(boundaries) >= 0).all()


def test_separable_grades_are_predicted_without_fault() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.digitize(X @ [1.0, 2.0], [-1.0, 0.0, 1.5]) * 2.0
    keep = np.abs(np.subtract.outer(X @ [1.0, 2.0], [-1.0, 0.0, 1.5])).min(1) > 0.1
    model = LargeMarginOrdinal(C=1e4).fit(X[keep], y[keep])
    np.testing.assert_array_equal(model.predict(X[keep]), y[keep])
