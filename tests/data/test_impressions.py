"""Logs of impressions: sessions, positions, joins; and simulated users."""

from __future__ import annotations

import numpy as np
import pytest

from rankwright.data import ClickSimulator, ImpressionLog, Items
from rankwright.exceptions import DataError, DegenerateDataWarning


def test_rows_in_any_order_are_sorted_by_session_and_position() -> None:
    log = ImpressionLog.from_arrays(
        query=["q", "p", "q", "p"],
        item=[2, 3, 1, 4],
        clicks=[3, 0, 0, 1],
        position=[2, 2, 1, 1],
        session=["s", "t", "s", "t"],
        dwell=[9.0, np.nan, np.nan, 2.0],
        user=["ann", "bob", "ann", "bob"],
        time=[0, 5, 0, 5],
    )
    assert log.items[log.item].tolist() == [1, 2, 4, 3]
    assert log.clicks.tolist() == [0, 3, 1, 0]
    assert log.clicked.tolist() == [False, True, True, False]
    assert log.sessions.tolist() == ["s", "t"]
    assert log.starts.tolist() == [0, 2, 4]
    assert log.dwell is not None
    assert log.dwell.tolist()[1:3] == [9.0, 2.0]
    assert not log.clicks.flags.writeable
    assert log.click_rates().tolist() == [0.5, 0.5]


def test_a_session_ends_where_query_user_time_or_position_say_so() -> None:
    log = ImpressionLog.from_arrays(
        query=["q", "q", "q", "q", "p", "p"],
        item=[1, 2, 1, 2, 1, 1],
        clicks=[0] * 6,
        position=[1, 2, 1, 2, 1, 2],
        user=["a", "a", "a", "a", "a", "b"],
    )
    assert log.session.tolist() == [0, 0, 1, 1, 2, 3]


def test_a_session_id_over_two_queries_is_two_lists() -> None:
    log = ImpressionLog.from_arrays(["q", "q", "p"], [1, 2, 1], [0, 1, 0], session=[7, 7, 7])
    assert log.n_sessions == 2
    assert log.position.tolist() == [1, 2, 1] or log.position.tolist() == [1, 1, 2]


def test_taking_and_splitting_sessions_keeps_them_whole() -> None:
    items = Items(np.arange(12.0)[:, None], np.arange(12) % 3, qid=np.repeat([1, 2, 3], 4))
    log = ClickSimulator(items).sessions(items.X[:, 0], 50)
    some = log.take([4, 2])
    assert some.n_sessions == 2
    assert some.sessions.tolist() == [2, 4]
    assert some.query.tolist() == log.query[np.isin(log.session, [2, 4])].tolist()
    train, test = log.split(0.3, random_state=1)
    assert sorted([*train.sessions, *test.sessions]) == list(range(50))


def test_features_are_joined_by_query_and_item_as_text() -> None:
    log = ImpressionLog.from_arrays([1, 1, 2], [5, 6, 5], [0, 1, 0])
    table = Items(
        np.zeros((4, 1)), np.zeros(4), qid=["2", "1", "1", "3"], docid=["5", "6", "5", "5"]
    )
    assert log.rows_in(table).tolist() == [2, 1, 0]
    by_item = Items(np.zeros((2, 1)), np.zeros(2), docid=["6", "5"])
    assert log.rows_in(by_item).tolist() == [1, 0, 1]
    with pytest.warns(DegenerateDataWarning, match="1 of 3 shown items have no features"):
        assert log.rows_in(table.take([0, 1])).tolist() == [-1, 1, 0]
    with pytest.raises(DataError, match="no query and item of the log"):
        log.rows_in(table.take([3]))
    with pytest.raises(DataError, match="same query and item"):
        log.rows_in(table.take([0, 1, 2, 2]))
    with pytest.raises(DataError, match="no item ids"):
        log.rows_in(Items(np.zeros((2, 1)), np.zeros(2)))


def graded() -> Items:
    rng = np.random.default_rng(0)
    return Items(rng.normal(size=(60, 3)), rng.integers(0, 3, 60), qid=np.repeat(np.arange(6), 10))


def test_clicks_come_at_the_rates_that_the_simulator_states() -> None:
    items = graded()
    users = ClickSimulator(items, [1.0, 0.5, 0.25], noise=0.1, trust=0.2)
    log = users.sessions(items.X[:, 0], 60_000)
    slope, offset = users.affine
    relevance = users.relevance[log.item]  # without ids, items are the rows
    expected = slope[log.position - 1] * relevance + offset[log.position - 1]
    for k in range(1, 4):
        here = log.position == k
        assert log.clicked[here].mean() == pytest.approx(expected[here].mean(), abs=0.01)
    assert log.clicks.sum() / log.n_sessions == pytest.approx(
        users.expected_clicks(items.X[:, 0]), abs=0.02
    )
    lists = users.lists(items.X[:, 0])
    gains = users.relevance[lists] / np.log2(np.arange(2, 5))
    assert users.expected_clicks(items.X[:, 0], "DCG") == pytest.approx(gains.sum(axis=1).mean())


def test_cascade_users_click_once_and_seeds_repeat() -> None:
    items = graded()
    users = ClickSimulator(items, [1.0] * 5, browsing="cascade")
    log = users.sessions(items.y, 500, random_state=3)
    assert np.bincount(log.session, log.clicks).max() == 1
    again = users.sessions(items.y, 500, random_state=3)
    assert (log.clicks == again.clicks).all()
    weights = [1, 0, 0, 0, 0, 0]
    assert set(users.sessions(items.y, 50, query_weight=weights).query.tolist()) == {0}


@pytest.mark.parametrize("experiment", ["swap", "shuffle"])
def test_experiments_show_the_same_items_in_another_order(experiment: str) -> None:
    items = graded().take(slice(0, 7))
    users = ClickSimulator(items)
    plain, moved = users.sessions(items.y, 300), users.sessions(items.y, 300, experiment=experiment)
    assert moved.n_positions == plain.n_positions == 7
    top = moved.item[moved.position == 1]
    assert np.bincount(top, minlength=7) / 300 == pytest.approx(np.full(7, 1 / 7), abs=0.08)
    if experiment == "swap":
        kept = np.array([(moved.item[a:b] == plain.item[:7]).sum() for a, b in
                         zip(moved.starts[:-1], moved.starts[1:], strict=True)])  # fmt: skip
        assert set(kept.tolist()) == {5, 7}
