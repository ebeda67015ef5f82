"""Ordinal machines: one function with thresholds, of large margins or of proportional odds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, Matrix, MatrixLike
from rankwright.exceptions import DataError, ParameterError
from rankwright.feedback.base import Feedback, Grades
from rankwright.rankers import schema
from rankwright.rankers.gradient.newton import Minimum, solve
from rankwright.rankers.gradient.ordinal_losses import Grading, MarginLosses, OddsLosses, sigmoid
from rankwright.rankers.gradient.ranksvm import KernelMachine
from rankwright.scoring.base import Scorer
from rankwright.scoring.ordinal import Ordinal, grade_probabilities

MOST_GRADES = 1000
LEAST = 1e-3  # of the most that an objective could be: the scale of tol for sums of margins
ROUGH = 0.1  # tol of the first tries for sums of margins
SUM_OF_MARGINS = (10.0, 5.0, 2.0, 1.5, 1.2, 1.05)  # values of C that are tried in sequence


class OrdinalMachine(KernelMachine):
    """A kernel machine whose score is compared with thresholds; all queries share them."""

    _learned: ClassVar = {
        **KernelMachine._learned,
        "thresholds_": schema.floats("n_thresholds"),
        "classes_": schema.floats("n_classes"),
    }
    _takes: ClassVar = (Grades,)

    thresholds_: FloatArray
    classes_: FloatArray

    def _grading(self, feedback: Feedback) -> Grading:
        assert isinstance(feedback, Grades)
        weight = feedback.row_weight if feedback.row_weight.any() else np.ones(feedback.n_rows)
        self.classes_ = np.unique(feedback.y[weight > 0]) + 0.0
        if len(self.classes_) > MOST_GRADES:
            raise DataError(
                f"{type(self).__name__}: y has {len(self.classes_)} different grades, at most "
                f"{MOST_GRADES} are supported. Bin y first, for example into ten grades of equal "
                "size: np.searchsorted(np.quantile(y, np.arange(0.1, 1, 0.1)), y)."
            )
        code = np.searchsorted(self.classes_, feedback.y)
        return Grading(np.minimum(code, len(self.classes_) - 1), weight / weight.sum())

    def _scorer(self) -> Scorer:
        return Ordinal(super()._scorer(), self.thresholds_, self.classes_)


class OrdinalSVM(OrdinalMachine):
    r"""Support vector machine for ordered grades: parallel hyperplanes with large margins.

    ``margins="fixed"`` asks for the same margin at every threshold. It minimizes

    .. math:: \tfrac12 \|w\|^2 + C \sum_r \Big(
              \operatorname{mean}_{y_i = r} \max(0, 1 - (t_r - w \cdot x_i)) +
              \operatorname{mean}_{y_i = r + 1} \max(0, 1 - (w \cdot x_i - t_r)) \Big)

    over w and ascending thresholds t. ``margins="sum"`` lets the margins differ and maximizes their
    sum. Threshold r has two edges :math:`a_r \le b_r \le a_{r+1}`, and

    .. math:: \sum_r (b_r - a_r) - C \sum_r \Big(
              \operatorname{mean}_{y_i = r} \max(0, w \cdot x_i - a_r) +
              \operatorname{mean}_{y_i = r + 1} \max(0, b_r - w \cdot x_i) \Big)

    is largest among all :math:`\|w\| \le 1`; a share of about 1 / C of the rows of each grade lies
    within or beyond its margin. The threshold is midway between the edges. Where the grades overlap
    more than that, no margin is positive, and w is 0 (the model warns that it does not rank).

    The paper sums the losses over rows. Here each grade has its mean, so that C does not depend on
    the number of rows, and rare grades count as much as frequent ones; with equally many rows of
    each grade it is the same. Only rows of the two grades next to a threshold count at it, in
    contrast to :class:`LargeMarginOrdinal`, which compares all pairs of rows.

    Parameters
    ----------
    margins : "fixed" or "sum", default "fixed"
    C : float > 0 or None, default None
        Weight of the losses; above 1 with ``margins="sum"``. None is 1 for fixed margins; for their
        sum, the first of 10, 5, 2, 1.5, 1.2 and 1.05 for which it is positive.
    kernel, gamma, degree, coef0, n_components : as in :class:`RankSVM`
    tol : float > 0, default 1e-5
        Stop when ``gap_`` is at most this fraction of the objective.
    max_iter : int, default 500
        Maximum number of Newton steps; reaching it causes a ConvergenceWarning.
    normalize : None or "query", default None
        As in :class:`RankSVM`.

    Attributes
    ----------
    thresholds_ : (n_classes - 1,) array, ascending
    margins_ : (n_classes - 1,) array
        The width of each margin in the space of the features: 2 / \|w\| with fixed margins, b - a
        for their sum.
    classes_ : (n_classes,) array, the grades
    C_ : float
        The value of C that was used.
    coef_ : (n_features,) array, or None with a kernel; of length 1 with ``margins="sum"``
    support_, support_rows_, dual_coef_, gamma_ : as in :class:`RankSVM`
    objective_, gap_ : float
        The final objective and a bound on its distance from the minimum; for ``margins="sum"`` of
        :math:`\tfrac12 \|w\|^2` minus the function above, whose minimum has the same direction.
    n_iter_ : int

    References
    ----------
    A. Shashua and A. Levin (2002), Ranking with large margin principle: two approaches.
    W. Chu and S. S. Keerthi (2005), New approaches to support vector ordinal regression (the order
    of the thresholds as a constraint).

    Examples
    --------
    >>> X = [[0.0], [1.0], [3.0], [5.0], [9.0]]
    >>> model = OrdinalSVM(C=100).fit(X, [1, 1, 2, 2, 3])
    >>> (model.thresholds_ / model.coef_).round(2), model.margins_.round(2)
    (array([2., 7.]), array([2., 2.]))
    >>> OrdinalSVM(margins="sum", C=100).fit(X, [1, 1, 2, 2, 3]).margins_.round(2)
    array([2., 4.])
    """

    _usual_grid: ClassVar = {"C": "0.1,1.0,10.0,100.0"}
    _constraints: ClassVar = {
        "margins": schema.one_of("fixed", "sum"),
        **KernelMachine._constraints,
        "C": schema.optional(schema.positive()),
    }
    _learned: ClassVar = {
        **OrdinalMachine._learned,
        "margins_": schema.floats("n_thresholds"),
        "C_": schema.real(low=0.0),
    }

    C_: float
    margins_: FloatArray

    def __init__(
        self,
        *,
        margins: str = "fixed",
        C: float | None = None,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        n_components: int | None = 1000,
        tol: float = 1e-5,
        max_iter: int = 500,
        normalize: str | None = None,
    ) -> None:
        self.margins = margins
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.margins == "sum" and self.C is not None and self.C <= 1:
            raise ParameterError(
                f"OrdinalSVM(margins='sum', C={self.C}): margins grow without bound unless C is "
                "above 1, since about 1 / C of the rows of a grade may lie beyond its margin. Use "
                "C=1.05 or more.",
                parameter="C",
            )

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        super()._fit(X, feedback)
        scores, losses = KernelMachine._scorer(self).decision_function(X), self._losses(X, feedback)
        losses.C = self.C_
        if self.margins == "fixed":
            self.thresholds_ = losses.thresholds(scores, 1e-6)
        else:
            width = 1e-6 * (float(np.ptp(scores)) or 1.0)
            edges = losses.thresholds(scores, width).reshape(-1, 2)
            self.thresholds_, self.margins_ = edges.mean(axis=1), edges[:, 1] - edges[:, 0]

    def _losses(self, X: Matrix, feedback: Feedback) -> MarginLosses:
        return MarginLosses(X, self._grading(feedback), fixed=self.margins == "fixed")

    def _minimize(self, losses: Any) -> Minimum:
        if self.margins == "sum":
            return self._minimize_sum(losses)
        self.C_ = losses.C = 1.0 if self.C is None else float(self.C)
        solution = solve(losses, loss="hinge", C=self.C_, tol=self.tol, max_iter=self.max_iter)
        length = float(np.linalg.norm(solution.coef))
        self.margins_ = np.full(len(self.classes_) - 1, 2.0 / length if length else np.inf)
        return solution

    def _minimize_sum(self, losses: Any) -> Minimum:
        def attempt(C: float, tol: float) -> Minimum:
            self.C_ = losses.C = C
            n = self.max_iter
            return solve(losses, loss="hinge", C=C, tol=tol, max_iter=n, least=LEAST)

        C = self.C
        if C is None:
            rough = ((C, attempt(C, ROUGH)) for C in SUM_OF_MARGINS)
            C = next((C for C, solution in rough if solution.objective < 0), SUM_OF_MARGINS[-1])
        solution = attempt(float(C), self.tol)
        length = float(np.linalg.norm(solution.coef)) if solution.objective < 0 else 0.0
        return replace(solution, coef=solution.coef / (length or np.inf))


class ProportionalOdds(OrdinalMachine):
    r"""Proportional odds: logistic regression for ordered grades.

    The probability of a grade of at most r is :math:`\sigma(t_r - w \cdot x)`. All thresholds t
    share the weights w, so a feature multiplies the odds at every threshold by the same factor.
    Minimizes :math:`\tfrac12 \|w\|^2 + C \cdot` (weighted mean of the negative log-likelihood).
    ``predict`` returns the median grade, which minimizes the expected rank loss.

    Parameters
    ----------
    C : float > 0, default 100.0
        Weight of the likelihood; large values approach maximum likelihood. As the loss is a mean,
        the number of rows corresponds to ``C=1`` of scikit-learn's LogisticRegression.
    kernel, gamma, degree, coef0, n_components, tol, max_iter, normalize
        As in :class:`RankSVM`.

    Attributes
    ----------
    thresholds_ : (n_classes - 1,) array, ascending
    classes_ : (n_classes,) array, the grades
    coef_ : (n_features,) array, or None with a kernel
    support_, support_rows_, dual_coef_, gamma_, objective_, gap_, n_iter_ : as in :class:`RankSVM`

    References
    ----------
    P. McCullagh (1980), Regression models for ordinal data.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> model = ProportionalOdds().fit(X, [1, 1, 2, 1, 2, 3])
    >>> model.predict([[0.0], [3.0], [9.0]])
    array([1., 2., 3.])
    >>> model.predict_proba([[3.0]]).round(2)
    array([[0.29, 0.63, 0.07]])
    """

    _usual_grid: ClassVar = {"C": "1.0,10.0,100.0,1000.0,10000.0"}
    _constraints: ClassVar = KernelMachine._constraints

    def __init__(
        self,
        *,
        C: float = 100.0,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        n_components: int | None = 1000,
        tol: float = 1e-5,
        max_iter: int = 200,
        normalize: str | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize

    def predict_proba(self, X: MatrixLike, *, qid: ArrayLike | None = None) -> FloatArray:
        """Return the probability of each grade in ``classes_``: (n_items, n_classes).

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        qid : (n_items,) query ids, needed with ``normalize="query"``
        """
        check_is_fitted(self)
        scores = self.decision_function(X, qid=qid)
        return grade_probabilities(sigmoid(scores[:, None] - self.thresholds_))

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        super()._fit(X, feedback)
        scores = KernelMachine._scorer(self).decision_function(X)
        self.thresholds_ = self._losses(X, feedback).thresholds(scores)

    def _losses(self, X: Matrix, feedback: Feedback) -> OddsLosses:
        return OddsLosses(X, self._grading(feedback))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()
        return tags
