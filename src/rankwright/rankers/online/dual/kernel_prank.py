"""PRank with kernels: a sum over the rows it got wrong, all of them or a bounded number."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright.exceptions import DataError
from rankwright.feedback import Feedback
from rankwright.rankers import rules
from rankwright.rankers.base import FloatArray
from rankwright.rankers.gram import Gram, dense
from rankwright.rankers.learned import flag, floats, integers
from rankwright.rankers.online.base import STREAM, IntArray, Rows, kernels
from rankwright.rankers.online.dual.budget import BUDGET_RULES
from rankwright.rankers.online.dual.stretch import Stretch
from rankwright.rankers.online.prank import NO_DRIFT, PASSES_RULES
from rankwright.rankers.online.room import with_room
from rankwright.rankers.online.rule import RuleRanker
from rankwright.scoring import Ordinal, Polynomial, Scorer

__all__ = ["KernelPRank"]

BLOCK = 256
MOST_EXPLICIT = 1000  # mapped features up to which the map is faster than a growing support
SUPPORT = ("support_vectors_", "support_", "dual_coef_")


class KernelPRank(RuleRanker):
    r"""PRank in the feature space of a kernel.

    The score is :math:`f(x) = \sum_s \alpha_s K(x_s, x)` over the rows :math:`x_s` that were ranked
    wrongly when they were shown, :math:`\alpha_s` being PRank's :math:`\sum_r a_r` at that round;
    thresholds move as in PRank.

    The support grows with the mistakes. ``budget`` bounds it, so that memory and time per row stay
    constant on an endless stream. Where the kernel is a polynomial of few features and there is no
    budget, the same ranker is kept as weights of the explicitly mapped features, which is exact,
    faster, and constant in memory as well: ``explicit_`` tells.

    Parameters
    ----------
    kernel : "linear", "poly", "rbf", "precomputed" or a function, default "rbf"
        A function takes two tables of rows and gives the kernel of every pair. With "precomputed"
        X[i, j] is the kernel of row i and row j of the training stream (X is square in ``fit``;
        ``partial_fit`` takes the next rows of the same square).
    gamma : float > 0 or "auto", default "auto"
        "auto" is 1 / n_features. ("scale" would need all rows before the first.)
    degree, coef0 : the polynomial kernel is (gamma a . b + coef0) ** degree
    budget : int or None, default None
        The largest support.
    budget_rule : "project", "smallest" or "oldest", default "project"
        When the support outgrows the budget: "oldest" drops the oldest row, "smallest" the one of
        least weight, "project" the one that the others can best replace, and gives them its part
        (O(budget^3) per mistake).
    n_passes, shuffle, random_state : see PRank

    Attributes
    ----------
    explicit_ : bool
        Whether the ranker is kept as ``coef_`` of mapped features (then there is no support).
    coef_ : (n_mapped,) array, if explicit
    support_ : (n_support,) int array
        The numbers of the support rows in the stream.
    support_vectors_ : (n_support, n_features) array
    dual_coef_ : (n_support,) array
    thresholds_, classes_, n_mistakes_, n_seen_ : see PRank

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(600, 2))
    >>> y = np.digitize((X**2).sum(axis=1), [0.3, 0.8])  # rings
    >>> model = KernelPRank(gamma=2.0, budget=60, n_passes=3).fit(X, y)
    >>> bool(np.abs(model.predict(X) - y).mean() < 0.2), len(model.support_) <= 60
    (True, True)
    """

    _rules: ClassVar = {
        "kernel": rules.either(
            rules.one_of("linear", "poly", "rbf", "precomputed"), rules.a_function()
        ),
        "gamma": rules.either(rules.one_of("auto"), rules.positive()),
        "degree": rules.at_least(1),
        "coef0": rules.number(),
        "budget": rules.either(rules.nothing(), rules.at_least(1)),
        "budget_rule": rules.one_of(*BUDGET_RULES),
        **PASSES_RULES,
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
    support_: IntArray
    support_vectors_: FloatArray
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
        n_passes: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.budget = budget
        self.budget_rule = budget_rule
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.random_state = random_state

    @property
    def _chunks_exact(self) -> bool:  # type: ignore[override]
        return not callable(self.kernel)  # a function may round otherwise for other tables

    def _averages(self, n_features: int) -> bool:
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

    def _map_for(self, n_features: int) -> Polynomial | None:
        if self.kernel != "poly" or not self._averages(n_features):
            return None
        gamma = 1.0 / n_features if self.gamma == "auto" else float(self.gamma)
        return Polynomial(n_features, int(self.degree), gamma, float(self.coef0))

    def _gram(self) -> Gram:
        gamma = 1.0 / self.n_features_in_ if self.gamma == "auto" else self.gamma
        return Gram.of(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)

    def _begin(self, n_features: int) -> None:
        for name in (*SUPPORT, "coef_"):
            self.__dict__.pop(name, None)
        self.explicit_ = self._averages(n_features)
        self.thresholds_ = np.zeros(len(self.classes_) - 1)
        if self.explicit_:
            features = self._map_for(n_features)
            self.coef_ = np.zeros(n_features if features is None else features.n_outputs)
            return
        self.support_vectors_ = np.zeros((0, n_features))
        self.support_, self.dual_coef_ = np.zeros(0, np.int64), np.zeros(0)

    def _show(
        self, rows: Rows, grade: IntArray, order: IntArray, asked: bool
    ) -> tuple[Any, int, int]:
        rule = self._writable("coef_", "thresholds_")
        predicted = np.empty(len(order), np.int64)
        state = (*rule, *NO_DRIFT, self.n_seen_, asked, predicted)
        return predicted, *kernels().prank_pass(*rows, grade, order, *state)

    def _show_all(self, X: Any, grade: IntArray, order: IntArray, asked: bool, first: int) -> Any:
        if self.explicit_:
            return super()._show_all(X, grade, order, asked, first)
        if self.kernel == "precomputed" and first + X.shape[0] > X.shape[1]:
            raise DataError(
                f"kernel='precomputed': the stream has {first + X.shape[0]} rows and X has "
                f"{X.shape[1]} columns. X[i, j] is the kernel of rows i and j of the stream."
            )
        answers = []
        for start in range(0, len(order), BLOCK):
            chosen = order[start : start + BLOCK]
            answers.append(self._show_block(dense(X[chosen]), grade[chosen], first + chosen))
        return np.concatenate(answers)

    def _show_block(self, rows: FloatArray, grade: IntArray, numbers: IntArray) -> IntArray:
        (thresholds,) = self._writable("thresholds_")
        old = (self.support_vectors_, self.support_, self.dual_coef_)
        stretch = Stretch(self._gram(), old, rows, numbers)
        rule, most = BUDGET_RULES[self.budget_rule], self.budget or np.iinfo(np.int64).max
        predicted, mistakes, skipped = stretch.walk(grade, thresholds, most, rule)
        self._keep(stretch)
        self.n_mistakes_ += mistakes
        self.n_seen_ += len(rows)
        if skipped:
            self._warn_of_skips(skipped)
        return predicted

    def _keep(self, stretch: Stretch) -> None:
        """Take over the support after a stretch; rows that stayed where they were stay there."""
        size, same = stretch.size, stretch.n_unmoved
        for name, values in zip(SUPPORT, stretch.support(same), strict=True):
            table = with_room(self.__dict__[name][:same], size) if same else values
            if same:
                table[same:size] = values
            self.__dict__[name] = table[:size]
        self.dual_coef_[:] = stretch.dual[:size]

    def _fit(self, X: Any, feedback: Feedback) -> None:
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise DataError(
                f"kernel='precomputed' needs a square X at training, found {X.shape}: "
                "X[i, j] is the kernel of rows i and j."
            )
        super()._fit(X, feedback)

    def _end_pass(self) -> None:
        """After a pass, let a row that is in the support several times be there once."""
        if self.explicit_:
            return
        numbers, at, where = np.unique(self.support_, return_index=True, return_inverse=True)
        if len(numbers) < len(self.support_):
            dual = np.bincount(where, self.dual_coef_, len(numbers)).astype(np.float64)
            age = np.argsort(at)
            self.support_vectors_ = self.support_vectors_[at[age]]
            self.support_, self.dual_coef_ = numbers[age], dual[age]

    def _scorer(self) -> Scorer:
        if self.explicit_:
            return super()._scorer()
        expansion = self._gram().expansion(
            self.support_vectors_, self.support_, self.dual_coef_, self.n_features_in_
        )
        return Ordinal(expansion, self.thresholds_, self.classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
