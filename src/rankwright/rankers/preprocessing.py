"""Transformers for pipelines (scaling, polynomial features), and pipelines that rank."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright._typing import FloatArray, IntArray, MatrixLike
from rankwright.data.columns import Encoding
from rankwright.data.inputs import checked_rows, encoded_words
from rankwright.data.items import Items
from rankwright.data.queries import Queries
from rankwright.exceptions import ParameterError
from rankwright.features.encoder import TableEncoder
from rankwright.features.feature_set import FeatureSet
from rankwright.features.fitted import FittedFeatures
from rankwright.rankers import schema
from rankwright.rankers.early_stopping import rows_and_grades
from rankwright.scoring.base import Transform, row_blocks
from rankwright.scoring.transforms import Affine, Polynomial, QueryScale

ENCODERS = (TableEncoder, FeatureSet)  # steps that turn tables into rows
IDLE = (None, "passthrough")  # steps of a pipeline that change nothing


class RowTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of transformers: checks the rows, records the number and the names of the features."""

    _checks: ClassVar[Mapping[str, Any]]  # how scikit-learn checks the rows
    _transform: Any  # a method of each class: what the fitted object does to rows
    n_features_in_: int

    def fit(self, X: MatrixLike, y: ArrayLike | None = None) -> Self:
        """Record the number and the names of the features."""
        schema.check_parameters(self)
        self._rows(X, reset=True)
        return self

    def _rows(self, X: MatrixLike, *y: Any, **options: Any) -> Any:
        checks = {"dtype": np.float64, "order": "C", **self._checks, **options}
        return validate_data(self, checked_rows(X), *y, **checks)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = "ensure_all_finite" in self._checks
        tags.input_tags.sparse = "accept_sparse" in self._checks
        return tags

    @classmethod
    def learned(cls) -> Mapping[str, schema.Learned]:
        """Every learned attribute, with what it may be."""
        return {
            "n_features_in_": schema.integer(low=1),
            "feature_names_in_": schema.texts("n_features", optional=True),
        }


class QueryNormalizer(OneToOneFeatureMixin, RowTransformer):  # type: ignore[misc]
    """Scale each feature within the row's query.

    A BM25 of 12 may be high for one query and low for another; scaling within queries removes such
    differences. ``transform`` needs ``qid`` as well (without it, all rows are one query). NaN stays
    NaN.

    Parameters
    ----------
    method : "minmax", "standard" or "max", default "minmax"
        ``minmax`` maps the range within a query to 0 .. 1 (LETOR's QueryLevelNorm), ``standard``
        gives mean 0 and standard deviation 1, ``max`` divides by the largest absolute value.
        A feature that is constant in a query becomes 0 there.

    Examples
    --------
    >>> QueryNormalizer().fit_transform([[1.0], [3.0], [50.0], [10.0]], qid=["a", "a", "b", "b"])
    array([[0.],
           [1.],
           [1.],
           [0.]])
    """

    __metadata_request__transform: ClassVar = {"qid": True}

    _checks: ClassVar = {"ensure_all_finite": "allow-nan"}
    _constraints: ClassVar = {"method": schema.one_of("minmax", "standard", "max")}

    def __init__(self, *, method: str = "minmax") -> None:
        self.method = method

    def transform(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """Scale the rows within each query."""
        check_is_fitted(self, "n_features_in_")
        rows = self._rows(X, reset=False)
        scaled: FloatArray = self._transform().transform(rows, Queries.from_ids(qid, len(rows)))
        return scaled

    def fit_transform(
        self, X: MatrixLike, y: ArrayLike | None = None, qid: ArrayLike | None = None
    ) -> FloatArray:
        """Fit, then transform with ``qid`` (the mixin's version would drop it silently)."""
        return self.fit(X, y).transform(X, qid=qid)

    def _transform(self) -> QueryScale:
        return QueryScale(self.n_features_in_, self.method)


class OnlineScaler(OneToOneFeatureMixin, RowTransformer):  # type: ignore[misc]
    """Scale each feature to mean 0 and standard deviation 1, learned from a stream.

    After any number of ``partial_fit`` calls the statistics are those of all rows so far, as
    scikit-learn's StandardScaler has them. In front of an online ranker,
    :func:`rankwright.selection.progressive` updates it with each row before the row is scaled. A
    constant feature is only centered.

    Parameters
    ----------
    with_mean : bool, default True
        Whether to subtract the mean.
    with_std : bool, default True
        Whether to divide by the standard deviation.

    Attributes
    ----------
    ``mean_``, ``var_`` : (n_features,) arrays
    ``n_samples_seen_`` : int

    Examples
    --------
    >>> scaler = OnlineScaler().partial_fit([[1.0, 500.0]]).partial_fit([[3.0, 500.0]])
    >>> scaler.transform([[3.0, 501.0]])
    array([[1., 1.]])
    """

    _checks: ClassVar = {}
    _constraints: ClassVar = {"with_mean": schema.boolean(), "with_std": schema.boolean()}

    mean_: FloatArray
    var_: FloatArray
    n_samples_seen_: int

    def __init__(self, *, with_mean: bool = True, with_std: bool = True) -> None:
        self.with_mean = with_mean
        self.with_std = with_std

    def fit(self, X: MatrixLike, y: ArrayLike | None = None) -> Self:
        """Start from scratch, then learn from these rows."""
        for name in ("mean_", "var_", "n_samples_seen_"):
            self.__dict__.pop(name, None)
        return self.partial_fit(X)

    def partial_fit(self, X: MatrixLike, y: ArrayLike | None = None) -> Self:
        """Update the statistics with more rows."""
        self._update(X)
        return self

    def partial_fit_transform(self, X: MatrixLike, y: ArrayLike | None = None) -> FloatArray:
        """Update the statistics with each row, then scale it: ``partial_fit``, ``transform`` row by
        row."""
        return self._update(X)

    def transform(self, X: MatrixLike) -> FloatArray:
        """Scale rows with the current statistics."""
        check_is_fitted(self, "mean_")
        rows = self._rows(X, reset=False)
        return np.asarray(self._transform().transform(rows, Queries.from_ids(None, len(rows))))

    def _update(self, X: MatrixLike) -> FloatArray:
        schema.check_parameters(self)
        first = not hasattr(self, "mean_")
        rows = self._rows(X, reset=first)
        if first:
            self.mean_, self.var_ = rows[0].copy(), np.zeros(rows.shape[1])
            self.n_samples_seen_ = 0
        scaled: FloatArray = np.empty_like(rows)
        for block in row_blocks(len(rows), rows.shape[1]):
            scaled[block] = self._update_block(rows[block])
        return scaled

    def _update_block(self, rows: FloatArray) -> FloatArray:
        """Sums around the mean so far: the squares of large values would swamp the variance."""
        moved = rows - self.mean_
        seen = self.n_samples_seen_ + np.arange(1.0, len(rows) + 1.0)[:, None]
        sums = np.cumsum(moved, axis=0)
        squares = self.var_ * self.n_samples_seen_ + np.cumsum(moved * moved, axis=0)
        drift = sums / seen
        variance = np.maximum(squares / seen - drift * drift, 0.0)
        means = self.mean_ + drift
        self.n_samples_seen_ += len(rows)
        self.mean_, self.var_ = means[-1], variance[-1]
        moved = rows - means if self.with_mean else rows
        return np.asarray(moved / self._deviation(variance))

    def _deviation(self, variance: FloatArray) -> FloatArray:
        deviation = np.sqrt(variance) if self.with_std else np.ones_like(variance)
        return np.where(deviation > 0, deviation, 1.0)

    def _transform(self) -> Affine:
        shift = self.mean_ if self.with_mean else None
        return Affine(shift=shift, divisor=self._deviation(self.var_))

    @classmethod
    def learned(cls) -> Mapping[str, schema.Learned]:
        """Every learned attribute, with what it may be."""
        return {
            **super().learned(),
            "mean_": schema.floats("n_features"),
            "var_": schema.floats("n_features", low=0.0),
            "n_samples_seen_": schema.integer(low=1),
        }


class PolynomialMap(RowTransformer):
    """Map rows so that their dot product is (gamma a . b + coef0) ** degree.

    In front of a linear ranker it is equivalent to that kernel. There is one column per product of
    at most ``degree`` features: C(n_features + degree, degree) of them.

    Parameters
    ----------
    degree : int, default 2
    gamma : float > 0, default 1.0
    coef0 : float >= 0, default 1.0

    Examples
    --------
    >>> rows = PolynomialMap(degree=2).fit_transform([[1.0, 2.0], [3.0, -1.0]])
    >>> rows.shape, round(float(rows[0] @ rows[1]), 9)  # (1 * 3 - 2 * 1 + 1) ** 2
    ((2, 6), 4.0)
    """

    _checks: ClassVar = {"accept_sparse": "csr"}
    _constraints: ClassVar = {
        "degree": schema.at_least(1),
        "gamma": schema.positive(),
        "coef0": schema.number(0.0),
    }

    def __init__(self, *, degree: int = 2, gamma: float = 1.0, coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def transform(self, X: MatrixLike) -> FloatArray:
        """Return the mapped rows as a dense array."""
        check_is_fitted(self, "n_features_in_")
        return self._transform().transform(self._rows(X, reset=False))

    def _transform(self) -> Polynomial:
        gamma, coef0 = float(self.gamma), float(self.coef0)
        return Polynomial(self.n_features_in_, int(self.degree), gamma, coef0)


class RankPipeline(Pipeline):  # type: ignore[misc]
    """A pipeline of scikit-learn that ends in a ranker, and can be called like one.

    ``qid`` goes to every step that requests it, without ``enable_metadata_routing``, and there is
    ``rank``. Words of a data frame are encoded as they were for training (``column=word``).
    :class:`rankwright.AutoRanker` puts rankers that need scaled features into a RankPipeline.

    Parameters
    ----------
    steps : list of (name, estimator), as of ``Pipeline``; the last one is a ranker

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from rankwright.rankers import RankSVM
    >>> model = RankPipeline([("scale", StandardScaler()), ("rank", RankSVM())])
    >>> model = model.fit([[1.0], [5.0], [2.0], [9.0]], [0, 1, 0, 1], qid=["a", "a", "b", "b"])
    >>> model.rank([[3.0], [4.0], [7.0]], qid=["a", "a", "b"])
    array([2, 1, 1])
    """

    def fit(self, X: MatrixLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Fit the steps; ``qid`` and ``sample_weight`` go to those that request them.

        ``documents``, ``log`` and ``up_to`` go to a FeatureSet. ``eval_set`` and ``eval_qid``, by
        which the ranker stops, pass through the other steps, which learn nothing from them.
        """
        rows = checked_rows(X)  # before a step of scikit-learn reads beyond a damaged matrix
        eval_set, eval_qid = params.pop("eval_set", None), params.pop("eval_qid", None)
        if eval_set is None and eval_qid is not None:
            fault = "RankPipeline.fit: eval_qid was given without eval_set."
            raise ParameterError(fault, parameter="eval_qid")
        with config_context(enable_metadata_routing=True):
            if eval_set is None:
                super().fit(rows, y, **params)
            else:
                self._fit_watched(rows, y, params, eval_set, eval_qid)
        if (encoding := encoding_of(self)) is not None:
            name_features(self, encoding.feature_names)
        return self

    def _fit_watched(
        self, X: Any, y: ArrayLike | None, params: dict[str, Any], eval_set: Any, eval_qid: Any
    ) -> None:
        """Fit the steps one after the other, and let the ranker stop by other rows."""
        if self.memory is not None:
            raise ParameterError(
                "RankPipeline(memory=...): with an eval_set no step is cached. Omit memory.",
                parameter="memory",
            )
        rows, grades = rows_and_grades(eval_set, type(self).__name__)
        rows = checked_rows(rows)
        routed = process_routing(self, "fit", **params)
        *steps, (last, ranker) = self.steps
        for name, step in steps:
            if step in IDLE:
                continue
            if hasattr(step, "fit_transform"):
                X = step.fit_transform(X, y, **routed[name]["fit_transform"])
            else:
                X = step.fit(X, y, **routed[name]["fit"])
                X = step.transform(X, **routed[name]["transform"])
            of_queries = get_routing_for_object(step).consumes("transform", ["qid"])
            rows = step.transform(rows, **({"qid": eval_qid} if of_queries else {}))
        ranker.fit(X, y, **routed[last]["fit"], eval_set=(rows, grades), eval_qid=eval_qid)

    def _saved_as(self) -> RankPipeline:
        """The pipeline with the ranker that an AutoRanker at its end has chosen."""
        name, last = self.steps[-1]
        if not hasattr(last, "_saved_as"):
            return self
        return RankPipeline([*self.steps[:-1], (name, last._saved_as())])

    def decision_function(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """The score of each row; higher comes first."""
        return np.asarray(self._routed("decision_function", X, qid=qid))

    def predict(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """In the terms of ``y``: the grade for ordinal rankers, the score for the others."""
        return np.asarray(self._routed("predict", X, qid=qid))

    def rank(self, X: MatrixLike, qid: ArrayLike | None = None) -> IntArray:
        """The position of each row in its query, 1 for the first; equal scores keep their order."""
        scores = self.decision_function(X, qid)
        return Queries.from_ids(qid, len(scores)).places(scores)

    def score(self, X: MatrixLike, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """Pairwise accuracy, as the ranker's own ``score`` gives it."""
        return float(self._routed("score", X, y, qid=qid))

    def _routed(self, method: str, X: MatrixLike, *y: Any, qid: ArrayLike | None) -> Any:
        first = self.steps[0][1]
        names = getattr(first, "feature_names_in_", None)
        X = checked_rows(X)
        features = encoded_words(X, names) if encoding_of(self) is None else None
        with config_context(enable_metadata_routing=True), warnings.catch_warnings():
            if features is not None:  # by name, in the order of the names
                X = features
            if not hasattr(X, "columns"):  # the features are in the order of training
                warnings.filterwarnings("ignore", "X does not have valid feature names")
            return getattr(super(), method)(X, *y, **({} if qid is None else {"qid": qid}))


def _standard(scaler: StandardScaler) -> Transform | None:
    shift = scaler.mean_ if scaler.with_mean else None
    divisor = scaler.scale_ if scaler.with_std else None
    return None if shift is divisor is None else Affine(shift=shift, divisor=divisor)


def _min_max(scaler: MinMaxScaler) -> Transform:
    low, high = map(float, scaler.feature_range) if scaler.clip else (None, None)
    return Affine(factor=scaler.scale_, offset=scaler.min_, low=low, high=high)


def _max_abs(scaler: MaxAbsScaler) -> Transform:
    low, high = (-1.0, 1.0) if getattr(scaler, "clip", False) else (None, None)
    return Affine(divisor=scaler.scale_, low=low, high=high)


_SCALERS: dict[type, Callable[[Any], Transform | None]] = {
    StandardScaler: _standard,
    MinMaxScaler: _min_max,
    MaxAbsScaler: _max_abs,
}


def is_scaler(step: BaseEstimator) -> bool:
    """Whether a step shifts, scales and at most clips each column."""
    return type(step) in _SCALERS or isinstance(step, OnlineScaler)


def is_known(step: BaseEstimator) -> bool:
    """Whether :func:`transform_of` says what a step does to rows."""
    own = isinstance(step, RowTransformer) and hasattr(step, "_transform")
    return own or type(step) in _SCALERS


def transform_of(step: BaseEstimator) -> Transform | None:
    """What a fitted transformer of rankwright, or a scaler, does to rows; None if nothing."""
    if isinstance(step, RowTransformer):
        own: Transform | None = step._transform()
        return own
    return next(make(step) for kind, make in _SCALERS.items() if isinstance(step, kind))


def flat_steps(model: BaseEstimator) -> list[Any]:
    """The model itself, or the steps of a pipeline and of pipelines in it, without an encoder.

    A TableEncoder or a FeatureSet turns tables into rows before anything scores them: see
    :func:`encoder_of`.
    """
    if isinstance(model, ENCODERS):
        return []
    if not hasattr(model, "steps"):
        return [model]
    return [inner for _, step in model.steps for inner in flat_steps(step)]


def ranker_of(model: BaseEstimator) -> Any:
    """The ranker at the end of a pipeline, or the model itself."""
    return flat_steps(model)[-1]


def encoder_of(model: BaseEstimator) -> TableEncoder | FeatureSet | None:
    """What turns tables into rows in front of a pipeline, or None."""
    first = model.steps[0][1] if getattr(model, "steps", None) else None
    return first if isinstance(first, ENCODERS) else None


def encoding_of(model: BaseEstimator) -> Encoding | FittedFeatures | None:
    """How a model turns tables into rows: by its first step, or by itself; None: not at all."""
    encoding = getattr(encoder_of(model) or first_estimator(model), "encoding_", None)
    return encoding if isinstance(encoding, Encoding | FittedFeatures) else None


def first_estimator(model: BaseEstimator) -> Any:
    """The estimator that sees the rows first; None without one."""
    return next((step for step in flat_steps(model) if step not in IDLE), None)


def without_encoder(model: BaseEstimator) -> Any:
    """What ranks the rows behind an encoder; a model without one as it is."""
    return model if encoder_of(model) is None else model.steps[-1][1]


def with_encoding(model: BaseEstimator, items: Items) -> Any:
    """A model that was fitted to the rows of items, as a pipeline that takes tables like theirs.

    The model itself, with the names of its features, if the items have nothing but numbers.
    """
    name_features(model, items.feature_names)
    if items.encoding is None:
        return model
    if isinstance(items.encoding, FittedFeatures):
        return RankPipeline([("features", FeatureSet.of(items.encoding)), ("rank", model)])
    assert isinstance(items.encoding, Encoding)
    encoder = TableEncoder.of(items.encoding, items.read)
    return RankPipeline([("encode", encoder), ("rank", model)])


def name_features(model: BaseEstimator, names: Sequence[str] | None) -> None:
    """Put the names of the features into the model, so that columns are found by name."""
    first = first_estimator(model)
    if names is not None and first is not None:
        first.feature_names_in_ = np.array(names, dtype=object)
        if hasattr(first, "best_estimator_"):
            name_features(first.best_estimator_, names)
