"""Features that engines log, read as items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import FileFormatError


def hit(name: str, features: dict[str, float | None], **more: Any) -> dict[str, Any]:
    """A hit with a log entry, as the plugin of Elasticsearch and OpenSearch writes it."""
    entries = [{"name": n} if v is None else {"name": n, "value": v} for n, v in features.items()]
    return {"_index": "shop", "_id": name, "fields": {"_ltrlog": [{"log": entries}]}, **more}


RESPONSES = [
    {
        "qid": "red shoes",
        "took": 3,
        "hits": {
            "total": {"value": 2},
            "hits": [
                hit("a", {"bm25": 2.5, "clicks": None}, _source={"grade": 2, "title": "x"}),
                hit("b", {"bm25": 0.5, "clicks": 7.0}, _source={"grade": 0}),
            ],
        },
    },
    {"qid": "tent", "hits": {"hits": [hit("c", {"bm25": 1.0, "age": 3.5}, _source={"grade": 1})]}},
]
SOLR = [
    {
        "responseHeader": {"params": {"q": "tent"}},
        "response": {
            "numFound": 2,
            "docs": [
                {"id": "x", "score": 1.5, "[features]": "recency=0.25,isBook=1.0"},
                {"id": "y", "score": 1.0, "[features]": "recency=0.5"},
            ],
        },
    }
]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_feature_without_a_value_is_missing(tmp_path: Path) -> None:
    items = rw.read_items(write(tmp_path / "log.jsonl", RESPONSES))
    assert items.feature_names == ("bm25", "clicks", "age")
    expected = [[2.5, np.nan, np.nan], [0.5, 7.0, np.nan], [1.0, np.nan, 3.5]]
    np.testing.assert_array_equal(items.X, expected)
    assert items.qid is not None
    assert items.docid is not None
    assert items.qid.tolist() == ["red shoes", "red shoes", "tent"]
    assert items.docid.tolist() == ["a", "b", "c"]
    assert items.y.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["log.jsonl", "log.json", "log.txt"])
def test_logs_are_told_by_their_content(name: str, tmp_path: Path) -> None:
    assert rw.read_items(write(tmp_path / name, RESPONSES)).n_items == 3


def test_a_response_saved_on_many_lines_is_one_query(tmp_path: Path) -> None:
    path = tmp_path / "response.json"
    path.write_text(json.dumps(RESPONSES[0], indent=2))
    assert rw.read_items(path).n_items == 2


def test_hits_on_their_own_lines_name_their_query(tmp_path: Path) -> None:
    hits = [hit("a", {"f": 1.0}, qid=7, grade=1), hit("b", {"f": 2.0}, qid=7, grade=0)]
    items = rw.read_items(write(tmp_path / "hits.jsonl", hits))
    assert items.n_queries == 1


def test_solr_features_that_are_not_listed_are_zero(tmp_path: Path) -> None:
    items = rw.read_items(write(tmp_path / "solr.json", SOLR), graded=False)
    assert items.feature_names == ("recency", "isBook")
    assert items.X.tolist() == [[0.25, 1.0], [0.5, 0.0]]
    assert items.qid is not None
    assert items.qid.tolist() == [1, 1]


def test_grades_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "solr.json", SOLR)
    with pytest.raises(rw.DataError, match="2 of 2 hits have no grade"):
        rw.read_items(path)


@pytest.mark.parametrize(
    "line, fault",
    [
        ('{"hits": {"hits": [{"_id": "a"}]}, "x": "_ltrlog"}', "neither fields._ltrlog nor"),
        ('{"hits": {"hits": [7]}, "x": "_ltrlog"}', "a hit is not a JSON object"),
        ('{"fields": {"_ltrlog": [{"log": [{"value": 1}]}]}}', "has no name"),
        ('{"fields": {"_ltrlog": [{"log": [{"name": "f", "value": "x"}]}]}}', "has the value 'x'"),
        ('{"id": 1, "[features]": "a=b"}', "has the value 'b'"),
        ('[1, "_ltrlog"]', "not a JSON object"),
        ('{"[features]": "a=1"', "not JSON"),
    ],
)
def test_a_bad_line_is_named(line: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"id": 1, "[features]": "a=1"}\n' + line + "\n")
    with pytest.raises(FileFormatError, match=fault) as found:
        rw.read_items(path, graded=False, format="ltrlog")
    assert found.value.line == 2


def test_log_train_export_closes_the_loop(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for query in range(8):
        hits = []
        for k in range(12):
            bm25, clicks = rng.normal(), rng.normal() if k % 3 else None
            grade = int(bm25 > 0) + int((clicks or 0) > 0)
            hits.append(hit(f"d{k}", {"bm25": bm25, "clicks": clicks}, grade=grade))
        lines.append({"qid": f"q{query}", "hits": {"hits": hits}})
    items = rw.read_items(write(tmp_path / "log.jsonl", lines))
    model = rw.RankBoost(n_estimators=10).fit(items.X, items.y, qid=items.qid)
    certificate = rw.export(
        model, tmp_path / "m.json", "opensearch", feature_names=items.feature_names, check=items
    )
    assert certificate.features == ["bm25", "clicks"]
    assert certificate.pairs_reversed == 0
