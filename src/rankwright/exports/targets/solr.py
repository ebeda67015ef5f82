"""Solr's learning-to-rank module: linear models, trees and networks for its model store."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.exceptions import ParameterError
from rankwright.exports.forest import (
    FLOAT32_MAX,
    Leaf,
    Node,
    floor32,
    number32,
    without_categories,
)
from rankwright.exports.form import Form
from rankwright.exports.target import (
    EXACT,
    Files,
    Options,
    Reading,
    Support,
    Target,
    json_of,
)
from rankwright.exports.targets.elasticsearch import normal_parts

PACKAGE = "org.apache.solr.ltr"
SLACK = np.float32(1e-6)  # Solr adds it to every threshold


class Solr(Target):
    """``PUT schema/model-store``; features, thresholds and scores are float32."""

    name: ClassVar[str] = "solr"
    dtype: ClassVar[type] = np.float32
    options: ClassVar[frozenset[str]] = frozenset({"feature_set"})

    holds: ClassVar[str] = "Solr holds linear models, trees and networks"

    def limits(self, form: Form) -> Support:
        body: Any = form.body
        if form.linear is None or not body.intercept:
            return EXACT
        lost = f"Solr's LinearModel has no intercept, and this model's is {body.intercept:g}"
        return Support("order only", lost)

    def write(self, form: Form, options: Options) -> Files:
        kind, params = self._params(form)
        features: list[dict[str, Any]] = [{"name": name} for name in form.names]
        if form.steps:
            for feature, (_, mean, deviation) in zip(features, normal_parts(form), strict=True):
                norm = {"avg": repr(mean), "std": repr(deviation)}
                kind_of_norm = f"{PACKAGE}.norm.StandardNormalizer"
                feature["norm"] = {"class": kind_of_norm, "params": norm}
        model = {"class": f"{PACKAGE}.model.{kind}", "name": options.name, "store": options.store}
        defaults = {"defaultValue": "NaN"} if form.takes_nan else {}
        store = [
            {
                "store": options.store,
                "name": name,
                "class": f"{PACKAGE}.feature.FieldValueFeature",
                "params": {"field": name, **defaults},
            }
            for name in form.names
        ]
        full = {**model, "features": features, "params": params}
        return {"": json_of(full), ".features.json": json_of(store)}

    def _params(self, form: Form) -> tuple[str, dict[str, Any]]:
        body: Any = form.body
        if form.linear is not None:
            weights = dict(zip(form.names, map(number32, body.coef.tolist()), strict=True))
            return "LinearModel", {"weights": weights}
        if form.forest is None:
            return "NeuralNetworkModel", {"layers": _layers(form)}
        trees = without_categories(form.forest).trees or (Leaf(0.0),)
        nodes = [{"weight": "1", "root": _node(tree, form)} for tree in trees]
        nulls = {"isNullSameAsZero": False} if form.takes_nan else {}
        return "MultipleAdditiveTreesModel", {**nulls, "trees": nodes}

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        model = json.loads(files[""])
        kind = model["class"].rpartition(".")[2]
        reader = f"float32 re-reading of Solr's rules ({kind}; Solr not run)"
        lost = getattr(form.body, "intercept", 0.0) if kind == "LinearModel" else 0.0
        return Reading(score_model(model, X), reader, constant=-lost)


def _layers(form: Form) -> list[dict[str, Any]]:
    from rankwright.scoring.network import unpack_layers

    body: Any = form.body
    layers = unpack_layers(body.layers.tolist(), body.weights)
    return [
        {
            "matrix": [list(map(number32, row)) for row in table.T.tolist()],
            "bias": list(map(number32, offset.tolist())) or [0.0],
            "activation": "identity" if i == len(layers) - 1 else "tanh",
        }
        for i, (table, offset) in enumerate(layers)
    ]


def _node(node: Node, form: Form) -> dict[str, Any]:
    """A node with numbers as text, as Solr wants them."""
    if isinstance(node, Leaf):
        return {"value": repr(number32(node.value))}
    name, target = form.names[node.feature], min(floor32(node.threshold), FLOAT32_MAX)
    missing = {"missing": "right" if node.default else "left"} if form.takes_nan else {}
    return {
        "feature": name,
        "threshold": "-Infinity" if target == -np.inf else repr(before_slack(target, name)),
        **missing,
        "left": _node(node.low, form),
        "right": _node(node.high, form),
    }


def before_slack(target: float, name: str) -> float:
    """The float32 to which Solr adds 0.000001 and gets the threshold that was meant."""
    target32 = np.float32(target)
    near = np.float32(target32 - SLACK)
    with np.errstate(over="ignore"):
        down, up = (np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf))
    for value in (near, down, up):
        if np.float32(value + SLACK) == target32:
            return number32(float(value))
    raise ParameterError(
        f"export: the threshold {target!r} of feature {name!r} cannot be written for Solr, which "
        "adds 0.000001 to every threshold in float32. Scale that feature up (times 1000) before "
        "training, or use another target."
    )


def score_model(model: dict[str, Any], X: FloatArray) -> FloatArray:
    """Solr's rules in float32, from the uploaded model alone."""
    rows, params = X.astype(np.float32), model["params"]
    names = [feature["name"] for feature in model["features"]]
    if params.get("isNullSameAsZero", True):
        rows = np.nan_to_num(rows, nan=0.0)
    for column, feature in enumerate(model["features"]):
        if "norm" in feature:
            norm = feature["norm"]["params"]
            mean, deviation = np.float32(norm["avg"]), np.float32(norm["std"])
            rows[:, column] = (rows[:, column] - mean) / deviation
    scores = np.zeros(len(rows), np.float32)
    if "weights" in params:
        for column, name in enumerate(names):
            scores += rows[:, column] * np.float32(params["weights"][name])
    for layer in params.get("layers", ()):
        table, bias = np.array(layer["matrix"], np.float32), np.array(layer["bias"], np.float32)
        rows = rows @ table.T + bias
        rows = np.tanh(rows) if layer["activation"] == "tanh" else rows
        scores = rows[:, 0]
    for tree in params.get("trees", ()):
        _add_leaves(tree["root"], np.float32(tree["weight"]), names, rows, scores)
    return scores.astype(np.float64)


def _add_leaves(
    root: dict[str, Any],
    weight: np.float32,
    names: list[str],
    rows: NDArray[np.float32],
    scores: NDArray[np.float32],
) -> None:
    stack = [(root, np.arange(len(rows)))]
    while stack:
        node, chosen = stack.pop()
        if "value" in node:
            scores[chosen] += weight * np.float32(node["value"])
            continue
        x = rows[chosen, names.index(node["feature"])]
        left = x <= np.float32(np.float32(node["threshold"]) + SLACK)
        if node.get("missing") == "left":
            left |= np.isnan(x)
        stack += [(node["left"], chosen[left]), (node["right"], chosen[~left])]
