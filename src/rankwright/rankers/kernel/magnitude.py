"""What MPRank and SVRank share: kernels, the fitted model, predicted gaps, stability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright.exceptions import DataError, ParameterError
from rankwright.feedback import Feedback
from rankwright.rankers import rules
from rankwright.rankers.base import Ranker
from rankwright.rankers.gram import KERNEL_RULES, Gram, dense, resolve_gamma
from rankwright.rankers.kernel.sample import FloatArray, Sample
from rankwright.rankers.kernel.scatter import too_large
from rankwright.rankers.kernel.stability import StabilityBound
from rankwright.rankers.landmarks import DrawnLandmarks, draw_landmarks
from rankwright.rankers.learned import floats, integer, real
from rankwright.scoring import Kernel, Linear, Scorer

__all__ = ["MagnitudeRanker", "Problem", "problem_of"]

LARGEST_GRAM = 20_000  # rows up to which "auto" builds a Gram matrix: 3.2 GB


@dataclass(frozen=True, eq=False)
class Problem:
    """A kernel, the rows of X that count, and their grades and weights."""

    gram: Gram
    X: Any
    sample: Sample

    @property
    def is_linear(self) -> bool:
        return isinstance(self.gram.kernel, Kernel) and self.gram.kernel.name == "linear"

    @cached_property
    def rows(self) -> Any:
        return self.sample.select(self.X)

    def matrix(self) -> FloatArray:
        """The kernel of the rows with each other, in an array of its own."""
        if not self.gram.is_precomputed:
            return np.ascontiguousarray(self.gram.square(self.rows))
        return dense(self.rows[:, self.sample.rows]).copy()

    @property
    def kappa(self) -> float:
        """The root of the largest K(x, x)."""
        diagonal = self.gram.diagonal(self.X)[self.sample.rows]
        return float(np.sqrt(max(diagonal.max(), 0.0)))


def problem_of(
    X: Any, sample: Sample, kernel: Any, gamma: float | str, degree: int, coef0: float
) -> Problem:
    """Put the kernel together and check that the rows suit it."""
    if gamma == "scale" and kernel in ("rbf", "poly"):
        gamma = resolve_gamma(gamma, sample.select(X), sample.mass)
    gram = Gram.of(kernel, X, gamma=gamma, degree=degree, coef0=coef0)
    if gram.is_precomputed:
        gram.square(X)
    return Problem(gram, X, sample)


class MagnitudeRanker(Ranker):
    """A ranker whose score differences predict differences of grades."""

    _rules: ClassVar = {
        **KERNEL_RULES,
        "C": rules.positive(),
        "n_components": rules.at_least(1),
        "tol": rules.positive(),
        "max_iter": rules.at_least(1),
        "random_state": rules.a_seed(),
    }
    _learned: ClassVar = {
        "coef_": floats("n_features", optional=True),
        "support_": floats("n_support", "n_features", optional=True),
        "dual_coef_": floats("n_support", optional=True),
        "gamma_": real(low=0.0, optional=True),
        "intercept_": real(),
        "cost_": real(low=0.0),
        "kappa_": real(low=0.0),
        "mass_": real(low=0.0),
        "n_iter_": integer(low=0),
        "objective_": real(low=0.0, optional=True),
        "gap_": real(low=0.0, optional=True),
    }

    coef_: FloatArray | None
    support_: FloatArray | None
    dual_coef_: FloatArray | None
    gamma_: float | None
    intercept_: float
    cost_: float
    objective_: float | None
    gap_: float | None

    kernel: Any
    gamma: float | str
    degree: int
    coef0: float
    C: float
    solver: str
    n_components: int
    random_state: Any

    def _learn(self, X: Any, feedback: Feedback) -> Self:
        with np.errstate(over="ignore", invalid="ignore"):  # said in words below
            super()._learn(X, feedback)
        coef: Any = self.coef_ if self.dual_coef_ is None else self.dual_coef_
        if not np.isfinite([*coef, self.intercept_, self.cost_]).all():
            raise too_large()
        return self

    def predict_gap(self, X1: Any, X0: Any) -> FloatArray:
        """By how much the rows of X1 are preferred to those of X0, in the units of y."""
        better, worse = self.decision_function(X1), self.decision_function(X0)
        if better.shape != worse.shape:
            raise DataError(
                f"predict_gap: X1 has {len(better)} rows and X0 has {len(worse)}: give pairs of "
                "rows, as many in the one as in the other."
            )
        return better - worse

    def stability_bound(self, delta: float, M: float, kappa: float | None = None) -> StabilityBound:
        """What stability promises for new pairs (Proposition 3, eq 49, Corollary 1).

        Parameters
        ----------
        delta : the promise may fail with this probability
        M : a bound on \\|h(x) - y\\| for all hypotheses
        kappa : a bound on the root of K(x, x); the training rows' largest if None
        """
        check_is_fitted(self)
        if self.n_queries_in_ > 1:
            raise ParameterError(
                f"{type(self).__name__}.stability_bound: the theorem is about one list of rows "
                f"drawn independently, and this model learned from {self.n_queries_in_} queries."
            )
        if round(self.mass_) < 1:
            raise ParameterError(
                f"{type(self).__name__}.stability_bound: the theorem is about m graded rows, and "
                f"the weights of those that this model learned from add up to {self.mass_:g} "
                "(Pairs are no graded rows). Fit grades, with weights of 1 on average."
            )
        return StabilityBound(
            n_items=round(self.mass_),
            C=self._penalty(),
            power=self._power_of_cost(),
            M=M,
            kappa=self.kappa_ if kappa is None else kappa,
            delta=delta,
            training_error=self.cost_,
        )

    def _penalty(self) -> float:
        return self.C

    def _power_of_cost(self) -> int:
        raise NotImplementedError

    def _problem(self, X: Any, sample: Sample) -> Problem:
        return problem_of(X, sample, self.kernel, self.gamma, self.degree, self.coef0)

    def _choose_solver(self, problem: Problem) -> str:
        m, d = problem.sample.n_rows, problem.X.shape[1]
        if self.solver == "primal" and self.kernel != "linear":
            raise ParameterError(
                f"{type(self).__name__}(solver='primal', kernel={self.kernel!r}): the primal is "
                "solved for the linear kernel only. Use solver='dual', 'nystroem' or 'auto'."
            )
        if self.solver != "auto":
            return self.solver
        if self.kernel == "linear":
            return "primal" if d <= m or m > LARGEST_GRAM else "dual"
        return "dual" if m <= LARGEST_GRAM else "nystroem"

    def _landmarks(self, problem: Problem) -> DrawnLandmarks:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = problem.sample.rows
        chosen = draw_landmarks(problem.gram, problem.X, rows, self.n_components, seed)
        return chosen.on(problem.rows)

    def _keep_linear(self, coef: FloatArray) -> None:
        self.coef_, self.support_, self.dual_coef_, self.gamma_ = coef, None, None, None

    def _keep_dual(self, problem: Problem, alpha: FloatArray) -> None:
        """Keep the coefficients of the sample's rows, in the leanest form for this kernel."""
        if self.kernel == "linear":
            self._keep_linear(np.asarray(problem.rows.T @ alpha))
        else:
            self._keep_expansion(problem, problem.sample.rows, alpha)

    def _keep_landmarks(
        self, problem: Problem, landmarks: DrawnLandmarks, coef: FloatArray
    ) -> None:
        if self.kernel == "linear":
            self._keep_linear(landmarks.support.T @ landmarks.dual(coef))
        else:
            self._keep_expansion(problem, landmarks.rows, landmarks.dual(coef))

    def _keep_expansion(self, problem: Problem, rows: Any, alpha: FloatArray) -> None:
        if problem.gram.is_precomputed:
            coef = np.zeros(problem.X.shape[1])
            coef[rows] = alpha
            self._keep_linear(coef)
            return
        self.coef_, self.dual_coef_ = None, alpha
        self.support_ = dense(problem.X[rows])
        kernel = problem.gram.kernel
        self.gamma_ = kernel.gamma if isinstance(kernel, Kernel) else None

    def _scorer(self) -> Scorer:
        if self.coef_ is not None:
            return Linear(self.coef_, self.intercept_)
        assert self.support_ is not None
        assert self.dual_coef_ is not None
        gram = Gram.of(self.kernel, gamma=self.gamma_ or 1.0, degree=self.degree, coef0=self.coef0)
        rows = np.arange(len(self.dual_coef_))
        return gram.expansion(
            self.support_, rows, self.dual_coef_, self.n_features_in_, self.intercept_
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
