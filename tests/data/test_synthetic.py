"""Synthetic data keep their promise: the order they call right is right, the limit is the limit."""

from __future__ import annotations

import numpy as np
import pytest

from rankwright.data.datasets.synthetic import (
    make_engines,
    make_ordinal,
    make_queries,
    make_ratings,
)
from rankwright.data.runs import Run, align

MAKERS = [make_ordinal, make_queries, make_ratings, make_engines]


def arrays_of(sample) -> list[np.ndarray]:
    parts = [*vars(sample).values()]
    for part in parts[:]:
        parts += list(part) if isinstance(part, tuple) else []
        parts += list(vars(part).values()) if hasattr(part, "__dict__") else []
    return [part for part in parts if isinstance(part, np.ndarray)]


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_gives_the_same_data_and_another_seed_others(make):
    one, two, other = (arrays_of(make(random_state=seed)) for seed in (3, 3, 4))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(a.shape != b.shape or (a != b).any() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("make", MAKERS)
def test_the_arrays_of_a_sample_cannot_be_written(make):
    assert not any(array.flags.writeable for array in arrays_of(make(random_state=0)))


# --- ordinal ----------------------------------------------------------------------------------


def test_the_ordinal_data_follow_the_formula_of_the_papers():
    sample = make_ordinal(2000, noise=0.0, random_state=0)
    latent = 10 * (sample.X[:, 0] - 0.5) * (sample.X[:, 1] - 0.5)
    below = np.array([-np.inf, -1, -0.1, 0.25, 1])
    assert (sample.y == (below < latent[:, None]).sum(axis=1)).all()
    assert sample.X.min() >= 0
    assert sample.X.max() <= 1


def test_the_bayes_limit_of_the_papers_data_is_0_1526():
    assert make_ordinal(1, random_state=0).bayes_rank_loss == pytest.approx(0.1526, abs=5e-5)


def test_the_bayes_limit_equals_the_loss_of_the_bayes_rule_on_many_items():
    sample = make_ordinal(400_000, random_state=1)
    loss = np.abs(sample.y - sample.bayes_prediction)
    error = loss.std() / np.sqrt(len(loss))
    assert abs(loss.mean() - sample.bayes_rank_loss) < 4 * error


@pytest.mark.parametrize("noise", [0.05, 0.125, 1.0])
def test_no_rank_has_less_expected_loss_than_the_bayes_rank(noise):
    sample = make_ordinal(50, noise=noise, random_state=2)
    drawn = sample.latent[:, None] + noise * np.random.default_rng(0).standard_normal((50, 20_000))
    ranks = 1 + np.searchsorted([-1.0, -0.1, 0.25, 1.0], drawn)
    losses = np.stack([np.abs(ranks - r).mean(axis=1) for r in range(1, 6)])
    best = losses[sample.bayes_prediction - 1, np.arange(50)]
    assert (best <= losses.min(axis=0) + 0.02).all()
    np.testing.assert_allclose(best, sample.expected_loss, atol=0.04)


def test_without_noise_there_is_no_loss():
    sample = make_ordinal(100, noise=0.0, random_state=0)
    assert sample.bayes_rank_loss == 0
    assert (sample.bayes_prediction == sample.y).all()
    assert (sample.expected_loss == 0).all()


# --- queries ----------------------------------------------------------------------------------


def test_without_noise_grades_ascend_with_utility_inside_each_query():
    sample = make_queries(30, noise=0.0, random_state=0)
    for query in range(30):
        mine = sample.qid == query
        in_order = sample.y[mine][np.argsort(sample.utility[mine])]
        assert (np.diff(in_order) >= 0).all()


def test_utility_is_made_of_the_informative_features():
    sample = make_queries(10, n_features=6, n_informative=2, random_state=0)
    np.testing.assert_allclose(sample.utility, sample.X @ sample.weights)
    assert (sample.weights != 0).tolist() == [True, True, False, False, False, False]
    assert np.linalg.norm(sample.weights) == pytest.approx(1)


def test_each_grade_is_half_as_frequent_as_the_one_below():
    counts = np.bincount(make_queries(400, n_grades=4, random_state=0).y)
    np.testing.assert_allclose(counts[1:] / counts[:-1], 0.5, rtol=0.02)


def test_missing_cells_are_nan_and_the_bayes_score_uses_the_others_only():
    sample = make_queries(100, missing=0.3, random_state=0)
    assert np.isnan(sample.X).mean() == pytest.approx(0.3, abs=0.02)
    np.testing.assert_allclose(
        sample.bayes_score, np.where(np.isnan(sample.X), 0, sample.X) @ sample.weights
    )


def test_sizes_of_queries_are_as_asked():
    assert set(make_queries(20, docs_per_query=7, random_state=0).items.queries.sizes) == {7}
    sizes = make_queries(300, docs_per_query=(2, 5), random_state=0).items.queries.sizes
    assert set(sizes) == {2, 3, 4, 5}


# --- ratings ----------------------------------------------------------------------------------


def test_without_noise_points_ascend_with_affinity():
    sample = make_ratings(60, 50, noise=0.0, random_state=0)
    ratings = sample.ratings
    order = np.argsort(sample.affinity[ratings.user, ratings.item])
    assert (np.diff(ratings.value[order]) >= 0).all()


def test_ratings_have_the_density_and_the_shares_asked_for():
    ratings = make_ratings(400, 100, density=0.25, random_state=0).ratings
    assert len(ratings) / (400 * 100) == pytest.approx(0.25, abs=0.01)
    assert np.unique(ratings.value).tolist() == [1, 2, 3, 4, 5]
    assert ratings.user_counts.min() >= 2
    assert ratings.item_counts.max() > 2 * ratings.item_counts.min()  # some are popular


def test_likes_and_dislikes_can_be_drawn():
    ratings = make_ratings(40, 30, shares=(0.3, 0.7), random_state=0).ratings
    assert np.unique(ratings.value).tolist() == [1, 2]


# --- engines ----------------------------------------------------------------------------------


def precision_at_5(run: Run, sample) -> float:
    aligned = align(run.top(5), sample.qrels)
    found = np.isfinite(aligned.scores)
    return float((aligned.y[found] > 0).mean())


def test_the_posterior_beats_every_engine_and_the_ideal_beats_all():
    sample = make_engines(200, random_state=0)
    engines = [precision_at_5(run, sample) for run in sample.runs]
    assert max(engines) < precision_at_5(sample.bayes, sample) < 1
    assert precision_at_5(sample.ideal, sample) == 1


def test_engines_with_less_noise_find_more():
    sample = make_engines(200, random_state=0)
    found = [precision_at_5(run, sample) for run in sample.runs]
    assert found == sorted(found, reverse=True)


def test_lists_and_grades_have_the_sizes_asked_for():
    sample = make_engines(20, 60, 4, list_length=12, n_relevant=4, n_grades=3, random_state=0)
    assert all((run.by_query.sizes == 12).all() for run in sample.runs)
    assert np.bincount(sample.qrels.grade).tolist() == [20 * 56, 20 * 2, 20 * 2]
    assert len(sample.noise) == len(sample.runs) == 4


def test_one_right_page_per_query_is_graded_one():
    sample = make_engines(10, 20, 2, list_length=5, n_relevant=1, n_grades=2, random_state=0)
    assert sample.qrels.grade.sum() == 10
