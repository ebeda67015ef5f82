"""MPRank with C and the kernel's width chosen by the leave-pair-out error."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, Matrix
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.base import Feedback, Grades
from rankwright.rankers import schema
from rankwright.rankers.kernels import KERNEL_CONSTRAINTS
from rankwright.rankers.magnitude.base import KernelProblem, MagnitudeRanker
from rankwright.rankers.magnitude.leave_out import pair_mass, pairs_out
from rankwright.rankers.magnitude.sample import Scatter, WeightedRows
from rankwright.rankers.magnitude.smoothers import Spectrum, gram_source
from rankwright.rankers.schema import floats, real

CS = tuple(float(C) for C in np.logspace(-1, 5, 13))


POSITIVE_LIST = schema.Constraint(
    "a list of numbers > 0",
    lambda value: (
        isinstance(value, Sequence | np.ndarray)
        and len(value) > 0
        and all(schema.positive().test(one) for one in value)
    ),
)


class MPRankCV(MagnitudeRanker):
    """MPRank (squared loss) with parameters chosen by the exact leave-pair-out error.

    Every combination of ``Cs`` and ``gammas`` is evaluated by the leave-pair-out error: the error
    on each pair of the model trained without it, averaged over all pairs. No validation set is
    needed. Each value of gamma
    costs one eigendecomposition, of the size of the kernel's numerical rank if that is at most half
    of m, and all values of C share a dozen or so matrix products. For up to twelve values of C and
    a larger rank, each costs a Cholesky inverse instead.

    Parameters
    ----------
    Cs : list of numbers > 0, default 0.1, 0.316, 1, ..., 1e5
    gammas : list of numbers > 0 or None, default None
        Of the rbf and poly kernels; None is ``1 / (n_features * variance of X)``.
    kernel : "rbf", "linear", "poly", "precomputed" or a function, default "rbf"
    degree, coef0 : of the polynomial kernel
    average : "pairs" or "queries", default "pairs"
        Whether pairs or queries have equal weight in the error.

    Attributes
    ----------
    C_, gamma_ : the chosen values (the smallest C of equally good ones)
    path_ : (n_gammas, n_Cs) array
        The leave-pair-out error of each combination.
    leave_pair_out_ : float
        The error of the chosen values.
    coef_, support_, dual_coef_, intercept_, cost_, mass_, kappa_ : as in MPRank

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 1))
    >>> model = MPRankCV(gammas=[0.01, 1.0, 100.0]).fit(X, np.sin(2 * X[:, 0]))
    >>> model.gamma_
    1.0
    """

    _constraints: ClassVar = {
        **{name: KERNEL_CONSTRAINTS[name] for name in ("kernel", "degree", "coef0")},
        "Cs": POSITIVE_LIST,
        "gammas": schema.optional(POSITIVE_LIST),
        "average": schema.one_of("pairs", "queries"),
    }
    _learned: ClassVar = {
        **MagnitudeRanker._learned,
        "C_": real(low=0.0),
        "path_": floats("n_gammas", "n_Cs", low=0.0),
        "leave_pair_out_": real(low=0.0),
    }

    def __init__(
        self,
        *,
        Cs: Sequence[float] | FloatArray = CS,
        gammas: Sequence[float] | FloatArray | None = None,
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        coef0: float = 1.0,
        average: str = "pairs",
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.average = average

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        assert isinstance(feedback, Grades)
        sample = WeightedRows.of(feedback)
        gammas: list[Any] = ["scale"]
        if self.kernel in ("rbf", "poly") and self.gammas is not None:
            gammas = [float(gamma) for gamma in self.gammas]
        problems = [self._problem(X, sample, gamma) for gamma in gammas]
        factors = 2.0 * np.array([float(C) for C in self.Cs]) / sample.total
        self.path_ = np.zeros((len(problems), len(factors)))
        has_pairs = bool(pair_mass(sample).any())
        if not has_pairs:
            warnings.warn(
                f"{type(self).__name__}: no query has two rows, so the values of C cannot be "
                "compared: the first is chosen.",
                DegenerateDataWarning,
                stacklevel=4,
            )
        best: tuple[float, KernelProblem, int, FloatArray] | None = None
        for row, problem in enumerate(problems):
            source = (
                Spectrum.of_rows(problem.rows, sample)
                if problem.is_narrow
                else gram_source(problem.matrix(), sample, len(factors))
            )
            if has_pairs:
                self.path_[row] = pairs_out(source, factors, self.average)
            column = int(np.argmin(self.path_[row]))
            error = float(self.path_[row, column])
            if best is None or error < best[0]:
                best = error, problem, column, source.solve(factors[column])
        assert best is not None
        self._keep_best(*best)

    def _keep_best(
        self, error: float, problem: KernelProblem, column: int, alpha: FloatArray
    ) -> None:
        sample = problem.sample
        self.C_, self.leave_pair_out_ = float(self.Cs[column]), error
        self.n_iter_, self.mass_, self.kappa_ = 1, sample.total, problem.kappa
        if problem.is_narrow:  # more accurate than the dual
            scatter = Scatter.of(problem.rows, sample)
            self._keep_linear(scatter.solve(2.0 * self.C_ / sample.total))
        else:
            self._keep_dual(problem, alpha)
        residual = alpha * sample.total / (2.0 * self.C_ * sample.mass)
        self.cost_, self.intercept_ = sample.mean_square(residual), 0.0
        scores = self._scorer().decision_function(problem.rows)
        self.intercept_ = sample.overall(sample.y - scores)

    def _cost_terms(self) -> tuple[float, int]:
        return self.C_, 2
