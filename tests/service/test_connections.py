"""Slow, greedy and hostile connections: others are answered, and limits are kept."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import time

import httpx
import pytest
from tests.service.processes import Server

from rankwright.service.api.security import Tokens

RANK, ADMIN = "r" * 32, "a" * 32
HALF = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("connections")
    (folder / "tokens").write_text(f"shop {RANK} rank\nboss {ADMIN} admin\n")
    options = ["--header-timeout", "1", "--idle-timeout", "1", "--trusted-proxy", "127.0.0.9"]
    server = Server(
        folder, "--demo", "--port", "0", "--token-file", "tokens", *options,
        "--max-connections-per-address", "20",
    )  # fmt: skip
    server.wait_until_ready()
    yield server
    server.stop()


def read_all(connection, seconds=20):
    """Everything until the other side closes."""
    connection.settimeout(seconds)
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_health_checks_answer_while_300_headers_are_half_sent(server):
    slow = [server.connect(HALF, f"127.0.0.{2 + i % 3}") for i in range(300)]
    try:
        for path in ("/healthz", "/readyz"):
            assert httpx.get(server.url + path, timeout=5).status_code == 200
        headers = {"authorization": f"Bearer {RANK}"}
        assert httpx.get(f"{server.url}/v1/models", headers=headers).status_code == 200
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("sent", [b"", b"\r\n", HALF])
def test_a_connection_without_a_whole_header_is_closed(server, sent):
    start = time.monotonic()
    with server.connect(sent) as connection:
        read_all(connection)
    assert 0.8 <= time.monotonic() - start < 15


def test_a_connection_that_is_kept_and_not_used_is_closed(server):
    with server.connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
        assert b"200 OK" in read_all(connection)


def test_one_address_has_a_limit_and_its_health_checks_do_not(server):
    kept = [server.connect(HALF, "127.0.0.7") for _ in range(20)]
    request = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    try:
        with server.connect(request % b"/v1/models", "127.0.0.7") as more:
            answer = read_all(more)
        assert answer.startswith(b"HTTP/1.1 429")
        assert b"20 connections" in answer
        with server.connect(request % b"/healthz", "127.0.0.7") as health:
            assert read_all(health).startswith(b"HTTP/1.1 200")
        with server.connect(request % b"/v1/models", "127.0.0.8") as other:
            assert read_all(other).startswith(b"HTTP/1.1 401")
    finally:
        for connection in kept:
            connection.close()


@pytest.mark.parametrize("size", [100_000, 10_000_000])
def test_large_headers_are_refused(server, size):
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: %s\r\n\r\n" % (b"x" * size)
    with contextlib.suppress(ConnectionError), server.connect() as connection:
        connection.sendall(request)
        assert read_all(connection).startswith(b"HTTP/1.1 431")


def test_answers_of_every_form_are_whole(server):
    """The header waits for the body; an answer may have none, or only a part of it yet."""
    admin = f"Authorization: Bearer {ADMIN}\r\n"
    with server.connect() as connection:
        connection.settimeout(10)
        for line in ("HEAD /healthz", "GET /healthz", "GET /v1/log", "GET /static/judge.js"):
            request = f"{line} HTTP/1.1\r\nHost: localhost\r\n{admin}\r\n".encode()
            connection.sendall(request)
            with http.client.HTTPResponse(connection, method=line.split()[0]) as answer:
                answer.begin()
                assert answer.status == 200, line
                assert bool(answer.read()) is (line not in ("HEAD /healthz", "GET /v1/log"))
        asking = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(asking * 3)  # without waiting for the answers
        got = b""
        while got.count(b"200 OK") < 3 or not got.endswith(b"}"):
            got += connection.recv(65536)


def test_a_client_that_waits_to_send_its_body_is_told_to(server):
    head = f"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {RANK}\r\n"
    head += "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    with server.connect(head.encode()) as connection:
        connection.settimeout(10)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert read_status(connection) == 422


def read_status(connection):
    """Read one whole answer of a connection that stays open; its status."""
    with http.client.HTTPResponse(connection) as answer:
        answer.begin()
        answer.read()
        return answer.status


def test_the_rest_of_a_refused_body_is_no_header(server):
    size = 5 * 2**20
    head = f"POST /v1/feedback HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n"
    with server.connect(f"{head}Content-Length: {size}\r\n\r\n".encode()) as connection:
        assert read_status(connection) == 413
        connection.sendall(b"x" * size)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_status(connection) == 200


def test_the_rest_of_a_refused_body_has_a_time_limit(server):
    head = f"POST /v1/feedback HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n"
    with server.connect(f"{head}Content-Length: {5 * 2**20}\r\n\r\n".encode()) as connection:
        assert read_status(connection) == 413
        start = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - start < 15:
                connection.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() - start < 10


def test_the_time_for_a_body_begins_before_its_first_byte(serve):
    client = serve()
    client.app.body_seconds = 0.05

    async def never():
        await asyncio.sleep(1.0)
        yield b"{}"

    assert client.request("POST", "/v1/rank", content=never()).status_code == 408


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing", "/v1/train"])
def test_a_body_is_not_read_before_the_rights_are_checked(serve, tmp_path, path):
    (tmp_path / "tokens").write_text(f"shop {RANK} rank\nboss {ADMIN} admin\n")
    client = serve(token_file=str(tmp_path / "tokens"))
    read = []

    async def body():
        for _ in range(10):
            read.append(1)
            yield b" " * 1000

    headers = {"authorization": f"Bearer {RANK}", "content-type": "application/octet-stream"}
    answer = client.request("POST", path, content=body(), headers=headers)
    assert answer.status_code in (403, 404)
    assert read == []


def limited(serve, **settings):
    """A caller, from an address, of a service with a rate limit."""
    client = serve(tokens=Tokens.of(ADMIN), rate_limit=2, **settings)

    def call(path, address="10.0.0.1", **headers):
        return client.get(path, headers={"x-forwarded-for": address, **headers})

    return call


def test_health_checks_have_no_rate_limit(serve):
    call = limited(serve)
    assert {call("/healthz").status_code for _ in range(20)} == {200}


def test_wrong_tokens_do_not_lock_out_others_behind_a_trusted_proxy(serve):
    call = limited(serve, trusted_proxies=("127.0.0.0/8",))
    wrong = [call("/v1/models", authorization="Bearer wrong").status_code for _ in range(20)]
    assert wrong[-1] == 429
    assert call("/login", "10.0.0.2").status_code == 200
    assert call("/v1/models", authorization=f"Bearer {ADMIN}").status_code == 200
    # Without the proxy's word for it, an address cannot be chosen; a wrong token is not a visitor.
    call = limited(serve, store="other.db")
    for i in range(20):
        call("/v1/models", f"10.0.0.{i}", authorization="Bearer wrong")
    assert call("/v1/models", "10.1.1.1", authorization="Bearer wrong").status_code == 429
    assert call("/login").status_code == 200


def test_cookies_are_secure_behind_https(serve):
    proxied = {"x-forwarded-proto": "https", "x-forwarded-for": "10.0.0.1"}
    for trusted in (True, False):
        proxies = ("127.0.0.1",) if trusted else ()
        client = serve(f"{trusted}.db", tokens=Tokens.of(ADMIN), trusted_proxies=proxies)
        page = client.get("/login", headers=proxied)
        answer = client.post("/login", data={"token": ADMIN}, headers=proxied)
        assert [("Secure" in r.headers["set-cookie"]) for r in (page, answer)] == [trusted] * 2
