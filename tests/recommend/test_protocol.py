"""Whole-catalog measures against counting by hand, and evaluation that cannot flatter."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.queries import leave_out
from rankwright.exceptions import DataError, RankwrightWarning
from rankwright.recommend import assess, evaluate_top_n, leave_last_out, measure_lists
from rankwright.recommend.experts import Popularity
from rankwright.recommend.protocol import relevant_pairs
from recommend.test_experts import make_events


def test_measures_are_those_counted_by_hand() -> None:
    train = rw.Interactions([0, 0, 1, 2, 2], ["a", "b", "a", "a", "c"])
    lists = np.array([[2, -1], [1, 2]])  # user 0: c; user 1: b, c
    relevant = (np.array([0, 1, 1]), np.array([2, 0, 2]))
    report = measure_lists(lists, np.array([0, 1]), train, relevant)
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
        report = measure_lists(np.argsort(-keys, axis=1)[:, :10], users, train, relevant)
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
        assess(rw.Recommender(random_state=0), sample.ratings, split, ["NDCG@10"])


def test_ratings_are_refused_with_advice(sample) -> None:
    with pytest.raises(DataError, match="from_ratings"):
        evaluate_top_n(rw.Recommender(), sample.ratings)
