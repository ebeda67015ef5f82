"""VSIM as one more feature, so that boosting can choose it as a weak ranking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright.data.queries import Queries
from rankwright.rankers import rules
from rankwright.rankers.learned import Learned, floats, integer, texts
from rankwright.rankers.memory.columns import a_row_of_numbers, averages, per_feature
from rankwright.scoring.deviations import Deviations, WithDeviations

__all__ = ["VSIMFeature"]

FloatArray = NDArray[np.float64]


class VSIMFeature(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Add the score of :class:`VSIM` to the features, as the last column.

    The authors of RankBoost propose it: "RankBoost can use VSIM as one of the possible weak ranking
    functions". In front of a :class:`RankBoost` in a pipeline, the result leans on plain
    correlation where there are few grades, and on boosting as they grow.

    ``fit_transform`` gives each training row the score that VSIM learns from the *other* rows
    (leave one out, exactly, at the cost of one matrix product); otherwise the new column would look
    better than it is. ``transform`` uses all training rows.

    Parameters
    ----------
    over, feature_mean, feature_norm : as in VSIM

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from rankwright import RankBoost
    >>> others = [[5, 1], [4, 2], [1, 5], [2, 4]]
    >>> model = make_pipeline(VSIMFeature(), RankBoost(n_rounds=5)).fit(others, [4, 3, 1, 2])
    >>> model[:-1].transform(others).shape
    (4, 3)
    """

    _rules: ClassVar = {
        "over": rules.one_of("all", "rated"),
        "feature_mean": a_row_of_numbers(),
        "feature_norm": a_row_of_numbers(),
    }

    def __init__(
        self, *, over: str = "rated", feature_mean: Any = None, feature_norm: Any = None
    ) -> None:
        self.over = over
        self.feature_mean = feature_mean
        self.feature_norm = feature_norm

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn the weights of the features."""
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: ArrayLike) -> FloatArray:
        """The rows with the leave-one-out scores of VSIM beside them."""
        values, grades = self._learn(X, y)
        filled = np.where(np.isnan(values), 0.0, values)
        known = (~np.isnan(values)).astype(np.float64)
        deviation = (filled - self.mean_) * known
        # Without row j the product of feature i with the grades lacks y_j x_ij.
        inverse = np.divide(1.0, self.norm_, out=np.zeros(len(self.norm_)), where=self.norm_ > 0)
        weight = (self.product_ - grades[:, None] * filled) * inverse
        mass = np.abs(weight)
        mass = (mass * known).sum(axis=1) if self.over == "rated" else mass.sum(axis=1)
        total = (weight * deviation).sum(axis=1)
        score = np.divide(total, mass, out=np.zeros(len(mass)), where=mass > 0)
        return np.column_stack([values, score])

    def transform(self, X: Any) -> FloatArray:
        """The rows with the scores of VSIM beside them."""
        check_is_fitted(self)
        values = self._checked(X, reset=False)
        out: FloatArray = self._transform().transform(values, Queries.from_ids(None, len(values)))
        return out

    def _learn(self, X: Any, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        for name, rule in self._rules.items():
            rule.check(type(self).__name__, name, getattr(self, name))
        options = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"}
        values, grades = validate_data(self, X, y, y_numeric=True, **options)
        grades = np.asarray(grades, dtype=np.float64)
        filled = np.where(np.isnan(values), 0.0, values)
        n_features = values.shape[1]
        mean = averages(values, np.ones(len(values)))
        self.mean_ = per_feature(self, "feature_mean", n_features, mean)
        length = np.sqrt((filled**2).sum(axis=0))
        self.norm_ = per_feature(self, "feature_norm", n_features, length)
        self.product_ = grades @ filled
        return values, grades

    def _checked(self, X: Any, *, reset: bool) -> FloatArray:
        values: FloatArray = validate_data(
            self, X, dtype=np.float64, order="C", ensure_all_finite="allow-nan", reset=reset
        )
        return values

    def _transform(self) -> WithDeviations:
        inverse = np.divide(1.0, self.norm_, out=np.zeros(len(self.norm_)), where=self.norm_ > 0)
        weight = self.product_ * inverse
        total = float(np.abs(weight).sum())
        coef = weight / (total if total > 0 else 1.0)
        return WithDeviations(Deviations(self.mean_, coef, 0.0, self.over == "rated"))

    @classmethod
    def learned(cls) -> Mapping[str, Learned]:
        """Every learned attribute, with what it may be."""
        return {
            "n_features_in_": integer(low=1),
            "feature_names_in_": texts("n_features", optional=True),
            "mean_": floats("n_features"),
            "norm_": floats("n_features", low=0.0),
            "product_": floats("n_features"),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags
