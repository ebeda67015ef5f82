"""What the OAP ensembles share: members on random parts of one stream, and their mean."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags

from rankwright.rankers import rules
from rankwright.rankers.base import FloatArray
from rankwright.rankers.gram import Gram
from rankwright.rankers.learned import floats, integer, integers
from rankwright.rankers.online.base import STREAM
from rankwright.rankers.online.dual import stretch as dual
from rankwright.rankers.online.dual.kernel_prank import KernelPRank
from rankwright.rankers.online.dual.supported import SupportedRanker
from rankwright.rankers.online.ensembles.clones import Clones
from rankwright.rankers.online.ensembles.members import STRETCH, Members, cutoffs, kernels
from rankwright.rankers.online.rows import IntArray, Rows, dense_row
from rankwright.rankers.online.rule import RuleRanker
from rankwright.scoring import Mapped, Polynomial, RowMap, Scorer

__all__ = ["Ensemble"]

COUNTS = ("n_correct_", "n_survived_")
WEIGHTS = ("coef_", "members_coef_", "coef_sum_", "members_state_")


class Ensemble(SupportedRanker):
    """Members that see each row by chance; there are three ways to keep them.

    Plain PRanks are tables of weights, which compiled passes change together. Kernel PRanks are
    a table of coefficients over one support: a kernel is computed once for all members. Any
    other ranker is copied for each member, as a row of numbers.
    """

    _rules: ClassVar = {
        "base": rules.either(rules.nothing(), rules.an_instance("an online ranker", RuleRanker)),
        "n_members": rules.at_least(1),
        "tau": rules.above_0_up_to(1),
        "sampling": rules.one_of("bernoulli", "poisson"),
        "random_state": rules.a_seed(),
    }
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_mapped", optional=True),
        "thresholds_": floats("n_thresholds"),
        "members_coef_": floats("n_members", "n_mapped", optional=True),
        "members_thresholds_": floats("n_members", "n_thresholds"),
        "n_correct_": integers("n_members", low=0),
        "n_survived_": integers("n_members", low=1),
        "members_state_": floats("n_members", "n_state", optional=True),
        "coef_sum_": floats("n_mapped", optional=True),
        "support_": integers("n_support", low=0, optional=True),
        "support_vectors_": floats("n_support", "n_features", optional=True),
        "dual_coef_": floats("n_support", optional=True),
        "members_dual_coef_": floats("n_support", "n_members", optional=True),
        "seed_": integer(low=0),
    }
    _duals: ClassVar = "members_dual_coef_"
    _voting: ClassVar[bool]
    _answer_type: ClassVar[Any]

    members_coef_: FloatArray
    members_thresholds_: FloatArray
    members_dual_coef_: FloatArray
    n_correct_: IntArray
    n_survived_: IntArray

    def __init__(
        self,
        *,
        base: RuleRanker | None = None,
        n_members: int = 100,
        tau: float = 0.3,
        sampling: str = "bernoulli",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.n_members = n_members
        self.tau = tau
        self.sampling = sampling
        self.random_state = random_state

    @abstractmethod
    def _answer(self, mean: FloatArray, members: FloatArray) -> Scorer:
        """What the members say together, from the mean of their weights and all of them."""

    @abstractmethod
    def _answer_of(self, answer: Any, row: FloatArray) -> Any:
        """The same about one row, as ``_grades_of`` takes it."""

    def _tally(self, votes: IntArray) -> FloatArray:
        """The mean grade of each row, from counted votes."""
        raise NotImplementedError

    @property
    def _chunks_exact(self) -> bool:  # type: ignore[override]
        return self.base is None or self.base._chunks_exact

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = (
            isinstance(self.base, RuleRanker) and get_tags(self.base).input_tags.pairwise
        )
        return tags

    def _map(self) -> Polynomial | None:
        return None if self.base is None else self.base._map_for(self.n_features_in_)

    def _gram(self) -> Gram | None:
        return None if self.base is None else self.base._gram_for(self.n_features_in_)

    @property
    def _is_plain(self) -> bool:
        return self.base is None or self.base._is_plain_prank()

    @property
    def _draws(self) -> tuple[int, Any]:
        return self.seed_, cutoffs(self.sampling, self.tau)

    def _scorer(self) -> Scorer:
        gram = self._gram()
        if gram is None:
            features: RowMap | None = self._map()
            answer = self._answer(self.coef_, self.members_coef_)
        else:
            features = gram.values_with(self.support_vectors_)
            answer = self._dual_answer(features)
        return answer if features is None else Mapped(features, answer)

    def _dual_answer(self, features: RowMap | None) -> Scorer:
        mean, members = self.dual_coef_, np.ascontiguousarray(self.members_dual_coef_.T)
        if features is None:  # X holds the kernels of all rows; the support is among its columns
            spread = np.zeros((self.n_features_in_, 1 + self.n_members))
            np.add.at(spread, self.support_, np.column_stack([mean, members.T]))
            mean, members = spread[:, 0].copy(), np.ascontiguousarray(spread[:, 1:].T)
        return self._answer(mean, members)

    def _begin(self, n_features: int) -> None:
        for name in (*WEIGHTS, *self._support_names, "dual_coef_"):
            self.__dict__.pop(name, None)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_correct_ = np.zeros(self.n_members, np.int64)
        self.n_survived_ = np.ones(self.n_members, np.int64)
        self.members_thresholds_ = np.zeros((self.n_members, len(self.classes_) - 1))
        if self._gram() is not None:
            self._begin_support(n_features, self.n_members)
        else:
            self._begin_weights(n_features)
        self._take_mean()

    def _begin_weights(self, n_features: int) -> None:
        features = self._map()
        width = n_features if features is None else features.n_outputs
        self.members_coef_ = np.zeros((self.n_members, width))
        if self._is_plain:
            self.coef_sum_ = np.zeros(width)
        else:
            begun = self._begun()
            self.members_state_ = np.tile(Clones(begun).pack(begun), (self.n_members, 1))

    def _show_all(self, X: Any, grade: IntArray, order: IntArray, asked: bool, first: int) -> Any:
        answer = super()._show_all(X, grade, order, asked, first)
        self._take_mean()
        return answer

    def _show(
        self, rows: Rows, grade: IntArray, order: IntArray, asked: bool
    ) -> tuple[Any, int, int]:
        show = self._show_pranks if self._is_plain else self._show_clones
        size = STRETCH if self._is_plain or not asked else 1
        mistakes, answers = 0, [np.zeros(0, self._answer_type)]
        for start in range(0, len(order), size):
            stretch = order[start : start + size]
            answer, wrong = show(rows, grade, stretch, self.n_seen_ + start, asked)
            answers.append(answer)
            mistakes += wrong
        return np.concatenate(answers), mistakes, 0

    def _show_pranks(
        self, rows: Rows, grade: IntArray, order: IntArray, first: int, asked: bool
    ) -> tuple[Any, int]:
        *arrays, total = self._writable(
            "members_coef_", "members_thresholds_", *COUNTS, "coef_sum_"
        )
        thresholds = self.members_thresholds_.sum(axis=0)  # whole numbers: exact
        voting = asked and self._voting
        moves = Members(*arrays).show(rows, grade, order, first, self._draws, voting)
        predicted = np.empty(len(order) if asked and not self._voting else 0, np.int64)
        kernels().oap_sum_pass(
            *rows, order, moves.weights, moves.thresholds, total, thresholds, predicted
        )
        return self._tally(moves.votes) if self._voting else predicted, moves.mistakes

    def _walk(self, stretch: dual.Stretch, grade: IntArray, asked: bool) -> tuple[Any, int, int]:
        """Show the rows of a stretch to kernel PRanks."""
        assert isinstance(self.base, KernelPRank)
        members = self._writable("members_thresholds_", *COUNTS)
        (seed, cuts), first = self._draws, self.n_seen_
        predicted = np.zeros(len(grade), np.int64)
        votes = np.zeros((len(grade), 3, len(self.classes_)), np.int64)

        def show(*state: Any) -> Any:
            return dual.kernels().walk_members(
                *state, grade, *members, seed, first, cuts, predicted, votes
            )

        found = stretch.walk(show, *self.base._limits())
        return self._tally(votes) if self._voting else predicted, *found

    def _show_clones(
        self, rows: Rows, grade: IntArray, order: IntArray, first: int, asked: bool
    ) -> tuple[Any, int]:
        answer = self._ask(rows, int(order[0])) if asked else np.zeros(0, self._answer_type)
        states, *counts = self._writable("members_state_", *COUNTS)
        clones = Clones(self._begun())
        wrong = clones.show(states, counts, rows, grade, order, first, self._draws)
        for index, state in enumerate(states):
            coef, thresholds = clones.unpack(state)._rule()
            self.members_coef_[index], self.members_thresholds_[index] = coef, thresholds
        return answer, wrong

    def _ask(self, rows: Rows, row: int) -> Any:
        """The ensemble's answer about one (mapped) row."""
        self._take_mean()
        one = dense_row(rows, row, self.members_coef_.shape[1])
        return self._answer_of(self._answer(self.coef_, self.members_coef_), one)

    def _begun(self) -> RuleRanker:
        """A member to which nothing has been shown yet."""
        member = clone(self.base)
        member.n_features_in_, member.n_queries_in_ = self.n_features_in_, 1
        member.classes_ = self.classes_
        member.n_mistakes_ = member.n_seen_ = 0
        member._begin(self.n_features_in_)
        return member  # type: ignore[no-any-return]

    def _take_mean(self) -> None:
        if "members_dual_coef_" in self.__dict__:
            self.dual_coef_ = self.members_dual_coef_.mean(axis=1)
        elif self._is_plain:
            self.coef_ = self.coef_sum_ / self.n_members
        else:
            self.coef_ = self.members_coef_.mean(axis=0)
        # Rounding must not undo the order of equal thresholds.
        self.thresholds_ = np.maximum.accumulate(self.members_thresholds_.mean(axis=0))
