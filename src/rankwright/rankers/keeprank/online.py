"""KeepRank online: only the coefficient of the row shown changes, so it learns from a stream."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.base import Feedback
from rankwright.feedback.grades import Grades
from rankwright.feedback.labels import as_classes, as_grades, codes_of
from rankwright.feedback.labels import check_same_classes as check_declared_again
from rankwright.rankers import schema
from rankwright.rankers.keeprank.base import (
    CONSTRAINTS,
    LEARNED,
    RelaxationRanker,
    Visits,
    Walk,
    grades_of,
)
from rankwright.rankers.keeprank.expansion import Expansion
from rankwright.rankers.kernels import dense
from rankwright.rankers.schema import floats, integer, real


class OnlineKeepRank(RelaxationRanker):
    r"""KeepRank's sparse form: the functional gradient, one row at a time.

    A row p with label :math:`y_p = \pm 1` that lacks the margin, :math:`y_p f(x_p) \le c`, changes
    only its own coefficient:

    .. math:: \alpha_p \leftarrow \alpha_p + \eta\, (c - y_p f(x_p))\, y_p / K(x_p, x_p).

    Rows that keep the margin are not stored. A ``budget`` limits the rows stored: beyond it the one
    whose coefficient weighs least, :math:`|\alpha_s| \sqrt{K(x_s, x_s)}`, is dropped.

    Rows are evaluated in blocks against the rows stored before the block, by one matrix product,
    and then walked through in order with the kernels among the block's own rows added: the result
    is that of one row at a time (up to rounding), at a fraction of the cost. No kernel matrix of
    the training rows is ever held.

    Parameters
    ----------
    kernel, sigma2, degree, margin, step, levels, average, shuffle, random_state, normalize
        As in :class:`KeepRank`.
    max_iter : int, default 1
        How often ``fit`` shows all rows.
    budget : int or None, default None
        The most rows to store. With ``average`` the mean is taken over the rows still stored.

    Attributes
    ----------
    support_ : (n_support, n_features) array, the rows stored
    dual_coef_ : (n_support,) array, their coefficients (the means, with ``average``)
    classes_, thresholds_ : as in :class:`KeepRank`
    error_ : float
        Mean squared violation of the margin, before each update, over all visits.
    n_violations_ : int
    n_seen_ : float
        Visits (by weight).
    last_dual_coef_, drift_, last_thresholds_, drift_thresholds_, unit_
        What is needed to go on: the last coefficients, the running sums behind the means, and
        K(x, x) of the first row, by which the steps of thresholds are measured.

    Examples
    --------
    >>> stream = OnlineKeepRank(sigma2=0.5, learning_rate=0.5)
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
    _chunks_exact: ClassVar = False  # blocks add up in another order

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        sigma2: float = 1.0,
        degree: int = 2,
        margin: float = 1.0,
        learning_rate: float = 0.1,
        max_iter: int = 1,
        levels: str = "binary",
        average: bool = True,
        budget: int | None = None,
        shuffle: bool = False,
        random_state: Any = None,
        normalize: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.sigma2 = sigma2
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

    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, *, qid: Any = None
    ) -> Self:
        """Show some more rows, one or a million, once each, in the order given.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades
        classes : every grade the stream may hold, at the first call; left out, the grades of the
            first call. The lowest counts as not relevant with ``levels="binary"``.
        qid : (n_items,) query ids, for ``normalize="query"``: a call must then hold whole queries
        """
        self._check_parameters()
        first = not hasattr(self, "classes_")
        X, y = self._validated(X, y, reset=first)
        values = as_grades(y, "y")
        if first:
            self.n_queries_in_ = 1
            declared = np.unique(values) if classes is None else as_classes(classes)
            codes_of(declared, values)  # refuse before anything begins
            self._forget(declared)
            if len(self.classes_) < 2:
                warnings.warn(
                    f"{type(self).__name__}: there is one single grade, hence no order to learn. "
                    "On a stream, declare all grades: partial_fit(X, y, classes=...).",
                    DegenerateDataWarning,
                    stacklevel=2,
                )
        check_declared_again(self.classes_, classes)
        codes_of(self.classes_, values)
        X = self._scaled(X, Queries.from_ids(qid, X.shape[0]))
        self._show(dense(X), [Visits.of(Grades(values), self.classes_)])
        return self

    def _fit(self, X: Any, feedback: Feedback) -> None:
        self._forget(grades_of(feedback))
        self._show(dense(X), self._passes(feedback))

    def _forget(self, classes: FloatArray) -> None:
        self.last_thresholds_ = self._begin_with(classes)
        self.drift_thresholds_ = np.zeros(len(self.last_thresholds_))
        self.support_ = np.zeros((0, self.n_features_in_))
        self.last_dual_coef_, self.drift_ = np.zeros(0), np.zeros(0)
        self.n_seen_, self.n_violations_, self.error_, self.unit_ = 0.0, 0, 0.0, 0.0

    def _show(self, rows: FloatArray, passes: Any) -> None:
        walk = Walk(
            self.last_thresholds_.copy(), self.margin, self.learning_rate,
            self.n_seen_, self.drift_thresholds_.copy(), self.unit_,
        )  # fmt: skip
        expansion = Expansion(
            self._kernel(), self.support_, self.last_dual_coef_, self.drift_, rows, self.budget
        )
        squares = self.error_ * self.n_seen_
        for visits in passes:
            for members, block in visits.blocks(expansion.block_size):
                made = expansion.show(members, block, walk)
                squares += made.squares
                self.n_violations_ += made.n_violations
        self.support_, self.last_dual_coef_, self.drift_ = expansion.kept()
        self.last_thresholds_, self.drift_thresholds_ = walk.thresholds, walk.lags
        self.n_seen_, self.unit_ = float(walk.clock), float(walk.unit)
        self.error_ = float(squares / self.n_seen_) if self.n_seen_ else 0.0
        self.thresholds_ = walk.final_thresholds(self.average)
        late = self.drift_ / self.n_seen_ if self.average and self.n_seen_ else 0.0
        self.dual_coef_ = self.last_dual_coef_ - late
