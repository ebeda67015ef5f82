"""Everybody who may come, at every door: one table of the endpoints and the right that each needs.

The table is written by hand. An endpoint of the OpenAPI document or a page that is not in it fails
the test, so that nobody adds one without saying who may use it.
"""

from __future__ import annotations

import pytest
from starlette.routing import Route
from tests.service.conftest import Client
from tests.service.test_rights import sign_in

from rankwright.service import Settings, create_app
from rankwright.service.api.operations import OPERATIONS
from rankwright.service.api.routing import describe
from rankwright.service.log.checking import digest

OPEN = None
ENDPOINTS = {
    "POST /v1/rank": "rank",
    "POST /v1/recommend": "rank",
    "POST /v1/fuse": "rank",
    "POST /v1/feedback": "feedback",
    "GET /v1/models": "rank",
    "POST /v1/models": "admin",
    "GET /v1/models/{version}": "rank",
    "GET /v1/models/{version}/drift": "admin",
    "POST /v1/models/rollback": "admin",
    "POST /v1/models/{version}/activate": "admin",
    "POST /v1/models/{version}/shadow": "admin",
    "DELETE /v1/models/{version}/shadow": "admin",
    "DELETE /v1/models/{version}": "admin",
    "GET /v1/log": "admin",
    "DELETE /v1/log": "admin",
    "POST /v1/train": "admin",
    "GET /v1/experiments": "rank",
    "POST /v1/experiments": "admin",
    "GET /v1/experiments/{name}": "rank",
    "DELETE /v1/experiments/{name}": "admin",
    "POST /v1/promote": "admin",
    "GET /v1/replica": "admin",
    "GET /v1/replica/log": "admin",
    "GET /v1/replica/models/{version}": "admin",
    "GET /v1/replica/store": "admin",
    "POST /v1/replica/fence": "admin",
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /metrics": "rank",
    "GET /openapi.json": "rank",
    "GET /api": "rank",
}
ANY_TOKEN = "any"
PAGES = {
    "GET /": "admin",
    "POST /models/rollback": "admin",
    "GET /judge": "judge",
    "POST /judge": "judge",
    "POST /judge/answer": "judge",
    "POST /judge/undo": "judge",
    "POST /judge/model": "admin",
    "GET /judge/mine": "judge",
    "GET /judge/lead": "admin",
    "GET /judge/export/{kind}": "judge",
    "GET /login": OPEN,
    "POST /login": OPEN,
    "POST /logout": ANY_TOKEN,
    "GET /static/judge.js": OPEN,
}
WALK = {**ENDPOINTS, **PAGES}
del WALK["POST /login"]  # which answers 401 to whoever sends no token
SCOPES = ("rank", "feedback", "judge", "admin")
TOKENS = {scope: scope[0] * 32 for scope in (*SCOPES, "gone")}
STRANGERS = {
    "without a token": {},
    "a wrong token": {"authorization": f"Bearer {'x' * 32}"},
    "half a token": {"authorization": f"Bearer {TOKENS['admin'][:16]}"},
    "a revoked token": {"authorization": f"Bearer {TOKENS['gone']}"},
    "a token of another scheme": {"authorization": f"Basic {TOKENS['admin']}"},
    "a forged session": {"cookie": f"rankwright_session=admin.99999999999.aa.{'0' * 64}"},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walk")
    tokens, lines = folder / "tokens", [f"{name} {token} {name}" for name, token in TOKENS.items()]
    tokens.write_text("\n".join([*lines[:-1], f"gone {TOKENS['gone']} admin"]))
    settings = Settings(store=str(folder / "feedback.db"), demo=True, token_file=str(tokens))
    client = Client(create_app(settings))
    tokens.write_text("\n".join(lines[:-1]))
    client.service.reload_tokens()
    yield client
    client.close()


def session(client, scope):
    """The headers of a signed-in visitor."""
    headers = sign_in(client, TOKENS[scope])
    client.cookies.clear()
    return headers


def csrf(client, headers):
    """What a form of our own pages sends, too."""
    cookie = headers["cookie"].partition("=")[2]
    return {**headers, "x-csrf-token": client.service.sessions.csrf(cookie)}


def refused(client, endpoint, headers):
    """Whether a visitor is refused: it may be told to sign in, or sent to another page."""
    method, path = endpoint.split(" ")
    for name, value in (("version", "nothing"), ("name", "nothing"), ("kind", "qrels")):
        path = path.replace(f"{{{name}}}", value)
    answer = client.request(method, path, headers=headers)
    client.cookies.clear()
    assert answer.status_code < 500 or path == "/readyz", f"{endpoint}: {answer.text}"
    return answer.status_code in (401, 403) or (method == "GET" and answer.status_code == 303)


def state(client):
    service = client.service
    service.store.flush()
    models = service.models.infos(), service.models.active_versions()
    return digest(service.store), models, service.experiments.infos(), service.store.refusal


def is_unsafe(endpoint):
    return not endpoint.startswith("GET ")


def test_every_endpoint_and_page_is_in_the_table(client):
    paths = describe(OPERATIONS)["paths"]
    found = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert found == set(ENDPOINTS)
    routes = [route for route in client.app.app.pages.routes if isinstance(route, Route)]
    pages = {f"{method} {r.path}" for r in routes for method in r.methods if method != "HEAD"}
    assert pages == {page for page in PAGES if "/static/" not in page}


@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_is_refused_wherever_a_right_is_needed(client, who):
    before = state(client)
    wrong = [
        endpoint
        for endpoint, scope in WALK.items()
        if refused(client, endpoint, STRANGERS[who]) is (scope is OPEN)
    ]
    assert wrong == []
    assert state(client) == before


@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_opens_what_its_scope_says_and_no_forms_of_pages(client, scope):
    headers, wrong = {"authorization": f"Bearer {TOKENS[scope]}"}, []
    for endpoint, needed in WALK.items():
        may = needed in (OPEN, ANY_TOKEN, scope) or scope == "admin"
        if endpoint in PAGES and is_unsafe(endpoint):
            may = False  # forms need a session and its CSRF token
        if refused(client, endpoint, headers) is may:
            wrong.append(endpoint)
    assert wrong == []


@pytest.mark.parametrize("scope", SCOPES)
def test_a_session_opens_what_its_token_does(client, scope):
    wrong = []
    for endpoint, needed in WALK.items():
        may = needed in (OPEN, ANY_TOKEN, scope) or scope == "admin"
        headers = csrf(client, session(client, scope))  # a new one: one of the endpoints ends it
        if refused(client, endpoint, headers) is may:
            wrong.append(endpoint)
    assert wrong == []


@pytest.mark.parametrize("origin", [None, "https://evil.example"])
def test_a_page_elsewhere_changes_nothing_with_the_session_of_an_admin(client, origin):
    before, headers = state(client), session(client, "admin")
    if origin is not None:  # even if it knew the CSRF token
        headers = {**csrf(client, headers), "origin": origin, "sec-fetch-site": "cross-site"}
    unsafe = [endpoint for endpoint in WALK if is_unsafe(endpoint)]
    assert [endpoint for endpoint in unsafe if not refused(client, endpoint, headers)] == []
    assert state(client) == before


def test_a_session_that_was_ended_is_a_stranger(client):
    headers = csrf(client, session(client, "admin"))
    assert not refused(client, "POST /logout", headers)
    entered = [
        endpoint
        for endpoint, scope in WALK.items()
        if scope is not OPEN and not refused(client, endpoint, headers)
    ]
    assert entered == []
