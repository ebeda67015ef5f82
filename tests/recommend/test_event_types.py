"""Types of events, dislikes, half-lives and exploration."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.exceptions import DataError, ParameterError
from rankwright.recommend.events import EASE, ImplicitALS, ItemCosine, Popularity
from rankwright.recommend.events.histories import Histories
from recommend.test_experts import make_events

WEIGHTS = {"view": 1.0, "cart": 3.0, "purchase": 5.0, "dislike": -1.0}


@pytest.fixture(scope="module")
def log():
    return make_shop_log(4000, 200, 120, random_state=0)


def test_types_become_weights() -> None:
    frame = {"user": [1, 1, 2], "item": [7, 8, 7], "event": ["view", "purchase", "hide"]}
    events = rw.Interactions.from_frame(frame)
    assert events.event_types.tolist() == ["view", "purchase", "hide"]
    weights = {"view": 1, "purchase": 5, "hide": 0}
    assert events.weighted(weights).weight.tolist() == [1.0, 5.0]
    assert rw.Interactions.from_frame(frame, event_weights=weights).weight.tolist() == [1.0, 5.0]
    assert "types view 33.3 %" in repr(events)


def test_a_file_with_types_is_read_with_their_weights(tmp_path) -> None:
    (tmp_path / "log.csv").write_text("user,item,event_type\na,1,view\na,2,buy\nb,1,buy\n")
    events = rw.read_interactions(tmp_path / "log.csv", event_weights={"view": 1, "buy": 4})
    assert events.weight.tolist() == [1.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"view": 1}, r"no weight for 'cart', the type of row \d+"),
        ({**WEIGHTS, "view": float("nan")}, "finite number"),
        ({**WEIGHTS, "view": "much"}, "finite number"),
    ],
)
def test_weights_that_are_none_are_refused(log, weights, message) -> None:
    with pytest.raises(ParameterError, match=message):
        rw.Recommender(event_weights=weights).fit(log)


def test_events_without_types_have_no_weights_by_type() -> None:
    with pytest.raises(DataError, match="no types"):
        rw.Recommender(event_weights=WEIGHTS).fit(make_events())
    with pytest.raises(DataError, match="no times"):
        rw.Recommender(half_life=3.0).fit(rw.Interactions([1, 2], [1, 2]))


def test_the_weight_of_a_type_is_the_weight_of_its_events(log) -> None:
    experts = [ImplicitALS(n_factors=8)]
    by_type = rw.Recommender(experts=experts, event_weights=WEIGHTS, random_state=0).fit(log)
    weight = [WEIGHTS[kind] for kind in log.to_columns()["event"].tolist()]
    numbers = (log.users, log.items, log.user, log.item)
    same = rw.Interactions.from_numbers(*numbers, weight, log.time)
    given = rw.Recommender(experts=experts, random_state=0).fit(same)
    user = log.users[log.user[0]]
    np.testing.assert_array_equal(by_type.scores(user), given.scores(user))
    for expert in (EASE(), ItemCosine()):
        plain = rw.Recommender(experts=[expert]).fit(log)
        by_type = rw.Recommender(experts=[expert], event_weights=WEIGHTS).fit(log)
        assert (plain.scores(user) != by_type.scores(user)).any()
        why = by_type.explain(user, by_type.recommend(user)[0].item)
        assert sum(why.experts.values()) == pytest.approx(why.score, rel=1e-4)


def test_what_a_user_dislikes_is_not_taken_and_not_recommended(tmp_path) -> None:
    events = rw.Interactions(
        [1, 1, 1, 2, 2, 3], list("abcabc"), weight=[1, -1, 1, 1, 1, 1], time=range(6)
    )
    model = rw.Recommender(experts=[Popularity(half_life=None)]).fit(events)
    assert model.histories_.items[model.histories_.rows.row(0)[0]].tolist() == ["a", "c"]
    assert model.recommend(1) == []
    assert [item for item, _ in model.recommend(1, exclude=None)] == ["a", "c", "b"]
    assert "b" in [item for item, _ in model.recommend(3)]
    rw.save(model, tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    assert loaded.recommend(1) == []
    for one in (model, loaded):
        one.partial_fit(rw.Interactions([1], ["b"], weight=[3.0], time=[9]))
        assert one.histories_.items[one.histories_.rows.row(0)[0]].tolist() == ["a", "c", "b"]
        assert one.histories_.rows.row(0)[1].tolist() == [1.0, 1.0, 2.0]


def test_updates_with_dislikes_are_those_of_all_events_at_once(log) -> None:
    weighted = log.weighted(WEIGHTS)
    whole = Histories.of(weighted)
    part = Histories.of(weighted.take(slice(0, 3000)))
    merged, _ = part.merged(weighted.take(slice(3000, None)))
    for name in ("ptr", "item", "weight", "time"):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-5)
    pairs = [{tuple(p) for p in h.disliked.tolist()} for h in (merged, whole)]
    assert pairs[0] == pairs[1]


def test_an_event_counts_half_after_each_half_life() -> None:
    events = rw.Interactions([1, 1, 1, 2], list("abca"), time=[0, 50, 100, 100])
    model = rw.Recommender(experts=[ImplicitALS(n_factors=2)], half_life=50.0).fit(events)
    assert model.histories_.rows.row(0)[1].tolist() == [0.25, 0.5, 1.0]
    model.partial_fit(rw.Interactions([1], ["d"], time=[150]))
    assert model.histories_.rows.row(0)[1].tolist() == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("expert", [EASE(l2_regularization=5.0), ItemCosine(), ImplicitALS()])
def test_with_a_half_life_recent_events_decide(expert) -> None:
    events = make_events(n_users=80, n_items=20, n=1600)
    half = rw.Recommender(experts=[expert], half_life=20.0, random_state=0).fit(
        rw.Interactions.concat(
            [events, rw.Interactions([999] * 4, [1, 2, 12, 13], time=[1, 2, 1599, 1600])]
        )
    )
    best = [item for item, _ in half.recommend(999, n=5)]
    assert sum(item >= 10 for item in best) >= 4  # the items of the other half are long ago


def test_cold_items_get_their_share_of_the_places(log) -> None:
    experts = [Popularity(half_life=None), ItemCosine()]
    n_users = (log.to_csr().toarray() > 0).sum(axis=0)
    cold = set(log.items[n_users < 5].tolist())
    for share in (0.0, 0.1, 0.25):
        model = rw.Recommender(experts=experts, exploration=share, random_state=0).fit(log)
        lists = model.recommend_all(n=10)
        items = [item for best in lists.values() for item, _ in best]
        found = sum(item in cold for item in items) / len(items)
        assert found == pytest.approx(share, abs=0.03)
        assert all(len({item for item, _ in best}) == len(best) for best in lists.values())
    assert lists == model.recommend_all(n=10)
    shown = {item for item in items if item in cold}
    assert len(shown) > 0.9 * len(cold)  # not the same few for everybody


def test_exploration_keeps_to_filters_and_histories(log) -> None:
    model = rw.Recommender(experts=[Popularity(half_life=None)], exploration=0.5).fit(log)
    allowed = log.items[:60].tolist()
    for user, best in model.recommend_all(n=8, filter=allowed).items():
        taken = set(log.item[log.user == user].tolist())
        assert {item for item, _ in best} <= set(allowed) - taken
