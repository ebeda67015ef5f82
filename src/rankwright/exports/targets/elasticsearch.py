"""The learning-to-rank plugins of Elasticsearch and OpenSearch: the body of ``_createmodel``."""

from __future__ import annotations

import json
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.exports.forest import Forest, Leaf, Node, float32_test, number32, without_categories
from rankwright.exports.form import Form
from rankwright.exports.target import Files, Options, Reading, Target, json_of
from rankwright.exports.targets.ranklib import ranklib_text
from rankwright.scoring.linear import Linear

MARGIN = 1.0 + 2.0**-16  # float32 sums may end a little below the exact lowest score


class Upload(NamedTuple):
    """The model of an upload body, and the constant in it."""

    type: str
    definition: str
    normalizers: dict[str, Any]
    constant: float


class Elasticsearch(Target):
    """``POST _ltr/_featureset/SET/_createmodel``; the plugin's features and scores are float32."""

    name: ClassVar[str] = "elasticsearch"
    dtype: ClassVar[type] = np.float32
    options: ClassVar[frozenset[str]] = frozenset({"constant", "feature_set"})

    holds: ClassVar[str] = "the plugin holds linear models and trees only"

    def write(self, form: Form, options: Options) -> Files:
        upload = _upload(form, options)
        model: dict[str, Any] = {"type": upload.type, "definition": upload.definition}
        if upload.normalizers:
            model["feature_normalizers"] = upload.normalizers
        features = [_feature(name, form.takes_nan) for name in form.names]
        return {
            "": json_of({"model": {"name": options.name, "model": model}}),
            ".featureset.json": json_of(
                {"featureset": {"name": options.store, "features": features}}
            ),
        }

    def read(self, files: Files, X: FloatArray, form: Form, options: Options) -> Reading:
        model = json.loads(files[""])["model"]["model"]
        scores = score_upload(model, list(form.names), X)
        reader = f"float32 re-reading of the plugin's rules ({model['type']}; plugin not run)"
        return Reading(scores, reader, constant=_upload(form, options).constant)


class OpenSearch(Elasticsearch):
    """The same body: OpenSearch's plugin is a fork."""

    name: ClassVar[str] = "opensearch"


def _feature(name: str, takes_nan: bool) -> dict[str, Any]:
    """A query that gives the value of a field: to be replaced by the feature's own query.

    A document that a feature's query does not match lacks the feature.
    """
    matched: dict[str, Any] = {"exists": {"field": name}} if takes_nan else {"match_all": {}}
    value = {"field": name} if takes_nan else {"field": name, "missing": 0}
    query = {"function_score": {"query": matched, "field_value_factor": value}}
    return {"name": name, "params": [], "template_language": "mustache", "template": query}


def _upload(form: Form, options: Options) -> Upload:
    forest = form.forest
    if forest is not None:
        constant = _constant(options, forest.extremes()[0])
        if forest.curves() is not None and (not form.takes_nan or forest.missing_is_zero):
            return Upload("model/ranklib", ranklib_text(forest, constant), {}, constant)
        definition = {"objective": "rank:pairwise", "splits": _splits(forest, constant, form.names)}
        return Upload("model/xgboost+json", json.dumps(definition, allow_nan=False), {}, constant)
    constant = _constant(options, 0.0 if options.lowest is None else options.lowest)
    body, normalizers = form.body, _normalizers(form)
    assert isinstance(body, Linear)
    if body.intercept + constant:
        return Upload("model/ranklib", ranklib_text(body, constant), normalizers, constant)
    weights = zip(form.names, map(number32, body.coef.tolist()), strict=True)
    return Upload("model/linear", json.dumps(dict(weights)), normalizers, constant)


def _constant(options: Options, lowest: float) -> float:
    """What is added so that no score is negative, which Lucene forbids."""
    if options.constant is not None:
        return options.constant
    return max(0.0, -lowest * MARGIN)


def _normalizers(form: Form) -> dict[str, Any]:
    """Scalers in front of a linear model, as the plugin's normalizers."""
    if not form.steps:
        return {}
    assert form.affine is not None
    return {
        name: {"standard": {"mean": mean, "standard_deviation": deviation}}
        for name, mean, deviation in normal_parts(form)
    }


def normal_parts(form: Form) -> list[tuple[str, float, float]]:
    """Name, mean and deviation of each feature's scaler: (x - mean) / deviation."""
    assert form.affine is not None
    factor, offset = form.affine
    columns = zip(form.names, -offset / factor, 1.0 / factor, strict=True)
    return [(name, number32(mean), number32(deviation)) for name, mean, deviation in columns]


def _splits(forest: Forest, constant: float, names: tuple[str, ...]) -> list[dict[str, Any]]:
    trees = [*without_categories(forest).trees]
    if constant or not trees:
        trees.append(Leaf(constant))
    return [_tree(tree, names) for tree in trees]


def _tree(tree: Node, names: tuple[str, ...]) -> dict[str, Any]:
    count = iter(range(1 << 31))

    def node_of(node: Node, depth: int) -> dict[str, Any]:
        number = next(count)
        if isinstance(node, Leaf):
            return {"nodeid": number, "leaf": number32(node.value)}
        limit, yes, no, missing = float32_test(node)
        children = [node_of(yes, depth + 1), node_of(no, depth + 1)]
        first, second = children[0]["nodeid"], children[1]["nodeid"]
        return {
            "nodeid": number,
            "depth": depth,
            "split": names[node.feature],
            "split_condition": number32(limit),
            "yes": first,
            "no": second,
            "missing": first if missing else second,
            "children": children,
        }

    return node_of(tree, 0)


def score_upload(model: dict[str, Any], names: list[str], X: FloatArray) -> FloatArray:
    """The plugin's rules in float32, from the uploaded model alone."""
    rows = X.astype(np.float32)
    if model["type"] != "model/xgboost+json":
        rows = np.nan_to_num(rows, nan=0.0)
    for name, normalizer in model.get("feature_normalizers", {}).items():
        column, part = names.index(name), normalizer["standard"]
        mean, deviation = np.float32(part["mean"]), np.float32(part["standard_deviation"])
        rows[:, column] = (rows[:, column] - mean) / deviation
    if model["type"] == "model/ranklib":
        from rankwright.persist.foreign import read_ranklib

        scorer = read_ranklib(model["definition"].encode(), len(names))
        scores = scorer.decision_function(rows.astype(np.float64)).astype(np.float32)
        return scores.astype(np.float64)
    definition, scores = json.loads(model["definition"]), np.zeros(len(rows), np.float32)
    if model["type"] == "model/linear":
        for name, weight in definition.items():
            scores += rows[:, names.index(name)] * np.float32(weight)
    else:
        for tree in definition["splits"]:
            _add_leaves(tree, names, rows, scores)
    return scores.astype(np.float64)


def _add_leaves(
    tree: dict[str, Any], names: list[str], rows: NDArray[np.float32], scores: NDArray[np.float32]
) -> None:
    stack = [(tree, np.arange(len(rows)))]
    while stack:
        node, chosen = stack.pop()
        if "leaf" in node:
            scores[chosen] += np.float32(node["leaf"])
            continue
        x = rows[chosen, names.index(node["split"])]
        yes = x < np.float32(node["split_condition"])
        if node["missing"] == node["yes"]:
            yes |= np.isnan(x)
        stack += [(node["children"][0], chosen[yes]), (node["children"][1], chosen[~yes])]
