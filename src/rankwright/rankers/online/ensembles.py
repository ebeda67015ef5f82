"""OAP: many PRanks on random parts of one stream, averaged (BPM) or asked for their votes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers import schema
from rankwright.rankers.kernels import Gram
from rankwright.rankers.online import support_vectors as dual
from rankwright.rankers.online.base import STREAM, Rows, RuleRanker, dense_row
from rankwright.rankers.online.kernel_prank import KernelPRank
from rankwright.rankers.online.members import STRETCH, Clones, Members, cutoffs, kernels
from rankwright.rankers.online.support_vectors import SupportedRanker
from rankwright.rankers.schema import floats, integer, integers
from rankwright.scoring.base import RowMap, Scorer
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import Ordinal, Votes, nearest
from rankwright.scoring.transforms import Mapped, Polynomial

COUNTS = ("n_correct_", "n_survived_")
WEIGHTS = ("coef_", "members_coef_", "coef_sum_", "members_state_")


class Ensemble(SupportedRanker):
    """Members that see each row by chance; there are three ways to keep them.

    Plain PRanks are tables of weights, which compiled passes change together. Kernel PRanks are
    a table of coefficients over one support: a kernel is computed once for all members. Any
    other ranker is copied for each member, as a row of numbers.
    """

    _constraints: ClassVar = {
        "estimator": schema.optional(schema.instance_of("an online ranker", RuleRanker)),
        "n_estimators": schema.at_least(1),
        "tau": schema.positive(1),
        "sampling": schema.one_of("bernoulli", "poisson"),
        "random_state": schema.random_state(),
    }
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_mapped", optional=True),
        "thresholds_": floats("n_thresholds"),
        "members_coef_": floats("n_estimators", "n_mapped", optional=True),
        "members_thresholds_": floats("n_estimators", "n_thresholds"),
        "n_correct_": integers("n_estimators", low=0),
        "n_survived_": integers("n_estimators", low=1),
        "members_state_": floats("n_estimators", "n_state", optional=True),
        "coef_sum_": floats("n_mapped", optional=True),
        "support_": integers("n_support", low=0, optional=True),
        "support_vectors_": floats("n_support", "n_features", optional=True),
        "dual_coef_": floats("n_support", optional=True),
        "members_dual_coef_": floats("n_support", "n_estimators", optional=True),
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
        estimator: RuleRanker | None = None,
        n_estimators: int = 100,
        tau: float = 0.3,
        sampling: str = "bernoulli",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
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
        return self.estimator is None or self.estimator._chunks_exact

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = (
            isinstance(self.estimator, RuleRanker) and get_tags(self.estimator).input_tags.pairwise
        )
        return tags

    def _map(self) -> Polynomial | None:
        return None if self.estimator is None else self.estimator._map_for(self.n_features_in_)

    def _gram(self) -> Gram | None:
        return None if self.estimator is None else self.estimator._gram_for(self.n_features_in_)

    @property
    def _is_plain(self) -> bool:
        return self.estimator is None or self.estimator._is_plain_prank()

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
            spread = np.zeros((self.n_features_in_, 1 + self.n_estimators))
            np.add.at(spread, self.support_, np.column_stack([mean, members.T]))
            mean, members = spread[:, 0].copy(), np.ascontiguousarray(spread[:, 1:].T)
        return self._answer(mean, members)

    def _begin(self, n_features: int) -> None:
        for name in (*WEIGHTS, *self._support_names, "dual_coef_"):
            self.__dict__.pop(name, None)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_correct_ = np.zeros(self.n_estimators, np.int64)
        self.n_survived_ = np.ones(self.n_estimators, np.int64)
        self.members_thresholds_ = np.zeros((self.n_estimators, len(self.classes_) - 1))
        if self._gram() is not None:
            self._begin_support(n_features, self.n_estimators)
        else:
            self._begin_weights(n_features)
        self._take_mean()

    def _begin_weights(self, n_features: int) -> None:
        features = self._map()
        width = n_features if features is None else features.n_outputs
        self.members_coef_ = np.zeros((self.n_estimators, width))
        if self._is_plain:
            self.coef_sum_ = np.zeros(width)
        else:
            begun = self._begun()
            self.members_state_ = np.tile(Clones(begun).pack(begun), (self.n_estimators, 1))

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
        assert isinstance(self.estimator, KernelPRank)
        members = self._writable("members_thresholds_", *COUNTS)
        (seed, cuts), first = self._draws, self.n_seen_
        predicted = np.zeros(len(grade), np.int64)
        votes = np.zeros((len(grade), 3, len(self.classes_)), np.int64)

        def show(*state: Any) -> Any:
            return dual.kernels().walk_members(
                *state, grade, *members, seed, first, cuts, predicted, votes
            )

        found = stretch.walk(show, *self.estimator._limits())
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
        member = clone(self.estimator)
        member.n_features_in_, member.n_queries_in_ = self.n_features_in_, 1
        member.classes_ = self.classes_
        member.n_mistakes_ = member.n_seen_ = 0
        member._begin(self.n_features_in_)
        return member  # type: ignore[no-any-return]

    def _take_mean(self) -> None:
        if "members_dual_coef_" in self.__dict__:
            self.dual_coef_ = self.members_dual_coef_.mean(axis=1)
        elif self._is_plain:
            self.coef_ = self.coef_sum_ / self.n_estimators
        else:
            self.coef_ = self.members_coef_.mean(axis=0)
        # Rounding must not undo the order of equal thresholds.
        self.thresholds_ = np.maximum.accumulate(self.members_thresholds_.mean(axis=0))


class OAPBPM(Ensemble):
    """Online aggregate PRank, Bayes point machine: the average of many PRanks.

    Each of ``n_estimators`` PRanks sees each row with probability ``tau``; the model is the average
    of their weights and of their thresholds, an online estimate of the center of all rules that fit
    the stream (the Bayes point). Thresholds stay ordered, since each member's do.

    With ``estimator=KernelPRank(...)`` the members are sums of kernels over one support, the rows
    that at least one of them got wrong, and their coefficients are averaged. A kernel is computed
    once for all members. The ``budget`` of the base bounds that common support; a row is dropped
    (or projected) for all members together.

    Parameters
    ----------
    estimator : online ranker or None, default None
        The members: PRank when None, else any online ranker with weights and thresholds (PRank
        with its options, KernelPRank, WidrowHoff, BayesianPRank). Its ``max_iter``, ``shuffle``
        and ``random_state`` play no part.
    n_estimators : int, default 100
    tau : float in (0, 1], default 0.3
        The chance that a member sees a row. Smaller is more diverse, and slower to converge.
    sampling : "bernoulli" or "poisson", default "bernoulli"
        "poisson" shows a member each row Poisson(1) times (Oza's online bagging); tau plays no
        part then.
    random_state : int, RandomState or None
        Seeds the draws. A draw depends on (seed, member, place in the stream) only, so neither
        threads nor the cutting of the stream matter.

    Attributes
    ----------
    coef_ : (n_features,) array
        The mean of the members' weights (of the mapped features, where base maps them).
    thresholds_ : (n_grades - 1,) array, ascending
        The mean of the members' thresholds.
    members_coef_, members_thresholds_ : (n_estimators, ...) arrays
    support_, support_vectors_ : where base has a support, in place of ``coef_``
        The numbers in the stream of the members' common support rows, and the rows.
    dual_coef_, members_dual_coef_ : (n_support,) and (n_support, n_estimators) arrays
        The mean of the members' coefficients, and each member's.
    n_correct_ : (n_estimators,) int array
        How often each member was right about a row that it was shown.
    n_survived_ : (n_estimators,) int array
        How often since its last wrong answer, counting that row too.
    members_state_ : (n_estimators, n_state) array
        For a base other than PRank and KernelPRank: all that its members know.
    coef_sum_ : (n_features,) array
        For the plain PRank: the members' weights, summed.
    classes_, n_mistakes_, n_seen_
        The grades; mistakes summed over members; rows shown to the ensemble.
    seed_ : int

    References
    ----------
    Harrington: Online ranking / collaborative filtering using the perceptron algorithm. ICML 2003.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = OAPBPM(n_estimators=20, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    >>> model.coef_.shape, model.members_coef_.shape
    ((3,), (20, 3))

    With a kernel:

    >>> from rankwright import KernelPRank
    >>> rings = np.digitize((X[:, :2] ** 2).sum(axis=1), [0.5, 2.0])
    >>> bent = OAPBPM(estimator=KernelPRank(gamma=0.5), n_estimators=20, random_state=0)
    >>> bent = bent.fit(X, rings)
    >>> bent.score(X, rings) > 0.98, bent.members_dual_coef_.shape == (len(bent.support_), 20)
    (True, True)
    """

    _voting: ClassVar = False
    _answer_type: ClassVar = np.int64

    def _answer(self, mean: FloatArray, members: FloatArray) -> Scorer:
        return Ordinal(Linear(mean), self.thresholds_, self.classes_)

    def _answer_of(self, answer: Any, row: FloatArray) -> Any:
        return np.searchsorted(self.classes_, answer.predict(row))


class _VotingEnsemble(Ensemble):
    _voting: ClassVar = True
    _answer_type: ClassVar = np.float64

    def predict_expected(self, X: Any) -> FloatArray:
        """The members' mean grade, not rounded, in units of ``y``."""
        rows = self._checked_rows(X)
        scorer: Any = self._scorer()
        expected: FloatArray = scorer.expected(rows)
        return expected

    def _answer(self, mean: FloatArray, members: FloatArray) -> Scorer:
        return Votes(members, self.members_thresholds_, self._member_votes(), self.classes_)

    @abstractmethod
    def _member_votes(self) -> FloatArray:
        """How much each member's word counts."""

    def _answer_of(self, answer: Any, row: FloatArray) -> Any:
        return answer.expected(row)

    def _expected_of(self, answer: Any) -> FloatArray:
        return np.asarray(answer, dtype=np.float64)

    def _grades_of(self, answer: Any) -> FloatArray:
        return nearest(self.classes_, answer)


class OAPBagging(_VotingEnsemble):
    """Online bagging of PRanks: the mean of the members' grades.

    As OAPBPM, but the members' predicted grades are averaged instead of their rules. ``predict``
    rounds that mean to the nearest grade, ``predict_expected`` gives it as it is (the paper scores
    it unrounded), ``decision_function`` orders by it, and rows with the same mean by the members'
    mean score.

    Parameters
    ----------
    estimator, n_estimators, tau, sampling, random_state : see OAPBPM

    Attributes
    ----------
    members_coef_, members_thresholds_, and all others : see OAPBPM

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = OAPBagging(n_estimators=20, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict_expected(X) - y).mean() < 0.3)
    True
    """

    def _member_votes(self) -> FloatArray:
        return np.ones(self.n_estimators)

    def _tally(self, votes: IntArray) -> FloatArray:
        return np.asarray(votes[:, 0] @ self.classes_ / self.n_estimators, dtype=np.float64)


class OAPVoting(_VotingEnsemble):
    """Online voting of PRanks: the mean of the members' grades, by what their rules have proved.

    As OAPBagging, with each member's vote weighted.

    Parameters
    ----------
    count : "survived" or "right", default "survived"
        "survived" weighs a member by the rows that its present rule has ranked rightly since it
        was made, counting the row that it was made for: rules that have just failed have little
        say. It is the voted perceptron's count, and the one under which the paper's figures come
        out (``experiments/oap_bpm``). "right" weighs it by all rows that it ever ranked rightly
        (all count the same until one of them has been right), which differs little from bagging.
    estimator, n_estimators, tau, sampling, random_state : see OAPBPM

    Attributes
    ----------
    n_survived_, n_correct_, and all others : see OAPBPM

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = OAPVoting(n_estimators=20, tau=0.5, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict_expected(X) - y).mean() < 0.3)
    True
    """

    _constraints: ClassVar = {**Ensemble._constraints, "count": schema.one_of("survived", "right")}

    def __init__(
        self,
        *,
        estimator: RuleRanker | None = None,
        n_estimators: int = 100,
        tau: float = 0.3,
        sampling: str = "bernoulli",
        count: str = "survived",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            estimator=estimator,
            n_estimators=n_estimators,
            tau=tau,
            sampling=sampling,
            random_state=random_state,
        )
        self.count = count

    def _member_votes(self) -> FloatArray:
        counts = self.n_survived_ if self.count == "survived" else self.n_correct_
        return counts.astype(np.float64) if counts.any() else np.ones(self.n_estimators)

    def _tally(self, votes: IntArray) -> FloatArray:
        chosen = votes[:, 2 if self.count == "survived" else 1]
        some = chosen.sum(axis=1, keepdims=True) > 0
        chosen = np.where(some, chosen, votes[:, 0])
        return np.asarray(chosen @ self.classes_ / chosen.sum(axis=1), dtype=np.float64)
