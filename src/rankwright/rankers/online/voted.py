"""Voted PRank: all past models of one PRank vote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray, RandomState
from rankwright.rankers import schema
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.online.base import (
    PASS_CONSTRAINTS,
    STREAM,
    Examples,
    VotingRanker,
    kernels,
    with_room,
)
from rankwright.rankers.online.support_vectors import BLOCK as SUPPORT_BLOCK
from rankwright.rankers.online.support_vectors import (
    KERNEL_CONSTRAINTS,
    KernelStream,
    SupportBlock,
)
from rankwright.rankers.schema import floats, integer, integers
from rankwright.runtime import require_memory
from rankwright.scoring.base import RowMap, Scorer
from rankwright.scoring.ordinal import Votes
from rankwright.scoring.transforms import Mapped

BLOCK = 1024  # examples between two enlargements of the tables


class VotedPRank(KernelStream, VotingRanker):
    """Voted PRank: each past model votes with the number of rows that it classified correctly.

    This is more stable than the last model, but all models are kept: prediction costs one product
    per model. ``max_rules`` bounds time and memory on an infinite stream: beyond it the model with
    the fewest votes is dropped (the oldest among equals). ``predict`` rounds the mean grade to the
    nearest grade, ``predict_expected`` returns the mean itself (the papers score it unrounded),
    ``decision_function`` orders by the mean, then by the models' mean score.

    With a kernel the models are sums of kernels over one support, the rows that were ranked
    wrongly, or weights of monomials where these are equivalent (see :class:`KernelPRank`). A row
    that the ``budget`` drops is dropped, or projected, in all models together. The coefficients
    are a table of support rows times models: on long streams set ``budget``, ``max_rules`` or both.

    Parameters
    ----------
    kernel, gamma, degree, coef0, budget, budget_rule : see KernelPRank; default "linear"
    max_rules : int or None, default None
        Maximum number of past models; None keeps all that have a vote.
    count : "survived" or "correct", default "survived"
        "survived" counts the rows that a model classified correctly plus the one that created it
        (Freund and Schapire's count, which reproduces the figures of the OAP-BPM paper). "correct"
        excludes the latter, so models that failed on their first row have no vote and are not kept.
    max_iter, shuffle, random_state, early_stopping : see PRank

    Attributes
    ----------
    coef_, thresholds_ : (n_features,) and (n_grades - 1,) arrays
        The current model; ``coef_`` has weights of monomials if the kernel is mapped to these.
    rules_coef_, rules_thresholds_ : (n_rules, n_features) and (n_rules, n_grades - 1) arrays
        The past models, oldest first.
    support_, support_vectors_ : (n_support,) and (n_support, n_features) arrays
        The support rows, if the kernel needs them: their numbers in the stream, and in full.
    dual_coef_, rules_dual_coef_ : (n_support,) and (n_support, n_rules) arrays
        Then in place of ``coef_`` and ``rules_coef_``.
    rules_votes_ : (n_rules,) int array
    n_votes_ : int
        Number of rows that the current model has classified correctly.
    n_dropped_ : int
        Number of past models that were dropped.
    classes_, n_mistakes_, n_seen_, validation_, best_iteration_ : see PRank

    References
    ----------
    Freund, Schapire: Large margin classification using the perceptron algorithm. Machine Learning
    37, 1999. Applied to PRank by Harrington, ICML 2003 (PRank-VP).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = VotedPRank(max_rules=20).fit(X, y)
    >>> model.rules_coef_.shape, bool(np.abs(model.predict(X) - y).mean() < 0.1)
    ((20, 3), True)
    """

    _constraints: ClassVar = {
        **KERNEL_CONSTRAINTS,
        "count": schema.one_of("survived", "correct"),
        "max_rules": schema.optional(schema.at_least(1)),
        **PASS_CONSTRAINTS,
    }
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_mapped", optional=True),
        "thresholds_": floats("n_thresholds"),
        "rules_coef_": floats("n_rules", "n_mapped", optional=True),
        "rules_thresholds_": floats("n_rules", "n_thresholds"),
        "rules_votes_": integers("n_rules", low=1),
        "support_": integers("n_support", low=0, optional=True),
        "support_vectors_": floats("n_support", "n_features", optional=True),
        "dual_coef_": floats("n_support", optional=True),
        "rules_dual_coef_": floats("n_support", "n_rules", optional=True),
        "n_votes_": integer(low=0),
        "n_dropped_": integer(low=0),
    }

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str = "auto",
        degree: int = 3,
        coef0: float = 1.0,
        budget: int | None = None,
        budget_rule: str = "project",
        max_rules: int | None = None,
        count: str = "survived",
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
        self.max_rules = max_rules
        self.count = count
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.early_stopping = early_stopping

    def _begin(self, n_features: int) -> None:
        n_thresholds = len(self.classes_) - 1
        self.thresholds_ = np.zeros(n_thresholds)
        self.rules_thresholds_ = np.zeros((0, n_thresholds))
        self.rules_votes_ = np.zeros(0, np.int64)
        self.n_votes_ = self.n_dropped_ = 0
        if self._gram(n_features) is None:
            width = self._n_mapped(n_features)
            self.coef_, self.rules_coef_ = np.zeros(width), np.zeros((0, width))
        else:
            rows, numbers = np.zeros((0, n_features)), np.zeros(0, np.int64)
            self._set_support(rows, numbers, np.zeros((0, 1)))

    def _advice_for_many_rows(self) -> str | None:
        if self.max_rules is None and self._gram(self.n_features_in_) is None:
            return "Set max_rules, for example max_rules=1000: all past models score each row."
        return super()._advice_for_many_rows()

    def _support(self) -> list[Any]:
        """With columns for all models that a block of rows may add."""
        n_rules = self.max_rules or len(self.rules_votes_) + SUPPORT_BLOCK
        dual = np.zeros((len(self.dual_coef_), 1 + n_rules))
        dual[:, 0] = self.dual_coef_
        past = self.rules_dual_coef_[:, :n_rules]
        dual[:, 1 : 1 + past.shape[1]] = past
        return [*self._writable("support_vectors_", "support_"), dual]

    def _set_support(self, rows: FloatArray, numbers: IntArray, dual: FloatArray) -> None:
        self.support_vectors_, self.support_ = rows, numbers
        self.dual_coef_ = dual[:, 0].copy()
        self.rules_dual_coef_ = dual[:, 1 : 1 + len(self.rules_votes_)].copy()

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        predictions, counts = [np.zeros(0)], np.zeros(2, np.int64)
        for _, block in examples.blocks(1 if predict else BLOCK):
            if predict:
                predictions.append(self._votes().expected(block.first_row(len(self.coef_))))
            counts += self._linear_pass(block)
        mistakes, skipped = counts.tolist()
        return np.concatenate(predictions), mistakes, skipped

    def _linear_pass(self, block: Examples) -> tuple[int, int]:
        """Learn from a block with the weights of features; mistakes and skipped examples."""
        model = self._writable("coef_", "thresholds_")
        thresholds, votes, counts = self._past(len(block.order))
        self._require_memory(len(votes))
        coef = with_room(self.rules_coef_, len(votes))[: len(votes)]
        extra = int(self.count == "survived")
        mistakes, skipped = kernels("prank").voted_pass(
            tuple(block), *model, (coef, thresholds, votes), counts, extra
        )
        self._keep(thresholds, votes, counts)
        self.rules_coef_ = coef[: len(self.rules_votes_)]
        return mistakes, skipped

    def _require_memory(self, n_rules: int) -> None:
        """Raise a MemoryLimitError unless the past models and their copy in a scorer fit."""
        width, kept = len(self.coef_), len(self.rules_coef_)
        require_memory(
            8.0 * width * (2 * n_rules - kept),
            f"VotedPRank: {n_rules:,} past models with {width:,} weights, and a copy to score,",
            "Set max_rules, drop columns without values, X[:, np.unique(X.indices)], or use "
            "PRank(average=True), which keeps one model.",
        )

    def _block_pass(
        self, block: SupportBlock, grade: IntArray, predict: bool
    ) -> tuple[Any, int, int]:
        (present,) = self._writable("thresholds_")
        thresholds, votes, counts = self._past(SUPPORT_BLOCK)
        model, extra = (present, thresholds, votes, counts), int(self.count == "survived")
        expected = np.zeros(len(grade) if predict else 0)

        def learn(*state: Any) -> Any:
            return kernels("kernel_prank").voted_kernel_pass(
                *state, grade, model, extra, self.classes_, expected
            )

        mistakes, skipped = block.learn(learn, *self._limits())
        self._keep(thresholds, votes, counts)
        return expected, mistakes, skipped

    def _past(self, n_rows: int) -> tuple[FloatArray, IntArray, IntArray]:
        """Thresholds and votes of the past models with room for more, and counts of models."""
        n_rules = self.max_rules or len(self.rules_votes_) + n_rows
        thresholds = with_room(self.rules_thresholds_, n_rules)[:n_rules]
        votes = with_room(self.rules_votes_, n_rules)[:n_rules]
        kept = min(len(self.rules_votes_), n_rules)
        return thresholds, votes, np.array([kept, self.n_votes_, self.n_dropped_])

    def _keep(self, thresholds: FloatArray, votes: IntArray, counts: IntArray) -> None:
        kept, self.n_votes_, self.n_dropped_ = counts.tolist()
        self.rules_thresholds_, self.rules_votes_ = thresholds[:kept], votes[:kept]

    def _votes(self) -> Votes:
        """The votes of all models on mapped rows."""
        return self._weighted_votes(np.vstack([self.rules_coef_, self.coef_]))

    def _weighted_votes(self, coef: FloatArray) -> Votes:
        present = self.n_votes_ + (self.count == "survived")
        votes = np.append(self.rules_votes_, present).astype(np.float64)
        if not votes.any():
            votes[-1] = 1.0  # no correct prediction yet: only the present model votes
        thresholds = np.vstack([self.rules_thresholds_, self.thresholds_])
        return Votes(coef, thresholds, votes, self.classes_)

    def _scorer(self) -> Scorer:
        gram = self._gram(self.n_features_in_)
        if gram is None:
            features: RowMap | None = self._map(self.n_features_in_)
            scorer = self._votes()
        else:
            duals = np.column_stack([self.rules_dual_coef_, self.dual_coef_])
            features, duals = self._values_and_duals(gram, duals)
            scorer = self._weighted_votes(np.ascontiguousarray(duals.T))
        return scorer if features is None else Mapped(features, scorer)
