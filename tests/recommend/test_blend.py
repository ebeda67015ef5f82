"""The default recommender where there is little to learn from."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.datasets.synthetic import make_ratings
from rankwright.data.queries import split_within_users
from rankwright.exceptions import DegenerateDataWarning


@pytest.mark.parametrize("n_users, n_items, seed", [(60, 40, 0), (150, 60, 1)])
def test_few_ratings_do_not_lead_it_below_what_everybody_likes(n_users, n_items, seed):
    # With a tenth of 1,400 ratings alone, the weights of the experts were mostly noise.
    ratings = make_ratings(n_users, n_items, random_state=seed).ratings
    split = split_within_users(ratings.user, random_state=0)
    train, test = ratings.take(split.train), ratings.take(split.test)
    total = np.bincount(train.item, train.value, train.n_items)
    mean = total / np.maximum(np.bincount(train.item, minlength=train.n_items), 1)

    def disagreement(scores):
        return rw.evaluate(scores, test.value, test.user, "Disagreement")["Disagreement"]

    model = rw.Recommender(random_state=0).fit(train)
    assert disagreement(model.predict_ratings(test)) < disagreement(mean[test.item])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_next_to_no_ratings_are_enough_for_an_answer(n):
    ratings = rw.Ratings.from_arrays(["a", "b", "a"][:n], ["x", "y", "y"][:n], [1.0, 5.0, 3.0][:n])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        model = rw.Recommender(random_state=0).fit(ratings)
    assert np.isfinite(model.scores("a")).all()
