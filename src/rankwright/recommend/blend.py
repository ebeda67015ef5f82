"""Several experts as ranking features of one model: the default recommender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.exceptions import DataError
from rankwright.feedback.grades import Grades
from rankwright.parallel import map_blocks, n_threads, ranges
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.schema import Holds
from rankwright.recommend.models.base import Expert, Table
from rankwright.recommend.models.factors import Factors
from rankwright.recommend.models.item_knn import ItemNeighbors
from rankwright.recommend.models.popularity import ItemMeans
from rankwright.recommend.models.user_similarity import Similarity

SHARE = 0.1  # of the ratings is held out at a time for the ranker
ENOUGH = 20_000  # ratings for the ranker; where a tenth is less, other tenths follow
EXPERTS: tuple[type[Expert], ...] = (ItemMeans, ItemNeighbors, Similarity, Factors)


class Blend(BaseEstimator):  # type: ignore[misc]
    """Scores by a ranker whose features are the scores of experts.

    The authors of RankBoost note that boosting can combine whole ranking algorithms. Here each
    expert is fitted without a tenth of the ratings, scores that tenth, and the ranker learns from
    it, with users as queries, how to weigh the experts against each other; then the experts are
    fitted once more on all ratings. Where a tenth is too little to learn from, the same is done
    with other tenths, all of them if need be. Where they hold no preference (very few ratings),
    the scores of the last expert are used alone.

    Parameters
    ----------
    ranker : the ranker that weighs the experts; None is MPRank with hardly any regularization
    seed : what is held out, and the start of the factors

    Attributes
    ----------
    experts_ : list of Expert
        One of each of ``EXPERTS``.
    ranker_ : the fitted ranker, or None
    """

    _constraints: ClassVar = {
        "ranker": schema.optional(schema.instance_of("a ranker", Ranker)),
        "seed": schema.at_least(0),
    }

    def __init__(self, ranker: Any = None, seed: int = 0) -> None:
        self.ranker = ranker
        self.seed = seed

    def fit(self, ratings: Ratings) -> Self:
        # The matrices here are small: more threads inside BLAS would only wait for each other.
        with threadpool_limits(1, "blas"):
            return self._fit(ratings)

    def _fit(self, ratings: Ratings) -> Self:
        tenth = (np.random.default_rng(self.seed).random(len(ratings)) / SHARE).astype(np.int64)
        n_tenths = min(round(1 / SHARE), int(np.ceil(ENOUGH / (SHARE * len(ratings)))))
        self.experts_ = [kind() for kind in EXPERTS]
        self.experts_[-1].set_params(seed=self.seed)
        self.ranker_ = None
        asked = tenth < n_tenths
        alone = np.bincount(tenth).max() == len(ratings)  # one tenth would leave nothing to know
        if not alone and Grades.from_ratings(ratings.take(asked)).total_weight > 0:
            self.ranker_ = self._weigh(ratings, tenth, n_tenths)
        for expert in self.experts_:
            expert.fit(ratings) if self.ranker_ is None else expert.refit(ratings)
        return self

    def ready(self, ratings: Ratings) -> None:
        """After loading: check that all this was learned from such ratings, and lay it out."""
        if [type(expert) for expert in self.experts_] != list(EXPERTS):
            raise DataError("these are not the experts of a Blend.")
        if self.ranker_ is not None and self.ranker_.n_features_in_ != len(EXPERTS):
            raise DataError("ranker_ weighs another number of experts.")
        for expert in self.experts_:
            expert.check_sizes(ratings)
            expert.ready(ratings)

    @classmethod
    def learned(cls) -> dict[str, Holds]:
        """Every learned attribute, with what it may be."""
        return {
            "experts_": Holds((Expert,), several=True),
            "ranker_": Holds((Ranker,), optional=True),
        }

    def scores(self, rated: IntArray, value: FloatArray, wanted: IntArray) -> FloatArray:
        """Scores of the items ``wanted`` for somebody who gave the items ``rated`` these values."""
        if self.ranker_ is None:
            return self.experts_[-1].scores(rated, value, wanted)
        if len(wanted) == 0:
            return np.zeros(0)
        # Straight to the scorer: checking rows that were made here would cost more than scoring.
        found: FloatArray = self.ranker_._scorer().decision_function(
            self._opinions(rated, value, wanted)
        )
        return found

    def _opinions(self, rated: IntArray, value: FloatArray, wanted: IntArray) -> FloatArray:
        return np.column_stack([expert.scores(rated, value, wanted) for expert in self.experts_])

    def _weigh(self, ratings: Ratings, tenth: IntArray, n_tenths: int) -> Any:
        """The ranker, trained on what experts say of ratings that they do not know."""
        from rankwright.rankers.magnitude.mprank import MPRank

        opinions = np.zeros((len(ratings), len(EXPERTS)))
        for number in range(n_tenths):
            held = tenth == number
            opinions[held] = self._judged(ratings.take(~held), ratings.take(held))
        asked = tenth < n_tenths
        ranker = MPRank(C=1e6) if self.ranker is None else clone(self.ranker)
        return ranker.fit(opinions[asked], ratings.value[asked], qid=ratings.user[asked])

    def _judged(self, known: Ratings, asked: Ratings) -> FloatArray:
        """What experts who know some ratings say of others."""
        for expert in self.experts_:
            expert.fit(known)
        table = Table.by_user(known)
        return predict_rows(
            lambda user, wanted: self._opinions(*table.row(user), wanted), asked, len(EXPERTS)
        )


def predict_rows(
    score: Callable[[int, IntArray], FloatArray], asked: Ratings, n_columns: int = 0
) -> FloatArray:
    """``score(user, items)`` for every row of ``asked``, user by user, on all cores.

    The answer has one entry (or ``n_columns`` entries) for each row, in the order of ``asked``.
    """
    table, order = Table.by_user(asked), asked.by_user.order
    answer = np.zeros((len(asked), n_columns) if n_columns else len(asked))

    def block(users: tuple[int, int]) -> None:
        for user in range(*users):
            wanted = table.row(user)[0]
            if len(wanted):
                answer[order[table.ptr[user] : table.ptr[user + 1]]] = score(user, wanted)

    map_blocks(block, ranges(asked.n_users, 4 * n_threads()))
    return answer
