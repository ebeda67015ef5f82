"""MPRank: ridge regression on the differences of grades."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight

from rankwright._typing import FloatArray, Matrix, MatrixLike, RandomState
from rankwright.exceptions import ConvergenceWarning, FeedbackError, ParameterError
from rankwright.feedback.base import Feedback, Grades, as_grades
from rankwright.feedback.pairs import Pairs
from rankwright.rankers import schema
from rankwright.rankers.kernels import DrawnLandmarks, Gram, StreamedLandmarks, dense
from rankwright.rankers.magnitude.base import KernelProblem, MagnitudeRanker
from rankwright.rankers.magnitude.leave_out import LeaveOut, Training
from rankwright.rankers.magnitude.sample import Scatter, Stream, WeightedRows
from rankwright.rankers.magnitude.smoothers import center_gram, factorized, scale_gram
from rankwright.rankers.magnitude.solvers import InsensitiveCost, fit_insensitive
from rankwright.rankers.schema import floats, integers
from rankwright.runtime import exclusive
from rankwright.scoring.kernel import Kernel

STREAM = {  # learned attributes of partial_fit, and what they are in the Stream
    "products_": "products",
    "query_keys_": "keys",
    "query_weights_": "weights",
    "query_masses_": "masses",
    "query_means_": "means",
}
LARGEST_SCATTER = 10_000  # features up to which their products are kept: 0.8 GB


def _streams(model: BaseEstimator) -> bool:
    solver = "primal" if model.kernel == "linear" else "nystroem"
    has_rows = callable(model.kernel) or model.kernel != "precomputed"
    return has_rows and model.loss == "squared" and model.solver in ("auto", solver)


class MPRank(LeaveOut, MagnitudeRanker):
    r"""Magnitude-preserving ranking: fit the differences of grades within each query.

    Minimizes :math:`\|w\|^2 + \frac Cm \sum_q \frac1{m_q} \sum_{i,j \in q} |(h(x_j) - h(x_i)) -
    (y_j - y_i)|^n`, n = 2 for the squared and n = 1 for the absolute loss. For n = 2 that is
    exactly ridge regression with the penalty :math:`m/(2C)` and an intercept for each query: rows
    and grades are centered within their query, and nothing grows with the number of pairs.
    Predicted differences are in the units of y, which may be any real numbers: a list may be cut at
    a large difference (:func:`rankwright.cut_at_gap`).

    ``partial_fit`` learns from a stream. With the linear kernel the model is exactly that of
    ``fit`` on all rows so far. With another kernel it is the model in the span of at most
    ``n_components`` landmarks, the first rows that earlier landmarks do not represent up to
    ``tol``. Only landmarks are stored, and no Gram matrix of the rows is built.

    From single preferences (``Pairs``) it fits each difference of scores to 1:
    :math:`\|w\|^2 + \frac C{\sum_p v_p} \sum_p v_p (h(x_{upper}) - h(x_{lower}) - 1)^2`.

    Parameters
    ----------
    C : float > 0, default 1.0
        Weight of the loss.
    kernel : "linear", "rbf", "poly", "precomputed" or a function, default "linear"
    gamma : float > 0, "scale" or "auto", default "scale"
    degree, coef0 : of the polynomial kernel
    loss : "squared" or "absolute", default "squared"
        The absolute loss is SVRank's with epsilon = 0.
    solver : "auto", "primal", "dual", "online" or "nystroem", default "auto"
        ``primal`` (linear kernel) costs O(m d^2 + d^3) in one pass; with more than 10,000 features
        it uses conjugate gradients, to a relative duality gap of 1e-10. ``dual`` uses a Cholesky
        factor of the Gram matrix (8 m^2 bytes). ``online`` is the paper's coordinate ascent in the
        dual, until a round changes the cost by less than ``tol``. ``nystroem`` works in the span of
        ``n_components`` random rows. ``auto``: for the linear kernel the primal, unless there are
        more features than rows; else the dual up to 20,000 rows, then nystroem.
    n_components : int, default 1000
        Number of rows that ``nystroem`` draws; maximum number of landmarks of ``partial_fit``.
    tol : float > 0, default 1e-4
        Tolerance of the online solver (relative change of the cost in a round), of the absolute
        loss (relative duality gap) and of the landmarks of ``partial_fit`` (the share of a row's
        squared length that they may leave out).
    max_iter : int, default 1000
        Maximum number of rounds of the online solver or Newton steps of the absolute loss.
    learning_rate : float > 0 or None, default None
        The constant rate of the online solver as printed. It needs to be below
        1 / (K(x, x) + m / (2 C)) for centered rows, and a good one is hard to guess. None takes the
        best step for each row.
    random_state : None, int or RandomState

    Attributes
    ----------
    coef_ : (n_features,) array, or None if the model is a kernel expansion
    support_, dual_coef_ : rows (n_support, n_features) and coefficients of the expansion, or None
    intercept_ : float
        Makes the means of predictions and grades equal on the training rows.
    cost_ : float
        Mean cost of the training pairs.
    mass_, kappa_, n_iter_ : weight of all graded rows, root of the largest K(x, x), iterations
    objective_, gap_ : float or None
        With the absolute loss, the objective and a bound on how far it is above its minimum.

    References
    ----------
    Cortes, Mohri, Rastogi (2007), An alternative ranking problem for search engines, and its
    extended version, Magnitude-preserving ranking algorithms.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [3.0], [0.0], [2.0]], [10, 12, 16, 3, 7]
    >>> model = MPRank(C=1e4).fit(X, y, qid=["a", "a", "a", "b", "b"])
    >>> model.predict_gap([[3.0]], [[0.0]]).round(2)
    array([6.])
    >>> model.leave_query_out() < 0.01
    True
    """

    _shard_fit: ClassVar = "rankwright.distributed.linear:fit_mprank"
    _usual_grid: ClassVar = {"C": "0.01,0.1,1.0,10.0"}
    _constraints: ClassVar = {
        **MagnitudeRanker._constraints,
        "loss": schema.one_of("squared", "absolute"),
        "solver": schema.one_of("auto", "primal", "dual", "online", "nystroem"),
        "learning_rate": schema.optional(schema.positive()),
    }
    _learned: ClassVar = {
        **MagnitudeRanker._learned,
        "products_": floats("n_sums", "n_sums", optional=True),
        "query_keys_": integers("n_seen", optional=True),
        "query_weights_": floats("n_seen", low=0.0, optional=True),
        "query_masses_": floats("n_seen", low=0.0, optional=True),
        "query_means_": floats("n_seen", "n_sums", optional=True),
        "landmarks_root_": floats("n_support", "n_support", optional=True),
    }
    _takes: ClassVar = (Grades, Pairs)
    _chunks_exact: ClassVar = False
    products_: FloatArray | None
    landmarks_root_: FloatArray | None

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        loss: str = "squared",
        solver: str = "auto",
        n_components: int = 1000,
        tol: float = 1e-4,
        max_iter: int = 1000,
        learning_rate: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.solver = solver
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.random_state = random_state

    @property
    def _streams_as_fit(self) -> bool:  # type: ignore[override]
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.learning_rate is not None and self.solver != "online":
            raise ParameterError(
                f"{type(self).__name__}(solver={self.solver!r}, learning_rate="
                f"{self.learning_rate}): only the online solver has a rate. Use solver='online'.",
                parameter="learning_rate",
            )

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        self._keep_stream(None)
        if isinstance(feedback, Pairs):
            self._fit_pairs(X, feedback)
            return
        assert isinstance(feedback, Grades)
        problem = self._problem(X, WeightedRows.of(feedback), self.gamma)
        solver = self._choose_solver(problem)
        if self.loss == "absolute":
            if solver == "online":
                raise ParameterError(
                    f"{type(self).__name__}(solver='online', loss='absolute'): the online solver "
                    "is for the squared loss. Use solver='auto'.",
                    parameter="solver",
                )
            cost = InsensitiveCost(problem.sample, self.C, 0.0, 1)
            fit_insensitive(self, problem, solver, cost)
            return
        self.n_iter_ = 1
        self.mass_ = problem.sample.total
        if solver != "primal":
            self.kappa_ = problem.kappa
        landmarks = getattr(self, f"_fit_{solver}")(problem)
        self._training = Training(problem, feedback, landmarks)

    def _fit_primal(self, problem: KernelProblem) -> None:
        if problem.X.shape[1] > LARGEST_SCATTER:
            cost = InsensitiveCost(problem.sample, self.C, 0.0, 2)
            fit_insensitive(self, problem, "primal", cost, tol=1e-10)
            return
        scatter = Scatter.of(problem.rows, problem.sample)
        self.kappa_ = float(np.sqrt(scatter.longest))
        self._keep_linear(self._solve(scatter))

    def _fit_dual(self, problem: KernelProblem) -> None:
        """Eq 13, by a Cholesky factor.

        The solution is centered but for rounding errors, which the rows themselves, unlike centered
        ones, multiply by the length of their mean.
        """
        K, sample = problem.matrix(), problem.sample
        factor, mean_row = 2.0 * self.C / sample.total, sample.mass @ K / sample.total
        cholesky = factorized(center_gram(scale_gram(K, sample), sample), factor)
        right = sample.roots * sample.centered(sample.y)
        solved, _ = linalg.lapack.dpotrs(cholesky, right, lower=0)
        self._keep_alpha(problem, factor * sample.roots * sample.projected(solved), mean_row)

    def _fit_online(self, problem: KernelProblem) -> None:
        sample = problem.sample
        if self.kernel == "linear":
            rows = dense(problem.rows)
            centered = (rows - sample.means(rows)[sample.codes]) * sample.roots[:, None]
            _, coef = self._sweep(centered, np.einsum("ij,ij->i", centered, centered), sample)
            self._keep_linear(coef)
            residual = sample.y - rows @ coef
            self.cost_, self.intercept_ = sample.mean_square(residual), sample.overall(residual)
        else:
            K = problem.matrix()
            mean_row = sample.mass @ K / sample.total
            K = center_gram(scale_gram(K, sample), sample)
            alpha, _ = self._sweep(K, K.diagonal().copy(), sample, is_gram=True)
            # From coefficients of centered rows to coefficients of the rows themselves: P alpha.
            self._keep_alpha(problem, sample.roots * sample.projected(alpha), mean_row)

    def _sweep(
        self, table: FloatArray, square: FloatArray, sample: WeightedRows, is_gram: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Coordinate ascent until a round changes the cost by at most tol of itself."""
        from rankwright.rankers.magnitude._kernels import sweep

        target = sample.roots * sample.centered(sample.y)
        alpha, product = np.zeros(len(table)), np.zeros(table.shape[1])
        cost, ridge = 0.0, sample.total / (2.0 * self.C)
        rate = float(self.learning_rate or 0.0)
        for n_iter in range(1, self.max_iter + 1):
            # The growth of each step is known without cancellation: any tol is meaningful.
            growth = sweep(table, square, target, ridge, rate, is_gram, alpha, product)
            cost, self.n_iter_ = cost + growth, n_iter
            if not cost >= 0.0:
                raise ParameterError(
                    f"{type(self).__name__}(solver='online', learning_rate={rate:g}) diverged in "
                    f"round {n_iter}. Use a rate below {1.0 / (square.max() + ridge):.2g}, or "
                    "None.",
                    parameter="learning_rate",
                )
            if abs(growth) <= self.tol * cost:
                return alpha, product
        warnings.warn(
            f"{type(self).__name__}: the cost still changes by a fraction of more than tol = "
            f"{self.tol:g} after {self.n_iter_} rounds. Raise max_iter, raise tol or lower C.",
            ConvergenceWarning,
            stacklevel=6,
        )
        return alpha, product

    def _fit_nystroem(self, problem: KernelProblem) -> DrawnLandmarks:
        landmarks = self._landmarks(problem)
        coef = self._solve(Scatter.of(landmarks, problem.sample))
        self._keep_dual(problem, coef, landmarks)
        return landmarks

    def _solve(self, scatter: Scatter) -> FloatArray:
        coef = scatter.solve(2.0 * self.C / scatter.mass)
        self.cost_ = 2.0 * scatter.loss(coef) / scatter.mass
        self.intercept_ = scatter.intercept(coef)
        return coef

    def _keep_alpha(self, problem: KernelProblem, alpha: FloatArray, mean_row: FloatArray) -> None:
        """The dual solution; its coefficients are C' times the masses times the residuals."""
        sample = problem.sample
        self._keep_dual(problem, alpha)
        residual = alpha * sample.total / (2.0 * self.C * sample.mass)
        self.cost_ = sample.mean_square(residual)
        self.intercept_ = sample.overall(sample.y) - float(mean_row @ alpha)

    def _fit_pairs(self, X: Matrix, pairs: Pairs) -> None:
        if self.loss != "squared" or self.solver == "online":
            raise FeedbackError(
                f"{type(self).__name__}(loss={self.loss!r}, solver={self.solver!r}) got Pairs: it "
                "learns from them with loss='squared' and the solvers auto, primal, dual and "
                "nystroem."
            )
        problem = self._problem(X, WeightedRows.of(Grades(np.zeros(X.shape[0]))), self.gamma)
        solver = self._choose_solver(problem)
        self.n_iter_, self.intercept_ = 1, 0.0
        self.mass_, self.kappa_ = 0.0, problem.kappa
        total = pairs.total_weight or 1.0
        if solver == "dual":
            alpha, residual = _solve_laplacian(problem.matrix(), pairs, self.C / total)
            self._keep_dual(problem, alpha)
            self.cost_ = float(pairs.weight @ residual**2) / total
            return
        landmarks = self._landmarks(problem) if solver == "nystroem" else None
        rows = X if landmarks is None else landmarks
        scatter = Scatter(rows.shape[1])
        scatter.add_pairs(rows, pairs)
        coef = scatter.solve(self.C / total)
        self.cost_ = scatter.loss(coef) / total
        if landmarks is None:
            self._keep_linear(coef)
        else:
            self._keep_dual(problem, coef, landmarks)

    def _cost_terms(self) -> tuple[float, int]:
        return self.C, 2 if self.loss == "squared" else 1

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @exclusive
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the model with more rows; with the linear kernel it equals one ``fit`` to all
        rows.

        With another kernel, ``n_components`` bounds the landmarks (see the class), and
        ``gamma="scale"`` is that of the rows of the first call. Memory grows with the number of
        queries (a row of means each), not of rows. Several calls may add rows to the same query.
        Without ``qid`` all rows are one query. Each call solves the problem again, in time cubic in
        the number of features or landmarks, so pass many rows per call.
        """
        self._check_parameters()
        stream = self._stream()
        X, y = self._validated(X, y, reset=stream is None)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        grades = Grades(
            as_grades(y, "y"), qid, sample_weight=sample_weight, query_weight=query_weight
        )
        first, linear = stream is None, self.kernel == "linear"
        stream = stream or Stream.empty(X.shape[1] if linear else 0)
        landmarks = None if linear else self._streamed_landmarks(X, first)
        with np.errstate(over="ignore", invalid="ignore"):  # raised as an error
            _add_rows(stream, landmarks, X, grades)
        self._keep_stream(stream)
        scatter = stream.scatter()
        self.n_queries_in_, self.n_iter_ = max(len(stream.keys), 1), 1
        self.mass_, self.kappa_ = scatter.mass, float(np.sqrt(stream.longest))
        scatter.mass = scatter.mass or 1.0
        coef = self._solve(scatter)
        if landmarks is None:
            self._keep_linear(coef)
        else:
            self._keep_landmarks(landmarks, coef)
        return self

    def _streamed_landmarks(self, X: Matrix, first: bool) -> StreamedLandmarks:
        """The landmarks so far; at first, none."""
        gamma = self.gamma if first else self.gamma_ or 1.0
        gram = Gram.of(self.kernel, X, gamma=gamma, degree=self.degree, coef0=self.coef0)
        support, root = np.zeros((0, X.shape[1])), np.zeros((0, 0))
        if not first and self.support_ is not None and self.landmarks_root_ is not None:
            support, root = self.support_, self.landmarks_root_
        return StreamedLandmarks(gram, support, root, self.n_components, self.tol)

    def _keep_landmarks(self, landmarks: StreamedLandmarks, coef: FloatArray) -> None:
        kernel = landmarks.gram.kernel
        self.coef_, self.dual_coef_ = None, landmarks.dual(coef)
        self.support_, self.landmarks_root_ = landmarks.support, landmarks.root
        self.gamma_ = kernel.gamma if isinstance(kernel, Kernel) else None

    def _stream(self) -> Stream | None:
        """The sums so far; None before the first rows."""
        if not hasattr(self, "intercept_"):
            return None
        if self.products_ is not None:
            sums = {part: getattr(self, name).copy() for name, part in STREAM.items()}
            return Stream(**sums, longest=self.kappa_**2)
        if self._training is None:
            raise ParameterError(
                f"{type(self).__name__}.partial_fit: this model was fitted by fit and then copied "
                "or loaded, which discards the sums that partial_fit updates. Start with "
                "partial_fit."
            )
        problem, grades = self._training.problem, self._training.grades
        linear = self.kernel == "linear"
        stream = Stream.empty(self.n_features_in_ if linear else 0)
        landmarks = None if linear else self._streamed_landmarks(problem.X, first=False)
        _add_rows(stream, landmarks, problem.X, grades)
        if landmarks is not None:
            self.support_, self.landmarks_root_ = landmarks.support, landmarks.root
        return stream

    def _keep_stream(self, stream: Stream | None) -> None:
        """Keep the sums so far; nothing else of an earlier fit stays."""
        for name, part in STREAM.items():
            setattr(self, name, stream and getattr(stream, part))
        self._training, self.objective_, self.gap_ = None, None, None
        if stream is None:
            self.landmarks_root_ = None


def _add_rows(
    stream: Stream, landmarks: StreamedLandmarks | None, X: Matrix, grades: Grades
) -> None:
    """Add rows, or their coordinates in the basis of the landmarks, to the sums."""
    used = np.flatnonzero(grades.row_weight > 0)
    if landmarks is None or not len(used):
        stream.add(X, grades)
        return
    rows = dense(X[used])
    features = landmarks.add(rows)
    stream.widen(features.shape[1])
    table = np.zeros((X.shape[0], features.shape[1]))
    table[used] = features
    stream.add(table, grades)
    stream.longest = max(stream.longest, float(landmarks.gram.diagonal(rows).max()))


def _solve_laplacian(K: FloatArray, pairs: Pairs, factor: float) -> tuple[FloatArray, FloatArray]:
    """alpha = c (I + c L K)^-1 D' w for the differences D and the graph's Laplacian L = D' W D."""
    n, p = len(K), np.arange(pairs.n_pairs)
    where = np.append(p, p), np.append(pairs.upper, pairs.lower)
    D = sparse.csr_array((np.repeat([1.0, -1.0], len(p)), where), shape=(len(p), n))
    weighted = D.T @ sparse.diags_array(pairs.weight)
    system = factor * np.asarray((weighted @ D) @ K)
    system.flat[:: n + 1] += 1.0
    alpha = linalg.solve(system, factor * (D.T @ pairs.weight), overwrite_a=True)
    return alpha, 1.0 - D @ (K @ alpha)
