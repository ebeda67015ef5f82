"""Charts for notebooks: each ``plot_*`` returns an altair chart (``pip install rankwright[plot]``).

The specifications behind them (``*_spec``) are those of the report page.
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
from rankwright.report.contributions import Curve, contributions

Spec = dict[str, Any]


def means_spec(comparison: Comparison, measure: str | Measure) -> Spec:
    """Means with intervals; the best in color."""
    number = comparison.measures.index(Measure.parse(measure))
    column = comparison.means[:, number]
    higher = comparison.measures[number].higher_is_better
    best = column == (column.max() if higher else column.min())
    bounds = comparison.intervals[:, number]
    return charts.intervals(
        comparison.systems, column, bounds, str(comparison.measures[number]), best.tolist()
    )


def per_query_spec(systems: Mapping[str, Scores], measure: str | Measure) -> Spec:
    """A point per query and system."""
    _check_systems(systems)
    first = next(iter(systems.values()))
    ids = first.query_ids.tolist()
    matrix = [_in_order(scores, ids, measure) for scores in systems.values()]
    return charts.points(list(systems), ids, matrix, str(Measure.parse(measure)))


def win_loss_spec(
    systems: Mapping[str, Scores], first: str, second: str, measure: str | Measure
) -> tuple[Spec, tuple[int, int, int]]:
    """Differences by query, and on how many the first system wins, ties and loses."""
    _check_systems(systems, first, second)
    asked = Measure.parse(measure)
    ids = systems[first].query_ids.tolist()
    gain = _in_order(systems[first], ids, asked) - _in_order(systems[second], ids, asked)
    gain = asked.sign * gain
    known = gain[np.isfinite(gain)]
    wins, losses = int((known > 1e-12).sum()), int((known < -1e-12).sum())
    spec = charts.signed_bars(ids, gain, f"{asked}: {first} minus {second}")
    return spec, (wins, len(known) - wins - losses, losses)


def contribution_specs(curves: list[Curve]) -> list[Spec]:
    """Curves of the features that matter most, on one scale."""
    low = min((float(each.y.min()) for each in curves), default=0.0)
    high = max((float(each.y.max()) for each in curves), default=1.0)
    room = 0.05 * (high - low) or 1.0
    return [charts.curve(each.x, each.y, each.name, (low - room, high + room)) for each in curves]


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
    """How the score changes with the features that matter most, side by side."""
    found = contribution_specs(contributions(model, X, names, n_features))
    panels = [
        {**{key: value for key, value in spec.items() if key != "config"}, "width": 200}
        for spec in found
    ]
    drawn = [_chart(panel) for panel in panels]
    import altair

    joined = altair.concat(*drawn, columns=2)
    joined.config = altair.Config.from_dict(_opaque(charts.CONFIG))
    return joined


def plot_thresholds(model: Any, X: Any, y: ArrayLike) -> Any:
    """Scores by true grade, and the thresholds of an ordinal ranker."""
    cuts = getattr(model, "thresholds_", None)
    if cuts is None:
        kind = type(model).__name__
        raise ParameterError(f"plot_thresholds: {kind} has no thresholds; PRank and its kin have.")
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
    """Notebooks may be white or black: text takes a gray that reads on both."""
    if isinstance(spec, dict):
        return {key: _opaque(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_opaque(value) for value in spec]
    return "#808080" if spec == "currentColor" else spec


def _check_systems(systems: Any, *asked: str) -> None:
    """Refuse what is not {name: scores}, and names that are not in it."""
    if isinstance(systems, Scores) or not isinstance(systems, Mapping) or not systems:
        raise ParameterError("give the systems with their names, {name: scores}.")
    for name in asked:
        if name not in systems:
            raise ParameterError(f"there is no system {name!r}; there are {', '.join(systems)}.")


def _in_order(scores: Scores, ids: list[Any], measure: str | Measure) -> Any:
    place = {query: k for k, query in enumerate(scores.query_ids.tolist())}
    values = scores.per_query(measure)
    return np.array([values[place[query]] if query in place else np.nan for query in ids])
