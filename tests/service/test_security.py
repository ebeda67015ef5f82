"""Who is let in, and what every answer carries."""

from __future__ import annotations

import asyncio
import socket
import time

import httpx
import pytest

from rankwright.exceptions import DataError, ParameterError
from rankwright.service import Settings, create_app, serve
from rankwright.service.api.security import Principal, RateLimit, Sessions, Tokens

TOKEN = "0123456789abcdef0123456789abcdef"


def call(app, method, path, **options):
    """One request to the application, without a socket."""

    async def send():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    return asyncio.run(send())


@pytest.fixture
def make_app(tmp_path):
    apps = []

    def make(**settings):
        path = tmp_path / f"log{len(apps)}.db"
        apps.append(create_app(Settings(store=str(path), **settings)))
        return apps[-1]

    yield make
    for app in apps:
        app.service.close()


def test_a_host_that_others_reach_needs_a_token():
    with pytest.raises(ParameterError, match="give tokens="):
        Settings(host="0.0.0.0")
    assert Settings(host="0.0.0.0", tokens=Tokens.of(TOKEN)).host == "0.0.0.0"


def test_defaults_are_stricter_where_other_machines_reach_the_service():
    assert Settings().rate() is None
    remote = Settings(host="0.0.0.0", tokens=Tokens.of(TOKEN))
    assert (remote.rate(), remote.hosts()) == (200.0, ("*",))
    named = Settings(host="0.0.0.0", tokens=Tokens.of(TOKEN), allow_hosts=("shop.example",))
    assert named.hosts() == ("0.0.0.0", "shop.example")
    assert Settings(rate_limit=5.0).rate() == 5.0


def test_a_port_in_use_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use"):
            serve(Settings(store=str(tmp_path / "log.db")), port)
    assert not (tmp_path / "log.db").exists()


def test_every_answer_has_a_strict_policy(make_app):
    answer = call(make_app(), "GET", "/nowhere")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}"])
def test_a_missing_or_wrong_token_is_refused(make_app, header):
    headers = {} if header is None else {"authorization": header}
    app = make_app(tokens=Tokens.of(TOKEN))
    answer = call(app, "GET", "/v1/models", headers=headers)
    assert answer.status_code == 401
    assert "Authorization: Bearer" in answer.json()["detail"]
    assert answer.headers["www-authenticate"] == "Bearer"


def test_pages_ask_to_sign_in_and_a_session_opens_them(make_app):
    app = make_app(tokens=Tokens.of(TOKEN))
    assert call(app, "GET", "/").headers["location"] == "/login"
    assert call(app, "GET", "/login").status_code == 200
    assert call(app, "POST", "/login", data={"token": "no"}).status_code == 401
    answer = call(app, "POST", "/login", data={"token": TOKEN})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    headers = {"cookie": cookie.split(";")[0]}
    assert call(app, "GET", "/", headers=headers).status_code != 303
    assert TOKEN not in cookie


def test_a_page_needs_the_csrf_token_of_its_session(make_app):
    app = make_app()
    cookie = app.service.sessions.issue(Principal("local"))
    headers = {"cookie": f"rankwright_session={cookie}"}
    assert call(app, "POST", "/nowhere", headers=headers).status_code == 403
    headers["x-csrf-token"] = app.service.sessions.csrf(cookie)
    assert call(app, "POST", "/nowhere", headers=headers).status_code == 404
    form = {"csrf_token": headers.pop("x-csrf-token")}
    assert call(app, "POST", "/nowhere", headers=headers, data=form).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}],
)
def test_other_sites_cannot_post(make_app, headers):
    answer = call(make_app(), "POST", "/v1/feedback", headers=headers, json={})
    assert answer.status_code == 403


def test_a_name_that_is_not_ours_is_refused(make_app):
    assert call(make_app(), "GET", "/login", headers={"host": "evil.example"}).status_code == 421
    app = make_app(allow_hosts=("shop.example",))
    assert call(app, "GET", "/login", headers={"host": "shop.example:80"}).status_code == 200


def test_large_bodies_and_forms_are_refused(make_app):
    app = make_app(max_body=1000)
    assert call(app, "POST", "/v1/rank", content=b" " * 1001).status_code == 413

    async def parts():
        for _ in range(11):
            yield b" " * 100

    assert call(app, "POST", "/v1/rank", content=parts()).status_code == 413
    text = {"content-type": "text/plain"}
    assert call(app, "POST", "/v1/rank", content=b"{}", headers=text).status_code == 415
    assert call(app, "POST", "/v1/rank", data={"a": "b"}).status_code == 415


def test_a_client_that_asks_too_often_is_told_to_wait(make_app):
    app = make_app(rate_limit=2)
    answers = [call(app, "GET", "/login") for _ in range(6)]
    assert [answer.status_code for answer in answers].count(429) >= 1
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert int(refused.headers["retry-after"]) >= 1
    limit = RateLimit(1000.0)
    for i in range(20_000):  # clients are forgotten, oldest first
        limit.check(str(i))
    assert len(limit.buckets) == 10_000


def test_a_token_file_names_people_and_what_they_may_do(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# people\nanna {TOKEN} judge\n\n{TOKEN[::-1]}\n")
    tokens = Tokens.read(path)
    assert tokens.find(TOKEN) == Principal("anna", frozenset({"judge"}))
    assert "admin" in tokens.find(TOKEN[::-1]).scopes
    assert tokens.find("") is None
    path.write_text("anna short")
    with pytest.raises(DataError, match=r"tokens:1: a token has 16"):
        Tokens.read(path)
    path.write_text(f"anna {TOKEN} root")
    with pytest.raises(DataError, match=r"tokens:1: scope 'root'"):
        Tokens.read(path)
    path.write_text("\n")
    with pytest.raises(DataError, match="no token"):
        Tokens.read(path)


def test_a_session_is_void_when_forged_expired_or_its_token_is_gone(monkeypatch):
    sessions = Sessions(b"secret", Tokens.of(TOKEN))
    cookie = sessions.issue(Principal("token"))
    assert sessions.open(cookie).name == "token"
    assert sessions.open(cookie[:-1] + ("0" if cookie[-1] != "0" else "1")) is None
    assert sessions.open("") is None
    assert sessions.open("zz.1.00.00") is None
    assert Sessions(b"other", Tokens.of(TOKEN)).open(cookie) is None
    assert Sessions(b"secret", Tokens.of(TOKEN[::-1])).open(cookie) is None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 13 * 3600)
    assert sessions.open(cookie) is None


def test_programs_get_no_sign_in_page(serve):
    client = serve(tokens=Tokens.of("0123456789abcdef"))
    for path in ("/metrics", "/openapi.json", "/v1/models"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert client.get("/").headers["location"] == "/login"
