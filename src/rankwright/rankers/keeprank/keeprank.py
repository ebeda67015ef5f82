"""KeepRank: a kernel perceptron with a margin, relaxed one sample at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.feedback.base import Feedback, Grades
from rankwright.rankers import schema
from rankwright.rankers.early_stopping import Validation
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
from rankwright.scoring.kernel import KernelExpansion

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
        Keep at most this many support rows: after training, the scores are approximated by kernels
        around so many training rows (chosen by pivoted Cholesky, weighted by least squares over all
        of them). Scoring a row then takes ``n_components`` kernel values instead of one per
        training row. None keeps the model as trained.

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
        random_state: Any = None,
        normalize: str | None = None,
        early_stopping: Any = None,
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

    def _fit(self, X: Any, feedback: Feedback, validation: Validation | None = None) -> None:
        super()._fit(X, feedback, validation)
        if self.n_components is not None and self.n_components < len(self.support_):
            self._compress(int(self.n_components))

    def _compress(self, n_components: int) -> None:
        """Approximate the scores of the training rows with kernels around some of them."""
        scores = KernelExpansion(self._kernel(), self.support_, self.dual_coef_)
        landmarks = pick_landmarks(Gram(self._kernel()), self.support_, n_components)
        target = scores.decision_function(self.support_)
        coef: Any = np.linalg.lstsq(landmarks.features, target, rcond=None)[0]
        self.dual_coef_ = landmarks.dual(coef)
        self.support_ = self.support_[landmarks.rows]

    def _advice_for_many_rows(self) -> str | None:
        return "Use OnlineKeepRank with a budget, for example budget=1000, or fewer rows."

    def _passes(self, rows: FloatArray, feedback: Feedback) -> Iterator[None]:
        copies = _copies(feedback, len(rows))
        used, alike = copies > 0, bool((copies == 1.0).all())
        table = SupportTable.of(self._kernel(), rows, len(rows), rows[:0])
        thresholds = self._begin_with(grades_of(feedback))
        relaxation = Relaxation(thresholds, thresholds)
        dual, drift = np.zeros(len(rows)), np.zeros(len(rows))
        self.support_, self.n_iter_ = rows[used], 0
        for examples in self._orders(feedback):
            relaxation.squares, start = 0.0, relaxation.clock
            for members, block in examples.blocks(BLOCK):
                columns = table.kernel_with(table.rows[members])
                weighted = columns if alike else columns * copies.astype(columns.dtype)
                scores = np.asarray(columns @ (copies * dual).astype(columns.dtype), np.float64)
                gram = np.asarray(weighted @ columns.T, dtype=np.float64)
                steps, lags = relaxation.learn(gram, block, scores, self._settings())
                dual += steps.astype(columns.dtype) @ columns
                drift += lags.astype(columns.dtype) @ columns
            self.n_iter_ += 1
            self.error_ = relaxation.squares / max(relaxation.clock - start, 1e-300)
            averaged = self.average and relaxation.clock > 0
            final = dual - drift / relaxation.clock if averaged else dual
            self.dual_coef_ = (copies * final)[used]
            self.thresholds_ = relaxation.final_thresholds(self.average)
            yield
            if self.error_ <= self.tol:
                return


def _copies(feedback: Feedback, n_items: int) -> FloatArray:
    """How many copies of each row span the model: its weight if it has one."""
    terms = list(feedback.terms())
    if len(terms) == 1 and isinstance(terms[0][1], Grades):
        return terms[0][1].row_weight
    return np.ones(n_items)
