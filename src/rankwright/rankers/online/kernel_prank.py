"""PRank with kernels: a kernel expansion over misclassified rows, optionally with a budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike, RandomState
from rankwright.rankers import schema
from rankwright.rankers.bounds import Bounds
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.kernels import Gram
from rankwright.rankers.online.base import (
    PASS_CONSTRAINTS,
    STREAM,
    Examples,
    ThresholdRanker,
    kernels,
)
from rankwright.rankers.online.margins import least_gap, prank_bounds
from rankwright.rankers.online.prank import NO_AVERAGE
from rankwright.rankers.online.support_vectors import (
    KERNEL_CONSTRAINTS,
    BudgetRule,
    KernelStream,
    SupportBlock,
)
from rankwright.rankers.schema import flag, floats, integers
from rankwright.scoring.base import Scorer
from rankwright.scoring.ordinal import Ordinal


class KernelPRank(KernelStream, ThresholdRanker):
    r"""PRank in the feature space of a kernel.

    The score is :math:`f(x) = \sum_s \alpha_s K(x_s, x)` over the rows :math:`x_s` that were ranked
    wrongly, with :math:`\alpha_s` PRank's :math:`\sum_r a_r` for that row; thresholds move as in
    PRank.

    The support grows with the number of mistakes. ``budget`` bounds it, so that memory and time per
    row stay constant on an infinite stream. For a polynomial kernel on few features and without a
    budget, the ranker learns weights of all products of features (monomials) instead, which is
    equivalent, faster, and needs constant memory (``explicit_`` is then True). If features,
    ``gamma`` and ``coef0`` are integers, both forms are exact and give the same thresholds.

    Parameters
    ----------
    kernel : "linear", "poly", "rbf", "precomputed" or a function, default "rbf"
        A function takes two tables of rows and returns the kernel of every pair. With "precomputed"
        X[i, j] is the kernel of row i and row j of the training stream (X is square in ``fit``;
        ``partial_fit`` takes the next rows of the same square).
    gamma : float > 0 or "auto", default "auto"
        "auto" is 1 / n_features. ("scale" would need all rows in advance.)
    degree, coef0 : the polynomial kernel is (gamma a . b + coef0) ** degree
    budget : int or None, default None
        Maximum number of support rows.
    budget_rule : "project", "smallest" or "oldest", default "project"
        Which row to drop beyond the budget: "oldest" drops the oldest, "smallest" the one with the
        smallest weight, "project" the one that the others represent best, and projects it onto them
        (O(budget^3) per mistake).
    average : bool, default False
        Predict with the mean of the model over all rows, which is much more stable than the last
        model. A row that the budget drops is also dropped or projected in the mean.
    max_iter, shuffle, random_state, early_stopping : see PRank

    Attributes
    ----------
    explicit_ : bool
        Whether the model is ``coef_`` of mapped features (then there is no support).
    coef_ : (n_mapped,) array, if explicit
        The weight of each monomial.
    support_ : (n_support,) int array
        The numbers of the support rows in the stream.
    support_vectors_ : (n_support, n_features) array
    dual_coef_ : (n_support,) array
    last_coef_, last_thresholds_ : with ``average``, the model after the last row
    drift_coef_, drift_thresholds_ : with ``average``, the running sums behind the mean
    running_dual_coef_ : (n_support, 2) array
        With ``average`` and a support: both for the coefficients.
    thresholds_, classes_, n_mistakes_, n_seen_, validation_, best_iteration_ : see PRank

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(600, 2))
    >>> y = np.digitize((X**2).sum(axis=1), [0.3, 0.8])  # rings
    >>> model = KernelPRank(gamma=2.0, budget=60, max_iter=3).fit(X, y)
    >>> bool(np.abs(model.predict(X) - y).mean() < 0.2), len(model.support_) <= 60
    (True, True)
    """

    _constraints: ClassVar = {
        **KERNEL_CONSTRAINTS,
        "average": schema.boolean(),
        **PASS_CONSTRAINTS,
    }
    _learned: ClassVar = {
        **STREAM,
        "explicit_": flag(),
        "coef_": floats("n_mapped", optional=True),
        "thresholds_": floats("n_thresholds"),
        "support_": integers("n_support", low=0, optional=True),
        "support_vectors_": floats("n_support", "n_features", optional=True),
        "dual_coef_": floats("n_support", optional=True),
        "last_coef_": floats("n_mapped", optional=True),
        "drift_coef_": floats("n_mapped", optional=True),
        "running_dual_coef_": floats("n_support", 2, optional=True),
        "last_thresholds_": floats("n_thresholds", optional=True),
        "drift_thresholds_": floats("n_thresholds", optional=True),
    }

    explicit_: bool
    dual_coef_: FloatArray

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | str = "auto",
        degree: int = 3,
        coef0: float = 1.0,
        budget: int | None = None,
        budget_rule: str = "project",
        average: bool = False,
        max_iter: int = 1,
        shuffle: bool = False,
        random_state: RandomState = None,
        early_stopping: EarlyStopping | bool | int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.budget = budget
        self.budget_rule = budget_rule
        self.average = average
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.early_stopping = early_stopping

    def bounds(
        self, X: MatrixLike, y: ArrayLike, *, qid: ArrayLike | None = None, delta: float = 0.05
    ) -> Bounds:
        """Compare the mistakes on a stream with what PRank's theorem allows; see ``PRank.bounds``.

        Radius and margin are those in the feature space of the kernel. A ``budget`` voids the
        theorem: bounds are then infinite.
        """
        rows, code = self._stream_of(X, y)
        gamma = self._gamma(self.n_features_in_)
        gram = self._gram(self.n_features_in_) or Gram.of(
            self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0
        )
        squared = self._squared_length(gram, rows) + float(self.thresholds_ @ self.thresholds_)
        radius = float(np.sqrt(gram.diagonal(rows).max()))
        scores = self._scorer().decision_function(rows)
        margin = least_gap(scores, self.thresholds_, code) / (np.sqrt(squared) or 1.0)
        usable = float(margin) if self.budget is None else 0.0
        entries = prank_bounds(self, rows, code, radius, usable)
        return Bounds(tuple(entries), {"radius": radius, "margin": float(margin)})

    def _squared_length(self, gram: Gram, rows: Matrix) -> float:
        """Of the function in the feature space of the kernel."""
        if self.explicit_:
            scale = self._map_scale(self.n_features_in_)
            return float((self.coef_**2 / (1.0 if scale is None else scale)).sum())
        support = self.support_vectors_
        if gram.is_precomputed:
            table = np.asarray(support[:, self.support_])
        else:
            table = gram.block(support, support)
        return float(self.dual_coef_ @ table @ self.dual_coef_)

    def _is_plain_prank(self) -> bool:
        return not self.average

    def _limits(self) -> tuple[int | None, BudgetRule]:
        budget, rule = super()._limits()
        # The coefficients of the present model decide which row to drop, from both models.
        return budget, (lambda dual, gram: rule(dual[:, 0], gram)) if self.average else rule

    def _begin(self, n_features: int) -> None:
        self.explicit_ = self._is_explicit(n_features)
        self.thresholds_ = np.zeros(len(self.classes_) - 1)
        if self.average:
            self.last_thresholds_, self.drift_thresholds_ = np.zeros((2, len(self.thresholds_)))
        if not self.explicit_:
            dual = np.zeros((0, 2) if self.average else 0)
            self._set_support(np.zeros((0, n_features)), np.zeros(0, np.int64), dual)
            return
        self.coef_ = np.zeros(self._n_mapped(n_features))
        if self.average:
            self.last_coef_, self.drift_coef_ = np.zeros((2, len(self.coef_)))

    def _support(self) -> list[Any]:
        dual = "running_dual_coef_" if self.average else "dual_coef_"
        return self._writable("support_vectors_", "support_", dual)

    def _set_support(self, rows: FloatArray, numbers: IntArray, dual: FloatArray) -> None:
        self.support_vectors_, self.support_ = rows, numbers
        if self.average:
            self.running_dual_coef_ = dual
            self._take_mean()
        else:
            self.dual_coef_ = dual

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        model, drift = self._writable("coef_", "thresholds_"), NO_AVERAGE
        if self.average:
            model = self._writable("last_coef_", "last_thresholds_")
            drift = self._writable("drift_coef_", "drift_thresholds_")
        predicted = np.empty(len(examples.order), np.int64)
        counts = kernels("prank").prank_pass(
            tuple(examples), *model, *drift, self.n_seen_, predict, predicted
        )
        return predicted, *counts

    def _block_pass(
        self, block: SupportBlock, grade: IntArray, predict: bool
    ) -> tuple[Any, int, int]:
        predicted = np.zeros(len(grade), np.int64)
        if not self.average:
            (thresholds,) = self._writable("thresholds_")
            options: Any = (grade, thresholds, predicted)
            learn = kernels("kernel_prank").kernel_prank_pass
        else:
            thresholds = np.stack([self.last_thresholds_, self.drift_thresholds_])
            options = (grade, thresholds, self.n_seen_, predict, predicted)
            learn = kernels("kernel_prank").averaged_kernel_pass
        counts = block.learn(lambda *state: learn(*state, *options), *self._limits())
        if self.average:
            self.last_thresholds_, self.drift_thresholds_ = thresholds
        return predicted, *counts

    def _count(self, n_examples: int, mistakes: int, skipped: int) -> None:
        super()._count(n_examples, mistakes, skipped)
        if self.average:
            self._take_mean()

    def _take_mean(self) -> None:
        n = max(self.n_seen_, 1)
        if self.explicit_:
            self.coef_ = self.last_coef_ - self.drift_coef_ / n
        else:
            self.dual_coef_ = self.running_dual_coef_[:, 0] - self.running_dual_coef_[:, 1] / n
        # Rounding must not undo the order of equal thresholds.
        thresholds = self.last_thresholds_ - self.drift_thresholds_ / n
        self.thresholds_ = np.maximum.accumulate(thresholds)

    def _scorer(self) -> Scorer:
        gram = self._gram(self.n_features_in_)
        if gram is None:
            return super()._scorer()
        expansion = gram.expansion(
            self.support_vectors_, self.support_, self.dual_coef_, self.n_features_in_
        )
        return Ordinal(expansion, self.thresholds_, self.classes_)
