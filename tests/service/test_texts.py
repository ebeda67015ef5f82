"""Ranking raw text over HTTP: the features of a request are those of training, bit for bit."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import rankwright as rw
from rankwright.features import (
    BM25,
    BM25F,
    Age,
    Column,
    Cosine,
    FeatureSet,
    Phrase,
    TermCoverage,
    WithinQuery,
)
from rankwright.service import read_entries

FEATURES = [
    *(BM25("title"), BM25F(("title", "body")), TermCoverage("body"), Phrase("body")),
    *(Age("published", at="time"), Column("price"), Column("color"), Cosine("vector")),
    WithinQuery(BM25("body"), "share_of_best"),
]


def documents(n, seed):
    rng = np.random.default_rng(seed)
    words = [f"w{k}" for k in range(80)]
    return [
        {
            "title": " ".join(rng.choice(words, 4)),
            "body": " ".join(rng.choice(words, 25)),
            "price": float(rng.integers(1, 90)),
            "color": str(rng.choice(["red", "blue"])),
            "published": f"2024-05-{rng.integers(1, 29):02d}",
            "vector": rng.normal(size=4).round(3).tolist(),
        }
        for _ in range(n)
    ]


def queries(n, seed):
    rng = np.random.default_rng(seed)
    return [
        {
            "text": " ".join(rng.choice([f"w{k}" for k in range(80)], 3)),
            "time": "2024-06-01T10:00:00Z",
            "vector": rng.normal(size=4).round(3).tolist(),
        }
        for _ in range(n)
    ]


@pytest.fixture(scope="module")
def data():
    """100 queries with 100 documents each."""
    pool, rows = documents(400, 0), []
    rng = np.random.default_rng(1)
    asked = queries(100, 2)
    for number, query in enumerate(asked):
        named = {f"query.{name}": value for name, value in query.items()}
        chosen = rng.permutation(400)[:100].tolist()
        rows += [{"qid": number, "id": str(k), **named, **pool[k]} for k in chosen]
    y = rng.integers(0, 3, len(rows))
    return rows, y, asked


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    rows, y, _ = data
    ranker = rw.LambdaMART(n_estimators=20, random_state=0)
    pipeline = rw.RankPipeline([("features", FeatureSet(FEATURES)), ("rank", ranker)])
    pipeline.fit(rows, y, qid=[row["qid"] for row in rows])
    path = tmp_path_factory.mktemp("texts") / "text.rw"
    rw.save(pipeline, path)
    return path, pipeline


@pytest.fixture
def service(serve, model):
    return serve(models=(str(model[0]),))


def request_of(rows, query, **more):
    names = ("title", "body", "price", "color", "published", "vector")
    items = [{"id": row["id"], "fields": {name: row[name] for name in names}} for row in rows]
    return {"query": "q7", "query_fields": query, "items": items, **more}


def test_ten_thousand_rows_have_the_scores_of_training(service, model, data):
    rows, _, asked = data
    expected = model[1].decision_function(rows, qid=[row["qid"] for row in rows])
    assert len(rows) == 10_000
    assert len(np.unique(expected)) > 1000
    for number, query in enumerate(asked):
        of_query = slice(100 * number, 100 * number + 100)
        answer = service.post("/v1/rank", request_of(rows[of_query], query)).json()
        scores = {item["id"]: item["score"] for item in answer["items"]}
        assert [scores[row["id"]] for row in rows[of_query]] == expected[of_query].tolist()


def test_the_log_keeps_what_was_computed(service, model, data, tmp_path):
    rows, _, asked = data
    answer = service.post("/v1/rank", request_of(rows[:5], asked[0])).json()
    service.feedback(answer["event"], clicks=[answer["items"][0]["id"]])  # the log is on disk then
    entry = next(e for e in read_entries(tmp_path / "feedback.db") if e["kind"] == "event")
    order = [int(item["id"]) for item in answer["items"]]
    place = {int(row["id"]): k for k, row in enumerate(rows[:5])}
    computed = model[1][0].transform(rows[:5])[[place[k] for k in order]]
    logged = [list(item["features"].values()) for item in entry["items"]]
    np.testing.assert_array_equal(np.array(logged), computed)


def test_absent_fields_are_missing_and_the_query_is_its_text(service, data):
    rows, _, asked = data
    request = request_of(rows[:3], None)
    request |= {"query": asked[0]["text"], "query_fields": {"vector": asked[0]["vector"]}}
    for item in request["items"]:
        del item["fields"]["price"], item["fields"]["title"]
        item["fields"]["more"] = "ignored"
    answer = service.post("/v1/rank", request).json()
    assert answer["missing"] == ["title", "price"]
    assert len(answer["items"]) == 3


def test_explanations_are_by_feature(service, data):
    rows, _, asked = data
    answer = service.post("/v1/rank", request_of(rows[:20], asked[0], explain=True)).json()
    names = set(answer["items"][0]["contributions"])
    assert {"bm25_title", "bm25f_title_body", "price", "color"} <= names


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("price", "cheap", "price"),
        ("published", "yesterday", "published"),
        ("vector", [1.0, 2.0], "a list of 4 finite numbers"),
    ],
)
def test_a_wrong_field_names_item_and_field(service, data, field, value, said):
    rows, _, asked = data
    request = request_of(rows[:3], asked[0])
    request["items"][2]["fields"][field] = value
    answer = service.post("/v1/rank", request)
    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert repr(rows[2]["id"]) in detail
    assert said in detail


def test_fields_and_features_are_not_mixed(service, data):
    rows, _, asked = data
    request = request_of(rows[:2], asked[0])
    request["items"][1] = {"id": "x", "features": [0.0] * 10}
    assert service.post("/v1/rank", request).status_code == 422
    for item in ({"id": "x"}, {"id": "x", "fields": {}, "features": [1.0]}):
        assert service.post("/v1/rank", {"query": "a", "items": [item]}).status_code == 422
    empty = {"query_fields": {}, "items": [{"id": "x", "fields": {}}]}
    assert "text" in service.post("/v1/rank", empty).json()["detail"]


def test_computed_features_are_taken_too(service, model, data):
    rows, _, asked = data
    matrix = model[1][0].transform(rows[:4])
    names = model[1][0].get_feature_names_out().tolist()
    items = [
        {"id": row["id"], "features": dict(zip(names, map(float, values), strict=True))}
        for row, values in zip(rows[:4], matrix, strict=True)
    ]
    by_value = service.post("/v1/rank", {"items": items}).json()
    by_field = service.post("/v1/rank", request_of(rows[:4], asked[0])).json()
    assert by_value["items"] == by_field["items"]


def test_a_model_without_a_feature_set_refuses_fields(serve):
    service = serve(demo=True)
    answer = service.post("/v1/rank", {"items": [{"id": 1, "fields": {"title": "x"}}]})
    assert answer.status_code == 422
    assert "no feature set" in answer.json()["detail"]


def test_documents_that_are_held_are_found_and_ranked_by_the_query(serve, model, data, tmp_path):
    pytest.importorskip("bm25s")
    rows, _, asked = data
    pool = {row["id"]: {k: v for k, v in row.items() if "q" not in k} for row in rows}
    (tmp_path / "docs.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, pool.values())))
    service = serve(models=(str(model[0]),), documents=str(tmp_path / "docs.jsonl"))
    fields = asked[0]
    by_text = service.post("/v1/rank", {"query": "q7", "query_fields": fields}).json()["items"]
    assert len(by_text) == 100
    ids = [item["id"] for item in by_text]
    sent = request_of([pool[name] for name in ids], fields)
    assert service.post("/v1/rank", sent).json()["items"] == by_text
    for named in ({"items": [{"id": name} for name in ids]}, {"ids": ids}):
        request = {"query": "q7", "query_fields": fields, **named}
        assert service.post("/v1/rank", request).json()["items"] == by_text
    unknown = service.post("/v1/rank", {"query": "w1", "ids": ["nowhere"]})
    assert unknown.status_code == 422
    assert "nowhere" in unknown.json()["detail"]
    assert service.post("/v1/rank", {"query": "no such words"}).json()["items"] == []


def test_documents_that_lack_a_field_or_have_a_wrong_one_are_named(serve, model, data, tmp_path):
    rows, _, asked = data
    names = ("id", "title", "published", "color", "vector")
    pool = [{name: row[name] for name in names} for row in rows[:3]]
    pool[1]["published"] = "soon"
    (tmp_path / "docs.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, pool)))
    service = serve(models=(str(model[0]),), documents=str(tmp_path / "docs.jsonl"))
    ids = [row["id"] for row in pool]
    request = {"query": "q7", "query_fields": asked[0]}
    known = service.post("/v1/rank", request | {"ids": [ids[0], ids[2]]}).json()
    assert known["missing"] == ["body", "price"]
    wrong = service.post("/v1/rank", request | {"ids": ids})
    assert wrong.status_code == 422
    assert repr(ids[1]) in wrong.json()["detail"]
