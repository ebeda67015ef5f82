"""The functions of ``rankwright.plot``, and specifications that report pages share with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, Id, Matrix
from rankwright.data.runs import Judgments
from rankwright.exceptions import ParameterError
from rankwright.feedback.clicks.relevance import Calibration
from rankwright.metrics.agreement import judge_pairs
from rankwright.metrics.comparison import Comparison
from rankwright.metrics.measure import Measure
from rankwright.metrics.scores import Scores
from rankwright.plot import charts
from rankwright.plot.charts import Spec
from rankwright.plot.dependence import Curve, contributions, importances
from rankwright.rankers.bounds import Bounds
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.selection.auto import ENSEMBLE, AutoRanker

if TYPE_CHECKING:
    from altair import Chart

    from rankwright.rankers.boosting.ensemble import PairExplanation

INK, PAPER = "#1f2328", "#ffffff"  # of charts in notebooks: legible on light and dark pages


def means_spec(comparison: Comparison, measure: str | Measure) -> Spec:
    """Means with intervals; the best in color."""
    parsed = Measure.parse(measure)
    number = comparison.measures.index(parsed)
    means, intervals = comparison.means[:, number], comparison.intervals[:, number]
    best = means == (means.max() if parsed.higher_is_better else means.min())
    return charts.intervals(comparison.systems, means, intervals, str(parsed), best.tolist())


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


def effect_specs(curves: list[Curve]) -> list[Spec]:
    """Curves of the most important features, on one scale."""
    low = min((float(curve.y.min()) for curve in curves), default=0.0)
    high = max((float(curve.y.max()) for curve in curves), default=1.0)
    room = 0.05 * (high - low) or 1.0
    limits = (low - room, high + room)
    return [charts.curve(one.x, one.y, one.name, limits, one.is_step) for one in curves]


def means(comparison: Comparison, measure: str | Measure | None = None) -> Any:
    """Plot the mean of each system with its bootstrap interval.

    Parameters
    ----------
    comparison : what :func:`rankwright.compare` returned
    measure : str or Measure, by default the first measure of the comparison
    """
    chosen = comparison.measures[0] if measure is None else Measure.parse(measure)
    if chosen not in comparison.measures:
        known = ", ".join(map(str, comparison.measures))
        raise ParameterError(f"plot.means: {chosen} was not compared. Compared were {known}.")
    return _chart(means_spec(comparison, chosen), f"Mean {chosen}, with 95 % intervals")


def learning_curves(
    models: BaseEstimator | Mapping[str, Any] | Sequence[BaseEstimator], measure: str | None = None
) -> Any:
    """Plot the validation measure after each round, one line per model.

    Parameters
    ----------
    models : a fitted ranker, a list of them, or {name: ranker}; a value may also be the curve
        itself, an array. Rankers have a curve if ``fit`` was given an ``eval_set``.
    measure : str, the name of the measure on the axis; by default that of early stopping

    Examples
    --------
    >>> chart = learning_curves({"slow": [0.1, 0.2], "fast": [0.2, 0.3]}, "NDCG@10")
    >>> chart.to_dict()["encoding"]["y"]["title"]
    'NDCG@10'
    """
    named = _named(models)
    for name, model in named.items():
        if measure is None and hasattr(model, "validation_"):
            measure = _stopping_measure(model)
        if getattr(model, "validation_", model) is None:
            raise ParameterError(
                f"plot.learning_curves: {name} has no validation curve. Fit it with eval_set=."
            )
    curves = {name: getattr(model, "validation_", model) for name, model in named.items()}
    shown = measure or "Measure"
    return _chart(charts.lines(curves, "round", shown), f"{shown} on validation queries")


def _named(models: Any) -> dict[str, Any]:
    """Models by name; without names, by class and, if that is not enough, by number."""
    if isinstance(models, Mapping):
        return dict(models)
    listed = list(models) if isinstance(models, list | tuple) else [models]
    kinds = [type(model).__name__ for model in listed]
    single = len(set(kinds)) == len(kinds)
    return {
        kind if single else f"{kind} {number}": model
        for number, (kind, model) in enumerate(zip(kinds, listed, strict=True), 1)
    }


def _stopping_measure(model: BaseEstimator) -> str | None:
    given = getattr(model, "early_stopping", None)
    measure = (given if isinstance(given, EarlyStopping) else EarlyStopping()).measure
    return str(measure) if isinstance(measure, str | Measure) else None


def per_query(systems: Mapping[str, Scores], measure: str | Measure = "NDCG@10") -> Any:
    """Plot the measure of every query as a point, for each system.

    Parameters
    ----------
    systems : {name: what :func:`rankwright.evaluate` returned}
    measure : str or Measure

    Examples
    --------
    >>> import rankwright as rw
    >>> scores = rw.evaluate([2, 1, 1, 2], [1, 0, 1, 0], qid=[1, 1, 2, 2], measures="NDCG@10")
    >>> per_query({"one": scores}).to_dict()["height"]
    280
    """
    return _chart(per_query_spec(systems, measure), f"{Measure.parse(measure)} of each query")


def win_loss(
    systems: Mapping[str, Scores],
    first: str | None = None,
    second: str | None = None,
    measure: str | Measure = "NDCG@10",
) -> Any:
    """Plot on which queries one system is better than another, and by how much.

    Parameters
    ----------
    systems : {name: what :func:`rankwright.evaluate` returned}
    first, second : str, which two; by default the first two
    measure : str or Measure
    """
    _check_systems(systems)
    first = next(name for name in systems if name != second) if first is None else first
    second = next((name for name in systems if name != first), first) if second is None else second
    spec, (wins, ties, losses) = win_loss_spec(systems, first, second, measure)
    spec["encoding"]["y"]["title"] = f"{Measure.parse(measure)}: {first} minus {second}"
    equal = f", {ties} equal" if ties else ""
    return _chart(spec, f"{first} is better on {wins} queries, {second} on {losses}{equal}")


def importance(
    model: BaseEstimator, X: Matrix, *, names: Sequence[str] | None = None, n_features: int = 20
) -> Any:
    """Plot how much each feature counts, largest first.

    The share of the gain in training for boosted rankers; for others, how much the feature changes
    the score over its range. :func:`rankwright.permutation_importance` measures what a feature is
    worth to a measure.

    Parameters
    ----------
    model : a fitted ranker
    X : (n_items, n_features) rows to compute effects on, an array, CSR matrix or data frame
    names : (n_features,) names of the features; by default those of the data frame
    n_features : int, how many to show
    """
    what, shares = importances(model, X, names)
    shown = dict(list(shares.items())[:n_features])
    return _chart(charts.bars(shown, what), f"Importance of features in {_kind(model)}")


def effects(
    model: BaseEstimator, X: Matrix, *, names: Sequence[str] | None = None, n_features: int = 8
) -> Any:
    """Plot how the score depends on each of the most important features.

    Parameters
    ----------
    model : a fitted ranker
    X : (n_items, n_features) rows to compute effects on, an array, CSR matrix or data frame
    names : (n_features,) names of the features; by default those of the data frame
    n_features : int, how many to show
    """
    specs = effect_specs(contributions(model, X, names, n_features))
    if not specs:
        raise ParameterError("plot.effects: no feature changes the score of this model.")
    plain = [{k: v for k, v in spec.items() if k != "config"} for spec in specs]
    panels = [_chart({**spec, "width": 200}) for spec in plain]
    import altair

    joined = altair.concat(
        *panels, columns=2, title=f"Effect of features on {_kind(model)}'s score"
    )
    joined.config = altair.Config.from_dict(_printable(charts.CONFIG))
    return _for_notebooks(joined)


def grades(model: BaseEstimator, X: Matrix, y: ArrayLike) -> Any:
    """Plot the scores of the rows of each grade, with the thresholds of an ordinal ranker.

    Parameters
    ----------
    model : a fitted ranker
    X : (n_items, n_features) array, CSR matrix or data frame
    y : (n_items,) true grades
    """
    thresholds = getattr(model, "thresholds_", None)
    known = [] if thresholds is None else thresholds
    spec = charts.histogram(model.decision_function(X), y, known)
    return _chart(spec, f"Scores of {_kind(model)} by true grade")


def position_bias(
    propensities: ArrayLike | Mapping[str, ArrayLike], std: ArrayLike | None = None
) -> Any:
    """Plot the probability that each position is examined.

    Parameters
    ----------
    propensities : (n_positions,) what :func:`rankwright.feedback.estimate_propensities` returned,
        or {method: that}
    std : (n_positions,) its standard errors (``return_std=True``), drawn as bars of two

    Examples
    --------
    >>> chart = position_bias([1.0, 0.5, 0.3], std=[0.0, 0.05, 0.04])
    >>> len(chart.to_dict()["layer"])
    2
    """
    if isinstance(propensities, Mapping):
        if std is not None:
            raise ParameterError("plot.position_bias: std= goes with one array of propensities.")
        curves = {name: np.asarray(one, np.float64) for name, one in propensities.items()}
        spec = charts.lines(curves, "position", "examination probability")
    else:
        values = np.asarray(propensities, np.float64)
        error = np.zeros(len(values)) if std is None else np.asarray(std, np.float64)
        spec = charts.position_bias(values, error)
    return _chart(spec, "Position bias")


def agreement(judgments: Judgments | Mapping[str, Mapping[Id, float]]) -> Any:
    """Plot Cohen's kappa of every two judges on the items that both graded.

    Parameters
    ----------
    judgments : :class:`rankwright.data.Judgments`, or {judge: {item: grade}}

    Examples
    --------
    >>> chart = agreement({"ann": {1: 2, 2: 0, 3: 1}, "bob": {1: 2, 2: 0, 3: 0}})
    >>> next(iter(chart.to_dict()["datasets"].values()))[0]["kappa"]
    0.5
    """
    if isinstance(judgments, Judgments):
        columns = judgments.scores.T.tolist()
        judgments = {f"judge {n}": dict(enumerate(one)) for n, one in enumerate(columns, 1)}
    pairs = judge_pairs(judgments)
    if not pairs:
        raise ParameterError("plot.agreement: no two judges graded the same item.")
    entries = [(pair.first, pair.second, pair.kappa, pair.n_items) for pair in pairs]
    return _chart(charts.agreement(list(judgments), entries), "Agreement by pair of judges")


def explain(explanation: PairExplanation, n: int = 10) -> Any:
    """Plot why one row scores higher than another, by contribution.

    Parameters
    ----------
    explanation : what ``model.explain(x1, x0)`` returned
    n : int, how many contributions to show
    """
    found = getattr(explanation, "contributions", None)
    if found is None:
        kind = type(explanation).__name__
        raise ParameterError(f"plot.explain: {kind} is no explanation. Give model.explain(x1, x0).")
    total: dict[str, float] = {}
    for one in found:
        total[str(one.name)] = total.get(str(one.name), 0.0) + float(one.amount)
    shown = dict(sorted(total.items(), key=lambda pair: -abs(pair[1]))[:n])
    spec = charts.bars(shown, "contribution to the difference of the scores")
    spec["encoding"]["color"] = charts.BY_SIGN
    return _chart(spec, f"Score difference {explanation.difference:+.3g}, by contribution")


def pareto(
    systems: AutoRanker | Mapping[str, tuple[float, float]],
    measure: str = "NDCG@10",
    cost: str = "seconds to train",
) -> Any:
    """Plot quality against time, with the systems that no other one beats in both joined.

    Parameters
    ----------
    systems : {name: (time, quality)}, or a fitted AutoRanker, whose candidates are shown
    measure, cost : str, the titles of the axes

    Examples
    --------
    >>> chart = pareto({"small": (1.0, 0.70), "large": (9.0, 0.74), "worse": (9.5, 0.71)})
    >>> rows = next(iter(chart.to_dict()["datasets"].values()))
    >>> [row["name"] for row in rows if row["best"]]
    ['small', 'large']
    """
    if isinstance(systems, AutoRanker):
        judged = [one for one in systems.results_ if one.scores is not None]
        if not judged:
            raise ParameterError("plot.pareto: this AutoRanker did not evaluate its candidates.")
        total = sum(one.seconds for one in judged)
        scores = judged[0].scores
        measure = str(scores.measures[0]) if scores is not None else measure
        systems = {
            one.name: (total if one.name == ENSEMBLE else one.seconds, one.goodness)
            for one in judged
        }
    if not systems:
        raise ParameterError("plot.pareto: give {name: (time, quality)}.")
    return _chart(charts.pareto(systems, cost, measure), f"{measure} against {cost}")


def bounds(found: Bounds | Mapping[str, Bounds]) -> Any:
    """Plot bounds of one or several models next to the truth, on a logarithmic scale.

    Bounds that are infinite are left out; their truth is shown.

    Parameters
    ----------
    found : what ``model.bounds(X, y)`` returned, or {name: that}
    """
    groups = {"": found} if isinstance(found, Bounds) else found
    entries = [
        (f"{name}: {entry.name}" if name else entry.name, entry.bound, entry.truth)
        for name, group in groups.items()
        for entry in group.entries
    ]
    return _chart(charts.bounds(entries), "Bounds of theory next to the truth")


def calibration(table: Calibration) -> Any:
    """Plot observed against predicted click rates; a calibrated model follows the dotted line.

    Parameters
    ----------
    table : what :func:`rankwright.feedback.calibration` returned
    """
    high = float(max(table.predicted.max(), table.observed.max(), 1e-9))
    spec = charts.calibration(table.predicted, table.observed, high)
    return _chart(spec, "Calibration of click rates")


def _kind(model: BaseEstimator) -> str:
    return type(model[-1] if hasattr(model, "steps") else model).__name__


def _chart(spec: Spec, title: str | None = None) -> Any:
    try:
        import altair
    except ImportError:
        fault = "charts need altair: pip install 'rankwright[plot]'."
        raise ParameterError(fault) from None
    plain = {key: value for key, value in spec.items() if key != "autosize"}
    if plain.get("width") == "container":
        plain["width"] = 480
    if title is not None:
        plain |= {"title": title, "padding": 12}
    return _for_notebooks(altair.Chart.from_dict(_printable(plain)))


class _Picture:
    """How a chart shows itself in a notebook: Vega-Lite where it is built in, else as a picture.

    Altair's own way loads scripts from the network. Who has chosen a renderer of Altair gets it.
    """

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> Any:
        import altair

        if altair.renderers.active != "default" or find_spec("vl_convert") is None:
            return super()._repr_mimebundle_(*args, **options)  # type: ignore[misc]
        import vl_convert

        spec = self.to_dict()  # type: ignore[attr-defined]
        version = altair.SCHEMA_VERSION.partition(".")[0]
        return {
            f"application/vnd.vegalite.{version}+json": spec,
            "image/svg+xml": vl_convert.vegalite_to_svg(spec),
            "text/plain": f"a chart: {spec.get('title', '')}",
        }


def _for_notebooks(chart: Chart) -> Any:
    """The same chart, as a subclass of its class; Altair's __setattr__ would make it a property."""
    kind = type(chart)
    shown = type(kind.__name__, (_Picture, kind), {"__module__": kind.__module__})
    object.__setattr__(chart, "__class__", shown)
    return chart


def _printable(spec: object) -> Any:
    """The same on a white background, in dark text: pages choose colors, notebooks cannot."""
    if isinstance(spec, dict):
        return {key: _printable(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_printable(value) for value in spec]
    return {"currentColor": INK, "transparent": PAPER}.get(str(spec), spec)


def _check_systems(systems: Mapping[str, Any], *names: str) -> None:
    if isinstance(systems, Scores) or not isinstance(systems, Mapping) or not systems:
        raise ParameterError("pass the systems as {name: scores}.")
    for name in names:
        if name not in systems:
            raise ParameterError(f"there is no system {name!r}; there are {', '.join(systems)}.")


def _per_query(scores: Scores, ids: list[Any], measure: str | Measure) -> FloatArray:
    """The value of each of these queries, NaN where the system was not judged."""
    values = dict(zip(scores.query_ids.tolist(), scores.per_query(measure), strict=True))
    return np.array([values.get(query, np.nan) for query in ids])
