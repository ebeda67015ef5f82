"""Requests with text, booleans and null, for models that learned from a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop
from rankwright.features import TableEncoder

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.UnknownLevelWarning")
NOT_FEATURES = ("query", "product", "grade", "orders_after", "row_id")


@pytest.fixture(scope="module")
def shop():
    return make_shop(40, random_state=0)


@pytest.fixture(scope="module")
def model(shop, tmp_path_factory):
    train = shop.take(slice(0, 800))
    X = {name: column for name, column in train.items() if name not in NOT_FEATURES}
    ranker = rw.LambdaMART(n_estimators=10, min_samples_leaf=5)
    pipeline = rw.RankPipeline([("encode", TableEncoder()), ("rank", ranker)])
    path = tmp_path_factory.mktemp("tables") / "shop.rw"
    rw.save(pipeline.fit(X, train["grade"], qid=train["query"]), path)
    return path


def rows_of(shop: Any, rows: slice) -> list[dict[str, Any]]:
    table = shop.take(rows)
    columns = {n: c.tolist() for n, c in table.items() if n not in NOT_FEATURES}
    listed = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{n: None if c != c else c for n, c in row.items()} for row in listed]


@pytest.fixture
def service(serve, model):
    return serve(models=(str(model),))


def test_items_and_columns_are_ranked_as_the_model_ranks_them(service, model, shop):
    rows = rows_of(shop, slice(975, 1000))
    expected = rw.load_scorer(model).decision_function(rows)
    items = [{"id": str(k), "features": row} for k, row in enumerate(rows)]
    by_item = service.post("/v1/rank", {"items": items}).json()
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    ids = [str(k) for k in range(25)]
    by_column = service.post("/v1/rank", {"ids": ids, "columns": columns}).json()
    for answer in (by_item, by_column):
        scores = {int(item["id"]): item["score"] for item in answer["items"]}
        assert [scores[k] for k in range(25)] == expected.tolist()
        assert answer["items"] == by_item["items"]
    brands = set(shop.take(slice(0, 800))["brand"])
    n_new = sum(row["brand"] not in brands for row in rows)
    assert by_item.get("unknown", {}) == ({"brand": n_new} if n_new else {})


def test_absent_columns_are_missing_and_named(service, shop):
    rows = rows_of(shop, slice(0, 3))
    bare = [{n: c for n, c in row.items() if n not in ("color", "stars")} for row in rows]
    null = [{**row, "color": None, "stars": None} for row in rows]
    answers = [
        service.post(
            "/v1/rank", {"items": [{"id": k, "features": row} for k, row in enumerate(some)]}
        ).json()
        for some in (bare, null)
    ]
    assert answers[0]["items"] == answers[1]["items"]
    assert sorted(answers[0]["missing"]) == ["color", "stars"]


@pytest.mark.parametrize(
    ("cell", "needed"),
    [
        ({"price": "cheap"}, "a finite number"),
        ({"price": "9.5"}, "a finite number"),
        ({"cat_match": "perhaps"}, "true or false"),
        ({"launch_date": "soon"}, "a date such as"),
    ],
)
@pytest.mark.parametrize("form", ["items", "columns"])
def test_a_cell_of_another_kind_names_item_and_column(service, shop, cell, needed, form):
    rows = rows_of(shop, slice(0, 2))
    rows[1] |= cell
    if form == "items":
        names = ("first", "second")
        body = {"items": [{"id": i, "features": r} for i, r in zip(names, rows, strict=True)]}
    else:
        body = {"ids": ["first", "second"]}
        body["columns"] = {name: [row[name] for row in rows] for name in rows[0]}
    answer = service.post("/v1/rank", body)
    assert answer.status_code == 422
    assert "'second'" in answer.text
    assert next(iter(cell)) in answer.text
    assert needed in answer.text


def test_unknown_columns_are_refused_and_lists_are_features(service, model, shop):
    [row] = rows_of(shop, slice(0, 1))
    body = {"items": [{"id": "a", "features": {**row, "weight": 3}}]}
    answer = service.post("/v1/rank", body)
    assert (answer.status_code, "weight" in answer.text) == (422, True)
    scorer = rw.load_scorer(model)
    encoded = scorer.encoding.encode({name: [cell] for name, cell in row.items()})
    features = [None if np.isnan(x) else x for x in encoded[0].tolist()]
    answer = service.post("/v1/rank", {"items": [{"id": "a", "features": features}]}).json()
    assert answer["items"][0]["score"] == scorer.decision_function([row])[0]


def test_explanations_are_by_column(service, shop):
    items = [{"id": k, "features": row} for k, row in enumerate(rows_of(shop, slice(0, 5)))]
    answer = service.post("/v1/rank", {"items": items, "explain": True}).json()
    assert set(answer["items"][0]["contributions"]) == set(items[0]["features"])


def test_models_list_their_columns(service):
    [info] = service.get("/v1/models").json()["models"]
    assert info["columns"]["brand"] == "text"
    assert info["columns"]["launch_date"] == "date"


def test_text_for_a_model_of_numbers_names_item_and_feature(serve):
    client = serve()  # the demo model
    row = {f"f{k}": float(k) for k in range(1, 11)}
    for value in ("7", "red"):
        items = [{"id": "a", "features": row}, {"id": "b", "features": {**row, "f3": value}}]
        answer = client.post("/v1/rank", {"items": items})
        assert (answer.status_code, "'b': f3 is" in answer.text) == (422, True)
        columns = {name: [x, value if name == "f3" else x] for name, x in row.items()}
        answer = client.post("/v1/rank", {"ids": ["a", "b"], "columns": columns})
        assert (answer.status_code, "f3 is" in answer.text) == (422, True)


def test_what_was_logged_trains_a_model_of_the_same_tables(service, shop):
    for start in range(0, 250, 25):
        items = [
            {"id": str(k), "features": row}
            for k, row in enumerate(rows_of(shop, slice(start, start + 25)))
        ]
        answer = service.post("/v1/rank", {"query": str(start), "items": items}).json()
        grades = {str(k): int(g) for k, g in enumerate(shop["grade"][start : start + 25])}
        service.feedback(answer["event"], id=str(start), grades=grades)
    service.service.store.flush()
    done = service.post("/v1/train", {"ranker": "LambdaMART"})
    assert done.status_code == 200, done.text
    version = done.json()["model"]["version"]
    items = [{"id": "a", "features": rows_of(shop, slice(0, 1))[0]}]
    answer = service.post("/v1/rank", {"items": items, "model": version})
    assert answer.status_code == 200, answer.text
