"""What KeepRank and its online form share: parameters, grades, and how their models score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from rankwright.exceptions import DataError
from rankwright.feedback import Feedback, Grades, Pairs
from rankwright.rankers import rules
from rankwright.rankers.base import FloatArray, Ranker
from rankwright.rankers.learned import Learned, floats, real
from rankwright.rankers.relaxation.visits import Visits
from rankwright.scoring import Kernel, KernelExpansion, Ordinal, Scorer

__all__ = ["LEARNED", "RULES", "RelaxationRanker"]

MOST_LEVELS = 1000

RULES: dict[str, rules.Rule] = {
    "kernel": rules.one_of("rbf", "poly", "linear"),
    "sigma2": rules.positive(),
    "degree": rules.at_least(1),
    "margin": rules.positive(),
    "step": rules.above_0_up_to(1),
    "n_passes": rules.at_least(1),
    "levels": rules.one_of("binary", "ordinal"),
    "average": rules.a_flag(),
    "shuffle": rules.a_flag(),
    "random_state": rules.a_seed(),
    "normalize": rules.either(rules.nothing(), rules.one_of("query")),
}
LEARNED: dict[str, Learned] = {
    "support_": floats("n_support", "n_features"),
    "dual_coef_": floats("n_support"),
    "classes_": floats("n_classes"),
    "thresholds_": floats("n_thresholds"),
    "error_": real(low=0.0),
}


class RelaxationRanker(Ranker):
    """Base of KeepRank and OnlineKeepRank."""

    _takes: ClassVar = (Grades, Pairs)
    _sums: ClassVar = True
    _order_matters: ClassVar = True

    kernel: str
    sigma2: float
    degree: int
    n_passes: int
    levels: str
    shuffle: bool
    random_state: Any

    support_: FloatArray
    dual_coef_: FloatArray
    classes_: FloatArray
    thresholds_: FloatArray

    def fit(self, X: Any, y: ArrayLike, *, qid: Any = None) -> Self:  # type: ignore[override]
        """Forget everything, then show every row ``n_passes`` times.

        What a row teaches depends on what was shown before it, so there is no ``sample_weight``
        that would mean "so many copies, anywhere"; ``Grades`` with weights given to
        ``fit_feedback`` show a row so many times one after the other.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix (made dense) or data frame
        y : (n_items,) grades: the higher, the better
        qid : (n_items,) query ids; they play no part in learning, a grade means the same in all
        """
        return super().fit(X, y, qid=qid)

    def _kernel(self) -> Kernel:
        gamma = 0.5 / self.sigma2 if self.kernel == "rbf" else 1.0 / self.sigma2
        return Kernel(self.kernel, gamma=float(gamma), degree=int(self.degree))

    def _scorer(self) -> Scorer:
        score = KernelExpansion(self._kernel(), self.support_, self.dual_coef_)
        if self.levels == "binary" or len(self.thresholds_) == 0:
            return score
        return Ordinal(score, self.thresholds_, self.classes_)

    def _begin_with(self, classes: FloatArray) -> FloatArray:
        """Set the grades; returns the thresholds to start from (none for binary levels)."""
        if self.levels == "ordinal" and len(classes) > MOST_LEVELS:
            raise DataError(
                f"{type(self).__name__}(levels='ordinal'): y has {len(classes)} different grades, "
                f"at most {MOST_LEVELS} are taken. Cut y into fewer grades first."
            )
        self.classes_ = classes
        return np.zeros(len(classes) - 1 if self.levels == "ordinal" and len(classes) else 0)

    def _passes(self, feedback: Feedback) -> Iterator[Visits]:
        visits = Visits.of(feedback, self.classes_)
        rng = check_random_state(self.random_state) if self.shuffle else None
        for _ in range(self.n_passes):
            yield visits if rng is None else visits.take(rng.permutation(len(visits)))
