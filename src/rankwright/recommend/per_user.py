"""One ranking problem per user, over the ratings of reference users."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError
from rankwright.rankers import schema
from rankwright.rankers.schema import Learned, integers
from rankwright.recommend.explain import Reasons
from rankwright.recommend.models.base import Table
from rankwright.recommend.models.popularity import ItemMeans
from rankwright.recommend.models.user_similarity import UserSimilarity
from rankwright.scoring.linear import dense_rows

MISSING = ("abstain", "median", "mean", "standard")


@dataclass(frozen=True, eq=False)
class ReferenceUsers:
    """Users whose ratings are the features of all items.

    Parameters
    ----------
    ratings : Ratings
    users : (n_reference,) int64, numbers of the users

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
        """The features of some items, one row each.

        Parameters
        ----------
        items : (n,) numbers of items
        missing : "abstain" (NaN), "median" or "mean" (of the reference user's own ratings), or
            "standard" (each user standardized to mean 0 and variance 1, missing ratings 0)
        without : number of a user whose ratings count as missing, because it is the target
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

        column = np.full(self.ratings.n_users, -1, dtype=np.int64)
        column[self.users] = np.arange(len(self.users))
        used = column[self.ratings.user] >= 0
        where = (self.ratings.item[used], column[self.ratings.user[used]])
        shape = (self.ratings.n_items, len(self.users))
        return csr_array((self.ratings.value[used], where), shape=shape)

    def _statistic(self, function: Callable[[FloatArray], Any]) -> FloatArray:
        """A statistic of the ratings of each reference user; 0 for a user without ratings."""
        table = Table.by_user(self.ratings)
        values = (table.row(int(user))[1] for user in self.users)
        return np.array([function(v) if len(v) else 0.0 for v in values])

    @cached_property
    def mean(self) -> FloatArray:
        """The mean rating of each reference user, over all items that the user rated."""
        return self._statistic(np.mean)

    @cached_property
    def median(self) -> FloatArray:
        """The median rating of each reference user."""
        return self._statistic(np.median)

    @cached_property
    def deviation(self) -> FloatArray:
        """The standard deviation of each reference user's ratings."""
        return self._statistic(np.std)

    @cached_property
    def norm(self) -> FloatArray:
        """The length of each reference user's vector of ratings."""
        return self._statistic(lambda v: np.sqrt((v**2).sum()))


def abstains(ranker: Any) -> bool:
    """Whether a ranker (or every step of a pipeline) takes NaN as missing."""
    from sklearn.utils import get_tags

    steps = [step for _, step in ranker.steps] if hasattr(ranker, "steps") else [ranker]
    return all(get_tags(step).input_tags.allow_nan for step in steps)


def prepared(ranker: Any, reference: ReferenceUsers) -> Any:
    """A clone of a ranker; parameters ``feature_mean`` and ``feature_norm`` are set if None."""
    ranker = clone(ranker)
    return _with_defaults(
        ranker,
        feature_mean=lambda: reference.mean,
        feature_norm=lambda: reference.norm,
    )


def _with_defaults(ranker: Any, **defaults: Callable[[], Any]) -> Any:
    """Set parameters of these names, in any step of a pipeline, where they are None."""
    given = {
        name: defaults[name.rsplit("__", 1)[-1]]()
        for name, value in ranker.get_params().items()
        if name.rsplit("__", 1)[-1] in defaults and value is None
    }
    return ranker.set_params(**given)


REFERENCE = ("random", "dense", "similar")
BLOCK = 4096  # items scored at once


def a_ranker() -> schema.Constraint:
    """The constraint of a parameter that is a ranker, or a pipeline that ends in one."""
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
    ranker : the ranker to train
    n_reference, reference : how many reference users, and which
    random_state : seed of random reference users, and of rankers that have none

    Attributes
    ----------
    users_ : (n_reference,) array, or None
        Numbers of the reference users; None if each user has others ("similar").
    """

    weight_is_agreement: ClassVar = False
    _constraints: ClassVar = {
        "ranker": a_ranker(),
        "n_reference": schema.at_least(1),
        "reference": schema.one_of(*REFERENCE),
        "random_state": schema.at_least(0),
    }

    def __init__(
        self, ranker: Any, n_reference: int = 1000, reference: str = "random", random_state: int = 0
    ) -> None:
        self.ranker = ranker
        self.n_reference = n_reference
        self.reference = reference
        self.random_state = random_state

    def fit(self, ratings: Ratings) -> Self:
        counts = ratings.user_counts
        active = np.flatnonzero(counts > 0)
        n = min(self.n_reference, len(active))
        if self.reference == "similar":
            self.users_ = None
        elif self.reference == "dense":
            self.users_ = np.sort(active[np.lexsort((active, -counts[active]))[:n]])
        else:
            rng = np.random.default_rng(self.random_state)
            self.users_ = np.sort(rng.choice(active, n, replace=False))
        return self.prepare(ratings)

    def prepare(self, ratings: Ratings) -> Self:
        """Derive what scoring needs from these ratings; after fitting, and after loading."""
        self._ratings = ratings
        self._missing = "abstain" if abstains(self.ranker) else "median"
        self._means = ItemMeans().fit(ratings)
        if self.users_ is None:
            self._similarity = UserSimilarity().fit(ratings)
        else:
            largest = self.users_.max(initial=-1)
            if largest >= ratings.n_users:
                raise DataError(
                    f"users_ holds the user number {largest}; the ratings have {ratings.n_users} "
                    "users."
                )
            self._common = ReferenceUsers(ratings, self.users_)
        return self

    @classmethod
    def learned(cls) -> dict[str, Learned]:
        """Every learned attribute, with what it may be."""
        return {"users_": integers("n_reference", low=0, optional=True)}

    def scores(
        self, rated: IntArray, value: FloatArray, items: IntArray, user: int = -1
    ) -> FloatArray:
        """Scores of ``items``; ``user`` is the number of the user, if in the data."""
        if len(value) == 0 or np.ptp(value) == 0:
            warnings.warn(
                "Recommender: a user without two different ratings has no preference to learn "
                "from, and gets the items with the best average ratings.",
                DegenerateDataWarning,
                stacklevel=4,
            )
            return self._means.scores(rated, value, items)
        reference = self._reference(rated, value, user)
        model = self._trained(reference, rated, value, user)
        scores = [np.zeros(0)]
        for start in range(0, len(items), BLOCK):
            rows = reference.rows(items[start : start + BLOCK], self._missing, user)
            scores.append(model.decision_function(rows))
        return np.concatenate(scores[1:] or scores)

    def explain(self, rated: IntArray, value: FloatArray, item: int, user: int, n: int) -> Reasons:
        """Reference users whose rating of an item changes its score.

        The weight is how far the score falls if that user had not rated the item.
        """
        none = np.zeros(0, np.int64)
        nothing = Reasons(none, np.zeros(0), np.zeros(0), none, np.zeros(0))
        if len(value) == 0 or np.ptp(value) == 0:
            return nothing
        reference = self._reference(rated, value, user)
        items = np.array([item])
        row = reference.rows(items, "abstain", user)[0]
        columns = np.flatnonzero(~np.isnan(row))
        if not len(columns):
            return nothing
        # One row for each reference user made silent, and last the row as it is.
        rows = np.repeat(reference.rows(items, self._missing, user), len(columns) + 1, axis=0)
        silent = np.nan if self._missing == "abstain" else reference.median[columns]
        rows[np.arange(len(columns)), columns] = silent
        scores = self._trained(reference, rated, value, user).decision_function(rows)
        change = scores[-1] - scores[:-1]
        kept = np.flatnonzero(change)
        users, points = reference.users[columns[kept]], row[columns[kept]]
        return nothing._replace(users=users, points=points, weight=change[kept])

    def _trained(
        self, reference: ReferenceUsers, rated: IntArray, value: FloatArray, user: int
    ) -> Any:
        # The same user gets the same list each time, from rankers that draw at random too.
        model = _with_defaults(
            prepared(self.ranker, reference), random_state=lambda: self.random_state
        )
        return model.fit(reference.rows(rated, self._missing, user), value)

    def _reference(self, rated: IntArray, value: FloatArray, user: int) -> ReferenceUsers:
        if self.users_ is not None:
            return self._common
        similarity = self._similarity.similarity(rated, value)
        if user >= 0:
            similarity[user] = -1.0
        n = min(self.n_reference, len(similarity))
        return ReferenceUsers(self._ratings, np.sort(np.argsort(-similarity, kind="stable")[:n]))
