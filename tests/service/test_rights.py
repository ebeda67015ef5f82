"""A token has its own rights and no others, and they end when it is revoked."""

from __future__ import annotations

import pytest

from rankwright.exceptions import ParameterError
from rankwright.service.api.security import Principal, Tokens

RANK, ADMIN = "r" * 32, "a" * 32
LINES = f"shop {RANK} rank\nboss {ADMIN} admin\n"


def sign_in(client, token):
    """Sign in with a token; only its cookie is sent from now on."""
    answer = client.post("/login", data={"token": token})
    assert answer.status_code == 303
    return {"cookie": answer.headers["set-cookie"].split(";")[0]}


def csrf(client, headers):
    cookie = headers["cookie"].partition("=")[2]
    return {**headers, "x-csrf-token": client.service.sessions.csrf(cookie)}


def test_tokens_that_share_a_name_are_refused_wherever_they_come_from():
    pairs = Tokens.of(RANK).principals + Tokens.of(ADMIN).principals
    with pytest.raises(ParameterError, match="'token' is used twice"):
        Tokens(pairs)


def test_tokens_without_names_are_numbered(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"{RANK}\n{ADMIN}\n")
    assert [principal.name for _, principal in Tokens.read(path).principals] == ["token", "token2"]


def test_admin_includes_every_scope():
    assert Principal("boss", frozenset({"admin"})).scopes == {"rank", "feedback", "judge", "admin"}


def test_a_session_has_the_rights_of_its_token(serve, tmp_path):
    path = tmp_path / "tokens"
    path.write_text(LINES)
    client = serve(token_file=str(path))
    headers = sign_in(client, RANK)
    client.cookies.clear()
    assert client.get("/v1/models", headers=headers).status_code == 200
    assert client.get("/v1/log", headers=headers).status_code == 403


def test_logout_ends_the_session_also_for_whoever_copied_the_cookie(serve):
    client = serve(tokens=Tokens.of(ADMIN))
    headers, other = sign_in(client, ADMIN), sign_in(client, ADMIN)
    client.cookies.clear()
    assert client.post("/logout", headers=headers).status_code == 403  # without the CSRF token
    answer = client.post("/logout", headers=csrf(client, headers))
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    client.cookies.clear()
    assert client.get("/v1/models", headers=headers).status_code == 401
    assert client.get("/v1/models", headers=other).status_code == 200
    client.close()
    again = serve(tokens=Tokens.of(ADMIN))
    assert again.get("/v1/models", headers=headers).status_code == 401
    assert again.get("/v1/models", headers=other).status_code == 200


def test_reloading_the_token_file_revokes_tokens_and_their_sessions(serve, tmp_path):
    path = tmp_path / "tokens"
    path.write_text(LINES)
    client = serve(token_file=str(path))
    session = sign_in(client, RANK)
    client.cookies.clear()
    bearer = {"authorization": f"Bearer {RANK}"}
    assert client.get("/v1/models", headers=bearer).status_code == 200
    path.write_text("shop short\n")
    client.service.reload_tokens()  # a damaged file changes nothing
    assert client.get("/v1/models", headers=bearer).status_code == 200
    path.write_text(f"shop {'n' * 32} admin\n")
    client.service.reload_tokens()
    assert client.get("/v1/models", headers=bearer).status_code == 401
    assert client.get("/v1/models", headers=session).status_code == 401
    new = {"authorization": f"Bearer {'n' * 32}"}
    assert client.get("/v1/log", headers=new).status_code == 200


def test_the_dashboard_has_a_way_to_sign_out(serve):
    client = serve(tokens=Tokens.of(ADMIN))
    page = client.get("/", headers=sign_in(client, ADMIN)).text
    assert 'action="/logout"' in page
    assert 'action="/logout"' not in serve(store="open.db").get("/").text
