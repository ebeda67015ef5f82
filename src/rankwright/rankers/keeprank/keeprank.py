"""KeepRank: a kernel perceptron with a margin, relaxed one sample at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray, RandomState
from rankwright.feedback.base import Feedback, Grades
from rankwright.rankers import schema
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.keeprank.base import (
    CONSTRAINTS,
    LEARNED,
    Relaxation,
    RelaxationRanker,
    grades_of,
)
from rankwright.rankers.keeprank.expansion import SupportTable
from rankwright.rankers.kernels import Gram, pick_landmarks
from rankwright.rankers.schema import integer
from rankwright.scoring.kernel import Kernel

BLOCK = 32  # products of whole kernel columns cost n_items * BLOCK per example


class KeepRank(RelaxationRanker):
    r"""KeepRank (kernel perceptron ranking), in the dense form of the paper.

    The score is :math:`f(x) = \sum_k \alpha_k K(x, x_k)` over all training rows. A row p with label
    :math:`y_p = \pm 1` that lacks the margin, :math:`y_p f(x_p) \le c`, moves every coefficient:

    .. math:: \alpha \leftarrow \alpha + \eta\, (c - y_p f(x_p))\, y_p\, K_p / \|K_p\|^2,

    with :math:`K_p` the p-th column of the kernel matrix. Dividing by its length keeps an outlier
    from dominating; a step of :math:`\eta = 1` would satisfy the margin at once but oscillate
    between passes, while small averaged steps are stable. The kernel matrix is computed in blocks
    and never held in memory.

    With more than two grades, ``levels="binary"`` treats all but the lowest as relevant (as in the
    paper), ``levels="ordinal"`` learns a threshold between neighboring grades and requires
    every row to keep the margin from each of them (in these steps a threshold counts like a column
    as long as that of the first row). Pairs (clicks) are relaxed along the difference of two
    columns until :math:`f(upper) - f(lower) \ge c`.

    Parameters
    ----------
    kernel : "rbf", "poly" or "linear", default "rbf"
        ``exp(-gamma |a - b|^2)``, ``(gamma a . b + 1) ** degree`` or ``a . b``.
    gamma : float > 0, default 0.5
        The paper's :math:`\sigma^2` is 1 / (2 gamma) for "rbf" and 1 / gamma for "poly".
    degree : int, default 2
    margin : float > 0, default 1.0
    learning_rate : float, 0 < learning_rate <= 1, default 0.1
    max_iter : int, default 5
    levels : "binary" or "ordinal", default "binary"
    average : bool, default True
        Score with the mean of the coefficients over all examples, not with the last ones.
    tol : float >= 0, default 0.0
        Stop after a pass whose mean squared violation is at most this.
    shuffle : bool, default False
        Whether to shuffle the rows before each pass.
    random_state : int, RandomState or None
        Seeds the shuffling.
    normalize : None or "query", default None
        "query" scales each feature to 0 .. 1 within the row's query, in training and in scoring
        (which then needs ``qid``); it is saved with the model.
    early_stopping : bool, int, EarlyStopping or None, default None
        Keep the best pass on validation queries. An int is the number of passes without
        improvement after which to stop.
    n_components : int >= 1 or None, default None
        Approximate the kernel matrix by so many of the training rows (Nyström's method; rows are
        picked by pivoted Cholesky). Training then takes time in proportion to the rows and not to
        their square, and the model has ``n_components`` support rows. None computes every value.

    Attributes
    ----------
    support_ : (n_support, n_features) array, the training rows, or those that were kept
    dual_coef_ : (n_support,) array
    classes_ : (n_classes,) array, the grades (none from pairs alone)
    thresholds_ : (n_classes - 1,) array, ascending; empty for binary levels
    error_ : float
        Mean squared violation of the margin in the last pass.
    n_iter_ : int, passes made
    validation_ : (n_passes,) array or None, the measure on the validation queries after each pass
    best_iteration_ : int, the pass that was kept

    References
    ----------
    X. Chen, H. Wang, X. Lin (2009), Learning to rank with a novel kernel perceptron method. CIKM.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]  # good in the middle: no linear order
    >>> model = KeepRank(gamma=1.0, max_iter=200).fit(X, [0, 1, 1, 0])
    >>> (model.decision_function(X) > 0).tolist()
    [False, True, True, False]
    """

    _constraints: ClassVar = {
        **CONSTRAINTS,
        "tol": schema.number(0.0),
        "n_components": schema.optional(schema.at_least(1)),
    }
    _learned: ClassVar = {**LEARNED, "n_iter_": integer(low=0)}

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        gamma: float = 0.5,
        degree: int = 2,
        margin: float = 1.0,
        learning_rate: float = 0.1,
        max_iter: int = 5,
        levels: str = "binary",
        average: bool = True,
        tol: float = 0.0,
        shuffle: bool = False,
        random_state: RandomState = None,
        normalize: str | None = None,
        early_stopping: EarlyStopping | bool | int | None = None,
        n_components: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.margin = margin
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.levels = levels
        self.average = average
        self.tol = tol
        self.shuffle = shuffle
        self.random_state = random_state
        self.normalize = normalize
        self.early_stopping = early_stopping
        self.n_components = n_components

    def _advice_for_many_rows(self) -> str | None:
        if self.n_components is not None:
            return None
        return "Set n_components, for example n_components=200, or use fewer rows."

    def _passes(self, rows: FloatArray, feedback: Feedback) -> Iterator[None]:
        copies = _copies(feedback, len(rows))
        thresholds = self._begin_with(grades_of(feedback))
        relaxation = Relaxation(thresholds, thresholds)
        model: _Columns | _LandmarkColumns
        if self.n_components is None:
            model = _Columns(self._kernel(), rows, copies)
        else:
            model = _LandmarkColumns(self._kernel(), rows, copies, int(self.n_components))
        self.n_iter_ = 0
        for examples in self._orders(feedback):
            relaxation.squares, start = 0.0, relaxation.clock
            for members, block in examples.blocks(BLOCK):
                gram, scores = model.products(members)
                model.move(*relaxation.learn(gram, block, scores, self._settings()))
            self.n_iter_ += 1
            self.error_ = relaxation.squares / max(relaxation.clock - start, 1e-300)
            averaged = self.average and relaxation.clock > 0
            clock = relaxation.clock if averaged else None
            self.support_, self.dual_coef_ = model.expansion(clock)
            self.thresholds_ = relaxation.final_thresholds(self.average)
            yield
            if self.error_ <= self.tol:
                return


class _Columns:
    """The coefficients of all rows, moved along whole columns of the kernel matrix."""

    def __init__(self, kernel: Kernel, rows: FloatArray, copies: FloatArray) -> None:
        self._rows, self._copies = rows, copies
        self._alike = bool((copies == 1.0).all())
        self._table = SupportTable.of(kernel, rows, len(rows), rows[:0])
        self._dual, self._drift = np.zeros(len(rows)), np.zeros(len(rows))
        self._columns: Any = None

    def products(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        """Products of the columns of these rows with each other, and the scores of the rows."""
        self._columns = columns = self._table.kernel_with(self._table.rows[members])
        weighted = columns if self._alike else columns * self._copies.astype(columns.dtype)
        coef = (self._copies * self._dual).astype(columns.dtype)
        gram = np.asarray(weighted @ columns.T, dtype=np.float64)
        return gram, np.asarray(columns @ coef, np.float64)

    def move(self, steps: FloatArray, lags: FloatArray) -> None:
        """Add so much of each of the columns; ``lags`` belong to the mean over time."""
        self._dual += steps.astype(self._columns.dtype) @ self._columns
        self._drift += lags.astype(self._columns.dtype) @ self._columns

    def expansion(self, clock: float | None) -> tuple[FloatArray, FloatArray]:
        """Support rows and their coefficients; with a clock the mean until then."""
        final = self._dual if clock is None else self._dual - self._drift / clock
        used = self._copies > 0
        return self._rows[used], (self._copies * final)[used]


class _LandmarkColumns:
    """The same in the coordinates of some rows, whose products are nearly the kernel matrix.

    With features F, kernel matrix F F' and copies C, a column is F f_p. Products of columns are
    f_p' F' C F f_q, scores F w for w = F' C alpha, and a step along a column adds F' C F f_p to w.
    """

    def __init__(self, kernel: Kernel, rows: FloatArray, copies: FloatArray, n: int) -> None:
        self._landmarks = pick_landmarks(Gram(kernel), rows, n)
        self._support = rows[self._landmarks.rows]
        features = self._landmarks.features
        self._along = features @ (features.T @ (copies[:, None] * features))
        self._coef, self._drift = np.zeros((2, features.shape[1]))
        self._members = np.zeros(0, np.int64)

    def products(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        self._members = members
        features = self._landmarks.features[members]
        return self._along[members] @ features.T, features @ self._coef

    def move(self, steps: FloatArray, lags: FloatArray) -> None:
        self._coef += steps @ self._along[self._members]
        self._drift += lags @ self._along[self._members]

    def expansion(self, clock: float | None) -> tuple[FloatArray, FloatArray]:
        coef = self._coef if clock is None else self._coef - self._drift / clock
        return self._support, self._landmarks.dual(coef)


def _copies(feedback: Feedback, n_items: int) -> FloatArray:
    """How many copies of each row span the model: its weight if it has one."""
    terms = list(feedback.terms())
    if len(terms) == 1 and isinstance(terms[0][1], Grades):
        return terms[0][1].row_weight
    return np.ones(n_items)
