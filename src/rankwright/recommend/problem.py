"""How ratings become a ranking problem: rows are items, features are what other users think."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rankwright.data.ratings import Ratings, first_twice
from rankwright.exceptions import DataError, ParameterError
from rankwright.recommend.experts.base import FloatArray, IntArray, Table
from rankwright.scoring.deviations import dense_rows

__all__ = ["MISSING", "ReferenceUsers", "abstains", "check_ratings", "prepared"]

MISSING = ("abstain", "median", "mean", "standard")


@dataclass(frozen=True, eq=False)
class ReferenceUsers:
    """Some users whose ratings are the features of all items.

    Parameters
    ----------
    ratings : Ratings
    users : (n_reference,) int64, numbers of the users that serve as features

    Examples
    --------
    >>> ratings = Ratings.from_arrays(["a", "a", "b", "b"], ["X", "Y", "Y", "Z"], [5, 3, 4, 2])
    >>> reference = ReferenceUsers(ratings, np.array([0, 1]))
    >>> reference.rows(np.array([0, 2]))
    array([[ 5., nan],
           [nan,  2.]])
    >>> reference.rows(np.array([0, 2]), "median")
    array([[5., 3.],
           [4., 2.]])
    """

    ratings: Ratings
    users: IntArray

    def rows(self, items: IntArray, missing: str = "abstain", without: int = -1) -> FloatArray:
        """The features of some items (numbers), one row each.

        Parameters
        ----------
        items : (n,) numbers of items
        missing : "abstain" (NaN), "median" or "mean" (of the reference user's own ratings), or
            "standard" (each user scaled to mean 0 and deviation 1, and 0 where nothing is known)
        without : number of a user who must not count, because it is the target; its column says
            nothing then
        """
        if missing not in MISSING:
            raise ParameterError(f"missing={missing!r}: use one of {', '.join(MISSING)}.")
        values = dense_rows(self._table[items], absent_abstains=True)
        if without >= 0:
            values[:, self.users == without] = np.nan
        if missing == "abstain":
            return values
        if missing == "standard":
            values = (values - self.mean) / np.where(self.deviation > 0, self.deviation, 1.0)
        filler = {"median": self.median, "mean": self.mean, "standard": np.zeros(len(self.users))}
        return np.where(np.isnan(values), filler[missing], values)

    @cached_property
    def _table(self) -> Any:
        from scipy.sparse import csr_array

        place = np.full(self.ratings.n_users, -1, dtype=np.int64)
        place[self.users] = np.arange(len(self.users))
        used = place[self.ratings.user] >= 0
        where = (self.ratings.item[used], place[self.ratings.user[used]])
        shape = (self.ratings.n_items, len(self.users))
        return csr_array((self.ratings.value[used], where), shape=shape)

    @cached_property
    def _values(self) -> list[FloatArray]:
        table = Table.by_user(self.ratings)
        return [table.row(int(user))[1] for user in self.users]

    @cached_property
    def mean(self) -> FloatArray:
        """The mean rating of each reference user, over all items that the user rated."""
        return np.array([v.mean() if len(v) else 0.0 for v in self._values])

    @cached_property
    def median(self) -> FloatArray:
        """The median rating of each reference user."""
        return np.array([np.median(v) if len(v) else 0.0 for v in self._values])

    @cached_property
    def deviation(self) -> FloatArray:
        """The standard deviation of each reference user's ratings."""
        return np.array([v.std() if len(v) else 0.0 for v in self._values])

    @cached_property
    def norm(self) -> FloatArray:
        """The length of each reference user's vector of ratings."""
        return np.array([np.sqrt((v**2).sum()) for v in self._values])


def abstains(ranker: Any) -> bool:
    """Whether a ranker (or every step of a pipeline) takes NaN as "says nothing"."""
    from sklearn.utils import get_tags

    steps = [step for _, step in ranker.steps] if hasattr(ranker, "steps") else [ranker]
    return all(get_tags(step).input_tags.allow_nan for step in steps)


def prepared(ranker: Any, reference: ReferenceUsers) -> Any:
    """A fresh copy of a ranker, told the averages and lengths of the features where it asks."""
    from sklearn.base import clone

    ranker = clone(ranker)
    known = {"feature_mean": "mean", "feature_norm": "norm"}
    wanted = {
        name: getattr(reference, known[name.rsplit("__", 1)[-1]])
        for name, value in ranker.get_params().items()
        if name.rsplit("__", 1)[-1] in known and value is None
    }
    return ranker.set_params(**wanted) if wanted else ranker


def check_ratings(ratings: Any, owner: str) -> Ratings:
    """Ratings that can be learned from, or an error that says what is wrong."""
    if not isinstance(ratings, Ratings):
        raise DataError(
            f"{owner}.fit got {type(ratings).__name__}: it takes Ratings. Make them with "
            "Ratings.from_arrays, Ratings.from_frame or read_ratings."
        )
    if len(ratings) == 0:
        raise DataError(f"{owner}.fit got no ratings: there is nothing to learn from.")
    twice = first_twice(ratings)
    if twice is not None:
        user, item = ratings.users[ratings.user[twice[0]]], ratings.items[ratings.item[twice[0]]]
        raise DataError(
            f"{owner}.fit: user {user} rated item {item} in row {twice[1]} and again in row "
            f'{twice[0]}. Read the ratings with duplicates="last" or "mean".'
        )
    return ratings
