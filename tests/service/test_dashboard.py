"""The dashboard shows what the service knows, and compares two models."""

from __future__ import annotations

import re

import numpy as np

import rankwright as rw
from rankwright.service.api.security import Tokens

EVIL = "<script>alert(1)</script>"


def rank(client, query, rows):
    items = [{"id": f"d{i}", "features": row} for i, row in enumerate(rows)]
    answer = client.post("/v1/rank", {"query": query, "items": items})
    assert answer.status_code == 200, answer.text
    return answer.json()


def table_of(html, model):
    """Ids and moves of the list of a model."""
    part = re.search(rf"<caption>{re.escape(model)}</caption>.*?</table>", html, re.DOTALL)[0]
    return re.findall(r"<td>(d\d)</td>.*?<span class=\"(\w+)\">(.*?)</span>", part, re.DOTALL)


def test_an_empty_service_says_what_to_do(serve) -> None:
    html = serve().get("/").text
    for text in (
        "demo model",
        "No request yet",
        "<code>learn</code>",
        "POST /v1/experiments",
        "empty",
    ):
        assert text in html


def test_two_models_side_by_side_with_moves(serve, tmp_path) -> None:
    X = np.eye(3)
    paths = []
    for name, grades in (("up", [0, 1, 2]), ("down", [2, 1, 0])):
        rw.save(rw.RidgeRanker().fit(X, grades, qid=[0, 0, 0]), tmp_path / f"{name}.rw")
        paths.append(str(tmp_path / f"{name}.rw"))
    client = serve(models=tuple(paths))
    rank(client, "first", X.tolist())
    answer = rank(client, "second", (2 * X[:2]).tolist())
    client.service.store.flush()
    html = client.get("/").text
    up, down = client.get("/v1/models").json()["models"]
    assert f"<code>{up['version']}</code>" in html
    assert "second" in html
    assert table_of(html, up["version"]) == [("d1", "up", "▲ 1"), ("d0", "down", "▼ 1")]
    assert table_of(html, down["version"]) == [("d0", "up", "▲ 1"), ("d1", "down", "▼ 1")]
    same = client.get(f"/?event={answer['event']}&a={up['version']}&b={up['version']}").text
    assert [move for _, _, move in table_of(same, up["version"])] == ["=", "="]
    assert "There is no model" in client.get("/?a=none").text


def test_the_page_says_what_the_live_ranker_learns_from(serve) -> None:
    html = serve(learn="PRank", learn_from="clicks").get("/").text
    assert "PRank learns from clicks" in html
    assert "PRank waits for feedback with clicks" in html


def test_models_that_need_other_features_cannot_be_compared(serve, tmp_path) -> None:
    rw.save(rw.RidgeRanker().fit(np.eye(3), [0, 1, 2], qid=[0, 0, 0]), tmp_path / "a.rw")
    client = serve(models=(str(tmp_path / "a.rw"),))
    rank(client, "q", np.eye(3).tolist())
    rw.save(rw.RidgeRanker().fit(np.eye(4), [0, 1, 2, 1], qid=[0] * 4), tmp_path / "b.rw")
    content = (tmp_path / "b.rw").read_bytes()
    headers = {"content-type": "application/octet-stream"}
    assert client.post("/v1/models?name=b", content=content, headers=headers).status_code == 201
    client.service.store.flush()
    assert "3 features each" not in client.get("/").text  # the default is a model that can rank
    assert "3 features each" in client.get("/?b=b").text


def test_rank_loss_traffic_experiments_and_entries(serve) -> None:
    client = serve(learn="PRank")
    rng = np.random.default_rng(0)
    names = [f"f{i}" for i in range(1, 11)]
    for number in range(6):
        rows = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(5, 10)).tolist()]
        answer = rank(client, f"{EVIL} {number}", rows)
        grades = {f"d{i}": float(row["f1"] > 0) for i, row in enumerate(rows)}
        body = {"event": answer["event"], "id": "1", "grades": grades}
        assert client.post("/v1/feedback", json=body).status_code in (200, 201)
    body = {"name": "trial", "models": ["live", "demo"]}
    assert client.post("/v1/experiments", json=body).status_code in (200, 201)
    answer = rank(client, "shared", rows)
    clicks = {"event": answer["event"], "id": "c", "clicks": [answer["items"][0]["id"]]}
    client.post("/v1/feedback", json=clicks)
    client.wait_until_learned()
    html = client.get("/").text
    assert html.count('class="series"') == 2
    assert "PRank: 30 examples" in html
    assert "1 session:" in html
    assert "No decision yet" in html
    assert "1 click for" in html
    assert "5 grades for" in html
    assert EVIL not in html
    assert "&lt;script&gt;alert(1)" in html


def test_only_operators_see_the_dashboard(serve, tmp_path) -> None:
    lines = [f"{who} {who[0] * 20} {scope}" for who, scope in
             (("boss", "admin,rank"), ("ann", "judge"), ("web", "rank"))]  # fmt: skip
    (tmp_path / "tokens").write_text("\n".join(lines))
    client = serve(tokens=Tokens.read(tmp_path / "tokens"))
    client.http.follow_redirects = True
    statuses = {}
    for who in ("boss", "ann", "web"):
        client.cookies.clear()
        client.post("/login", data={"token": who[0] * 20})
        answer = client.get("/")
        statuses[who] = (answer.status_code, answer.url.path)
    assert statuses == {"boss": (200, "/"), "ann": (200, "/judge"), "web": (403, "/")}
