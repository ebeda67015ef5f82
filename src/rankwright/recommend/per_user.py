"""One ranking problem per user, over the ratings of reference users."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings, first_twice
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError
from rankwright.rankers import schema
from rankwright.rankers.schema import Learned, integers
from rankwright.recommend.models.base import Table
from rankwright.recommend.models.popularity import ItemMeans
from rankwright.recommend.models.user_similarity import Similarity
from rankwright.scoring.linear import dense_rows

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


REFERENCE = ("random", "dense", "similar")

BLOCK = 4096  # items scored at once


def a_ranker() -> schema.Constraint:
    """The rule of a parameter that is a ranker, or a pipeline that ends in one."""
    return schema.Constraint(
        "a ranker with fit and decision_function",
        lambda value: (
            hasattr(value, "fit")
            and hasattr(value, "decision_function")
            and not isinstance(value, type)
        ),
    )


class PerUser(BaseEstimator):  # type: ignore[misc]
    """A ranker trained for each user on the user's own ratings.

    Parameters
    ----------
    ranker : what is trained
    n_reference, reference, seed : how many reference users, which, and the seed of a random choice

    Attributes
    ----------
    users_ : (n_reference,) array, or None
        Numbers of the reference users; None where each user has others ("similar").
    """

    _constraints: ClassVar = {
        "ranker": a_ranker(),
        "n_reference": schema.at_least(1),
        "reference": schema.one_of(*REFERENCE),
        "seed": schema.at_least(0),
    }

    def __init__(
        self, ranker: Any, n_reference: int = 1000, reference: str = "random", seed: int = 0
    ) -> None:
        self.ranker = ranker
        self.n_reference = n_reference
        self.reference = reference
        self.seed = seed

    def fit(self, ratings: Ratings) -> Self:
        counts = ratings.user_counts
        active = np.flatnonzero(counts > 0)
        n = min(self.n_reference, len(active))
        if self.reference == "similar":
            self.users_ = None
        elif self.reference == "dense":
            self.users_ = np.sort(active[np.lexsort((active, -counts[active]))[:n]])
        else:
            chosen = np.random.default_rng(self.seed).choice(active, n, replace=False)
            self.users_ = np.sort(chosen)
        return self.ready(ratings)

    def ready(self, ratings: Ratings) -> Self:
        """Lay out what scoring needs of these ratings; after fitting, and after loading."""
        self._ratings = ratings
        self._missing = "abstain" if abstains(self.ranker) else "median"
        self._means = ItemMeans().fit(ratings)
        if self.users_ is None:
            self._similar = Similarity().fit(ratings)
        else:
            if self.users_.max(initial=-1) >= ratings.n_users:
                raise DataError("users_ names a user who is not in the ratings.")
            self._common = ReferenceUsers(ratings, self.users_)
        return self

    @classmethod
    def learned(cls) -> dict[str, Learned]:
        """Every learned attribute, with what it may be."""
        return {"users_": integers("n_reference", low=0, optional=True)}

    def scores(
        self, rated: IntArray, value: FloatArray, wanted: IntArray, number: int = -1
    ) -> FloatArray:
        """Scores for somebody with these ratings; ``number``: who it is, if in the data."""
        if len(value) == 0 or np.ptp(value) == 0:
            warnings.warn(
                "Recommender: somebody without two different ratings has no preference to learn "
                "from, and gets what everybody likes.",
                DegenerateDataWarning,
                stacklevel=4,
            )
            return self._means.scores(rated, value, wanted)
        reference = self._reference(rated, value, number)
        model = self._trained(reference, rated, value, number)
        parts = [wanted[at : at + BLOCK] for at in range(0, len(wanted), BLOCK)]
        found = [
            model.decision_function(reference.rows(part, self._missing, number)) for part in parts
        ]
        return np.concatenate(found) if found else np.zeros(0)

    def viewers(
        self, rated: IntArray, value: FloatArray, wanted: int, number: int
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Reference users whose rating of an item moves its score, their ratings, and by how much.

        The last is how far the score falls if that one user had said nothing.
        """
        nobody = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
        if len(value) == 0 or np.ptp(value) == 0:
            return nobody
        reference = self._reference(rated, value, number)
        item = np.array([wanted])
        row = reference.rows(item, "abstain", number)[0]
        said = np.flatnonzero(~np.isnan(row))
        if not len(said):
            return nobody
        rows = np.repeat(reference.rows(item, self._missing, number), len(said) + 1, axis=0)
        silent = np.nan if self._missing == "abstain" else reference.median[said]
        rows[np.arange(len(said)), said] = silent
        scores = self._trained(reference, rated, value, number).decision_function(rows)
        moved = scores[-1] - scores[:-1]
        heard = np.flatnonzero(moved)
        return reference.users[said[heard]], row[said[heard]], moved[heard]

    def _trained(
        self, reference: ReferenceUsers, rated: IntArray, value: FloatArray, number: int
    ) -> Any:
        model = prepared(self.ranker, reference)
        # The same person gets the same list each time, from rankers with chance in them too.
        seeds = {
            name: self.seed
            for name, given in model.get_params().items()
            if name.rsplit("__", 1)[-1] == "random_state" and given is None
        }
        model.set_params(**seeds)
        return model.fit(reference.rows(rated, self._missing, number), value)

    def _reference(self, rated: IntArray, value: FloatArray, number: int) -> ReferenceUsers:
        if self.users_ is not None:
            return self._common
        agreement = self._similar.agreement(rated, value)
        if number >= 0:
            agreement[number] = -1.0
        n = min(self.n_reference, len(agreement))
        return ReferenceUsers(self._ratings, np.sort(np.argsort(-agreement, kind="stable")[:n]))
