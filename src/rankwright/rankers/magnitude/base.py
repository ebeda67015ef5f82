"""The base of MPRank and SVRank: kernels, the fitted model, predicted gaps, stability bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import as_column
from rankwright.exceptions import DataError, ParameterError
from rankwright.feedback.base import Feedback, as_grades
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.bounds import Bound, Bounds
from rankwright.rankers.early_stopping import EvalSet
from rankwright.rankers.kernels import (
    KERNEL_CONSTRAINTS,
    DrawnLandmarks,
    Gram,
    dense,
    draw_landmarks,
    resolve_gamma,
)
from rankwright.rankers.magnitude.sample import WeightedRows, too_large
from rankwright.rankers.schema import floats, integer, real
from rankwright.runtime import map_blocks, require_memory
from rankwright.scoring.base import Scorer
from rankwright.scoring.kernel import Kernel
from rankwright.scoring.linear import Linear

STRIP = 128  # rows of a kernel matrix that are computed at once, in the cache of a processor


def cut_at_gap(
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    at_least: int = 1,
    at_most: int | None = None,
    min_gap: float = 0.0,
) -> int | IntArray:
    """Return how many items of a ranked list to keep: those before the largest gap in the scores.

    Parameters
    ----------
    scores : (n_items,) numbers, in any order
    qid : (n_items,) query ids; None is one list
    at_least, at_most : the smallest and the largest number of items to keep
    min_gap : cut only at a larger gap; without one the list is kept (up to ``at_most``)

    Returns
    -------
    int, or one int64 per query in order of first appearance if ``qid`` is given. The first of
    equal gaps counts.

    Examples
    --------
    >>> cut_at_gap([0.1, 4.9, 5.2, 0.3])
    2
    >>> cut_at_gap([3, 1, 9, 8, 7], qid=["a", "a", "b", "b", "b"])
    array([1, 1])
    """
    if at_least < 1 or (at_most is not None and at_most < at_least):
        raise ParameterError(
            f"cut_at_gap(at_least={at_least!r}, at_most={at_most!r}): at_least must be an integer "
            ">= 1 and at_most None or an integer >= at_least.",
            parameter="at_least",
        )
    schema.number(0.0).check("cut_at_gap", "min_gap", min_gap)
    values = as_column(scores, "scores", np.shape(scores)[0] if np.ndim(scores) else 0)
    queries = Queries.from_ids(qid, len(values))
    kept = []
    for rows in np.split(queries.order, queries.ptr[1:-1]):
        ordered = np.sort(values[rows])[::-1]
        most = len(ordered) if at_most is None else min(at_most, len(ordered))
        gaps = (ordered[:-1] - ordered[1:])[at_least - 1 : most]
        cut = len(gaps) > 0 and gaps.max() > min_gap
        kept.append(at_least + int(np.argmax(gaps)) if cut else most)
    return kept[0] if qid is None else np.array(kept, dtype=np.int64)


@dataclass(frozen=True)
class StabilityBound:
    """Uniform stability of MPRank and SVRank, and its bound on the error of new pairs.

    Holds for m rows drawn independently, a kernel with K(x, x) <= kappa^2 and hypotheses with
    |h(x) - y| <= M. The paper's h has no intercept: M must allow for grades that are not centered.

    Attributes
    ----------
    n_items, C, power : m, C and n of the objective
    M, kappa, delta : as above; the bound holds with probability 1 - delta
    training_error : the mean cost of the training pairs (eq 2)

    Examples
    --------
    >>> bound = StabilityBound(10_000, C=1.0, power=1, M=2.0, kappa=1.0, delta=0.05,
    ...                        training_error=0.4)
    >>> round(bound.beta, 6), round(bound.bound, 4)
    (0.0004, 0.6181)
    """

    n_items: int
    C: float
    power: int
    M: float
    kappa: float
    delta: float
    training_error: float

    def __post_init__(self) -> None:
        allowed = {
            "delta": (0 < self.delta < 1, "between 0 and 1"),
            "M": (0 <= self.M < math.inf, "a finite number >= 0"),
            "kappa": (0 <= self.kappa < math.inf, "a finite number >= 0"),
        }
        for name, (is_valid, needed) in allowed.items():
            if not is_valid:
                value = getattr(self, name)
                raise ParameterError(f"stability_bound({name}={value!r}): {name} must be {needed}.")

    @property
    def admissibility(self) -> float:
        """sigma_n of Lemma 1: 1 for n = 1, 4 M for n = 2."""
        return 1.0 if self.power == 1 else 4.0 * self.M

    @property
    def beta(self) -> float:
        """Proposition 3: leaving out a row changes the cost of no pair by more than this."""
        return 4.0 * self.C * self.admissibility**2 * self.kappa**2 / self.n_items

    @property
    def _range(self) -> float:
        return self.beta * self.n_items + (2.0 * self.M) ** self.power

    def tail(self, epsilon: float) -> float:
        """Eq 49: the probability that the two errors differ by more than epsilon + 2 beta."""
        if self._range == 0:
            return 0.0
        return min(1.0, 2.0 * math.exp(-self.n_items * epsilon**2 / (2.0 * self._range**2)))

    @property
    def slack(self) -> float:
        """Corollary 1: by how much the error on new pairs may exceed the training error."""
        spread = math.sqrt(2.0 / self.n_items * math.log(2.0 / self.delta))
        return 2.0 * self.beta + self._range * spread

    @property
    def bound(self) -> float:
        """Corollary 1: the error on new pairs is at most this, with probability 1 - delta."""
        return self.training_error + self.slack


def _pair_error(residual: FloatArray, queries: Queries, power: int, epsilon: float) -> float:
    """The mean over rows of the mean cost of a row's pairs within its query."""
    total = 0.0
    for rows in np.split(residual[queries.order], queries.ptr[1:-1]):
        for start in range(0, len(rows), 256):
            gap = np.abs(rows[start : start + 256, None] - rows) - epsilon
            total += float((np.maximum(gap, 0.0) ** power).sum()) / len(rows)
    return total / len(residual)


LARGEST_GRAM = 20_000  # rows up to which "auto" builds a Gram matrix: 3.2 GB


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """A kernel, the rows of X with weight, and their grades."""

    gram: Gram
    X: Any
    sample: WeightedRows

    @cached_property
    def rows(self) -> Any:
        return self.sample.select(self.X)

    @property
    def is_narrow(self) -> bool:
        """Whether the kernel is linear, with no more features than rows."""
        kernel = self.gram.kernel
        linear = isinstance(kernel, Kernel) and kernel.name == "linear"
        return linear and self.rows.shape[1] <= self.sample.n_rows

    def matrix(self) -> FloatArray:
        """The kernel matrix of the rows, as a new array."""
        n = self.sample.n_rows
        require_memory(
            3.0 * 8.0 * n * n,  # the matrix, its factors and the temporaries of solvers
            f"solving with the kernel matrix of {n:,} rows",
            "Use solver='nystroem' (MPRank, SVRank), which needs n_components values for each row, "
            "solver='primal' for the linear kernel, or fewer rows.",
        )
        if self.gram.is_precomputed:
            return dense(self.rows[:, self.sample.rows]).copy()
        if not isinstance(self.gram.kernel, Kernel):
            return np.ascontiguousarray(self.gram.block(self.rows, self.rows))
        K = np.empty((n, n))

        def fill(start: int) -> None:
            strip = slice(start, start + STRIP)
            K[strip] = self.gram.block(self.rows[strip], self.rows)

        map_blocks(fill, range(0, n, STRIP))
        return K

    @property
    def kappa(self) -> float:
        """The root of the largest K(x, x)."""
        diagonal = self.gram.diagonal(self.X)[self.sample.rows]
        return float(np.sqrt(max(diagonal.max(), 0.0)))


class MagnitudeRanker(Ranker):
    """A ranker whose score differences predict differences of grades."""

    _family: ClassVar = "magnitude"
    _scores_as: ClassVar = "linear"
    _constraints: ClassVar = {
        **KERNEL_CONSTRAINTS,
        "C": schema.positive(),
        "n_components": schema.at_least(1),
        "tol": schema.positive(),
        "max_iter": schema.at_least(1),
        "random_state": schema.random_state(),
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

    gamma: float | str
    degree: int
    coef0: float
    C: float
    solver: str
    n_components: int
    random_state: Any

    def _learn(
        self, X: Matrix, feedback: Feedback, eval_set: EvalSet | None = None, **arguments: Any
    ) -> Self:
        with np.errstate(over="ignore", invalid="ignore"):  # reported as an error below
            super()._learn(X, feedback, eval_set, **arguments)
        coef: Any = self.coef_ if self.dual_coef_ is None else self.dual_coef_
        if not np.isfinite([*coef, self.intercept_, self.cost_]).all():
            raise too_large()
        return self

    def predict_gap(self, X1: MatrixLike, X0: MatrixLike) -> FloatArray:
        """Predict how much better each row of X1 is than the same row of X0, in the units of y."""
        better, worse = self.decision_function(X1), self.decision_function(X0)
        if better.shape != worse.shape:
            raise DataError(
                f"predict_gap: X1 has {len(better)} rows and X0 has {len(worse)}; give both "
                "the same number of rows."
            )
        return better - worse

    def stability_bound(self, delta: float, M: float, kappa: float | None = None) -> StabilityBound:
        """Compute the stability bound on the error of new pairs (Proposition 3, Corollary 1).

        With several queries it is for pairs of new rows of the same queries, where a query counts
        with its number of rows, as in the objective. A row has the same share of the objective as
        in a single list (2 / m: 2 m_q pairs of weight 1 / (m m_q)), so the proofs hold as printed,
        with m the number of all rows.

        Parameters
        ----------
        delta : the probability that the bound does not hold
        M : a bound on \\|h(x) - y\\| for all hypotheses
        kappa : a bound on the root of K(x, x); None is the largest of the training rows
        """
        check_is_fitted(self)
        if round(self.mass_) < 1:
            raise ParameterError(
                f"{type(self).__name__}.stability_bound: the weights of the graded rows add up to "
                f"{self.mass_:g} (Pairs have none); the bound is for m graded rows. Fit grades, "
                "with weights of 1 on average."
            )
        C, power = self._cost_terms()
        return StabilityBound(
            n_items=round(self.mass_),
            C=C,
            power=power,
            M=M,
            kappa=self.kappa_ if kappa is None else kappa,
            delta=delta,
            training_error=self.cost_,
        )

    def bounds(
        self, X: MatrixLike, y: ArrayLike, *, qid: ArrayLike | None = None, delta: float = 0.05
    ) -> Bounds:
        """Compare the error of the pairs of given rows with the stability bound.

        M, which must bound :math:`|h(x) - y|`, is the largest such residual of the given rows, and
        kappa that of the training rows: plug-in values, as both are unknown.

        Parameters
        ----------
        X, y, qid : rows, their grades and queries, best new rows of the training distribution
        delta : float in (0, 1), the probability with which the bound may fail

        Returns
        -------
        Bounds by name ("error of new pairs"), and ``quantities``: ``training_error``, ``beta``,
        ``M`` and ``kappa``.

        Examples
        --------
        >>> import rankwright as rw
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> model = rw.MPRank(C=0.1).fit(X[:200], X[:200, 0])
        >>> model.bounds(X[200:], X[200:, 0])["error of new pairs"].holds
        True
        """
        check_is_fitted(self)
        residual = self.decision_function(X) - as_grades(y, "y")
        M = float(np.abs(residual).max())
        stability = self.stability_bound(delta, M)
        _, power = self._cost_terms()
        queries = Queries.from_ids(qid, len(residual))
        error = _pair_error(residual, queries, power, float(getattr(self, "epsilon", 0.0)))
        source = "Cortes et al. 2007, Corollary 1"
        quantities = {"beta": stability.beta, "M": M, "kappa": stability.kappa}
        quantities["training_error"] = stability.training_error
        entry = Bound("error of new pairs", stability.bound, error, source)
        return Bounds((entry,), quantities)

    def _cost_terms(self) -> tuple[float, int]:
        """C and n of the objective."""
        raise NotImplementedError

    def _problem(self, X: Matrix, sample: WeightedRows, gamma: float | str) -> KernelProblem:
        if gamma == "scale" and self.kernel in ("rbf", "poly"):
            gamma = resolve_gamma(gamma, sample.select(X), sample.mass)
        gram = Gram.of(self.kernel, X, gamma=gamma, degree=self.degree, coef0=self.coef0)
        gram.check_square(X)
        return KernelProblem(gram, X, sample)

    def _choose_solver(self, problem: KernelProblem) -> str:
        m, d = problem.sample.n_rows, problem.X.shape[1]
        if self.solver == "primal" and self.kernel != "linear":
            raise ParameterError(
                f"{type(self).__name__}(solver='primal', kernel={self.kernel!r}): the primal "
                "solver is for the linear kernel only. Use solver='dual', 'nystroem' or 'auto'.",
                parameter="solver",
            )
        if self.solver != "auto":
            return self.solver
        if self.kernel == "linear":
            return "primal" if d <= m or m > LARGEST_GRAM else "dual"
        return "dual" if m <= LARGEST_GRAM else "nystroem"

    def _landmarks(self, problem: KernelProblem) -> DrawnLandmarks:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = (problem.sample.rows, self.n_components, seed)
        return draw_landmarks(problem.gram, problem.X, *options).on(problem.rows)

    def _keep_linear(self, coef: FloatArray) -> None:
        self.coef_, self.support_, self.dual_coef_, self.gamma_ = coef, None, None, None

    def _keep_dual(
        self, problem: KernelProblem, alpha: FloatArray, landmarks: DrawnLandmarks | None = None
    ) -> None:
        """Keep the coefficients of the sample's rows, or of the features of landmarks."""
        rows, support = problem.sample.rows, problem.rows
        if landmarks is not None:
            rows, support, alpha = landmarks.rows, landmarks.support, landmarks.dual(alpha)
        kernel = problem.gram.kernel
        if self.kernel == "linear":
            self._keep_linear(np.asarray(support.T @ alpha))
        elif kernel is None:  # precomputed
            coef = np.zeros(problem.X.shape[1])
            coef[rows] = alpha
            self._keep_linear(coef)
        else:
            self.coef_, self.dual_coef_, self.support_ = None, alpha, dense(problem.X[rows])
            self.gamma_ = kernel.gamma if isinstance(kernel, Kernel) else None

    def _scorer(self) -> Scorer:
        if self.coef_ is not None:
            return Linear(self.coef_, self.intercept_)
        support, alpha = self.support_, self.dual_coef_
        assert support is not None
        assert alpha is not None
        gram = Gram.of(self.kernel, gamma=self.gamma_ or 1.0, degree=self.degree, coef0=self.coef0)
        rows = np.arange(len(alpha))
        return gram.expansion(support, rows, alpha, self.n_features_in_, self.intercept_)
