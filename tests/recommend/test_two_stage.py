"""Two stages: candidates of a recommender, ordered by a ranker of features from before."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.exceptions import DataError, ParameterError
from rankwright.features import FeatureSet, Ratio
from rankwright.recommend import compare, evaluate_lists, leave_last_out
from rankwright.recommend.events import ItemCosine, NextItems, Popularity
from rankwright.recommend.events.topn import labels

EXPERTS = [Popularity(), ItemCosine(), NextItems(decay=0.4, window=3)]


def recommender() -> rw.Recommender:
    return rw.Recommender(experts=EXPERTS, random_state=0)


def two_stages(**more) -> rw.TwoStageRecommender:
    ranker = rw.LambdaMART(n_estimators=30, random_state=0)
    options = {"candidates": recommender(), "ranker": ranker, "random_state": 0, **more}
    return rw.TwoStageRecommender(**options)


@pytest.fixture(scope="module")
def log() -> rw.Interactions:
    return make_shop_log(30_000, 1500, 400, random_state=0)


@pytest.fixture(scope="module")
def model(log) -> rw.TwoStageRecommender:
    return two_stages().fit(log)


def ids(best) -> list:
    return [item for item, _ in best]


def test_a_list_reorders_the_candidates_of_the_first_stage(log, model) -> None:
    for user in log.users[:20].tolist():
        candidates = ids(model.candidates_.recommend(user, 100))
        best = model.recommend(user, 10)
        assert set(ids(best)) <= set(candidates)
        assert [r.score for r in best] == sorted([r.score for r in best], reverse=True)
    whole = model.recommend(log.users[0], 100)
    assert sorted(ids(whole)) == sorted(ids(model.candidates_.recommend(log.users[0], 100)))


def test_the_second_stage_is_better_than_the_first_on_the_shop(log) -> None:
    """Without ids of sessions: with them the first stage knows what the ranker finds out."""
    ids = log.users[log.user], log.items[log.item]
    events = rw.Interactions(*ids, time=log.time)
    split = leave_last_out(events)
    train, test = events.take(split.train), events.take(split.test)
    lists = [m.fit(train).recommend_all() for m in (recommender(), two_stages())]
    reports = [evaluate_lists(best, test, train=train, n=10) for best in lists]
    assert compare(*reports).differences["NDCG@10"].low > 0


def test_without_signal_the_first_stage_decides(log) -> None:
    """Shuffled times: what comes later tells nothing, and the ranker must not lose."""
    shuffled = rw.Interactions(
        log.users[log.user],
        log.items[log.item],
        time=np.random.default_rng(0).permutation(log.time),
    )
    split = leave_last_out(shuffled)
    train, test = shuffled.take(split.train), shuffled.take(split.test)
    lists = [m.fit(train).recommend_all() for m in (recommender(), two_stages())]
    reports = [evaluate_lists(best, test, train=train, n=10) for best in lists]
    difference = compare(*reports).differences["NDCG@10"]
    assert difference.low < 0.005
    assert difference.high > -0.005


def test_features_of_training_lists_know_nothing_of_the_held_out_events(log) -> None:
    seen = []

    class Spy(rw.TwoStageRecommender):
        def _fit_ranker(self, before, after, rng):
            seen.append((self.item_columns_.copy(), before, after))
            super()._fit_ranker(before, after, rng)

    model = Spy(candidates=recommender(), holdout="period", random_state=0).fit(log)
    columns, before, after = seen[0]
    assert before.time.max() <= after.time.min()
    purchase = before.event_types.tolist().index("purchase")
    own = before.event == purchase
    count = np.bincount(before.item[own], minlength=before.n_items)
    rate = (count + 10 * own.mean()) / (np.bincount(before.item, minlength=before.n_items) + 10)
    np.testing.assert_allclose(columns[:, model.item_names_.tolist().index("rate.purchase")], rate)


def test_new_users_filters_and_exclusions(log, model) -> None:
    session = log.items[:3].tolist()
    best = ids(model.recommend_new(session, 5))
    assert len(best) == 5
    assert not set(best) & set(session)
    assert best[0] not in ids(model.recommend_new(session, 5, exclude=[best[0]]))
    allowed = log.items[10:40].tolist()
    assert set(ids(model.recommend(log.users[0], 5, filter=allowed))) <= set(allowed)


def test_events_count_at_once(log, model) -> None:
    model = two_stages().fit(log)
    user = log.users[0]
    first = ids(model.recommend(user))[0]
    model.partial_fit(rw.Interactions([user], [first], time=[float(log.time.max()) + 1]))
    assert first not in ids(model.recommend(user))
    model.partial_fit(rw.Interactions([10**7], [10**7], time=[float(log.time.max()) + 2]))
    assert len(model.recommend(10**7)) == 10


def test_a_loaded_model_gives_the_same_lists(log, model, tmp_path) -> None:
    rw.save(model, tmp_path / "two.rw")
    loaded = rw.load(tmp_path / "two.rw")
    users = log.users[:30].tolist()
    assert dict(loaded.recommend_all(users)) == dict(model.recommend_all(users))
    assert loaded.recommend_new([log.items[0]]) == model.recommend_new([log.items[0]])


def test_declared_features_and_attributes_are_columns(log, tmp_path) -> None:
    items = rw.Attributes.from_frame(
        {"item": log.items.tolist(), "price": (np.arange(log.n_items) % 7).tolist()}
    )
    features = FeatureSet([Ratio("recent", "count")])
    model = two_stages(features=features).fit(log, item_features=items)
    assert {"price", "rate.purchase", "rank.ItemCosine"} <= set(model.feature_names_)
    assert len(model.feature_names_) == model.ranker_.n_features_in_
    assert any("recent" in name and "count" in name for name in model.feature_names_)
    rw.save(model, tmp_path / "two.rw")
    user = log.users[0]
    assert rw.load(tmp_path / "two.rw").recommend(user) == model.recommend(user)
    same = two_stages(features=items).fit(log)
    assert "price" in same.feature_names_


def test_scores_of_experts_are_public(log) -> None:
    model = recommender().fit(log)
    user, items = log.users[0], log.items[:50].tolist()
    found = model.expert_scores(user, items)
    assert list(found) == labels(model.model_.experts_)
    rows = model._backend.known(model._user_numbers([user]))
    weights = [float(w[0, 0]) for w in model.model_._weights(rows)]
    total = sum(w * scores for w, scores in zip(weights, found.values(), strict=True))
    np.testing.assert_allclose(total, model.scores(user, items), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda log: two_stages().fit(log.users), DataError),
        (lambda log: two_stages().fit(rw.Interactions([1, 2], [1, 2])), DataError),
        (lambda log: two_stages(n_candidates=3).fit(log), ParameterError),
        (lambda log: two_stages(holdout="both").fit(log), ParameterError),
        (lambda log: two_stages(candidates=rw.LambdaMART()).fit(log), ParameterError),
        (lambda log: two_stages().fit(log.take(slice(0, 30))), DataError),
    ],
    ids=["no events", "no times", "few candidates", "holdout", "candidates", "few events"],
)
def test_bad_input_is_refused(log, make, error) -> None:
    with pytest.raises(error):
        make(log)
