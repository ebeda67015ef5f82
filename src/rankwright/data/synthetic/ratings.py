"""Ratings of popular and less popular items by users of different tastes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rankwright.data.ratings import Ratings
from rankwright.data.synthetic.draw import FloatArray, Sample, Seed, cut_by_shares, need

__all__ = ["RatingSample", "make_ratings"]

_MOVIE_SHARES = (0.06, 0.11, 0.27, 0.35, 0.21)  # of 1 .. 5 stars in MovieLens


@dataclass(frozen=True, eq=False)
class RatingSample(Sample):
    """Ratings with latent tastes, drawn by :func:`make_ratings`.

    Attributes
    ----------
    ratings : Ratings
        Users and items are numbered from 0, and every one of them is in the vocabulary.
    affinity : (n_users, n_items) float64
        How much each user likes each item, without noise: the right order of all items.
    """

    ratings: Ratings
    affinity: FloatArray


def make_ratings(
    n_users: int = 200,
    n_items: int = 100,
    *,
    n_tastes: int = 3,
    density: float = 0.3,
    noise: float = 0.5,
    shares: tuple[float, ...] = _MOVIE_SHARES,
    random_state: Seed = None,
) -> RatingSample:
    """Draw ratings of popular and less popular items by users of different tastes.

    A user's affinity to an item is the item's quality plus the product of two vectors of tastes,
    plus the user's habit of rating high or low; noise is added, and the sum is cut into 1 .. k
    points. Popular items are rated more often; every user rates two items at least.

    Parameters
    ----------
    n_users, n_items : int
    n_tastes : int, default=3
        Length of the vectors of tastes.
    density : float, default=0.3
        Mean share of the items that a user has rated.
    noise : float, default=0.5
    shares : tuple of float
        How often 1 .. k points are given; the default is near MovieLens.
    random_state : int, Generator or None

    Examples
    --------
    >>> sample = make_ratings(50, 40, random_state=0)
    >>> sample.ratings
    Ratings(609 ratings, 50 users, 40 items, values 1 to 5)
    """
    need(n_users >= 1, "n_users", n_users, "an integer >= 1")
    need(n_items >= 2, "n_items", n_items, "an integer >= 2")
    need(n_tastes >= 1, "n_tastes", n_tastes, "an integer >= 1")
    need(0 < density <= 1, "density", density, "in (0, 1]")
    rng = np.random.default_rng(random_state)
    tastes = rng.standard_normal((n_users, n_tastes)) / math.sqrt(n_tastes)
    affinity = tastes @ rng.standard_normal((n_tastes, n_items))
    affinity += 0.5 * rng.standard_normal(n_items) + 0.5 * rng.standard_normal((n_users, 1))
    points = 1 + cut_by_shares(affinity + noise * rng.standard_normal(affinity.shape), shares)
    # Gumbel keys: taking the largest draws without replacement in proportion to popularity.
    keys = rng.gumbel(size=affinity.shape) + rng.standard_normal(n_items)
    counts = np.clip(rng.binomial(n_items, density, size=n_users), 2, n_items)
    place = np.argsort(np.argsort(-keys, axis=1), axis=1)
    user, item = np.nonzero(place < counts[:, None])
    ratings = Ratings(
        np.arange(n_users), np.arange(n_items), user, item, points[user, item].astype(np.float64)
    )
    return RatingSample(ratings, affinity)
