"""RankBoost: boosting for ranking."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, Matrix, MatrixLike, RandomState
from rankwright.data.queries import Queries
from rankwright.exceptions import DegenerateDataWarning, ParameterError
from rankwright.feedback.base import Feedback, Grades, as_grades
from rankwright.feedback.losses import weighting_names
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.metrics.pairwise import count_pairs
from rankwright.metrics.ranked_lists import ranked_lists
from rankwright.rankers import schema
from rankwright.rankers.boosting.binning import MAX_BINS
from rankwright.rankers.boosting.ensemble import BASELINE, LEARNED, StepCurve, baseline
from rankwright.rankers.boosting.explain import names_of
from rankwright.rankers.boosting.training import (
    CALLBACKS,
    FROM_ZERO,
    BoostedRanker,
    Start,
    TrainingResult,
    boost,
)
from rankwright.rankers.boosting.weak_learners.estimators import IS_WEAK_ESTIMATOR, TreeRanking
from rankwright.rankers.boosting.weak_learners.splitting import DEFAULTS
from rankwright.rankers.bounds import Bound, Bounds
from rankwright.rankers.checks import feature_number
from rankwright.rankers.early_stopping import EARLY_STOPPING, EarlyStopping, Validation
from rankwright.rankers.schema import floats, integer, real
from rankwright.scoring.linear import Additive

NO_EDGE = (
    "RankBoost: no weak ranking orders the training pairs better than chance (are all features "
    "constant within queries?): every score is 0."
)


class RankBoost(BoostedRanker):
    r"""Boosting of weak rankings; each round focuses on the pairs that are still misordered.

    Preferences between rows have weights. Each round finds the weak ranking h, usually "feature i
    is above a threshold", that best orders the weighted pairs, adds it with a weight
    :math:`\alpha` to the score :math:`H(x) = \sum_t \alpha_t h_t(x)`, and increases the weight of
    every pair that is still misordered. Only the order of each feature's values matters. A feature
    may abstain (NaN): missing values get the default of the weak ranking, 0 or 1.

    The share of misordered pairs is at most the product of the rounds' Z (Theorem 1). Grades and
    bipartite feedback cost O(rows) per round, regardless of the number of pairs; lists of pairs
    cost O(pairs). If most features abstain, the time depends only on the values present.

    Parameters
    ----------
    n_estimators : int >= 1, default 100
    criterion : "r", "z" or "newton", default "r"
        How weak rankings are chosen and weighted. ``r``: the paper's third method (WeakLearn.3),
        fast. ``z``: the second (WeakLearn.2), exact, for 0/1 rankings. ``newton``: the first,
        exact for any real-valued ranking (for 0/1 rankings the same as ``z``).
    cumulative : "signed", True or False, default "signed"
        Constraint on the contribution of a feature. ``True``: the paper's .cum, higher values never
        lower the score. ``"signed"``: monotone in one direction per feature, which is learned.
        ``False``: none.
    default : "learned", "real" or a number from 0 to 1, default "learned"
        The value of the weak rankings for missing values. ``learned``: 0 or 1, whichever is better.
        ``real``: any number from 0 to 1, the one that minimizes Z (criterion ``newton``;
        for the criterion ``r``, which is linear in it, 0 or 1 is always best). Numbers other than 0
        and 1 need the criterion ``r`` or ``estimator="value"``.
    max_bins : int from 2 to 255, or None, default 255
        Maximum number of bins per feature; None tries every threshold.
    estimator : "threshold", "value", a TreeRanking or an estimator, default "threshold"
        ``threshold``: [feature > threshold]. ``value``: the feature itself, scaled to 0 .. 1 on
        the training rows (criterion ``r`` or ``newton``). A custom weak ranking is an estimator
        with ``fit`` and ``predict``, such as a scikit-learn regressor; each round fits a clone to
        the potentials (how strongly the pairs pull each row up). Trees and estimators are always
        weighted by method 1; ``criterion`` and ``cumulative`` do not apply to them.
    absent : "zero" or "abstain", default "zero"
        How to treat entries that a CSR matrix does not store: as 0, or as missing.
    smoothing : float > 0, at most 0.25, or None
        Keeps the weight of a perfect weak ranking finite: alpha is computed as if this share of the
        pairs were misordered. None is 1 / (2 pairs); 1e-12 is practically the paper's formula.
    weighting : None or "NDCG", default None
        ``"NDCG"`` also weights each pair by the change of NDCG if its rows were swapped in the
        current order, which favors the top of the list (grades only, criterion ``r`` or trees).
        Grades below 0 are counted from the lowest of them, those above 60 as 60.
    learning_rate : float, 0 < rate <= 1, default 1.0
        Factor of the weights alpha. (A TreeRanking has its own.)
    colsample_bytree : float, 0 < share <= 1, default 1.0
        The share of features that each round may use, drawn at random.
    early_stopping : bool, int, EarlyStopping or None, default None
        Keep the rounds up to the best one on the ``eval_set`` of ``fit`` or, without it, on
        held-out queries. An int is the ``n_iter_no_change`` of an :class:`EarlyStopping`.
    callbacks : list of functions, optional
        Each is called with a ``Round`` after every round; a true return value ends training.
    random_state : int, RandomState or None
        Seeds the sampling of features.
    verbose : int, default 0
        1 shows a progress bar if standard error is a terminal; 0 is silent.

    Attributes
    ----------
    feature_, threshold_, default_, alpha_ : (n_estimators,) arrays
        The weak rankings and their weights; a threshold of -inf tests for a value that is not
        missing. (Trees:
        only ``alpha_``; their nodes are in ``node_*_``, ``root_`` is the first of each tree.)
    estimators_ : tuple or None
        The fitted clones of a custom ``estimator``; such a model cannot be saved.
    scale_ : (n_estimators,) array or None
        With ``estimator="value"``, h(x) = (x - threshold) * scale.
    z_ : (n_estimators,) array
        The factor by which each round lowered the bound on the ranking loss.
    training_bound_ : float
        The product of ``z_``, which ``train_rloss_`` cannot exceed, even with ties counted 1.
    train_rloss_ : float
        The share of the training pairs in the wrong order, ties counted 1/2 (eq. 21).
    feature_importances_ : (n_features,) array
        Each feature's share of the decrease of log(training bound). With an estimator of your own,
        by its own ``feature_importances_``; zeros if it has none.
    baseline_ : (n_features,) array or None
        The mean contribution of each feature over (some) training rows. None for trees.
    expected_value_ : float
        The mean score of the training rows, from which ``shap_values`` are measured.
    validation_ : (n_rounds_tried,) array or None
        The measure on the validation queries after each round.
    best_iteration_ : int
        The number of rounds kept.

    References
    ----------
    Y. Freund, R. Iyer, R. E. Schapire, Y. Singer: An efficient boosting algorithm for combining
    preferences. JMLR 4, 2003.

    Examples
    --------
    >>> X = [[1.0, 5.0], [2.0, 4.0], [3.0, 3.0], [4.0, float("nan")]]
    >>> model = RankBoost(n_estimators=3).fit(X, [0, 1, 1, 2])
    >>> model.rank(X)
    array([4, 2, 3, 1])
    >>> print(model.explain(X[3], X[0]))
    score difference +2.2758
      +1.3799  x0 > 3
      +0.8959  x0 > 1
    """

    _shard_fit: ClassVar = "rankwright.distributed.rankboost:fit"
    _usual_grid: ClassVar = {"n_estimators": "30,100,300", "estimator": "threshold,tree:8"}
    _constraints: ClassVar = {
        "n_estimators": schema.at_least(1),
        "criterion": schema.one_of("r", "z", "newton"),
        "cumulative": schema.one_of("signed", True, False),
        "default": schema.either(schema.one_of("learned", "real"), schema.between(0, 1)),
        "max_bins": MAX_BINS,
        "estimator": schema.either(
            schema.one_of("threshold", "value"),
            schema.instance_of("a TreeRanking", TreeRanking),
            IS_WEAK_ESTIMATOR,
        ),
        "absent": schema.one_of("zero", "abstain"),
        "smoothing": schema.optional(schema.positive(0.25)),
        "weighting": schema.optional(schema.one_of(*weighting_names("NDCG"))),
        "learning_rate": schema.positive(1.0),
        "colsample_bytree": schema.positive(1.0),
        "random_state": schema.random_state(),
        "early_stopping": EARLY_STOPPING,
        "callbacks": CALLBACKS,
        "verbose": schema.either(schema.at_least(0), schema.boolean()),
    }
    _learned: ClassVar = {
        **LEARNED,
        **BASELINE,
        "training_bound_": real(low=0.0),
        "train_rloss_": real(low=0.0, high=1.0),
        "train_ties_": real(low=0.0, high=1.0),
        "n_lower_": integer(low=0),
        "n_upper_": integer(low=0),
        "feature_importances_": floats("n_features", low=0.0, high=1.0),
        "validation_": floats("n_rounds_tried", optional=True),
        "best_iteration_": integer(low=0),
    }
    estimators_: Any = None
    _iterative: ClassVar = True
    _takes: ClassVar = (Grades, Bipartite, Pairs)
    _sums: ClassVar = True
    _abstains: ClassVar = True

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        criterion: str = "r",
        cumulative: bool | str | ArrayLike = "signed",
        default: float | str | ArrayLike = "learned",
        max_bins: int | None = 255,
        estimator: str | BaseEstimator = "threshold",
        absent: str = "zero",
        smoothing: float | None = None,
        weighting: str | None = None,
        learning_rate: float = 1.0,
        colsample_bytree: float = 1.0,
        random_state: RandomState = None,
        early_stopping: EarlyStopping | bool | int | None = None,
        callbacks: Sequence[Callable[..., object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.cumulative = cumulative
        self.default = default
        self.max_bins = max_bins
        self.estimator = estimator
        self.absent = absent
        self.smoothing = smoothing
        self.weighting = weighting
        self.learning_rate = learning_rate
        self.colsample_bytree = colsample_bytree
        self.random_state = random_state
        self.early_stopping = early_stopping
        self.callbacks = callbacks
        self.verbose = verbose

    def _score_kinds(self) -> frozenset[str]:
        if isinstance(self.estimator, str):
            return frozenset({"linear" if self.estimator == "value" else "trees"})
        return frozenset({"trees" if isinstance(self.estimator, TreeRanking) else "unknown"})

    def _fit(
        self,
        X: Matrix,
        feedback: Feedback,
        validation: Validation | None = None,
        start: Start = FROM_ZERO,
    ) -> None:
        self._check_together()
        scores = self._first_scores(start, X.shape[0], validation)
        trained = boost(self, X, feedback, validation, scores)
        if len(trained.z) == 0 and feedback.total_weight > 0:
            warnings.warn(NO_EDGE, DegenerateDataWarning, stacklevel=4)
        self._keep(trained)
        self.baseline_ = baseline(self._scorer(), X) if self.estimators_ is None else None

    def _keep(self, trained: TrainingResult) -> None:
        rounds = trained.ensemble
        self.z_ = np.array(trained.z)
        for name, value in rounds.learned().items():
            setattr(self, name, value)
        self.__dict__.pop("estimators_", None)
        if rounds.estimators is not None:  # a model file cannot hold them
            self.estimators_ = rounds.estimators
        self.training_bound_ = trained.bound
        self.train_rloss_ = min(trained.wrong + trained.tied / 2, 1.0)
        self.train_ties_ = trained.tied
        self.n_lower_, self.n_upper_ = trained.n_lower, trained.n_upper
        self.feature_importances_ = rounds.importances(self.z_, self.n_features_in_)
        self.validation_ = trained.validation
        self.best_iteration_ = len(trained.z)

    def _kinds(self) -> tuple[type[Feedback], ...]:
        return (Grades,) if self.weighting else super()._kinds()  # NDCG is defined on grades

    def _check_together(self) -> None:
        """Refuse parameters that contradict each other."""
        self._check_default()
        if not isinstance(self.estimator, str | TreeRanking) and self.weighting:
            raise ParameterError(
                f"RankBoost(estimator={type(self.estimator).__name__}(), weighting='NDCG'): custom "
                "estimators minimize Z, which is not defined for these weights. Use "
                "weighting=None, or LambdaMART."
            )
        if isinstance(self.estimator, TreeRanking):
            self.estimator.check()
            if self.learning_rate != 1.0:
                raise ParameterError(
                    f"RankBoost(learning_rate={self.learning_rate}, estimator=TreeRanking()): set "
                    "the learning_rate of the TreeRanking."
                )
            if self.max_bins is None:
                raise ParameterError(
                    "RankBoost(estimator=TreeRanking(), max_bins=None): trees are grown on bins. "
                    "Give max_bins, an integer from 2 to 255."
                )
        elif self.estimator == "value" and self.criterion == "z":
            raise ParameterError(
                'RankBoost(estimator="value", criterion="z"): z needs 0/1 rankings. '
                'Use criterion="newton", which is exact for real-valued ones.'
            )
        if self.weighting and not isinstance(self.estimator, TreeRanking) and self.criterion != "r":
            raise ParameterError(
                f'RankBoost(weighting="NDCG", criterion={self.criterion!r}): NDCG weights change '
                'with the order, so Z has no closed form. Use criterion="r", or trees.'
            )

    def _check_default(self) -> None:
        """Refuse a default that the weak rankings cannot have."""
        if self.default in DEFAULTS:
            return
        call = f"RankBoost(default={self.default!r}, "
        if not isinstance(self.estimator, str):
            raise ParameterError(
                f"{call}estimator={type(self.estimator).__name__}()): only thresholds and values "
                'of features have such a default. Use default="learned".'
            )
        if self.default == "real" and self.criterion != "newton":
            reason = "the gain is linear in the default, so that 0 or 1 is best"
            reason = reason if self.criterion == "r" else "z is for 0/1 rankings"
            raise ParameterError(
                f"{call}criterion={self.criterion!r}): {reason}. Use "
                'criterion="newton", or default="learned".'
            )
        if self.default != "real" and self.estimator == "threshold" and self.criterion != "r":
            raise ParameterError(
                f"{call}criterion={self.criterion!r}): it scans 0/1 rankings. Use "
                'criterion="r", default="real", or estimator="value".'
            )

    def _may_drop_columns(self) -> bool:
        return isinstance(self.estimator, str | TreeRanking) and self.colsample_bytree == 1.0

    def contribution(self, feature: int | str) -> StepCurve:
        """Return the contribution of a feature as a function of its value (monotone if
        cumulative)."""
        check_is_fitted(self)
        number = feature_number(
            "RankBoost.contribution", feature, names_of(self), self.n_features_in_
        )
        scorer = self._fitted_scorer()
        if not isinstance(scorer, Additive):
            raise ParameterError(
                f"RankBoost(estimator={self.estimator!r}).contribution: only a sum of "
                "thresholds is a sum of curves."
            )
        return StepCurve(*scorer.curve(number))

    def bounds(
        self, X: MatrixLike, y: ArrayLike, *, qid: ArrayLike | None = None, delta: float = 0.05
    ) -> Bounds:
        """Compare the share of misordered pairs of given rows with Theorems 1 and 3.

        Parameters
        ----------
        X, y, qid : rows, their grades and queries. Theorem 1 bounds the loss of the training rows,
            Theorem 3 that of new rows: give those that you want to see the truth of.
        delta : float in (0, 1], the probability with which Theorem 3 may fail

        Returns
        -------
        Bounds by name ("rloss", Theorem 1, ties counted as misses; "rloss of new rows", Theorem 3),
        and ``quantities``: ``rounds`` and ``vc_dimension``.

        Examples
        --------
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 0]
        >>> found = RankBoost(n_estimators=3).fit(X, y).bounds(X, y)
        >>> found["rloss"].truth <= found["rloss"].bound, found["rloss of new rows"].bound
        (True, inf)
        """
        check_is_fitted(self)
        scores = self.decision_function(X, qid=qid)
        grades = as_grades(y, "y")
        missed = _misordered(scores, grades, Queries.from_ids(qid, len(grades)))
        general = self.generalization_bound(delta)
        entries = (
            Bound("rloss", self.training_bound_, missed, "Freund et al. 2003, Theorem 1"),
            Bound("rloss of new rows", general, missed, "Freund et al. 2003, Theorem 3"),
        )
        d = vc_dimension(self.n_features_in_)
        return Bounds(entries, {"rounds": len(self.alpha_), "vc_dimension": d})

    def generalization_bound(self, delta: float = 0.05, d: int | None = None) -> float:
        """Compute Theorem 3's bound on the share of misordered new pairs, with probability 1 -
        delta.

        It holds for bipartite feedback with independently drawn rows, and thresholds with defaults
        of 0 or 1 as weak rankings; otherwise it is only indicative. It is infinite unless there are
        very many rows.

        Parameters
        ----------
        delta : float, 0 < delta <= 1
        d : int >= 2, optional
            The VC dimension of the weak rankings; by default a bound for thresholds on
            ``n_features`` features, the largest d with 2 ** d <= 2 n_features (d + 1).
        """
        check_is_fitted(self)
        schema.positive(1.0).check("generalization_bound", "delta", delta)
        d = vc_dimension(self.n_features_in_) if d is None else d
        schema.at_least(2).check("generalization_bound", "d", d)
        error = min(1.0, self.train_rloss_ + self.train_ties_ / 2)
        return generalization_bound(error, self.n_lower_, self.n_upper_, len(self.alpha_), delta, d)


def _misordered(scores: FloatArray, y: FloatArray, queries: Queries) -> float:
    """The share of all pairs in the wrong order or tied."""
    total = missed = 0.0
    for lists in ranked_lists(scores, y, queries):
        counts = count_pairs(lists, lists.score_ties)
        total += float(counts.total.sum())
        missed += float(counts.wrong.sum() + counts.tied.sum())
    return missed / max(total, 1.0)


def vc_dimension(n_features: int) -> int:
    """A bound on the VC dimension of thresholds on n features, each with a default.

    On d points a feature has at most d + 1 cuts and 2 defaults, so at most 2 n (d + 1) splits in
    all; to shatter d points takes 2 ** d of them.

    >>> vc_dimension(1), vc_dimension(46), vc_dimension(1000)
    (3, 9, 14)
    """
    d = 2
    while 2 ** (d + 1) <= 2 * n_features * (d + 2):
        d += 1
    return d


def generalization_bound(
    train_error: float, n_lower: int, n_upper: int, n_estimators: int, delta: float, d: int
) -> float:
    """Theorem 3: a bound on the true ranking error that holds with probability 1 - delta.

    Infinite where the theorem gives no bound: where it is 1 or more, or d', the VC dimension of the
    sum, exceeds 2m rows. It never falls in the number of rounds.

    >>> generalization_bound(0.1, 100, 100, 10, 0.05, 9)
    inf
    >>> round(generalization_bound(0.1, 10**7, 10**7, 10, 0.05, 9), 3)
    0.237
    """
    capacity = 2 * (d + 1) * (n_estimators + 1) * np.log2(np.e * (n_estimators + 1))
    bound = train_error
    for size in (n_lower, n_upper):
        if capacity > 2 * size:
            return float("inf")
        inside = (capacity * (np.log(2 * size / capacity) + 1) + np.log(18 / delta)) / size
        bound += 2 * np.sqrt(inside)
    return float(bound) if bound < 1 else float("inf")
