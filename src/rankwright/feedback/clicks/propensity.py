"""Propensities: the probability that a user examines each position, relative to the first."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.items import Items
from rankwright.exceptions import (
    ConvergenceWarning,
    DegenerateDataWarning,
    FeedbackError,
    ParameterError,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

METHODS = ("shuffle", "swap", "harvest", "em", "regression_em")
_LEAST = 1e-4
_TOL = 1e-4  # change of propensities at which regression EM stops
_RIDGE, _NEWTON_STEPS = 1.0, 3  # of the logistic regression
_WIDTHS = np.geomspace(0.1, 2.0, 7)  # of the prior on log propensities around a power law
_UNCERTAIN = np.log(2.0)  # standard error of a log propensity: a factor of two


def estimate_propensities(
    log: ImpressionLog,
    method: str = "harvest",
    *,
    items: Items | None = None,
    regressor: BaseEstimator | None = None,
    max_iter: int = 200,
    return_std: bool = False,
) -> Any:
    """Estimate the examination probability of each position, relative to position 1.

    ``"shuffle"``
        For lists shown in random order: the ratio of click rates.
    ``"swap"``
        For lists whose first item was swapped with a random one (Joachims et al. 2017):
        the clicks of the same items at position 1 and at position k.
    ``"harvest"``
        For lists of several rankers, or of one that changed: all pairs of positions at which the
        same item of a query was shown (intervention harvesting, Agarwal et al. 2019), fitted by a
        Bradley-Terry model. Valid if the choice of ranker for a session does not depend on the
        user.
    ``"em"``
        The position-based click model. Needs items that moved, as ``"harvest"`` does.
    ``"regression_em"``
        For one ranker that always shows the same lists: the position-based model with relevance
        predicted from features (Wang et al. 2018), so it needs ``items``. It is only as good as
        that prediction; prefer a small experiment with shuffled or swapped lists.

    With ``"swap"`` and ``"harvest"``, each position may have few clicks. Log propensities are
    shrunk towards -eta log(position); eta and the deviation from it are estimated from the same
    clicks (empirical Bayes), so that there is little shrinkage with many clicks. A warning is
    emitted if a propensity is uncertain by a factor of two.

    Parameters
    ----------
    log : ImpressionLog
    method : str
    items : Items with ids, the features for ``"regression_em"``
    regressor : object with ``fit(X, y, sample_weight)`` and ``predict(X)``; by default a
        logistic regression on standardized features
    max_iter : int, iterations of EM
    return_std : bool, also return standard errors; for the first three methods

    Returns
    -------
    propensity : (n_positions,) float64
    std : (n_positions,) float64, only with ``return_std``; 0 for position 1, to which the others
        are relative

    Examples
    --------
    >>> from rankwright.data import ClickSimulator, Items, make_queries
    >>> sample = make_queries(40, docs_per_query=10, random_state=0)
    >>> items = Items(sample.X, sample.y, sample.qid)
    >>> users = ClickSimulator(items, examination=[1.0, 0.6, 0.3])
    >>> log = users.sessions(items.y, 20_000, experiment="shuffle")
    >>> bool(np.abs(estimate_propensities(log, "shuffle") - [1.0, 0.6, 0.3]).max() < 0.03)
    True
    """
    if method not in METHODS:
        raise ParameterError(
            f"method is {method!r}; use one of {', '.join(METHODS)}.", parameter="method"
        )
    if method in ("em", "regression_em"):
        if return_std:
            raise ParameterError(
                f"estimate_propensities(method={method!r}, return_std=True): EM gives no standard "
                'errors. Use "shuffle", "swap" or "harvest".',
                parameter="return_std",
            )
        return _by_em(log, method, items, regressor, max_iter)
    if method == "shuffle":
        propensity = _relative(log.click_rates())
        error = _rate_errors(log)
    else:
        cells = Cells.of(log)
        _refuse_unmoved(cells)
        clicks = _contrasts(cells)
        if method == "swap":  # ratios to position 1 unshared
            clicks[1:, 1:] = 0.0
        strength, error = _strengths(clicks)
        propensity = _relative(strength)
    _warn_of_uncertainty(error, method)
    return (propensity, propensity * error) if return_std else propensity


def find_propensities(
    log: ImpressionLog, items: Items, given: ArrayLike | None = None
) -> tuple[FloatArray, str]:
    """Propensities as given, else from items that moved, else from features; and how."""
    if given is not None:
        return np.asarray(given, dtype=np.float64), "given"
    try:
        return estimate_propensities(log, "harvest"), "harvest"
    except FeedbackError:
        return estimate_propensities(log, "regression_em", items=items), "regression_em"


class Cells(NamedTuple):
    """Distinct (document, position) with counts; a document is an item of one query.

    Attributes
    ----------
    document : (n_cells,) numbers as in ``log.documents``
    position : (n_cells,) from 0
    shown, clicked : (n_cells,) how many impressions, and how many of them were clicked
    n_documents, n_positions : int
    """

    document: IntArray
    position: IntArray
    shown: FloatArray
    clicked: FloatArray
    n_documents: int
    n_positions: int

    @classmethod
    def of(cls, log: ImpressionLog) -> Cells:
        document, first = log.documents
        n_positions, n_documents = log.n_positions, len(first)
        key = document * n_positions + log.position - 1
        size = n_documents * n_positions
        if size <= 4 * len(key) + 1024:  # few empty cells: count by index, without sorting
            shown, clicked = np.bincount(key, minlength=size), np.bincount(key, log.clicked, size)
            used = np.flatnonzero(shown)
            shown, clicked = shown[used], clicked[used]
        else:
            used, number, shown = np.unique(key, return_inverse=True, return_counts=True)
            clicked = np.bincount(number, log.clicked, len(used))
        return cls(
            used // n_positions,
            used % n_positions,
            shown.astype(np.float64),
            clicked.astype(np.float64),
            n_documents,
            n_positions,
        )

    def by_document(self, values: FloatArray) -> FloatArray:
        """Sums over the cells of each document."""
        return np.bincount(self.document, values, self.n_documents).astype(np.float64)

    def by_position(self, values: FloatArray) -> FloatArray:
        """Sums over the cells of each position."""
        return np.bincount(self.position, values, self.n_positions).astype(np.float64)


def _by_em(
    log: ImpressionLog,
    method: str,
    items: Items | None,
    regressor: BaseEstimator | None,
    max_iter: int,
) -> FloatArray:
    if method == "regression_em":
        if items is None:
            raise ParameterError(
                'method="regression_em" needs items, the table of features.', parameter="method"
            )
        return _regression_em(log, items, regressor or _Logistic(), max_iter)
    from rankwright.feedback.clicks.click_models import PositionBasedModel

    _refuse_unmoved(Cells.of(log))
    return PositionBasedModel(max_iter=max_iter).fit(log).examination_


def _rate_errors(log: ImpressionLog) -> FloatArray:
    """Standard errors of the logs of the click rates, relative to the first."""
    clicks = np.bincount(log.position, log.clicked, log.n_positions + 1)[1:]
    variance = (1.0 - log.click_rates()) / np.maximum(clicks, 0.5)
    error = np.sqrt(variance + variance[0])
    error[0] = 0.0
    return np.asarray(error)


def _warn_of_uncertainty(error: FloatArray, method: str) -> None:
    """Warn when the log of a propensity has a standard error of more than log 2."""
    if len(uncertain := np.flatnonzero(error > _UNCERTAIN)):
        worst = int(error.argmax())
        factor = np.exp(min(float(error[worst]), 20.0))
        warnings.warn(
            f"estimate_propensities ({method}): the propensities of {len(uncertain)} of "
            f"{len(error)} positions are uncertain by a factor of 2 or more (position {worst + 1}: "
            f"{factor:.1f}). A ranker trained with them may reverse the logged order. Shuffle or "
            "swap more lists.",
            DegenerateDataWarning,
            stacklevel=3,
        )


def _relative(rates: FloatArray) -> FloatArray:
    if rates[0] <= 0:
        raise FeedbackError("position 1 was never clicked: propensities cannot be estimated.")
    return np.asarray(np.clip(rates / rates[0], _LEAST, 1.0))


def _refuse_unmoved(cells: Cells) -> None:
    """Raise a FeedbackError unless every position shares items with others."""
    n_positions = np.bincount(cells.document, minlength=cells.n_documents)
    moved = n_positions[cells.document] > 1
    shared = np.bincount(cells.position[moved], minlength=cells.n_positions)
    if len(unshared := np.flatnonzero(shared == 0)):
        raise FeedbackError(
            f"no item of position {unshared[0] + 1} was also shown at another position, so the "
            "effect of the position cannot be separated from that of its items.",
            fix="Swap or shuffle some lists, use logs of several rankers, or "
            'method="regression_em".',
        )


def _contrasts(cells: Cells) -> FloatArray:
    """[k, j]: clicks at position k on items that were also shown at j, equally weighted at both.

    An item counts with n_k n_j / (n_k + n_j) impressions at either position, so the ratio of
    [k, j] to [j, k] estimates propensity k over propensity j.
    """
    n = cells.n_positions
    total = np.zeros((n, n))
    ends = np.searchsorted(cells.document, np.arange(0, cells.n_documents + 1, 50_000))
    ends = np.unique(np.append(ends, len(cells.document)))
    for start, stop in pairwise(ends.tolist()):
        part = slice(start, stop)
        row, column = cells.document[part] - cells.document[start], cells.position[part]
        shown, clicked = np.zeros((2, int(row[-1]) + 1, n))
        shown[row, column], clicked[row, column] = cells.shown[part], cells.clicked[part]
        for k in range(n):
            both = shown[:, [k]] + shown
            share = np.divide(shown, both, out=np.zeros_like(both), where=shown[:, [k]] > 0)
            total[k] += clicked[:, k] @ share
    np.fill_diagonal(total, 0.0)
    return total


def _strengths(clicks: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Propensities from contrasts by a Bradley-Terry model, and standard errors of their logs.

    The log of position k is -eta log(k) + u_k with u_k ~ N(0, width^2) and a wide prior on eta; the
    width is the one under which the contrasts are most likely (Laplace's approximation).
    """
    if not clicks[0].any():
        raise FeedbackError("position 1 was never clicked: propensities cannot be estimated.")
    fits = [_shrunken_fit(clicks, width) for width in _WIDTHS]
    log_strength, covariance, _ = max(fits, key=lambda fit: fit[2])
    return np.exp(log_strength), np.sqrt(np.maximum(np.diag(covariance), 0.0))


def _shrunken_fit(clicks: FloatArray, width: float) -> tuple[FloatArray, FloatArray, float]:
    """Log strengths, their covariance, and the log of the marginal likelihood, by Newton steps."""
    n = len(clicks)
    design = np.eye(n)  # strengths from (eta, u_2, .., u_n): position 1 is the unit
    design[:, 0] = -np.log(np.arange(1, n + 1))
    center, precision = np.zeros(n), np.full(n, width**-2.0)
    center[0] = precision[0] = 1.0
    both, wins, value = clicks + clicks.T, clicks.sum(axis=1), center

    def cost(value: FloatArray) -> float:
        log = design @ value
        pairs = 0.5 * float(np.sum(both * np.logaddexp.outer(log, log)))
        return pairs - float(wins @ log) + 0.5 * float(precision @ (value - center) ** 2)

    now = cost(value)
    for _ in range(100):
        log = design @ value
        ahead = 1.0 / (1.0 + np.exp(np.clip(log[None, :] - log[:, None], -500.0, 500.0)))
        slope = design.T @ ((both * ahead).sum(axis=1) - wins) + precision * (value - center)
        information = both * ahead * (1.0 - ahead)
        laplacian = np.diag(information.sum(axis=1)) - information
        curvature = design.T @ laplacian @ design + np.diag(precision)
        step, before = np.linalg.solve(curvature, slope), now
        while (now := cost(value - step)) > before and np.abs(step).max() > 1e-12:
            step = step / 2
        value = value - step
        if before - now <= 1e-10 * max(1.0, abs(now)):
            break
    evidence = 0.5 * float(np.log(precision).sum() - np.linalg.slogdet(curvature)[1]) - now
    return design @ value, design @ np.linalg.inv(curvature) @ design.T, evidence


def _regression_em(
    log: ImpressionLog, items: Items, regressor: BaseEstimator, max_iter: int
) -> FloatArray:
    check_limits(max_iter, _TOL)
    row = log.rows_in(items)
    cells = Cells.of(log)
    row_of = row[log.documents[1]]
    if (row_of < 0).any():
        log = log.take(np.bincount(log.session, row < 0, log.n_sessions) == 0)
        cells, row_of = Cells.of(log), log.rows_in(items)[log.documents[1]]
    X = np.asarray(items.X[row_of].todense() if items.is_sparse else items.X[row_of])
    shown = cells.by_document(cells.shown)
    gamma = 1.0 / np.sqrt(np.arange(1, cells.n_positions + 1))
    relevance = np.full(cells.n_documents, 0.5)
    for _ in range(max_iter):
        examined, relevant = _posteriors(cells, gamma, relevance)
        regressor.fit(X, cells.by_document(relevant) / shown, sample_weight=shown)
        relevance = np.clip(regressor.predict(X), 1e-4, 1.0 - 1e-4)
        new = cells.by_position(examined) / np.maximum(cells.by_position(cells.shown), 1.0)
        change, gamma = float(np.abs(new / new[0] - gamma / gamma[0]).max()), new
        if change < _TOL:
            break
    else:
        warn_of_convergence("regression_em", max_iter, change)
    return _relative(gamma)


def check_limits(max_iter: int, tol: float) -> None:
    """Raise a ParameterError unless EM makes an iteration and can converge."""
    for name, value in (("max_iter", max_iter), ("tol", tol)):
        if value <= 0:
            raise ParameterError(f"{name} is {value}; it must be > 0.")


def warn_of_convergence(model: str, max_iter: int, change: float) -> None:
    """Warn that EM stopped before its estimates settled."""
    warnings.warn(
        f"{model}: EM stopped at max_iter={max_iter}; the last change was {change:.2g}.",
        ConvergenceWarning,
        stacklevel=3,
    )


def _posteriors(
    cells: Cells, gamma: FloatArray, relevance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Expected numbers of impressions that were examined, and that were relevant."""
    g, r = gamma[cells.position], relevance[cells.document]
    unclicked = (cells.shown - cells.clicked) / np.maximum(1.0 - g * r, 1e-12)
    return cells.clicked + unclicked * g * (1.0 - r), cells.clicked + unclicked * r * (1.0 - g)


class _Logistic:
    """Logistic regression of probabilities on standardized features, by Newton steps."""

    def __init__(self) -> None:
        self.coef_ = np.zeros(0)

    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray) -> _Logistic:
        Z = self._design(X)
        if len(self.coef_) != Z.shape[1]:
            self.coef_ = np.zeros(Z.shape[1])
        penalty = np.full(Z.shape[1], _RIDGE)
        penalty[-1] = 1e-6
        for _ in range(_NEWTON_STEPS):  # a warm start: EM calls it in every iteration
            p = self._probability(Z)
            slope = Z.T @ (sample_weight * (y - p)) - penalty * self.coef_
            curvature = (Z.T * (sample_weight * np.maximum(p * (1 - p), 1e-6))) @ Z
            self.coef_ = self.coef_ + np.linalg.solve(curvature + np.diag(penalty), slope)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        return self._probability(self._design(X))

    def _probability(self, Z: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(Z @ self.coef_, -30, 30))))

    def _design(self, X: FloatArray) -> FloatArray:
        X = np.nan_to_num(X)
        spread = X.std(axis=0)
        Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return np.column_stack([Z, np.ones(len(Z))])
