"""The plugins' formats: strict keys, and a plain re-reading of their rules, row by row in float32.

The plugins are Java and are not run here; the rules are those of their parsers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from exports.random_models import additive, linear_with_intercept, network, scaled_linear, trees
from rankwright.exports.certificate import generated_rows
from rankwright.exports.form import form_of
from rankwright.exports.targets.solr import before_slack
from rankwright.scoring import Additive, Linear

f32 = np.float32
SPLIT_KEYS = {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}
PAIRS = 2.0**-18  # relative: sums of a few dozen float32 terms


def export(model: Any, tmp_path: Path, to: str, **more: Any) -> tuple[Any, Any]:
    """The written file as JSON, and the certificate."""
    certificate = rw.export(model, tmp_path / "m.json", to, **more)
    return json.loads((tmp_path / "m.json").read_text()), certificate


def rows_of(model: Any) -> Any:
    return generated_rows(form_of(model))[0].astype(np.float32).astype(np.float64)[:150]


def branching(seed: int) -> Any:
    """Random trees that test several features each, and take NaN."""
    found = (trees(np.random.default_rng([seed, i])) for i in range(99))
    return next(model for model in found if form_of(model).body.curves() is None)  # type: ignore[union-attr]


def check_node(node: dict[str, Any], names: list[str], seen: set[int]) -> None:
    """A node as the strict parser takes it."""
    assert node["nodeid"] not in seen
    seen.add(node["nodeid"])
    if "leaf" in node:
        assert set(node) == {"nodeid", "leaf"}
        assert float(f32(node["leaf"])) == pytest.approx(node["leaf"], rel=1e-7)
        return
    assert set(node) == SPLIT_KEYS
    assert node["split"] in names
    assert len(node["children"]) == 2
    assert [child["nodeid"] for child in node["children"]] == [node["yes"], node["no"]]
    assert node["missing"] in (node["yes"], node["no"])
    assert np.isfinite(node["split_condition"])
    for child in node["children"]:
        check_node(child, names, seen)


def plain_xgboost(trees: list[Any], row: dict[str, float]) -> float:
    total = f32(0.0)
    for node in trees:
        while "leaf" not in node:
            x = f32(row[node["split"]])
            goes = node["missing"] if np.isnan(x) else None
            if goes is None:
                goes = node["yes"] if f32(node["split_condition"]) > x else node["no"]
            node = next(child for child in node["children"] if child["nodeid"] == goes)
        total = f32(total + f32(node["leaf"]))
    return float(total)


@pytest.mark.parametrize("to", ["elasticsearch", "opensearch"])
@pytest.mark.parametrize("seed", range(4))
def test_trees_have_strict_keys_and_score_as_the_model(seed: int, to: str, tmp_path: Path) -> None:
    model = branching(seed)
    body, certificate = export(model, tmp_path, to, name="shop", feature_set="products")
    assert set(body) == {"model"}
    assert set(body["model"]) == {"name", "model"}
    assert set(body["model"]["model"]) == {"type", "definition"}
    assert body["model"]["model"]["type"] == "model/xgboost+json"
    definition = json.loads(body["model"]["model"]["definition"])
    assert set(definition) == {"objective", "splits"}
    assert definition["objective"] == "rank:pairwise"
    names = certificate.features
    for tree in definition["splits"]:
        check_node(tree, names, set())
    X = rows_of(model)
    found = [plain_xgboost(definition["splits"], dict(zip(names, row, strict=True))) for row in X]
    exact = model.decision_function(X) + certificate.constant
    np.testing.assert_allclose(found, exact, rtol=0, atol=PAIRS * (1 + np.abs(exact).max()))
    assert min(found) >= 0.0


def test_the_feature_set_names_every_feature(tmp_path: Path) -> None:
    model = branching(1)
    rw.export(model, tmp_path / "m.json", "opensearch", feature_set="products")
    skeleton = json.loads((tmp_path / "m.featureset.json").read_text())
    assert set(skeleton) == {"featureset"}
    assert set(skeleton["featureset"]) == {"name", "features"}
    assert skeleton["featureset"]["name"] == "products"
    for feature in skeleton["featureset"]["features"]:
        assert set(feature) == {"name", "params", "template_language", "template"}
        assert "missing" not in json.dumps(feature["template"])  # the model tells it from 0


def test_steps_without_abstention_are_ranklib_text_in_doubles(tmp_path: Path) -> None:
    model = additive(np.random.default_rng(3))
    body, certificate = export(model, tmp_path, "elasticsearch", missing="zero")
    assert body["model"]["model"]["type"] == "model/ranklib"
    lines = body["model"]["model"]["definition"].splitlines()
    assert lines[0] == "## RankBoost"
    rules = [tuple(map(float, rule.split(":"))) for rule in lines[-1].split()]
    X = rows_of(model)
    zeros = np.nan_to_num(X, nan=0.0)
    found = [sum(w for f, t, w in rules if row[int(f) - 1] > t) for row in zeros]
    exact = model.decision_function(zeros) + certificate.constant
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("build", [linear_with_intercept, scaled_linear])
def test_linear_models_keep_their_scalers_as_normalizers(build: Any, tmp_path: Path) -> None:
    model = build(np.random.default_rng(2))
    body, certificate = export(model, tmp_path, "opensearch", constant=0.0)
    content = body["model"]["model"]
    X, names = rows_of(model), certificate.features
    normalizers = content.get("feature_normalizers", {})
    assert set(normalizers) == (set(names) if build is scaled_linear else set())
    for normalizer in normalizers.values():
        assert set(normalizer) == {"standard"}
        assert set(normalizer["standard"]) == {"mean", "standard_deviation"}
        assert normalizer["standard"]["standard_deviation"] > 0
    if build is scaled_linear:
        assert content["type"] == "model/linear"
        weights = json.loads(content["definition"])
        assert set(weights) == set(names)
        parts = [(weights[n], normalizers[n]["standard"]) for n in names]
        found = [
            sum(w * (x - p["mean"]) / p["standard_deviation"] for x, (w, p) in zip(row, parts))  # noqa: B905
            for row in X
        ]
    else:
        assert content["type"] == "model/ranklib"
        text = content["definition"].splitlines()
        assert text[0] == "## Linear Regression"
        rules = dict(part.split(":") for part in text[-1].split())
        found = [
            float(rules["0"]) + sum(float(rules[str(i + 1)]) * x for i, x in enumerate(row))
            for row in X
        ]
    exact = form_of(model).scores(X)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * (1 + np.abs(exact).max()))


def test_a_linear_model_gets_the_constant_that_its_data_need(tmp_path: Path) -> None:
    X = np.array([[1.0, 2.0], [-5.0, 0.5], [0.0, 0.0]])
    body, certificate = export(Linear(np.array([1.0, 0.5])), tmp_path, "opensearch", check=X)
    assert certificate.constant == pytest.approx(4.75, rel=1e-4)
    assert certificate.lowest_score >= 0.0
    assert body["model"]["model"]["type"] == "model/ranklib"
    body, certificate = export(Linear(np.array([1.0, 0.5])), tmp_path, "opensearch")
    assert certificate.constant == 0.0
    assert certificate.lowest_score < 0.0
    assert body["model"]["model"]["type"] == "model/linear"


def plain_solr(node: Any, row: dict[str, float]) -> Any:
    while "value" not in node:
        assert isinstance(node["threshold"], str)
        x = f32(row[node["feature"]])
        if np.isnan(x):
            side = node["missing"]
        else:
            side = "left" if x <= f32(f32(node["threshold"]) + f32(1e-6)) else "right"
        assert set(node) == {"feature", "threshold", "missing", "left", "right"}
        node = node[side]
    assert set(node) == {"value"}
    assert isinstance(node["value"], str)
    return f32(node["value"])


@pytest.mark.parametrize("seed", range(4))
def test_solr_trees_hold_numbers_as_text_and_add_the_slack(seed: int, tmp_path: Path) -> None:
    model = branching(seed)
    body, certificate = export(model, tmp_path, "solr", feature_set="store")
    assert set(body) == {"class", "name", "store", "features", "params"}
    assert body["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    assert set(body["params"]) == {"isNullSameAsZero", "trees"}
    assert body["params"]["isNullSameAsZero"] is False
    assert all(set(tree) == {"weight", "root"} for tree in body["params"]["trees"])
    assert {tree["weight"] for tree in body["params"]["trees"]} == {"1"}
    X, names = rows_of(model), certificate.features
    found = [
        sum(
            plain_solr(tree["root"], dict(zip(names, row, strict=True)))
            for tree in body["params"]["trees"]
        )
        for row in X
    ]
    exact = model.decision_function(X)
    np.testing.assert_allclose(found, exact, rtol=0, atol=PAIRS * (1 + np.abs(exact).max()))
    features = json.loads((tmp_path / "m.features.json").read_text())
    assert [feature["name"] for feature in features] == names
    assert {feature["params"]["defaultValue"] for feature in features} == {"NaN"}


def test_solr_networks_are_layers_of_numbers(tmp_path: Path) -> None:
    model = next(m for m in map(network, map(np.random.default_rng, range(9))) if len(m.layers) > 3)
    body, _ = export(model, tmp_path, "solr")
    layers = body["params"]["layers"]
    assert body["class"].endswith("NeuralNetworkModel")
    assert [layer["activation"] for layer in layers][-1] == "identity"
    assert len(layers[-1]["matrix"]) == 1
    values = np.array([0.5] * int(model.layers[0]))
    for layer in layers:
        values = np.array(layer["matrix"]) @ values + layer["bias"]
        values = np.tanh(values) if layer["activation"] == "tanh" else values
    exact = model.decision_function(np.full((1, int(model.layers[0])), 0.5))
    np.testing.assert_allclose(values, exact, rtol=1e-5)


def steps_at(threshold: float) -> Additive:
    one = np.array([0])
    return Additive(
        1, one, np.array([0, 1]), np.array([threshold]), np.array([0.0, 1.0]), np.array([0.0])
    )


def test_thresholds_in_the_dead_zone_of_solr_are_refused_by_name_and_value(tmp_path: Path) -> None:
    with pytest.raises(rw.ParameterError, match=r"threshold 1\.9\d*e-08 of feature 'ctr'"):
        rw.export(steps_at(2e-8 - 1e-10), tmp_path / "m.json", "solr", feature_names=["ctr"])
    assert list(tmp_path.iterdir()) == []


def test_how_many_thresholds_lie_in_the_dead_zone() -> None:
    """None at the usual scales; most below the slack itself."""
    rng = np.random.default_rng(0)
    refused = {}
    for scale in (1000.0, 1.0, 1e-7):
        count = 0
        for value in rng.normal(scale=scale, size=500).astype(np.float32):
            try:
                z = before_slack(float(value), "f")
                assert f32(f32(z) + f32(1e-6)) == value
            except rw.ParameterError:
                count += 1
        refused[scale] = count
    assert refused[1000.0] == refused[1.0] == 0
    assert refused[1e-7] > 400


def test_one_tree_per_feature_and_not_per_round(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(10), 20)
    model = rw.RankBoost(n_estimators=60).fit(X, (X[:, 0] > 0) + (X[:, 1] > 0), qid=qid)
    text, _ = tmp_path / "m.txt", rw.export(model, tmp_path / "m.txt", "lightgbm")
    assert text.read_text().count("\nTree=") <= 3
