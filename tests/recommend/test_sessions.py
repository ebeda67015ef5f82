"""Sessions of new users: repeats, unknown items, several at once, and users like them."""

from __future__ import annotations

import inspect
import uuid

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import DataError, RankwrightWarning, UnknownParameterError
from rankwright.recommend import Filter
from rankwright.recommend.events import (
    EASE,
    SLIT,
    ImplicitALS,
    ItemContent,
    ItemCosine,
    NextItems,
    Popularity,
)
from recommend.test_experts import make_events


@pytest.fixture(scope="module")
def model():
    experts = [NextItems(), ImplicitALS(n_factors=8), Popularity(half_life=None)]
    return rw.Recommender(experts=experts, random_state=0).fit(make_events())


def test_a_session_with_repeats_is_that_of_a_known_user_with_the_same_events() -> None:
    taken = [3, 7, 3, 9, 7, 3]
    events = make_events()
    own = rw.Interactions(["me"] * 6, taken, time=5000 + np.arange(6))
    experts = [NextItems(), ImplicitALS(n_factors=8)]
    model = rw.Recommender(experts=experts, random_state=0).fit(
        rw.Interactions.concat([events, own])
    )
    assert model.recommend_new(taken) == model.recommend("me")
    np.testing.assert_array_equal(model.scores(taken), model.scores("me"))
    np.testing.assert_array_equal(model.scores({9: 1, 7: 2, 3: 3}), model.scores("me"))


def test_unknown_items_are_left_out_of_a_session_with_a_warning(model) -> None:
    with pytest.warns(RankwrightWarning, match=r"1 of 2 items .* left out, such as 'gone'") as seen:
        found = model.recommend_new([3, "gone"])
    assert found == model.recommend_new([3])
    assert seen[0].filename == __file__
    with pytest.warns(RankwrightWarning, match="1 of 1 items"):
        assert model.recommend_new(["gone"]) == model.recommend_new([])


def test_several_new_users_get_what_each_gets_alone(model) -> None:
    sessions = [[3, 7], [], {9: 2.0}, [5]]
    alone = [model.recommend_new(session, n=4) for session in sessions]
    together = model.recommend_new(sessions, n=4)
    named = model.recommend_new(dict(zip("abcd", sessions, strict=True)), n=4)
    for one, best, name in zip(alone, together, "abcd", strict=True):
        assert [item for item, _ in best] == [item for item, _ in one]
        assert [score for _, score in best] == pytest.approx([score for _, score in one])
        assert named[name] == best


def test_several_new_users_with_ratings_get_what_each_gets_alone(sample) -> None:
    rated = rw.Recommender(random_state=0).fit(sample.ratings)
    users = [{3: 5.0, 4: 1.0}, {7: 2.0, 8: 4.0}]
    assert rated.recommend_new(users, n=3) == [rated.recommend_new(user, n=3) for user in users]


def test_similar_users_are_those_with_the_largest_cosines() -> None:
    events = rw.Interactions([0, 0, 1, 1, 2, 2, 3], ["a", "b", "a", "b", "a", "c", "d"])
    model = rw.Recommender(experts=[Popularity(half_life=None)]).fit(events)
    found = model.similar_users(0)
    assert [user for user, _ in found] == [1, 2]
    assert found[0].score == pytest.approx(1.0)
    a, b, c = np.log1p(4 / np.array([3, 2, 1]))
    assert found[1].score == pytest.approx(a * a / np.hypot(a, b) / np.hypot(a, c))
    assert model.similar_users(["a", "b"])[0].score == pytest.approx(1.0)
    assert model.similar_users(3) == []


def test_similar_users_by_ratings_rate_alike(sample) -> None:
    model = rw.Recommender(random_state=0).fit(sample.ratings)
    table = np.zeros((150, 80))
    ratings = sample.ratings
    table[ratings.user, ratings.item] = ratings.value
    given = table != 0
    rest = np.where(given, table - (table.sum(axis=1) / given.sum(axis=1))[:, None], 0.0)
    cosine = rest @ rest[5] / np.linalg.norm(rest, axis=1) / np.linalg.norm(rest[5])
    cosine[5] = 0.0
    best = model.similar_users(ratings.users[5], n=3)
    assert [score for _, score in best] == pytest.approx(np.sort(cosine)[::-1][:3])


def test_uuids_are_ids_by_their_text(tmp_path) -> None:
    ids = [uuid.UUID(int=number) for number in range(6)]
    events = rw.Interactions(ids[:3] * 2, [*ids[3:], ids[4], ids[5], ids[3]])
    model = rw.Recommender(experts=[Popularity(half_life=None)]).fit(events)
    best = model.recommend(ids[0])
    assert best == model.recommend(str(ids[0]))
    rw.save(model, tmp_path / "model.rw")
    assert rw.load(tmp_path / "model.rw").recommend(ids[0]) == best


@pytest.mark.parametrize("factor", [1e3, 1e6, 1e9])
def test_seconds_beside_milliseconds_are_refused(factor) -> None:
    times = np.array([1.7e9, 1.8e9, 1.75e9 * factor])
    for make in (
        lambda: rw.Interactions([1, 2, 3], [1, 2, 3], time=times),
        lambda: rw.Ratings.from_arrays([1, 2, 3], [1, 2, 3], [1, 2, 3], times),
        lambda: (
            rw.Recommender()
            .fit(rw.Interactions([1], [1], time=[1.7e9]))
            .partial_fit(rw.Interactions([1], [2], time=times[2:]))
        ),
    ):
        with pytest.raises(DataError, match=r"look like seconds\. Convert one"):
            make()
    assert rw.Interactions([1], [1], time=[1.7e12]).time[0] == 1.7e12


def test_times_of_ratings_are_found_by_their_usual_names() -> None:
    frame = {"user": [1], "item": [2], "rating": [3], "timestamp": [100]}
    assert rw.Ratings.from_frame(frame).time.tolist() == [100.0]
    del frame["timestamp"]
    assert rw.Ratings.from_frame(frame).time is None


def test_the_most_diverse_list_is_the_one_of_each_user_alone(model) -> None:
    chosen = Filter(diversity=0.5)
    lists = model.recommend_all(n=5, filter=chosen)
    for user in list(lists)[:5]:
        alone = model.recommend(user, n=5, filter=chosen)
        assert [item for item, _ in lists[user]] == [item for item, _ in alone]


@pytest.mark.parametrize(
    ("make", "ours"),
    [
        (lambda model: ImplicitALS(factors=64), "n_factors"),
        (lambda model: ImplicitALS(iterations=15), "max_iter"),
        (lambda model: ImplicitALS(regularization=0.1), "l2_regularization"),
        (lambda model: ItemCosine(K=20), "n_neighbors"),
        (lambda model: EASE(lambd=300.0), "l2_regularization"),
        (lambda model: model.recommend(3, N=5), "called n here"),
        (lambda model: model.recommend_all(k=5), "called n here"),
        (lambda model: model.recommend_new([3], filter_items=[7]), "exclude"),
        (lambda model: rw.Recommender(models=[]), "experts"),
        (lambda model: rw.TwoStageRecommender(factors=3), "Its parameters are candidates, "),
    ],
)
def test_names_of_other_libraries_are_explained(model, make, ours) -> None:
    with pytest.raises(UnknownParameterError, match=ours):
        make(model)


KINDS = [rw.LambdaMART, rw.Recommender, rw.TwoStageRecommender, SLIT, ItemContent]


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_shows_the_parameters_of_its_constructor(kind) -> None:
    _, *own = inspect.signature(kind.__init__).parameters
    assert list(inspect.signature(kind).parameters) == own
    with pytest.raises(UnknownParameterError):
        kind(foo=3)


def test_a_tuple_may_be_an_id() -> None:
    pairs = [("a", 1), ("a", 2)]
    users = np.empty(4, object)
    users[:] = pairs * 2
    model = rw.Recommender(random_state=0).fit(rw.Interactions(users, [1, 2, 3, 3]))
    assert model.recommend(pairs[0])
    with pytest.raises(DataError, match="recommend_all"):
        model.recommend(("a", 3))


def test_several_users_and_sparse_matrices_name_the_function_to_call(model) -> None:
    for several in ([3, 7], (3, 7), np.array([3, 7])):
        with pytest.raises(DataError, match="recommend_all"):
            model.recommend(several)
    with pytest.raises(DataError, match="from_csr"):
        rw.Recommender().fit(make_events().to_csr())
