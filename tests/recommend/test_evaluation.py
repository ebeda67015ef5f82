"""Splits, bins, the paper's protocol, and measures of top-n lists against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.queries import leave_out, split_within_users
from rankwright.exceptions import DataError, RankwrightWarning
from rankwright.recommend.evaluation import (
    compare,
    density_bins,
    evaluate_ratings,
    evaluate_top_n,
    leave_last_out,
    relevant_pairs,
    split_by_time,
    split_ratings,
)
from rankwright.recommend.events import Popularity
from rankwright.recommend.ratings.per_user import ReferenceUsers
from rankwright.recommend.reports import report_of
from recommend.test_experts import make_events


def test_every_rating_is_on_one_side(sample) -> None:
    split = split_ratings(sample.ratings, random_state=3)
    assert sorted([*split.train, *split.test]) == list(range(len(sample.ratings)))
    assert len(split.test) == round(0.1 * len(sample.ratings))


def test_what_comes_later_is_for_testing() -> None:
    time = np.random.default_rng(0).permutation(40)
    ratings = rw.Ratings.from_arrays(np.arange(40), np.arange(40), np.ones(40), time=time)
    split = split_by_time(ratings, test_size=0.25)
    assert time[split.train].max() < time[split.test].min()


def test_bins_hold_each_user_once(sample) -> None:
    bins = density_bins(sample.ratings, (2, 20, 30, 40))
    assert sorted(np.concatenate(list(bins.values()))) == list(range(150))


def test_gaps_are_filled_with_the_reference_users_own_average() -> None:
    ratings = rw.Ratings.from_arrays([1, 1, 1, 2], list("ABCA"), [1, 2, 6, 5])
    reference = ReferenceUsers(ratings, np.array([0, 1]))
    items = np.array([0, 1])
    np.testing.assert_array_equal(reference.rows(items, "median"), [[1, 5], [2, 5]])
    np.testing.assert_array_equal(reference.rows(items, "mean", without=0), [[3, 5], [3, 5]])
    np.testing.assert_array_equal(reference.rows(items, "standard")[:, 1], [0, 0])


def test_random_order_has_the_measures_of_guessing(sample) -> None:
    split = split_within_users(sample.ratings.user, random_state=0)
    found = compare(sample.ratings, split, {"random": None}, np.arange(50), np.arange(50, 150))[
        "random"
    ]
    assert found["Disagreement"] == 0.5


def test_each_ranker_of_the_paper_beats_guessing(sample) -> None:
    split = split_within_users(sample.ratings.user, random_state=0)
    rankers = {
        "RankBoost": rw.RankBoost(n_estimators=20, cumulative=True),
        "VSIM": rw.VSIM(),
        "NN": rw.NearestNeighbor(),
        "normalized regression": rw.RidgeRanker(),
    }
    found = compare(
        sample.ratings,
        split,
        rankers,
        np.arange(60),
        np.arange(60, 150),
        missing={"normalized regression": "standard"},
    )
    assert all(scores["Disagreement"] < 0.47 for scores in found.values())


@pytest.mark.parametrize("targets", [[], [150], [-1], ["u1"], [[0]]])
def test_targets_must_be_numbers_of_users(sample, targets) -> None:
    halves = split_within_users(sample.ratings.user, random_state=0)
    with pytest.raises(DataError, match=r"targets=.*positions in ratings.users \(0 \.\. 149\)"):
        compare(sample.ratings, halves, {"guess": None}, targets, [1, 2])


def test_targets_may_be_a_list(sample) -> None:
    halves = split_within_users(sample.ratings.user, random_state=0)
    found = compare(sample.ratings, halves, {"guess": None}, [3, 4], [1, 2])
    assert found["guess"]["Disagreement"] == 0.5


def test_one_measure_may_be_given_by_its_name(sample, split) -> None:
    model = rw.Recommender(ranker=rw.VSIM(), n_reference=20, random_state=0)
    found = evaluate_ratings(model, sample.ratings, split, "NDCG@3")
    assert 0 < found["NDCG@3"] <= 1


def test_features_that_say_nothing_are_no_cause_for_warnings_in_any_thread() -> None:
    """The reference user rated what nobody else did: every fit would warn, which is an error."""
    user, item = np.divmod(np.arange(400), 8)
    value = np.random.default_rng(0).integers(1, 6, 400)
    ratings = rw.Ratings.from_arrays([*user, 99], [*item, 99], [*value, 3])
    split = split_within_users(ratings.user, random_state=0)
    rankers = {"RankBoost": rw.RankBoost(n_estimators=5)}
    for _ in range(5):
        found = compare(ratings, split, rankers, np.arange(50), np.array([50]))
        assert found["RankBoost"]["Disagreement"] == pytest.approx(0.5)


def test_measures_are_those_counted_by_hand() -> None:
    train = rw.Interactions([0, 0, 1, 2, 2], ["a", "b", "a", "a", "c"])
    lists = np.array([[2, -1], [1, 2]])  # user 0: c; user 1: b, c
    relevant = (np.array([0, 1, 1]), np.array([2, 0, 2]))
    report = report_of(lists, np.array([0, 1]), train, relevant)
    assert report["HitRate@2"] == 1.0
    assert report["Recall@2"] == (1.0 + 0.5) / 2
    assert report["MRR@2"] == (1.0 + 0.5) / 2
    second = (1 / np.log2(3)) / (1 + 1 / np.log2(3))
    assert report["NDCG@2"] == pytest.approx((1.0 + second) / 2)
    assert report["ItemCoverage@2"] == pytest.approx(2 / 3)
    assert report["Novelty@2"] == pytest.approx(np.log2(3))  # b and c have one of three users
    assert report["Diversity@2"] == pytest.approx(1.0)
    assert report["PopularityBias@2"] == pytest.approx((1.0 + 1 / 2) / 2)


def test_what_was_taken_before_is_not_relevant() -> None:
    train, test = rw.Interactions([0, 1], ["a", "b"]), rw.Interactions([0, 1], ["a", "b"])
    assert len(relevant_pairs(train, test)[0]) == 0


def test_random_lists_score_what_is_said_of_random_order() -> None:
    rng = np.random.default_rng(0)
    events = make_events(n_users=400, n_items=100, n=4000)
    split = leave_last_out(events)
    train, test = events.take(split.train), events.take(split.test)
    relevant = relevant_pairs(train, test)
    users = np.unique(relevant[0])
    taken = train.to_csr().toarray() > 0
    names = ("NDCG@10", "Recall@10", "HitRate@10", "MRR@10")
    found = []
    for _ in range(30):
        keys = np.where(taken[users], -1.0, rng.random((len(users), 100)))
        report = report_of(np.argsort(-keys, axis=1)[:, :10], users, train, relevant)
        found.append([report[name] for name in names])
    chance = [report.measures[name].random for name in names]
    np.testing.assert_allclose(np.mean(found, axis=0), chance, rtol=0.1)


def test_a_recommender_is_better_than_random_and_prints(recwarn) -> None:
    events = make_events(n_users=120, n_items=110, n=3000)
    report = evaluate_top_n(rw.Recommender(random_state=0), events, "time")
    ndcg = report.measures["NDCG@10"]
    assert ndcg.low < ndcg.value < ndcg.high
    assert ndcg.low > ndcg.random
    assert "whole catalog" in str(report)
    assert len(report.per_user["NDCG"]) == report.n_users


def test_cold_users_and_items_are_apart() -> None:
    events = rw.Interactions(
        [0, 1, 2, 0, 1, 3, 1], ["a", "b", "a", "b", "a", "b", "z"], time=[0, 1, 2, 3, 10, 11, 12]
    )
    model = rw.Recommender(experts=[Popularity(half_life=None)])
    with pytest.warns(RankwrightWarning, match="random order scores high"):
        report = evaluate_top_n(model, events, "time", 2, test_size=0.4)
    assert report.parts["cold users"][0] == 1
    assert report.parts["cold items"][1]["Recall@2"].value == 0.0


def test_few_candidates_are_said_with_the_score_of_random_order(sample) -> None:
    split = leave_out(sample.ratings.user, 1, random_state=0)
    with pytest.warns(RankwrightWarning, match=r"1 for the median user.*NDCG@10 1\.0000"):
        evaluate_ratings(rw.Recommender(random_state=0), sample.ratings, split, ["NDCG@10"])
