"""OAP: many PRanks on random parts of one stream, averaged (BPM) or asked for their votes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from rankwright.rankers import rules
from rankwright.rankers.base import FloatArray
from rankwright.rankers.online.ensembles.ensemble import Ensemble
from rankwright.rankers.online.rows import IntArray
from rankwright.rankers.online.rule import RuleRanker
from rankwright.scoring import Linear, Ordinal, Scorer, Votes
from rankwright.scoring.votes import nearest

__all__ = ["OAPBPM", "OAPBagging", "OAPVoting"]


class OAPBPM(Ensemble):
    """Online aggregate PRank, Bayes point machine: the average of many PRanks.

    Each of ``n_members`` PRanks sees each row with probability ``tau``; the model is the average of
    their weights and of their thresholds, an online estimate of the centre of all rules that fit
    the stream (the Bayes point). Thresholds stay ordered, since each member's do.

    With ``base=KernelPRank(...)`` the members are sums of kernels over one support, the rows that
    at least one of them got wrong, and their coefficients are averaged. A kernel is computed
    once for all members. The ``budget`` of the base bounds that common support; a row is dropped
    (or projected) for all members together.

    Parameters
    ----------
    base : online ranker or None, default None
        The members: PRank when None, else any online ranker with weights and thresholds (PRank
        with its options, KernelPRank, WidrowHoff, BayesianPRank). Its ``n_passes``, ``shuffle``
        and ``random_state`` play no part.
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
    support_, support_vectors_ : where base has a support, in place of ``coef_``
        The numbers in the stream of the members' common support rows, and the rows.
    dual_coef_, members_dual_coef_ : (n_support,) and (n_support, n_members) arrays
        The mean of the members' coefficients, and each member's.
    n_correct_ : (n_members,) int array
        How often each member was right about a row that it was shown.
    n_survived_ : (n_members,) int array
        How often since its last wrong answer, counting that row too.
    members_state_ : (n_members, n_state) array
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
    >>> model = OAPBPM(n_members=20, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    >>> model.coef_.shape, model.members_coef_.shape
    ((3,), (20, 3))

    With a kernel:

    >>> from rankwright import KernelPRank
    >>> rings = np.digitize((X[:, :2] ** 2).sum(axis=1), [0.5, 2.0])
    >>> bent = OAPBPM(base=KernelPRank(gamma=0.5), n_members=20, random_state=0).fit(X, rings)
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
    base, n_members, tau, sampling, random_state : see OAPBPM

    Attributes
    ----------
    members_coef_, members_thresholds_, and all others : see OAPBPM

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
    base, n_members, tau, sampling, random_state : see OAPBPM

    Attributes
    ----------
    n_survived_, n_correct_, and all others : see OAPBPM

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = OAPVoting(n_members=20, tau=0.5, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict_expected(X) - y).mean() < 0.3)
    True
    """

    _rules: ClassVar = {**Ensemble._rules, "count": rules.one_of("survived", "right")}

    def __init__(
        self,
        *,
        base: RuleRanker | None = None,
        n_members: int = 100,
        tau: float = 0.3,
        sampling: str = "bernoulli",
        count: str = "survived",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            base=base, n_members=n_members, tau=tau, sampling=sampling, random_state=random_state
        )
        self.count = count

    def _member_votes(self) -> FloatArray:
        counts = self.n_survived_ if self.count == "survived" else self.n_correct_
        return counts.astype(np.float64) if counts.any() else np.ones(self.n_members)

    def _tally(self, votes: IntArray) -> FloatArray:
        chosen = votes[:, 2 if self.count == "survived" else 1]
        some = chosen.sum(axis=1, keepdims=True) > 0
        chosen = np.where(some, chosen, votes[:, 0])
        return np.asarray(chosen @ self.classes_ / chosen.sum(axis=1), dtype=np.float64)
