"""Online ordinal probit regression: a posterior over linear models with thresholds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, MatrixLike, RandomState
from rankwright.data.vocabulary import read_only
from rankwright.rankers import schema
from rankwright.rankers.checks import MANY_COLUMNS
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.kernels import dense
from rankwright.rankers.online.base import (
    PASS_CONSTRAINTS,
    STREAM,
    Examples,
    ThresholdRanker,
    kernels,
)
from rankwright.rankers.schema import floats, integer, real
from rankwright.runtime import exclusive
from rankwright.scoring.base import row_blocks
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import OrdinalProbit, grade_probabilities, normal_cdf
from rankwright.scoring.transforms import Polynomial

MOST_FULL, MOST_LOW_RANK = 300, 4096  # weights up to which "auto" takes these forms


class BayesianPRank(ThresholdRanker):
    r"""Bayesian PRank: a normal posterior over weights and thresholds.

    Not in the papers. The model is PRank's: a row lies above threshold r when
    :math:`w \cdot x - c_r` plus standard normal noise is positive. Instead of one model it keeps a
    normal distribution over all models :math:`v = (w, c)` with mean m and covariance S. Each row
    updates it with the answer :math:`l_r = \pm 1` of each threshold; with
    :math:`z_r = (x, -e_r)`:

    .. math:: t = \frac{l_r\, z_r \cdot m}{\sqrt{1 + z_r^T S z_r}}, \quad
              \rho = \frac{\phi(t)}{\Phi(t)}, \quad
              m \leftarrow m + \frac{l_r\, \rho}{\sqrt{1 + z_r^T S z_r}}\, S z_r, \quad
              S \leftarrow S - \frac{\rho (\rho + t)}{1 + z_r^T S z_r}\, S z_r z_r^T S .

    This is the normal distribution with the mean and covariance of the exact posterior after that
    answer (assumed density filtering). The model learns from every row, not only from mistakes, and
    well-determined directions change little. There is no learning rate to tune, and one pass is
    enough: on the
    papers' synthetic data the rank loss after 5,000 rows is 1 to 3 % above the Bayes loss; PRank
    needs averaging to come within 20 % of it.

    ``predict`` returns the median grade, which has the least expected rank loss, ``predict_proba``
    the probability of each grade under the posterior. Model files opened by ``load_scorer`` keep
    the mean model only, which has no probabilities.

    Parameters
    ----------
    degree : int, default 1
        Learn from all products of up to ``degree`` features (the feature map of the polynomial
        kernel ``(a . b + 1) ** degree``).
    covariance : "auto", "full", "low_rank" or "diagonal", default "auto"
        "full" costs O(weights^2) per row, "low_rank" O(n_directions * weights), "diagonal" as much
        as PRank. "diagonal" ignores correlations of features; "low_rank" keeps the
        directions about which most has been learned. "auto" is "full" up to 300 weights,
        "low_rank" up to 4096, then "diagonal".
    n_directions : int, default 16
        For "low_rank".
    prior : float > 0, default 30
        The prior variance, in units of the noise, of each threshold and of the score of a row as
        long as the first one (other than zero). The default was chosen on nine kinds of streams
        other than the papers' data, by the test-then-train loss; there 30 to 300 were at most
        6.1 % above the best (``experiments/oap_bpm/table_prior.py``).
    max_iter, shuffle, random_state, early_stopping : see PRank

    Attributes
    ----------
    coef_ : (n_weights,) array
        The mean weights (of the mapped features for ``degree > 1``).
    thresholds_ : (n_grades - 1,) array, ascending
        The mean thresholds, sorted.
    mean_ : (n_weights + n_grades - 1,) array
    covariance_ : square array of the same size, for "full"
    variance_ : (n_weights + n_grades - 1,) array, for "low_rank" and "diagonal"
    factors_ : (2 n_directions + 1, n_weights + n_grades - 1) array, for "low_rank"
        With D the roots of ``variance_``, the covariance is D (I - F' F) D. When all rows are
        used, they are compressed to ``n_directions``.
    n_factors_ : int
        The rows of ``factors_`` in use.
    scale_ : float
        The factor that fits the prior of the weights to the scale of the features.
    classes_, n_mistakes_, n_seen_, validation_, best_iteration_ : see PRank

    References
    ----------
    The filter is that of Opper (1998) and Minka (2001), applied to the thresholds of Crammer and
    Singer (2001).

    Examples
    --------
    >>> from rankwright.data.datasets.synthetic import make_ordinal
    >>> train, test = make_ordinal(5000, random_state=0), make_ordinal(1000, random_state=1)
    >>> model = BayesianPRank(degree=2).fit(train.X, train.y)
    >>> loss = np.abs(model.predict(test.X) - test.y).mean()
    >>> bool(loss < 1.05 * np.abs(test.bayes_prediction - test.y).mean())
    True
    """

    _constraints: ClassVar = {
        "degree": schema.at_least(1),
        "covariance": schema.one_of("auto", "full", "low_rank", "diagonal"),
        "n_directions": schema.at_least(1),
        "prior": schema.positive(),
        **PASS_CONSTRAINTS,
    }
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_weights"),
        "thresholds_": floats("n_thresholds"),
        "mean_": floats("n_parameters"),
        "covariance_": floats("n_parameters", "n_parameters", optional=True),
        "variance_": floats("n_parameters", low=0.0, optional=True),
        "factors_": floats("n_places", "n_parameters", optional=True),
        "n_factors_": integer(low=0, high="n_places", optional=True),
        "scale_": real(low=0.0),
    }

    mean_: FloatArray

    def __init__(
        self,
        *,
        degree: int = 1,
        covariance: str = "auto",
        n_directions: int = 16,
        prior: float = 30.0,
        max_iter: int = 1,
        shuffle: bool = False,
        random_state: RandomState = None,
        early_stopping: EarlyStopping | bool | int | None = None,
    ) -> None:
        self.degree = degree
        self.covariance = covariance
        self.n_directions = n_directions
        self.prior = prior
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.early_stopping = early_stopping

    def _score_kinds(self) -> frozenset[str]:
        return frozenset({"linear", "mapped"}) if self.degree > 1 else super()._score_kinds()

    def _map(self, n_features: int) -> Polynomial | None:
        return Polynomial(n_features, int(self.degree)) if self.degree > 1 else None

    def _ordinal(self) -> OrdinalProbit:
        return OrdinalProbit(Linear(self.coef_), self.thresholds_, self.classes_)

    def _begin(self, n_features: int) -> None:
        features = self._map(n_features)
        n_weights = n_features if features is None else features.n_outputs
        n_thresholds = len(self.classes_) - 1
        self.mean_ = np.zeros(n_weights + n_thresholds)
        self.scale_ = 0.0
        variance = np.concatenate([np.zeros(n_weights), np.full(n_thresholds, float(self.prior))])
        form = self.covariance
        if form == "auto":
            form = "low_rank" if n_weights <= MOST_LOW_RANK else "diagonal"
            form = "full" if n_weights <= MOST_FULL else form
        if form == "full":
            self.covariance_ = np.diag(variance)
        else:
            self.variance_ = variance
        if form == "low_rank":
            self.factors_ = np.zeros((2 * int(self.n_directions) + 1, len(self.mean_)))
            self.n_factors_ = 0
        self._take_mean()

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        own, passes = self.__dict__, kernels("bayesian")
        if "factors_" in own and examples.X is None and len(self.coef_) >= MANY_COLUMNS:
            return self._wide_pass(examples)
        predicted, scale = np.empty(len(examples.order), np.int64), np.array([self.scale_])
        count = np.array([own.get("n_factors_", 0)])
        if "covariance_" in own:
            learn, (mean, covariance) = passes.full_pass, self._writable("mean_", "covariance_")
        elif "factors_" in own:
            mean, *factors = self._writable("mean_", "variance_", "factors_")
            learn, covariance = passes.low_rank_pass, (*factors, count, False)
        else:
            learn, (mean, covariance) = passes.diagonal_pass, self._writable("mean_", "variance_")
        mistakes, skipped = learn(
            tuple(examples), mean, covariance, len(self.coef_), scale, float(self.prior), predicted
        )
        if "factors_" in own:
            self.n_factors_ = int(count[0])
        self.scale_ = float(scale[0])
        self._take_mean()
        return predicted, mistakes, skipped

    def _wide_pass(self, examples: Examples) -> tuple[Any, int, int]:
        """A low-rank pass over the columns that occur; same bits however a stream is split."""
        mean, variance, factors = self._writable("mean_", "variance_", "factors_")
        n_weights, count, scale = (
            len(self.coef_),
            np.array([self.n_factors_]),
            np.array([self.scale_]),
        )
        known = np.flatnonzero(factors[: self.n_factors_, :n_weights].any(axis=0))
        used = np.union1d(known, examples.indices)
        indices = np.searchsorted(used, examples.indices).astype(examples.indices.dtype)
        examples = examples._replace(indices=read_only(indices))
        parameters = np.append(used, np.arange(n_weights, len(mean)))
        predicted = np.empty(len(examples.order), np.int64)
        part = (mean[parameters], variance[parameters], factors[:, parameters])
        mistakes, skipped = kernels("bayesian").low_rank_pass(
            tuple(examples),
            part[0],
            (*part[1:], count, True),
            len(used),
            scale,
            float(self.prior),
            predicted,
        )
        if self.scale_ == 0.0:
            variance[:n_weights] = float(self.prior) * scale[0]
        mean[parameters], variance[parameters], factors[:, parameters] = part
        self.n_factors_, self.scale_ = int(count[0]), float(scale[0])
        self._take_mean()
        return predicted, mistakes, skipped

    @exclusive
    def predict_proba(self, X: MatrixLike) -> FloatArray:
        """Return the probability of each grade in ``classes_``: (n_items, n_grades).

        Weights, thresholds and noise are all random: a row lies above threshold r with probability
        Phi(z_r . m / sqrt(1 + z_r' S z_r)), z_r = (x, -e_r). Grade k has the probability of
        lying above k thresholds but not k + 1.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        features, n_weights = self._map(self.n_features_in_), len(self.coef_)
        above = np.empty((X.shape[0], len(self.classes_) - 1))
        for block in row_blocks(X.shape[0], n_weights):
            rows = dense(X[block]) if features is None else features.transform(X[block])
            distance = (rows @ self.coef_)[:, None] - self.mean_[n_weights:]
            above[block] = normal_cdf(distance / np.sqrt(1.0 + self._variances(rows)))
        # The posterior may let two thresholds change places.
        return grade_probabilities(-np.sort(-above, axis=1))

    def _variances(self, rows: FloatArray) -> FloatArray:
        """z_r' S z_r of every row and threshold."""
        own, n = self.__dict__, len(self.coef_)
        if "covariance_" in own:
            S = own["covariance_"]
            square = np.einsum("ij,ij->i", rows @ S[:n, :n], rows)[:, None]
            return np.asarray(square - 2.0 * rows @ S[:n, n:] + np.diag(S)[n:])
        variance = own["variance_"]
        total = ((rows * rows) @ variance[:n])[:, None] + variance[n:]
        if "factors_" not in own:
            return np.asarray(total)
        turned = own["factors_"][: own["n_factors_"]] * np.sqrt(variance)
        known, cut = rows @ turned[:, :n].T, turned[:, n:]
        known_square = np.einsum("ij,ij->i", known, known)[:, None]
        total -= known_square - 2.0 * known @ cut + np.einsum("ij,ij->j", cut, cut)
        return np.asarray(np.maximum(total, 0.0))

    def _take_mean(self) -> None:
        n_weights = len(self.mean_) - len(self.classes_) + 1
        self.coef_ = self.mean_[:n_weights].copy()
        self.thresholds_ = np.sort(self.mean_[n_weights:])
