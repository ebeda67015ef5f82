"""Bayes point machine: the average of an online ranker over permutations of the rows."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike, RandomState
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.base import Feedback, Grades
from rankwright.rankers import checks, schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.early_stopping import EvalSet
from rankwright.rankers.foreign_names import explains_names
from rankwright.rankers.online.base import ThresholdRanker, repeated_rows
from rankwright.rankers.online.prank import PRank
from rankwright.rankers.schema import floats, integer, integers
from rankwright.runtime import map_blocks
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import Ordinal
from rankwright.scoring.transforms import Mapped


class BayesPoint(Ranker):
    """Bayes point machine: average an online ranker over permutations of the training rows.

    Each member is trained on all rows in a different order. The model is the average of the
    members' weights and thresholds, an estimate of the center of all models that fit the rows.
    :class:`OAPBPM` estimates the same in one pass over a stream; this one needs all rows, takes
    ``n_estimators`` passes, and has no ``partial_fit``. Members of a kernel are averaged over the
    union of their supports.

    Parameters
    ----------
    estimator : online ranker or None, default None
        The type of the members: any online ranker with weights and thresholds. None is PRank.
    n_estimators : int, default 100
        The number of permutations.
    random_state : int, RandomState or None
        Seeds the permutations, and members that draw at random themselves.

    Attributes
    ----------
    coef_ : (n_mapped,) array or None
        The mean of the members' weights (of monomials, if the estimator maps features to these).
    thresholds_ : (n_grades - 1,) array, ascending
        The mean of the members' thresholds.
    support_, support_vectors_, dual_coef_ : arrays or None
        Row numbers (n_support,), rows (n_support, n_features) and mean coefficients (n_support,),
        if the estimator has a support.
    classes_ : (n_grades,) array
    n_mistakes_ : int
        Number of training mistakes of all members.

    References
    ----------
    Herbrich, Graepel, Campbell: Bayes point machines. JMLR 1, 2001. As the reference that OAP-BPM
    approximates: Harrington, ICML 2003.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-1.0, 0.0, 1.0])
    >>> model = BayesPoint(n_estimators=20, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict(X) - y).mean() < 0.03)
    True
    """

    _family: ClassVar = "online"
    _scores_as: ClassVar = "linear"
    _constraints: ClassVar = {
        "estimator": schema.optional(schema.instance_of("an online ranker", ThresholdRanker)),
        "n_estimators": schema.at_least(1),
        "random_state": schema.random_state(),
    }
    _learned: ClassVar = {
        "classes_": floats("n_grades"),
        "coef_": floats("n_mapped", optional=True),
        "thresholds_": floats("n_thresholds"),
        "support_": integers("n_support", low=0, optional=True),
        "support_vectors_": floats("n_support", "n_features", optional=True),
        "dual_coef_": floats("n_support", optional=True),
        "n_mistakes_": integer(low=0),
    }
    _order_matters: ClassVar = True

    coef_: FloatArray | None
    support_: IntArray | None
    support_vectors_: FloatArray | None
    dual_coef_: FloatArray | None

    def __init__(
        self,
        estimator: ThresholdRanker | None = None,
        n_estimators: int = 100,
        *,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.random_state = random_state

    @explains_names
    def fit(self, X: MatrixLike, y: ArrayLike, *, qid: ArrayLike | None = None) -> Self:  # type: ignore[override]
        """Train the members, each on all rows in a different order.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades, any numbers; higher is better
        qid : (n_items,) query ids; not used in training
        """
        return super().fit(X, y, qid=qid)

    def _learn(
        self, X: Matrix, feedback: Feedback, eval_set: EvalSet | None = None, **arguments: Any
    ) -> Self:
        assert isinstance(feedback, Grades)
        self.n_queries_in_ = feedback.queries.n_queries
        if np.ptp(feedback.y) == 0:
            warnings.warn(
                "BayesPoint: there is only one grade, so there is no order to learn.",
                DegenerateDataWarning,
                stacklevel=3,
            )
        with warnings.catch_warnings():  # this class has warned already
            warnings.simplefilter("ignore", DegenerateDataWarning)
            with checks.learning(self, X) as largest:
                self._fit(X, feedback)
        checks.check_training_scores(self, X, largest, has_order=len(self.classes_) > 1)
        return self

    def _fit(self, X: Matrix, feedback: Any) -> None:
        order, rng = repeated_rows(feedback), check_random_state(self.random_state)
        base, square = self._base(), self._is_pairwise()
        seeds = rng.randint(2**31 - 1, size=self.n_estimators).tolist()

        def train(seed: int) -> tuple[Any, IntArray]:
            rows = np.random.default_rng(seed).permutation(order)
            member = clone(base)
            if "random_state" in member.get_params() and member.random_state is None:
                member.set_params(random_state=seed)
            return member.fit(X[rows][:, rows] if square else X[rows], feedback.y[rows]), rows

        self._keep(X, map_blocks(train, seeds))

    def _keep(self, X: Matrix, trained: list[tuple[Any, IntArray]]) -> None:
        members, n = [member for member, _ in trained], len(trained)
        self.classes_ = members[0].classes_
        self.n_mistakes_ = sum(member.n_mistakes_ for member in members)
        self.coef_ = self.support_ = self.support_vectors_ = self.dual_coef_ = None
        if members[0]._gram(X.shape[1]) is None:
            coefs, thresholds = zip(*(member._linear_model() for member in members), strict=True)
            self.coef_ = np.mean(coefs, axis=0)
        else:
            thresholds = tuple(member.thresholds_ for member in members)
            dual = np.zeros(X.shape[0])
            for member, rows in trained:
                np.add.at(dual, rows[member.support_], member.dual_coef_ / n)
            self._keep_support(X, dual)
        # Rounding must not undo the order of equal thresholds.
        self.thresholds_ = np.maximum.accumulate(np.mean(thresholds, axis=0))

    def _keep_support(self, X: Matrix, dual: FloatArray) -> None:
        self.support_ = np.flatnonzero(dual)
        rows = X[self.support_]
        self.support_vectors_ = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        self.dual_coef_ = dual[self.support_]

    def _base(self) -> ThresholdRanker:
        return PRank() if self.estimator is None else self.estimator

    def _scorer(self) -> Scorer:
        base, n_features = self._base(), self.n_features_in_
        gram = base._gram(n_features)
        if gram is None:
            assert self.coef_ is not None
            features = base._map(n_features)
            ordinal = Ordinal(Linear(self.coef_), self.thresholds_, self.classes_)
            return ordinal if features is None else Mapped(features, ordinal)
        support: Any = (self.support_vectors_, self.support_, self.dual_coef_)
        expansion = gram.expansion(support[0], support[1], support[2], n_features)
        return Ordinal(expansion, self.thresholds_, self.classes_)

    def _score_kinds(self) -> frozenset[str]:
        return self._base()._score_kinds()

    def _is_pairwise(self) -> bool:
        return isinstance(self.estimator, ThresholdRanker) and self.estimator._is_pairwise()
