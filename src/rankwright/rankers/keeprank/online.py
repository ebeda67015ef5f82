"""KeepRank online: only the coefficient of the present row changes, so it learns from a stream."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, MatrixLike, RandomState
from rankwright.data.queries import Queries
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.base import (
    Feedback,
    Grades,
    as_grades,
    stream_classes,
)
from rankwright.rankers import checks, schema
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.keeprank.base import (
    CONSTRAINTS,
    LEARNED,
    Relaxation,
    RelaxationRanker,
    RowsAndPairs,
    grades_of,
)
from rankwright.rankers.keeprank.expansion import BLOCK, Expansion
from rankwright.rankers.kernels import dense
from rankwright.rankers.schema import floats, integer, real
from rankwright.runtime import exclusive


class OnlineKeepRank(RelaxationRanker):
    r"""Online KeepRank: functional gradient descent, one row at a time, with a sparse expansion.

    A row p with label :math:`y_p = \pm 1` that lacks the margin, :math:`y_p f(x_p) \le c`, changes
    only its own coefficient:

    .. math:: \alpha_p \leftarrow \alpha_p + \eta\, (c - y_p f(x_p))\, y_p / K(x_p, x_p).

    Rows that keep the margin are not stored. A ``budget`` limits the rows stored: beyond it the one
    with the smallest weight, :math:`|\alpha_s| \sqrt{K(x_s, x_s)}`, is dropped.

    Rows are scored in blocks against the rows stored before the block, by one matrix product. The
    pass over a block then adds the kernels among its own rows. The result is the same as for one
    row at a time (up to rounding), at a fraction of the cost. The kernel matrix of the training
    rows is never held in memory.

    Parameters
    ----------
    kernel, gamma, degree, margin, learning_rate, levels, average : see :class:`KeepRank`
    shuffle, random_state, normalize, early_stopping : see :class:`KeepRank`
    max_iter : int, default 1
        Number of passes of ``fit`` over the rows.
    budget : int or None, default None
        Maximum number of stored rows. With ``average`` the mean is taken over the rows still
        stored.

    Attributes
    ----------
    support_ : (n_support, n_features) array, the rows stored
    dual_coef_ : (n_support,) array, their coefficients (the means, with ``average``)
    classes_, thresholds_, validation_, best_iteration_ : see :class:`KeepRank`
    error_ : float
        Mean squared violation of the margin, before each update, over all examples.
    n_violations_ : int
    n_seen_ : float
        Examples (by weight).
    last_dual_coef_, drift_, last_thresholds_, drift_thresholds_, unit_
        What ``partial_fit`` needs to continue: the last coefficients, the running sums behind the
        means, and K(x, x) of the first row, the unit of length of thresholds.

    Examples
    --------
    >>> stream = OnlineKeepRank(gamma=1.0, learning_rate=0.5)
    >>> for _ in range(30):
    ...     stream = stream.partial_fit([[0.0], [1.0], [2.0]], [0, 1, 0], classes=[0, 1])
    >>> (stream.decision_function([[0.0], [1.0], [2.0]]) > 0).tolist()
    [False, True, False]
    """

    __metadata_request__partial_fit: ClassVar = {"qid": True}

    _constraints: ClassVar = {
        **CONSTRAINTS,
        "budget": schema.optional(schema.at_least(1)),
    }
    _learned: ClassVar = {
        **LEARNED,
        "n_violations_": integer(low=0),
        "n_seen_": real(low=0.0),
        "unit_": real(low=0.0),
        "last_dual_coef_": floats("n_support"),
        "drift_": floats("n_support"),
        "last_thresholds_": floats("n_thresholds"),
        "drift_thresholds_": floats("n_thresholds"),
    }
    _chunks_exact: ClassVar = False  # other blocks sum in another order

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        gamma: float = 0.5,
        degree: int = 2,
        margin: float = 1.0,
        learning_rate: float = 0.1,
        max_iter: int = 1,
        levels: str = "binary",
        average: bool = True,
        budget: int | None = None,
        shuffle: bool = False,
        random_state: RandomState = None,
        normalize: str | None = None,
        early_stopping: EarlyStopping | bool | int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.margin = margin
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.levels = levels
        self.average = average
        self.budget = budget
        self.shuffle = shuffle
        self.random_state = random_state
        self.normalize = normalize
        self.early_stopping = early_stopping

    @exclusive
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
    ) -> Self:
        """Update the model with more rows, one pass, in the order given.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades
        classes : all grades that may occur in the stream, at the first call; by default those in
            ``y``. With ``levels="binary"`` the lowest grade is not relevant.
        qid : (n_items,) query ids, for ``normalize="query"``: a call must then contain whole
            queries
        """
        self._check_parameters()
        first = not hasattr(self, "classes_")
        X, y = self._validated(X, y, reset=first)
        values = as_grades(y, "y")
        declared = stream_classes(values, classes, None if first else self.classes_)
        if first:
            self.n_queries_in_ = 1
            self._begin(declared)
            if len(self.classes_) < 2:
                warnings.warn(
                    f"{type(self).__name__}: there is only one grade, so there is no order to "
                    "learn. On a stream, declare all grades: partial_fit(X, y, classes=...).",
                    DegenerateDataWarning,
                    stacklevel=2,
                )
        X = self._scaled(X, Queries.from_ids(qid, X.shape[0]))
        examples = RowsAndPairs.of(Grades(values), self.classes_)
        for _ in self._stream(dense(X), [examples]):
            pass
        return self

    def _advice_for_many_rows(self) -> str | None:
        return "Set a budget, for example budget=1000." if self.budget is None else None

    def _passes(self, rows: FloatArray, feedback: Feedback) -> Iterator[None]:
        self._begin(grades_of(feedback))
        if isinstance(feedback, Grades):
            checks.warn_of_sorted_grades(self, feedback.y)
        checks.warn_of_scales(self, rows)
        return self._stream(rows, self._orders(feedback))

    def _begin(self, classes: FloatArray) -> None:
        self.last_thresholds_ = self._begin_with(classes)
        self.drift_thresholds_ = np.zeros(len(self.last_thresholds_))
        self.support_ = np.zeros((0, self.n_features_in_))
        self.last_dual_coef_, self.drift_ = np.zeros(0), np.zeros(0)
        self.n_seen_, self.n_violations_, self.error_, self.unit_ = 0.0, 0, 0.0, 0.0

    def _stream(self, rows: FloatArray, passes: Iterable[RowsAndPairs]) -> Iterator[None]:
        relaxation = Relaxation(
            self.last_thresholds_, self.drift_thresholds_, self.n_seen_, self.unit_
        )
        relaxation.squares, relaxation.n_violations = self.error_ * self.n_seen_, self.n_violations_
        expansion = Expansion(
            self._kernel(), (self.support_, self.last_dual_coef_, self.drift_), rows, self.budget
        )
        for examples in passes:
            for members, block in examples.blocks(BLOCK):
                expansion.learn(members, block, relaxation, self._settings())
            self.support_, self.last_dual_coef_, self.drift_ = expansion.state()
            self.last_thresholds_ = relaxation.thresholds.copy()
            self.drift_thresholds_ = relaxation.drift.copy()
            self.n_seen_, self.unit_ = float(relaxation.clock), float(relaxation.unit)
            self.n_violations_ = relaxation.n_violations
            self.error_ = float(relaxation.squares / self.n_seen_) if self.n_seen_ else 0.0
            self.thresholds_ = relaxation.final_thresholds(self.average)
            late = self.drift_ / self.n_seen_ if self.average and self.n_seen_ else 0.0
            self.dual_coef_ = self.last_dual_coef_ - late
            yield
