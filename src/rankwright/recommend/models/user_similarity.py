"""Users who agree: vector similarity over all users at once."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.rankers import schema
from rankwright.rankers.schema import floats, real
from rankwright.recommend.models.base import Expert, Table
from rankwright.recommend.models.popularity import biases


class Similarity(Expert):
    """VSIM with every user as a feature: deviations weighted by the cosine between users.

    As :class:`rankwright.VSIM`, with habits that help on many users: deviations are measured from
    user *and* item averages, in the cosine too; the cosine counts to a power, so that those who
    agree most are heard most; and no more than ``n_users`` are heard.

    Parameters
    ----------
    n_users : how many of those who agree most are heard
    power : the cosine counts to this power; users who disagree do not count
    damping : pulls the average toward 0 when little agreement stands behind it
    """

    _constraints: ClassVar = {
        "n_users": schema.at_least(1),
        "power": schema.positive(),
        "damping": schema.positive(),
    }
    _learned: ClassVar = {
        "mean_": real(),
        "user_bias_": floats("n_users"),
        "item_bias_": floats("n_items"),
    }

    def __init__(self, n_users: int = 1000, power: float = 2.0, damping: float = 0.02) -> None:
        self.n_users = n_users
        self.power = power
        self.damping = damping

    def fit(self, ratings: Ratings) -> Self:
        self.mean_, self.user_bias_, self.item_bias_ = biases(ratings)
        return self.ready(ratings)

    def ready(self, ratings: Ratings) -> Self:
        """Lay out everybody's deviations from user and item averages, by user and by item."""
        about = self.user_bias_[ratings.user] + self.item_bias_[ratings.item]
        rest = replace(ratings, value=ratings.value - self.mean_ - about)
        self._by_user, self._by_item = Table.by_user(rest), Table.by_item(rest)
        self._norm = np.sqrt(np.bincount(rest.user, rest.value**2, rest.n_users))
        return self

    def scores(self, rated: IntArray, value: FloatArray, wanted: IntArray) -> FloatArray:
        weight = self.agreement(rated, value) ** self.power
        heard = np.argsort(-weight, kind="stable")[: self.n_users]
        heard = heard[weight[heard] > 0]
        total, mass = self._heard(heard, weight, wanted)
        bias = self._generosity(rated, value)
        pull = total / (mass + self.damping)
        return np.asarray(self.mean_ + bias + self.item_bias_[wanted] + pull)

    def _heard(
        self, heard: IntArray, weight: FloatArray, wanted: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """What those who are heard say of each item, and how much weight stands behind it.

        Through who rated the items, or what the users rated: whichever is less.
        """
        counts: FloatArray = np.zeros(len(weight))
        counts[heard] = weight[heard]
        if self._by_item.sizes[wanted].sum() < self._by_user.sizes[heard].sum():
            item, user, deviation = self._by_item.rows_of(wanted)
            among, n_items = np.arange(len(wanted)), len(wanted)
        else:
            place, item, deviation = self._by_user.rows_of(heard)
            user, among, n_items = heard[place], wanted, len(self.item_bias_)
        total = np.bincount(item, counts[user] * deviation, n_items)
        mass = np.bincount(item, counts[user], n_items)
        return np.asarray(total[among], np.float64), np.asarray(mass[among], np.float64)

    def agreement(self, rated: IntArray, value: FloatArray) -> FloatArray:
        """The cosine between everybody and somebody with these ratings, 0 if it is negative."""
        bias = self._generosity(rated, value)
        mine = value - self.mean_ - self.item_bias_[rated] - bias
        place, user, deviation = self._by_item.rows_of(rated)
        product = np.bincount(user, mine[place] * deviation, len(self._norm))
        length = self._norm * np.sqrt(mine @ mine)
        cosine = np.divide(product, length, out=np.zeros(len(length)), where=length > 0)
        return np.asarray(np.clip(cosine, 0.0, 1.0))

    def _generosity(self, rated: IntArray, value: FloatArray) -> float:
        return float((value - self.mean_ - self.item_bias_[rated]).sum()) / (len(value) + 10.0)
