"""VSIM: features weighted by their similarity with the grades; as a ranker, or as a feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, Matrix, MatrixLike
from rankwright.data.queries import Queries
from rankwright.exceptions import ParameterError
from rankwright.feedback.base import Feedback, Grades
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.checks import used_columns
from rankwright.rankers.preprocessing import RowTransformer
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import Deviations, WithDeviations, dense_rows


def _is_row_of_numbers(value: object) -> bool:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return array.ndim == 1 and bool(np.isfinite(array).all())


NUMBERS = schema.optional(schema.Constraint("one finite number per feature", _is_row_of_numbers))
COUNTS = schema.optional(
    schema.Constraint(
        "one number >= 0 per feature",
        lambda value: _is_row_of_numbers(value) and min(value, default=0) >= 0,
    )
)
ABSENT = schema.one_of("zero", "abstain")
COLUMNS = 256  # made dense at a time
_CONSTRAINTS = {
    "over": schema.one_of("all", "rated"),
    "feature_mean": NUMBERS,
    "feature_norm": NUMBERS,
}


def per_feature(
    owner: BaseEstimator, name: str, n_features: int, otherwise: FloatArray
) -> FloatArray:
    """A parameter with one number per feature, or ``otherwise`` if it is None."""
    value = getattr(owner, name)
    if value is None:
        return otherwise
    array = np.array(value, dtype=np.float64)
    if len(array) != n_features:
        raise ParameterError(
            f"{type(owner).__name__}({name}=...): {name} has {len(array)} numbers and X has "
            f"{n_features} features. Give one number per feature, or None."
        )
    return array


def column_blocks(X: Matrix, absent_abstains: bool) -> Iterator[tuple[Any, FloatArray]]:
    """A matrix in dense blocks of columns: (columns, their values).

    The empty columns of a wide sparse matrix come first, with a block of one column for all.
    """
    sparse, used = X.tocsc() if hasattr(X, "tocsc") else None, used_columns(X)
    if sparse is not None and used is not None:
        empty = np.setdiff1d(np.arange(X.shape[1]), used, assume_unique=True)
        yield empty, dense_rows(sparse[:, empty[:1]], absent_abstains)
    n_columns = X.shape[1] if used is None else len(used)
    for start in range(0, n_columns, COLUMNS):
        columns: Any = slice(start, min(start + COLUMNS, n_columns))
        columns = columns if used is None else used[columns]
        block = X[:, columns] if sparse is None else dense_rows(sparse[:, columns], absent_abstains)
        yield columns, np.ascontiguousarray(block)


def averages(block: FloatArray, weight: FloatArray) -> FloatArray:
    """The weighted mean of each column over the rows where it has a value; 0 without any.

    >>> averages(np.array([[1.0, np.nan], [3.0, np.nan]]), np.ones(2))
    array([2., 0.])
    """
    known = ~np.isnan(block)
    mass = weight @ known
    # Means before sums: a sum of large values could overflow where their mean does not.
    share = np.where(known, block, 0.0) * weight[:, None] / np.where(mass > 0, mass, 1.0)
    return np.asarray(share.sum(axis=0))


class VSIM(Ranker):
    r"""Vector similarity: weight each feature by its agreement with the grades.

    For collaborative filtering: rows are items, each feature has the ratings of another user (NaN:
    not rated), and the grades are the ratings of the target user. The weight w of a feature is its
    cosine similarity with the grades, and the score sums the weighted deviations of the features
    from their means, :math:`\bar y + \alpha \sum_i w_i (x_i - \bar x_i)`. Queries matter only by
    their weight.

    Parameters
    ----------
    unseen : "skip", "zero" or 0, default "skip"
        The contribution of missing values. ``zero`` (or 0) is the formula as printed: the
        sum runs over all features, and ratings are a sparse vector with zeros where a film was not
        rated, so each user who did not rate a film lowers its score by that user's mean. ``skip``:
        no contribution. ``skip`` is the default because it orders films better: on MovieLens 1M
        with 1,000 features it misorders 32 % of the pairs, ``zero`` 37 % (``python -m experiments
        rankboost/figure_5``). The weights are the same.
    over : "all" or "rated", default "all"
        ``all``: :math:`\sum |w| = 1`, as printed, so a row with many values gets further from the
        mean. ``rated``: that sum runs over the features that have a value in the row;
        only with ``unseen="skip"``.
    feature_mean, feature_norm : (n_features,) arrays or None
        Mean and norm of each feature, if known from more than the training rows (all the films a
        user rated). None: those of the training rows.
    absent : "zero" or "abstain", default "zero"
        How to treat entries that a CSR matrix does not store: as 0, or as missing.

    Attributes
    ----------
    coef_ : (n_features,) array
        The weights; their absolute values add up to 1.
    mean_ : (n_features,) array
        The mean of each feature.
    intercept_ : float
        The mean grade.

    References
    ----------
    J. Breese, D. Heckerman, C. Kadie: Empirical analysis of predictive algorithms for collaborative
    filtering. UAI 1998. As competitor of RankBoost: Freund et al., JMLR 4, 2003, section 6.2.3.

    Examples
    --------
    >>> nan = float("nan")
    >>> others = [[5, 1, nan], [4, 2, 4], [1, 5, 3], [nan, 4, 2]]
    >>> VSIM().fit(others, [5, 4, 2, 1]).rank(others)
    array([2, 1, 4, 3])
    """

    _family: ClassVar = "neighbors"
    _scores_as: ClassVar = "linear"
    _constraints: ClassVar = {
        **_CONSTRAINTS,
        "unseen": schema.one_of("skip", "zero", 0),
        "absent": ABSENT,
    }
    _learned: ClassVar = {
        "coef_": schema.floats("n_features", low=-1.0, high=1.0),
        "mean_": schema.floats("n_features"),
        "intercept_": schema.real(),
    }
    _takes: ClassVar = (Grades,)
    _abstains: ClassVar = True

    def __init__(
        self,
        *,
        unseen: str | int = "skip",
        over: str = "all",
        feature_mean: ArrayLike | None = None,
        feature_norm: ArrayLike | None = None,
        absent: str = "zero",
    ) -> None:
        self.unseen = unseen
        self.over = over
        self.feature_mean = feature_mean
        self.feature_norm = feature_norm
        self.absent = absent

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.unseen != "skip" and self.over == "rated":
            raise ParameterError(
                "VSIM(unseen='zero', over='rated'): with zeros for unseen rows no value is "
                "missing, so over='rated' has no effect. Use over='all', "
                "or unseen='skip'.",
                parameter="unseen",
            )

    def _fit(self, X: Matrix, feedback: Feedback) -> None:
        assert isinstance(feedback, Grades)
        weight = feedback.row_weight
        product, norm, mean = similarities(X, feedback.y, weight, self.absent == "abstain")
        self.mean_ = per_feature(self, "feature_mean", X.shape[1], mean)
        norm = per_feature(self, "feature_norm", X.shape[1], norm)
        # The length of y is a common factor of all weights: dividing by the sum of |w| removes it.
        cosine = np.divide(product, norm, out=np.zeros(len(norm)), where=norm > 0)
        cosine = cosine / (float(np.abs(cosine).max(initial=0.0)) or 1.0)  # sums cannot overflow
        self.coef_ = cosine / (float(np.abs(cosine).sum()) or 1.0)
        mass = float(weight.sum())
        self.intercept_ = float(feedback.y @ weight) / mass if mass > 0 else 0.0

    def _score_kinds(self) -> frozenset[str]:
        rated = self.over == "rated" and self.unseen == "skip"
        return frozenset({"deviations" if rated else "linear"})

    def _scorer(self) -> Scorer:
        rated, abstains = self.over == "rated", self.absent == "abstain"
        if self.unseen != "skip":  # each value, or 0, minus the mean: deviations from 0, and a sum
            offset = self.intercept_ - float(self.mean_ @ self.coef_)
            return Deviations(np.zeros_like(self.mean_), self.coef_, offset, False, abstains)
        return Deviations(self.mean_, self.coef_, self.intercept_, rated, abstains)


def similarities(
    X: Matrix, y: FloatArray, weight: FloatArray, absent_abstains: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each feature: its product with y, its length and its mean, over rows with a value."""
    product, norm, mean = np.zeros((3, X.shape[1]))
    for columns, block in column_blocks(X, absent_abstains):
        known = np.where(np.isnan(block), 0.0, block)
        product[columns] = (weight * y) @ known
        # Scaled, so that squares neither overflow nor vanish.
        scale = np.abs(known).max(axis=0, initial=0.0)
        unit = known / np.where(scale > 0, scale, 1.0)
        norm[columns] = scale * np.sqrt(weight @ unit**2)
        mean[columns] = averages(block, weight)
    return product, norm, mean


class VSIMFeature(RowTransformer):
    """Append the score of :class:`VSIM` as the last column.

    As its authors propose, use it in front of a :class:`RankBoost` in a pipeline: the result relies
    on correlation when there are few grades, and on boosting when there are more. ``fit_transform``
    gives each training row the score that VSIM learns from the *other* rows (leave one out,
    exactly, at the cost of one matrix product), so that the new column does not overfit.
    ``transform`` uses all training rows.

    Parameters
    ----------
    over, feature_mean, feature_norm : as in VSIM

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from rankwright import RankBoost
    >>> others = [[5, 1], [4, 2], [1, 5], [2, 4]]
    >>> model = make_pipeline(VSIMFeature(), RankBoost(n_estimators=5)).fit(others, [4, 3, 1, 2])
    >>> model[:-1].transform(others).shape
    (4, 3)
    """

    _checks: ClassVar = {"ensure_all_finite": "allow-nan"}
    _constraints: ClassVar = _CONSTRAINTS

    def __init__(
        self,
        *,
        over: str = "rated",
        feature_mean: ArrayLike | None = None,
        feature_norm: ArrayLike | None = None,
    ) -> None:
        self.over = over
        self.feature_mean = feature_mean
        self.feature_norm = feature_norm

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:  # type: ignore[override]
        """Fit the weights of the features."""
        self._learn(X, y)
        return self

    def fit_transform(self, X: MatrixLike, y: ArrayLike) -> FloatArray:
        """Return the rows with the leave-one-out scores of VSIM as the last column."""
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

    def transform(self, X: MatrixLike) -> FloatArray:
        """Return the rows with the scores of VSIM as the last column."""
        check_is_fitted(self)
        values = self._rows(X, reset=False)
        out: FloatArray = self._transform().transform(values, Queries.from_ids(None, len(values)))
        return out

    def _learn(self, X: MatrixLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        schema.check_parameters(self)
        values, grades = self._rows(X, y, reset=True, y_numeric=True)
        grades = np.asarray(grades, dtype=np.float64)
        filled = np.where(np.isnan(values), 0.0, values)
        mean, length = averages(values, np.ones(len(values))), np.sqrt((filled**2).sum(axis=0))
        self.mean_ = per_feature(self, "feature_mean", values.shape[1], mean)
        self.norm_ = per_feature(self, "feature_norm", values.shape[1], length)
        self.product_ = grades @ filled
        return values, grades

    def _transform(self) -> WithDeviations:
        inverse = np.divide(1.0, self.norm_, out=np.zeros(len(self.norm_)), where=self.norm_ > 0)
        weight = self.product_ * inverse
        coef = weight / (float(np.abs(weight).sum()) or 1.0)
        return WithDeviations(Deviations(self.mean_, coef, 0.0, self.over == "rated"))

    @classmethod
    def learned(cls) -> Mapping[str, schema.Learned]:
        """Return the schema of every fitted attribute."""
        return {
            **super().learned(),
            "mean_": schema.floats("n_features"),
            "norm_": schema.floats("n_features", low=0.0),
            "product_": schema.floats("n_features"),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
