"""Least squares on grades: the baseline of most papers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray, Matrix
from rankwright.data.queries import Queries
from rankwright.exceptions import ParameterError
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pairs import Pairs
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.kernels import dense
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import Linear


class RidgeRanker(Ranker):
    r"""Linear least squares on the grades, with minimum norm or a ridge penalty.

    Minimizes :math:`\sum_i u_i (w \cdot x_i + b - y_i)^2 + \alpha \|w\|^2` with row weights u.
    With ``center`` each query has its own intercept b, so that only differences within a query
    count; without it all rows share one intercept. If the minimizer is not unique (``alpha=0``,
    dependent features), ``solution`` chooses one. Pairs are fitted as
    differences: :math:`w \cdot (x_{upper} - x_{lower})` should be 1.

    Parameters
    ----------
    alpha : float >= 0, default 0.0
        Weight of the ridge penalty.
    center : bool, default True
        Whether each query has its own intercept (has no effect without ``qid`` or without
        ``fit_intercept``).
    fit_intercept : bool, default True
        False: there is no intercept, for all rows or for a query, and scores are :math:`w \cdot x`.
    solution : "minimum_norm" or "basic", default "minimum_norm"
        The minimizer of minimum norm, or one with at most ``rank_`` nonzero
        coefficients, found by QR decomposition with column pivoting as MATLAB's backslash does.
        ``basic`` needs ``alpha=0``; a ridge leaves only one minimizer.

    Attributes
    ----------
    coef_ : (n_features,) array
    intercept_ : float
        The intercept; with several queries their weighted mean, so that predictions are on the
        scale of y.
    rank_ : int
        The numerical rank of the (centered, weighted) features.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    >>> model = RidgeRanker().fit(X, [0, 1, 2, 5, 6], qid=["a", "a", "a", "b", "b"])
    >>> model.coef_.round(6) + 0.0
    array([1., 0.])
    >>> model.rank(X, qid=["a", "a", "a", "b", "b"])
    array([3, 2, 1, 2, 1])
    """

    _shard_fit: ClassVar = "rankwright.distributed.linear:fit_regression"
    _usual_grid: ClassVar = {"alpha": "0.01,0.1,1.0,10.0,100.0"}
    _family: ClassVar = "gradient"
    _scores_as: ClassVar = "linear"
    _constraints: ClassVar = {
        "alpha": schema.number(0.0),
        "center": schema.boolean(),
        "fit_intercept": schema.boolean(),
        "solution": schema.one_of("minimum_norm", "basic"),
    }
    _learned: ClassVar = {
        "coef_": schema.floats("n_features"),
        "intercept_": schema.real(),
        "rank_": schema.integer(low=0),
    }
    _takes: ClassVar = (Grades, Pairs)
    _sums: ClassVar = True

    coef_: FloatArray

    def __init__(
        self,
        *,
        alpha: float = 0.0,
        center: bool = True,
        fit_intercept: bool = True,
        solution: str = "minimum_norm",
    ) -> None:
        self.alpha = alpha
        self.center = center
        self.fit_intercept = fit_intercept
        self.solution = solution

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.solution == "basic" and self.alpha > 0:
            raise ParameterError(
                f"RidgeRanker(solution='basic', alpha={self.alpha}): a ridge leaves one minimizer, "
                "in which all coefficients count. Use alpha=0, or solution='minimum_norm'.",
                parameter="solution",
            )

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        merging = _merge_lone_columns(X, keep_largest=self.solution == "basic")
        if merging is None:
            self._solve(self._system(X, feedback))
        else:
            self._solve(self._system(X @ merging, feedback))
            self.coef_ = merging @ self.coef_

    def _may_drop_columns(self) -> bool:
        return True

    def _system(self, X: Matrix, feedback: Feedback) -> LeastSquares:
        system = LeastSquares(X.shape[1])
        for factor, term in feedback.terms():
            if isinstance(term, Grades):
                system.add_grades(X, term, factor, self.center, self.fit_intercept)
            elif isinstance(term, Pairs):
                system.add_pairs(X, term, factor)
        return system

    def _solve(self, system: LeastSquares) -> None:
        basic = self.solution == "basic"
        self.coef_, self.rank_ = system.solve_basic() if basic else system.solve(self.alpha)
        self.intercept_ = system.mean_y - float(system.mean_x @ self.coef_)

    def _scorer(self) -> Scorer:
        return Linear(self.coef_, self.intercept_)


class LeastSquares:
    """A least-squares problem in blocks of rows, kept as the triangle of a QR decomposition.

    Unlike sums of products the triangle keeps every digit; memory does not grow with the rows.
    """

    block = 4096

    def __init__(self, n_features: int) -> None:
        self._triangle = np.zeros((0, n_features + 1))
        self._blocks: list[FloatArray] = []
        self.mean_x, self.mean_y, self._mass = np.zeros(n_features), 0.0, 0.0

    def add_grades(
        self, X: Matrix, grades: Grades, factor: float, center: bool, fit_intercept: bool
    ) -> None:
        """Graded rows; with an intercept, minus the mean of their query, or of all rows."""
        weight = factor * grades.row_weight
        if fit_intercept:
            queries = grades.queries if center else Queries.from_ids(None, len(grades.y))
            self._add_means(X, grades.y, weight)
            mean_x, mean_y = _query_means(X, grades.y, weight, queries)
        for start in range(0, len(weight), self.block):
            rows = slice(start, start + self.block)
            left, right = dense(X[rows]), grades.y[rows]
            if fit_intercept:
                code = queries.codes[rows]
                left, right = left - dense(mean_x[code]), right - mean_y[code]
            self._add(left, right, weight[rows])

    def add_pairs(self, X: Matrix, pairs: Pairs, factor: float) -> None:
        for start in range(0, pairs.n_pairs, self.block):
            rows = slice(start, start + self.block)
            left = dense(X[pairs.upper[rows]]) - dense(X[pairs.lower[rows]])
            self._add(left, np.ones(len(left)), factor * pairs.weight[rows])

    def reduced(self) -> LeastSquares:
        """The same with all rows in the triangle, to be sent to another process."""
        self._reduce()
        return self

    def joined(self, other: LeastSquares, one_intercept: bool) -> LeastSquares:
        """The problem of the rows of both.

        With ``one_intercept`` each of the two was centered by its own mean: the difference of the
        means is one more row.
        """
        both = LeastSquares(len(self.mean_x))
        both._mass = self._mass + other._mass
        share = other._mass / both._mass if both._mass else 0.0
        apart = np.append(other.mean_x - self.mean_x, other.mean_y - self.mean_y)
        both.mean_x = self.mean_x + share * apart[:-1]
        both.mean_y = self.mean_y + share * float(apart[-1])
        both._blocks = [self._triangle, other._triangle]
        if one_intercept and share:
            both._blocks.append(np.sqrt(self._mass * share) * apart[None])
        return both.reduced()

    def solve(self, alpha: float) -> tuple[FloatArray, int]:
        """The minimizer (of least norm) and the numerical rank."""
        self._reduce()
        left, right = self._triangle[:, :-1], self._triangle[:, -1]
        if min(left.shape) == 0:
            return np.zeros(left.shape[1]), 0
        # With more features than rows, the space of the rows first: its square is far smaller.
        wide = left.shape[1] > left.shape[0]
        basis, square = linalg.qr(left.T, mode="economic") if wide else (None, left.T)
        u, spread, vt = linalg.svd(square.T, full_matrices=False)
        kept = spread > spread[0] * max(left.shape) * np.finfo(np.float64).eps
        rank = int(kept.sum())
        u, spread, vt = u[:, :rank], spread[:rank], vt[:rank]
        solution = vt.T @ ((u.T @ right) * spread / (spread**2 + alpha))
        return (basis @ solution if wide else solution), rank

    def solve_basic(self) -> tuple[FloatArray, int]:
        """A minimizer with as many nonzero coefficients as the rank, and the numerical rank."""
        self._reduce()
        left, right = self._triangle[:, :-1], self._triangle[:, -1]
        coef = np.zeros(left.shape[1])
        if not left.any():  # rank 0: SciPy 1.13 cannot solve an empty system
            return coef, 0
        basis, triangle, order = linalg.qr(left, mode="economic", pivoting=True)
        diagonal = np.abs(np.diag(triangle))
        rank = int((diagonal > diagonal[0] * max(left.shape) * np.finfo(np.float64).eps).sum())
        goal = (basis.T @ right)[:rank]
        coef[order[:rank]] = linalg.solve_triangular(triangle[:rank, :rank], goal)
        return coef, rank

    def _add(self, left: FloatArray, right: FloatArray, weight: FloatArray) -> None:
        self._blocks.append(np.column_stack([left, right]) * np.sqrt(weight)[:, None])
        if len(self._blocks) * self.block > 4 * self._triangle.shape[1]:
            self._reduce()

    def _reduce(self) -> None:
        rows = np.concatenate([self._triangle, *self._blocks])
        self._blocks = []
        tall = len(rows) > rows.shape[1]
        triangle = linalg.qr(rows, mode="r", overwrite_a=True)[0] if tall else rows
        self._triangle = triangle[: rows.shape[1]]

    def _add_means(self, X: Matrix, y: FloatArray, weight: FloatArray) -> None:
        mass = float(weight.sum())
        if mass == 0:
            return
        self._mass += mass
        share = mass / self._mass
        self.mean_x += share * (np.asarray(X.T @ weight).ravel() / mass - self.mean_x)
        self.mean_y += share * (float(y @ weight) / mass - self.mean_y)


def _merge_lone_columns(X: Any, *, keep_largest: bool) -> Any:
    """A map (n_features, fewer) that merges columns of a wide sparse X whose values share a row.

    Columns with one value, in the same row, are parallel. The solution of least norm weights them
    by their values, so that one column of their common length stands for all; of a basic solution
    only the largest can be part. Most columns of text are such. None: X has too few of them to
    gain from.
    """
    n_rows, n_columns = X.shape
    if not sparse.issparse(X) or n_columns <= n_rows:
        return None
    entries = np.flatnonzero(np.bincount(X.indices, minlength=n_columns)[X.indices] == 1)
    columns, values = X.indices[entries], X.data[entries]
    rows = np.repeat(np.arange(n_rows), np.diff(X.indptr))[entries]
    groups, group = np.unique(rows, return_inverse=True)
    if 2 * (len(entries) - len(groups)) < n_columns:
        return None
    largest = np.zeros(len(groups))
    np.maximum.at(largest, group, np.abs(values))
    share = values / np.where(largest > 0, largest, 1.0)[group]
    if keep_largest:
        first = np.unique(group[np.abs(share) == 1.0], return_index=True)[1]
        kept = np.flatnonzero(np.abs(share) == 1.0)[first]
        share = np.zeros(len(share))
        share[kept] = 1.0
    else:
        length = np.sqrt(np.bincount(group, share**2))
        share /= np.where(length > 0, length, 1.0)[group]
    others = np.setdiff1d(np.arange(n_columns), columns)
    return sparse.csr_array(
        (
            np.append(share, np.ones(len(others))),
            (
                np.append(columns, others),
                np.append(group, len(groups) + np.arange(len(others))),
            ),
        ),
        shape=(n_columns, len(groups) + len(others)),
    )


def _query_means(
    X: Matrix, y: FloatArray, weight: FloatArray, queries: Queries
) -> tuple[Any, FloatArray]:
    """The weighted mean row and grade of each query."""
    mass = np.bincount(queries.codes, weight, queries.n_queries)
    share = weight / np.where(mass > 0, mass, 1.0)[queries.codes]
    where = (queries.codes, np.arange(len(y)))
    average = sparse.csr_array((share, where), shape=(queries.n_queries, len(y)))
    return average @ X, average @ y
