"""What KeepRank and its online form share: examples, relaxation steps, parameters, scorers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike
from rankwright.exceptions import DataError
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pairs import Pairs
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.early_stopping import EARLY_STOPPING, Validation, run_passes
from rankwright.rankers.foreign_names import explains_names
from rankwright.rankers.kernels import dense
from rankwright.rankers.schema import Learned, floats, integer, real
from rankwright.scoring.base import Scorer
from rankwright.scoring.kernel import Kernel, KernelExpansion
from rankwright.scoring.ordinal import Ordinal

MOST_LEVELS = 1000
NONE = np.zeros(0)


class RowsAndPairs(NamedTuple):
    """Graded rows and pairs of rows, in the order in which they are learned from.

    Attributes
    ----------
    upper : (n_examples,) the row; of a pair, the one that belongs above
    lower : (n_examples,) the row that belongs below it, -1 for a graded row
    code : (n_examples,) the index of the grade among all grades (not used for pairs)
    weight : (n_examples,) how often the example counts
    """

    upper: IntArray
    lower: IntArray
    code: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, feedback: Feedback, classes: FloatArray) -> RowsAndPairs:
        """Graded rows in the order of X, pairs in theirs, without those of weight zero.

        Rows of one single grade say nothing about order, and are left out too.
        """
        parts = []
        for factor, term in feedback.terms():
            if isinstance(term, Grades):
                rows, code = np.arange(len(term.y)), np.searchsorted(classes, term.y)
                weight = factor * term.row_weight * (len(classes) > 1)
                parts.append((rows, np.full(len(rows), -1), code, weight))
            elif isinstance(term, Pairs):
                code = np.zeros(term.n_pairs, np.int64)
                parts.append((term.upper, term.lower, code, factor * term.weight))
        upper, lower, code, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        examples = cls(upper, lower, code.astype(np.int64), weight)
        return examples.take(np.flatnonzero(weight > 0))

    def take(self, index: IntArray | slice) -> RowsAndPairs:
        return RowsAndPairs(
            self.upper[index], self.lower[index], self.code[index], self.weight[index]
        )

    def blocks(self, size: int) -> Iterator[tuple[IntArray, RowsAndPairs]]:
        """Blocks of examples, each with its distinct rows; its examples number those rows."""
        for start in range(0, len(self.upper), size):
            part = self.take(slice(start, start + size))
            rows, index = np.unique(np.stack([part.upper, part.lower]), return_inverse=True)
            index = index.reshape(2, -1)
            if rows[0] < 0:
                rows, index = rows[1:], index - 1
            yield rows, RowsAndPairs(index[0], index[1], part.code, part.weight)


class Stored(NamedTuple):
    """All stored rows, for a pass with a budget (0: no budget).

    Attributes
    ----------
    slot : (n_rows,) the index of each of the block's rows among the stored rows
    dual : (n_stored,) coefficients
    drift : (n_stored,) sums of step * time of the step
    sizes : (n_stored,) sqrt K(s, s)
    kernel : (n_rows, n_stored) kernel of the block's rows with the stored rows
    """

    slot: IntArray
    dual: FloatArray
    drift: FloatArray
    sizes: FloatArray
    kernel: Any
    budget: int


class Relaxation:
    """Thresholds and clock of a ranker while it learns.

    The mean over time of anything that moves in steps is its last value minus
    (sum of step * time of the step) / time: only that sum is kept, not the history.

    Attributes
    ----------
    thresholds, drift : (n_thresholds,) last values, and those sums
    clock : float, the weight of all examples so far
    unit : float, squared length of a unit of threshold; set by the first example
    squares, n_violations : sum of squared violations of the margin, and their number
    """

    def __init__(
        self, thresholds: FloatArray, drift: FloatArray, clock: float = 0.0, unit: float = 0.0
    ) -> None:
        self.thresholds, self.drift = thresholds.copy(), drift.copy()
        self.clock, self.unit = clock, unit
        self.squares, self.n_violations = 0.0, 0

    def learn(
        self,
        gram: FloatArray,
        examples: RowsAndPairs,
        scores: FloatArray,
        settings: tuple[float, float],
        stored: Stored | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Learn from one block of examples; the steps along its rows, and steps * time.

        ``scores`` are those before the block, ``settings`` are margin and learning rate.
        """
        from rankwright.rankers.keeprank import _kernels

        first, n = examples.upper[0], len(scores)
        self.unit = self.unit or float(gram[first, first]) or 1.0
        steps, lags = np.zeros(n), np.zeros(n)
        if stored is None:
            stored = Stored(np.zeros(0, np.int64), NONE, NONE, NONE, np.zeros((n, 0)), 0)
        self.clock, squares, n_violations = _kernels.relaxation_pass(
            gram, examples, (scores, steps, lags), (self.thresholds, self.drift),
            stored, (*settings, self.unit), self.clock,
        )  # fmt: skip
        self.squares += squares
        self.n_violations += n_violations
        return steps, lags

    def final_thresholds(self, average: bool) -> FloatArray:
        if not average or self.clock == 0:
            return self.thresholds.copy()
        # A mean of ordered thresholds is ordered, except for rounding.
        return np.maximum.accumulate(self.thresholds - self.drift / self.clock)


CONSTRAINTS: dict[str, schema.Constraint] = {
    "kernel": schema.one_of("rbf", "poly", "linear"),
    "gamma": schema.positive(),
    "degree": schema.at_least(1),
    "margin": schema.positive(),
    "learning_rate": schema.positive(1),
    "max_iter": schema.at_least(1),
    "levels": schema.one_of("binary", "ordinal"),
    "average": schema.boolean(),
    "shuffle": schema.boolean(),
    "random_state": schema.random_state(),
    "normalize": schema.optional(schema.one_of("query")),
    "early_stopping": EARLY_STOPPING,
}
LEARNED: dict[str, Learned] = {
    "support_": floats("n_support", "n_features"),
    "dual_coef_": floats("n_support"),
    "classes_": floats("n_classes"),
    "thresholds_": floats("n_thresholds"),
    "error_": real(low=0.0),
    "validation_": floats("n_passes", optional=True),
    "best_iteration_": integer(low=0, optional=True),
}


class RelaxationRanker(Ranker):
    """Base of KeepRank and OnlineKeepRank."""

    _family: ClassVar = "keeprank"
    _scores_as: ClassVar = "linear"
    _takes: ClassVar = (Grades, Pairs)
    _grades_as_pairs: ClassVar = False
    _sums: ClassVar = True
    _order_matters: ClassVar = True
    _iterative: ClassVar = True

    kernel: str
    gamma: float
    degree: int
    margin: float
    learning_rate: float
    max_iter: int
    levels: str
    average: bool
    shuffle: bool
    random_state: Any

    support_: FloatArray
    dual_coef_: FloatArray
    classes_: FloatArray
    thresholds_: FloatArray

    @abstractmethod
    def _passes(self, rows: FloatArray, feedback: Feedback) -> Iterator[None]:
        """Make one pass after the other; the learned attributes are set at every ``yield``."""

    @explains_names
    def fit(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        eval_set: tuple[MatrixLike, ArrayLike] | None = None,
        eval_qid: ArrayLike | None = None,
    ) -> Self:
        """Fit from scratch: make ``max_iter`` passes over the rows.

        There is no ``sample_weight``, because the update for a row depends on the rows before it,
        so copies are not interchangeable. ``fit_feedback`` with weighted ``Grades`` repeats each
        row in sequence.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix (made dense) or data frame
        y : (n_items,) grades; higher is better
        qid : (n_items,) query ids; not used in training
        eval_set : (X, y) of validation queries, for ``early_stopping`` and ``validation_``
        eval_qid : query ids of the validation rows
        """
        return super().fit(X, y, qid=qid, eval_set=eval_set, eval_qid=eval_qid)

    def _fit(self, X: Matrix, feedback: Feedback, validation: Validation | None = None) -> None:
        run_passes(self, self._passes(dense(X), feedback), validation)

    def _settings(self) -> tuple[float, float]:
        return float(self.margin), float(self.learning_rate)

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, gamma=float(self.gamma), degree=int(self.degree))

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
                f"at most {MOST_LEVELS} are supported. Bin y into fewer grades first."
            )
        self.classes_ = classes
        return np.zeros(len(classes) - 1 if self.levels == "ordinal" and len(classes) else 0)

    def _orders(self, feedback: Feedback) -> Iterator[RowsAndPairs]:
        """The examples of every pass, in random order with ``shuffle``."""
        examples = RowsAndPairs.of(feedback, self.classes_)
        rng = check_random_state(self.random_state) if self.shuffle else None
        for _ in range(self.max_iter):
            order = slice(None) if rng is None else rng.permutation(len(examples.upper))
            yield examples.take(order)


def grades_of(feedback: Feedback) -> FloatArray:
    """All grades with a weight above zero, ascending; none in a list of pairs."""
    grades = [
        term.y[term.row_weight > 0] for _, term in feedback.terms() if isinstance(term, Grades)
    ]
    return np.unique(np.concatenate([np.zeros(0), *grades]))
