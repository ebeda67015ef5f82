"""The made EachMovie has the figures that the papers print of the real one."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.prank.eachmovie import FILMS, VIEWERS, film_counts, made_ratings


def test_numbers_of_films_are_those_of_eachmovie() -> None:
    counts = film_counts(VIEWERS, np.random.default_rng(0))
    assert counts.sum() == pytest.approx(2_811_983, rel=0.02)
    assert (counts > 300).sum() == pytest.approx(547, rel=0.1)
    assert counts.max() <= 1455


def test_shares_of_top_rated_films_fall_with_their_number_as_in_eachmovie() -> None:
    rng = np.random.default_rng(0)
    counts = film_counts(2500, rng)
    ratings = made_ratings(counts, rng)
    assert ratings.shape == (2500, FILMS)
    assert set(np.unique(ratings.data)) == {1, 2, 3, 4, 5, 6}
    np.testing.assert_array_equal(np.diff(ratings.indptr), counts)
    own = [ratings.data[a:b] for a, b in zip(ratings.indptr, ratings.indptr[1:], strict=False)]
    share = np.array([(values == values.max()).mean() for values in own])
    bins = [(10, 20), (21, 40), (41, 60), (61, 100), (101, 1455)]
    found = [share[(counts >= low) & (counts <= high)].mean() for low, high in bins]
    np.testing.assert_allclose(found, [0.33, 0.26, 0.22, 0.20, 0.18], atol=0.04)
