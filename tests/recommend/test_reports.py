"""Evaluation for teams: nobody is dropped in silence, lists of other libraries, paired reports."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import DataError
from rankwright.recommend import compare, evaluate_lists, evaluate_top_n
from rankwright.recommend.evaluation import leave_last_out, relevant_pairs
from rankwright.recommend.events import ItemCosine, Popularity
from rankwright.recommend.reports import report_of
from recommend.test_experts import make_events

POPULAR = rw.Recommender(experts=[Popularity(half_life=None)])


def repeated(n_users: int = 40) -> rw.Interactions:
    """Every user views three items; every second one then buys the first of them."""
    rng = np.random.default_rng(0)
    users, items = [], []
    for user in range(n_users):
        seen = rng.choice(30, 3, replace=False).tolist()
        taken = [*seen, seen[0]] if user % 2 else seen
        users += [user] * len(taken)
        items += taken
    return rw.Interactions(users, items, time=np.arange(len(users)))


def test_a_user_whose_last_event_is_a_repeat_is_evaluated_on_the_last_new_item() -> None:
    events = repeated()
    split = leave_last_out(events)
    user, item = relevant_pairs(events.take(split.train), events.take(split.test))
    assert user.tolist() == list(range(40))
    third = events.item[np.flatnonzero(np.diff(events.user, prepend=-1)) + 2]
    assert item.tolist() == third.tolist()


def test_training_ends_before_the_held_out_item() -> None:
    events = repeated()
    split = leave_last_out(events)
    for user in range(40):
        before = events.time[split.train][events.user[split.train] == user].max()
        assert before < events.time[split.test][events.user[split.test] == user].min()


def test_a_report_says_who_is_left_out_and_why() -> None:
    first = repeated()
    more = rw.Interactions([99, 99, 0], [1, 1, first.items[first.item[0]]], time=[-2, -1, 500])
    events = rw.Interactions.concat([first, more])
    report = evaluate_top_n(POPULAR, events, n=3)
    assert report.n_users == 40
    assert report.left_out == {"with one item only": 1}
    assert "left out: 1 users (1 with one item only)" in str(report)
    by_time = evaluate_top_n(POPULAR, events, "time", n=3, test_size=0.2)
    assert by_time.n_users + sum(by_time.left_out.values()) == 41
    assert set(by_time.left_out) == {
        "without events in the test part",
        "who took only items of the training part again",
    }


def test_novelty_counts_the_users_of_the_training_part_only() -> None:
    train = rw.Interactions([0, 1, 1], ["a", "a", "b"])
    test = rw.Interactions([0, 7, 8, 9], ["b", "a", "a", "a"])
    report = evaluate_lists({0: ["b"], 7: ["b"], 8: ["b"], 9: ["b"]}, test, train=train)
    assert report["Novelty@1"] == 1.0  # b has one of two users


def test_diversity_of_many_items_is_that_of_each_list_alone() -> None:
    events = make_events(n_users=50, n_items=40, n=800)
    rng = np.random.default_rng(0)
    lists = np.array([rng.choice(40, 5, replace=False) for _ in range(20)])
    lists[3, 2:] = -1
    users = np.arange(20)
    report = report_of(lists, users, events, (users, np.zeros(20, np.int64)))
    taken = (events.to_csr().toarray() > 0).astype(float)
    cosine = taken.T @ taken / np.sqrt(np.outer(taken.sum(axis=0), taken.sum(axis=0)))
    for row, found in zip(lists, report.per_user["Diversity"], strict=True):
        shown = row[row >= 0]
        pairs = [cosine[a, b] for a in shown for b in shown if a < b]
        assert found == pytest.approx(1.0 - np.mean(pairs), rel=1e-5)


def test_lists_of_another_library_are_measured_as_ours() -> None:
    events = make_events(n_users=60, n_items=110, n=1500)
    split = leave_last_out(events)
    train, test = events.take(split.train), events.take(split.test)
    expected = evaluate_top_n(POPULAR, events)
    lists = POPULAR.fit(train).recommend_all(n=10)
    frame = lists.to_frame()
    shuffled = frame.sample(frac=1.0, random_state=0)
    forms = [lists, dict(lists), {u: [r.item for r in best] for u, best in lists.items()}]
    forms += [frame, shuffled, shuffled.drop(columns="score").to_dict("list")]
    for form in forms:
        found = evaluate_lists(form, test, train=train)
        assert found.measures == expected.measures
    reordered = rw.Interactions(test.users[test.user][::-1], test.items[test.item][::-1])
    other = evaluate_lists(lists, reordered, train=train)
    assert other["NDCG@10"] == pytest.approx(expected["NDCG@10"])


def test_a_user_without_a_list_counts_as_an_empty_list_and_is_named() -> None:
    train, test = rw.Interactions([1, 2], ["a", "b"]), rw.Interactions([1, 2], ["b", "a"])
    report = evaluate_lists({1: ["b"], 5: ["a"]}, test, train=train)
    assert report["HitRate@1"] == 0.5
    assert "1 users have no list" in str(report)
    assert "1 lists are of users who took nothing new" in str(report)


def test_two_reports_are_compared_user_by_user() -> None:
    events = make_events(n_users=120, n_items=110, n=3000)
    first = evaluate_top_n(POPULAR, events)
    second = evaluate_top_n(rw.Recommender(experts=[ItemCosine()]), events)
    found = compare(first, second)
    assert found.n_users == first.n_users
    assert found["NDCG@10"] == pytest.approx(second["NDCG@10"] - first["NDCG@10"])
    difference = second.per_user["NDCG"] - first.per_user["NDCG"]
    estimate = found.differences["NDCG@10"]
    half = 1.96 * difference.std() / np.sqrt(len(difference))
    assert estimate.high - estimate.low == pytest.approx(2 * half, rel=0.15)
    assert compare(first, first)["NDCG@10"] == 0.0
    assert "second less first, 120 users in both" in str(found)


def test_reports_that_do_not_fit_together_are_refused() -> None:
    events = make_events(n_users=60, n_items=110, n=1500)
    first = evaluate_top_n(POPULAR, events)
    with pytest.raises(DataError, match="lists of 10 and of 5"):
        compare(first, evaluate_top_n(POPULAR, events, n=5))
    with pytest.raises(DataError, match="give two reports"):
        compare(first, events)


def test_segments_are_parts_of_the_whole() -> None:
    events = make_events(n_users=120, n_items=110, n=3000)
    report = evaluate_top_n(POPULAR, events)
    light, heavy = report.parts["light users"], report.parts["heavy users"]
    assert light[0] + heavy[0] == report.n_users
    mean = light[0] * light[1]["NDCG@10"].value + heavy[0] * heavy[1]["NDCG@10"].value
    assert mean / report.n_users == pytest.approx(report["NDCG@10"])
    assert {"head items", "tail items"} <= set(report.parts)
    head, tail = report.parts["head items"], report.parts["tail items"]
    assert head[1]["Recall@10"].value > tail[1]["Recall@10"].value == 0.0
    frame = report.to_frame()
    assert len(frame) == len(report.measures) + 4 * len(report.parts)


def test_lists_become_a_data_frame() -> None:
    events = make_events(n_users=30, n_items=30, n=300)
    lists = POPULAR.fit(events).recommend_all(n=3)
    frame = lists.to_frame()
    assert list(frame.columns) == ["user", "rank", "item", "score"]
    user = events.users[0]
    assert frame[frame["user"] == user]["item"].tolist() == [r.item for r in lists[user]]
    assert lists.to_frame("polars").shape == frame.shape
