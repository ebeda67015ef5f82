"""A service in this process, and a client of it that needs no socket."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx
import pytest

from rankwright.service import Settings, create_app


class Client:
    """A synchronous client; the application runs in an event loop of its own thread."""

    def __init__(self, app):
        self.app, self.service = app, app.service
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        transport = httpx.ASGITransport(app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self.cookies = self.http.cookies

    def request(self, method, path, **options):
        call = self.http.request(method, path, **options)
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(60)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, json=None, **options):
        return self.request("POST", path, json=json, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def rank(self, rows, **more):
        """Rank items a0, a1, ... with these features; the answer."""
        items = [{"id": f"a{i}", "features": list(row)} for i, row in enumerate(rows)]
        answer = self.post("/v1/rank", {"query": "q", "items": items, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def feedback(self, event, id="1", **content):
        answer = self.post("/v1/feedback", {"event": event, "id": id, **content})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_until_learned(self):
        """Wait for the learner to reach the end of the log."""
        deadline = time.monotonic() + 300  # a busy machine compiles slowly
        self.service.store.flush()
        while self.service.learner.behind and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.02)
        assert not self.service.learner.behind

    def close(self):
        if self.loop.is_closed():
            return
        self.service.close()
        asyncio.run_coroutine_threadsafe(self.http.aclose(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def serve(tmp_path):
    """A function that starts a service with some settings and returns a client."""
    clients = []

    def start(store="feedback.db", **settings):
        clients.append(Client(create_app(Settings(store=str(tmp_path / store), **settings))))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def client(serve):
    return serve()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One service for all tests of a module."""
    path = tmp_path_factory.mktemp("log") / "feedback.db"
    client = Client(create_app(Settings(store=str(path))))
    yield client
    client.close()
