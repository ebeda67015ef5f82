"""VSIM: features weighted by the cosine between them and the grades."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback import Feedback, Grades
from rankwright.rankers import rules
from rankwright.rankers.base import Ranker
from rankwright.rankers.learned import floats, real
from rankwright.rankers.memory.columns import (
    a_row_of_numbers,
    averages,
    column_blocks,
    per_feature,
)
from rankwright.scoring import Scorer
from rankwright.scoring.deviations import Deviations

__all__ = ["VSIM", "similarities"]

FloatArray = NDArray[np.float64]


class VSIM(Ranker):
    r"""Vector similarity: features that point the way of the grades count most.

    Made for collaborative filtering: rows are items, each feature is what another user thinks of
    them (NaN: nothing), the grades are what the target user thinks. A feature's weight w is the
    cosine between it and the grades, and the score adds up how far each feature lies above its own
    average, :math:`\bar y + \alpha \sum_i w_i (x_i - \bar x_i)`, a feature without a value adding
    nothing. It learns from the rows it is given only: queries count by their weight, not as lists.

    Parameters
    ----------
    over : "all" or "rated", default "all"
        ``all``: :math:`\sum |w| = 1`, as printed, so a row that many features know gets further
        from the average. ``rated``: that sum runs over the features that have a value in the row.
    feature_mean, feature_norm : (n_features,) arrays or None
        Average and length of each feature, where more is known than the training rows say (all the
        films a user rated). None: of the training rows.
    absent : "zero" or "abstain", default "zero"
        What it means when a CSR matrix does not store an entry.

    Attributes
    ----------
    coef_ : (n_features,) array
        The weights, their absolute values adding up to 1.
    mean_ : (n_features,) array
        What counts as each feature's average.
    intercept_ : float
        The mean grade.

    References
    ----------
    J. Breese, D. Heckerman, C. Kadie: Empirical analysis of predictive algorithms for collaborative
    filtering. UAI 1998. As competitor of RankBoost: Freund et al., JMLR 4, 2003, section 6.2.3.

    Examples
    --------
    >>> nan = float("nan")
    >>> others = [[5, 1, nan], [4, 2, 4], [1, 5, 3], [nan, 4, 2]]
    >>> VSIM().fit(others, [5, 4, 2, 1]).rank(others)
    array([2, 1, 4, 3])
    """

    _rules: ClassVar = {
        "over": rules.one_of("all", "rated"),
        "feature_mean": a_row_of_numbers(),
        "feature_norm": a_row_of_numbers(),
        "absent": rules.one_of("zero", "abstain"),
    }
    _learned: ClassVar = {
        "coef_": floats("n_features", low=-1.0, high=1.0),
        "mean_": floats("n_features"),
        "intercept_": real(),
    }
    _takes: ClassVar = (Grades,)
    _abstains: ClassVar = True

    def __init__(
        self,
        *,
        over: str = "all",
        feature_mean: Any = None,
        feature_norm: Any = None,
        absent: str = "zero",
    ) -> None:
        self.over = over
        self.feature_mean = feature_mean
        self.feature_norm = feature_norm
        self.absent = absent

    def _fit(self, X: Any, feedback: Feedback) -> None:
        assert isinstance(feedback, Grades)
        weight = feedback.row_weight
        product, norm, mean = similarities(X, feedback.y, weight, self.absent == "abstain")
        self.mean_ = per_feature(self, "feature_mean", X.shape[1], mean)
        norm = per_feature(self, "feature_norm", X.shape[1], norm)
        # The length of y is common to all weights and goes with the sum of |w|.
        cosine = np.divide(product, norm, out=np.zeros(len(norm)), where=norm > 0)
        largest = float(np.abs(cosine).max(initial=0.0))
        cosine = cosine / (largest if largest > 0 else 1.0)
        total = float(np.abs(cosine).sum())
        self.coef_ = cosine / (total if total > 0 else 1.0)
        mass = float(weight.sum())
        self.intercept_ = float(feedback.y @ weight) / mass if mass > 0 else 0.0

    def _scorer(self) -> Scorer:
        return Deviations(
            self.mean_,
            self.coef_,
            self.intercept_,
            self.over == "rated",
            self.absent == "abstain",
        )


def similarities(
    X: Any, y: FloatArray, weight: FloatArray, absent_abstains: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each feature: its product with y, its length and its mean, over rows with a value."""
    product, norm, mean = np.zeros(X.shape[1]), np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for columns, block in column_blocks(X, absent_abstains):
        known = np.where(np.isnan(block), 0.0, block)
        product[columns] = (weight * y) @ known
        # Scaled, so that squares neither overflow nor vanish.
        scale = np.abs(known).max(axis=0, initial=0.0)
        unit = known / np.where(scale > 0, scale, 1.0)
        norm[columns] = scale * np.sqrt(weight @ unit**2)
        mean[columns] = averages(block, weight)
    return product, norm, mean
