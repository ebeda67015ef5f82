"""OAP ensembles: PRank models on random parts of one stream, averaged (BPM) or voting."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike, RandomState
from rankwright.exceptions import ParameterError
from rankwright.rankers import schema
from rankwright.rankers.bounds import Bound, Bounds
from rankwright.rankers.kernels import Gram
from rankwright.rankers.online.base import STREAM, Examples, ThresholdRanker, VotingRanker, kernels
from rankwright.rankers.online.kernel_prank import KernelPRank
from rankwright.rankers.online.margins import PRANK, least_gap, prank_bound, squared_lengths
from rankwright.rankers.online.members import Clones, Draws, Members, cutoffs
from rankwright.rankers.online.support_vectors import SupportBlock, SupportRanker
from rankwright.rankers.schema import floats, integer, integers
from rankwright.scoring.base import RowMap, Scorer
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import Ordinal, Votes
from rankwright.scoring.transforms import Mapped, Monomials

BLOCK = 8192  # examples after which the threads of the members' passes are joined


class Ensemble(SupportRanker):
    """Members that draw their examples at random; they are kept in one of three ways.

    Plain PRanks are tables of weights, which compiled passes change together. Kernel PRanks are
    a table of coefficients over one support: a kernel is computed once for all members. Any
    other ranker is copied for each member, as a row of numbers.
    """

    _constraints: ClassVar = {
        "estimator": schema.optional(schema.instance_of("an online ranker", ThresholdRanker)),
        "n_estimators": schema.at_least(1),
        "tau": schema.positive(1),
        "sampling": schema.one_of("bernoulli", "poisson"),
        "shuffle": schema.boolean(),
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
    _iterative: ClassVar = False
    _voting: ClassVar[bool]

    members_coef_: FloatArray
    members_thresholds_: FloatArray
    members_dual_coef_: FloatArray
    n_correct_: IntArray
    n_survived_: IntArray

    def __init__(
        self,
        *,
        estimator: ThresholdRanker | None = None,
        n_estimators: int = 100,
        tau: float = 0.3,
        sampling: str = "bernoulli",
        shuffle: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.tau = tau
        self.sampling = sampling
        self.shuffle = shuffle
        self.random_state = random_state

    @abstractmethod
    def _combined(self, coef: FloatArray, members_coef: FloatArray) -> Scorer:
        """The scorer of the ensemble, from the mean of the members' weights and all of them."""

    @abstractmethod
    def _predict_row(self, scorer: Scorer, row: FloatArray) -> Any:
        """The scorer's prediction of one row, in the form that ``_pass`` returns."""

    def _mean_votes(self, votes: IntArray) -> FloatArray:
        """The mean grade of each example, from the members' votes."""
        raise NotImplementedError

    @property
    def _chunks_exact(self) -> bool:  # type: ignore[override]
        return self.estimator is None or self.estimator._chunks_exact

    def _is_pairwise(self) -> bool:
        return isinstance(self.estimator, ThresholdRanker) and self.estimator._is_pairwise()

    def _score_kinds(self) -> frozenset[str]:
        own = super()._score_kinds()
        inner = own if self.estimator is None else self.estimator._score_kinds()
        return own | (inner - {"linear"})

    def _map(self, n_features: int) -> Monomials | None:
        return None if self.estimator is None else self.estimator._map(n_features)

    def _map_scale(self, n_features: int) -> FloatArray | None:
        return None if self.estimator is None else self.estimator._map_scale(n_features)

    def _gram(self, n_features: int) -> Gram | None:
        return None if self.estimator is None else self.estimator._gram(n_features)

    @property
    def _is_plain(self) -> bool:
        return self.estimator is None or self.estimator._is_plain_prank()

    def _draws(self, first: int) -> Draws:
        return Draws(self.seed_, first, cutoffs(self.sampling, self.tau))

    def _scorer(self) -> Scorer:
        features, coef, members_coef = self._weights()
        scorer = self._combined(coef, members_coef)
        return scorer if features is None else Mapped(features, scorer)

    def member_scores(self, X: MatrixLike) -> FloatArray:
        """Return the scores of each member; where they differ, the ensemble is uncertain.

        Returns
        -------
        (n_items, n_estimators) array; higher is better

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> model = OAPBPM(n_estimators=4, random_state=0).fit(X, X[:, 0] > 0)
        >>> scores = model.member_scores(X)
        >>> scores.shape, np.allclose(scores.mean(axis=1), model.decision_function(X))
        ((50, 4), True)
        """
        check_is_fitted(self)
        rows = self._validated(X, reset=False)
        features, _, members_coef = self._weights()
        mapped = rows if features is None else features.transform(rows)
        return np.asarray(mapped @ members_coef.T)

    def bounds(
        self, X: MatrixLike, y: ArrayLike, *, qid: ArrayLike | None = None, delta: float = 0.05
    ) -> Bounds:
        """Compare margins of the members with that of their mean, and mistakes with their bound.

        A mean of rules that rank all rows rightly has at least the mean of their margins, weighted
        by the lengths of the rules. Every member is a PRank, so all of them together make at most
        ``n_estimators`` times the mistakes that a separating rule allows: the rule of the mean.

        Parameters
        ----------
        X, y : the rows that the model learned from
        qid, delta : not used; as for other rankers

        Returns
        -------
        Bounds by name ("margin of the mean", "mistakes of all members"), and ``quantities``:
        ``radius``, ``margin`` of the mean, ``members_margin`` (n_estimators,) and
        ``members_margin_mean``. Members of other kinds than PRank have no bound of mistakes, and
        kernel members, whose lengths would need all kernels of the support, have no margins.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> model = OAPBPM(n_estimators=4, tau=0.9, random_state=0).fit(X, X[:, 0] > 0)
        >>> model.bounds(X, X[:, 0] > 0)["margin of the mean"].holds
        True
        """
        if self._gram(self.n_features_in_) is not None or self._map_scale(self.n_features_in_):
            raise ParameterError(
                f"{type(self).__name__}.bounds: members of a kernel have no margins here. Use "
                "PRank members, or KernelPRank.bounds of one model."
            )
        rows, code = self._stream_of(X, y)
        scores, thresholds = rows @ self.members_coef_.T, self.members_thresholds_
        squares = (self.members_coef_**2).sum(axis=1) + (thresholds**2).sum(axis=1)
        lengths = np.sqrt(squares)
        gaps = np.array([least_gap(s, t, code) for s, t in zip(scores.T, thresholds, strict=True)])
        margins = gaps / np.where(lengths > 0, lengths, 1.0)
        coef, mean_thresholds = self.members_coef_.mean(axis=0), thresholds.mean(axis=0)
        length = float(np.sqrt(coef @ coef + mean_thresholds @ mean_thresholds)) or 1.0
        margin = least_gap(np.asarray(rows @ coef), mean_thresholds, code) / length
        radius = float(np.sqrt(squared_lengths(rows).max()))
        weighted = float(gaps.sum() / (lengths.sum() or 1.0))
        lowest = weighted if weighted >= 0 else float(gaps.mean() / length)
        entries = [Bound("margin of the mean", lowest, margin, "concavity", is_lower=True)]
        if self._is_plain:
            most = self.n_estimators * prank_bound(len(self.classes_) - 1, radius, margin)
            truth = float(self.n_mistakes_)
            entries.append(Bound("mistakes of all members", most, truth, PRANK))
        quantities = {
            "radius": radius,
            "margin": margin,
            "members_margin": margins,
            "members_margin_mean": float(margins.mean()),
        }
        return Bounds(tuple(entries), quantities)

    def _weights(self) -> tuple[RowMap | None, FloatArray, FloatArray]:
        """The map of the rows, if any, the mean of the members' weights, and all of them."""
        gram = self._gram(self.n_features_in_)
        if gram is None:
            return self._map(self.n_features_in_), self.coef_, self.members_coef_
        duals = np.column_stack([self.dual_coef_, self.members_dual_coef_])
        features, duals = self._values_and_duals(gram, duals)
        return features, duals[:, 0].copy(), np.ascontiguousarray(duals[:, 1:].T)

    def _begin(self, n_features: int) -> None:
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_correct_ = np.zeros(self.n_estimators, np.int64)
        self.n_survived_ = np.ones(self.n_estimators, np.int64)
        self.members_thresholds_ = np.zeros((self.n_estimators, len(self.classes_) - 1))
        if self._gram(n_features) is not None:
            dual = np.zeros((0, self.n_estimators))
            self._set_support(np.zeros((0, n_features)), np.zeros(0, np.int64), dual)
        else:
            features = self._map(n_features)
            width = n_features if features is None else features.n_outputs
            self.members_coef_ = np.zeros((self.n_estimators, width))
            if self._is_plain:
                self.coef_sum_ = np.zeros(width)
            else:
                member = self._template()
                self.members_state_ = np.tile(Clones(member).pack(member), (self.n_estimators, 1))
        self._take_mean()

    def _support(self) -> list[Any]:
        return self._writable("support_vectors_", "support_", "members_dual_coef_")

    def _set_support(self, rows: FloatArray, numbers: IntArray, dual: FloatArray) -> None:
        self.support_vectors_, self.support_, self.members_dual_coef_ = rows, numbers, dual

    def _learn_rows(
        self, X: Matrix, grade: IntArray, order: IntArray, first: int, predict: bool
    ) -> Any:
        predictions = super()._learn_rows(X, grade, order, first, predict)
        self._take_mean()
        return predictions

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        learn = self._learn_pranks if self._is_plain else self._learn_clones
        size = BLOCK if self._is_plain or not predict else 1
        mistakes, predictions = 0, []
        for start, block in examples.blocks(size):
            prediction, wrong = learn(block, self._draws(self.n_seen_ + start), predict)
            predictions.append(prediction)
            mistakes += wrong
        return np.concatenate(predictions), mistakes, 0

    def _learn_pranks(self, examples: Examples, draws: Draws, predict: bool) -> tuple[Any, int]:
        *arrays, coef_sum = self._writable(
            "members_coef_", "members_thresholds_", "n_correct_", "n_survived_", "coef_sum_"
        )
        thresholds_sum = self.members_thresholds_.sum(axis=0)  # whole numbers: exact
        moves, mistakes = Members(*arrays).learn(examples, draws, predict and self._voting)
        predicted = np.empty(len(examples.order) * (predict and not self._voting), np.int64)
        kernels("ensembles").oap_sum_pass(
            tuple(examples), tuple(moves), coef_sum, thresholds_sum, predicted
        )
        return self._mean_votes(moves.votes) if self._voting else predicted, mistakes

    def _check_parameters(self) -> None:
        super()._check_parameters()
        base = self.estimator
        if isinstance(base, KernelPRank) and base.average and not base._is_explicit(1):
            raise ParameterError(
                f"{type(self).__name__}(estimator=KernelPRank(average=True)): kernel members are "
                "averaged over the members and cannot also be averaged over time. Use "
                "average=False.",
                parameter="estimator",
            )

    def _block_pass(
        self, block: SupportBlock, grade: IntArray, predict: bool
    ) -> tuple[Any, int, int]:
        assert isinstance(self.estimator, KernelPRank)
        members = tuple(self._writable("members_thresholds_", "n_correct_", "n_survived_"))
        draws = tuple(self._draws(self.n_seen_))
        predicted = np.zeros(len(grade), np.int64)
        votes = np.zeros((len(grade), 3, len(self.classes_)), np.int64)

        def learn(*state: Any) -> Any:
            return kernels("kernel_prank").kernel_members_pass(
                *state, grade, members, draws, predicted, votes
            )

        counts = block.learn(learn, *self.estimator._limits())
        return self._mean_votes(votes) if self._voting else predicted, *counts

    def _learn_clones(self, examples: Examples, draws: Draws, predict: bool) -> tuple[Any, int]:
        prediction = np.zeros(0, np.int64)
        if predict:
            self._take_mean()
            row = examples.first_row(self.members_coef_.shape[1])
            prediction = self._predict_row(self._combined(self.coef_, self.members_coef_), row)
        states, *counts = self._writable("members_state_", "n_correct_", "n_survived_")
        clones = Clones(self._template())
        wrong = clones.learn(states, counts, examples, draws)
        for m, state in enumerate(states):
            model = clones.unpack(state)._linear_model()
            self.members_coef_[m], self.members_thresholds_[m] = model
        return prediction, wrong

    def _template(self) -> ThresholdRanker:
        """A member that has not learned yet."""
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
    """Online aggregate PRank, Bayes point machine: the average of many PRank models.

    Each of ``n_estimators`` PRanks learns from each row with probability ``tau``; the model is the
    average of their weights and of their thresholds, an online estimate of the center of all models
    that fit the stream (the Bayes point). Thresholds stay ordered, since each member's do.

    With ``estimator=KernelPRank(...)`` the members are sums of kernels over one support, the rows
    that at least one of them got wrong, and their coefficients are averaged. A kernel is computed
    once for all members. The ``budget`` of the estimator bounds that common support; a row is
    dropped (or projected) for all members together.

    Parameters
    ----------
    estimator : online ranker or None, default None
        The type of the members: any online ranker with weights and thresholds (PRank with its
        options, KernelPRank, WidrowHoff, BayesianPRank). None is PRank. Its ``max_iter``,
        ``shuffle`` and ``random_state`` are ignored.
    n_estimators : int, default 100
    tau : float in (0, 1], default 0.3
        The probability that a member learns from a row. Smaller values make members more diverse
        and slower to converge.
    sampling : "bernoulli" or "poisson", default "bernoulli"
        With "poisson" a member learns from each row Poisson(1) times (Oza's online bagging), and
        ``tau`` is not used.
    shuffle : bool, default False
        Whether ``fit`` shuffles the rows.
    random_state : int, RandomState or None
        Seeds the draws. A draw depends on (seed, member, position in the stream) only, so neither
        threads nor the splitting of the stream into calls matter.

    Attributes
    ----------
    coef_ : (n_features,) array
        The mean of the members' weights (of the mapped features, if the estimator maps them).
    thresholds_ : (n_grades - 1,) array, ascending
        The mean of the members' thresholds.
    members_coef_ : (n_estimators, n_features) array
    members_thresholds_ : (n_estimators, n_grades - 1) array
    support_, support_vectors_ : (n_support,) and (n_support, n_features) arrays
        The members' common support rows, by their number in the stream and in full, if the
        estimator has a support instead of ``coef_``.
    dual_coef_, members_dual_coef_ : (n_support,) and (n_support, n_estimators) arrays
        The mean of the members' coefficients, and each member's.
    n_correct_ : (n_estimators,) int array
        How often each member predicted the grade of a row that it drew correctly.
    n_survived_ : (n_estimators,) int array
        The same since its last mistake, including that row.
    members_state_ : (n_estimators, n_state) array
        For estimators other than PRank and KernelPRank: all that the members have learned.
    coef_sum_ : (n_features,) array
        For plain PRanks: the sum of the members' weights.
    classes_, n_mistakes_, n_seen_
        The grades; mistakes summed over members; rows of the stream.
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

    _shard_fit: ClassVar = "rankwright.distributed.online:fit_members"
    _voting: ClassVar = False

    def _combined(self, coef: FloatArray, members_coef: FloatArray) -> Scorer:
        return Ordinal(Linear(coef), self.thresholds_, self.classes_)

    def _predict_row(self, scorer: Scorer, row: FloatArray) -> Any:
        return np.searchsorted(self.classes_, scorer.predict(row))


class _VotingEnsemble(Ensemble, VotingRanker):
    _voting: ClassVar = True

    @abstractmethod
    def _member_votes(self) -> FloatArray:
        """The weight of each member's vote."""

    def _combined(self, coef: FloatArray, members_coef: FloatArray) -> Scorer:
        return Votes(members_coef, self.members_thresholds_, self._member_votes(), self.classes_)

    def _predict_row(self, scorer: Scorer, row: FloatArray) -> Any:
        return scorer.expected(row)


class OAPBagging(_VotingEnsemble):
    """Online bagging of PRank: the mean of the members' grades.

    Like OAPBPM, but the members' predicted grades are averaged instead of their weights.
    ``predict`` rounds that mean to the nearest grade, ``predict_expected`` returns it unrounded (as
    the paper scores it), ``decision_function`` orders by it, and rows with the same mean by the
    members' mean score.

    Parameters
    ----------
    estimator, n_estimators, tau, sampling, shuffle, random_state : see OAPBPM

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

    _shard_fit: ClassVar = "rankwright.distributed.online:fit_members"

    def _member_votes(self) -> FloatArray:
        return np.ones(self.n_estimators)

    def _mean_votes(self, votes: IntArray) -> FloatArray:
        return np.asarray(votes[:, 0] @ self.classes_ / self.n_estimators, dtype=np.float64)


class OAPVoting(_VotingEnsemble):
    """Online voting of PRank: the mean of the members' grades, weighted by their past performance.

    Parameters
    ----------
    count : "survived" or "correct", default "survived"
        "survived" weights a member by the number of rows ranked correctly since its last update,
        including the row that caused it. It is the voted perceptron's count, and it reproduces the
        paper's figures (``experiments/oap_bpm``). "correct" weights a member by all rows that it
        ever ranked correctly (equal weights before the first), which differs little from bagging.
    estimator, n_estimators, tau, sampling, shuffle, random_state : see OAPBPM

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

    _shard_fit: ClassVar = "rankwright.distributed.online:fit_members"
    _constraints: ClassVar = {
        **Ensemble._constraints,
        "count": schema.one_of("survived", "correct"),
    }

    def __init__(
        self,
        *,
        estimator: ThresholdRanker | None = None,
        n_estimators: int = 100,
        tau: float = 0.3,
        sampling: str = "bernoulli",
        count: str = "survived",
        shuffle: bool = False,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            estimator=estimator,
            n_estimators=n_estimators,
            tau=tau,
            sampling=sampling,
            shuffle=shuffle,
            random_state=random_state,
        )
        self.count = count

    def _member_votes(self) -> FloatArray:
        counts = self.n_survived_ if self.count == "survived" else self.n_correct_
        return counts.astype(np.float64) if counts.any() else np.ones(self.n_estimators)

    def _mean_votes(self, votes: IntArray) -> FloatArray:
        chosen = votes[:, 2 if self.count == "survived" else 1]
        some = chosen.sum(axis=1, keepdims=True) > 0
        chosen = np.where(some, chosen, votes[:, 0])
        return np.asarray(chosen @ self.classes_ / chosen.sum(axis=1), dtype=np.float64)
