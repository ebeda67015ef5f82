"""Charts for notebooks: each ``plot_*`` returns an altair chart (``pip install rankwright[plot]``).

The report page uses the same specifications (``*_spec``) and partial dependence curves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, Matrix
from rankwright.exceptions import ParameterError
from rankwright.feedback.clicks.relevance import Calibration
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.measure import Measure
from rankwright.metrics.scores import Scores
from rankwright.rankers.bounds import Bounds
from rankwright.report import charts
from rankwright.report.charts import Spec
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


def means_spec(comparison: Comparison, measure: str | Measure) -> Spec:
    """Means with intervals; the best in color."""
    parsed = Measure.parse(measure)
    number = comparison.measures.index(parsed)
    means, bounds = comparison.means[:, number], comparison.intervals[:, number]
    best = means == (means.max() if parsed.higher_is_better else means.min())
    return charts.intervals(comparison.systems, means, bounds, str(parsed), best.tolist())


def per_query_spec(systems: Mapping[str, Scores], measure: str | Measure) -> Spec:
    """A point per query and system."""
    _check_systems(systems)
    ids = next(iter(systems.values())).query_ids.tolist()
    matrix = [_per_query(scores, ids, measure) for scores in systems.values()]
    return charts.points(list(systems), ids, matrix, str(Measure.parse(measure)))


def win_loss_spec(
    systems: Mapping[str, Scores], first: str, second: str, measure: str | Measure
) -> tuple[Spec, tuple[int, int, int]]:
    """Differences by query, and the numbers of wins, ties and losses of the first system."""
    _check_systems(systems, first, second)
    parsed = Measure.parse(measure)
    ids = systems[first].query_ids.tolist()
    one, two = (_per_query(systems[name], ids, parsed) for name in (first, second))
    gain = parsed.sign * (one - two)
    known = gain[np.isfinite(gain)]
    wins, losses = int((known > 1e-12).sum()), int((known < -1e-12).sum())
    spec = charts.signed_bars(ids, gain, f"{parsed}: {first} minus {second}")
    return spec, (wins, len(known) - wins - losses, losses)


def contribution_specs(curves: list[Curve]) -> list[Spec]:
    """Curves of the most important features, on one scale."""
    low = min((float(curve.y.min()) for curve in curves), default=0.0)
    high = max((float(curve.y.max()) for curve in curves), default=1.0)
    room = 0.05 * (high - low) or 1.0
    limits = (low - room, high + room)
    return [charts.curve(one.x, one.y, one.name, limits, one.is_step) for one in curves]


def plot_means(comparison: Comparison, measure: str | Measure) -> Any:
    """Plot means with bootstrap intervals."""
    return _chart(means_spec(comparison, measure))


def plot_learning_curves(curves: Mapping[str, ArrayLike], measure: str = "NDCG@10") -> Any:
    """Plot the measure after each round (``model.validation_``), one line per ranker."""
    return _chart(charts.lines(curves, "round", measure))


def plot_per_query(systems: Mapping[str, Scores], measure: str | Measure = "NDCG@10") -> Any:
    """Plot the measure of every query as a point, for each system.

    >>> import rankwright as rw
    >>> scores = rw.evaluate([2, 1, 1, 2], [1, 0, 1, 0], qid=[1, 1, 2, 2], measures="NDCG@10")
    >>> plot_per_query({"one": scores}).to_dict()["height"]
    280
    """
    return _chart(per_query_spec(systems, measure))


def plot_win_loss(
    systems: Mapping[str, Scores], first: str, second: str, measure: str | Measure = "NDCG@10"
) -> Any:
    """Plot on which queries the first system beats the second, and by how much."""
    return _chart(win_loss_spec(systems, first, second, measure)[0])


def plot_contributions(model: Any, X: Any, *, names: Any = None, n_features: int = 8) -> Any:
    """Plot how the score depends on each of the most important features."""
    specs = contribution_specs(contributions(model, X, names, n_features))
    plain = [{k: v for k, v in spec.items() if k != "config"} for spec in specs]
    panels = [_chart({**spec, "width": 200}) for spec in plain]
    import altair

    joined = altair.concat(*panels, columns=2)
    joined.config = altair.Config.from_dict(_opaque(charts.CONFIG))
    return joined


def plot_thresholds(model: BaseEstimator, X: Matrix, y: ArrayLike) -> Any:
    """Plot scores by true grade, with the thresholds of an ordinal ranker."""
    cuts = getattr(model, "thresholds_", None)
    if cuts is None:
        kind = type(model).__name__
        raise ParameterError(f"plot_thresholds: {kind} has no thresholds. Use an ordinal ranker.")
    return _chart(charts.histogram(model.decision_function(X), y, cuts))


def plot_bounds(bounds: Bounds | Mapping[str, Bounds]) -> Any:
    """Plot bounds of one or several models next to the truth, on a logarithmic scale.

    Bounds that are infinite are left out; their truth is shown.

    Parameters
    ----------
    bounds : what ``model.bounds(X, y)`` returned, or {name: that}
    """
    groups = {"": bounds} if isinstance(bounds, Bounds) else bounds
    entries = [
        (f"{name}: {entry.name}" if name else entry.name, entry.bound, entry.truth)
        for name, group in groups.items()
        for entry in group.entries
    ]
    return _chart(charts.bounds(entries))


def plot_calibration(table: Calibration) -> Any:
    """Plot observed against predicted click rates; a calibrated model follows the dotted line."""
    high = float(max(table.predicted.max(), table.observed.max(), 1e-9))
    return _chart(charts.calibration(table.predicted, table.observed, high))


def _chart(spec: Spec) -> Any:
    try:
        import altair
    except ImportError:
        fault = "charts in notebooks need altair: pip install 'rankwright[plot]'."
        raise ParameterError(fault) from None
    plain = {key: value for key, value in spec.items() if key != "autosize"}
    if plain.get("width") == "container":
        plain["width"] = 480
    return altair.Chart.from_dict(_opaque(plain))


def _opaque(spec: Any) -> Any:
    """The same with text in a gray that is legible in light and dark notebooks."""
    if isinstance(spec, dict):
        return {key: _opaque(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_opaque(value) for value in spec]
    return "#808080" if spec == "currentColor" else spec


def _check_systems(systems: Any, *names: str) -> None:
    if isinstance(systems, Scores) or not isinstance(systems, Mapping) or not systems:
        raise ParameterError("pass the systems as {name: scores}.")
    for name in names:
        if name not in systems:
            raise ParameterError(f"there is no system {name!r}; there are {', '.join(systems)}.")


def _per_query(scores: Scores, ids: list[Any], measure: str | Measure) -> Any:
    """The value of each of these queries, NaN where the system was not judged."""
    values = dict(zip(scores.query_ids.tolist(), scores.per_query(measure), strict=True))
    return np.array([values.get(query, np.nan) for query in ids])
