"""Diagnostics of click statistics: how much evidence there is, and whether a model fits it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.exceptions import DataError, DegenerateDataWarning


def effective_sample_size(weights: ArrayLike) -> float:
    """Number of equally weighted observations with the same variance: (sum w)^2 / sum w^2.

    >>> effective_sample_size([1, 1, 1, 1]), round(effective_sample_size([100, 1, 1, 1]), 2)
    (4.0, 1.06)
    """
    w = np.asarray(weights, dtype=np.float64)
    squares = float(np.sum(w**2))
    return float(np.sum(w)) ** 2 / squares if squares > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted and observed click rates in bins of equally many impressions.

    Attributes
    ----------
    predicted, observed : (n_bins,) mean prediction and share of clicks
    count : (n_bins,) impressions
    error : float, the mean absolute difference, weighted by the counts
    """

    predicted: FloatArray
    observed: FloatArray
    count: FloatArray
    error: float


def calibration(predicted: ArrayLike, clicked: ArrayLike, n_bins: int = 10) -> Calibration:
    """Compare predicted click probabilities with observed clicks; see ``plot_calibration``.

    >>> rng = np.random.default_rng(0)
    >>> chance = rng.random(50_000)
    >>> calibration(chance, rng.random(50_000) < chance).error < 0.02
    True
    """
    chance = np.asarray(predicted, dtype=np.float64)
    clicks = np.asarray(clicked, dtype=np.float64)
    if chance.shape != clicks.shape or chance.ndim != 1 or len(chance) == 0:
        raise DataError(
            f"predicted has shape {chance.shape}, clicked {clicks.shape}: give one of each per "
            "item shown."
        )
    parts = np.array_split(np.argsort(chance, kind="stable"), min(n_bins, len(chance)))
    mean = np.array([chance[part].mean() for part in parts])
    rate = np.array([clicks[part].mean() for part in parts])
    count = np.array([float(len(part)) for part in parts])
    return Calibration(mean, rate, count, float(np.average(np.abs(mean - rate), weights=count)))


class Trend(NamedTuple):
    """A line through the corrected click rates, over log2(1 + position).

    Attributes
    ----------
    line : (n_positions,) the relevance that an item shown there is expected to have
    rises : bool, whether it surely rises down the list, by more than a twentieth of the mean
    """

    line: FloatArray
    rises: bool


def relevance_trend(log: ImpressionLog, slope: FloatArray, offset: FloatArray) -> Trend:
    """How relevance, as the corrections see it, changes down the list."""
    n = log.n_positions
    shown = np.bincount(log.position, minlength=n + 1)[1:].astype(np.float64)
    clicks = np.bincount(log.position, log.clicked, n + 1)[1:]
    rate = (clicks / np.maximum(shown, 1) - offset[:n]) / slope[:n]
    noise = np.sqrt(np.maximum(clicks, 1.0)) / np.maximum(shown, 1.0) / slope[:n]
    weight = np.where(shown > 0, 1.0 / noise**2, 0.0)
    place = np.log2(np.arange(2, n + 2))
    mean, center = float(np.average(rate, weights=weight)), np.average(place, weights=weight)
    spread = float(np.sum(weight * (place - center) ** 2))
    if spread <= 0:
        return Trend(np.full(n, mean), False)
    trend = float(np.sum(weight * (place - center) * rate)) / spread
    rises = trend > 4.0 / np.sqrt(spread) and trend > 0.05 * mean
    # Few clicks say little: rankers in use are better than chance, so a fall is expected.
    fall = 0.2 * max(mean, 1e-6)
    trend = (spread * trend - fall / fall**2) / (spread + 1.0 / fall**2)
    return Trend(mean + trend * (place - center), rises)


def warn_of_overcorrection(trend: Trend) -> None:
    """Warn when the corrected click rate rises down the list.

    A ranker that is better than chance shows its best items first, so their relevance falls with
    the position. Propensities that are too small at low positions turn this around, and a ranker
    that learns from it reverses the order.
    """
    if trend.rises:
        warnings.warn(
            "after the correction, items shown lower look more relevant than those at the top: the "
            "propensities are too small at low positions (or the logging ranker is worse than "
            "chance). A ranker trained on this reverses the logged order. Estimate the "
            "propensities from the log with estimate_propensities.",
            DegenerateDataWarning,
            stacklevel=3,
        )
