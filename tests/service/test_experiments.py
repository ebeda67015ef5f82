"""Interleaving on live traffic: deterministic lists, credit by clicks, a valid result."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from rankwright.online_eval.interleaving import Interleaved, credit
from rankwright.persist.scorer import SavedScorer
from rankwright.scoring.linear import Linear
from rankwright.service.models import served_scorer

ROWS = np.random.default_rng(3).standard_normal((8, 3))


@pytest.fixture
def pair(serve):
    """A service with a model that knows the truth, and its opposite."""
    client = serve()
    for name, coef in (("good", [1.0, 0.0, 0.0]), ("bad", [-1.0, 0.0, 0.0])):
        scorer = SavedScorer("RidgeRanker", Linear(np.array(coef)), (), None)
        state = client.service.models.state
        models = {**state.models, name: served_scorer(scorer, name, name, "file")}
        client.service.models.switch(replace(state, models=models))
    return client


def start(client, **more):
    body = {"name": "trial", "models": ["good", "bad"], **more}
    answer = client.post("/v1/experiments", body)
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.mark.parametrize("method", ["team_draft", "balanced", "probabilistic", "optimized"])
def test_the_same_query_user_and_seed_give_the_same_list(pair, method):
    start(pair, method=method, seed=7)
    ask = {"query": "shoes", "user": "anna", "n": 5}
    first, again = pair.rank(ROWS, **ask), pair.rank(ROWS, **ask)
    assert first["items"] == again["items"]
    assert first["experiment"] == "trial"
    assert first["model"] == "good+bad"
    assert [item["rank"] for item in first["items"]] == [1, 2, 3, 4, 5]
    lists = {
        tuple(item["id"] for item in pair.rank(ROWS, query="shoes", user=str(u), n=5)["items"])
        for u in range(20)
    }
    assert len(lists) > 1


def test_clicks_are_credited_and_the_better_model_is_found(pair):
    assert start(pair)["sessions"] == 0
    best = f"a{int(np.argmax(ROWS[:, 0]))}"
    for user in range(40):
        answer = pair.rank(ROWS, user=str(user), n=4)
        shown = [item["id"] for item in answer["items"]]
        pair.feedback(answer["event"], clicks=[best] if best in shown else [])
    pair.wait_until_learned()
    result = pair.get("/v1/experiments/trial").json()
    assert result["sessions"] == 40
    assert result["wins"] > 30
    assert result["losses"] == 0
    assert result["better"] == "good"
    assert result["interval"][0] > 0.5
    assert result["p_value"] < 0.05
    events = [json.loads(line) for line in pair.get("/v1/log").text.splitlines()]
    lists = {event["event"]: event for event in events if event["kind"] == "event"}
    earned = np.zeros(2)
    for line in events:
        if line["kind"] == "feedback":
            event = lists[line["event"]]
            ids = [item["id"] for item in event["items"]]
            shown = Interleaved.from_dict({**event["interleaved"], "items": ids})
            earned += credit(shown, line["clicks"])
    assert earned[0] == result["wins"]  # one click a list


def test_clicks_that_come_one_by_one_are_one_session(pair):
    start(pair)
    answer = pair.rank(ROWS, user="u", n=8)
    ids = [item["id"] for item in answer["items"]]
    for number, item in enumerate(ids[:3]):
        pair.feedback(answer["event"], id=str(number), clicks=[item])
    pair.feedback(answer["event"], id="0", clicks=[ids[0]])  # a retry
    pair.wait_until_learned()
    result = pair.get("/v1/experiments").json()["experiments"][0]
    assert result["sessions"] == 1
    event = json.loads(pair.get("/v1/log").text.splitlines()[0])
    shown = Interleaved.from_dict({**event["interleaved"], "items": ids})
    first, second = credit(shown, ids[:3])
    expected = (int(first > second), int(second > first), int(first == second))
    assert (result["wins"], result["losses"], result["ties"]) == expected


def test_an_experiment_takes_its_share_and_is_stopped(pair, serve):
    pair.post("/v1/models/good/activate")
    start(pair, share=0.3, seed=1)
    answers = [pair.rank(ROWS, user=str(user)) for user in range(200)]
    share = np.mean(["experiment" in answer for answer in answers])
    assert 0.15 < share < 0.45
    assert "experiment" not in pair.rank(ROWS, model="good")
    assert (
        pair.post("/v1/experiments", {"name": "other", "models": ["good", "bad"]}).status_code
        == 409
    )
    assert pair.delete("/v1/models/good").status_code == 409
    assert not pair.delete("/v1/experiments/trial").json()["running"]
    assert "experiment" not in pair.rank(ROWS, user="0")
    assert "experiment" not in pair.rank(ROWS, user="1")
    again = pair.post("/v1/experiments", {"name": "trial", "models": ["good", "bad"]})
    assert again.status_code == 409
    for body, status in [
        ({"name": "x", "models": ["good", "good"]}, 422),
        ({"name": "x", "models": ["good", "nobody"]}, 404),
        ({"name": "x", "models": ["good"]}, 422),
        ({"name": "../x", "models": ["good", "bad"]}, 422),
        ({"name": "x", "models": ["good", "bad"], "method": "random"}, 422),
    ]:
        assert pair.post("/v1/experiments", body).status_code == status
    assert pair.get("/v1/experiments/none").status_code == 404


def test_counts_survive_a_restart(pair, serve):
    start(pair)
    for user in range(6):
        answer = pair.rank(ROWS, user=str(user), n=4)
        pair.feedback(answer["event"], clicks=[answer["items"][0]["id"]])
    pair.wait_until_learned()
    before = pair.get("/v1/experiments/trial").json()
    pair.close()
    again = serve()
    assert again.get("/v1/experiments/trial").json() == before
    assert "experiment" not in again.rank(np.ones((2, 10)))  # its models are gone
