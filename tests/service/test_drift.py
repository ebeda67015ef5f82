"""Drift: the latest lists of a model next to the columns that it was trained on."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop
from rankwright.persist import provenance_of
from rankwright.rankers.preprocessing import with_encoding


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A model of a shop's table, in a file that says what it was trained on; the table."""
    folder = tmp_path_factory.mktemp("drift")
    table = make_shop(80, random_state=1)
    table.write(folder / "shop.csv")
    items = rw.read_items(folder / "shop.csv", kinds={"orders_after": "drop", "row_id": "drop"})
    ranker = rw.LambdaMART(n_estimators=5, min_samples_leaf=1)
    model = ranker.fit(items.X, items.y, qid=items.qid)
    named = with_encoding(model, items)
    rw.save(named, folder / "shop.rw", provenance=provenance_of(named, items))
    return str(folder / "shop.rw"), table


def rank_lists(client, table, change=lambda row: None, n=60):
    names = [name for name in table if name not in ("query", "product", "grade")]
    for number in range(n):
        rows = []
        for at in range(25 * number, 25 * number + 25):
            cells = {name: plain(table[name][at]) for name in names}
            row = {name: cells[name] for name in names if name not in ("orders_after", "row_id")}
            change(row)
            rows.append({"id": str(at), "features": row})
        answer = client.post("/v1/rank", {"query": f"q{number}", "items": rows})
        assert answer.status_code == 200, answer.text
    client.service.store.flush()


def plain(cell):
    value = cell.item() if hasattr(cell, "item") else cell
    if isinstance(value, float) and np.isnan(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def test_traffic_like_training_has_not_moved(serve, shop):
    path, table = shop
    client = serve(models=(path,))
    version = client.get("/v1/models").json()["active"]["rank"]
    few = client.get(f"/v1/models/{version}/drift").json()
    assert (few["lists"], few["columns"]) == (0, [])
    assert "needed" in few["note"]
    rank_lists(client, table)
    found = client.get(f"/v1/models/{version}/drift").json()
    assert (found["lists"], found["rows"]) == (60, 1500)
    assert not [column["why"] for column in found["columns"] if column["moved"]]
    assert {"price", "brand", "color", "cat_match"} <= {c["name"] for c in found["columns"]}
    assert client.get(f"/v1/models/{version}/drift?lists=9").json()["lists"] == 9


def test_columns_that_moved_come_first_and_say_how(serve, shop):
    path, table = shop
    client = serve(models=(path,))
    version = client.get("/v1/models").json()["active"]["rank"]

    def change(row):
        row["price"] = None if row["price"] is None else 3 * row["price"] + 1000
        row["stars"] = None
        row["color"] = "red"
        row["brand"] = "a new brand"

    rank_lists(client, table, change)
    columns = client.get(f"/v1/models/{version}/drift").json()["columns"]
    moved = {column["name"]: column["why"] for column in columns if column["moved"]}
    assert set(moved) == {"price", "stars", "color", "brand"}
    assert [column["moved"] for column in columns] == sorted([c["moved"] for c in columns])[::-1]
    assert moved["price"].startswith("mean ")
    assert "outside of" in moved["price"]
    assert moved["stars"].startswith("missing in 100%, ")
    assert moved["color"].startswith("'red' has 100%, ")
    assert moved["brand"].endswith("100% are levels that training did not have")
    page = client.get("/").text
    assert "4 of " in page
    assert "columns moved" in page


def test_a_model_without_statistics_says_so(serve, shop, tmp_path):
    rng = np.random.default_rng(0)
    model = rw.RidgeRanker().fit(rng.normal(size=(40, 3)), rng.integers(0, 3, 40))
    rw.save(model, tmp_path / "plain.rw")
    client = serve(models=(str(tmp_path / "plain.rw"),))
    version = client.get("/v1/models").json()["active"]["rank"]
    assert "no statistics" in client.get(f"/v1/models/{version}/drift").json()["note"]


def test_features_without_names_are_compared_in_order(serve, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
    items = rw.Items(X, y, np.repeat(np.arange(40), 10))
    model = rw.RidgeRanker().fit(X, y)
    path = tmp_path / "plain.rw"
    rw.save(model, path, provenance=provenance_of(model, items))
    client = serve(models=(str(path),))
    for _ in range(60):
        client.rank(rng.normal((0.0, 5.0, 0.0), size=(10, 3)))
    client.service.store.flush()
    version = client.get("/v1/models").json()["active"]["rank"]
    drift = client.get(f"/v1/models/{version}/drift").json()
    assert [column["name"] for column in drift["columns"] if column["moved"]] == ["feature 2"]
