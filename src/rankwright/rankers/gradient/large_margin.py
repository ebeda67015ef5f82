"""Large-margin ordinal regression: RankSVM's score, cut into grades."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback import Feedback, Grades
from rankwright.rankers.base import FloatArray
from rankwright.rankers.gradient.ranksvm import RankSVM
from rankwright.rankers.learned import floats
from rankwright.scoring import Ordinal, Scorer

__all__ = ["LargeMarginOrdinal", "rank_boundaries"]


class LargeMarginOrdinal(RankSVM):
    """RankSVM with rank boundaries: it predicts grades.

    The score is that of :class:`RankSVM`. The boundary between two neighbouring grades lies midway
    between their closest scores. Where the scores of grades overlap, there is no such place: the
    boundary is then put where the weight of rows on its wrong side is least, midway between the two
    scores there (which is the first rule again when nothing overlaps). These boundaries together
    give the least possible rank loss on the training rows.

    With queries, pairs are compared inside each query and the boundaries serve all of them.

    Parameters
    ----------
    C, kernel, gamma, degree, coef0, n_components, loss, weighting, tol, max_iter, \
    normalize
        As in :class:`RankSVM`.

    Attributes
    ----------
    thresholds_ : (n_classes - 1,) array, ascending
    classes_ : (n_classes,) array, the grades
    coef_, support_, ... : as in :class:`RankSVM`

    References
    ----------
    R. Herbrich, T. Graepel, K. Obermayer (2000), Large margin rank boundaries for ordinal
    regression.

    Examples
    --------
    >>> X = [[0.0], [1.0], [4.0], [5.0], [9.0]]
    >>> model = LargeMarginOrdinal(C=100).fit(X, [1, 1, 2, 2, 3])
    >>> model.predict([[2.0], [3.0], [8.0]])
    array([1., 2., 3.])
    >>> (model.thresholds_ / model.coef_).round(6)  # in units of the feature
    array([2.5, 7. ])
    """

    _learned: ClassVar = {
        **RankSVM._learned,
        "thresholds_": floats("n_thresholds"),
        "classes_": floats("n_classes"),
    }
    _takes: ClassVar = (Grades,)
    _sums: ClassVar = False

    def _fit(self, X: Any, feedback: Feedback) -> None:
        assert isinstance(feedback, Grades)
        super()._fit(X, feedback)
        weight = feedback.row_weight
        used = weight > 0 if weight.any() else np.ones(len(weight), dtype=bool)
        self.classes_, code = np.unique(feedback.y[used], return_inverse=True)
        scores = super()._scorer().decision_function(X)[used]
        self.thresholds_ = rank_boundaries(scores, code, weight[used])

    def _scorer(self) -> Scorer:
        return Ordinal(super()._scorer(), self.thresholds_, self.classes_)


def rank_boundaries(scores: FloatArray, code: NDArray[np.int64], weight: FloatArray) -> FloatArray:
    """Boundaries between grades 0 .. max(code) that leave the least weight on the wrong side.

    >>> rank_boundaries(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.ones(3))
    array([3.])
    """
    distinct, place = np.unique(scores, return_inverse=True)
    # Cut t lies below distinct[t]; half a margin beyond the ends everything is on one side.
    edges = np.concatenate([[distinct[0] - 0.5], distinct, [distinct[-1] + 0.5]])
    cuts, room = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    cuts[0], cuts[-1] = edges[0], edges[-1]
    room[0] = room[-1] = 0.0
    found = []
    for r in range(int(code.max(initial=0))):
        high = code > r
        above = np.bincount(place, weight * high, len(distinct))
        below = np.bincount(place, weight * ~high, len(distinct))
        wrong_above = np.concatenate([[0.0], np.cumsum(above)])  # high rows under the cut
        wrong_below = np.concatenate([np.cumsum(below[::-1])[::-1], [0.0]])
        wrong = wrong_above + wrong_below
        least = wrong <= wrong.min() * (1 + 1e-12)
        found.append(cuts[np.argmax(np.where(least, room, -1.0))])
    return np.maximum.accumulate(np.array(found)) if found else np.zeros(0)
