"""Session ids: what was taken in the present visit counts most where order is followed."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.recommend.events import EASE, SLIT, NextItems
from rankwright.recommend.events.histories import EARLIER, Histories


@pytest.fixture(scope="module")
def log():
    return make_shop_log(3_000, 150, 80, random_state=0)


def without_sessions(events):
    columns = events.to_columns()
    return rw.Interactions(columns["user"], columns["item"], time=columns["time"])


def order(experts=None):
    return rw.Recommender(experts=experts or [NextItems(shrinkage=0.0), SLIT()], random_state=0)


def test_ids_of_sessions_survive_selection_concatenation_and_columns() -> None:
    events = rw.Interactions([1, 1, 2], [7, 8, 7], session=["x", "y", "x"])
    assert events.take([1]).to_columns()["session"].tolist() == ["y"]
    both = rw.Interactions.concat([events.take([0]), events.take([1, 2])])
    assert both.to_columns()["session"].tolist() == ["x", "y", "x"]
    frame = rw.Interactions.from_frame(events.to_columns())
    assert frame.sessions.tolist() == ["x", "y"]
    assert Histories.of(frame).session.tolist() == Histories.of(events).session.tolist()


def test_an_item_of_an_earlier_session_counts_a_tenth() -> None:
    user, item = [1, 1, 1, 2, 2, 3, 3], [1, 2, 3, 1, 4, 2, 5]
    events = rw.Interactions(user, item, time=range(7), session=list("aabccdd"))
    expert = NextItems(shrinkage=0.0, decay=1.0).fit(Histories.of(events))
    rows = Histories.of(events).rows.take(np.array([0]))
    assert rows.recent.tolist() == [EARLIER, EARLIER, 1.0]
    parts = [expert.scores(rows._replace(recent=np.eye(3, dtype=np.float32)[k])) for k in range(3)]
    expected = EARLIER * parts[0] + EARLIER * parts[1] + parts[2]
    np.testing.assert_allclose(expert.scores(rows), expected, rtol=1e-6)


def test_transitions_of_slit_end_with_a_session() -> None:
    """Items 1 and 2 follow each other in sessions, 2 and 3 only from one session to the next."""
    events = rw.Interactions([1, 1, 1] * 5, [1, 2, 3] * 5, session=list("aab") * 5)
    events = rw.Interactions(np.repeat(range(5), 3), events.items[events.item], session=[
        f"{user}{name}" for user in range(5) for name in "aab"
    ])  # fmt: skip
    expert = SLIT(l2_regularization=1.0).fit(Histories.of(events))
    assert expert.weight_[0, 1] > 0.1
    assert expert.weight_[1, 2] == 0.0
    alone = SLIT(l2_regularization=1.0).fit(Histories.of(events).by_session())
    np.testing.assert_array_equal(alone.weight_, expert.weight_)


def test_one_session_for_each_user_is_the_same_as_none(log) -> None:
    columns = log.to_columns()
    one = rw.Interactions(
        columns["user"], columns["item"], time=columns["time"], session=columns["user"]
    )
    with_one, with_none = (order().fit(data) for data in (one, without_sessions(log)))
    assert with_one.recommend_all() == with_none.recommend_all()


def test_a_new_user_is_one_session(log) -> None:
    """A known user whose earlier sessions are of other items is closer to a new one than before."""
    model = order().fit(log)
    histories = model.histories_
    number = int(np.argmax(np.diff(histories.ptr)))
    user = histories.users[number]
    items, _ = histories.rows.row(number)
    recent = histories.rows.take(np.array([number])).recent == 1.0
    assert 0 < recent.sum() < len(items)
    every = histories.items[histories.item_counts > 0]
    new = model.scores(histories.items[items[recent]].tolist(), every)
    flat = order().fit(without_sessions(log)).scores(histories.items[items].tolist(), every)
    alike = [np.corrcoef(new, other)[0, 1] for other in (model.scores(user, every), flat)]
    assert alike[0] > alike[1]


@pytest.mark.parametrize("n_new", [1, 40])
def test_updates_give_the_histories_of_all_events(log, n_new) -> None:
    model = order().fit(log.take(slice(None, -n_new)))
    for row in range(len(log) - n_new, len(log)):
        model.partial_fit(log.take([row]))
    whole = Histories.of(log)
    np.testing.assert_array_equal(model.histories_.session, whole.session)
    np.testing.assert_array_equal(model.histories_.item, whole.item)


def test_the_next_list_follows_the_session_of_an_event(log, monkeypatch) -> None:
    """Without the experts' own update: only the user's history follows."""
    from rankwright.recommend import recommender

    user = log.users[log.user[-1]]
    rest, last = log.take(slice(None, -1)), log.take([len(log) - 1])
    at_once = order().fit(rest)
    monkeypatch.setattr(recommender, "SMALL", 0)
    monkeypatch.setattr(recommender, "REFRESH", 1.0)
    later = order().fit(rest).partial_fit(last)
    assert later._pending
    rows = later._known(user)
    merged = at_once.histories_.merged(last)[0]
    number = int(np.flatnonzero(merged.users == user)[0])
    np.testing.assert_array_equal(rows.recent, merged.rows.take(np.array([number])).recent)


def test_an_event_without_a_session_goes_on_with_the_last_one() -> None:
    events = rw.Interactions([1, 1, 2], [7, 8, 9], time=[1, 2, 3], session=["a", "b", "c"])
    more = rw.Interactions([1, 3], [9, 7], time=[4, 5])
    histories, _ = Histories.of(events).merged(more)
    assert histories.rows.take(np.array([0])).recent.tolist() == [EARLIER, 1.0, 1.0]
    assert histories.rows.take(np.array([2])).recent.tolist() == [1.0]


def test_a_waiting_event_without_a_session_keeps_the_sessions_of_the_others(
    log, monkeypatch, tmp_path
) -> None:
    """The lists before the experts follow are those after it, and those of a file."""
    from rankwright.recommend import recommender

    rest, last = log.take(slice(None, -6)), log.take(range(len(log) - 6, len(log)))
    model = order().fit(rest)
    monkeypatch.setattr(recommender, "SMALL", 0)
    monkeypatch.setattr(recommender, "REFRESH", 1.0)
    for row in range(6):
        one = last.take([row])
        model.partial_fit(without_sessions(one) if row in (2, 5) else one)
    assert len(model._pending) == 6
    users = np.unique(last.users[last.user]).tolist()
    numbers = model._user_numbers(users)
    waiting = model._backend.known(numbers).recent.tolist()
    rw.save(model, tmp_path / "shop.rw")
    assert not model._pending
    for merged in (model, rw.load(tmp_path / "shop.rw")):
        assert merged._backend.known(numbers).recent.tolist() == waiting
    whole = Histories.of(log)
    for user in np.setdiff1d(last.users[last.user], last.users[last.user[[2, 5]]]).tolist():
        rows = [
            data.rows.take(data.user_vocabulary.numbers([user]))
            for data in (model.histories_, whole)
        ]
        assert rows[0].recent.tolist() == rows[1].recent.tolist()


def test_an_event_that_is_refused_leaves_the_waiting_ones(log, monkeypatch) -> None:
    from rankwright.recommend import recommender

    rest, last = log.take(slice(None, -1)), log.take([len(log) - 1])
    model = order().fit(rest)
    monkeypatch.setattr(recommender, "SMALL", 0)
    monkeypatch.setattr(recommender, "REFRESH", 1.0)
    model.partial_fit(last)
    with pytest.raises(rw.DataError, match="have no times"):
        model.partial_fit(rw.Interactions([-1], [-1]))
    assert model.model_.n_new_events_ == len(model._pending) == 1
    model.refit()
    np.testing.assert_array_equal(model.histories_.session, Histories.of(log).session)


def test_sessions_at_the_same_time_are_two_histories() -> None:
    """Sessions x and y of one user run side by side; those of another come one after the other."""
    user, item = [1, 1, 1, 1, 2, 2, 2], [1, 11, 2, 12, 3, 4, 11]
    session = ["x", "y", "x", "y", "v", "v", "w"]
    events = rw.Interactions(user, item, time=range(7), session=session)
    histories = Histories.of(events).by_session()
    taken = np.split(histories.items[histories.item], histories.ptr[1:-1])
    assert [row.tolist() for row in taken] == [[1, 2], [11, 12], [3, 4], [11]]
    expert = SLIT(l2_regularization=1.0).fit(Histories.of(events))
    number = {name: at for at, name in enumerate(events.items.tolist())}
    assert expert.weight_[number[1], number[2]] > 0
    assert expert.weight_[number[1], number[11]] == expert.weight_[number[11], number[2]] == 0


def test_a_file_keeps_sessions_and_parts_add_up(log, tmp_path) -> None:
    model = order([NextItems(), SLIT(), EASE()]).fit(log)
    rw.save(model, tmp_path / "shop.rw")
    loaded = rw.load(tmp_path / "shop.rw")
    np.testing.assert_array_equal(loaded.histories_.session, model.histories_.session)
    assert loaded.recommend_all() == model.recommend_all()
    user = model.histories_.users[int(np.argmax(np.diff(model.histories_.ptr)))]
    item = model.recommend(user)[0].item
    explained = model.explain(user, item)
    assert sum(explained.experts.values()) == pytest.approx(explained.score, rel=1e-4)
