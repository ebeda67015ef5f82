"""Ranker: the scikit-learn estimator that every ranker subclasses; it checks the input.

A subclass writes ``_constraints``, ``_learned``, ``_fit`` (on checked arrays) and ``_scorer``.
"""

from __future__ import annotations

import math
import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from operator import is_
from typing import Any, ClassVar, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_n_features,
    _check_sample_weight,
    check_array,
    check_is_fitted,
    check_X_y,
    validate_data,
)

from rankwright import exceptions
from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike
from rankwright.data.display import html_table
from rankwright.data.inputs import checked_rows, columns_of_dicts, encoded_words
from rankwright.data.queries import Queries
from rankwright.feedback.base import Feedback, Grades, Mixture, as_grades
from rankwright.feedback.pairs import Bipartite, Pairs
from rankwright.metrics.measure import warn_without_queries
from rankwright.metrics.pairwise import pairwise_accuracy
from rankwright.rankers import checks
from rankwright.rankers.early_stopping import EarlyStopping, EvalSet, Validation, rows_and_grades
from rankwright.rankers.foreign_names import ExplainsParameters, explains_names
from rankwright.rankers.schema import Constraint, Holds, Learned, check_parameters, integer, texts
from rankwright.runtime import current_engine, single_threaded_blas, state_lock
from rankwright.scoring.base import Scorer, Transform
from rankwright.scoring.transforms import QueryScale

_LINEAR = ("linear", "precomputed")  # kernels whose rankers score with one weight per column


_OF_INPUT = ("n_features_in_", "n_queries_in_", "feature_names_in_")


class _Made(NamedTuple):
    """A scorer, the attributes that it was made of, and what else was derived from them."""

    attributes: dict[str, Any]
    scorer: Scorer
    derived: dict[str, Any]


def _are_identical(some: dict[str, Any], others: dict[str, Any]) -> bool:
    """Whether two dicts hold the same objects in the same order."""
    return len(some) == len(others) and all(map(is_, some.values(), others.values()))


class Ranker(ExplainsParameters, BaseEstimator):  # type: ignore[misc]
    """Base class of all rankers.

    A ranker is fitted to rows ``X``, grades ``y`` and queries ``qid`` (one id per row, of any type,
    in any order; without it all rows are one query), or to any feedback, and orders rows by
    ``decision_function``: higher ranks first.
    """

    # qid is requested by default, so that pipelines and searches pass it on (metadata routing).
    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True}
    __metadata_request__predict: ClassVar = {"qid": True}
    __metadata_request__decision_function: ClassVar = {"qid": True}

    _constraints: ClassVar[Mapping[str, Constraint]] = {}
    _learned: ClassVar[Mapping[str, Learned | Holds]] = {}
    _takes: ClassVar[tuple[type[Feedback], ...]] = (Grades,)
    _sums: ClassVar[bool] = False  # whether it accepts weighted sums of these
    _uses_confidence: ClassVar[bool] = False  # whether it fits Pairs(confidence=...)
    _grades_as_pairs: ClassVar[bool] = True  # whether the weight of a pair of grades counts
    _abstains: ClassVar[bool] = False  # whether it accepts NaN, a missing value

    _multiplies: ClassVar[bool] = True  # whether it computes with values, not just compares them
    _iterative: ClassVar[bool] = False  # whether it has early_stopping and takes an eval_set
    _order_matters: ClassVar[bool] = False  # whether it learns from the sequence of rows
    _chunks_exact: ClassVar[bool] = True  # whether partial_fit in chunks gives the bits of fit
    _streams_as_fit: ClassVar[bool] = True  # whether it gives the model of fit at all

    _scores_as: ClassVar[str] = "unknown"  # the kind of its scorer, of those in deployment
    _family: ClassVar[str] = ""  # whose kernels it compiles; "" for none
    _shard_fit: ClassVar[str] = ""  # "module:function" that fits it from shards; not inherited
    _usual_grid: ClassVar[Mapping[str, str]] = {}  # what tune tries where no grid is given
    _wants_scaled_features: ClassVar[bool] = False  # whether AutoRanker puts a scaler before it

    kernel: Any = None  # a parameter of rankers with kernels
    normalize: str | None = None  # "query" where a ranker offers it as a parameter
    early_stopping: Any = None  # a parameter of iterative rankers

    n_features_in_: int
    n_queries_in_: int

    @abstractmethod
    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        """Learn from checked rows (float64, C order or CSR) and feedback of an accepted type.

        An iterative ranker also gets ``validation``, a ``Validation`` or None.
        """

    @abstractmethod
    def _scorer(self) -> Scorer:
        """A new scorer of the fitted attributes; predictions take :meth:`_fitted_scorer`."""

    def _fitted_scorer(self) -> Scorer:
        """The scorer of the fitted attributes, which is made once and keeps its compiled layout.

        It is made again after a parameter or a learned attribute was assigned: no method has to
        discard it. Rankers with ``partial_fit`` learn in place, and make one for each call. A
        linear scorer holds the learned arrays themselves; the layout of trees is derived from
        theirs, which are read-only from then on.
        """
        if hasattr(self, "partial_fit"):
            return self._scorer()
        made = self._made_before()
        return self._take_scorer(self._scorer()) if made is None else made.scorer

    def _made_before(self) -> _Made | None:
        """What was made of the present attributes; None if one was assigned since."""
        made: _Made | None = vars(self).get("_made")
        if made is None or not _are_identical(made.attributes, self._attributes()):
            return None
        return made

    def _take_scorer(self, scorer: Scorer) -> Scorer:
        """Score with this scorer of the learned attributes: a new one, or that of a file."""
        self._made = _Made(self._attributes(), scorer, {})
        for name in self._learned if self._scores_as == "trees" else ():
            if isinstance(array := vars(self).get(name), np.ndarray):
                array.flags.writeable = False
        return scorer

    def _attributes(self) -> dict[str, Any]:
        """Parameters and learned attributes by name."""
        return {name: value for name, value in vars(self).items() if name[0] != "_"}

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_made"}

    @explains_names
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        eval_set: tuple[MatrixLike, ArrayLike] | None = None,
        eval_qid: ArrayLike | None = None,
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
        eval_set : (X, y) of validation queries, for iterative rankers: ``validation_`` is the
            validation curve, and ``early_stopping`` keeps the iterations up to the best one
        eval_qid : query ids of the validation rows; None treats all rows as one query
        """
        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        return self._fit_grades(X, y, qid=qid, **weights, eval_set=eval_set, eval_qid=eval_qid)

    def _fit_grades(
        self,
        X: MatrixLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        eval_set: tuple[MatrixLike, ArrayLike] | None = None,
        eval_qid: ArrayLike | None = None,
        **arguments: Any,
    ) -> Self:
        """``fit``; other arguments, which only some rankers have, go to ``_fit``."""
        if (engine := current_engine()) is not None:
            given = {"qid": qid, "sample_weight": sample_weight, "query_weight": query_weight}
            engine.fit(self, X, y, **given, eval_set=eval_set, eval_qid=eval_qid, **arguments)
            return self
        if isinstance(X, str | os.PathLike) or type(X).__module__.startswith("dask"):
            raise exceptions.ParameterError(
                f"{type(self).__name__}.fit got {type(X).__name__}: files and Dask collections are "
                "read by an engine. Write: with rankwright.engine('local'): (or a Dask client)."
            )
        self._check_parameters()
        X, y = self._checked_training(X, y)
        if sample_weight is not None:
            checks: Any = {"dtype": np.float64, "ensure_non_negative": True}
            sample_weight = _check_sample_weight(sample_weight, X, **checks)
        feedback = Grades(y, qid, sample_weight=sample_weight, query_weight=query_weight)
        rows = self._checked_eval_set(eval_set, eval_qid, feedback.queries.n_queries)
        return self._learn(self._scaled(X, feedback.queries), feedback, rows, **arguments)

    def fit_feedback(
        self,
        X: MatrixLike,
        feedback: Feedback,
        *,
        qid: ArrayLike | None = None,
        eval_set: tuple[MatrixLike, ArrayLike] | None = None,
        eval_qid: ArrayLike | None = None,
    ) -> Self:
        """Fit the ranker to preferences between rows: Grades, Pairs, Bipartite, or sums of them.

        ``qid`` is used only with ``normalize="query"``; Grades have their own. ``eval_set`` and
        ``eval_qid`` are as in ``fit``.
        """
        self._check_parameters()
        X = self._validated(X, reset=True)
        if not isinstance(feedback, Feedback):
            raise exceptions.FeedbackError(
                f"fit_feedback got {type(feedback).__name__}: give Grades, Pairs, Bipartite or a "
                "sum of them (for plain grades: fit(X, y, qid=qid))."
            )
        feedback.check_rows(X.shape[0])
        for concern in feedback.concerns():
            warnings.warn(concern, exceptions.ClickBiasWarning, stacklevel=2)
        if qid is None and isinstance(feedback, Grades):
            queries = feedback.queries
        else:
            queries = Queries.from_ids(qid, X.shape[0])
        rows = self._checked_eval_set(eval_set, eval_qid, queries.n_queries)
        feedback = self._accepted(feedback, X.shape[0])
        return self._learn(self._scaled(X, queries), feedback, rows)

    def decision_function(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """Compute the score of each row; higher ranks first.

        ``qid`` is used only with ``normalize="query"``, which scales rows within their query.
        """
        check_is_fitted(self)
        rows = self._rows(X, qid)
        with self._unchanged(), np.errstate(over="ignore", invalid="ignore"):  # raised below
            return checks.check_scores(self, rows, self._fitted_scorer().decision_function(rows))

    def predict(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """Predict in units of ``y``: the grade for ordinal rankers, otherwise the score."""
        check_is_fitted(self)
        rows = self._rows(X, qid)
        with self._unchanged(), np.errstate(over="ignore", invalid="ignore"):
            return checks.check_scores(self, rows, self._fitted_scorer().predict(rows))

    def rank(self, X: MatrixLike, qid: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the rank of each row in its query, from 1; equal scores keep their order."""
        scores = self.decision_function(X, qid)
        return Queries.from_ids(qid, len(scores)).places(scores)

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Compute the pairwise accuracy: the share of correctly ordered pairs, averaged over
        queries.

        A pair with equal scores counts 1/2. Queries without a pair to order are skipped. Without
        any pair the score is 1/2, as for guessing, with a DegenerateDataWarning.
        """
        scores = self.decision_function(X, qid)
        if qid is None:
            warn_without_queries(self, "score()")
        queries = Queries.from_ids(qid, len(scores))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        value, n_queries = pairwise_accuracy(scores, as_grades(y, "y"), queries, weights)
        if n_queries == 0:
            warnings.warn(
                "no query has two different grades, so there is no pair to order; the score is "
                "0.5.",
                exceptions.DegenerateDataWarning,
                stacklevel=2,
            )
            return 0.5
        return float(value)

    def _unchanged(self) -> AbstractContextManager[Any]:
        """A block in which no other thread changes this object by ``partial_fit``."""
        return state_lock(self) if hasattr(self, "partial_fit") else nullcontext()

    def _score_kinds(self) -> frozenset[str]:
        """The kinds, of those in ``deployment``, that an export target must hold."""
        scaled = {"query"} if self.normalize is not None else set()
        if self.kernel is None or (isinstance(self.kernel, str) and self.kernel in _LINEAR):
            return frozenset({self._scores_as, *scaled})
        return frozenset({"kernel" if isinstance(self.kernel, str) else "unknown", *scaled})

    def _transforms(self) -> tuple[Transform, ...]:
        """The transforms of rows before the scorer, which model files contain too."""
        return (QueryScale(self.n_features_in_, "minmax"),) if self.normalize == "query" else ()

    def _scaled(self, X: Matrix, queries: Queries) -> Matrix:
        for step in self._transforms():
            X = step.transform(X, queries)
        return X

    def _rows(self, X: MatrixLike, qid: ArrayLike | None) -> Matrix:
        """Checked rows as the scorer takes them."""
        X = self._validated(X, reset=False)
        if self.normalize is None:
            return X
        if qid is None and self.n_queries_in_ > 1:
            warnings.warn(
                f"{type(self).__name__}(normalize={self.normalize!r}) scales rows within their "
                "query and got no qid, so all rows count as one query. Pass qid.",
                exceptions.MissingQueryWarning,
                stacklevel=3,
            )
        return self._scaled(X, Queries.from_ids(qid, X.shape[0]))

    def _learn(
        self, X: Matrix, feedback: Feedback, eval_set: EvalSet | None = None, **arguments: Any
    ) -> Self:
        checks.check_weights(feedback)
        self.n_queries_in_ = feedback.queries.n_queries if isinstance(feedback, Grades) else 1
        if feedback.total_weight == 0:
            warnings.warn(
                f"{type(self).__name__}: the feedback has no preferences (every query has a single "
                "grade, a single row, or weight 0), so there is no order to learn.",
                exceptions.DegenerateDataWarning,
                stacklevel=3,
            )
        # Another number of BLAS threads would sum products in another order.
        with checks.learning(self, X) as largest, single_threaded_blas():
            rows = X, *self._with_validation(X, feedback, eval_set)
            self._train(*rows, **arguments)
        checks.check_training_scores(self, X, largest, has_order=feedback.total_weight > 0)
        return self

    def _train(
        self, X: Matrix, feedback: Feedback, validation: Validation | None, **arguments: Any
    ) -> None:
        """Learn from all columns, or only from those that hold a value if few do."""
        used = checks.used_columns(X, self._fewest_values()) if self._may_drop_columns() else None
        if used is None:
            ranker = self
        else:
            used = np.union1d(used, self._columns_to_keep(self.n_features_in_))
            ranker, X = self._narrowed(used), X[:, used]
            validation = validation and validation.with_columns(used)
        if self._iterative:
            arguments["validation"] = validation
        ranker._fit(X, feedback, **arguments)
        if used is not None:
            kept = {n: v for n, v in vars(self).items() if n in _OF_INPUT or not n.endswith("_")}
            learned = {n: v for n, v in vars(ranker).items() if n.endswith("_")}
            self.__dict__ = learned | kept
            self._widen(used)

    def _narrowed(self, used: IntArray) -> Self:
        """A ranker like this one that learns from some of the columns."""
        narrow = copy(self)
        narrow.__dict__.pop("feature_names_in_", None)
        narrow.n_features_in_ = len(used)
        return narrow

    def _advice_for_many_rows(self) -> str | None:
        """What to do instead, if time may grow with the square of the number of rows."""
        return None

    def _may_drop_columns(self) -> bool:
        """Whether a column without values changes no learned attribute but by its zeros."""
        return False

    def _fewest_values(self) -> int:
        """A sparse column with fewer stored values is never used, as if it had none."""
        return 1

    def _columns_to_keep(self, n_features: int) -> IntArray:
        """Columns that are never dropped."""
        return np.zeros(0, np.int64)

    def _widen(self, used: IntArray) -> None:
        """Turn what was learned from some columns of X into what it is for all of them."""
        for name, learned in self._learned.items():
            value = getattr(self, name, None)
            if value is None or not isinstance(learned, Learned):
                continue
            if learned.shape == ("n_features",):
                wide = np.zeros(self.n_features_in_, value.dtype)
                wide[used] = value
                setattr(self, name, wide)
            elif learned.high == "n_features":
                setattr(self, name, np.where(value < 0, value, used[value]))

    def _checked_eval_set(
        self,
        eval_set: tuple[MatrixLike, ArrayLike] | None,
        eval_qid: ArrayLike | None,
        n_queries: int,
    ) -> EvalSet | None:
        """The checked eval_set of ``fit``, scaled like the training rows."""
        owner = type(self).__name__
        if eval_set is None:
            if eval_qid is not None:
                raise exceptions.ParameterError(
                    f"{owner}.fit: eval_qid was given without eval_set."
                )
            return None
        if not self._iterative:
            raise exceptions.ParameterError(
                f"{owner}.fit: eval_set was given, but {owner} does not train in rounds: it has no "
                "validation curve and no early stopping. Evaluate the fitted model with evaluate()."
            )
        try:
            X, y = self._validated(*rows_and_grades(eval_set, owner), reset=False)
        except ValueError as error:
            raise exceptions.DataError(f"eval_set: {error}") from None
        y = as_grades(y, "y of eval_set")
        if isinstance(eval_qid, list) and len(eval_qid) == 1 and np.ndim(eval_qid[0]) == 1:
            eval_qid = eval_qid[0]  # a list of one, as eval_set may be
        if eval_qid is None and n_queries > 1:
            warnings.warn(
                f"{owner} trains on {n_queries} queries, but eval_set has no query ids and counts "
                "as one query: pass eval_qid.",
                exceptions.MissingQueryWarning,
                stacklevel=3,
            )
        queries = Queries.from_ids(eval_qid, X.shape[0], name="eval_qid")
        return EvalSet(self._scaled(X, queries), y, queries)

    def _with_validation(
        self, X: Matrix, feedback: Feedback, eval_set: EvalSet | None
    ) -> tuple[Feedback, Validation | None]:
        """What to learn from and what to validate on: the eval_set, or queries held out."""
        if eval_set is None and not self.early_stopping:
            return feedback, None
        stopping = EarlyStopping.from_parameter(self.early_stopping)
        if eval_set is None and stopping is not None:
            feedback, eval_set = stopping.hold_out(X, feedback, type(self).__name__)
        return feedback, None if eval_set is None else Validation(eval_set, stopping)

    def _accepted(self, feedback: Feedback, n_items: int) -> Feedback:
        """The feedback in a form that this ranker accepts; otherwise a FeedbackError lists them."""
        kinds = self._kinds()
        given = terms = list(feedback.terms())
        if not self._uses_confidence:
            self._refuse_confidence(terms)
        if Bipartite not in kinds:
            terms = [(f, _graded(t, n_items) if isinstance(t, Bipartite) else t) for f, t in given]
        if all(isinstance(term, kinds) for _, term in terms):
            if len(terms) == 1 and terms[0][0] == 1.0:
                return terms[0][1]
            if Mixture in kinds:
                return Mixture(tuple(terms))
        names = ", ".join("sums" if kind is Mixture else kind.__name__ for kind in kinds)
        types = {type(term) for _, term in given} | ({Mixture} if len(given) > 1 else set())
        able = [name for name, cls in rankers().items() if all(map(cls.takes, types))]
        text = " + ".join(f"{factor:g} * {type(term).__name__}" for factor, term in given[:4])
        own = repr(self) if all(map(type(self).takes, types)) else type(self).__name__
        raise exceptions.FeedbackError(
            f"{own} learns from {names} and got {text}. "
            f"Rankers that learn from it: {', '.join(able) or 'none'}."
        )

    def _refuse_confidence(self, terms: list[tuple[float, Feedback]]) -> None:
        """Raise a FeedbackError for pairs whose confidence is not 1."""
        for _, term in terms:
            if isinstance(term, Pairs) and not term.is_certain:
                pair = int(np.flatnonzero(term.confidence != 1.0)[0])
                able = [name for name, cls in rankers().items() if cls._uses_confidence]
                raise exceptions.FeedbackError(
                    f"{type(self).__name__} treats every preference as certain, but "
                    f"confidence[{pair}] = {term.confidence[pair]:g}. Rankers that use confidence: "
                    f"{', '.join(able)}. Or omit confidence and give uncertain pairs a smaller "
                    "weight."
                )

    def _kinds(self) -> tuple[type[Feedback], ...]:
        """The types of feedback that it accepts with its parameters (``Mixture``: also sums)."""
        return (*self._takes, Mixture) if self._sums else self._takes

    def _check_parameters(self) -> None:
        if (engine := current_engine()) is not None:
            engine.refuse(self)
        check_parameters(self)

    def _checked_training(self, X: MatrixLike, y: ArrayLike) -> tuple[Matrix, FloatArray]:
        X, y = self._validated(X, y)
        return X, as_grades(y, "y")

    @overload
    def _validated(self, X: MatrixLike, *, reset: bool = True) -> Matrix: ...
    @overload
    def _validated(
        self, X: MatrixLike, y: ArrayLike, /, *, reset: bool = True
    ) -> tuple[Matrix, NDArray[Any]]: ...

    def _validated(self, X: MatrixLike, *y: ArrayLike, reset: bool = True) -> Any:
        """Rows as scikit-learn checks them, words encoded as for training.

        The error about another column of text names it.
        """
        names = None if reset else getattr(self, "feature_names_in_", None)
        try:
            rows = X if isinstance(X, np.ndarray) else checked_rows(X)
            features = encoded_words(rows, names)
            if features is None and names is not None and not hasattr(rows, "columns"):
                features = rows  # without names: they are in the order of the training columns
                _check_n_features(self, rows, reset=False)
            if features is not None:
                check: Any = check_X_y if y else check_array
                return check(features, *y, estimator=self, **self._row_checks())
            return validate_data(self, rows, *y, reset=reset, **self._row_checks())
        except (TypeError, ValueError):
            if names is None and columns_of_dicts(X) is not None:
                raise exceptions.DataError(
                    "X holds dicts, which only a model that was fitted to named columns scores. "
                    "Give a data frame, such as pandas.DataFrame(X)."
                ) from None
            name = _column_of_text(X)
            if name is None:
                raise
            raise self._not_numeric(name) from None

    def _not_numeric(self, column: str) -> exceptions.DataError:
        """The error about a column of text."""
        own = "name it in categorical_features, " * hasattr(self, "categorical_features")
        return exceptions.DataError(
            f"the column {column!r} of X is not numeric: {own}leave it out (ids go to qid=, "
            "grades to y) or encode it: RankPipeline([('encode', "
            f"rankwright.features.TableEncoder()), ('rank', {type(self).__name__}(...))])."
        )

    def _row_checks(self) -> dict[str, Any]:
        checks = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
        return {**checks, "ensure_all_finite": "allow-nan" if self._abstains else True}

    @classmethod
    def takes(cls, feedback: type[Feedback]) -> bool:
        """Return whether the ranker supports this type of feedback."""
        if feedback is Mixture:
            return cls._sums
        return issubclass(feedback, cls._takes) or (feedback is Bipartite and Grades in cls._takes)

    @classmethod
    def learned(cls) -> dict[str, Learned | Holds]:
        """Return the schema of every fitted attribute."""
        return {
            "n_features_in_": integer(low=1),
            "n_queries_in_": integer(low=0),
            "feature_names_in_": texts("n_features", optional=True),
            **cls._learned,
        }

    def _html_repr(self) -> str:
        """scikit-learn's box, and below it what was learned."""
        box = str(super()._html_repr())
        found = {name: getattr(self, name, None) for name in self._learned}
        rows = [(name, _described(value)) for name, value in found.items() if value is not None]
        return box + html_table(("learned", ""), rows) if rows else box

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._abstains
        tags.input_tags.pairwise = self._is_pairwise()
        return tags

    def _is_pairwise(self) -> bool:
        """Whether X holds kernel values, with a column for each training row."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"


def find_ranker(name: str) -> type[Ranker] | None:
    """The public ranker of this name, or None; imports the module of this one only.

    >>> find_ranker("PRank").__name__, find_ranker("EarlyStopping")
    ('PRank', None)
    """
    import rankwright.rankers as package

    value = getattr(package, name) if name in dir(package) else None
    is_ranker = isinstance(value, type) and issubclass(value, Ranker) and value is not Ranker
    return value if is_ranker else None


def rankers() -> dict[str, type[Ranker]]:
    """All public rankers by name: those in the stub of ``rankwright.rankers``."""
    import rankwright.rankers as package

    return {name: cls for name in dir(package) if (cls := find_ranker(name))}


def _described(value: object) -> str:
    """The shape of an array, else the value.

    >>> _described(np.zeros((3, 4))), _described(0.5)
    ('array (3, 4)', '0.5')
    """
    shape = getattr(value, "shape", ())
    if shape and math.prod(shape) > 6:
        return f"array {shape}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _column_of_text(X: Any) -> Any:
    """The name of the first column of a data frame that holds no numbers; None without one."""
    for name in getattr(X, "column_names", getattr(X, "columns", ())):
        try:
            np.asarray(X[name], dtype=np.float64)
        except (TypeError, ValueError):
            return name
    return None


def _graded(feedback: Bipartite, n_items: int) -> Grades:
    """Two sets as grades 0 and 1; a row in neither has weight 0, so it is in no pair."""
    y, weight = np.zeros(n_items), np.zeros(n_items)
    y[feedback.upper] = 1.0
    weight[feedback.lower], weight[feedback.upper] = feedback.lower_weight, feedback.upper_weight
    return Grades(y, sample_weight=weight)
