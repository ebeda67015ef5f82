"""Counterfactual estimates of the reward of another policy, from logged choices.

Each logged choice has a reward, the probability with which the logging policy chose it, and the
probability with which the target policy would. For ranked lists see ``estimate_from_log``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray
from rankwright.data.vocabulary import as_column, check_probabilities
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError
from rankwright.feedback.clicks.relevance import effective_sample_size


@dataclass(frozen=True)
class Estimate:
    """An estimated mean reward with its uncertainty.

    Attributes
    ----------
    value : float
    interval : (low, high) at the requested level, by the normal approximation
    std_error : float
    n : int, logged choices or sessions
    effective_n : float, the effective sample size
    method : str
    """

    value: float
    interval: tuple[float, float]
    std_error: float
    n: int
    effective_n: float
    method: str

    @classmethod
    def of_mean(
        cls, terms: FloatArray, method: str, weights: ArrayLike, alpha: float = 0.05
    ) -> Estimate:
        """The mean of one term per choice; ``weights`` serve the effective sample size."""
        if not 0 < alpha < 1:
            raise ParameterError(
                f"alpha is {alpha!r}; it must be between 0 and 1.", parameter="alpha"
            )
        n, value = len(terms), float(np.mean(terms))
        error = float(np.std(terms, ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
        reach = NormalDist().inv_cdf(1 - alpha / 2) * error
        ess = effective_sample_size(weights)
        return cls(value, (value - reach, value + reach), error, n, ess, method)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.4f} [{low:.4f}, {high:.4f}] ({self.method}, {self.n:,} sessions)"


def ips(
    reward: ArrayLike,
    logging: ArrayLike,
    target: ArrayLike,
    *,
    max_weight: float | None = None,
    alpha: float = 0.05,
) -> Estimate:
    """Inverse propensity scoring: the mean of reward * target / logging.

    Parameters
    ----------
    reward : (n,) numbers
    logging, target : (n,) probabilities of the logged choice under either policy
    max_weight : upper limit of the weights; trades variance for bias
    alpha : 1 - the level of the interval

    Examples
    --------
    >>> ips([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 1.0, 0.0]).value
    1.0
    """
    r, w = _weights(reward, logging, target, max_weight)
    _warn_of_support(w, "ips")
    return Estimate.of_mean(w * r, "ips", w, alpha)


def snips(
    reward: ArrayLike,
    logging: ArrayLike,
    target: ArrayLike,
    *,
    max_weight: float | None = None,
    alpha: float = 0.05,
) -> Estimate:
    """Self-normalized IPS: the weighted mean of the rewards (Swaminathan and Joachims 2015).

    It has lower variance and stays within the range of the rewards; its bias vanishes as the log
    grows. Parameters as in :func:`ips`.

    >>> snips([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 1.0, 0.0]).value
    1.0
    """
    r, w = _weights(reward, logging, target, max_weight)
    _warn_of_support(w, "snips")
    return Estimate.of_mean(normalized_terms(r, w, "snips"), "snips", w, alpha)


def doubly_robust(
    reward: ArrayLike,
    logging: ArrayLike,
    target: ArrayLike,
    predicted: ArrayLike,
    predicted_target: ArrayLike,
    *,
    max_weight: float | None = None,
    alpha: float = 0.05,
) -> Estimate:
    """Doubly robust: a reward model, corrected by IPS of its errors (Dudik et al. 2014).

    It is unbiased if either the probabilities or the model are right. Fit the model on other data.

    Parameters
    ----------
    predicted : (n,) reward that the model predicts for the logged choice
    predicted_target : (n,) reward that it predicts for the target policy's choice
    reward, logging, target, max_weight, alpha : as in :func:`ips`

    Examples
    --------
    >>> doubly_robust([1, 0], [0.5, 0.5], [1.0, 0.0], [0.8, 0.1], [0.8, 0.8]).value
    1.0
    """
    r, w = _weights(reward, logging, target, max_weight)
    q = as_column(predicted, "predicted", len(r))
    v = as_column(predicted_target, "predicted_target", len(r))
    _warn_of_support(w, "doubly_robust")
    return Estimate.of_mean(v + w * (r - q), "doubly_robust", w, alpha)


def normalized_terms(reward: FloatArray, weight: FloatArray, method: str) -> FloatArray:
    """Terms whose mean is the weighted mean and whose spread is that of the delta method."""
    mean = float(weight.mean())
    if mean == 0:
        raise DataError(f"{method}: the target policy gives probability 0 to every logged choice.")
    value = float(np.mean(weight * reward)) / mean
    return np.asarray(value + weight * (reward - value) / mean)


def _weights(
    reward: ArrayLike, logging: ArrayLike, target: ArrayLike, max_weight: float | None
) -> tuple[FloatArray, FloatArray]:
    n = np.asarray(reward).size
    if n == 0:
        raise DataError("there is no logged choice: reward is empty.")
    r = as_column(reward, "reward", n)
    p, t = as_column(logging, "logging", n), as_column(target, "target", n)
    check_probabilities(p, "logging", unit="row", zero=False)
    check_probabilities(t, "target", unit="row")
    w = t / p
    return r, w if max_weight is None else np.minimum(w, max_weight)


def _warn_of_support(weight: FloatArray, method: str) -> None:
    """The weights average 1 when the logging policy chose all that the target may choose."""
    mean = float(weight.mean())
    error = float(weight.std()) / np.sqrt(len(weight))
    if mean < 1 - 4 * error - 1e-9:
        warnings.warn(
            f"{method}: the weights average {mean:.2f} instead of 1, so the target policy makes "
            "choices that are not in the log, whose reward counts as 0. Log with more exploration, "
            "or compare more similar policies.",
            DegenerateDataWarning,
            stacklevel=3,
        )
    elif effective_sample_size(weight) < min(30.0, len(weight) / 10):
        warnings.warn(
            f"{method}: the effective sample size is {effective_sample_size(weight):.1f} of "
            f"{len(weight)}: few choices have most of the weight, and the interval is not "
            "reliable. Set max_weight, or use more data.",
            DegenerateDataWarning,
            stacklevel=3,
        )
