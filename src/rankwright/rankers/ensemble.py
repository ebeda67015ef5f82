"""RankEnsemble: the weighted sum of the scores of several rankers."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, MatrixLike
from rankwright.data.queries import Queries
from rankwright.exceptions import ParameterError
from rankwright.feedback.base import Grades
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.deployment import kinds_of
from rankwright.rankers.foreign_names import explains_names
from rankwright.rankers.one_hot import OneHotDecoder
from rankwright.rankers.preprocessing import (
    QueryNormalizer,
    RankPipeline,
    flat_steps,
    is_known,
    is_scaler,
    transform_of,
)
from rankwright.rankers.schema import Holds, floats
from rankwright.scoring.base import Matrix, Scorer
from rankwright.scoring.linear import Linear
from rankwright.scoring.sums import Sum
from rankwright.scoring.transforms import LevelNumbers, Mapped

if TYPE_CHECKING:
    from rankwright.rankers.boosting.ensemble import PairExplanation

# Steps that fill no missing value, so that the ranker behind them has to take it.
KEEP_MISSING = (StandardScaler, MinMaxScaler, MaxAbsScaler, QueryNormalizer, OneHotDecoder)
STILL = 1e-12  # of the size of scores: a smaller deviation is rounding

Members = list[tuple[str, Any]]


class RankEnsemble(Ranker):
    """The weighted sum of the scores of several rankers, each on a scale of its own.

    The members are fitted to the same rows. Their scores have different scales, so each is divided
    by the standard deviation of its scores within queries of the training rows:

    score(x) = sum over members of ``weights_[i] / scale_[i]`` * score of member i

    The score is a function of the row alone, as for every other ranker, so that thresholds, SQL and
    search engines can use it. Members of one kind become one model for scoring: all trees one list
    of trees, all linear members (and scalers before them) one linear function. An ensemble of trees
    can be exported wherever a :class:`LambdaMART` can.

    If all members are fitted already, the ensemble scores rows without ``fit``, with ``scale_`` 1;
    :meth:`from_fitted` does the same and takes the scales.

    Parameters
    ----------
    members : list of rankers, or of (name, ranker) pairs
        Rankers, other ensembles, or pipelines that end in one. Rankers without a name are named
        after their class in lower case (``ranksvm``, or ``ranksvm-1``, ``ranksvm-2``). A member
        that needs ``qid`` to score rows (QueryNormalizer, ``normalize="query"``) is refused.
    weights : list of numbers >= 0, one for each member, or None
        None gives all members the same weight.

    Attributes
    ----------
    members_ : list of the fitted members
    weights_ : (n_members,) array
        The weights, divided by their sum.
    scale_ : (n_members,) array
        The standard deviation of each member's scores within queries; 1 if they are all equal.
    tried_ : RankEnsemble or None
        Of an ensemble that :class:`AutoRanker` made: all candidates that it tried, not fitted.
        ``AutoRanker(model.tried_.members)`` repeats the training.
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of str, if X has column names

    See Also
    --------
    AutoRanker : chooses members and weights by cross-validation.
    fuse : combines ranked lists instead of models.

    References
    ----------
    R. Caruana, A. Niculescu-Mizil, G. Crew, A. Ksikes: Ensemble selection from libraries of models.
    ICML 2004.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from rankwright import RankBoost, RankPipeline, RankSVM
    >>> from rankwright.testing.inputs import make_problem
    >>> data = make_problem(n_queries=12)
    >>> svm = RankPipeline([("scale", StandardScaler()), ("rank", RankSVM())])
    >>> model = RankEnsemble([("svm", svm), ("boost", RankBoost(n_estimators=20))], weights=[1, 3])
    >>> model = model.fit(data.X, data.y, qid=data.qid)
    >>> model.weights_
    array([0.25, 0.75])
    >>> model.rank(data.X[9:13], qid=data.qid[9:13])
    array([4, 3, 2, 1])
    """

    _constraints: ClassVar = {
        "members": schema.Constraint(
            "a list of rankers, pipelines that end in one, or (name, ranker) pairs with different "
            "names without '__'",
            lambda value: _are_members(value),
        ),
        "weights": schema.optional(
            schema.Constraint(
                "numbers >= 0, one for each member, not all of them 0",
                lambda value: _are_weights(value),
            )
        ),
    }
    _learned: ClassVar = {
        "members_": Holds((Ranker, Pipeline), several=True),
        "weights_": floats("n_members", low=0.0, high=1.0),
        "scale_": floats("n_members", low=0.0),
        "tried_": Holds((Ranker,), optional=True),
    }

    members_: list[Any]
    weights_: FloatArray
    scale_: FloatArray
    tried_: RankEnsemble | None

    def __init__(
        self, members: Any = None, weights: Sequence[float] | FloatArray | None = None
    ) -> None:
        self.members = members
        self.weights = weights

    @classmethod
    def from_fitted(
        cls,
        members: Any,
        weights: Sequence[float] | FloatArray | None = None,
        scale: ArrayLike | None = None,
    ) -> Self:
        """Return an ensemble of fitted rankers, which are used as they are.

        A member that learns more rows afterwards does not change the ensemble.

        Parameters
        ----------
        members : list of fitted rankers, or of (name, ranker) pairs
        weights : list of numbers >= 0, one for each member, or None
        scale : (n_members,) numbers > 0 that the scores are divided by; None divides by 1

        Examples
        --------
        >>> from rankwright import RankSVM, RidgeRanker
        >>> X, y = [[0.0], [1.0], [3.0]], [0, 1, 2]
        >>> model = RankEnsemble.from_fitted([RankSVM().fit(X, y), RidgeRanker().fit(X, y)])
        >>> model.rank(X)
        array([3, 2, 1])
        """
        given = cls(members, weights)
        given._check_parameters()
        ensemble = cls([(name, clone(model)) for name, model in given._named()], weights)
        ensemble._adopt(given._named(), scale)
        return ensemble

    @explains_names
    def fit(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit clones of the members to grades, which are compared within each query.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades; higher is better
        qid : (n_items,) query ids of any hashable type, in any order; None treats all rows as one
            query
        sample_weight : (n_items,) a weight of 2 counts as two copies of the row. Online rankers
            accept whole numbers only
        """
        return super().fit(X, y, qid=qid, sample_weight=sample_weight)

    def _fit(self, X: Matrix, feedback: Any) -> None:
        fitted, scales = [], []
        for name, member in self._named():
            with _naming(name):
                model = _fitted(clone(member), X, feedback)
                fitted.append(model)
                scores = _term(name, model).decision_function(X)
                scales.append(deviation(scores, feedback.queries, feedback.row_weight))
        self._keep(fitted, scales)

    def _keep(self, members: list[Any], scale: ArrayLike) -> None:
        weights = np.ones(len(members)) if self.weights is None else self.weights
        weights = np.array(weights, np.float64)
        self.members_, self.scale_ = members, np.array(scale, np.float64)
        self.weights_ = weights / weights.sum()
        self.tried_ = None

    def _adopt(self, members: Members, scale: ArrayLike | None = None) -> None:
        """Use fitted members as they are."""
        scale = np.ones(len(members)) if scale is None else np.array(scale, np.float64)
        if scale.shape != (len(members),) or not (np.isfinite(scale) & (scale > 0)).all():
            raise ParameterError(
                f"RankEnsemble.from_fitted: scale={scale!r}. Give one finite number > 0 for each "
                f"of the {len(members)} members."
            )
        for name, model in members:
            if not _is_fitted(model):
                raise ParameterError(
                    f"RankEnsemble: the member {name!r} ({_kind(model)}) is not fitted. Fit it, or "
                    "call fit to fit all members."
                )
            if isinstance(model, RankEnsemble):
                model._use_given()
        models = [model for _, model in members]
        widths = {name: _term(name, model).n_features for name, model in members}
        columns = [getattr(_steps(model)[0], "feature_names_in_", None) for model in models]
        named = {tuple(names) for names in columns if names is not None}
        if len(set(widths.values())) > 1 or len(named) > 1:
            raise ParameterError(
                f"RankEnsemble: the members were fitted to different features: {widths} columns"
                f"{', of different names' if len(named) > 1 else ''}. Fit all to the same ones."
            )
        self.n_features_in_ = next(iter(widths.values()))
        self.n_queries_in_ = max(getattr(_steps(model)[-1], "n_queries_in_", 1) for model in models)
        for names in named:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._keep(models, scale)

    def shap_values(self, X: MatrixLike) -> FloatArray:
        """Compute Shapley values: how much each feature moves a score from the expected value.

        They are the sums of the members' values, times ``weights_ / scale_``, and add up to the
        score minus ``expected_value_``. LambdaMART and RankBoost have them, as well as linear
        members behind a scaler that subtracts the mean. Any other member is refused by name.

        Parameters
        ----------
        X : (n_items, n_features)

        Returns
        -------
        (n_items, n_features) float64
        """
        check_is_fitted(self)
        return self._shapley(self._rows(X, None))[0]

    @property
    def expected_value_(self) -> float:
        """The score from which ``shap_values`` are measured."""
        check_is_fitted(self)
        self._use_given()
        return self._shapley(np.zeros((1, self.n_features_in_)))[1]

    def explain(self, x1: ArrayLike, x0: ArrayLike, n: int | None = None) -> PairExplanation:
        """Explain why row ``x1`` scores higher (or lower) than row ``x0``, by feature.

        The contributions are differences of Shapley values and add up to the difference of scores.
        All members must be linear, or have Shapley values.

        Parameters
        ----------
        x1, x0 : (n_features,) rows, or a data frame or CSR matrix of one row each
        n : int, optional
            The number of largest contributions to show; all by default.
        """
        from rankwright.rankers.boosting import explain
        from rankwright.rankers.boosting.ensemble import PairExplanation

        check_is_fitted(self)
        schema.optional(schema.at_least(0)).check("RankEnsemble.explain", "n", n)
        self._use_given()
        rows = explain.two_rows(self, x1, x0)
        high, low = self._shapley(rows, centered=False)[0]
        scores = self._fitted_scorer().decision_function(rows)
        parts = explain.by_feature(high - low, explain.names_of(self))
        return PairExplanation(float(scores[0] - scores[1]), tuple(parts[:n]))

    @property
    def feature_importances_(self) -> FloatArray:
        """The mean of the members' importances by ``weights_``; all members must have them.

        The importance of a category behind a OneHotDecoder is divided evenly among its columns.
        """
        check_is_fitted(self)
        self._use_given()
        total = np.zeros(self.n_features_in_)
        for weight, (name, model) in zip(self.weights_, self._fitted_members(), strict=True):
            *steps, ranker = _steps(model)
            own = getattr(ranker, "feature_importances_", None)
            numbers = _level_numbers(steps)
            if own is not None and numbers is not None:
                own = numbers.spread(own[None, :])[0]
            if weight and (own is None or len(own) != len(total)):
                raise AttributeError(
                    f"the member {name!r} ({_kind(model)}) of RankEnsemble has no "
                    "feature_importances_. Use permutation_importance, which takes any ranker."
                )
            total += weight * own if weight else 0.0
        return total

    def _shapley(self, X: Matrix, centered: bool = True) -> tuple[FloatArray, float]:
        """Shapley values, and the score they are measured from: any score if not ``centered``."""
        values, expected = np.zeros(X.shape), 0.0
        factors = (self.weights_ / self.scale_).tolist()
        for factor, (name, model) in zip(factors, self._fitted_members(), strict=True):
            if factor:
                own, base = _member_shapley(name, model, X, centered)
                values, expected = values + factor * own, expected + factor * base
        return values, expected

    def _fitted_members(self) -> Members:
        """The fitted members with their names."""
        fitted = getattr(self, "members_", None)
        names = [name for name, _ in self._named()]
        return [] if fitted is None else list(zip(names, fitted, strict=True))

    def _scorer(self) -> Scorer:
        terms = tuple(_term(name, model) for name, model in self._fitted_members())
        return Sum(terms, self.weights_ / self.scale_)

    def __sklearn_is_fitted__(self) -> bool:
        given = _are_members(self.members) and all(_is_fitted(m) for _, m in self._named())
        return hasattr(self, "members_") or given

    def _rows(self, X: MatrixLike, qid: ArrayLike | None) -> Any:
        self._use_given()
        return super()._rows(X, qid)

    def _use_given(self) -> None:
        """Adopt the members given to the constructor, if ``fit`` was not called."""
        if not hasattr(self, "members_"):
            self._check_parameters()
            self._adopt(self._named())

    def _saved_as(self) -> RankEnsemble:
        """What a file or an export holds."""
        return self if hasattr(self, "members_") else self.from_fitted(self.members, self.weights)

    def _loaded(self) -> None:
        if not len(self._named()) == len(self.members_) == len(self.weights_) == len(self.scale_):
            raise ParameterError("RankEnsemble: its members, weights and scales differ in number.")

    def _named(self) -> Members:
        """The members with their names."""
        if all(isinstance(member, tuple) for member in self.members):
            return list(self.members)
        kinds = [_kind(member).lower() for member in self.members]
        total, seen = Counter(kinds), Counter[str]()
        named = []
        for kind, member in zip(kinds, self.members, strict=True):
            seen[kind] += 1
            named.append((kind if total[kind] == 1 else f"{kind}-{seen[kind]}", member))
        return named

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` also the members by name, and their parameters."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and _are_members(self.members):
            for name, member in self._named():
                params[name] = member
                inner = member.get_params(deep=True)
                params |= {f"{name}__{key}": value for key, value in inner.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, members by name, and parameters of members (``name__parameter``)."""
        if "members" in params:
            self.members = params.pop("members")
        named = self._named() if _are_members(self.members) else []
        if any(name in params for name, _ in named):
            self.members = [(name, params.pop(name, member)) for name, member in named]
        super().set_params(**params)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        members = self._named()
        if self.weights is not None and len(self.weights) != len(members):
            raise ParameterError(
                f"RankEnsemble: {len(self.weights)} weights were given for {len(members)} members. "
                "Give one for each member."
            )
        for name, member in members:
            if needs_queries(member):
                raise ParameterError(
                    f"RankEnsemble: the member {name!r} ({_kind(member)}) scales features within a "
                    "query, so that its score depends on other rows. Scale the rows before the "
                    "ensemble instead: RankPipeline([('scale', QueryNormalizer()), ('rank', "
                    "RankEnsemble(...))])."
                )

    def _score_kinds(self) -> frozenset[str]:
        fitted = self._fitted_members() or self._named()
        kinds = frozenset[str]().union(*(kinds_of(member) for _, member in fitted))
        merged = kinds in ({"trees"}, {"linear"}) or len(fitted) == 1
        return kinds if merged else kinds | {"sum"}

    def _rankers(self) -> Iterator[Any]:
        if _are_members(self.members):
            yield from (_steps(member)[-1] for _, member in self._named())

    @property
    def _inputs(self) -> _Inputs:
        """What all members take; each request asks three times, so fitted ones are asked once."""
        made = self._made_before()
        if made is None:
            known = _are_members(self.members)
            return _inputs_of([one for _, one in self._named()] if known else [])
        if "inputs" not in made.derived:
            made.derived["inputs"] = _inputs_of([one for _, one in self._named()])
        found: _Inputs = made.derived["inputs"]
        return found

    @property
    def _abstains(self) -> bool:  # type: ignore[override]
        """NaN is accepted if every member accepts it."""
        return self._inputs.allow_nan

    @property
    def _multiplies(self) -> bool:  # type: ignore[override]
        return any(ranker._multiplies for ranker in self._rankers())

    @property
    def _order_matters(self) -> bool:  # type: ignore[override]
        return any(ranker._order_matters for ranker in self._rankers())

    def _is_pairwise(self) -> bool:
        return self._inputs.pairwise

    def _advice_for_many_rows(self) -> str | None:
        return None  # the members say it

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._inputs.sparse
        return tags


class _Inputs(NamedTuple):
    allow_nan: bool
    sparse: bool
    pairwise: bool


def _inputs_of(members: list[Any]) -> _Inputs:
    """What rows all members take; whether some member takes kernel values."""
    steps = [step for member in members for step in _steps(member)]
    return _Inputs(
        bool(members) and all(map(allows_nan, members)),
        all(get_tags(step).input_tags.sparse for step in steps),
        any(_steps(member)[-1]._is_pairwise() for member in members),
    )


@dataclass(frozen=True, eq=False)
class ForeignMember(Scorer):
    """A member with a step or a scorer that rankwright does not know; files do not hold it."""

    kind: ClassVar[str] = "foreign_member"
    name: str
    model: Any
    n_columns: int
    _width: ClassVar[str] = "n_columns"

    def decision_function(self, X: Matrix) -> FloatArray:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return np.asarray(self.model.decision_function(X), np.float64)


def _term(name: str, model: BaseEstimator) -> Scorer:
    """What scores the rows of a member: one scorer, with the transforms of a pipeline in it."""
    *steps, ranker = _steps(model)
    if not all(map(is_known, steps)):
        return ForeignMember(name, model, int(_steps(model)[0].n_features_in_))
    scorer: Scorer = ranker._fitted_scorer()
    for step in reversed(steps):
        transform: Any = transform_of(step)
        scorer = scorer if transform is None else Mapped(transform, scorer)
    return scorer


def _level_numbers(steps: list[Any]) -> LevelNumbers | None:
    """What a decoder does that is the only step before a ranker."""
    if len(steps) != 1 or not isinstance(steps[0], OneHotDecoder):
        return None
    return steps[0]._transform()


def _member_shapley(
    name: str, model: BaseEstimator, X: Matrix, centered: bool
) -> tuple[FloatArray, float]:
    """Shapley values of a member, and the score they are measured from.

    A linear member has them if its scaler subtracts the mean of the training rows.
    """
    from rankwright.rankers.boosting.explain import Explained

    *steps, ranker = _steps(model)
    numbers = _level_numbers(steps)
    if numbers is not None:
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        behind = RankPipeline([("rank", ranker)])
        values, base = _member_shapley(name, behind, numbers.transform(rows), centered)
        return numbers.spread(values, rows), base
    if all(map(is_scaler, steps)) and "unknown" not in ranker._score_kinds():
        for step in steps:
            transform: Any = transform_of(step)
            X = X if transform is None else transform.transform(X)
        if isinstance(ranker, RankEnsemble):
            return ranker._shapley(X, centered)
        if isinstance(ranker, Explained):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                return ranker.shap_values(X), ranker.expected_value_
        line, *others = Sum((ranker._fitted_scorer(),), np.ones(1)).merged.terms
        subtracts = bool(steps) and getattr(steps[-1], "with_mean", False)
        if isinstance(line, Linear) and not others and (subtracts or not centered):
            rows = X if isinstance(X, np.ndarray) else X.toarray()
            return rows * line.coef, line.intercept
    linear = "linear after a StandardScaler" if centered else "linear"
    raise ParameterError(
        f"RankEnsemble: the member {name!r} ({_kind(model)}) has no Shapley values: those of "
        f"LambdaMART and RankBoost are known, and of members that are {linear}. Use "
        "permutation_importance and partial_dependence, which take any ranker."
    )


def _fitted(model: BaseEstimator, X: Matrix, feedback: Grades) -> Any:
    *steps, ranker = _steps(model)
    for step in steps:
        X = step.fit_transform(X, feedback.y)
    ranker.fit_feedback(X, feedback)
    return model


@contextmanager
def _naming(member: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"This is the member {member!r} of RankEnsemble.")
        raise


def deviation(scores: FloatArray, queries: Queries, weight: FloatArray | None = None) -> float:
    """The standard deviation of scores within queries; 1 if it is nothing but rounding.

    >>> deviation(np.array([1.0, 3.0, 10.0, 12.0]), Queries.from_ids(["a", "a", "b", "b"]))
    1.0
    """
    weight, code = np.ones(len(scores)) if weight is None else weight, queries.codes
    size = float(np.abs(scores[weight > 0]).max(initial=0.0))
    if size == 0.0:
        return 1.0
    relative = np.where(weight > 0, scores / size, 0.0)  # squares neither overflow nor vanish
    mass = np.bincount(code, weight, queries.n_queries)
    mean = np.bincount(code, weight * relative, queries.n_queries) / np.where(mass > 0, mass, 1.0)
    spread = float(np.sqrt(weight @ (relative - mean[code]) ** 2 / weight.sum()))
    return size * spread if spread > STILL else 1.0


def _steps(member: BaseEstimator) -> list[Any]:
    return [step for step in flat_steps(member) if not isinstance(step, str) and step is not None]


def _kind(member: BaseEstimator) -> str:
    return type(member).__name__


def _is_fitted(member: BaseEstimator) -> bool:
    model = _steps(member)[-1]
    if isinstance(model, RankEnsemble):
        return model.__sklearn_is_fitted__()
    return hasattr(model, "n_features_in_")


def allows_nan(member: BaseEstimator) -> bool:
    """Whether it takes NaN: its ranker does, or a step may fill them."""
    *steps, ranker = _steps(member)
    if not all(get_tags(step).input_tags.allow_nan for step in steps):
        return False
    fills = any(not isinstance(step, KEEP_MISSING) for step in steps)
    return fills or bool(get_tags(ranker).input_tags.allow_nan)


def needs_queries(member: BaseEstimator) -> bool:
    """Whether the score of a row depends on other rows of its query."""
    *steps, ranker = _steps(member)
    if isinstance(ranker, RankEnsemble):
        return any(needs_queries(inner) for _, inner in ranker._named())
    return ranker.normalize is not None or any(isinstance(s, QueryNormalizer) for s in steps)


def _is_member(value: object) -> bool:
    if isinstance(value, Pipeline):
        steps = _steps(value)
        return bool(steps) and isinstance(steps[-1], Ranker)
    return isinstance(value, Ranker)


def _is_pair(value: object) -> bool:
    if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)):
        return False
    name, member = value
    reserved = ("members", "weights")
    return bool(name) and "__" not in name and name not in reserved and _is_member(member)


def _are_members(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    if all(map(_is_member, value)):
        return True
    return all(map(_is_pair, value)) and len({name for name, _ in value}) == len(value)


def _are_weights(value: object) -> bool:
    if not isinstance(value, list | tuple | np.ndarray) or np.ndim(value) != 1:
        return False
    test = schema.number(0.0).test
    return all(test(number) for number in value) and any(number > 0 for number in value)
