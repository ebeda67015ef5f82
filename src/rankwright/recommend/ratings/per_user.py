"""One ranking problem per user, over the ratings of reference users."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.ratings import Ratings
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError
from rankwright.rankers import schema
from rankwright.rankers.schema import Learned, integers
from rankwright.recommend.ratings.base import ItemMeans, RatingRows, Reasons
from rankwright.recommend.ratings.neighbors import UserSimilarity
from rankwright.runtime import active_engine
from rankwright.scoring.linear import dense_rows

MISSING = ("abstain", "median", "mean", "standard")
REFERENCE = ("random", "dense", "similar")
STATISTICS = ("mean", "norm", "count")  # of all ratings of each reference user
BLOCK = 4096  # items scored at once
RANKER = schema.Constraint(  # or a pipeline that ends in one
    "a ranker with fit and decision_function",
    lambda x: not isinstance(x, type) and hasattr(x, "fit") and hasattr(x, "decision_function"),
)


@dataclass(frozen=True, eq=False)
class ReferenceUsers:
    """Users whose ratings are the features of all items.

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
    users: IntArray  # (n_reference,) their numbers

    def rows(self, items: IntArray, missing: str = "abstain", without: int = -1) -> FloatArray:
        """The features of some items, one row each.

        A missing rating is NaN ("abstain"), the "median" or "mean" of the reference user's own
        ratings, or 0 after each user was standardized to mean 0 and variance 1 ("standard"). The
        ratings of user number ``without`` count as missing, because it is the target.
        """
        if missing not in MISSING:
            raise ParameterError(
                f"missing={missing!r}: use one of {', '.join(MISSING)}.", parameter="missing"
            )
        values = dense_rows(self._table[items], absent_abstains=True)
        if without >= 0:
            values[:, self.users == without] = np.nan
        if missing == "abstain":
            return values
        if missing == "standard":
            values = (values - self.mean) / np.where(self.deviation > 0, self.deviation, 1.0)
            return np.where(np.isnan(values), 0.0, values)
        return np.where(np.isnan(values), getattr(self, missing), values)

    @cached_property
    def _table(self) -> Any:
        from scipy.sparse import csr_array

        column = np.full(self.ratings.n_users, -1, dtype=np.int64)
        column[self.users] = np.arange(len(self.users))
        used = column[self.ratings.user] >= 0
        where = (self.ratings.item[used], column[self.ratings.user[used]])
        shape = (self.ratings.n_items, len(self.users))
        return csr_array((self.ratings.value[used], where), shape=shape)

    def _of_each(self, function: Callable[[FloatArray], Any]) -> FloatArray:
        """A statistic of all ratings of each reference user; 0 for a user without ratings."""
        table = RatingRows.by_user(self.ratings)
        values = (table.row(int(user))[1] for user in self.users)
        return np.array([function(v) if len(v) else 0.0 for v in values])

    mean = cached_property(lambda self: self._of_each(np.mean))
    median = cached_property(lambda self: self._of_each(np.median))
    deviation = cached_property(lambda self: self._of_each(np.std))
    norm = cached_property(lambda self: self._of_each(lambda v: np.sqrt((v**2).sum())))
    count = cached_property(lambda self: self._of_each(len))


def abstains(ranker: BaseEstimator) -> bool:
    """Whether a ranker (or every step of a pipeline) takes NaN as missing."""
    from sklearn.utils import get_tags

    steps = [step for _, step in ranker.steps] if hasattr(ranker, "steps") else [ranker]
    return all(get_tags(step).input_tags.allow_nan for step in steps)


def prepared(ranker: BaseEstimator, reference: ReferenceUsers) -> Any:
    """A clone of a ranker; parameters like ``feature_mean`` (see STATISTICS) are set if None."""
    values = {f"feature_{name}": partial(getattr, reference, name) for name in STATISTICS}
    return _with_defaults(clone(ranker), values)


def _with_defaults(ranker: BaseEstimator, defaults: Mapping[str, Callable[[], Any]]) -> Any:
    """Set parameters of these names, in any step of a pipeline, where they are None."""
    for name, value in ranker.get_params().items():
        default = defaults.get(name.rsplit("__", 1)[-1])
        if value is None and default is not None:
            ranker.set_params(**{name: default()})
    return ranker


def caller_level() -> int:
    """The stack level, for the function that calls this, of the first frame outside rankwright."""
    package = str(Path(__file__).resolve().parents[2])
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level


class PerUser(BaseEstimator):  # type: ignore[misc]
    """A ranker trained for each user on the user's own ratings.

    Parameters
    ----------
    ranker : the ranker to train
    n_reference, reference : how many reference users, and which
    random_state : seed of random reference users, and of rankers that have none

    Attributes
    ----------
    users_ : (n_reference,) reference users; None if each user has others ("similar")
    """

    weight_is_agreement: ClassVar = False
    _constraints: ClassVar = {
        "ranker": RANKER,
        "n_reference": schema.at_least(1),
        "reference": schema.one_of(*REFERENCE),
        "random_state": schema.at_least(0),
    }

    def __init__(
        self,
        ranker: BaseEstimator,
        n_reference: int = 1000,
        reference: str = "random",
        random_state: int = 0,
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
        """After fitting or loading: derive what scoring needs from these ratings."""
        self._ratings = ratings
        self._missing = "abstain" if abstains(self.ranker) else "median"
        self._means = ItemMeans().fit(ratings)
        if self.users_ is None:
            self._similarity = UserSimilarity().fit(ratings)
        else:
            largest, n = self.users_.max(initial=-1), ratings.n_users
            if largest >= n:
                raise DataError(f"users_ holds the user number {largest}; there are {n} users.")
            self._common = ReferenceUsers(ratings, self.users_)
        return self

    @classmethod
    def learned(cls) -> dict[str, Learned]:
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
                stacklevel=caller_level(),
            )
            return self._means.scores(rated, value, items)
        reference = self._reference(rated, value, user)
        model = self._trained(reference, rated, value, user)
        if len(items) == 0:
            return np.zeros(0)
        blocks = (items[start : start + BLOCK] for start in range(0, len(items), BLOCK))
        rows = (reference.rows(block, self._missing, user) for block in blocks)
        return np.concatenate([model.decision_function(block) for block in rows])

    def explain(self, rated: IntArray, value: FloatArray, item: int, user: int, n: int) -> Reasons:
        """Reference users without whose rating of the item its score falls by so much."""
        if len(value) == 0 or np.ptp(value) == 0:
            return Reasons()
        reference = self._reference(rated, value, user)
        items = np.array([item])
        row = reference.rows(items, "abstain", user)[0]
        columns = np.flatnonzero(~np.isnan(row))
        if not len(columns):
            return Reasons()
        # One row for each reference user made silent, and last the row as it is.
        rows = np.repeat(reference.rows(items, self._missing, user), len(columns) + 1, axis=0)
        silent = np.nan if self._missing == "abstain" else reference.median[columns]
        rows[np.arange(len(columns)), columns] = silent
        scores = self._trained(reference, rated, value, user).decision_function(rows)
        change = scores[-1] - scores[:-1]
        kept = np.flatnonzero(change)
        return Reasons(reference.users[columns[kept]], row[columns[kept]], change[kept])

    def _trained(
        self, reference: ReferenceUsers, rated: IntArray, value: FloatArray, user: int
    ) -> Any:
        # The same user gets the same list each time, from rankers that draw at random too.
        seed = {"random_state": lambda: self.random_state}
        model = _with_defaults(prepared(self.ranker, reference), seed)
        with active_engine(None):  # a few ratings
            return model.fit(reference.rows(rated, self._missing, user), value)

    def _reference(self, rated: IntArray, value: FloatArray, user: int) -> ReferenceUsers:
        if self.users_ is not None:
            return self._common
        similarity = self._similarity.similarities(rated, value)
        if user >= 0:
            similarity[user] = -1.0
        n = min(self.n_reference, len(similarity))
        return ReferenceUsers(self._ratings, np.sort(np.argsort(-similarity, kind="stable")[:n]))
