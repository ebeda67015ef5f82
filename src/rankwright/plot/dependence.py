"""How the score depends on each feature, and how much each feature counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, Matrix
from rankwright.selection.importance import partial_dependence

N_ROWS, N_VALUES, MAX_FEATURES = 100, 24, 300  # of a partial dependence curve


@dataclass(frozen=True, eq=False)
class Curve:
    """The mean change of the score at some values of a feature; ``is_step``: up to the value."""

    name: str
    x: FloatArray
    y: FloatArray
    is_step: bool = False

    @property
    def span(self) -> float:
        """How much the feature can change the score."""
        return float(self.y.max() - self.y.min())


def contributions(
    model: BaseEstimator, X: Matrix, names: Sequence[str] | None = None, n_features: int = 8
) -> list[Curve]:
    """Partial dependence curves of the features that change the score most, largest first.

    A curve is the partial dependence on a sample of the rows, minus its mean over the curve. For
    a score that is a sum over features (linear models, boosted thresholds) this is exactly what the
    feature adds. Trees and step functions give step functions. Features that are constant in the
    data are left out.

    >>> import rankwright as rw
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = rw.RidgeRanker().fit(X, X[:, 1])
    >>> [curve.name for curve in contributions(model, X, ["noise", "signal"], 1)]
    ['signal']
    """
    rows = _sample(X)
    if names is None:
        unnamed = [f"feature {k}" for k in range(1, rows.shape[1] + 1)]
        names = list(getattr(X, "columns", unnamed))
    columns = _columns(model, rows)
    curves = [curve for k in columns if (curve := _curve(model, rows, k, str(names[k])))]
    curves.sort(key=lambda curve: -curve.span)
    return [curve for curve in curves[:n_features] if curve.span > 0]


def _curve(model: BaseEstimator, rows: FloatArray, column: int, name: str) -> Curve | None:
    known = rows[np.isfinite(rows[:, column]), column]
    if not len(known) or known.min() == known.max():
        return None
    dependence = partial_dependence(model, rows, column, n_values=N_VALUES)
    x, y = dependence.values, dependence.scores - dependence.scores.mean()
    if dependence.is_step and known.min() < x[0]:  # the first step has a width too
        x, y = np.append(known.min(), x), np.append(y[0], y)
    return Curve(name, x, y, dependence.is_step)


def importances(
    model: BaseEstimator, X: Matrix, names: Sequence[str] | None = None
) -> tuple[str, dict[str, float]]:
    """What is measured, and the importance of each feature, largest first.

    The share of the gain in training where the model knows it, else the span of the curve.
    """
    last = model[-1] if hasattr(model, "steps") else model
    gain = getattr(last, "feature_importances_", None)
    if gain is not None and len(gain) == np.shape(X)[1]:
        if names is None:
            names = list(getattr(X, "columns", [f"feature {k + 1}" for k in range(len(gain))]))
        what = "share of the gain in training"
        shares = dict(zip(map(str, names), gain, strict=True))
    else:
        curves = contributions(model, X, names, MAX_FEATURES)
        what, shares = "span of the curve", {curve.name: curve.span for curve in curves}
    return what, dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _sample(X: Matrix) -> FloatArray:
    n_items = X.shape[0]
    chosen = np.unique(np.linspace(0, n_items - 1, min(n_items, N_ROWS)).round().astype(np.int64))
    part = (X.to_numpy() if hasattr(X, "to_numpy") else X)[chosen]
    return np.array(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)


def _columns(model: BaseEstimator, rows: FloatArray) -> list[int]:
    """All features; of more than MAX_FEATURES the most important, or those that vary most."""
    if rows.shape[1] <= MAX_FEATURES:
        return list(range(rows.shape[1]))
    weight = getattr(model, "feature_importances_", None)
    if weight is None:
        with np.errstate(invalid="ignore"):
            weight = np.nan_to_num(np.nanstd(rows, axis=0))
    order: list[int] = np.argsort(-np.asarray(weight), kind="stable").tolist()
    return order[:MAX_FEATURES]
