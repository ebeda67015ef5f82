"""Charts as Vega-Lite specifications: plain dictionaries, numbers in, nothing drawn yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Spec = dict[str, Any]
MOST_POINTS = 300  # of one line: more cannot be seen, and make the page heavy

# Of one lightness on white and on near-black, told apart with any kind of color vision.
COLOURS = ("#2b7bba", "#d55e00", "#008f68", "#b0609b", "#a67c00", "#3a9cc9", "#8c6d5a", "#7a7a7a")
GOOD, BAD = COLOURS[0], COLOURS[1]
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3], [10, 4], [3, 6])

CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "range": {"category": list(COLOURS)},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "labelSeparation": 6,
        "titleFontSize": 12,
        "domainColor": "#8888",
        "tickColor": "#8888",
        "gridColor": "#8883",
    },
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 12,
        "labelLimit": 240,
        "orient": "bottom",
        "direction": "vertical",
        "columns": 2,
        "title": None,
        "symbolStrokeWidth": 2,
    },
    "title": {"color": "currentColor", "fontSize": 13, "anchor": "start"},
}


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


def _by(field: str, names: Sequence[str]) -> Spec:
    """Color by system, in the order of the table."""
    return {"field": field, "type": "nominal", "sort": list(names), "scale": {"domain": [*names]}}


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
    y = {"field": "system", "type": "nominal", "sort": list(names), "title": None}
    x = {
        "type": "quantitative",
        "scale": {"zero": False},
        "title": measure,
        "axis": {"tickCount": 5, "labelOverlap": True},
    }
    text = {"labelLimit": 180}
    return _chart(
        f"Mean {measure} of each system with its bootstrap interval.",
        rows,
        28 * len(rows) + 10,
        encoding={"y": {**y, "axis": text}},
        layer=[
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, **_marked()},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
                "encoding": {
                    "x": {**x, "field": "mean"},
                    **_marked(),
                    "tooltip": [
                        {"field": "system"},
                        *({"field": f, "format": ".4f"} for f in ("mean", "low", "high")),
                    ],
                },
            },
        ],
    )


def _marked() -> Spec:
    return {
        "color": {
            "condition": {"test": "datum.best", "value": GOOD},
            "value": COLOURS[7],
        }
    }


def lines(series: Mapping[str, ArrayLike], x_title: str, y_title: str, *, step: int = 1) -> Spec:
    """A line for each name, over step, 2 step, 3 step, ...; long ones thinned out."""
    rows: list[Spec] = []
    for name, values in series.items():
        array = np.asarray(values, dtype=np.float64)
        rows += [
            {"name": name, "x": (place + 1) * step, "y": float(array[place])}
            for place in _some(len(array)).tolist()
            if np.isfinite(array[place])
        ]
    names = list(series)
    return _chart(
        f"{y_title} by {x_title}.",
        rows,
        280,
        mark={"type": "line", "strokeWidth": 2, "tooltip": True},
        encoding={
            "x": {
                "field": "x",
                "type": "quantitative",
                "title": x_title,
                "axis": {"tickMinStep": 1, "tickCount": 8, "labelOverlap": True},
            },
            "y": {
                "field": "y",
                "type": "quantitative",
                "title": y_title,
                "scale": {"zero": False},
            },
            "color": _by("name", names),
            "strokeDash": {
                **_by("name", names),
                "scale": {"domain": names, "range": [DASHES[k % 8] for k in range(len(names))]},
            },
        },
    )


def points(names: Sequence[str], ids: Sequence[Any], matrix: ArrayLike, measure: str) -> Spec:
    """A point for each query and system; queries sorted by the first system."""
    values = np.asarray(matrix, dtype=np.float64)
    order = np.argsort(-np.nan_to_num(values[0], nan=-np.inf), kind="stable")
    order = order[_some(len(order))]
    rows = [
        {"system": name, "query": str(ids[q]), "place": k + 1, "value": float(values[s, q])}
        for s, name in enumerate(names)
        for k, q in enumerate(order.tolist())
        if np.isfinite(values[s, q])
    ]
    return _chart(
        f"{measure} of each query for each system; queries sorted by {names[0]}.",
        rows,
        280,
        mark={"type": "point", "filled": True, "size": 36, "opacity": 0.75},
        encoding={
            "x": {
                "field": "place",
                "type": "quantitative",
                "title": f"queries, sorted by {names[0]}",
                "scale": {"nice": False, "zero": False},
                "axis": {"tickMinStep": 1, "tickCount": 8, "format": "d"},
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": measure,
                "scale": {"zero": False},
            },
            "color": _by("system", names),
            "shape": _by("system", names),
            "tooltip": [
                {"field": "system"},
                {"field": "query"},
                {"field": "value", "format": ".4f"},
            ],
        },
    )


def signed_bars(ids: Sequence[Any], difference: ArrayLike, title: str) -> Spec:
    """The difference of two systems for each query, largest first."""
    gain = np.asarray(difference, dtype=np.float64)
    kept = np.flatnonzero(np.isfinite(gain))
    order = kept[np.argsort(-gain[kept], kind="stable")]
    order = order[_some(len(order))]
    rows = [
        {"query": str(ids[q]), "place": k + 1, "gain": float(gain[q])}
        for k, q in enumerate(order.tolist())
    ]
    return _chart(
        f"{title}, query by query, largest first.",
        rows,
        220,
        mark={"type": "bar", "tooltip": True},
        encoding={
            "x": {
                "field": "place",
                "type": "ordinal",
                "title": "queries, sorted by the difference",
                "axis": {"labels": False, "ticks": False},
            },
            "y": {"field": "gain", "type": "quantitative", "title": "difference"},
            "color": {
                "condition": {"test": "datum.gain < 0", "value": BAD},
                "value": GOOD,
            },
            "tooltip": [{"field": "query"}, {"field": "gain", "format": "+.4f"}],
        },
    )


def curve(x: ArrayLike, y: ArrayLike, title: str, limits: tuple[float, float]) -> Spec:
    """What one feature adds to the score."""
    pairs = zip(np.asarray(x).tolist(), np.asarray(y).tolist(), strict=True)
    return _chart(
        f"How the score changes with {title}.",
        [{"x": a, "y": b} for a, b in pairs],
        140,
        mark={"type": "line", "strokeWidth": 2, "tooltip": True},
        encoding={
            "x": {
                "field": "x",
                "type": "quantitative",
                "title": title,
                "scale": {"zero": False},
                "axis": {"tickCount": 4},
            },
            "y": {
                "field": "y",
                "type": "quantitative",
                "title": "adds",
                "scale": {"domain": list(limits)},
                "axis": {"tickCount": 4},
            },
            "color": {"value": GOOD},
        },
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
        share = counts / max(int(counts.sum()), 1)
        rows += [
            {"grade": name, "x": float((a + b) / 2), "share": float(part)}
            for a, b, part in zip(edges[:-1], edges[1:], share, strict=True)
        ]
    marks = [{"cut": float(cut)} for cut in np.asarray(cuts).tolist() if np.isfinite(cut)]
    return _chart(
        "Scores of the items of each grade, with the thresholds between predicted grades.",
        rows,
        260,
        layer=[
            {
                "mark": {"type": "area", "opacity": 0.35, "line": True, "interpolate": "monotone"},
                "encoding": {
                    "x": {"field": "x", "type": "quantitative", "title": "score"},
                    "y": {
                        "field": "share",
                        "type": "quantitative",
                        "stack": None,
                        "title": "share of the grade's items",
                        "axis": {"format": "%"},
                    },
                    "color": {**_by("grade", names), "legend": {"title": "true grade"}},
                },
            },
            {
                "data": {"values": marks},
                "mark": {
                    "type": "rule",
                    "strokeDash": [5, 4],
                    "strokeWidth": 1.5,
                    "color": "currentColor",
                },
                "encoding": {"x": {"field": "cut", "type": "quantitative"}},
            },
        ],
    )


def _some(n: int) -> NDArray[np.int64]:
    """Places of at most MOST_POINTS of n, the first and the last among them."""
    if n <= MOST_POINTS:
        return np.arange(n, dtype=np.int64)
    return np.unique(np.linspace(0, n - 1, MOST_POINTS).round().astype(np.int64))
