"""Charts as Vega-Lite specifications: plain dictionaries of numbers, not drawn yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Spec = dict[str, Any]
MAX_POINTS = 300  # per line: more cannot be seen and make the page large

# Equally light on white and on near-black, distinguishable with any kind of color vision.
COLORS = ("#2b7bba", "#d55e00", "#008f68", "#b0609b", "#a67c00", "#3a9cc9", "#8c6d5a", "#7a7a7a")
GOOD, BAD, GRAY = COLORS[0], COLORS[1], COLORS[7]
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3], [10, 4], [3, 6])

_TEXT = {"labelColor": "currentColor", "titleColor": "currentColor", "labelFontSize": 12}
CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "range": {"category": list(COLORS)},
    "axis": {
        **_TEXT,
        "titleFontWeight": "normal",
        "labelSeparation": 6,
        "titleFontSize": 12,
        "domainColor": "#8888",
        "tickColor": "#8888",
        "gridColor": "#8883",
    },
    "legend": {
        **_TEXT,
        "labelLimit": 300,
        "orient": "bottom",
        "direction": "vertical",
        "columns": 2,
        "title": None,
        "symbolStrokeWidth": 2,
    },
    "title": {"color": "currentColor", "fontSize": 13, "anchor": "start"},
}
BY_SIGN = {"condition": {"test": "datum.value < 0", "value": BAD}, "value": GOOD}
_LINE = {"type": "line", "strokeWidth": 2, "tooltip": True}
_FREE = {"zero": False}  # a scale that need not include 0
_RULE = {"type": "rule", "strokeWidth": 3, "opacity": 0.5}
_DOT = {"type": "point", "filled": True}


def intervals(
    names: Sequence[str], means: ArrayLike, bounds: ArrayLike, measure: str, best: Sequence[bool]
) -> Spec:
    """A dot and its interval for each system."""
    rows = [
        {"system": name, "mean": float(mean), "low": float(low), "high": float(high), "best": mark}
        for name, mean, (low, high), mark in zip(
            names, np.asarray(means), np.asarray(bounds), map(bool, best), strict=True
        )
    ]
    axis = {"tickCount": 5, "labelOverlap": True}
    low, mean = (_number(f, measure, scale=_FREE, axis=axis) for f in ("low", "mean"))
    color = {"condition": {"test": "datum.best", "value": GOOD}, "value": GRAY}
    labels = {"title": None, "axis": {"labelLimit": 290}}
    tooltip = [{"field": "system"}, *(_exact(f) for f in ("mean", "low", "high"))]
    dots = {"x": mean, "color": color, "tooltip": tooltip}
    return _chart(
        f"Mean {measure} of each system with its bootstrap interval.",
        rows,
        28 * len(rows) + 10,
        encoding={"y": {"field": "system", "type": "nominal", "sort": list(names), **labels}},
        layer=[
            {"mark": _RULE, "encoding": {"x": low, "x2": {"field": "high"}, "color": color}},
            {"mark": {**_DOT, "size": 90, "opacity": 1}, "encoding": dots},
        ],
    )


def lines(series: Mapping[str, ArrayLike], x_title: str, y_title: str, *, step: int = 1) -> Spec:
    """A line for each name, at step, 2 step, 3 step, ...; long lines are thinned."""
    rows: list[Spec] = []
    for name, values in series.items():
        array = np.asarray(values, dtype=np.float64)
        rows += [
            {"name": name, "x": (k + 1) * step, "y": float(array[k])}
            for k in _thinned(len(array)).tolist()
            if np.isfinite(array[k])
        ]
    names = list(series)
    dashes = {"domain": names, "range": [DASHES[k % 8] for k in range(len(names))]}
    axis = {"tickMinStep": 1, "tickCount": 8, "labelOverlap": True}
    return _chart(
        f"{y_title} by {x_title}.",
        rows,
        280,
        mark=_LINE,
        encoding={
            "x": _number("x", x_title, axis=axis),
            "y": _number("y", y_title, scale=_FREE),
            "color": _by("name", names),
            "strokeDash": {**_by("name", names), "scale": dashes},
        },
    )


def points(names: Sequence[str], ids: Sequence[Any], matrix: ArrayLike, measure: str) -> Spec:
    """A point for each query and system; queries sorted by the first system."""
    values = np.asarray(matrix, dtype=np.float64)
    order = np.argsort(-np.nan_to_num(values[0], nan=-np.inf), kind="stable")
    order = order[_thinned(len(order))]
    rows = [
        {"system": name, "query": str(ids[q]), "place": k + 1, "value": float(values[s, q])}
        for s, name in enumerate(names)
        for k, q in enumerate(order.tolist())
        if np.isfinite(values[s, q])
    ]
    scale = {"nice": False, "zero": False}
    axis = {"tickMinStep": 1, "tickCount": 8, "format": "d"}
    tooltip = [{"field": "system"}, {"field": "query"}, _exact("value")]
    return _chart(
        f"{measure} of each query for each system; queries sorted by {names[0]}.",
        rows,
        280,
        mark={**_DOT, "size": 36, "opacity": 0.75},
        encoding={
            "x": _number("place", f"queries, sorted by {names[0]}", scale=scale, axis=axis),
            "y": _number("value", measure, scale=_FREE),
            "color": _by("system", names),
            "shape": _by("system", names),
            "tooltip": tooltip,
        },
    )


def signed_bars(ids: Sequence[Any], difference: ArrayLike, title: str) -> Spec:
    """The difference of two systems for each query, largest first."""
    gain = np.asarray(difference, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(gain))
    order = known[np.argsort(-gain[known], kind="stable")]
    order = order[_thinned(len(order))]
    rows = [
        {"query": str(ids[q]), "place": k + 1, "gain": float(gain[q])}
        for k, q in enumerate(order.tolist())
    ]
    title_x, axis = "queries, sorted by the difference", {"labels": False, "ticks": False}
    return _chart(
        f"{title}, query by query, largest first.",
        rows,
        220,
        mark={"type": "bar", "tooltip": True},
        encoding={
            "x": {"field": "place", "type": "ordinal", "title": title_x, "axis": axis},
            "y": _number("gain", "difference"),
            "color": {"condition": {"test": "datum.gain < 0", "value": BAD}, "value": GOOD},
            "tooltip": [{"field": "query"}, _exact("gain", "+.4f")],
        },
    )


def bars(values: Mapping[str, float], title: str) -> Spec:
    """A horizontal bar for each name, in the given order."""
    names = list(values)
    return _chart(
        f"{title}: " + ", ".join(f"{name} {values[name]:.3g}" for name in names[:20]),
        [{"name": name, "value": float(values[name])} for name in names],
        18 * len(names) + 10,
        mark={"type": "bar", "tooltip": True, "color": GOOD},
        encoding={
            "x": _number("value", title),
            "y": {"field": "name", "type": "nominal", "title": None, "sort": names},
        },
    )


def curve(
    x: ArrayLike, y: ArrayLike, title: str, limits: tuple[float, float], is_step: bool = False
) -> Spec:
    """What one feature adds to the score; of a step function y holds up to x."""
    pairs = zip(np.asarray(x).tolist(), np.asarray(y).tolist(), strict=True)
    axis = {"tickCount": 4}
    return _chart(
        f"How the score changes with {title}.",
        [{"x": a, "y": b} for a, b in pairs],
        140,
        mark={**_LINE, "interpolate": "step-before"} if is_step else _LINE,
        encoding={
            "x": _number("x", title, scale=_FREE, axis=axis),
            "y": _number("y", "adds", scale={"domain": list(limits)}, axis=axis),
            "color": {"value": GOOD},
        },
    )


def bounds(entries: Sequence[tuple[str, float, float]]) -> Spec:
    """The bound and the truth of each (name, bound, truth), on a logarithmic scale."""
    rows = [
        {"name": name, "what": what, "value": float(value)}
        for name, bound, truth in entries
        for what, value in (("bound", bound), ("truth", truth))
        if np.isfinite(value) and value > 0
    ]
    names = list(dict.fromkeys(name for name, _, _ in entries))
    labels = {"title": None, "axis": {"labelLimit": 290}}
    scale = {"scale": {"type": "log", "nice": True}}
    return _chart(
        "Bounds and the truth.",
        rows,
        28 * len(names) + 10,
        mark={**_DOT, "size": 90, "opacity": 1},
        encoding={
            "y": {"field": "name", "type": "nominal", "sort": names, **labels},
            "x": _number("value", "bound and truth", **scale),
            "color": _by("what", ["bound", "truth"]),
            "shape": _by("what", ["bound", "truth"]),
            "tooltip": [{"field": "name"}, {"field": "what"}, _exact("value", ".4g")],
        },
    )


def calibration(predicted: ArrayLike, observed: ArrayLike, high: float) -> Spec:
    """Observed rates over predicted ones, and the line on which they are equal."""
    pairs = zip(np.asarray(predicted).tolist(), np.asarray(observed).tolist(), strict=True)
    x, y = _number("x", "predicted click rate"), _number("y", "observed click rate")
    equal = {"type": "line", "strokeDash": [2, 3], "strokeWidth": 1, "color": "currentColor"}
    ends = {"values": [{"x": 0.0, "y": 0.0}, {"x": high, "y": high}]}
    return _chart(
        "Observed click rates over predicted ones.",
        [{"x": a, "y": b} for a, b in pairs],
        260,
        layer=[
            {"data": ends, "mark": equal, "encoding": {"x": x, "y": y}},
            {
                "mark": {**_LINE, "point": True},
                "encoding": {"x": x, "y": y, "color": {"value": GOOD}},
            },
        ],
    )


def histogram(scores: ArrayLike, y: ArrayLike, cuts: ArrayLike) -> Spec:
    """Scores by true grade, and the thresholds that cut them into predicted grades."""
    values, grades = np.asarray(scores, dtype=np.float64), np.asarray(y)
    n_bins = int(np.clip(np.sqrt(len(values)) / 1.5, 8, 40))
    edges = np.linspace(values.min(), values.max() + 1e-9, n_bins + 1)
    names = [f"{grade:g}" for grade in np.unique(grades).tolist()]
    rows: list[Spec] = []
    for grade, name in zip(np.unique(grades), names, strict=True):
        counts, _ = np.histogram(values[grades == grade], edges)
        shares = counts / max(int(counts.sum()), 1)
        rows += [
            {"grade": name, "x": float((a + b) / 2), "share": float(share)}
            for a, b, share in zip(edges[:-1], edges[1:], shares, strict=True)
        ]
    marks = [{"cut": float(cut)} for cut in np.asarray(cuts).tolist() if np.isfinite(cut)]
    dashed = {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5, "color": "currentColor"}
    area = {"type": "area", "opacity": 0.35, "line": True, "interpolate": "monotone"}
    share = _number("share", "share of the grade's items", stack=None, axis={"format": "%"})
    color = {**_by("grade", names), "legend": {"title": "true grade"}}
    cut = {"x": {"field": "cut", "type": "quantitative"}}
    return _chart(
        "Scores of the items of each grade, with the thresholds between predicted grades.",
        rows,
        260,
        layer=[
            {"mark": area, "encoding": {"x": _number("x", "score"), "y": share, "color": color}},
            {"data": {"values": marks}, "mark": dashed, "encoding": cut},
        ],
    )


def position_bias(values: ArrayLike, std: ArrayLike) -> Spec:
    """The examination probability of each position, with two standard errors on either side."""
    pairs = zip(np.asarray(values).tolist(), np.asarray(std).tolist(), strict=True)
    rows = [
        {
            "position": k,
            "value": value,
            "low": max(value - 2 * error, 0.0),
            "high": value + 2 * error,
        }
        for k, (value, error) in enumerate(pairs, 1)
    ]
    ticks = {"values": list(range(1, len(rows) + 1))} if len(rows) <= 20 else {"tickMinStep": 1}
    x = _number("position", "position", scale={**_FREE, "nice": False}, axis=ticks)
    y, low = (_number(field, "examination probability") for field in ("value", "low"))
    color = {"value": GOOD}
    tooltip = [{"field": "position"}, *(_exact(field, ".3f") for field in ("value", "low", "high"))]
    return _chart(
        "Examination probability of each position.",
        rows,
        260,
        layer=[
            {
                "mark": _RULE,
                "encoding": {"x": x, "y": low, "y2": {"field": "high"}, "color": color},
            },
            {
                "mark": {**_LINE, "point": True},
                "encoding": {"x": x, "y": y, "color": color, "tooltip": tooltip},
            },
        ],
    )


def agreement(judges: Sequence[str], pairs: Sequence[tuple[str, str, float, int]]) -> Spec:
    """A cell for each pair of judges, colored by kappa and labeled with it."""
    rows = [
        {"first": one, "second": two, "kappa": _rounded(kappa), "items": n}
        for first, second, kappa, n in pairs
        for one, two in ((first, second), (second, first))
    ]
    x, y = (
        {"field": field, "type": "nominal", "sort": list(judges), "title": None}
        for field in ("first", "second")
    )
    scale = {
        "domain": [-0.2, 0.4, 1.0],
        "range": ["#f6d5c3", "#ffffff", "#9ec9e9"],
    }
    kappa = {"field": "kappa", "type": "quantitative"}
    tooltip = [{"field": "first"}, {"field": "second"}, _exact("kappa", ".3f"), {"field": "items"}]
    return _chart(
        "Cohen's kappa of every two judges.",
        rows,
        40 * len(judges) + 10,
        encoding={"x": x, "y": y},
        layer=[
            {
                "mark": {"type": "rect", "stroke": "#8888"},
                "encoding": {
                    "color": {**kappa, "scale": scale, "legend": None},
                    "tooltip": tooltip,
                },
            },
            {
                "mark": {"type": "text", "color": "#1f2328"},
                "encoding": {"text": {**kappa, "format": ".2f"}},
            },
        ],
    )


def _rounded(value: float) -> float | None:
    return round(value, 4) if np.isfinite(value) else None


def pareto(systems: Mapping[str, tuple[float, float]], cost: str, quality: str) -> Spec:
    """A point per system; those that no other one beats in both are joined by a line."""
    rows = [
        {
            "name": name,
            "cost": float(time),
            "quality": float(value),
            "best": not any(
                t <= time and q >= value and (t < time or q > value) for t, q in systems.values()
            ),
        }
        for name, (time, value) in systems.items()
    ]
    x = _number("cost", cost, scale={"type": "log", "nice": True, "padding": 30})
    y = _number("quality", quality, scale=_FREE)
    color = {"condition": {"test": "datum.best", "value": GOOD}, "value": GRAY}
    tooltip = [{"field": "name"}, _exact("cost", ".4g"), _exact("quality")]
    text = {"type": "text", "dy": -10, "color": "currentColor"}
    line = {**_LINE, "color": GOOD, "interpolate": "step-after", "opacity": 0.6}
    return _chart(
        f"{quality} by {cost}.",
        rows,
        300,
        encoding={"x": x, "y": y},
        layer=[
            {"transform": [{"filter": "datum.best"}], "mark": line},
            {"mark": {**_DOT, "size": 80}, "encoding": {"color": color, "tooltip": tooltip}},
            {"mark": text, "encoding": {"text": {"field": "name"}}},
        ],
    )


def _chart(description: str, rows: list[Spec], height: int, **parts: Any) -> Spec:
    return {
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": rows},
        "config": CONFIG,
        **parts,
    }


def _number(field: str, title: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def _exact(field: str, form: str = ".4f") -> Spec:
    return {"field": field, "format": form}


def _by(field: str, names: Sequence[str]) -> Spec:
    return {"field": field, "type": "nominal", "sort": list(names), "scale": {"domain": [*names]}}


def _thinned(n: int) -> NDArray[np.int64]:
    """At most MAX_POINTS of the indices 0 .. n - 1, including the first and the last."""
    if n <= MAX_POINTS:
        return np.arange(n, dtype=np.int64)
    return np.unique(np.linspace(0, n - 1, MAX_POINTS).round().astype(np.int64))
