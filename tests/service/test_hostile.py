"""Hostile inputs are refused with a reason; nothing of them reaches the file system or fails."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

import rankwright

GOOD = {"query": "q", "items": [{"id": "a", "features": [1.0] * 10}]}


def with_features(values):
    return {"items": [{"id": "a", "features": values}]}


BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"[" * 100_000,
    b'{"items":' * 50_000,
    b'{"query": "q", "items": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b"\xff\xfe{}",
    b"\x00" * 100,
    b'{"items": [{"id": "a", "features": [NaN, 1]}]}',
    b'{"items": [{"id": "a", "features": [1e999]}]}',
    b'{"items": [{"id": "a", "features": [-Infinity]}]}',
    json.dumps({**GOOD, "evil": 1}).encode(),
    json.dumps({**GOOD, "n": 0}).encode(),
    json.dumps({**GOOD, "n": "1"}).encode(),
    json.dumps({**GOOD, "n": 1.5}).encode(),
    json.dumps({**GOOD, "explain": "yes"}).encode(),
    json.dumps({**GOOD, "model": "../../etc/passwd"}).encode(),
    json.dumps({**GOOD, "model": ""}).encode(),
    json.dumps({**GOOD, "user": "u" * 513}).encode(),
    json.dumps({**GOOD, "ids": ["a"]}).encode(),
    json.dumps({"query": "q"}).encode(),
    json.dumps({"ids": ["a"]}).encode(),
    json.dumps({"ids": ["a"], "columns": {"f1": [1]}}).encode(),
    json.dumps({"ids": ["a"], "columns": {f"f{i}": [1, 2] for i in range(1, 11)}}).encode(),
    json.dumps({"ids": ["a"], "float32": "AAAA"}).encode(),
    json.dumps({"ids": ["a"], "float32": "not base64!"}).encode(),
    json.dumps({"ids": ["a"], "float32": "AAA", "float64": "AAAA"}).encode(),
    json.dumps({"items": GOOD["items"] * 2}).encode(),
    json.dumps({"items": [{"id": True, "features": [1.0] * 10}]}).encode(),
    json.dumps({"items": [{"id": None, "features": [1.0] * 10}]}).encode(),
    json.dumps({"items": [{"id": "", "features": [1.0] * 10}]}).encode(),
    json.dumps({"items": [{"id": "a"}]}).encode(),
    json.dumps({"items": [{"features": [1.0] * 10}]}).encode(),
    json.dumps({"items": [{"id": "a", "features": [1.0] * 10, "path": "/etc"}]}).encode(),
    json.dumps({"items": {"a": [1.0] * 10}}).encode(),
    json.dumps(with_features([1.0] * 9)).encode(),
    json.dumps(with_features([1.0] * 10_000)).encode(),
    json.dumps(with_features(["1.0"] * 10)).encode(),
    json.dumps(with_features([[1.0]] * 10)).encode(),
    json.dumps(with_features([True] * 10)).encode(),
    json.dumps(with_features({"f1": 1.0})).encode(),
    json.dumps(with_features("f1")).encode(),
    json.dumps(with_features(None)).encode(),
    json.dumps([GOOD] * 101).encode(),
    b'{"query": "q", "items": [' + b",".join([b'{"id": 1, "features": []}'] * 20_000) + b"]}",
    b'{"query": "' + b"x" * 10_000_000 + b'"}',
]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_a_hostile_body_is_refused_with_a_reason(shared, number):
    answer = shared.request(
        "POST", "/v1/rank", content=BODIES[number], headers={"content-type": "application/json"}
    )
    assert answer.status_code in (400, 404, 413, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert len(problem["detail"]) > 10
    assert len(answer.content) < 2000


TEXTS = [
    "'; DROP TABLE log; --",
    '" OR 1=1 --',
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}",
    "../../../etc/passwd",
    "..\\..\\windows",
    "%2e%2e%2fetc",
    "a\x00b",
    "\u202egnp.exe",
    "💥" * 100,
    "null",
    "NaN",
    "CON",
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_any_text_is_kept_and_given_back_as_text(shared, text):
    items = [{"id": text, "features": [1.0] * 10}, {"id": "b", "features": [0.0] * 10}]
    answer = shared.post("/v1/rank", {"query": text, "user": text, "items": items})
    assert answer.status_code == 200
    assert {item["id"] for item in answer.json()["items"]} == {text, "b"}
    event = answer.json()["event"]
    sent = shared.post("/v1/feedback", {"event": event, "id": text, "grades": {text: 1}})
    assert sent.json()["id"] == text
    lines = shared.get("/v1/log", params={"user": text}).text.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["event", "feedback"]
    assert json.loads(lines[0])["query"] == text
    for name in ("qrels", "letor"):
        exported = shared.get("/v1/log", params={"user": text, "format": name}).text
        assert exported.count("\n") == 1
    assert shared.delete("/v1/log", params={"user": text}).json() == {"deleted": 2}


PATHS = [
    "..",
    "../x",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f",
    "%252e%252e%252f",
    "..%5c..%5cwindows",
    "a%00b",
    "%2fetc%2fpasswd",
    "C:%5cwindows",
    "CON",
    "x" * 3000,
    "%F0%9F%92%A5",
    "~root",
    "file:%2f%2f%2fetc%2fpasswd",
    "%ff%fe",
]


OPENED: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def watch_files():
    """Note the name of every file that is opened; an audit hook stays, so there is only one."""

    def audit(event, arguments):
        if event == "open" and isinstance(arguments[0], str):
            OPENED.append(arguments[0])

    sys.addaudithook(audit)


@pytest.mark.parametrize("name", PATHS, ids=range(len(PATHS)))
@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/v1/models/{}/activate"),
        ("POST", "/v1/models/{}/shadow"),
        ("DELETE", "/v1/models/{}"),
        ("GET", "/v1/experiments/{}"),
        ("DELETE", "/v1/experiments/{}"),
        ("GET", "/static/{}"),
    ],
)
def test_no_name_of_a_request_opens_a_file(shared, method, path, name):
    OPENED.clear()
    answer = shared.request(method, path.format(name))
    if answer.request.url.path != "/":  # what the client itself made of ".."
        assert answer.status_code in (403, 404, 405, 422), answer.text
    package = str(Path(rankwright.__file__).parent)
    # /proc is what the monitor of another test's Dask cluster reads meanwhile.
    known = (package, sys.prefix, sys.base_prefix, "/proc/")
    outside = [file for file in OPENED if not file.startswith(known)]
    assert outside == []


def test_names_of_uploads_are_names(shared):
    binary = {"content-type": "application/octet-stream"}
    for name in ("../x", "a/b", "", "x" * 65, ".hidden", "a b"):
        answer = shared.request(
            "POST", "/v1/models", params={"name": name}, content=b"x", headers=binary
        )
        assert answer.status_code == 422
        assert "name" in answer.json()["detail"]


def test_a_slow_body_is_cut_off(serve):
    client = serve()
    client.app.body_seconds = 0.05

    async def slow():
        for _ in range(20):
            yield b" "
            await asyncio.sleep(0.02)

    assert client.request("POST", "/v1/rank", content=slow()).status_code == 408
