"""Transformers for pipelines: features scaled by query, products of features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.data.sparse_matrices import checked_rows
from rankwright.rankers import schema
from rankwright.scoring.transforms import Polynomial, QueryScale


class _RowTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that learns nothing but the number and the names of the features."""

    _checks: ClassVar[Mapping[str, Any]]  # how scikit-learn checks the rows
    n_features_in_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Record the number and the names of the features."""
        schema.check_parameters(self)
        self._rows(X, reset=True)
        return self

    def _rows(self, X: Any, *, reset: bool) -> Any:
        checks = {"dtype": np.float64, "order": "C", **self._checks}
        return validate_data(self, checked_rows(X), reset=reset, **checks)

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


class QueryNormalizer(OneToOneFeatureMixin, _RowTransformer):  # type: ignore[misc]
    """Scale every feature inside the row's query.

    A BM25 of 12 may be high for one query and low for another; scaling by query removes that.
    Each query is scaled by itself, so ``transform`` needs ``qid`` as well (without it, all rows
    are one query). NaN (abstention) stays NaN.

    Parameters
    ----------
    method : "minmax", "standard" or "max", default "minmax"
        ``minmax`` maps the range inside a query to 0 .. 1 (LETOR's QueryLevelNorm), ``standard``
        gives mean 0 and deviation 1, ``max`` divides by the largest absolute value. A feature that
        is constant in a query becomes 0 there.

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

    def transform(self, X: Any, qid: Any = None) -> FloatArray:
        """Scale the rows of each query by themselves."""
        check_is_fitted(self, "n_features_in_")
        rows = self._rows(X, reset=False)
        scaled: FloatArray = self._transform().transform(rows, Queries.from_ids(qid, len(rows)))
        return scaled

    def fit_transform(self, X: Any, y: Any = None, qid: Any = None) -> FloatArray:
        """Fit, then transform with ``qid`` (the mixin's version would drop it silently)."""
        return self.fit(X, y).transform(X, qid=qid)

    def _transform(self) -> QueryScale:
        return QueryScale(self.n_features_in_, self.method)


class PolynomialMap(_RowTransformer):
    """Map rows so that their product is (gamma a . b + coef0) ** degree.

    In front of a linear ranker it gives exactly a ranker with that kernel. There is one column per
    product of at most ``degree`` features: C(n_features + degree, degree) of them.

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

    def transform(self, X: Any) -> FloatArray:
        """The mapped rows, dense."""
        check_is_fitted(self, "n_features_in_")
        return self._transform().transform(self._rows(X, reset=False))

    def _transform(self) -> Polynomial:
        gamma, coef0 = float(self.gamma), float(self.coef0)
        return Polynomial(self.n_features_in_, int(self.degree), gamma, coef0)
