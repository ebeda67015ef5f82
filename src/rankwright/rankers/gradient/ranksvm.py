"""RankSVM, and large-margin ordinal regression: its score cut into grades."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, Matrix
from rankwright.exceptions import ConvergenceWarning
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.losses import loss_names, weighting_names
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.rankers import kernels, schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.gradient.newton import Minimum, PairLosses, RowLosses, solve
from rankwright.rankers.gradient.pair_sums import pair_sums
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import Ordinal


class KernelMachine(Ranker):
    """A linear function, or one of a kernel, that minimizes 1/2 |w|^2 + C * (mean loss)."""

    _family: ClassVar = "gradient"
    _wants_scaled_features: ClassVar = True  # one C suits all weights only on one scale
    _scores_as: ClassVar = "linear"
    _constraints: ClassVar[Mapping[str, schema.Constraint]] = {
        "C": schema.positive(),
        **kernels.KERNEL_CONSTRAINTS,
        "n_components": schema.optional(schema.at_least(1)),
        "tol": schema.positive(),
        "max_iter": schema.at_least(1),
        "normalize": schema.optional(schema.one_of("query")),
    }
    _learned: ClassVar = {
        "coef_": schema.floats("n_features", optional=True),
        "support_": schema.floats("n_support", "n_features", optional=True),
        "support_rows_": schema.integers("n_support", low=0, optional=True),
        "dual_coef_": schema.floats("n_support", optional=True),
        "gamma_": schema.real(),
        "objective_": schema.real(),
        "gap_": schema.real(low=0.0),
        "n_iter_": schema.integer(low=0),
    }

    C: Any
    gamma: float | str
    degree: int
    coef0: float
    n_components: int | None
    tol: float
    max_iter: int

    coef_: FloatArray | None
    support_: Any
    support_rows_: Any
    dual_coef_: Any

    @abstractmethod
    def _losses(self, X: Matrix, feedback: Feedback) -> PairLosses:
        """The losses of rows that are multiplied with the weights."""

    def _minimize(self, losses: PairLosses) -> Minimum:
        return solve(losses, loss="squared_hinge", C=self.C, tol=self.tol, max_iter=self.max_iter)

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        self.gamma_ = 1.0
        self.support_ = self.support_rows_ = self.dual_coef_ = None
        if self.kernel == "linear":
            self._keep_solution(self._minimize(self._losses(X, feedback)))
            return
        weight = feedback.row_weight if isinstance(feedback, Grades) else None
        self.gamma_ = kernels.resolve_gamma(self.gamma, X, weight)
        gram = self._gram()
        gram.check_square(X)
        landmarks = kernels.pick_landmarks(gram, X, self.n_components)
        solution = self._minimize(self._losses(landmarks.features, feedback))
        self._keep_solution(solution)
        dual = landmarks.dual(solution.coef)
        used = dual != 0.0
        self.support_rows_, self.dual_coef_ = landmarks.rows[used], dual[used]
        self.coef_, self.support_ = None, kernels.dense(X[self.support_rows_])

    def _may_drop_columns(self) -> bool:
        return bool(self.kernel == "linear")

    def _keep_solution(self, solution: Minimum) -> None:
        self.coef_ = solution.coef
        self.objective_, self.gap_, self.n_iter_ = solution.objective, solution.gap, solution.n_iter
        if not solution.converged:
            warnings.warn(
                f"{type(self).__name__} stopped after {self.n_iter_} Newton steps with a gap of "
                f"{self.gap_:.2g} (objective {self.objective_:.4g}). Increase max_iter or tol, or "
                "scale the features.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _gram(self) -> kernels.Gram:
        return kernels.Gram.of(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)

    def _scorer(self) -> Scorer:
        if self.coef_ is not None:
            return Linear(self.coef_)
        return self._gram().expansion(
            self.support_, self.support_rows_, self.dual_coef_, self.n_features_in_
        )


class RankSVM(KernelMachine):
    r"""Ranking support vector machine: a margin of 1 between rows of different grades.

    Minimizes :math:`\frac12 \|w\|^2 + C \cdot` (weighted mean over the pairs of their loss), where
    a pair (i above j) costs :math:`\max(0, 1 - (s_i - s_j))`, or its square. Pairs are not
    enumerated: value, gradient and curvature cost O(n log n) by sorting the scores of each query,
    for any number of grades. The solver is truncated Newton; ``gap_`` bounds the distance of the
    objective from its minimum.

    Parameters
    ----------
    C : float > 0, default 1.0
        Weight of the losses relative to the norm.
    kernel : "linear", "poly", "rbf", "precomputed" or a function, default "linear"
    gamma, degree, coef0 : of the kernel, as in scikit-learn
    n_components : int or None, default 1000
        With a kernel: at most this many training rows, chosen greedily, span the model (Nystroem
        approximation; exact up to this many rows). None uses all rows, at a cost of O(n_items^3).
    loss : "squared_hinge" or "hinge", default "squared_hinge"
    weighting : None or "NDCG", default None
        ``"NDCG"`` weights a pair by the loss of NDCG if its two rows are swapped in the ideal order
        (rows of one grade share the mean discount of their positions).
    tol : float > 0, default 1e-5
        Stop when ``gap_`` is at most this fraction of the objective.
    max_iter : int, default 200
        Maximum number of Newton steps; reaching it causes a ConvergenceWarning.
    normalize : None or "query", default None
        ``"query"`` scales each feature to 0 .. 1 within its query, also in scoring, which then
        needs ``qid``; it is saved with the model.

    Attributes
    ----------
    coef_ : (n_features,) array, or None with a kernel
    support_, support_rows_, dual_coef_ : the training rows that span the model, their row numbers
        and kernel weights; None for ``kernel="linear"``
    gamma_ : float
    objective_, gap_ : float
        The final objective, and a bound on its distance from the minimum.
    n_iter_ : int

    References
    ----------
    T. Joachims (2002), Optimizing search engines using clickthrough data.
    O. Chapelle and S. S. Keerthi (2010), Efficient algorithms for ranking with SVMs.

    Examples
    --------
    >>> X = [[1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [7.0, 1.0], [8.0, 1.0]]
    >>> model = RankSVM(C=100).fit(X, [0, 1, 2, 0, 1], qid=["a", "a", "a", "b", "b"])
    >>> model.coef_.round(2)
    array([0.99, 0.  ])
    >>> model.gap_ <= 1e-5 * model.objective_
    True
    """

    _shard_fit: ClassVar = "rankwright.distributed.linear:fit_ranksvm"
    _usual_grid: ClassVar = {"C": "0.001,0.01,0.1,1.0,10.0"}
    _constraints: ClassVar = {
        **KernelMachine._constraints,
        "loss": schema.one_of(*loss_names("squared_hinge", "hinge")),
        "weighting": schema.optional(schema.one_of(*weighting_names("NDCG"))),
    }
    _learned: ClassVar = {**KernelMachine._learned, "objective_": schema.real(low=0.0)}
    _takes: ClassVar[tuple[type[Feedback], ...]] = (Grades, Bipartite, Pairs)
    _sums: ClassVar = True

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        n_components: int | None = 1000,
        loss: str = "squared_hinge",
        weighting: str | None = None,
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
        self.loss = loss
        self.weighting = weighting
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize

    def _losses(self, X: Matrix, feedback: Feedback) -> PairLosses:
        return RowLosses(X, pair_sums(feedback, X.shape[0], self.weighting))

    def _minimize(self, losses: PairLosses) -> Minimum:
        return solve(losses, loss=self.loss, C=self.C, tol=self.tol, max_iter=self.max_iter)


class LargeMarginOrdinal(RankSVM):
    """RankSVM with thresholds between grades, so that it predicts grades.

    The score is that of :class:`RankSVM`. The boundary between two neighboring grades lies midway
    between their closest scores or, if they overlap, where the weight of misclassified rows is
    smallest. Together the boundaries minimize the rank loss on the training rows. With queries,
    pairs are compared within each query, and all queries share the boundaries.

    Parameters
    ----------
    C, kernel, gamma, degree, coef0, n_components, loss, weighting, tol, max_iter, normalize
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
        "thresholds_": schema.floats("n_thresholds"),
        "classes_": schema.floats("n_classes"),
    }
    _takes: ClassVar = (Grades,)
    _sums: ClassVar = False

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
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
    distinct, index = np.unique(scores, return_inverse=True)
    # Cut t lies below distinct[t]; half a margin beyond the ends everything is on one side.
    edges = np.concatenate([[distinct[0] - 0.5], distinct, [distinct[-1] + 0.5]])
    cuts, room = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    cuts[0], cuts[-1] = edges[0], edges[-1]
    room[0] = room[-1] = 0.0
    boundaries = []
    for r in range(int(code.max(initial=0))):
        high = code > r
        above = np.bincount(index, weight * high, len(distinct))
        below = np.bincount(index, weight * ~high, len(distinct))
        wrong_above = np.concatenate([[0.0], np.cumsum(above)])  # high rows under the cut
        wrong_below = np.concatenate([np.cumsum(below[::-1])[::-1], [0.0]])
        wrong = wrong_above + wrong_below
        least = wrong <= wrong.min() * (1 + 1e-12)
        boundaries.append(cuts[np.argmax(np.where(least, room, -1.0))])
    return np.maximum.accumulate(np.array(boundaries)) if boundaries else np.zeros(0)
