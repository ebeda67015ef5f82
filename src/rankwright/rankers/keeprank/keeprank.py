"""KeepRank: a kernel perceptron with a margin, relaxed one sample at a time."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.feedback.base import Feedback
from rankwright.feedback.grades import Grades
from rankwright.rankers import schema
from rankwright.rankers.keeprank.base import (
    CONSTRAINTS,
    LEARNED,
    RelaxationRanker,
    Visits,
    Walk,
    grades_of,
)
from rankwright.rankers.keeprank.expansion import Support
from rankwright.rankers.kernels import dense
from rankwright.rankers.schema import integer

DENSE_BLOCK = 32  # products of whole kernel columns cost n_items * block per visit


class KeepRank(RelaxationRanker):
    r"""Kernel perceptron ranking in the paper's dense form.

    The score is :math:`f(x) = \sum_k \alpha_k K(x, x_k)` over all training rows. A row p with label
    :math:`y_p = \pm 1` that lacks the margin, :math:`y_p f(x_p) \le c`, moves every coefficient:

    .. math:: \alpha \leftarrow \alpha + \eta\, (c - y_p f(x_p))\, y_p\, K_p / \|K_p\|^2,

    :math:`K_p` the p-th column of the kernel matrix. Dividing by its length keeps an outlier from
    dominating; a step of :math:`\eta = 1` would meet the margin at once (and swing from pass to
    pass: small steps, averaged, are steady). The kernel matrix is computed in blocks and never
    held.

    With more than two grades, ``levels="binary"`` takes all but the lowest as relevant (as the
    paper does), ``levels="ordinal"`` learns a threshold between neighboring grades and asks every
    row to keep the margin from each of them (a threshold weighs in these steps like a
    column as long as that of the first row). Pairs (clicks) are relaxed along the difference of two
    columns until :math:`f(upper) - f(lower) \ge c`.

    Parameters
    ----------
    kernel : "rbf", "poly" or "linear", default "rbf"
        ``exp(-|a - b|^2 / (2 sigma2))``, ``(a . b / sigma2 + 1) ** degree`` or ``a . b``.
    sigma2 : float > 0, default 1.0
    degree : int, default 2
    margin : float > 0, default 1.0
    step : float, 0 < step <= 1, default 0.1
    max_iter : int, default 5
    levels : "binary" or "ordinal", default "binary"
    average : bool, default True
        Score with the mean of the coefficients over all visits, not with the last ones.
    tol : float >= 0, default 0.0
        Stop after a pass whose mean squared violation is at most this.
    shuffle : bool, default False
        Whether each pass shows the rows in random order; otherwise in the order given.
    random_state : int, RandomState or None
        Seeds the shuffling.
    normalize : None or "query", default None
        ``"query"`` scales each feature to 0 .. 1 inside the row's query, in training and when
        scoring (which then needs ``qid``); it is part of the model and of its file.

    Attributes
    ----------
    support_ : (n_support, n_features) array, the training rows
    dual_coef_ : (n_support,) array
    classes_ : (n_classes,) array, the grades (none from pairs alone)
    thresholds_ : (n_classes - 1,) array, ascending; empty for binary levels
    error_ : float
        Mean squared violation of the margin in the last pass.
    n_iter_ : int, passes made

    References
    ----------
    X. Chen, H. Wang, X. Lin (2009), Learning to rank with a novel kernel perceptron method. CIKM.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]  # good in the middle: no linear order
    >>> model = KeepRank(sigma2=0.5, max_iter=200).fit(X, [0, 1, 1, 0])
    >>> (model.decision_function(X) > 0).tolist()
    [False, True, True, False]
    """

    _constraints: ClassVar = {**CONSTRAINTS, "tol": schema.number(0.0)}
    _learned: ClassVar = {**LEARNED, "n_iter_": integer(low=0)}

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        sigma2: float = 1.0,
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
    ) -> None:
        self.kernel = kernel
        self.sigma2 = sigma2
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

    def _fit(self, X: Any, feedback: Feedback) -> None:
        rows = dense(X)
        copies = _copies(feedback, len(rows))
        support = Support.of(self._kernel(), rows, len(rows))
        walk = Walk(self._begin_with(grades_of(feedback)), self.margin, self.learning_rate)
        dual, drift = np.zeros(len(rows)), np.zeros(len(rows))
        self.n_iter_ = 0
        for visits in self._passes(feedback):
            self.n_iter_ += 1
            self.error_ = self._pass(support, visits, copies, walk, dual, drift)
            if self.error_ <= self.tol:
                break
        self.thresholds_ = walk.final_thresholds(self.average)
        if self.average and walk.clock > 0:
            dual = dual - drift / walk.clock
        used = copies > 0
        self.support_, self.dual_coef_ = rows[used], (copies * dual)[used]

    def _pass(
        self,
        support: Support,
        visits: Visits,
        copies: FloatArray,
        walk: Walk,
        dual: FloatArray,
        drift: FloatArray,
    ) -> float:
        """Show all visits once; returns the mean squared violation."""
        squares, start = 0.0, walk.clock
        alike = bool((copies == 1.0).all())
        for members, block in visits.blocks(DENSE_BLOCK):
            columns = support.block(support.table[members])
            weighted = columns if alike else columns * copies.astype(columns.dtype)
            scores = np.asarray(columns @ (copies * dual).astype(columns.dtype), dtype=np.float64)
            gram = np.asarray(weighted @ columns.T, dtype=np.float64)
            first = block.upper[0]
            walk.unit = walk.unit or float(gram[first, first]) or 1.0
            made = walk.show(gram, block, scores)
            squares += made.squares
            dual += made.steps.astype(columns.dtype) @ columns
            drift += made.lags.astype(columns.dtype) @ columns
        return squares / max(walk.clock - start, 1e-300)


def _copies(feedback: Feedback, n_items: int) -> FloatArray:
    """How many copies of each row span the model: its weight where there is one."""
    terms = list(feedback.terms())
    if len(terms) == 1 and isinstance(terms[0][1], Grades):
        return terms[0][1].row_weight
    return np.ones(n_items)
