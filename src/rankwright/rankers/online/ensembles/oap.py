"""OAP: many PRanks on random parts of one stream, averaged (BPM) or asked for their votes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from rankwright.exceptions import ParameterError
from rankwright.rankers import rules
from rankwright.rankers.base import FloatArray
from rankwright.rankers.learned import floats, integer, integers
from rankwright.rankers.online.base import STREAM, IntArray, OnlineRanker, Rows, dense_row
from rankwright.rankers.online.ensembles.clones import Clones
from rankwright.rankers.online.ensembles.members import STRETCH, Members, cutoffs, kernels
from rankwright.rankers.online.rule import RuleRanker
from rankwright.scoring import Linear, Mapped, Ordinal, Polynomial, Scorer, Votes
from rankwright.scoring.votes import nearest

__all__ = ["OAPBPM", "OAPBagging", "OAPVoting"]


class _OAP(OnlineRanker):
    _rules: ClassVar = {
        "base": rules.either(rules.nothing(), rules.an_instance("an online ranker", RuleRanker)),
        "n_members": rules.at_least(1),
        "tau": rules.Rule(
            "a number > 0 and <= 1",
            lambda value: rules.between(0, 1).test(value) and value > 0,
        ),
        "sampling": rules.one_of("bernoulli", "poisson"),
        "random_state": rules.a_seed(),
    }
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_mapped"),
        "thresholds_": floats("n_thresholds"),
        "members_coef_": floats("n_members", "n_mapped"),
        "members_thresholds_": floats("n_members", "n_thresholds"),
        "n_correct_": integers("n_members", low=0),
        "members_state_": floats("n_members", "n_state", optional=True),
        "coef_sum_": floats("n_mapped", optional=True),
        "seed_": integer(low=0),
    }

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
    def _answer(self) -> Scorer:
        """What the members say together, about mapped rows."""

    def _scorer(self) -> Scorer:
        features = self._map()
        return self._answer() if features is None else Mapped(features, self._answer())

    def _map(self) -> Polynomial | None:
        return None if self.base is None else self.base._map_for(self.n_features_in_)

    @property
    def _is_plain(self) -> bool:
        return self.base is None or self.base._is_plain_prank()

    def _begin(self, n_features: int) -> None:
        if self.base is not None and not self.base._averages(n_features):
            raise ParameterError(
                f"{type(self).__name__}(base={self.base!r}): base must be a ranker with weights to "
                "average. KernelPRank has them with a linear kernel, or a polynomial one of few "
                "features, and no budget."
            )
        features = self._map()
        width = n_features if features is None else features.n_outputs
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_correct_ = np.zeros(self.n_members, np.int64)
        self.members_coef_ = np.zeros((self.n_members, width))
        self.members_thresholds_ = np.zeros((self.n_members, len(self.classes_) - 1))
        for name in ("members_state_", "coef_sum_"):
            self.__dict__.pop(name, None)
        if self._is_plain:
            self.coef_sum_ = np.zeros(width)
        else:
            begun = self._begun()
            self.members_state_ = np.tile(Clones(begun).pack(begun), (self.n_members, 1))
        self._take_mean()

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
        self._take_mean()
        return np.concatenate(answers), mistakes, 0

    def _show_pranks(
        self, rows: Rows, grade: IntArray, order: IntArray, first: int, asked: bool
    ) -> tuple[Any, int]:
        *arrays, total = self._writable(
            "members_coef_", "members_thresholds_", "n_correct_", "coef_sum_"
        )
        thresholds = self.members_thresholds_.sum(axis=0)  # whole numbers: exact
        draws = (self.seed_, cutoffs(self.sampling, self.tau))
        moves = Members(*arrays).show(rows, grade, order, first, draws, asked and self._voting)
        predicted = np.empty(len(order) if asked and not self._voting else 0, np.int64)
        kernels().oap_sum_pass(
            *rows, order, moves.weights, moves.thresholds, total, thresholds, predicted
        )
        return self._tally(moves.votes) if self._voting else predicted, moves.mistakes

    def _show_clones(
        self, rows: Rows, grade: IntArray, order: IntArray, first: int, asked: bool
    ) -> tuple[Any, int]:
        answer = self._ask(rows, int(order[0])) if asked else np.zeros(0, self._answer_type)
        states, correct = self._writable("members_state_", "n_correct_")
        draws = (self.seed_, cutoffs(self.sampling, self.tau))
        clones = Clones(self._begun())
        right, wrong = clones.show(states, rows, grade, order, first, draws)
        correct += right
        for index, state in enumerate(states):
            coef, thresholds = clones.unpack(state)._rule()
            self.members_coef_[index], self.members_thresholds_[index] = coef, thresholds
        return answer, wrong

    def _ask(self, rows: Rows, row: int) -> Any:
        """The ensemble's answer about one (mapped) row."""
        self._take_mean()
        one = dense_row(rows, row, self.members_coef_.shape[1])
        return self._answer_of(self._answer(), one)

    def _begun(self) -> RuleRanker:
        """A member to which nothing has been shown yet."""
        member = clone(self.base)
        member.n_features_in_, member.n_queries_in_ = self.n_features_in_, 1
        member.classes_ = self.classes_
        member.n_mistakes_ = member.n_seen_ = 0
        member._begin(self.n_features_in_)
        return member  # type: ignore[no-any-return]

    def _take_mean(self) -> None:
        if self._is_plain:
            self.coef_ = self.coef_sum_ / self.n_members
        else:
            self.coef_ = self.members_coef_.mean(axis=0)
        # Rounding must not undo the order of equal thresholds.
        self.thresholds_ = np.maximum.accumulate(self.members_thresholds_.mean(axis=0))

    def _tally(self, votes: IntArray) -> FloatArray:
        raise NotImplementedError

    def _answer_of(self, answer: Any, row: FloatArray) -> Any:
        raise NotImplementedError


class OAPBPM(_OAP):
    """Online aggregate PRank, Bayes point machine: the average of many PRanks.

    Each of ``n_members`` PRanks sees each row with probability ``tau``; the model is the average of
    their weights and of their thresholds, an online estimate of the centre of all rules that fit
    the stream (the Bayes point). Thresholds stay ordered, since each member's do.

    Parameters
    ----------
    base : online ranker or None, default None
        The members: PRank when None, else any online ranker with weights and thresholds (PRank
        with its options, KernelPRank with a polynomial kernel, WidrowHoff, OrdinalNewton). Its
        ``n_passes``, ``shuffle`` and ``random_state`` play no part.
    n_members : int, default 100
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
    members_coef_, members_thresholds_ : (n_members, ...) arrays
    n_correct_ : (n_members,) int array
        How often each member was right about a row that it was shown.
    members_state_ : (n_members, n_state) array
        For a base other than the plain PRank: all that its members know.
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
    >>> model = OAPBPM(n_members=20, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    >>> model.coef_.shape, model.members_coef_.shape
    ((3,), (20, 3))
    """

    _voting: ClassVar = False
    _answer_type: ClassVar = np.int64

    def _answer(self) -> Scorer:
        return Ordinal(Linear(self.coef_), self.thresholds_, self.classes_)

    def _answer_of(self, answer: Any, row: FloatArray) -> Any:
        return np.searchsorted(self.classes_, answer.predict(row))


class _VotingOAP(_OAP):
    _voting: ClassVar = True
    _answer_type: ClassVar = np.float64

    def predict_expected(self, X: Any) -> FloatArray:
        """The members' mean grade, not rounded, in units of ``y``."""
        rows = self._checked_rows(X)
        scorer: Any = self._scorer()
        expected: FloatArray = scorer.expected(rows)
        return expected

    def _answer(self) -> Scorer:
        votes = self._member_votes()
        return Votes(self.members_coef_, self.members_thresholds_, votes, self.classes_)

    @abstractmethod
    def _member_votes(self) -> FloatArray:
        """How much each member's word counts."""

    def _answer_of(self, answer: Any, row: FloatArray) -> Any:
        return answer.expected(row)

    def _expected_of(self, answer: Any) -> FloatArray:
        return np.asarray(answer, dtype=np.float64)

    def _grades_of(self, answer: Any) -> FloatArray:
        return nearest(self.classes_, answer)


class OAPBagging(_VotingOAP):
    """Online bagging of PRanks: the mean of the members' grades.

    As OAPBPM, but the members' predicted grades are averaged instead of their rules. ``predict``
    rounds that mean to the nearest grade, ``predict_expected`` gives it as it is (the paper scores
    it unrounded), ``decision_function`` orders by it, and rows with the same mean by the members'
    mean score.

    Parameters
    ----------
    base : online ranker or None, default None
        The members: PRank when None, else any online ranker with weights and thresholds (PRank
        with its options, KernelPRank with a polynomial kernel, WidrowHoff, OrdinalNewton). Its
        ``n_passes``, ``shuffle`` and ``random_state`` play no part.
    n_members : int, default 100
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
    members_coef_, members_thresholds_ : (n_members, ...) arrays
    n_correct_ : (n_members,) int array
        How often each member was right about a row that it was shown.
    members_state_ : (n_members, n_state) array
        For a base other than the plain PRank: all that its members know.
    coef_sum_ : (n_features,) array
        For the plain PRank: the members' weights, summed.
    classes_, n_mistakes_, n_seen_
        The grades; mistakes summed over members; rows shown to the ensemble.
    seed_ : int

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = OAPBagging(n_members=20, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict_expected(X) - y).mean() < 0.3)
    True
    """

    def _member_votes(self) -> FloatArray:
        return np.ones(self.n_members)

    def _tally(self, votes: IntArray) -> FloatArray:
        return np.asarray(votes[:, 0] @ self.classes_ / self.n_members, dtype=np.float64)


class OAPVoting(_VotingOAP):
    """Online voting of PRanks: the mean of the members' grades, by how often each was right.

    As OAPBagging, with each member's vote weighted by the number of rows that it was shown and
    ranked rightly (all count the same until one of them has been right).

    Parameters
    ----------
    base : online ranker or None, default None
        The members: PRank when None, else any online ranker with weights and thresholds (PRank
        with its options, KernelPRank with a polynomial kernel, WidrowHoff, OrdinalNewton). Its
        ``n_passes``, ``shuffle`` and ``random_state`` play no part.
    n_members : int, default 100
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
    members_coef_, members_thresholds_ : (n_members, ...) arrays
    n_correct_ : (n_members,) int array
        How often each member was right about a row that it was shown.
    members_state_ : (n_members, n_state) array
        For a base other than the plain PRank: all that its members know.
    coef_sum_ : (n_features,) array
        For the plain PRank: the members' weights, summed.
    classes_, n_mistakes_, n_seen_
        The grades; mistakes summed over members; rows shown to the ensemble.
    seed_ : int

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = OAPVoting(n_members=20, tau=0.5, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict_expected(X) - y).mean() < 0.3)
    True
    """

    def _member_votes(self) -> FloatArray:
        votes = self.n_correct_.astype(np.float64)
        return votes if votes.any() else np.ones(self.n_members)

    def _tally(self, votes: IntArray) -> FloatArray:
        some = votes[:, 1].sum(axis=1, keepdims=True) > 0
        chosen = np.where(some, votes[:, 1], votes[:, 0])
        return np.asarray(chosen @ self.classes_ / chosen.sum(axis=1), dtype=np.float64)
