"""Small ratings with known tastes."""

from __future__ import annotations

import pytest

import rankwright as rw
from rankwright.data.datasets.synthetic import make_ratings
from rankwright.recommend.evaluation import split_ratings


@pytest.fixture(scope="session")
def sample():
    return make_ratings(150, 80, density=0.4, random_state=0)


@pytest.fixture(scope="session")
def split(sample):
    return split_ratings(sample.ratings, test_size=0.2, random_state=0)


@pytest.fixture(scope="session")
def model(sample):
    return rw.Recommender(random_state=0).fit(sample.ratings)
