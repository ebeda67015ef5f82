"""What everybody thinks of each item."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.rankers.schema import floats, real
from rankwright.recommend.models.base import Expert


class ItemMeans(Expert):
    """The mean rating of each item, users' generosity set aside, pulled toward the mean of all.

    >>> ratings = Ratings.from_arrays([1, 1, 2, 2], ["A", "B", "A", "B"], [5, 3, 4, 2])
    >>> ItemMeans().fit(ratings).scores(np.zeros(0, int), np.zeros(0), np.array([0, 1])).round(2)
    array([3.79, 3.21])
    """

    _learned: ClassVar = {"mean_": real(), "item_bias_": floats("n_items")}

    def fit(self, ratings: Ratings) -> Self:
        self.mean_, _, self.item_bias_ = biases(ratings)
        return self

    def scores(self, rated: IntArray, value: FloatArray, wanted: IntArray) -> FloatArray:
        return self.mean_ + self.item_bias_[wanted]


def biases(
    ratings: Ratings, item_damping: float = 5.0, user_damping: float = 10.0, max_iter: int = 5
) -> tuple[float, FloatArray, FloatArray]:
    """rating ~ mean + generosity of the user + quality of the item, both pulled toward 0."""
    mean = float(ratings.value.mean()) if len(ratings) else 0.0
    user: FloatArray = np.zeros(ratings.n_users)
    item: FloatArray = np.zeros(ratings.n_items)
    rest = ratings.value - mean
    for _ in range(max_iter):
        quality = np.bincount(ratings.item, rest - user[ratings.user], ratings.n_items)
        item = np.asarray(quality / (ratings.item_counts + item_damping))
        generosity = np.bincount(ratings.user, rest - item[ratings.item], ratings.n_users)
        user = np.asarray(generosity / (ratings.user_counts + user_damping))
    return mean, user, item
