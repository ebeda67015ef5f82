"""Nearest neighbors: the features that order the graded rows best, averaged."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, Matrix
from rankwright.feedback.base import Feedback, Grades
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.neighbors.vsim import (
    ABSENT,
    COUNTS,
    NUMBERS,
    averages,
    column_blocks,
    per_feature,
)
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import FilledAverage

MAX_CANDIDATES = 64


class NearestNeighbor(Ranker):
    """Rank by the single feature that orders the graded rows best.

    For collaborative filtering: rows are items, and each feature has the ratings of another user
    (NaN: not rated). The neighbor is the user with the lowest ranking loss; ties count 1/2. An item
    that the neighbor did not rate gets a default: the value in X (of at most 64, evenly chosen)
    with the lowest loss. Among equals it is the value closest to the neighbor's mean, which is also
    the default of a neighbor who rated all training rows. Higher values always count as better. The
    search costs O(grades in a query) for each entry of X and each default tried.

    Parameters
    ----------
    shrinkage : float >= 0, default 0.0
        Preference for users with many ratings, as the authors propose: the loss L of a user with n
        values becomes 1/2 - (1/2 - L) n / (n + shrinkage). A low loss on few rows is often due to
        chance.
    feature_mean : (n_features,) array or None
        The mean of each feature, if known from more than the training rows. None: the mean over the
        training rows.
    feature_count : (n_features,) array or None
        The number of values of each feature, if known from more than the training rows (all the
        films a user rated). None: the number of values in the training rows.
    absent : "zero" or "abstain", default "zero"
        How to treat entries that a CSR matrix does not store: as 0, or as missing.

    Attributes
    ----------
    feature_ : (n_neighbors,) array
        The neighbors, best first.
    default_ : (n_neighbors,) array
        Their values for rows that they did not rate.
    rloss_ : (n_features,) array
        The ranking loss of each feature with its best default; 1/2 without any pair.

    References
    ----------
    Y. Freund, R. Iyer, R. E. Schapire, Y. Singer: An efficient boosting algorithm for combining
    preferences. JMLR 4, 2003, section 6.2.3.

    Examples
    --------
    >>> nan = float("nan")
    >>> others = [[5, nan], [4, 2], [nan, 5], [2, 4]]
    >>> model = NearestNeighbor().fit(others, [5, 4, 2, 1])
    >>> model.feature_, model.default_
    (array([0]), array([4.]))
    >>> model.decision_function([[3, 1], [nan, 5]])
    array([3., 4.])
    """

    _family: ClassVar = "neighbors"
    _scores_as: ClassVar = "linear"
    _constraints: ClassVar = {
        "shrinkage": schema.number(0.0),
        "feature_mean": NUMBERS,
        "feature_count": COUNTS,
        "absent": ABSENT,
    }
    _learned: ClassVar = {
        "feature_": schema.integers("n_neighbors", low=0, high="n_features"),
        "default_": schema.floats("n_neighbors"),
        "rloss_": schema.floats("n_features", low=0.0, high=1.0),
    }
    _takes: ClassVar = (Grades,)
    _abstains: ClassVar = True

    n_neighbors = 1  # a parameter of KNN

    def __init__(
        self,
        *,
        shrinkage: float = 0.0,
        feature_mean: ArrayLike | None = None,
        feature_count: ArrayLike | None = None,
        absent: str = "zero",
    ) -> None:
        self.shrinkage = shrinkage
        self.feature_mean = feature_mean
        self.feature_count = feature_count
        self.absent = absent

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        assert isinstance(feedback, Grades)
        self.rloss_, default, count = self._losses(X, feedback)
        count = per_feature(self, "feature_count", X.shape[1], count)
        mass = count + self.shrinkage
        trust = np.divide(count, mass, out=np.ones(len(mass)), where=mass > 0)
        loss = 0.5 - (0.5 - self.rloss_) * trust
        # Rounding must not decide between features that are equally good.
        order = np.argsort(loss.round(12), kind="stable")[: self.n_neighbors]
        self.feature_, self.default_ = order.astype(np.int64), default[order]

    def _losses(self, X: Matrix, grades: Grades) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The loss of each feature, its best default, and how many rows it has a value for."""
        from rankwright.rankers.neighbors._kernels import NeighborRows, column_losses

        level, query, _ = grades.levels
        codes, n_features, total = grades.queries.codes, X.shape[1], grades.total_weight
        loss, default, count = np.full(n_features, 0.5), *np.zeros((2, n_features))
        first = np.searchsorted(query, codes, side="left")
        last = np.searchsorted(query, codes, side="right")
        share = grades.query_weight[codes] / (total if total > 0 else 1.0)
        graded = NeighborRows(level, first, last, grades.sample_weight, share)
        candidates = self._candidates(X)
        for columns, block in column_blocks(X, self.absent == "abstain"):
            mean = averages(block, grades.row_weight)
            if self.feature_mean is not None:
                mean = per_feature(self, "feature_mean", n_features, mean)[columns]
            default[columns] = mean
            count[columns] = grades.row_weight @ ~np.isnan(block)
            if total > 0:
                part_loss, part_default = np.empty((2, block.shape[1]))
                column_losses(block, graded, mean, candidates, part_loss, part_default)
                loss[columns] = part_loss
                # Of empty columns, which share a block of one, it is the mean.
                default[columns] = part_default if len(mean) == len(part_default) else mean
        return loss.clip(0.0, 1.0), default, count

    def _candidates(self, X: Any) -> FloatArray:
        """The default values to try: the distinct values of X, or some of them, evenly chosen."""
        known = X.data if hasattr(X, "tocsc") else X.ravel()
        values = np.unique(known[~np.isnan(known)])
        if hasattr(X, "tocsc") and self.absent == "zero" and X.nnz < X.shape[0] * X.shape[1]:
            values = np.union1d(values, [0.0])
        if len(values) > MAX_CANDIDATES:
            values = values[np.linspace(0, len(values) - 1, MAX_CANDIDATES).round().astype(int)]
        return np.asarray(values)

    def _scorer(self) -> Scorer:
        abstains = self.absent == "abstain"
        return FilledAverage(self.n_features_in_, self.feature_, self.default_, abstains)


class KNN(NearestNeighbor):
    """Average of the k features that order the graded rows best.

    Like :class:`NearestNeighbor`, with the k features of lowest ranking loss instead of one (all,
    if there are fewer); each fills its gaps with its own default. Averaging depends on the values
    of the features, not only on their order.

    Parameters
    ----------
    n_neighbors : int >= 1, default 20
    shrinkage, feature_mean, feature_count, absent
        As in :class:`NearestNeighbor`.

    Attributes
    ----------
    feature_, default_, rloss_ : as in :class:`NearestNeighbor`

    Examples
    --------
    >>> others = [[5, 1, 4], [4, 2, 5], [1, 5, 2]]
    >>> KNN(n_neighbors=2).fit(others, [3, 2, 1]).decision_function(others)
    array([4.5, 4.5, 1.5])
    """

    _constraints: ClassVar = {"n_neighbors": schema.at_least(1), **NearestNeighbor._constraints}

    def __init__(
        self,
        *,
        n_neighbors: int = 20,
        shrinkage: float = 0.0,
        feature_mean: ArrayLike | None = None,
        feature_count: ArrayLike | None = None,
        absent: str = "zero",
    ) -> None:
        super().__init__(
            shrinkage=shrinkage,
            feature_mean=feature_mean,
            feature_count=feature_count,
            absent=absent,
        )
        self.n_neighbors = n_neighbors
