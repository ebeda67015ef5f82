"""Collaborative filtering as both papers set it up, on MovieLens 1M instead of EachMovie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from experiments.prank.trials import load_or_leave

import rankwright as rw


@dataclass(frozen=True)
class Viewers:
    """The ratings of viewers who rated more than so many films.

    EachMovie had the six ratings 0, 0.2, .. 1 and the papers subtracted 0.5, so that 0 could stand
    for "not seen" and for no rating. MovieLens has 1 .. 5 stars: stars / 5 - 0.5 gives five of
    those six values.
    """

    stars: Any  # (n_viewers, n_films) CSR, by viewer
    films: Any  # the same as (n_films, n_viewers) CSR of features

    @classmethod
    def who_rated_more_than(cls, least: int) -> Viewers:
        ratings = load_or_leave(lambda: rw.load_dataset("movielens-1m"))
        chosen = ratings.users[ratings.user_counts > least]
        stars = ratings.only(users=chosen).to_csr()
        films = stars.T.tocsr()
        films.data = films.data / 5.0 - 0.5
        return cls(stars, films)

    def target(self, viewer: int, n_films: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Features (all others' ratings) and stars of some films that the viewer rated.

        The papers take the first films of each viewer, in an order that EachMovie alone defines;
        here they are drawn at random.
        """
        start, stop = self.stars.indptr[viewer : viewer + 2]
        chosen = rng.permutation(np.arange(start, stop))[:n_films]
        X = self.films[self.stars.indices[chosen]].tocsc()
        low, high = X.indptr[viewer : viewer + 2]
        X.data[low:high] = 0.0  # the target's own column
        X = X.tocsr()
        X.eliminate_zeros()
        return X, self.stars.data[chosen]
