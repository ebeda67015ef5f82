"""SVRank: fit differences of grades within epsilon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import IntArray, Matrix, RandomState
from rankwright.exceptions import ParameterError
from rankwright.feedback.base import Feedback, Grades
from rankwright.rankers import schema
from rankwright.rankers.magnitude.base import MagnitudeRanker
from rankwright.rankers.magnitude.leave_out import PairErrorEstimate
from rankwright.rankers.magnitude.sample import WeightedRows
from rankwright.rankers.magnitude.solvers import InsensitiveCost, fit_insensitive
from rankwright.rankers.schema import real


class SVRank(MagnitudeRanker):
    r"""Support vector ranking: fit differences of grades within each query up to a tolerance.

    Minimizes :math:`\|w\|^2 + \frac Cm \sum_q \frac1{m_q} \sum_{i,j \in q} \max(0, |(h(x_j) -
    h(x_i)) - (y_j - y_i)| - \epsilon)^n`: errors up to epsilon cost nothing. Predicted differences
    are in the units of y, which may be any real numbers. The paper solves a quadratic program over
    all pairs; here Newton's method needs O(m log m) for loss, gradient and curvature. For n = 1
    the loss is smoothed, less and less, until the duality gap of the problem itself (not of the
    smoothed one) is below ``tol``.

    Parameters
    ----------
    C : float > 0, default 1.0
        Weight of the loss.
    epsilon : float >= 0, default 0.1
        Tolerance, in the units of y.
    power : 1 or 2, default 1
        n, the exponent of what exceeds the tolerance.
    kernel, gamma, degree, coef0, n_components, random_state : as in :class:`rankwright.MPRank`
    solver : "auto", "primal", "dual" or "nystroem", default "auto"
        ``primal`` solves for the weights of the features (linear kernel), ``dual`` holds the Gram
        matrix (8 m^2 bytes), ``nystroem`` its features (8 m n_components bytes). ``auto`` chooses
        as in MPRank.
    tol : float > 0, default 1e-4
        Stop when the duality gap is below this fraction of the objective.
    max_iter : int, default 500
        Maximum number of Newton steps.

    Attributes
    ----------
    objective_, gap_ : float
        The objective F, and a bound on how far it is above its minimum.
    coef_, support_, dual_coef_, intercept_, cost_, mass_, kappa_, n_iter_ : as in MPRank

    References
    ----------
    Cortes, Mohri, Rastogi (2007), An alternative ranking problem for search engines, and its
    extended version, Magnitude-preserving ranking algorithms.

    Examples
    --------
    >>> model = SVRank(C=1e4, epsilon=0.0).fit([[0.0], [1.0], [3.0]], [10, 12, 16])
    >>> model.predict_gap([[3.0]], [[0.0]]).round(3)
    array([6.])
    """

    _constraints: ClassVar = {
        **MagnitudeRanker._constraints,
        "epsilon": schema.number(0.0),
        "power": schema.one_of(1, 2),
        "solver": schema.one_of("auto", "primal", "dual", "nystroem"),
    }
    _learned: ClassVar = {
        **MagnitudeRanker._learned,
        "objective_": real(low=0.0),
        "gap_": real(low=0.0),
    }

    _training: tuple[Any, Grades] | None = None

    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        power: int = 1,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        solver: str = "auto",
        n_components: int = 1000,
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: RandomState = None,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.power = power
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        assert isinstance(feedback, Grades)
        problem = self._problem(X, WeightedRows.of(feedback), self.gamma)
        cost = InsensitiveCost(problem.sample, self.C, self.epsilon, self.power)
        fit_insensitive(self, problem, self._choose_solver(problem), cost)
        self._training = (X, feedback)

    def leave_pair_out(self, *, refit: bool = False, average: str = "pairs") -> float:
        """Compute the mean cost of a pair under the model trained without its two rows.

        Unlike the squared loss of MPRank, this one has no closed form: every pair is a fit. For
        more than some fifty rows use ``estimate_leave_pair_out``. The model needs the rows of the
        last ``fit`` for this, of weight 1; copies and model files do not contain them.

        Parameters
        ----------
        refit : whether to keep C constant instead of C / m, as in MPRank
        average : "pairs" (default) or "queries", which get equal weight
        """
        if average not in ("pairs", "queries"):
            raise ParameterError(
                f"average={average!r}: it must be 'pairs' or 'queries'.", parameter="average"
            )
        pairs, query = self._pairs_within_queries("leave_pair_out")
        costs = np.array([self._cost_without(i, j, refit) for i, j in pairs])
        weight = np.ones(len(query)) if average == "pairs" else 1.0 / np.bincount(query)[query]
        return float(np.average(costs, weights=weight)) if len(costs) else 0.0

    def estimate_leave_pair_out(
        self, n_pairs: int = 100, *, refit: bool = False, random_state: RandomState = None
    ) -> PairErrorEstimate:
        """Estimate ``leave_pair_out`` from so many random pairs, with a standard error."""
        schema.at_least(2).check("estimate_leave_pair_out", "n_pairs", n_pairs)
        pairs, _ = self._pairs_within_queries("estimate_leave_pair_out")
        if len(pairs) > n_pairs:
            rng = check_random_state(random_state)
            pairs = pairs[np.sort(rng.choice(len(pairs), n_pairs, replace=False))]
        costs = np.array([self._cost_without(i, j, refit) for i, j in pairs])
        spread = float(costs.std(ddof=1)) if len(costs) > 1 else 0.0
        return PairErrorEstimate(float(costs.mean()), spread / np.sqrt(max(len(costs), 1)))

    def _pairs_within_queries(self, method: str) -> tuple[IntArray, IntArray]:
        """(n_pairs, 2) rows, and the query of each pair."""
        check_is_fitted(self)
        if self._training is None or (self._training[1].row_weight != 1.0).any():
            raise ParameterError(
                f"SVRank.{method} needs the rows of a fit, of weight 1; copies and model files do "
                "not keep them. Call fit(X, y) again, without weights."
            )
        code = self._training[1].queries.codes
        one, other = np.triu_indices(len(code), 1)
        same = code[one] == code[other]
        return np.column_stack([one[same], other[same]]), code[one[same]]

    def _cost_without(self, i: int, j: int, refit: bool) -> float:
        assert self._training is not None
        X, grades = self._training
        m, pair = len(grades.y), np.array([i, j])
        rest = np.setdiff1d(np.arange(m), pair)
        model = clone(self).set_params(C=self.C if refit else self.C * (m - 2) / m)
        if self.gamma_ is not None:
            model.set_params(gamma=self.gamma_)
        square = self._is_pairwise()
        rows, left_out = (X[some][:, rest] if square else X[some] for some in (rest, pair))
        model.fit(rows, grades.y[rest], qid=grades.queries.codes[rest])
        residual = model.decision_function(left_out) - grades.y[pair]
        return float(max(abs(residual[0] - residual[1]) - self.epsilon, 0.0) ** self.power)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training"}

    def _cost_terms(self) -> tuple[float, int]:
        return self.C, self.power
