"""Recommending from interactions: lists, filters, updates, files, bad input."""

from __future__ import annotations

import copy
import json
import mmap
import threading

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.data.datasets.synthetic import make_ratings
from rankwright.exceptions import DataError, RankwrightWarning
from rankwright.recommend import Filter, Recommendation
from rankwright.recommend.events import EASE, ItemContent, ItemCosine, NextItems, Popularity
from rankwright.recommend.explanations import EventExplanation
from rankwright.recommend.lists import user_cosines
from rankwright.recommend.ratings.base import biases
from recommend.test_experts import make_events


@pytest.fixture(scope="module")
def events() -> rw.Interactions:
    return make_events()


@pytest.fixture(scope="module")
def model(events) -> rw.Recommender:
    return rw.Recommender(random_state=0).fit(events)


def taken(events, user) -> set:
    return set(events.items[events.item[events.users[events.user] == user]].tolist())


def test_a_list_has_new_items_by_descending_score(model, events) -> None:
    best = model.recommend(3, n=5)
    assert all(isinstance(one, Recommendation) for one in best)
    assert [score for _, score in best] == sorted((score for _, score in best), reverse=True)
    assert not {item for item, _ in best} & taken(events, 3)


def test_all_users_at_once_get_what_each_gets_alone(model, events) -> None:
    found = model.recommend_all(n=4)
    assert list(found) == events.users.tolist()
    for user in events.users[:10].tolist():
        assert [item for item, _ in found[user]] == [item for item, _ in model.recommend(user, 4)]


def test_the_blend_is_not_worse_than_its_best_expert_for_either_horizon(model) -> None:
    tables = model.model_.validation_
    assert set(tables) == {"next", "period"}
    for table in tables.values():
        assert table["blend"] >= 0.997 * max(table[name] for name in set(table) - {"blend"})


def test_lists_for_the_next_item_and_for_the_coming_time_have_their_own_weights() -> None:
    log = make_shop_log(6000, 300, 100, random_state=0)
    model = rw.Recommender(random_state=0).fit(log)
    user = log.users[0]
    soon, later = (model.recommend(user, horizon=name) for name in ("next", "period"))
    assert soon == model.recommend(user) != later
    assert model.recommend_all([user], horizon="period")[user] == later
    assert model.recommend_new([log.items[0]], horizon="next") == model.recommend_new(
        [log.items[0]]
    )
    with pytest.raises(rw.exceptions.ParameterError, match="horizon"):
        model.recommend(user, horizon="soon")
    ratings = rw.Recommender(random_state=0).fit(make_ratings(30, 20, random_state=0).ratings)
    with pytest.raises(rw.exceptions.ParameterError, match="horizon"):
        ratings.recommend(ratings.data_.users[0], horizon="next")


def test_a_new_user_is_one_with_the_same_history(model, events) -> None:
    items, weight = model.histories_.rows.row(3)
    history = model.histories_.items[items].tolist()
    new = model.recommend_new(dict(zip(history, weight.tolist(), strict=True)), n=5)
    known = model.recommend(int(model.histories_.users[3]), n=5)
    assert [item for item, _ in new] == [item for item, _ in known]


def test_a_user_without_events_gets_what_many_take(events) -> None:
    model = rw.Recommender(experts=[Popularity(half_life=None)]).fit(events)
    counts = model.histories_.item_counts
    best = [item for item, _ in model.recommend_new([], n=3)]
    assert best == events.items[np.argsort(-counts, kind="stable")[:3]].tolist()


def test_exclusions_and_filters_are_obeyed(model, events) -> None:
    first = model.recommend(3, n=3)[0].item
    assert first not in [item for item, _ in model.recommend(3, exclude=[first])]
    again = model.recommend(3, n=30, exclude=None)
    assert {item for item, _ in again} & taken(events, 3)
    assert {item for item, _ in model.recommend(3, n=30, filter=[first, "unknown"])} == {first}
    even = model.recommend(3, n=30, filter=lambda item: item % 2 == 0)
    assert even
    assert all(item % 2 == 0 for item, _ in even)


def test_categories_are_kept_and_capped(model, events) -> None:
    kind = {item: "ab"[item % 2] for item in events.items.tolist()}
    only = model.recommend(3, n=5, filter=Filter(categories=kind, only=["a"]))
    assert {kind[item] for item, _ in only} == {"a"}
    capped = model.recommend(3, n=4, filter=Filter(categories=kind, max_per_category=2))
    kinds = [kind[item] for item, _ in capped]
    assert sorted(kinds) == ["a", "a", "b", "b"]


def test_diversity_spreads_a_list(model) -> None:
    plain = [item for item, _ in model.recommend_new([0], n=5)]
    spread = [item for item, _ in model.recommend_new([0], n=5, filter=Filter(diversity=0.9))]
    same = [item for item, _ in model.recommend_new([0], n=5, filter=Filter(diversity=0.0))]
    assert same == plain
    assert spread[0] == plain[0]

    def closeness(items: list) -> float:
        return float(user_cosines(model.histories_, model._item_numbers(items)).mean())

    assert closeness(spread) <= closeness(plain)


def test_similar_items_are_taken_by_the_same_users(model) -> None:
    found = dict(model.similar_items(0, n=29))
    assert len(found) == 29
    assert 0 not in found
    scores = np.array([found[item] for item in range(1, 30)])
    assert scores[:14].mean() > scores[14:].mean()


def test_lists_stream_to_files(model, tmp_path) -> None:
    found, seen = model.recommend_all(n=3), []
    path = tmp_path / "lists.jsonl"
    n_users = model.recommend_all(n=3, output=path, progress=lambda *done: seen.append(done))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert n_users == len(rows) == len(found)
    assert seen[-1] == (60, 60)
    assert {row["user"]: row["items"] for row in rows} == {
        user: [item for item, _ in best] for user, best in found.items()
    }
    pandas = pytest.importorskip("pandas")
    assert model.recommend_all(n=3, output=tmp_path / "lists.parquet") == 60
    table = pandas.read_parquet(tmp_path / "lists.parquet")
    columns = model.to_columns(found)
    assert table["item"].tolist() == columns["item"]
    assert table["rank"].max() == 3


def test_a_file_has_one_type_of_ids_and_titles_even_where_a_block_is_empty(tmp_path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    users = [f"u{at}" for at in range(300)]  # more than a block of 256
    events = rw.Interactions([*users, "late"], [*["a"] * 300, "b"])
    films = rw.Attributes.from_frame({"item": ["a", "b"], "title": ["Alien", "Brazil"]})
    model = rw.Recommender(experts=[Popularity()]).fit(events, item_features=films)
    for name in ("lists.parquet", "lists.jsonl"):
        assert model.recommend_all(filter=["a"], output=tmp_path / name) == 301
    score = model.recommend("late")[0].score
    table = parquet.read_table(tmp_path / "lists.parquet").to_pylist()
    assert table == [{"user": "late", "rank": 1, "item": "a", "score": score, "title": "Alien"}]
    last = json.loads((tmp_path / "lists.jsonl").read_text().splitlines()[-1])
    assert last == {"user": "late", "items": ["a"], "scores": [score], "titles": ["Alien"]}
    mixed = rw.Recommender(experts=[Popularity()]).fit(rw.Interactions([1, "1"], ["a", "b"]))
    with pytest.raises(DataError, match=r"lists\.parquet.*numbers and texts"):
        mixed.recommend_all(output=tmp_path / "lists.parquet")
    assert mixed.recommend_all(output=tmp_path / "lists.jsonl") == 2


def test_reasons_add_up_and_name_only_what_raises_the_score(model) -> None:
    item = model.recommend(3, n=1)[0].item
    why = model.explain(3, item)
    assert sum(why.experts.values()) == pytest.approx(why.score, rel=1e-2)
    assert why.taken
    assert all(one.added > 0 for one in why.taken)
    assert "because you took" in str(why)


def test_a_loaded_recommender_gives_the_same_lists_and_goes_on_learning(model, tmp_path) -> None:
    rw.save(model, tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    assert loaded.recommend_all(n=5) == model.recommend_all(n=5)
    more = rw.Interactions([3], [14], time=[10_000])
    again = rw.load(tmp_path / "model.rw").partial_fit(more)
    assert 14 not in [item for item, _ in again.recommend(3, n=30)]


def test_a_mapped_recommender_shares_its_arrays_and_goes_on_learning(model, tmp_path) -> None:
    rw.save(model, tmp_path / "model.rw")
    content = (tmp_path / "model.rw").read_bytes()
    mapped = rw.load(tmp_path / "model.rw", mmap=True)
    assert isinstance(mapped.histories_.time.base.base, np.memmap | mmap.mmap)
    assert mapped.recommend_all(n=5) == model.recommend_all(n=5)
    mapped.partial_fit(rw.Interactions([3], [14], time=[10_000]))
    assert 14 not in [item for item, _ in mapped.recommend(3, n=30)]
    assert (tmp_path / "model.rw").read_bytes() == content


def test_a_file_is_not_larger_than_half_more_than_its_arrays(model, tmp_path) -> None:
    rw.save(model, tmp_path / "model.rw")
    arrays = [model.model_.tie_, model.histories_.ptr, model.histories_.item]
    arrays += [model.histories_.weight, model.histories_.time]
    for expert in model.model_.experts_:
        arrays += [value for value in vars(expert).values() if isinstance(value, np.ndarray)]
    header = 20_000  # names and hashes
    assert (tmp_path / "model.rw").stat().st_size <= 1.5 * sum(a.nbytes for a in arrays) + header


def test_events_count_at_once_for_new_users_and_items(events) -> None:
    model = rw.Recommender(random_state=0).fit(events)
    with pytest.warns(RankwrightWarning, match=r"ids of users .* such as 'new' now"):
        model.partial_fit(rw.Interactions(["new", "new"], [0, "fresh"], time=[2000, 2001]))
    assert model.model_.n_new_events_ == 2
    best = [item for item, _ in model.recommend("new", n=5)]
    assert 0 not in best
    assert "fresh" not in best
    assert best == [item for item, _ in model.recommend_new([0, "fresh"], n=5)]
    assert model.histories_.n_items == events.n_items + 1


def test_an_updated_model_agrees_with_a_new_one() -> None:
    events = make_events(n_users=300, n_items=200, n=9000, seed=1)
    model = rw.Recommender(random_state=0).fit(events.take(slice(0, 8000)))
    for at in range(8000, 9000):
        model.partial_fit(events.take([at]))
    assert model.model_.n_new_events_ == 1000
    updated = model.recommend_all(n=10)
    fresh = model.refit()
    assert fresh.model_.n_new_events_ == 0
    assert agreement(updated, fresh.recommend_all(n=10)) >= 0.95


def test_what_updates_leave_for_later_is_done_once_and_before_saving(tmp_path) -> None:
    events = make_events(n=900)
    model = rw.Recommender(experts=[ItemCosine(), NextItems(), EASE(), Popularity()])
    model.set_params(random_state=0).fit(events.take(slice(0, 800)))
    for at in range(800, 900):
        model.partial_fit(events.take([at]))
    rw.save(copy.deepcopy(model), tmp_path / "model.rw")
    lists: list = []
    threads = [
        threading.Thread(target=lambda: lists.append(model.recommend_all(n=5))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one == lists[0] for one in lists] == [True] * 4
    assert rw.load(tmp_path / "model.rw").recommend_all(n=5) == lists[0]


def agreement(left: dict, right: dict) -> float:
    """The share of the places of lists that hold the same items in both."""
    same = [len({i for i, _ in left[u]} & {i for i, _ in right[u]}) for u in right]
    return sum(same) / sum(len(best) for best in right.values())


@pytest.mark.usefixtures("two_blas_threads")
def test_threads_leave_blas_as_it_was(events) -> None:
    ratings = rw.Ratings.from_arrays(
        events.users[events.user[:200]], np.arange(200), np.arange(200.0)
    )
    rated = rw.Recommender(random_state=0).fit(ratings)
    model = rw.Recommender(random_state=0).fit(events)

    def limits() -> list:
        return sorted((info["filepath"], info["num_threads"]) for info in threadpool_info())

    before = limits()
    for _ in range(5):
        threads = [
            threading.Thread(target=one.recommend_all, kwargs={"n": 3})
            for one in (rated, model, rated, rated)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert limits() == before


def test_features_bring_new_items_into_lists() -> None:
    events = make_events(n_items=20)
    genre = ["low" if item < 10 else "high" for item in range(20)]
    titles = [f"title {item}" for item in [*range(20), 99]]
    features = rw.Attributes.from_frame(
        {"item": [*range(20), 99], "genre": [*genre, "low"], "title": titles}
    )
    experts = [Popularity(half_life=None), ItemContent()]
    model = rw.Recommender(experts=experts, holdout="next").fit(events, item_features=features)
    lists = {g: model.recommend_new(items, n=12) for g, items in (("low", [1, 2]), ("high", [11]))}
    place = {
        g: [item for item, _ in best].index(99) if 99 in dict(best) else 99
        for g, best in lists.items()
    }
    assert place["low"] < place["high"]
    assert "title 99" in str(model.explain([1, 2], 99))


def test_an_unfitted_recommender_says_so(events) -> None:
    calls = [lambda m: m.recommend(1), lambda m: m.recommend_new([1]), lambda m: m.refit()]
    for call in [*calls, lambda m: m.explain(1, 1), lambda m: m.similar_items(1)]:
        with pytest.raises(NotFittedError):
            call(rw.Recommender())


def test_reasons_beside_the_history_are_named() -> None:
    why = EventExplanation(7, 1.0, {"UserContent": 1.0, "EASE": 0.0}, ())
    assert "because users like you take it" in str(why)
    why = EventExplanation(7, 1.0, {"EASE": 0.2, "items like it": 0.8}, ())
    assert "because items like it have high scores" in str(why)
    assert "because many users take it" in str(EventExplanation(7, 1.0, {"Popularity": 1.0}, ()))


def test_users_without_events_get_what_users_like_them_take() -> None:
    events = make_events(n_items=20)
    features = rw.Attributes.from_frame(
        {"user": [*range(60), 98, 99], "group": [*"ab" * 30, "a", "b"]}
    )
    model = rw.Recommender(random_state=0).fit(events, user_features=features)
    for user, low in ((98, 0), (99, 10)):  # even users take the first half of the items
        best = [item for item, _ in model.recommend(user, n=5)]
        assert all(low <= item < low + 10 for item in best)
    why = model.explain(98, 0)
    assert set(why.experts) == {"UserContent"}
    assert why.experts["UserContent"] == pytest.approx(why.score, rel=1e-4)
    model.partial_fit(rw.Interactions([98, 100], [3, 3], time=[2000, 2000]))
    assert 3 not in [item for item, _ in model.recommend(98, n=20)]


def test_features_bring_items_that_nobody_rated_into_lists(tmp_path) -> None:
    ratings = make_ratings(40, 20, random_state=0).ratings
    titles = [f"title {item}" for item in [*ratings.items.tolist(), 99]]
    rows = np.eye(20)
    like = int(np.argmax(ratings.item_counts))
    features = rw.Attributes([*ratings.items.tolist(), 99], [*rows, rows[like]], titles=titles)
    model = rw.Recommender(random_state=0).fit(ratings, item_features=features)
    user = ratings.users[0]
    assert 99 in dict(model.recommend(user, n=50))
    scores = model.scores(user, [99, ratings.items[like]])
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    assert "title 99" in str(model.explain(user, 99))
    rw.save(model, tmp_path / "model.rw")
    assert rw.load(tmp_path / "model.rw").recommend(user, n=50) == model.recommend(user, n=50)


def test_users_without_ratings_get_what_users_like_them_rate_high(tmp_path) -> None:
    users, items = np.divmod(np.arange(60 * 20), 20)
    likes = (users % 2) == (items >= 10)  # even users like the first half of the items
    kept = (users * 7 + items) % 3 > 0
    rng = np.random.default_rng(0)
    value = np.where(likes, 4.0, 2.0) + rng.integers(0, 2, len(users))
    ratings = rw.Ratings.from_arrays(users[kept], items[kept], value[kept])
    people = {"user": [*range(60), 98, 99], "group": [*"ab" * 30, "a", "b"]}
    model = rw.Recommender(random_state=0).fit(ratings, user_features=people)
    plain = rw.Recommender(random_state=0).fit(ratings)
    for user, low in ((98, 0), (99, 10)):
        best = [item for item, _ in model.recommend(user, n=10)]
        assert sorted(best) == [*range(low, low + 10)]
        assert "users with features like yours rate it higher" in str(model.explain(user, best[0]))
    # The more ratings a user has, the less the features add; a new user has none.
    change = np.abs(model.scores(3) - plain.scores(3)).max()
    assert 0 < change < 0.6 * np.abs(model.scores(99) - plain.scores({})).max()
    assert model.scores({3: 5.0}) == pytest.approx(plain.scores({3: 5.0}), rel=1e-3)
    assert np.isfinite(model.predict_ratings(ratings)).all()
    rw.save(model, tmp_path / "model.rw")
    assert rw.load(tmp_path / "model.rw").recommend(98) == model.recommend(98)


def test_the_average_of_like_users_is_the_plain_sum() -> None:
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.flatnonzero(rng.random(12 * 9) < 0.5), 9)
    ratings = rw.Ratings.from_arrays(user, item, rng.integers(1, 6, len(user)).astype(float))
    features = rw.Attributes(ratings.users, rng.normal(size=(ratings.n_users, 3)))
    model = rw.Recommender(random_state=0).fit(ratings, user_features=features)
    content = model.user_content_
    table = content._table.toarray()
    mean, bias, item_bias = biases(ratings)
    for target in range(ratings.n_users):
        total, mass = np.zeros(ratings.n_items), np.full(ratings.n_items, 5.0)
        for u, i, r in zip(ratings.user, ratings.item, ratings.value, strict=True):
            total[i] += table[target] @ table[u] * (r - mean - bias[u] - item_bias[i])
            mass[i] += np.abs(table[target]) @ np.abs(table[u])
        share = 5.0 / (5.0 + ratings.user_counts[target])
        assert content.offsets(target) == pytest.approx(share * total / mass, rel=1e-5, abs=1e-7)


def test_one_event_repeats_and_mixed_ids_are_data_too() -> None:
    one = rw.Recommender().fit(rw.Interactions(["a"], ["x"]))
    assert one.recommend("a") == []
    assert [item for item, _ in one.recommend_new([])] == ["x"]
    mixed = rw.Interactions([7, "7", 7], ["x", "y", "x"], time=[3, 2, 1])
    assert mixed.n_users == 2
    model = rw.Recommender().fit(mixed)
    assert model.recommend(7)[0].item == "y"
    assert model.recommend("7")[0].item == "x"


def test_features_without_any_feature_change_nothing_but_the_catalog(events) -> None:
    empty = rw.Attributes.from_frame({"item": [0, 1, 777]})
    model = rw.Recommender(random_state=0).fit(events, item_features=empty)
    best = model.recommend(3, n=40)
    assert 777 not in [item for item, _ in best]
    assert best[0].score > 0  # an expert that knows nothing is not as good as popularity


def test_an_early_event_takes_its_place_in_time(events) -> None:
    model = rw.Recommender(random_state=0).fit(events)
    model.partial_fit(rw.Interactions([3], [14], time=[-5]))
    items, _ = model.histories_.rows.row(int(model.histories_.user_vocabulary.numbers([3])[0]))
    if 14 not in taken(events, 3):
        assert model.histories_.items[items[0]] == 14


def test_the_parts_of_an_explanation_add_up_to_the_score(events) -> None:
    table = {"item": [*range(30), 99], "kind": [f"k{item % 3}" for item in [*range(30), 99]]}
    features = rw.Attributes.from_frame(table)
    model = rw.Recommender(random_state=0).fit(events, item_features=features)
    user = events.users[0]
    for item in (*(found.item for found in model.recommend(user, n=3)), 99):
        found = model.explain(user, item)
        assert sum(found.experts.values()) == pytest.approx(found.score, rel=1e-4)
    assert "items like it" in found.experts


def test_the_largest_weights_leave_scores_finite() -> None:
    users, items = np.divmod(np.arange(60), 6)
    weight = np.where(np.arange(60) % 7 == 0, 1e9, 1e-9)
    model = rw.Recommender(random_state=0).fit(
        rw.Interactions(users, items + users % 3, weight=weight)
    )
    assert np.isfinite(model.scores(0)).all()
