"""How a score changes with one feature while the others stay as they are in the data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._typing import FloatArray

N_ROWS, N_VALUES, MOST_FEATURES = 100, 24, 300


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
    """Curves of the features that change the score most, largest first.

    Each feature in turn runs through its own values (24 quantiles) on some rows of the data, and
    the mean of the score is drawn less its mean over the curve. For a score that is a sum over
    features (linear models, boosted thresholds) this is exactly what the feature adds. Features
    that are constant in the data are left out, and so are models that scale by query.

    Examples
    --------
    >>> import rankwright as rw
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = rw.Regression().fit(X, X[:, 1])
    >>> [curve.name for curve in contributions(model, X, ["noise", "signal"], 1)]
    ['signal']
    """
    rows = _some_rows(X)
    if names is None:  # a data frame brings its own
        unnamed = [f"feature {k}" for k in range(1, rows.shape[1] + 1)]
        names = list(getattr(X, "columns", unnamed))
    curves = []
    for column in _promising(model, rows):
        values = np.unique(np.nanquantile(rows[:, column], np.linspace(0, 1, N_VALUES)))
        values = values[np.isfinite(values)]
        if len(values) > 1:
            found = _curve(model, rows, column, values)
            curves.append(Curve(str(names[column]), values, found))
    curves.sort(key=lambda curve: -curve.span)
    return [curve for curve in curves[:n_features] if curve.span > 0]


def _curve(model: Any, rows: FloatArray, column: int, values: FloatArray) -> FloatArray:
    tried = np.repeat(rows[None], len(values), axis=0)
    tried[:, :, column] = values[:, None]
    with warnings.catch_warnings():
        # The rows come from the data frame that named the features; plain arrays are enough here.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        scores = np.asarray(model.decision_function(tried.reshape(-1, rows.shape[1])))
    means = scores.reshape(len(values), -1).mean(axis=1)
    return np.asarray(means - means.mean(), dtype=np.float64)


def _some_rows(X: Any) -> FloatArray:
    n_items = X.shape[0]
    chosen = np.unique(np.linspace(0, n_items - 1, min(n_items, N_ROWS)).round().astype(np.int64))
    part = (X.to_numpy() if hasattr(X, "to_numpy") else X)[chosen]
    dense = part.toarray() if hasattr(part, "toarray") else part
    return np.array(dense, dtype=np.float64)


def _promising(model: Any, rows: FloatArray) -> list[int]:
    """All features; of very many, those the model counts as important."""
    n_features = rows.shape[1]
    if n_features <= MOST_FEATURES:
        return list(range(n_features))
    weight = getattr(model, "feature_importances_", None)
    if weight is None:
        with np.errstate(invalid="ignore"):
            weight = np.nan_to_num(np.nanstd(rows, axis=0))
    order = np.argsort(-np.asarray(weight), kind="stable")
    return [int(column) for column in order[:MOST_FEATURES]]
