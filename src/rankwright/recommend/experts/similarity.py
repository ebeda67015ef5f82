"""Users who agree: vector similarity over all users at once."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from rankwright.data.ratings import Ratings
from rankwright.recommend.experts.base import Expert, FloatArray, IntArray
from rankwright.recommend.experts.popularity import biases

__all__ = ["Similarity"]


class Similarity(Expert):
    """VSIM with every user as a feature: deviations weighted by the cosine between users.

    As :class:`rankwright.VSIM`, with two habits that help on many users: deviations are measured
    from user *and* item averages, in the cosine too, and the cosine counts to a power, so that
    those who agree most are heard most.

    Parameters
    ----------
    power : the cosine counts to this power; users who disagree do not count
    damping : pulls the average towards 0 when little agreement stands behind it
    """

    def __init__(self, power: float = 2.0, damping: float = 0.2) -> None:
        self.power = power
        self.damping = damping

    def fit(self, ratings: Ratings) -> Self:
        from scipy.sparse import csr_array

        self.mean_, user_bias, self.item_bias_ = biases(ratings)
        rest = ratings.value - self.mean_ - user_bias[ratings.user] - self.item_bias_[ratings.item]
        shape = (ratings.n_users, ratings.n_items)
        self._by_user: Any = csr_array((rest, (ratings.user, ratings.item)), shape=shape)
        self._by_item: Any = self._by_user.T.tocsr()
        self._raters: Any = self._by_item.copy()
        self._raters.data[:] = 1.0
        self.norm_ = np.sqrt(np.bincount(ratings.user, rest**2, ratings.n_users))
        return self

    def scores(self, rated: IntArray, value: FloatArray, wanted: IntArray) -> FloatArray:
        bias = self._generosity(rated, value)
        weight = self.agreement(rated, value) ** self.power
        few = len(wanted) < len(self.item_bias_) / 4
        deviations = self._by_item[wanted] if few else self._by_item
        raters = self._raters[wanted] if few else self._raters
        total, mass = deviations @ weight, raters @ weight
        pull = total / (mass + self.damping)
        return np.asarray(
            self.mean_ + bias + self.item_bias_[wanted] + (pull if few else pull[wanted])
        )

    def agreement(self, rated: IntArray, value: FloatArray) -> FloatArray:
        """The cosine between everybody and somebody with these ratings, 0 if it is negative."""
        mine = np.zeros(len(self.item_bias_))
        bias = self._generosity(rated, value)
        mine[rated] = value - self.mean_ - self.item_bias_[rated] - bias
        length = self.norm_ * np.sqrt(mine @ mine)
        product = self._by_user @ mine
        cosine = np.divide(product, length, out=np.zeros(len(length)), where=length > 0)
        return np.asarray(np.clip(cosine, 0.0, 1.0))

    def _generosity(self, rated: IntArray, value: FloatArray) -> float:
        return float((value - self.mean_ - self.item_bias_[rated]).sum()) / (len(value) + 10.0)
