"""The API from outside: what is sent and what comes back."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.data.datasets.synthetic import make_engines, make_queries, make_ratings
from rankwright.service import read_entries

ROWS = np.random.default_rng(0).standard_normal((6, 10))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Model files of every task."""
    folder = tmp_path_factory.mktemp("models")
    sample = make_queries(30, n_features=10, random_state=1)
    boosted = rw.RankBoost(n_estimators=10).fit(sample.X, sample.y, qid=sample.qid)
    linear = rw.RidgeRanker().fit(sample.X, sample.y, qid=sample.qid)
    linear.feature_names_in_ = np.array([f"f{i}" for i in range(1, 11)], dtype=object)
    engines = make_engines(20, random_state=0)
    models = {
        "boosted": boosted,
        "linear": linear,
        "films": rw.Recommender(random_state=0).fit(make_ratings(40, 30, random_state=0).ratings),
        "fusion": rw.LearnedFusion().fit(engines.runs, engines.qrels),
    }
    for name, model in models.items():
        rw.save(model, folder / f"{name}.rw")
    return {name: str(folder / f"{name}.rw") for name in models}


def test_items_come_back_best_first_with_the_scores_of_the_model(serve, files):
    client = serve(models=(files["linear"],))
    answer = client.rank(ROWS)
    scores = rw.load_scorer(files["linear"]).decision_function(ROWS)
    order = np.argsort(-scores, kind="stable")
    assert set(answer) == {"event", "model", "items"}
    assert [item["id"] for item in answer["items"]] == [f"a{i}" for i in order]
    assert [item["score"] for item in answer["items"]] == scores[order].tolist()
    assert [item["rank"] for item in answer["items"]] == [1, 2, 3, 4, 5, 6]
    assert answer["model"].startswith("linear-")
    assert len(client.rank(ROWS, n=2)["items"]) == 2


def test_every_form_of_a_request_gives_the_same_answer(serve, files):
    client = serve(models=(files["linear"],))
    expected = [(item["id"], item["score"]) for item in client.rank(ROWS)["items"]]
    ids, names = [f"a{i}" for i in range(6)], [f"f{i}" for i in range(1, 11)]
    named = [
        {"id": i, "features": dict(zip(names, row, strict=True))}
        for i, row in zip(ids, ROWS.tolist(), strict=True)
    ]
    columns = dict(zip(names[::-1], ROWS.T[::-1].tolist(), strict=True))
    raw = ROWS.astype("<f8").tobytes()
    forms = [
        {"items": named},
        {"ids": ids, "columns": columns},
        {"ids": ids, "float64": base64.b64encode(raw).decode()},
    ]
    for form in forms:
        answer = client.post("/v1/rank", {"query": "q", **form}).json()
        assert [(item["id"], item["score"]) for item in answer["items"]] == expected
    packed = msgspec.msgpack.encode({"query": "q", "ids": ids, "float64": raw})
    kind = {"content-type": "application/msgpack", "accept": "application/msgpack"}
    answer = client.request("POST", "/v1/rank", content=packed, headers=kind)
    assert answer.headers["content-type"] == "application/msgpack"
    items = msgspec.msgpack.decode(answer.content)["items"]
    assert [(item["id"], item["score"]) for item in items] == expected
    single = base64.b64encode(ROWS.astype("<f4").tobytes()).decode()
    answer = client.post("/v1/rank", {"ids": ids, "float32": single}).json()
    assert [item["score"] for item in answer["items"]] == pytest.approx(
        [score for _, score in expected], rel=1e-5
    )


def test_a_batch_is_answered_list_by_list(client):
    items = [{"id": i, "features": row} for i, row in enumerate(ROWS.tolist())]
    requests = [{"query": str(i), "items": items[: i + 1]} for i in range(3)]
    answers = client.post("/v1/rank", requests).json()
    assert [len(answer["items"]) for answer in answers] == [1, 2, 3]
    assert answers[2]["items"][0]["id"] in (0, 1, 2)  # ids keep their type
    assert len({answer["event"] for answer in answers}) == 3
    packed = msgspec.msgpack.encode(requests)
    kind = {"content-type": "application/msgpack"}
    assert len(client.request("POST", "/v1/rank", content=packed, headers=kind).json()) == 3


def test_missing_and_unknown_features_are_named(serve, files):
    client = serve(models=(files["linear"], files["boosted"]))
    whole = {f"f{i}": 1.0 for i in range(1, 11)}
    lacking = {name: value for name, value in whole.items() if name != "f3"}
    for features, words in [
        (lacking, ["lacks the features f3"]),
        ({**whole, "color": 1.0}, ["unknown features color"]),
        ({**lacking, "f33": 1.0}, ["lacks the features f3", "unknown features f33"]),
        ({**whole, "f2": None}, ["f2", "needs every value"]),
        ([1.0] * 9, ["needs 10"]),
    ]:
        body = {"items": [{"id": "x", "features": features}]}
        answer = client.post("/v1/rank", body)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert all(word in answer.json()["detail"] for word in words)
    # RankBoost abstains where a value is missing; its features have numbers for names.
    numbered = {str(i): 1.0 for i in range(1, 11) if i != 4}
    body = {"items": [{"id": "x", "features": numbered}], "model": "boosted"}
    answer = client.post("/v1/rank", body)
    assert answer.status_code == 200
    assert answer.json()["missing"] == ["4"]
    body["items"][0]["features"] = [None] * 10
    assert client.post("/v1/rank", body).status_code == 200


def test_an_explanation_sums_to_the_distance_from_the_mean_for_a_linear_model(serve, files):
    client = serve(models=(files["linear"],))
    answer = client.rank(ROWS, explain=True)
    scores = {item["id"]: item["score"] for item in answer["items"]}
    mean = np.mean(list(scores.values()))
    for item in answer["items"]:
        assert sum(item["contributions"].values()) == pytest.approx(item["score"] - mean)


def test_feedback_is_kept_once_and_an_unknown_event_is_refused(client):
    event = client.rank(ROWS, user="anna")["event"]
    first = client.feedback(event, grades={"a0": 3, "a1": 0})
    again = client.feedback(event, grades={"a1": 0, "a0": 3})
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert first["seq"] == again["seq"]
    other = client.post("/v1/feedback", {"event": event, "id": "1", "clicks": ["a0"]})
    assert other.status_code == 409
    assert client.feedback(event, id=2, clicks=["a2", {"item": "a3", "dwell": 4.5}])["id"] == 2
    assert not client.feedback(event, id="3", preferences=[["a0", "a1"]])["duplicate"]
    for content, word in [
        ({"event": "none", "clicks": []}, "not in the log"),
        ({"grades": {"zz": 1}}, "'zz' was not in the list"),
        ({"preferences": [["a0", "a0"]]}, "preferred to itself"),
        ({}, "no feedback"),
        ({"clicks": ["a0"], "dwell": {"a1": 1}}, "not among the clicks"),
    ]:
        answer = client.post("/v1/feedback", {"event": event, "id": "9", **content})
        assert answer.status_code in (404, 422)
        assert word in answer.json()["detail"]
    kinds = [line["kind"] for line in read_entries(client.service.store.path)]
    assert kinds == ["event", "feedback", "feedback", "feedback"]


def test_the_log_is_exported_and_read_by_the_library(client, tmp_path):
    for query in ("red shoes", "boots"):
        items = [{"id": f"{query} {i}", "features": row} for i, row in enumerate(ROWS.tolist())]
        event = client.post("/v1/rank", {"query": query, "items": items}).json()["event"]
        client.feedback(event, grades={f"{query} 0": 2, f"{query} 3": 0})
        client.feedback(event, id="2", grades={f"{query} 3": 1})  # the last one counts
    lines = client.get("/v1/log").text.splitlines()
    assert [json.loads(line) for line in lines] == list(read_entries(client.service.store.path))
    assert len(client.get("/v1/log?limit=2").text.splitlines()) == 2
    path = tmp_path / "log.qrels"
    path.write_text(client.get("/v1/log?format=qrels").text)
    assert rw.read_qrels(path).to_dict() == {
        "red%20shoes": {"red%20shoes%200": 2, "red%20shoes%203": 1},
        "boots": {"boots%200": 2, "boots%203": 1},
    }
    path = tmp_path / "log.txt"
    path.write_text(client.get("/v1/log?format=letor").text)
    items = rw.read_letor(path)
    assert sorted(items.y.tolist()) == [1, 1, 2, 2]
    assert items.X[np.flatnonzero(items.y == 2)[0]].tolist() == ROWS[0].tolist()
    clicks = client.get("/v1/log?format=qrels&labels=clicks").text
    assert clicks == ""


def test_a_missing_value_stays_missing_in_the_log_as_letor(serve, files, tmp_path):
    client = serve(models=(files["boosted"],))
    rows = ROWS[:2].tolist()
    rows[1][0] = None
    client.feedback(client.rank(rows)["event"], grades={"a0": 0, "a1": 1})
    path = tmp_path / "log.txt"
    path.write_text(client.get("/v1/log?format=letor").text)
    items = rw.read_letor(path)
    assert np.isnan(items.X[:, 0]).tolist() == [grade == 1 for grade in items.y]


def test_entries_of_a_user_are_deleted_and_forgotten_by_the_learner(serve):
    client = serve(learn="PRank")
    for user, low, high in (("anna", "a0", "a1"), ("bert", "a1", "a0")):
        event = client.rank(ROWS, user=user)["event"]
        client.feedback(event, grades={low: 0, high: 4})
    client.wait_until_learned()
    assert client.service.learner.live.progress.n_examples == 4
    assert client.delete("/v1/log?user=anna").json() == {"deleted": 2}
    client.wait_until_learned()
    assert client.service.learner.live.progress.n_examples == 2
    assert {line["user"] for line in read_entries(client.service.store.path) if "user" in line} == {
        "bert"
    }
    assert client.delete("/v1/log").status_code == 422


def test_models_are_uploaded_activated_rolled_back_and_deleted(serve, files, tmp_path):
    client = serve(models=(files["linear"],))
    content = Path(files["boosted"]).read_bytes()
    binary = {"content-type": "application/octet-stream"}
    sent = client.request("POST", "/v1/models?name=new", content=content, headers=binary)
    assert sent.status_code == 201
    new, old = sent.json()["version"], client.rank(ROWS)["model"]
    assert not sent.json()["active"]
    assert client.rank(ROWS, model="new")["model"] == new
    assert client.post(f"/v1/models/{new}/activate").json()["active"]
    assert client.rank(ROWS)["model"] == new
    client.close()
    again = serve(models=(files["linear"],))  # the choice and the file are kept
    assert again.rank(ROWS)["model"] == new
    assert again.delete(f"/v1/models/{new}").status_code == 409
    assert again.post("/v1/models/rollback").json()["version"] == old
    assert again.rank(ROWS)["model"] == old
    assert again.post("/v1/models/rollback").status_code == 409
    assert again.delete("/v1/models/new").status_code == 200
    assert again.post("/v1/rank", {"items": [], "model": "new"}).status_code == 404
    listed = again.get("/v1/models").json()
    assert [model["version"] for model in listed["models"]] == [old]
    for name in (old, "linear"):
        assert again.get(f"/v1/models/{name}").json() == listed["models"][0]
    assert again.get("/v1/models/new").status_code == 404
    assert listed["models"][0]["features"][0] == "f1"


@pytest.mark.parametrize("damage", ["cut", "flip", "pickle", "empty", "text"])
def test_a_damaged_model_file_is_refused(client, files, damage):
    content = bytearray(Path(files["linear"]).read_bytes())
    content[-3] ^= 1
    damaged = {
        "cut": bytes(content[:-100]),
        "flip": bytes(content),
        "pickle": b"\x80\x04\x95",
        "empty": b"",
        "text": b"<script>alert(1)</script>",
    }[damage]
    binary = {"content-type": "application/octet-stream"}
    answer = client.request("POST", "/v1/models", content=damaged, headers=binary)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("the uploaded file: ")
    assert len(client.get("/v1/models").json()["models"]) == 1


def test_a_shadow_model_is_logged_and_not_shown(serve, files):
    client = serve(models=(files["linear"], files["boosted"]))
    assert client.post("/v1/models/boosted/shadow").json()["shadow"]
    shown = client.rank(ROWS)
    assert shown["model"].startswith("linear-")
    event = json.loads(client.get("/v1/log").text)
    (version, scores), *_ = event["shadow"].items()
    order = [int(item["id"][1:]) for item in event["items"]]
    assert version.startswith("boosted-")
    assert scores == rw.load_scorer(files["boosted"]).decision_function(ROWS[order]).tolist()
    assert not client.delete("/v1/models/boosted/shadow").json()["shadow"]
    client.rank(ROWS)
    assert "shadow" not in json.loads(client.get("/v1/log").text.splitlines()[-1])


def test_recommendations_are_those_of_the_model(serve, files):
    client = serve(models=(files["films"],))
    model = rw.load(files["films"])
    user = model.ratings_.users[3]
    answer = client.post("/v1/recommend", {"user": int(user), "n": 4}).json()
    expected = [(int(each.item), each.score) for each in model.recommend(user, 4)]
    assert [(item["id"], item["score"]) for item in answer["items"]] == expected
    first, second = expected[0][0], expected[1][0]
    answer = client.post("/v1/recommend", {"user": int(user), "exclude": [first], "n": 2}).json()
    assert answer["items"][0]["id"] == second
    answer = client.post("/v1/recommend", {"user": int(user), "filter": [second, str(first)]})
    assert [item["id"] for item in answer.json()["items"]] == [first, second]
    new = client.post("/v1/recommend", {"ratings": {"1": 5, "2": 1}, "n": 3}).json()
    expected = [int(each.item) for each in model.recommend_new({1: 5, 2: 1}, 3)]
    assert [item["id"] for item in new["items"]] == expected
    assert client.feedback(new["event"], clicks=[str(expected[0])])["seq"]
    for body in ({}, {"user": 1, "ratings": {"1": 3}}, {"user": "nobody"}, {"user": "--5"}):
        assert client.post("/v1/recommend", body).status_code == 422
    assert client.post("/v1/rank", {"items": []}).status_code == 404  # nothing ranks


def test_two_stages_recommend(serve, tmp_path):
    log = make_shop_log(4000, 200, 80, random_state=0)
    model = rw.TwoStageRecommender(ranker=rw.LambdaMART(n_estimators=5), random_state=0).fit(log)
    rw.save(model, tmp_path / "two.rw")
    client = serve(models=(tmp_path / "two.rw",))
    user = log.users[0].item()
    answer = client.post("/v1/recommend", {"user": user, "n": 3}).json()
    expected = [tuple(each) for each in model.recommend(user, 3)]
    assert [(item["id"], item["score"]) for item in answer["items"]] == expected
    taken = log.items[5].item()
    answer = client.post("/v1/recommend", {"ratings": {str(taken): 1}, "n": 3}).json()
    expected = [tuple(each) for each in model.recommend_new({taken: 1.0}, 3)]
    assert [(item["id"], item["score"]) for item in answer["items"]] == expected


def test_recommendations_from_events_take_weights_as_ratings(serve, tmp_path):
    users = [f"u{at % 7}" for at in range(70)]
    events = rw.Interactions(users, [f"p{at * at % 11}" for at in range(70)], time=range(70))
    model = rw.Recommender(random_state=0).fit(events)
    rw.save(model, tmp_path / "shop.rw")
    client = serve(models=(tmp_path / "shop.rw",))
    answer = client.post("/v1/recommend", {"user": "u3", "n": 2}).json()
    expected = [tuple(each) for each in model.recommend("u3", 2)]
    assert [(item["id"], item["score"]) for item in answer["items"]] == expected
    answer = client.post("/v1/recommend", {"ratings": {"p1": 1, "p4": 2}, "n": 2}).json()
    expected = [tuple(each) for each in model.recommend_new({"p1": 1, "p4": 2}, 2)]
    assert [(item["id"], item["score"]) for item in answer["items"]] == expected


def test_lists_are_fused_by_a_rule_or_a_model(serve, files):
    client = serve(models=(files["fusion"],))
    lists = {"ours": ["a", "b", "c"], "theirs": ["b", "a"], "web": ["b", "d"]}
    answer = client.post("/v1/fuse", {"runs": lists, "method": "rrf"}).json()
    assert [item["id"] for item in answer["items"]] == ["b", "a", "d", "c"]
    model = rw.load(files["fusion"])
    engines = list(model.engines_)
    runs = {engines[0]: ["x", "y"], engines[1]: {"y": 2.0, "z": 1.0}}
    answer = client.post("/v1/fuse", {"runs": runs}).json()
    expected = model.fuse({name: {"q": run} for name, run in runs.items()})
    assert [item["id"] for item in answer["items"]] == expected.docs[
        expected.doc[expected.order]
    ].tolist()
    assert client.post("/v1/fuse", {"runs": lists}).status_code == 422  # unknown engines
    assert client.post("/v1/fuse", {"runs": {}, "method": "rrf"}).status_code == 422
    assert client.post("/v1/fuse", {"runs": lists, "method": "best"}).status_code == 422


def test_a_ranker_is_trained_on_the_log_compared_and_activated(serve):
    client = serve()
    sample = make_queries(40, docs_per_query=8, n_features=10, random_state=5)
    for query in range(40):
        rows = sample.X[sample.qid == query]
        grades = sample.y[sample.qid == query]
        event = client.rank(rows, query=f"q{query}")["event"]
        client.feedback(event, grades={f"a{i}": int(grade) for i, grade in enumerate(grades)})
    body = {"ranker": "RankSVM", "parameters": {"C": 0.1}, "activate": "better"}
    answer = client.post("/v1/train", body)
    assert answer.status_code == 200, answer.text
    result = answer.json()
    assert (result["n_train"], result["n_test"]) == (32, 8)
    assert result["new"] > result["active"]  # the demo model was trained on other weights
    assert result["activated"]
    assert result["model"]["measures"] == {"NDCG@10": result["new"]}
    assert client.rank(rows)["model"] == result["model"]["version"]
    worse = client.post("/v1/train", {"ranker": "RankBoost", "parameters": {"n_estimators": 1}})
    assert not worse.json()["activated"]
    random = {"ranker": "OAPBagging", "random_state": 3}
    versions = {client.post("/v1/train", random).json()["model"]["version"] for _ in range(2)}
    assert len(versions) == 1  # a version names the bytes of the model
    for body in ({"ranker": "Nobody"}, {"parameters": {"depth": 3}}, {"measure": "BEST"}):
        assert client.post("/v1/train", body).status_code == 422


def test_training_needs_graded_lists(client):
    answer = client.post("/v1/train", {})
    assert answer.status_code == 422
    assert "send feedback first" in answer.json()["detail"]


def test_learning_while_serving_moves_the_list(serve):
    client = serve(learn="BayesianPRank")
    rows = np.eye(3)
    assert [item["id"] for item in client.rank(rows)["items"]] == ["a0", "a1", "a2"]
    for number in range(8):
        event = client.rank(rows)["event"]
        client.feedback(event, id=str(number), grades={"a0": 0, "a1": 2, "a2": 4})
    client.wait_until_learned()
    answer = client.rank(rows)
    assert [item["id"] for item in answer["items"]] == ["a2", "a1", "a0"]
    assert answer["model"].startswith("live-")
    live = next(m for m in client.get("/v1/models").json()["models"] if m["name"] == "live")
    assert live["kind"] == "BayesianPRank"
    assert live["measures"]["examples"] == 24
    refused = client.post("/v1/feedback", {"event": event, "id": "x", "grades": {"a0": 9}})
    assert refused.status_code == 422
    assert "4, 5: send one of these" in refused.json()["detail"]
    before = client.service.learner.live.snapshot()
    client.close()
    again = serve(learn="BayesianPRank")
    assert again.service.learner.live.snapshot() == before
    assert [item["id"] for item in again.rank(rows)["items"]] == ["a2", "a1", "a0"]


@pytest.mark.parametrize("ensemble", [False, True])
def test_requests_do_not_wait_while_tree_kernels_compile(serve, tmp_path, monkeypatch, ensemble):
    from rankwright.scoring import _kernels, base

    sample = make_queries(20, n_features=3, random_state=0)
    path, go_on, compiled = tmp_path / "trees.rw", threading.Event(), []

    def slow(*arguments):
        compiled.append(threading.current_thread().name)
        go_on.wait(60)
        _kernels.add_trees(*arguments)

    model = rw.LambdaMART(n_estimators=5)
    model = rw.RankEnsemble([model, rw.RidgeRanker()]) if ensemble else model
    rw.save(model.fit(sample.X, sample.y, qid=sample.qid), path)
    module = SimpleNamespace(add_trees=slow, add_masked_trees=_kernels.add_masked_trees)
    monkeypatch.setattr(base, "compile_kernels", lambda: module)
    client = serve(models=(str(path),))
    answer = client.get("/readyz")
    assert (answer.status_code, "being compiled" in answer.json()["detail"]) == (503, True)
    before = client.rank(sample.X[:9])["items"]
    go_on.set()
    client.service._warming.join(60)
    wait_until_ready(client)
    assert set(compiled) == {"rankwright-warm"}
    assert client.rank(sample.X[:9])["items"] == before
    assert len(set(compiled)) == 2  # the request was scored by the kernel
    scores = {item["id"]: item["score"] for item in before}
    assert [scores[f"a{i}"] for i in range(9)] == model.decision_function(sample.X[:9]).tolist()


def test_the_state_of_the_service_is_told(serve):
    client = serve(learn="PRank")
    assert client.get("/healthz").json()["status"] == "ok"
    wait_until_ready(client)
    event = client.rank(ROWS)["event"]
    client.feedback(event, grades={"a0": 1, "a1": 5})
    client.wait_until_learned()
    text = client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert values['rankwright_requests_total{path="/v1/rank",status="200"}'] == "1.0"
    assert values['rankwright_request_seconds_bucket{le="+Inf",path="/v1/rank"}'] == "1.0"
    assert values["rankwright_examples"] == "2.0"
    assert float(values["rankwright_rank_loss"]) > 0
    assert any(name.startswith("rankwright_model_info{") for name in values)
    client.service.store.error = "the disk is full"
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "the disk is full" in answer.json()["detail"]


def test_the_api_describes_itself(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert {"/v1/rank", "/v1/feedback", "/v1/models", "/v1/experiments"} <= set(document["paths"])
    names = document["components"]["schemas"]["RankRequest"]["properties"]
    assert {"query", "items", "model", "n", "explain"} <= set(names)
    page = client.get("/api")
    assert page.headers["content-type"].startswith("text/html")
    assert "POST /v1/rank" in page.text
    assert "//" not in page.text.replace("application/", "").replace("http://", "")


def test_methods_and_paths_that_do_not_exist_are_problems(client):
    answer = client.get("/v1/rank")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert client.get("/v1/none").status_code == 404
    assert client.get("/v1/models?color=red").status_code == 200
    assert client.get("/v1/log?color=red").status_code == 422
    assert client.get("/v1/log?limit=1&limit=2").status_code == 422
    assert client.get("/v1/log?format=xml").status_code == 422


def test_a_token_may_do_what_its_scopes_say(serve, tmp_path):
    from rankwright.service.api.security import Tokens

    tokens = tmp_path / "tokens"
    tokens.write_text("reader 0123456789abcdef rank\nboss fedcba9876543210\n")
    client = serve(tokens=Tokens.read(tokens), host="0.0.0.0")
    reader = {"authorization": "Bearer 0123456789abcdef"}
    boss = {"authorization": "Bearer fedcba9876543210"}
    assert client.post("/v1/rank", {"items": []}, headers=reader).status_code == 200
    assert client.get("/v1/log", headers=reader).status_code == 403
    assert client.get("/v1/log", headers=boss).status_code == 200
    assert client.get("/v1/log").status_code == 401
    assert client.get("/healthz").status_code == 200
    text = " ".join(entry.body.decode("latin-1") for entry in client.service.store.entries())
    assert "0123456789abcdef" not in text


def test_a_full_disk_is_told_and_nothing_is_half_kept(client, monkeypatch):
    event = client.rank(ROWS)["event"]
    store = client.service.store
    store.flush()

    def full(jobs):
        raise OSError("database or disk is full")

    monkeypatch.setattr(store, "_work", full)
    answer = client.post("/v1/feedback", {"event": event, "id": "1", "clicks": ["a0"]})
    assert answer.status_code == 503
    assert "disk is full" in answer.json()["detail"]
    assert answer.headers["retry-after"] == "1"
    lost = client.rank(ROWS)["event"]  # ranking goes on
    assert client.get("/readyz").status_code == 503
    monkeypatch.undo()
    assert not client.feedback(event, clicks=["a0"])["duplicate"]
    store.flush()
    client.service._warming.join()  # loops may still be compiled
    assert client.get("/readyz").status_code == 200
    answer = client.post("/v1/feedback", {"event": lost, "id": "1", "clicks": []})
    assert answer.status_code in (200, 404)  # the list was written after the cure, or never


def test_old_entries_are_deleted_once_they_are_learned(serve, monkeypatch):
    from rankwright.service.learning import log_learner

    client = serve(learn="PRank", retention_days=1e-9)
    event = client.rank(ROWS)["event"]
    client.feedback(event, grades={"a0": 1, "a1": 3})
    client.wait_until_learned()
    monkeypatch.setattr(log_learner, "RETENTION_SECONDS", -1.0)
    client.service.learner._wake.set()
    event = client.rank(ROWS)["event"]
    client.feedback(event, grades={"a0": 1, "a1": 3})
    client.wait_until_learned()
    for _ in range(2000):
        if not list(client.service.store.entries(("feedback",))):
            break
        client.service.learner._wake.set()
        client.get("/healthz")
        time.sleep(0.02)
    assert not list(client.service.store.entries(("feedback",)))
    assert client.service.learner.live.progress.n_examples == 4


def test_old_lists_without_feedback_are_deleted(serve, monkeypatch):
    from rankwright.service.learning import log_learner

    monkeypatch.setattr(log_learner, "RETENTION_SECONDS", -1.0)
    client = serve(retention_days=1e-9)
    client.rank(ROWS)
    deadline = time.monotonic() + 60
    while client.get("/v1/log").text:
        assert time.monotonic() < deadline
        client.service.learner._wake.set()
        time.sleep(0.02)


def test_a_model_of_another_library_is_served(serve, files, tmp_path):
    path = tmp_path / "theirs.txt"
    rw.export(rw.load(files["boosted"]), path, to="lightgbm")
    client = serve(models=(str(path),))
    scores = {item["id"]: item["score"] for item in client.rank(ROWS)["items"]}
    expected = rw.load(files["boosted"]).decision_function(ROWS)
    assert sorted(scores.values()) == pytest.approx(sorted(expected), abs=1e-12)


def test_metrics_count_the_status_that_was_answered(client):
    body = {"runs": {"a": ["x"]}, "method": "nope"}
    assert client.post("/v1/fuse", body).status_code == 422
    lines = client.get("/metrics").text.splitlines()
    assert 'rankwright_requests_total{path="/v1/fuse",status="422"} 1.0' in lines
    assert "Use one of jsonl, qrels, letor." in client.get("/v1/log?format=csv").json()["detail"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_estimators": 10**30},
        {"n_estimators": 1e308},
        {"n_estimators": -1},
        {"learning_rate": "x"},
        {"nothing": 1},
        {"max_leaf_nodes": 2**62},
    ],
)
def test_absurd_parameters_of_training_are_refused(client, parameters):
    for number in range(6):
        shown = client.rank([[number, 1.0] + [0.0] * 8, [0.0, number] + [0.0] * 8])
        client.feedback(shown["event"], grades={"a0": number % 3, "a1": 0})
    answer = client.post("/v1/train", {"ranker": "LambdaMART", "parameters": parameters})
    assert answer.status_code == 422, answer.text


def test_a_negative_zero_is_exported_as_zero(client):
    event = client.rank([[0.5] * 10])["event"]
    client.feedback(event, grades={"a0": -0.0})
    assert client.get("/v1/log?format=qrels").text == "q 0 a0 0\n"
    assert client.get("/v1/log?format=letor").text.startswith("0 qid:q")


def test_a_short_retention_is_swept_often(serve):
    client = serve(retention_days=1.5 / 86400)
    client.rank([[0.5] * 10])
    deadline = time.monotonic() + 30
    while list(client.service.store.entries()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(client.service.store.entries())


def wait_until_ready(client):
    """A service is ready when what its pages use is compiled."""
    deadline = time.monotonic() + 60
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
