"""Generated content is shown where somebody asked for it, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
import threading

import httpx
import pytest
from tests.service.processes import Server, refused

import rankwright as rw
from rankwright.data import make_queries
from rankwright.service.judging.state import Judging


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "shop.rw"
    sample = make_queries(20, n_features=3, random_state=0)
    rw.save(rw.RidgeRanker().fit(sample.X, sample.y, qid=sample.qid), path)
    return str(path)


def test_a_service_without_a_queue_has_nothing_to_judge(serve, model):
    client = serve(models=(model,))
    page = client.get("/judge")
    assert page.status_code == 404
    assert "--queue" in page.text
    dashboard = client.get("/").text
    assert "Judgments" not in dashboard
    assert "simulated" not in dashboard
    assert "demo" not in {info["version"] for info in client.get("/v1/models").json()["models"]}


def test_nothing_to_serve_is_an_error_with_advice(tmp_path):
    code, said = refused(tmp_path, "--port", "0")
    assert code == 2
    assert all(option in said for option in ("--learn", "--demo"))
    assert not list(tmp_path.iterdir())


def test_the_demo_has_no_server_of_its_own():
    command = [sys.executable, "-m", "rankwright", "demo", "--serve"]
    assert subprocess.run(command, capture_output=True).returncode == 2


def test_what_was_uploaded_is_enough_to_serve(tmp_path, model):
    server = Server(tmp_path, "--demo", "--port", "0")
    assert "demo model" in "".join(server.lines)
    with open(model, "rb") as file:
        answer = httpx.post(
            f"{server.url}/v1/models", params={"name": "shop", "activate": True},
            content=file.read(), headers={"content-type": "application/octet-stream"},
        )  # fmt: skip
    assert answer.status_code == 201
    server.stop()
    server = Server(tmp_path, "--port", "0")
    assert httpx.get(f"{server.url}/judge").status_code == 404
    assert f"rank: {answer.json()['version']}" in "".join(server.lines)
    server.stop()


def test_the_service_is_not_ready_before_what_pages_need_is_compiled(serve, monkeypatch):
    go = threading.Event()
    monkeypatch.setattr(Judging, "warm_up", lambda judging: go.wait(60))
    client = serve(demo=True)
    assert "compiled" in client.get("/readyz").text
    assert client.get("/").status_code == 200  # and pages do not wait for it
    go.set()
    client.service._warming.join()
    assert "compiled" not in client.get("/readyz").text
