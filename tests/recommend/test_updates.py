"""Updates of a recommender: one event changes the user's next list, the experts follow later."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.base import clone

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.exceptions import DataError
from rankwright.recommend.events import ImplicitALS, ItemCosine, NextItems
from rankwright.recommend.events.histories import Entries, Histories

EXPERTS = [ItemCosine(), NextItems(), ImplicitALS(n_factors=8)]


@pytest.fixture(scope="module")
def log() -> rw.Interactions:
    return make_shop_log(120_000, 4000, 800, random_state=0)


@pytest.fixture
def model(log) -> rw.Recommender:
    return rw.Recommender(experts=EXPERTS, random_state=0).fit(log)


def event(log, user=0, item=0, after=1.0, **more) -> rw.Interactions:
    times = [float(log.time.max()) + after]
    return rw.Interactions([log.users[user]], [log.items[item]], time=times, **more)


def ids(best) -> list:
    return [item for item, _ in best]


def test_one_event_changes_the_next_list_and_leaves_the_experts_alone(log, model) -> None:
    user, before = log.users[0], model.model_.experts_[0].similarity_.copy()
    first = ids(model.recommend(user))
    new = first[0]
    model.partial_fit(event(log, 0, log.items.tolist().index(new)))
    after = ids(model.recommend(user))
    assert new not in after
    assert after != first[1:] + after[-1:]  # more changed than one item that was taken
    assert np.array_equal(model.model_.experts_[0].similarity_, before)
    assert model.model_.n_new_events_ == 1


def test_the_history_of_an_updated_user_is_that_of_all_events(log, model) -> None:
    rng = np.random.default_rng(0)
    rows = [(int(rng.integers(20)), int(rng.integers(50)), float(rng.normal())) for _ in range(60)]
    for user, item, after in rows:
        model.partial_fit(event(log, user, item, after))
    user, item, after = zip(*rows, strict=True)
    new = rw.Interactions(log.users[list(user)], log.items[list(item)], time=log.time.max() + after)
    whole = Histories.of(rw.Interactions.concat([log, new]))
    numbers = whole.user_vocabulary.numbers(log.users[:20])
    mine, all_at_once = model._backend.known(np.arange(20)), whole.rows.take(numbers)
    np.testing.assert_array_equal(mine.ptr, all_at_once.ptr)
    np.testing.assert_array_equal(log.items[mine.item], whole.items[all_at_once.item])
    np.testing.assert_array_equal(mine.weight, all_at_once.weight)


def test_experts_follow_when_enough_is_new(log, model) -> None:
    n_pairs = len(model.histories_)
    for at in range(round(0.002 * n_pairs) + 1):
        model.partial_fit(event(log, at % 4000, at % 800, at))
    assert model._pending == []
    expert, data = model.model_.experts_[0], model.histories_
    fresh = clone(expert).fit(data).scores(data.rows.take(np.arange(50)))
    np.testing.assert_array_equal(expert.scores(data.rows.take(np.arange(50))), fresh)


@pytest.mark.parametrize("what", ["user", "item"])
def test_new_users_and_items_are_known_at_once(log, model, what) -> None:
    user, item = (log.users[0], 10**6) if what == "item" else (10**6, log.items[0])
    model.partial_fit(event(log, 1, 1))  # waits
    model.partial_fit(rw.Interactions([user], [item], time=[float(log.time.max()) + 2]))
    assert item not in ids(model.recommend(user))
    assert item in model.data_.items
    assert model.model_.n_new_events_ == 2


def test_a_dislike_takes_an_item_from_the_next_list(log, model) -> None:
    user = log.users[3]
    first = ids(model.recommend(user))[0]
    model.partial_fit(event(log, 3, log.items.tolist().index(first), weight=[-1.0]))
    assert first not in ids(model.recommend(user))


def test_waiting_events_are_in_the_data_and_in_the_file(log, model, tmp_path) -> None:
    model.partial_fit(event(log, 5, 7))
    best = ids(model.recommend(log.users[5]))
    rw.save(model, tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    assert len(set(ids(loaded.recommend(log.users[5]))) & set(best)) >= 9
    assert len(loaded.data_) == len(Histories.of(rw.Interactions.concat([log, event(log, 5, 7)])))


def test_times_in_another_unit_are_refused_in_one_event_too(log, model) -> None:
    with pytest.raises(DataError, match="milliseconds"):
        model.partial_fit(
            rw.Interactions([log.users[0]], [log.items[0]], time=[1e3 * float(log.time.max())])
        )


def test_an_update_and_a_list_take_milliseconds(log, model) -> None:
    took = []
    for at in range(30):
        start = time.process_time()
        model.partial_fit(event(log, at, at, at))
        model.recommend(log.users[at])
        took.append(time.process_time() - start)
    assert np.median(took) < 0.05  # 1 ms here; a busy machine is slower


def test_updated_lists_agree_with_those_of_a_new_fit(log) -> None:
    rows = np.random.default_rng(0).permutation(len(log))
    old, new = log.take(np.sort(rows[300:])), log.take(np.sort(rows[:300]))
    kept = [ItemCosine(), NextItems()]
    model = rw.Recommender(experts=kept, random_state=0).fit(old)
    for at in range(len(new)):
        model.partial_fit(new.take([at]))
    fresh = rw.Recommender(experts=kept, random_state=0).fit(rw.Interactions.concat([old, new]))
    fresh.model_.weights_ = model.model_.weights_
    users = np.unique(new.users[new.user]).tolist()
    lists = model.recommend_all(users), fresh.recommend_all(users)
    common = [len(set(ids(lists[0][u])) & set(ids(lists[1][u]))) for u in users]
    assert sum(common) >= 0.95 * sum(len(best) for best in lists[1].values())


def test_entries_without_times_go_to_the_end() -> None:
    entries = Entries(np.array([4, 2], np.int32), np.array([1.0, 2.0], np.float32), None)
    item, weight, time_, _ = entries.followed_by(np.array([4, 9]), np.array([1.0, 1.0]), None)
    assert (item.tolist(), weight.tolist(), time_) == ([2, 4, 9], [2.0, 2.0, 1.0], None)
