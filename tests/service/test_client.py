"""The Python client: every operation of the OpenAPI document, retries, idempotency keys."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from tests.service.processes import Server

from rankwright.client import Client, ServiceError
from rankwright.exceptions import ParameterError
from rankwright.service.api.operations import OPERATIONS
from rankwright.service.api.routing import describe

PAGES = {"get /api"}  # for people
REPLICA = re.compile("(get|post) /v1/replica/")  # for replicas
ITEMS = [{"id": f"d{i}", "features": [i / 7] * 10} for i in range(3)]


class Recorder(Client):
    """Notes what would be sent."""

    def __init__(self):
        super().__init__("http://localhost")
        self.sent = []

    def _send(self, method, target, body, headers):
        self.sent.append((method.lower(), target, body, headers.get("content-type")))
        return 200, b"{}", 0.0


CALLS = [
    lambda c: c.rank(ITEMS, query="q", n=2),
    lambda c: c.rank_many([{"items": ITEMS}]),
    lambda c: c.recommend(user="u", n=3),
    lambda c: c.fuse({"a": ["x"], "b": ["y"]}, n=1),
    lambda c: c.feedback("e", clicks=["d1"]),
    lambda c: c.models(),
    lambda c: c.model("shop"),
    lambda c: c.drift("shop", lists=9),
    lambda c: c.upload(b"x", "shop", activate=True),
    lambda c: c.activate("shop"),
    lambda c: c.rollback(),
    lambda c: c.shadow("shop"),
    lambda c: c.shadow("shop", on=False),
    lambda c: c.delete_model("shop/../x"),
    lambda c: c.train(ranker="RankSVM", parameters={"C": 0.1}),
    lambda c: c.experiments(),
    lambda c: c.experiment("trial"),
    lambda c: c.create_experiment("trial", ["a", "b"], seed=1),
    lambda c: c.stop_experiment("trial"),
    lambda c: list(c.log(limit=1)),
    lambda c: c.export("letor", user="u"),
    lambda c: c.delete_user("a&b"),
    lambda c: c.replication(),
    lambda c: c.promote(),
    lambda c: c.health(),
    lambda c: c.ready(),
    lambda c: c.metrics(),
    lambda c: c.openapi(),
]


def matching(document, method, target):
    """The operation of a request."""
    path = target.partition("?")[0]
    for template, methods in document["paths"].items():
        pattern = re.sub(r"{\w+}", "[^/]+", template)
        if re.fullmatch(pattern, path) and method in methods:
            return template, methods[method]
    raise AssertionError(f"{method} {target} is not an operation")


def test_every_call_is_an_operation_and_every_operation_has_a_call():
    document, client, used = describe(OPERATIONS), Recorder(), set()
    for call in CALLS:
        call(client)
    for method, target, body, media in client.sent:
        template, operation = matching(document, method, target)
        used.add(f"{method} {template}")
        names = {parameter["name"] for parameter in operation.get("parameters", ())}
        given = re.findall(r"[?&](\w+)=", target)
        assert set(given) <= names
        if "requestBody" in operation:
            assert media in operation["requestBody"]["content"]
            if media == "application/json":
                json.loads(body)
    known = {f"{m} {path}" for path, methods in document["paths"].items() for m in methods}
    assert used == {name for name in known - PAGES if not REPLICA.match(name)}


class Flaky(BaseHTTPRequestHandler):
    """Fails as the script says, then answers."""

    protocol_version = "HTTP/1.1"
    script: ClassVar[list] = []
    seen: ClassVar[list] = []

    def do_POST(self):
        self.seen.append(self.rfile.read(int(self.headers["content-length"])))
        step = self.script.pop(0) if self.script else 200
        if step == "cut":
            self.close_connection = True
            self.connection.close()
            return
        body = b'{"detail": "no"}'
        self.send_response(step)
        self.send_header("content-length", str(len(body)))
        if step == 429:
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def flaky():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Flaky.seen = []
    client = Client(f"http://127.0.0.1:{server.server_port}", wait=0.001)
    yield client
    client.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_feedback_is_sent_again_with_the_same_key(flaky):
    Flaky.script = ["cut", 503, 429, "cut"]
    flaky.feedback("e", grades={"a": 1})
    keys = {json.loads(body)["id"] for body in Flaky.seen}
    assert (len(Flaky.seen), len(keys)) == (5, 1)


def test_what_must_not_happen_twice_is_not_sent_twice(flaky):
    Flaky.script = ["cut"]
    with pytest.raises(ServiceError, match="no answer") as caught:
        flaky.train(ranker="RankSVM")
    assert caught.value.status == 0
    assert len(Flaky.seen) == 1
    Flaky.script = [503]
    flaky.train(ranker="RankSVM")  # it was not begun


def test_attempts_end_and_refusals_are_not_repeated(flaky):
    Flaky.script = [503] * 10
    with pytest.raises(ServiceError, match="503: no"):
        flaky.rank(ITEMS)
    assert len(Flaky.seen) == 5
    Flaky.script = [422]
    with pytest.raises(ServiceError) as caught:
        flaky.rank(ITEMS)
    assert caught.value.status == 422
    with pytest.raises(ParameterError, match="http://HOST"):
        Client("localhost:8000")


def test_a_client_works_through_a_restart(tmp_path):
    token = "t" * 32
    (tmp_path / "tokens").write_text(f"shop {token}\n")
    options = ["--demo", "--token-file", "tokens"]
    server = Server(tmp_path, *options, "--port", "0")
    with Client(server.url, token=token, retries=12) as client:
        answer = client.rank(ITEMS, query="q")
        server.stop()
        port = str(server.port)
        later = []
        restart = threading.Thread(
            target=lambda: later.append(Server(tmp_path, *options, "--port", port))
        )
        restart.start()
        sent = client.feedback(answer["event"], id="1", clicks=["d1"])
        restart.join()
        again = client.feedback(answer["event"], id="1", clicks=["d1"])
        assert (sent["duplicate"], again["duplicate"]) == (False, True)
        assert [entry["kind"] for entry in client.log()] == ["event", "feedback"]
        with pytest.raises(ServiceError) as caught:
            client.rank([{"id": "a", "features": [1]}])
        assert caught.value.status == 422
    later[0].stop()
