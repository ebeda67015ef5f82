"""Charts for notebooks: each ``plot_*`` returns an altair chart (``pip install rankwright[plot]``).

The report page uses the same specifications (``*_spec``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankwright.exceptions import ParameterError
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.evaluation import Scores
from rankwright.metrics.measure import Measure
from rankwright.report import charts
from rankwright.report.charts import Spec
from rankwright.report.contributions import Curve, contributions


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
    gain = _per_query(systems[first], ids, parsed) - _per_query(systems[second], ids, parsed)
    gain = parsed.sign * gain
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
    return [charts.curve(curve.x, curve.y, curve.name, limits) for curve in curves]


def plot_means(comparison: Comparison, measure: str | Measure) -> Any:
    """Means with bootstrap intervals, as an altair chart."""
    return _chart(means_spec(comparison, measure))


def plot_learning_curves(curves: Mapping[str, ArrayLike], measure: str = "NDCG@10") -> Any:
    """A line for each ranker: the measure after each round (``model.validation_``)."""
    return _chart(charts.lines(curves, "round", measure))


def plot_per_query(systems: Mapping[str, Scores], measure: str | Measure = "NDCG@10") -> Any:
    """Every query as a point, for each system.

    >>> import rankwright as rw
    >>> scores = rw.evaluate([2, 1, 1, 2], [1, 0, 1, 0], qid=[1, 1, 2, 2], measures="NDCG@10")
    >>> plot_per_query({"one": scores}).to_dict()["height"]
    280
    """
    return _chart(per_query_spec(systems, measure))


def plot_win_loss(
    systems: Mapping[str, Scores], first: str, second: str, measure: str | Measure = "NDCG@10"
) -> Any:
    """On which queries the first system beats the second, and by how much."""
    return _chart(win_loss_spec(systems, first, second, measure)[0])


def plot_contributions(model: Any, X: Any, *, names: Any = None, n_features: int = 8) -> Any:
    """How the score changes with the most important features, side by side."""
    specs = contribution_specs(contributions(model, X, names, n_features))
    for spec in specs:
        spec["width"] = 200
        del spec["config"]
    panels = [_chart(spec) for spec in specs]
    import altair

    joined = altair.concat(*panels, columns=2)
    joined.config = altair.Config.from_dict(_opaque(charts.CONFIG))
    return joined


def plot_thresholds(model: Any, X: Any, y: ArrayLike) -> Any:
    """Scores by true grade, and the thresholds of an ordinal ranker."""
    cuts = getattr(model, "thresholds_", None)
    if cuts is None:
        kind = type(model).__name__
        raise ParameterError(f"plot_thresholds: {kind} has no thresholds. Use an ordinal ranker.")
    return _chart(charts.histogram(model.decision_function(X), y, cuts))


def _chart(spec: Spec) -> Any:
    try:
        import altair
    except ImportError:
        raise ParameterError(
            "charts in notebooks need altair: pip install 'rankwright[plot]'."
        ) from None
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
        raise ParameterError("give the systems with their names, {name: scores}.")
    for name in names:
        if name not in systems:
            raise ParameterError(f"there is no system {name!r}; there are {', '.join(systems)}.")


def _per_query(scores: Scores, ids: list[Any], measure: str | Measure) -> Any:
    """The value of each of these queries, NaN where the system was not judged."""
    values = dict(zip(scores.query_ids.tolist(), scores.per_query(measure), strict=True))
    return np.array([values.get(query, np.nan) for query in ids])
