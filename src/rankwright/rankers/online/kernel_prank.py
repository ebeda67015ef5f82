"""PRank with kernels: a sum over the rows that it got wrong, all or a bounded number of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers import schema
from rankwright.rankers.kernels import Gram
from rankwright.rankers.online.base import (
    PASS_CONSTRAINTS,
    STREAM,
    Examples,
    ThresholdRanker,
    kernels,
)
from rankwright.rankers.online.prank import NO_AVERAGE
from rankwright.rankers.online.support_vectors import (
    BUDGET_RULES,
    BudgetRule,
    SupportBlock,
    SupportRanker,
)
from rankwright.rankers.schema import flag, floats, integers
from rankwright.scoring.base import Scorer
from rankwright.scoring.ordinal import Ordinal
from rankwright.scoring.transforms import Polynomial

MOST_EXPLICIT = 1000  # mapped features up to which weights are faster than a growing support


class KernelPRank(SupportRanker, ThresholdRanker):
    r"""PRank in the feature space of a kernel.

    The score is :math:`f(x) = \sum_s \alpha_s K(x_s, x)` over the rows :math:`x_s` that were ranked
    wrongly, with :math:`\alpha_s` PRank's :math:`\sum_r a_r` for that row; thresholds move as in
    PRank.

    The support grows with the mistakes. ``budget`` bounds it, so that memory and time per row stay
    constant on an endless stream. If the kernel is a polynomial of few features and there is no
    budget, the same ranker is kept as weights of the explicitly mapped features, which is exact,
    faster, and constant in memory as well (``explicit_`` is then True).

    Parameters
    ----------
    kernel : "linear", "poly", "rbf", "precomputed" or a function, default "rbf"
        A function takes two tables of rows and returns the kernel of every pair. With "precomputed"
        X[i, j] is the kernel of row i and row j of the training stream (X is square in ``fit``;
        ``partial_fit`` takes the next rows of the same square).
    gamma : float > 0 or "auto", default "auto"
        "auto" is 1 / n_features. ("scale" would need all rows before the first.)
    degree, coef0 : the polynomial kernel is (gamma a . b + coef0) ** degree
    budget : int or None, default None
        The largest support.
    budget_rule : "project", "smallest" or "oldest", default "project"
        What to drop beyond the budget: "oldest" drops the oldest row, "smallest" the one of least
        weight, "project" the one that the others can best replace, and projects it onto them
        (O(budget^3) per mistake).
    max_iter, shuffle, random_state, early_stopping : see PRank

    Attributes
    ----------
    explicit_ : bool
        Whether the ranker is kept as ``coef_`` of mapped features (then there is no support).
    coef_ : (n_mapped,) array, if explicit
    support_ : (n_support,) int array
        The numbers of the support rows in the stream.
    support_vectors_ : (n_support, n_features) array
    dual_coef_ : (n_support,) array
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
        "kernel": schema.either(
            schema.one_of("linear", "poly", "rbf", "precomputed"), schema.function()
        ),
        "gamma": schema.either(schema.one_of("auto"), schema.positive()),
        "degree": schema.at_least(1),
        "coef0": schema.number(),
        "budget": schema.optional(schema.at_least(1)),
        "budget_rule": schema.one_of(*BUDGET_RULES),
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
    }

    explicit_: bool
    dual_coef_: FloatArray

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "auto",
        degree: int = 3,
        coef0: float = 1.0,
        budget: int | None = None,
        budget_rule: str = "project",
        max_iter: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
        early_stopping: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.budget = budget
        self.budget_rule = budget_rule
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.early_stopping = early_stopping

    @property
    def _chunks_exact(self) -> bool:  # type: ignore[override]
        return not callable(self.kernel)  # a function may round differently for other tables

    def _is_explicit(self, n_features: int) -> bool:
        return self.budget is None and (
            self.kernel == "linear"
            or (
                self.kernel == "poly"
                and self.coef0 >= 0
                and Polynomial.width(n_features, self.degree) <= MOST_EXPLICIT
            )
        )

    def _is_plain_prank(self) -> bool:
        return True

    def _map(self, n_features: int) -> Polynomial | None:
        if self.kernel != "poly" or not self._is_explicit(n_features):
            return None
        return Polynomial(n_features, int(self.degree), self._gamma(n_features), float(self.coef0))

    def _gram(self, n_features: int) -> Gram | None:
        if self._is_explicit(n_features):
            return None
        gamma = self._gamma(n_features)
        return Gram.of(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)

    def _gamma(self, n_features: int) -> float:
        return 1.0 / n_features if self.gamma == "auto" else float(self.gamma)

    def _limits(self) -> tuple[int | None, BudgetRule]:
        return self.budget, BUDGET_RULES[self.budget_rule]

    def _begin(self, n_features: int) -> None:
        self.explicit_ = self._is_explicit(n_features)
        self.thresholds_ = np.zeros(len(self.classes_) - 1)
        if self.explicit_:
            features = self._map(n_features)
            self.coef_ = np.zeros(n_features if features is None else features.n_outputs)
        else:
            self._set_support(np.zeros((0, n_features)), np.zeros(0, np.int64), np.zeros(0))

    def _support(self) -> list[Any]:
        return self._writable("support_vectors_", "support_", "dual_coef_")

    def _set_support(self, rows: FloatArray, numbers: IntArray, dual: FloatArray) -> None:
        self.support_vectors_, self.support_, self.dual_coef_ = rows, numbers, dual

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        model = self._writable("coef_", "thresholds_")
        predicted = np.empty(len(examples.order), np.int64)
        counts = kernels("prank").prank_pass(
            tuple(examples), *model, *NO_AVERAGE, self.n_seen_, predict, predicted
        )
        return predicted, *counts

    def _block_pass(self, block: SupportBlock, grade: IntArray) -> tuple[Any, int, int]:
        (thresholds,) = self._writable("thresholds_")
        predicted = np.zeros(len(grade), np.int64)

        def learn(*state: Any) -> Any:
            return kernels("kernel_prank").kernel_prank_pass(*state, grade, thresholds, predicted)

        return predicted, *block.learn(learn, *self._limits())

    def _end_pass(self) -> None:
        """Merge the entries of a row that is in the support several times."""
        if self.explicit_:
            return
        numbers, first, where = np.unique(self.support_, return_index=True, return_inverse=True)
        if len(numbers) < len(self.support_):
            dual = np.bincount(where, self.dual_coef_, len(numbers)).astype(np.float64)
            age = np.argsort(first)
            self._set_support(self.support_vectors_[first[age]], numbers[age], dual[age])

    def _scorer(self) -> Scorer:
        gram = self._gram(self.n_features_in_)
        if gram is None:
            return super()._scorer()
        expansion = gram.expansion(
            self.support_vectors_, self.support_, self.dual_coef_, self.n_features_in_
        )
        return Ordinal(expansion, self.thresholds_, self.classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
