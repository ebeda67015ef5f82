"""The average rating of each item, the same for every user."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.ratings import Ratings
from rankwright.rankers.schema import floats, real
from rankwright.recommend.models.base import RatingModel


class ItemMeans(RatingModel):
    """Item averages, corrected for user biases and shrunk toward the overall mean.

    >>> ratings = Ratings.from_arrays([1, 1, 2, 2], ["A", "B", "A", "B"], [5, 3, 4, 2])
    >>> ItemMeans().fit(ratings).scores(np.zeros(0, int), np.zeros(0), np.array([0, 1])).round(2)
    array([3.79, 3.21])
    """

    _learned: ClassVar = {"mean_": real(), "item_bias_": floats("n_items")}

    def fit(self, ratings: Ratings) -> Self:
        self.mean_, _, self.item_bias_ = biases(ratings)
        return self

    def scores(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        return self.mean_ + self.item_bias_[items]


def biases(
    ratings: Ratings, item_damping: float = 5.0, user_damping: float = 10.0, max_iter: int = 5
) -> tuple[float, FloatArray, FloatArray]:
    """Fit rating = mean + user bias + item bias, with biases shrunk toward 0."""
    mean = float(ratings.value.mean()) if len(ratings) else 0.0
    user, item = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    rest = ratings.value - mean
    for _ in range(max_iter):
        total = np.bincount(ratings.item, rest - user[ratings.user], ratings.n_items)
        item = total / (ratings.item_counts + item_damping)
        total = np.bincount(ratings.user, rest - item[ratings.item], ratings.n_users)
        user = total / (ratings.user_counts + user_damping)
    return mean, user, item


class Biased(RatingModel):
    """A model of deviations from mean, user bias and item bias."""

    mean_: float
    item_bias_: FloatArray  # (n_items,)

    def user_bias(self, rated: IntArray, value: FloatArray) -> float:
        """The bias of a user with these ratings, shrunk as in ``biases``."""
        return float((value - self.mean_ - self.item_bias_[rated]).sum()) / (len(value) + 10.0)
