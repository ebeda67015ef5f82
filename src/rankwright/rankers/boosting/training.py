"""The boosting loop of RankBoost: rounds until a number, a callback or early stopping ends them.

Also the base class of RankBoost and LambdaMART, which may start from given scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, Matrix, MatrixLike
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import Hashes, hash_rows
from rankwright.exceptions import DataError
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pair_weights import PairDistribution
from rankwright.rankers import schema
from rankwright.rankers.boosting.binning import FeatureColumns
from rankwright.rankers.boosting.ensemble import BoostedEnsemble, round_scores
from rankwright.rankers.boosting.explain import Explained
from rankwright.rankers.boosting.weak_learners.estimators import (
    EstimatorLearner,
    TreeLearner,
    TreeRanking,
)
from rankwright.rankers.boosting.weak_learners.features import (
    FeatureLearner,
    WeakLearner,
    feature_scan,
)
from rankwright.rankers.early_stopping import Validation
from rankwright.rankers.foreign_names import explains_names
from rankwright.runtime import Team, progress
from rankwright.scoring.base import Scorer

CALLBACKS = schema.Constraint(
    "None or a list of functions",
    lambda value: value is None or (isinstance(value, list) and all(map(callable, value))),
)


@dataclass(frozen=True)
class Round:
    """The argument of callbacks after each round.

    Attributes
    ----------
    number : int, rounds so far
    weak : what was added: a WeakRanking, or a tree
    z : float or None, the factor by which the bound on the ranking loss fell
    bound : float or None, the product of all z so far, a bound on the share of misordered pairs
    validation : float or None, the measure on the held-out queries
    """

    number: int
    weak: Any
    z: float | None
    bound: float | None
    validation: float | None = None


@dataclass(frozen=True)
class TrainingResult:
    """What training returns: the ensemble, and figures of the training pairs."""

    ensemble: BoostedEnsemble
    z: list[float]
    bound: float
    wrong: float
    tied: float
    n_lower: int
    n_upper: int
    validation: FloatArray | None


def boost(
    model: BaseEstimator,
    X: Matrix,
    feedback: Feedback,
    validation: Validation | None,
    start: FloatArray,
) -> TrainingResult:
    """Train with the parameters of a RankBoost, from the scores ``start`` on."""
    with Team.for_rows(X) as pool:
        grows = isinstance(model.estimator, TreeRanking)
        feedback, key = in_order(feedback, X)
        pairs = PairDistribution(feedback, X.shape[0], pool, key=key, weighting=model.weighting)
        if start.any() and len(pairs.rows):
            pairs.move_to(start[pairs.rows])
        rounds: list[Any] = []
        z: list[float] = []
        first = float(np.exp(pairs.log_weight))
        if len(pairs.rows):
            learner = _learner(model, X, pairs, pool)
            if not grows and not getattr(learner, "reads_mass", False):
                pairs.mass = np.zeros(0)  # only binning, trees and bounds on gains read it
            rounds, z = run_rounds(model, pairs, learner, validation)
    abstain = model.absent == "abstain"
    kept = validation.n_kept(len(rounds)) if validation else len(rounds)
    ensemble = BoostedEnsemble.from_rounds(
        X.shape[1], abstain, rounds[:kept], grows, model.estimator == "value"
    )
    # By the scores that the model gives, not those of training: sums in another order differ in
    # the last bit, and near-ties with them.
    scores = start + ensemble.scorer(kept).decision_function(X)
    wrong, tied = pairs.disorder(scores[pairs.rows])
    curve = np.array(validation.curve) if validation else None
    bound = first * float(np.exp(np.log(z[:kept]).sum()))
    return TrainingResult(
        ensemble, z[:kept], bound, wrong, tied, pairs.n_lower, pairs.n_upper, curve
    )


def in_order(feedback: Feedback, X: Matrix) -> tuple[Feedback, Hashes | None]:
    """Grades with queries in the order of their content, and a key of the order of rows.

    So sums do not depend on the order in which rows and queries are given, nor on the ids.
    """
    if not isinstance(feedback, Grades):
        return feedback, None
    queries = feedback.queries
    key = hash_rows(X, feedback.y, feedback.sample_weight)
    content = hash_rows(feedback.query_weight[:, None])
    np.add.at(content, queries.codes, key)  # modulo 2**64, so in any order
    order = np.argsort(content, kind="stable")
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    weights: Any = {"sample_weight": feedback.sample_weight, "magnitude": feedback.magnitude}
    ordered = Queries(position[queries.codes], queries.ids[order])
    grades = Grades(feedback.y, ordered, query_weight=feedback.query_weight[order], **weights)
    return grades, key


def _columns(model: BaseEstimator, X: Matrix, pairs: PairDistribution) -> FeatureColumns:
    return FeatureColumns(X, pairs.rows, pairs.mass, model.max_bins, model.absent == "abstain")


def smoothing_of(model: BaseEstimator, pairs: PairDistribution) -> float:
    if model.smoothing is not None:
        return float(model.smoothing)
    # A weight of k counts as k copies: then there are as many pairs as there is weight.
    return float(1.0 / (2.0 * max(pairs.n_pairs, pairs.weight, 2.0)))


def _learner(model: BaseEstimator, X: Matrix, pairs: PairDistribution, pool: Team) -> WeakLearner:
    smoothing = smoothing_of(model, pairs)
    if not isinstance(model.estimator, str | TreeRanking):
        return EstimatorLearner(model, X[pairs.rows], smoothing)
    columns = _columns(model, X, pairs)
    if isinstance(model.estimator, TreeRanking):
        return TreeLearner(model, columns, pairs, pool, smoothing)
    return FeatureLearner(model, feature_scan(model, columns, pairs, pool, smoothing), smoothing)


def run_rounds(
    model: BaseEstimator,
    pairs: PairDistribution,
    learner: WeakLearner,
    validation: Validation | None,
) -> tuple[list[Any], list[float]]:
    rounds: list[Any] = []
    z: list[float] = []
    title, active = type(model).__name__, bool(model.verbose)
    with progress.task(title, model.n_estimators, unit="rounds", active=active) as work:
        for number in range(1, model.n_estimators + 1):
            before = pairs.log_weight
            weak = learner.learn(pairs)
            if weak is None:
                break
            rounds.append(weak)
            z.append(float(np.exp(pairs.log_weight - before)))
            bound = float(np.exp(pairs.log_weight))
            work.update(number, f"bound {bound:.4g}")
            stop, value = False, None
            if validation is not None:
                added = round_scores(weak, validation.X, model.absent == "abstain")
                stop = validation.add(added)
                value = validation.curve[-1]
            report = Round(number, weak, z[-1], bound, value)
            stop = sum(bool(callback(report)) for callback in model.callbacks or []) > 0 or stop
            if stop:
                break
    return rounds, z


@dataclass(frozen=True)
class Start:
    """What the first round starts from."""

    init_score: Any = None
    eval_init_score: Any = None
    n_more: int | None = None  # of fit_more: the trees to add to those there are

    @property
    def has_scores(self) -> bool:
        return self.init_score is not None or self.eval_init_score is not None


FROM_ZERO = Start()


class BoostedRanker(Explained):
    """A ranker whose scores are a sum over rounds; training may start from given scores."""

    _scores_as: ClassVar = "trees"
    _multiplies: ClassVar = False

    @explains_names
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        eval_set: tuple[MatrixLike, ArrayLike] | None = None,
        eval_qid: ArrayLike | None = None,
        init_score: ArrayLike | None = None,
        eval_init_score: ArrayLike | None = None,
    ) -> Self:
        """Fit the ranker to grades, which are compared within each query.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades; higher is better
        qid : (n_items,) query ids of any hashable type, in any order; None treats all rows as one
            query
        sample_weight : (n_items,) a weight of 2 counts as two copies of the row
        query_weight : a weight per query (in order of first appearance), per row, or {id: weight}
        eval_set : (X, y) of validation queries: ``validation_`` is the validation curve,
            and ``early_stopping`` keeps the rounds up to the best one
        eval_qid : query ids of the validation rows; None treats all rows as one query
        init_score : (n_items,) initial scores, such as those of another model. The ranker learns a
            correction: rank rows by their sum with ``decision_function``
        eval_init_score : initial scores of the validation rows
        """
        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        rows = {"qid": qid, **weights, "eval_set": eval_set, "eval_qid": eval_qid}
        return self._fit_grades(X, y, **rows, start=Start(init_score, eval_init_score))

    @property
    def _ensemble(self) -> BoostedEnsemble:
        return BoostedEnsemble.of(self)

    def _scorer(self) -> Scorer:
        return self._ensemble.scorer(len(self.alpha_))

    def staged_decision_function(self, X: MatrixLike) -> Iterator[FloatArray]:
        """Yield the scores after each round."""
        check_is_fitted(self)
        return self._ensemble.staged(self._validated(X, reset=False))

    def _first_scores(
        self, start: Start, n_items: int, validation: Validation | None
    ) -> FloatArray:
        """The scores to start from; those of the validation rows go to ``validation``."""
        given, held_out = start.init_score, start.eval_init_score
        scores = self._checked_scores(given, n_items, "init_score", "X")
        if validation is None:
            if held_out is not None:
                raise DataError("eval_init_score was given without eval_set.")
            return scores
        if validation.rows is not None:
            validation.start = scores[validation.rows]
        else:
            n_rows = validation.X.shape[0]
            validation.start = self._checked_scores(held_out, n_rows, "eval_init_score", "eval_set")
            if given is not None and held_out is None:
                raise DataError(
                    "init_score and eval_set were given without eval_init_score: the validation "
                    "rows need initial scores too. Pass eval_init_score."
                )
        return scores

    def _checked_scores(self, scores: Any, n_rows: int, name: str, rows: str) -> FloatArray:
        if scores is None:
            return np.zeros(n_rows)
        start = np.array(scores, dtype=np.float64)
        if start.shape != (n_rows,):
            raise DataError(
                f"{name} has shape {start.shape} and {rows} has {n_rows} rows: give one score per "
                "row."
            )
        if n_bad := int((~np.isfinite(start)).sum()):
            raise DataError(f"{name}: {n_bad} of {n_rows} values are NaN or infinite.")
        return start
