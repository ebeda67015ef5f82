"""What KeepRank and its online form share: parameters, grades, and how their models score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError
from rankwright.feedback.base import Feedback
from rankwright.feedback.grades import Grades
from rankwright.feedback.pairs import Pairs
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.schema import Learned, floats, real
from rankwright.scoring.base import Scorer
from rankwright.scoring.kernel import Kernel, KernelExpansion
from rankwright.scoring.ordinal import Ordinal


@dataclass(frozen=True)
class Visits:
    """A sequence of visits.

    Attributes
    ----------
    upper : (n_visits,) the row shown
    lower : (n_visits,) the row that belongs below it, or -1 where a grade is shown
    code : (n_visits,) the grade shown, as its place among ``classes``
    weight : (n_visits,) how often the visit counts
    """

    upper: IntArray
    lower: IntArray
    code: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, feedback: Feedback, classes: FloatArray) -> Visits:
        """Graded rows in the order of X, pairs in theirs; visits of weight 0 are left out."""
        parts = []
        for factor, term in feedback.terms():
            if isinstance(term, Grades):
                weight = factor * term.row_weight
                rows, code = np.arange(len(term.y)), np.searchsorted(classes, term.y)
                parts.append((rows, np.full(len(rows), -1), code, weight))
            elif isinstance(term, Pairs):
                code = np.zeros(term.n_pairs, np.int64)
                parts.append((term.upper, term.lower, code, factor * term.weight))
        upper, lower, code, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        visits = cls(upper, lower, code.astype(np.int64), weight)
        return visits.take(np.flatnonzero(weight > 0))

    def __len__(self) -> int:
        return len(self.upper)

    def take(self, index: IntArray | slice) -> Visits:
        return Visits(self.upper[index], self.lower[index], self.code[index], self.weight[index])

    def blocks(self, size: int) -> Iterator[tuple[IntArray, Visits]]:
        """Runs of visits, each with the distinct rows it shows; its visits number those rows."""
        for start in range(0, len(self), size):
            part = self.take(slice(start, start + size))
            rows, place = np.unique(np.stack([part.upper, part.lower]), return_inverse=True)
            place = place.reshape(2, -1)
            if rows[0] < 0:
                rows, place = rows[1:], place - 1
            yield rows, Visits(place[0], place[1], part.code, part.weight)


def grades_of(feedback: Feedback) -> FloatArray:
    """All grades that occur with a weight above zero, ascending; none in a list of pairs."""
    found = [
        term.y[term.row_weight > 0] for _, term in feedback.terms() if isinstance(term, Grades)
    ]
    return np.unique(np.concatenate([np.zeros(0), *found]))


NONE = np.zeros(0)


@dataclass(frozen=True)
class Made:
    """What the visits of a block changed: steps along its rows, and steps times their time."""

    steps: FloatArray
    lags: FloatArray
    squares: float
    n_violations: int


@dataclass(frozen=True)
class Kept:
    """The rows kept so far, when there is a limit to them (see ``_kernels.relaxation_walk``)."""

    slot: IntArray
    dual: FloatArray
    drift: FloatArray
    sizes: FloatArray
    others: Any
    budget: int


@dataclass
class Walk:
    """Thresholds and time as they stand after the visits shown so far.

    The mean over time of anything that moves in steps is its last value minus
    (sum of step * time of the step) / time: so only that sum is kept, not the history.
    """

    thresholds: FloatArray
    margin: float
    step: float
    clock: float = 0.0
    lags: FloatArray = field(default_factory=lambda: NONE)
    unit: float = 0.0  # squared length of a unit of threshold; set when the first row is shown

    def __post_init__(self) -> None:
        if len(self.lags) != len(self.thresholds):
            self.lags = np.zeros(len(self.thresholds))

    def show(
        self, gram: FloatArray, visits: Visits, scores: FloatArray, kept: Kept | None = None
    ) -> Made:
        """Show the visits of one block; ``scores`` are those before the first of them."""
        from rankwright.rankers.keeprank import _kernels

        n = len(scores)
        kept = kept or Kept(np.zeros(0, np.int64), NONE, NONE, NONE, np.zeros((n, 0)), 0)
        steps, lags = np.zeros(n), np.zeros(n)
        self.clock, squares, n_violations = _kernels.relaxation_walk(
            gram, visits.upper, visits.lower, visits.code, visits.weight, kept.slot,
            scores, steps, lags, self.thresholds, self.lags,
            kept.dual, kept.drift, kept.sizes, kept.others,
            float(self.margin), float(self.step), self.unit, self.clock, kept.budget,
        )  # fmt: skip
        return Made(steps, lags, squares, n_violations)

    def final_thresholds(self, average: bool) -> FloatArray:
        if not average or self.clock == 0:
            return self.thresholds.copy()
        # A mean of ordered thresholds is ordered; only rounding could say otherwise.
        return np.maximum.accumulate(self.thresholds - self.lags / self.clock)


MOST_LEVELS = 1000

CONSTRAINTS: dict[str, schema.Constraint] = {
    "kernel": schema.one_of("rbf", "poly", "linear"),
    "sigma2": schema.positive(),
    "degree": schema.at_least(1),
    "margin": schema.positive(),
    "learning_rate": schema.positive(1),
    "max_iter": schema.at_least(1),
    "levels": schema.one_of("binary", "ordinal"),
    "average": schema.boolean(),
    "shuffle": schema.boolean(),
    "random_state": schema.random_state(),
    "normalize": schema.optional(schema.one_of("query")),
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
    max_iter: int
    levels: str
    shuffle: bool
    random_state: Any

    support_: FloatArray
    dual_coef_: FloatArray
    classes_: FloatArray
    thresholds_: FloatArray

    def fit(self, X: Any, y: ArrayLike, *, qid: Any = None) -> Self:  # type: ignore[override]
        """Forget everything, then show every row ``max_iter`` times.

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
        for _ in range(self.max_iter):
            yield visits if rng is None else visits.take(rng.permutation(len(visits)))
