"""Exported feature sets: templates and similarities, and a statement for every feature."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rankwright as rw
from rankwright.exports.feature_sets import EQUAL, NOT_EXPRESSIBLE, UP_TO_ANALYZER
from rankwright.features import (
    BM25,
    Age,
    Bucket,
    Column,
    EditSimilarity,
    FeatureSet,
    FieldLength,
    LogOf,
    Rate,
    Ratio,
    Recency,
    TermCoverage,
    WithinQuery,
)

FEATURES = [
    *(BM25("title", k1=0.9, b=0.4), TermCoverage("title"), EditSimilarity("title")),
    *(FieldLength("title"), Age("published"), Recency("published"), Rate("clicks", "views")),
    *(LogOf("views"), Ratio("price", "views"), Bucket("price", (3.0, 6.0)), Column("price")),
    *(Column("color"), WithinQuery(Column("price"), "z")),
]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    rows = [
        {
            "query": f"w{q} w1",
            "title": " ".join(rng.choice([f"w{k}" for k in range(9)], 4)),
            "published": f"2024-05-{rng.integers(1, 29):02d}",
            "clicks": int(rng.integers(0, 5)),
            "views": int(rng.integers(5, 50)),
            "price": float(rng.integers(1, 9)),
            "color": str(rng.choice(["red", "blue"])),
        }
        for q in range(12)
        for _ in range(12)
    ]
    y = rng.integers(0, 3, len(rows))
    ranker = rw.LambdaMART(n_estimators=10, min_samples_leaf=5)
    pipeline = rw.RankPipeline([("features", FeatureSet(FEATURES)), ("rank", ranker)])
    return pipeline.fit(rows, y, qid=[row["query"] for row in rows])


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch", "solr", "vespa"])
def test_every_feature_has_a_statement(model, engine, tmp_path):
    rw.export(model, tmp_path / "model.json", to=engine, missing="never")
    about = json.loads((tmp_path / "model.statements.json").read_text())
    said = {name: entry["statement"] for name, entry in about["features"].items()}
    assert list(said) == list(model[0].get_feature_names_out())
    assert said["bm25_title"] == UP_TO_ANALYZER
    assert said["edit_title"] == said["price_z"] == NOT_EXPRESSIBLE
    for name in ("age_published", "clicks_rate", "log_views", "price", "color=red"):
        assert said[name] == EQUAL
    assert about["similarity"] == {"title": {"k1": 0.9, "b": 0.4}}


def test_the_plugin_gets_templates_and_similarities(model, tmp_path):
    rw.export(model, tmp_path / "model.json", to="opensearch", missing="never", feature_set="shop")
    content = json.loads((tmp_path / "model.featureset.json").read_text())["featureset"]
    features = {feature["name"]: feature for feature in content["features"]}
    assert content["name"] == "shop"
    assert features["bm25_title"]["template"] == {"match": {"title": "{{query}}"}}
    assert features["bm25_title"]["params"] == ["query"]
    script = features["price_per_views"]["template"]["function_score"]["script_score"]["script"]
    assert script["source"] == "((doc['price'].value) / (doc['views'].value))"
    index = json.loads((tmp_path / "model.index.json").read_text())
    similarity = index["settings"]["similarity"]["bm25_title"]
    assert similarity == {"type": "BM25", "k1": 0.9, "b": 0.4}


def test_solr_gets_queries_and_functions(model, tmp_path):
    rw.export(model, tmp_path / "model.json", to="solr", missing="never")
    listed = json.loads((tmp_path / "model.features.json").read_text())
    features = {feature["name"]: feature["params"] for feature in listed}
    assert features["bm25_title"] == {"q": "{!edismax qf=title mm=0 v=${query}}"}
    assert features["price_per_views"] == {"q": "{!func}div(field(price),field(views))"}
    assert features["price"] == {"field": "price"}


def test_vespa_gets_functions_that_the_profile_calls(model, tmp_path):
    rw.export(model, tmp_path / "model.profile", to="vespa", missing="never")
    profile = (tmp_path / "model.profile").read_text()
    assert "function bm25_title() {\n        expression: bm25(title) / 1.9\n" in profile
    assert "bm25(title).k1: 0.9" in profile
    for name in model[0].get_feature_names_out():
        assert f"function {name.replace('=', '_')}() {{" in profile
    assert profile.count("{") == profile.count("}")
