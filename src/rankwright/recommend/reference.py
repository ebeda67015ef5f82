"""One ranking problem per user, over the ratings of reference users."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from rankwright.data.ratings import Ratings
from rankwright.exceptions import DataError, DegenerateDataWarning
from rankwright.rankers import rules
from rankwright.rankers.learned import Learned, integers
from rankwright.recommend.experts import ItemMeans, Similarity
from rankwright.recommend.experts.base import FloatArray, IntArray
from rankwright.recommend.problem import ReferenceUsers, abstains, prepared

__all__ = ["REFERENCE", "PerUser", "a_ranker"]

REFERENCE = ("random", "dense", "similar")

BLOCK = 4096  # items scored at once


def a_ranker() -> rules.Rule:
    """The rule of a parameter that is a ranker, or a pipeline that ends in one."""
    return rules.Rule(
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

    _rules: ClassVar = {
        "ranker": a_ranker(),
        "n_reference": rules.at_least(1),
        "reference": rules.one_of(*REFERENCE),
        "seed": rules.at_least(0),
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
