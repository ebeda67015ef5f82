"""Feedback: what is counted without building pairs equals what the pairs say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright import KeepRank, MPRank, RankBoost, RankSVM, RidgeRanker
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback, Grades, Mixture
from rankwright.feedback.pairs import Bipartite, Pairs


@st.composite
def grades(draw: st.DrawFn) -> Grades:
    n = draw(st.integers(0, 12))
    rows = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    weights = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n, max_size=n)
    qid = draw(rows)
    n_queries = len(set(qid))
    return Grades(
        draw(rows),
        qid,
        sample_weight=draw(weights),
        query_weight=draw(st.lists(st.floats(0, 4), min_size=n_queries, max_size=n_queries)),
        magnitude=draw(st.booleans()),
    )


def pair_table(feedback: Feedback) -> dict[tuple[int, int], float]:
    pairs = feedback.to_pairs().merge()
    return {
        (int(low), int(up)): float(weight)
        for low, up, weight in zip(pairs.lower, pairs.upper, pairs.weight, strict=True)
    }


@given(grades())
def test_grades_count_and_weigh_their_pairs_without_building_them(feedback: Grades) -> None:
    pairs = feedback.to_pairs()
    assert feedback.n_pairs == pairs.n_pairs
    np.testing.assert_allclose(feedback.total_weight, pairs.total_weight, rtol=1e-12, atol=1e-12)


@given(grades())
def test_pairs_of_grades_are_those_the_definition_names(feedback: Grades) -> None:
    y, code = feedback.y, feedback.queries.codes
    wanted = {
        (i, j): feedback.sample_weight[i]
        * feedback.sample_weight[j]
        * feedback.query_weight[code[i]]
        * (y[j] - y[i] if feedback.magnitude else 1.0)
        for i in range(len(y))
        for j in range(len(y))
        if code[i] == code[j] and y[i] < y[j]
    }
    assert pair_table(feedback) == pytest.approx(wanted)


def test_bipartite_pairs_are_the_product_of_the_sets() -> None:
    feedback = Bipartite([0, 2], [1, 3, 4], lower_weight=[1, 2], upper_weight=[1, 0.5, 3])
    wanted = {(0, 1): 1, (0, 3): 0.5, (0, 4): 3, (2, 1): 2, (2, 3): 1, (2, 4): 6}
    assert pair_table(feedback) == wanted
    assert (feedback.n_pairs, feedback.total_weight) == (6, 13.5)


def test_sums_keep_contradictions_and_cycles() -> None:
    cycle = Pairs([0, 1, 2], [1, 2, 0]) + 2 * Pairs([1], [0])
    assert pair_table(cycle) == {(0, 1): 1, (1, 2): 1, (2, 0): 1, (1, 0): 2}


@given(grades(), st.floats(0, 5))
def test_sums_and_multiples_add_up_pair_by_pair(feedback: Grades, factor: float) -> None:
    mixed = feedback + factor * (feedback + Pairs([0], [1]))
    assert isinstance(mixed, Mixture)
    wanted = {pair: (1 + factor) * weight for pair, weight in pair_table(feedback).items()}
    wanted[(0, 1)] = wanted.get((0, 1), 0.0) + factor
    assert pair_table(mixed) == pytest.approx(wanted)
    assert mixed.total_weight == pytest.approx(sum(wanted.values()))


def test_feedback_cannot_be_changed() -> None:
    feedback = Grades([0, 1, 2])
    with pytest.raises(ValueError, match="read-only"):
        feedback.y[0] = 5.0
    with pytest.raises(AttributeError):
        feedback.y = np.ones(3)  # type: ignore[misc]


def test_what_was_given_may_change_later_without_effect() -> None:
    given_y = np.array([0.0, 1.0])
    feedback = Grades(given_y)
    given_y[0] = 9.0
    assert feedback.y.tolist() == [0.0, 1.0]


def test_ratings_and_runs_are_graded_by_user_and_by_query() -> None:
    from rankwright.data.behavior.ratings import Ratings
    from rankwright.data.runs import Run

    ratings = Ratings.from_arrays(["ann", "ann", "bob"], ["x", "y", "x"], [5, 3, 1])
    assert pair_table(Grades.from_ratings(ratings)) == {(1, 0): 1.0}
    run = Run.from_arrays(["q1", "q1", "q2"], ["d1", "d2", "d1"], [0.5, 1.5, 1.0])
    graded = Grades.from_run(run)
    assert graded.n_pairs == 1
    assert graded.y[graded.to_pairs().upper[0]] == 1.5


def test_equal_pairs_merge_if_their_confidence_is_equal() -> None:
    pairs = Pairs([0, 0, 0, 2], [1, 1, 1, 0], [1, 2, 4, 8], confidence=[0.5, 1, 0.5, 1])
    merged = (2.0 * pairs).to_pairs().merge()
    assert merged.lower.tolist() == [0, 0, 2]
    assert merged.upper.tolist() == [1, 1, 0]
    assert merged.confidence.tolist() == [0.5, 1.0, 1.0]
    assert merged.weight.tolist() == [10.0, 4.0, 16.0]
    assert not merged.is_certain
    assert Grades([0, 1, 2]).to_pairs().is_certain


def test_rankers_that_need_certain_preferences_refuse_confidence() -> None:
    doubtful = Pairs([0, 1], [1, 2], confidence=[1.0, 0.8])
    for ranker in (RankSVM(), RankBoost(), RidgeRanker(), MPRank(), KeepRank()):
        with pytest.raises(FeedbackError, match=r"confidence\[1\] = 0.8. .*RankNet"):
            ranker.fit_feedback(np.eye(3), Grades([0, 1, 2]) + doubtful)
