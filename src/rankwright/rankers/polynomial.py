"""The polynomial kernel as features, for rankers that have no kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright.rankers import rules
from rankwright.rankers.learned import Learned, integer, texts
from rankwright.scoring import Polynomial

__all__ = ["PolynomialMap"]


class PolynomialMap(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Map rows so that their product is (gamma a . b + coef0) ** degree.

    Before a linear ranker in a pipeline it makes the ranker one with that kernel, exactly. It
    learns nothing but the number of features. One column per product of at most ``degree``
    features comes out: C(n_features + degree, degree) of them.

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

    _rules: ClassVar = {
        "degree": rules.at_least(1),
        "gamma": rules.positive(),
        "coef0": rules.number(0.0),
    }

    def __init__(self, *, degree: int = 2, gamma: float = 1.0, coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the number and the names of the features."""
        for name, rule in self._rules.items():
            rule.check(type(self).__name__, name, getattr(self, name))
        validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The mapped rows, dense."""
        check_is_fitted(self, "n_features_in_")
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._transform().transform(rows)

    def _transform(self) -> Polynomial:
        return Polynomial(
            self.n_features_in_, int(self.degree), float(self.gamma), float(self.coef0)
        )

    @classmethod
    def learned(cls) -> Mapping[str, Learned]:
        """Every learned attribute, with what it may be."""
        return {
            "n_features_in_": integer(low=1),
            "feature_names_in_": texts("n_features", optional=True),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
