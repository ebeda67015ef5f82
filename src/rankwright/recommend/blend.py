"""Several experts as ranking features of one model: the default recommender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from rankwright.data.ratings import Ratings
from rankwright.feedback import Grades
from rankwright.parallel import map_blocks, n_threads, ranges
from rankwright.recommend.experts import (
    Expert,
    Factors,
    ItemMeans,
    ItemNeighbours,
    Similarity,
    Table,
)
from rankwright.recommend.experts.base import FloatArray, IntArray

__all__ = ["Blend", "predict_rows"]


class Blend:
    """Scores by a ranker whose features are the scores of experts.

    The authors of RankBoost note that boosting can combine whole ranking algorithms. Here each
    expert is fitted without a tenth of the ratings, scores that tenth, and the ranker learns from
    it, with users as queries, how to weigh the experts against each other; then the experts are
    fitted once more on all ratings. Where the tenth holds no preference (few ratings), the scores
    of the last expert are used alone.

    Parameters
    ----------
    ranker : the ranker that weighs the experts; None is MPRank with hardly any regularisation
    experts : None is item means, item neighbours, user similarity and factors
    share : share of the ratings held out for the ranker
    seed : what is held out, and the start of the factors
    """

    def __init__(
        self, ranker: Any = None, experts: Any = None, share: float = 0.1, seed: int = 0
    ) -> None:
        self.ranker = ranker
        self.experts = experts
        self.share = share
        self.seed = seed

    def fit(self, ratings: Ratings) -> Self:
        held = np.random.default_rng(self.seed).random(len(ratings)) < self.share
        self.ranker_ = None
        feedback = Grades.from_ratings(ratings.take(held))
        if feedback.total_weight > 0 and not held.all():
            self.experts_ = self._fitted(ratings.take(~held))
            self.ranker_ = self._weigh(ratings.take(~held), ratings.take(held))
        self.experts_ = self._fitted(ratings)
        return self

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

    def _fitted(self, ratings: Ratings) -> list[Expert]:
        if self.experts is not None:
            return [expert.fit(ratings) for expert in self.experts]
        kinds = (ItemMeans(), ItemNeighbours(), Similarity(), Factors(seed=self.seed))
        return [expert.fit(ratings) for expert in kinds]

    def _weigh(self, known: Ratings, held: Ratings) -> Any:
        from rankwright.rankers.kernel.mprank import MPRank

        ranker = MPRank(C=1e6) if self.ranker is None else clone(self.ranker)
        table = Table.by_user(known)
        opinions = predict_rows(
            lambda user, wanted: self._opinions(*table.row(user), wanted), held, len(self.experts_)
        )
        return ranker.fit(opinions, held.value, qid=held.user)


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
