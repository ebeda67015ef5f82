"""The synthetic log of a shop has the structure that it says it has."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop_log


@pytest.fixture(scope="module")
def log():
    return make_shop_log(20_000, 800, 300, random_state=0)


def test_sizes_are_those_asked_for(log) -> None:
    assert (len(log), log.n_users, log.n_items) == (20_000, 800, 300)
    assert (np.diff(log.time) >= 0).all()
    assert isinstance(log, rw.Interactions)
    assert type(log.take([0, 1])) is type(log.events) is rw.Interactions


def test_the_same_seed_gives_the_same_log(log) -> None:
    again = make_shop_log(20_000, 800, 300, random_state=0)
    other = make_shop_log(20_000, 800, 300, random_state=1)
    for name in ("user", "item", "time", "event", "session"):
        np.testing.assert_array_equal(getattr(log, name), getattr(again, name))
    assert (log.item != other.item).any()


def test_a_session_has_one_user_and_little_time(log) -> None:
    order = np.argsort(log.session, kind="stable")
    same = np.diff(log.session[order]) == 0
    assert (np.diff(log.user[order])[same] == 0).all()
    assert (np.diff(log.time[order])[same] < 100).all()
    assert np.bincount(log.session).mean() == pytest.approx(4.0, rel=0.05)


def test_a_purchase_follows_a_cart_and_a_cart_a_view_of_the_same_item(log) -> None:
    order = np.argsort(log.session, kind="stable")
    kind, item = log.event[order], log.item[order]
    for step in (1, 2):
        at = np.flatnonzero(kind == step)
        assert len(at) > 50
        assert (kind[at - 1] == step - 1).all()
        assert (item[at - 1] == item[at]).all()


def test_popularity_and_activity_have_heavy_tails(log) -> None:
    items, users = np.sort(log.item_counts)[::-1], np.sort(log.user_counts)[::-1]
    assert items[:30].sum() > 0.3 * len(log)
    assert users[:80].sum() > 0.3 * len(log)


def test_cold_and_late_items_have_no_events_before_their_time(log) -> None:
    assert log.cold.sum() == 15
    assert log.item_counts[log.cold].sum() == 0
    late = log.launched > log.launched.min()
    assert late.sum() == 30
    started = np.full(20_000, np.inf)
    np.minimum.at(started, log.session, log.time)
    assert (started[log.session] - log.launched[log.item])[late[log.item]].min() > -100
    assert len(log.catalog) == 300


def test_companions_follow_one_another(log) -> None:
    order = np.argsort(log.session, kind="stable")
    item, session = log.item[order], log.session[order]
    pairs = (np.diff(session) == 0) & (np.diff(item) != 0)
    followed = log.companion[item[:-1]] == item[1:]
    assert followed[pairs].mean() == pytest.approx(0.35, abs=0.07)


def test_users_look_at_their_favorite_categories(log) -> None:
    is_favorite = (log.favorites[log.user] == log.category[log.item][:, None]).any(axis=1)
    assert is_favorite.mean() > 0.85


def test_the_smallest_shop_can_be_fitted() -> None:
    log = make_shop_log(5, 1, 2, random_state=0)
    assert rw.Recommender(random_state=0).fit(log).recommend_new([]) != []
