"""Partial dependence: how the score changes with one feature while the others keep their values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._typing import FloatArray

N_ROWS, N_VALUES, MAX_FEATURES = 100, 24, 300


@dataclass(frozen=True, eq=False)
class Curve:
    """The mean change of the score at some values of a feature."""

    name: str
    x: FloatArray
    y: FloatArray

    @property
    def span(self) -> float:
        """How much the feature can change the score."""
        return float(self.y.max() - self.y.min())


def contributions(
    model: Any, X: Any, names: Sequence[str] | None = None, n_features: int = 8
) -> list[Curve]:
    """Partial dependence curves of the features that change the score most, largest first.

    Each feature is set to 24 quantiles of its own values on a sample of the rows; a curve is the
    mean score minus its mean over the curve. For a score that is a sum over features (linear
    models, boosted thresholds) this is exactly what the feature adds. Features that are constant
    in the data are left out.

    Examples
    --------
    >>> import rankwright as rw
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = rw.Regression().fit(X, X[:, 1])
    >>> [curve.name for curve in contributions(model, X, ["noise", "signal"], 1)]
    ['signal']
    """
    rows = _sample(X)
    if names is None:
        unnamed = [f"feature {k}" for k in range(1, rows.shape[1] + 1)]
        names = list(getattr(X, "columns", unnamed))
    curves = []
    for column in _columns(model, rows):
        values = np.unique(np.nanquantile(rows[:, column], np.linspace(0, 1, N_VALUES)))
        values = values[np.isfinite(values)]
        if len(values) > 1:
            curves.append(Curve(str(names[column]), values, _curve(model, rows, column, values)))
    curves.sort(key=lambda curve: -curve.span)
    return [curve for curve in curves[:n_features] if curve.span > 0]


def _curve(model: Any, rows: FloatArray, column: int, values: FloatArray) -> FloatArray:
    changed = np.repeat(rows[None], len(values), axis=0)
    changed[:, :, column] = values[:, None]
    with warnings.catch_warnings():
        # The rows were taken from the data frame that named the features.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        scores = np.asarray(model.decision_function(changed.reshape(-1, rows.shape[1])))
    means = scores.reshape(len(values), -1).mean(axis=1)
    return np.asarray(means - means.mean(), dtype=np.float64)


def _sample(X: Any) -> FloatArray:
    """Evenly spaced rows as a dense array."""
    n_items = X.shape[0]
    chosen = np.unique(np.linspace(0, n_items - 1, min(n_items, N_ROWS)).round().astype(np.int64))
    part = (X.to_numpy() if hasattr(X, "to_numpy") else X)[chosen]
    dense = part.toarray() if hasattr(part, "toarray") else part
    return np.array(dense, dtype=np.float64)


def _columns(model: Any, rows: FloatArray) -> list[int]:
    """All features; of more than MAX_FEATURES the most important, or those that vary most."""
    n_features = rows.shape[1]
    if n_features <= MAX_FEATURES:
        return list(range(n_features))
    weight = getattr(model, "feature_importances_", None)
    if weight is None:
        with np.errstate(invalid="ignore"):
            weight = np.nan_to_num(np.nanstd(rows, axis=0))
    order = np.argsort(-np.asarray(weight), kind="stable")
    return [int(column) for column in order[:MAX_FEATURES]]
