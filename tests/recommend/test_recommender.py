"""What the recommender promises: for users, for new users, and with odd data."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline

import rankwright as rw
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError
from rankwright.recommend.evaluation import evaluate_ratings
from rankwright.recommend.explanations import Liked, RatingExplanation

RANKERS = [
    rw.RankBoost(n_estimators=20, cumulative=True),
    rw.VSIM(),
    rw.NearestNeighbor(),
    rw.KNN(n_neighbors=5),
    rw.RidgeRanker(alpha=1.0),
    rw.MPRank(),
    make_pipeline(rw.rankers.VSIMFeature(), rw.RankBoost(n_estimators=20, cumulative=True)),
]


def test_the_default_beats_item_means_on_held_out_ratings(sample, split) -> None:
    found = evaluate_ratings(rw.Recommender(random_state=0), sample.ratings, split)["Disagreement"]
    test, train = sample.ratings.take(split.test), sample.ratings.take(split.train)
    means = np.bincount(train.item, train.value, train.n_items) / np.maximum(train.item_counts, 1)
    popular = rw.evaluate(means[test.item], test.value, test.user, ["Disagreement"])
    assert found < popular["Disagreement"] - 0.03


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: repr(ranker)[:30])
def test_every_kind_of_ranker_recommends_better_than_chance(sample, split, ranker) -> None:
    model = rw.Recommender(ranker=ranker, n_reference=60, random_state=0)
    assert evaluate_ratings(model, sample.ratings, split)["Disagreement"] < 0.47


@pytest.mark.parametrize("reference", ["random", "dense", "similar"])
def test_reference_users_may_be_chosen_in_three_ways(sample, reference) -> None:
    model = rw.Recommender(ranker=rw.VSIM(), n_reference=20, reference=reference, random_state=0)
    assert len(model.fit(sample.ratings).recommend(3)) == 10


def test_recommendations_are_unrated_items_by_descending_score(model, sample) -> None:
    best = model.recommend(5, n=20)
    rated = sample.ratings.items[sample.ratings.item[sample.ratings.rows_of(5)]]
    scores = [each.score for each in best]
    assert scores == sorted(scores, reverse=True)
    assert not {each.item for each in best} & set(rated.tolist())


def test_a_new_user_with_the_ratings_of_a_user_gets_the_same_list(model, sample) -> None:
    rows = sample.ratings.rows_of(7)
    mine = dict(
        zip(
            sample.ratings.items[sample.ratings.item[rows]].tolist(),
            sample.ratings.value[rows].tolist(),
            strict=True,
        )
    )
    assert model.recommend_new(mine) == model.recommend(7)
    np.testing.assert_array_equal(model.scores(mine, [3, 4]), model.scores(7, [3, 4]))


def test_all_users_at_once_get_what_each_gets_alone(model, sample) -> None:
    found = model.recommend_all(n=3)
    assert list(found) == sample.ratings.users.tolist()
    assert found[11] == model.recommend(11, n=3)


def test_threads_do_not_change_anything(model, monkeypatch) -> None:
    many = model.recommend_all(n=3, users=[1, 2, 3])
    monkeypatch.setenv("RANKWRIGHT_THREADS", "1")
    assert model.recommend_all(n=3, users=[1, 2, 3]) == many


def test_the_same_seed_gives_the_same_scores(sample, model) -> None:
    again = rw.Recommender(random_state=0).fit(sample.ratings)
    np.testing.assert_array_equal(again.scores(3), model.scores(3))


def test_a_target_who_is_a_reference_user_does_not_see_itself(sample) -> None:
    model = rw.Recommender(ranker=rw.NearestNeighbor(), n_reference=150).fit(sample.ratings)
    alone = sample.ratings.take(sample.ratings.user != 4)
    other = rw.Recommender(ranker=rw.NearestNeighbor(), n_reference=150).fit(alone)
    mine = sample.ratings.take(sample.ratings.user == 4)
    given = dict(zip(mine.items[mine.item].tolist(), mine.value.tolist(), strict=True))
    unrated = [each.item for each in other.recommend_new(given, n=10)]
    assert [each.item for each in model.recommend(4, n=10)] == unrated


def test_reasons_name_viewers_who_rated_the_item_and_own_ratings(model, sample) -> None:
    item = model.recommend(5)[0].item
    reasons = model.explain(5, item)
    assert reasons.score == pytest.approx(model.recommend(5)[0].score)
    for viewer in reasons.viewers:
        rows = sample.ratings.rows_of(viewer.user)
        given = dict(zip(sample.ratings.item[rows], sample.ratings.value[rows], strict=True))
        assert given[item] == viewer.rating
    assert reasons.ratings
    assert "because these viewers, who agree with you" in str(reasons)


def test_no_low_rating_is_a_because() -> None:
    own = (Liked(1, 5.0, 0.3), Liked(2, 1.0, 0.4), Liked(3, 4.0, -0.1))
    because, unlike, although = str(RatingExplanation(9, 4.0, (), own, middle=3.0)).split("\nand ")
    assert "because of what you rated:\n  you gave 1 5 (adds +0.3)" in because
    assert unlike == "unlike what you rated low:\n  you gave 2 1 (adds +0.4)"
    assert although == "although you rated:\n  you gave 3 4 (adds -0.1)"


@pytest.mark.parametrize("ranker", [rw.VSIM(), rw.RidgeRanker()], ids=["VSIM", "RidgeRanker"])
def test_no_low_rating_of_a_viewer_is_a_because(ranker, sample) -> None:
    model = rw.Recommender(ranker=ranker, n_reference=80, random_state=0).fit(sample.ratings)
    sections = set()
    for item in [each.item for each in model.recommend(5)]:
        reasons = model.explain(5, item, n=40)
        high = sample.ratings.value.mean()
        expected = [v.user for v in reasons.viewers if v.weight > 0 and v.rating >= high]
        parts = str(reasons).split("\n", 1)[1].split("\nand ")
        because = [part.split("\n  ")[1:] for part in parts if part.startswith("because of what")]
        assert [line.split(" ", 1)[0] for lines in because for line in lines] == [
            str(user) for user in expected
        ]
        sections |= {part.split("\n")[0] for part in parts}
    assert sections == {
        "because of what these viewers gave it:",
        "unlike these viewers, who rated it low:",
        "although these viewers rated it:",
    }


def test_what_a_rating_adds_is_how_far_the_score_falls_without_it(model, sample) -> None:
    rows = sample.ratings.rows_of(5)
    mine = dict(zip(sample.ratings.item[rows], sample.ratings.value[rows], strict=True))
    item = model.recommend(5)[0].item
    for reason in model.explain(5, item).ratings:
        rest = {film: value for film, value in mine.items() if film != reason.item}
        fallen = model.explain(5, item).score - model.explain(rest, item).score
        assert reason.added == pytest.approx(fallen)


def test_reasons_of_a_ranker_say_by_how_much_each_viewer_moves_the_score(sample) -> None:
    model = rw.Recommender(ranker=rw.VSIM(), n_reference=150, random_state=0).fit(sample.ratings)
    reasons = model.explain(5, model.recommend(5)[0].item, n=1000)
    moved = sum(viewer.weight for viewer in reasons.viewers)
    mean = sample.ratings.value[sample.ratings.rows_of(5)].mean()
    assert moved == pytest.approx(reasons.score - mean)


def test_viewers_of_a_ranker_are_not_said_to_agree_and_all_of_them_count(sample) -> None:
    ranker = rw.RankBoost(n_estimators=5)
    model = rw.Recommender(ranker=ranker, n_reference=150, random_state=0).fit(sample.ratings)
    reasons = model.explain(5, model.recommend(5)[0].item, n=1000)
    assert reasons.viewers
    assert all(viewer.weight != 0 for viewer in reasons.viewers)
    assert "agree" not in str(reasons)


def test_of_equal_scores_comes_first_the_better_average() -> None:
    users, items, values = zip(
        *[("ann", "A", 5), ("ann", "B", 1), ("bob", "A", 5), ("bob", "B", 1)],
        *[("cat", "dull", 1), ("cat", "fine", 5), ("dan", "dull", 1), ("dan", "fine", 5)],
        strict=True,
    )
    ratings = rw.Ratings.from_arrays(users, items, values)
    model = rw.Recommender(ranker=rw.RankBoost(n_estimators=3), random_state=0).fit(ratings)
    best = model.recommend_new({"A": 5, "B": 1})
    assert best[0].score == best[1].score
    assert [each.item for each in best] == ["fine", "dull"]


def test_where_nobody_prefers_anything_the_most_rated_items_come_first() -> None:
    ratings = rw.Ratings.from_arrays([1, 1, 2, 2, 3, 4], list("ABACCA"), [1.0] * 6)
    with pytest.warns(DegenerateDataWarning, match="items with most ratings come first"):
        model = rw.Recommender(ranker=rw.VSIM(), random_state=0).fit(ratings)
    with pytest.warns(DegenerateDataWarning):
        assert [each.item for each in model.recommend_new({})] == ["A", "C", "B"]


def test_the_seed_of_the_recommender_seeds_a_ranker_that_draws_at_random(sample) -> None:
    ranker = rw.OAPBPM()
    model = rw.Recommender(ranker=ranker, n_reference=20, random_state=0).fit(sample.ratings)
    again = rw.Recommender(ranker=ranker, n_reference=20, random_state=0).fit(sample.ratings)
    assert model.recommend(5) == model.recommend(5) == again.recommend(5)


def test_a_seed_of_the_rankers_own_stays(sample) -> None:
    one, two = (
        rw.Recommender(ranker=rw.OAPBPM(random_state=7), n_reference=150, random_state=seed)
        for seed in (0, 1)
    )
    assert one.fit(sample.ratings).recommend(5) == two.fit(sample.ratings).recommend(5)


@pytest.mark.parametrize("users", [["zoe"], [3.5], [10**9], 3])
def test_all_users_at_once_are_those_of_the_data(model, users) -> None:
    with pytest.raises(DataError, match=r"is not one of the 150 users|give one id per row"):
        model.recommend_all(n=1, users=users)


def test_a_longer_name_is_another_user() -> None:
    ratings = rw.Ratings.from_arrays(["u1", "u2", "u2"], list("AAB"), [5, 4, 3])
    model = rw.Recommender(random_state=0).fit(ratings)
    with pytest.raises(DataError, match="user 'u1x' is not one of"):
        model.recommend_all(users=["u1x"])


def test_users_may_come_from_a_generator(model) -> None:
    assert list(model.recommend_all(n=1, users=(user for user in [3, 4]))) == [3, 4]


def test_a_rating_far_from_the_scale_of_the_data_is_taken_with_a_warning(model) -> None:
    with pytest.warns(rw.exceptions.RankwrightWarning, match=r"rated 90, .* lie in 1 \.\. 5"):
        assert len(model.recommend_new({3: 90, 4: 2}, n=2)) == 2


def test_a_rating_a_little_beyond_those_of_the_data_is_taken_as_it_is(model) -> None:
    assert len(model.recommend_new({3: 5.5, 4: 0}, n=2)) == 2  # a warning would be an error


def test_a_classifier_with_a_score_for_each_class_is_refused(sample) -> None:
    model = rw.Recommender(ranker=LinearDiscriminantAnalysis(), n_reference=5, random_state=0)
    with pytest.raises(ParameterError, match="gives one score each"):
        model.fit(sample.ratings).recommend(3)


def test_warnings_point_at_the_line_that_asked(sample) -> None:
    model = rw.Recommender(ranker=rw.VSIM(), n_reference=20, random_state=0).fit(sample.ratings)
    for ask in (model.recommend_new, model.scores, lambda mine: model.explain(mine, 3)):
        with pytest.warns(rw.exceptions.RankwrightWarning) as caught:
            ask({3: 100})  # which is beyond the scale, and no preference
        assert [each.filename for each in caught] == [__file__] * 2


@pytest.mark.parametrize("mine", [{}, {3: 5}, {3: 4, 5: 4}])
def test_a_user_without_a_preference_gets_what_is_known(model, sample, mine) -> None:
    assert len(model.recommend_new(mine, n=5)) == 5
    other = rw.Recommender(ranker=rw.VSIM(), n_reference=50, random_state=0).fit(sample.ratings)
    with pytest.warns(DegenerateDataWarning, match="best average ratings"):
        found = other.recommend_new(mine, n=5)
    assert all(np.isfinite(each.score) for each in found)


def test_equal_ratings_everywhere_give_equal_scores_and_a_warning() -> None:
    ratings = rw.Ratings.from_arrays([1, 1, 2, 2, 3], list("ABACB"), [3.0] * 5)
    with pytest.warns(DegenerateDataWarning, match="all ratings are equal"):
        model = rw.Recommender(random_state=0).fit(ratings)
    np.testing.assert_allclose(model.scores(1), 3.0, atol=1e-3)


def test_an_item_that_nobody_rated_is_never_recommended(sample) -> None:
    rows = sample.ratings.item != 9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = rw.Recommender(random_state=0).fit(sample.ratings.take(rows))
    assert np.isfinite(model.scores(2)).all()
    assert 9 not in {each.item for each in model.recommend(2, n=80)}
    with pytest.raises(DataError, match="nobody rated item 9"):
        model.explain(2, 9)


def test_a_few_ratings_are_enough() -> None:
    ratings = rw.Ratings.from_arrays(["a", "b", "b"], ["X", "X", "Y"], [5, 5, 3])
    model = rw.Recommender(random_state=0).fit(ratings)
    assert [each.item for each in model.recommend("a")] == ["Y"]
    assert model.recommend("b") == []


def test_other_users_are_refused_where_the_same_are_needed(model, sample) -> None:
    with pytest.raises(DataError, match="without compact"):
        model.predict_ratings(sample.ratings.only(users=[1, 2]))


def test_a_fitted_recommender_can_be_pickled(model) -> None:
    again = pickle.loads(pickle.dumps(model))
    assert again.recommend(3) == model.recommend(3)


@pytest.mark.parametrize("scale", [1e200, -1e200, 1e-200, 1e20])
@pytest.mark.parametrize("ranker", [None, rw.VSIM()])
def test_ratings_whose_squares_overflow_or_vanish_are_refused(scale: float, ranker) -> None:
    ratings = rw.Ratings.from_arrays(
        [1, 1, 2, 2, 3, 3], [1, 2, 1, 3, 2, 3], scale * np.arange(1, 7)
    )
    with pytest.raises(DataError, match="Scale them"):
        rw.Recommender(ranker=ranker).fit(ratings)


@pytest.mark.parametrize("scale", [1e14, 1e-5])
def test_large_and_small_ratings_give_the_same_lists(scale: float) -> None:
    rng = np.random.default_rng(0)
    user, item = np.divmod(rng.choice(20 * 15, 150, replace=False), 15)
    value = rng.integers(1, 6, 150).astype(float)
    plain, scaled = (
        rw.Recommender(random_state=0).fit(rw.Ratings.from_arrays(user, item, value * factor))
        for factor in (1.0, scale)
    )
    lists = [[r.item for r in model.recommend(0, n=3)] for model in (plain, scaled)]
    assert np.isfinite(scaled.scores(0)).all()
    assert lists[0] == lists[1]
