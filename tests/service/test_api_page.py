"""The page of the API, navigation by rights, and errors as people and programs see them."""

from __future__ import annotations

import inspect
import re

import msgspec
import pytest

from rankwright.client import Client
from rankwright.service.api.operations import OPERATIONS
from rankwright.service.api.reference import ANSWERS, EXAMPLES
from rankwright.service.api.security import Principal, Tokens, _digest

CALLS = {f"{op.method} {op.path}": op for op in OPERATIONS}
BROWSER = {"accept": "text/html,application/xhtml+xml"}
RANK, JUDGE, ADMIN = "r" * 32, "j" * 32, "a" * 32


@pytest.fixture
def guarded(serve):
    """A service with three tokens."""
    scopes = {"shop": (RANK, "rank"), "ann": (JUDGE, "judge"), "boss": (ADMIN, "admin")}
    tokens = tuple(
        (_digest(token), Principal(name, frozenset({scope})))
        for name, (token, scope) in scopes.items()
    )
    return serve(tokens=Tokens(tokens))


def test_every_example_is_a_valid_request_and_a_valid_answer():
    assert set(EXAMPLES) <= set(CALLS)
    for call, (body, _) in EXAMPLES.items():
        if body is not None:
            msgspec.convert(body, CALLS[call].request)
    for call, answer in ANSWERS.items():
        msgspec.convert(answer, CALLS[call].answer)


def test_examples_in_python_call_the_client():
    methods = dict(inspect.getmembers(Client, inspect.isfunction))
    for _, python in EXAMPLES.values():
        compile(python, "example", "exec")
        assert set(re.findall(r"client\.(\w+)\(", python)) <= set(methods)


def test_the_page_shows_every_operation_and_type(client):
    page = client.get("/api").text
    for op in OPERATIONS:
        assert op.path.replace("{", "{") in page
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert all(f'id="{name}"' in page for name in schemas)
    assert "http://localhost/v1/rank" in page  # calls name this service


def test_errors_are_pages_for_a_browser_and_json_for_a_program(client):
    for path, status in (("/nothing", 404), ("/judge/export/nothing", 404)):
        shown = client.get(path, headers=BROWSER)
        assert (shown.status_code, shown.headers["content-type"]) == (
            status, "text/html; charset=utf-8",
        )  # fmt: skip
        assert "<h1>Not Found</h1>" in shown.text
    answer = client.get("/nothing")
    assert answer.headers["content-type"] == "application/problem+json"
    answer = client.get("/v1/nothing", headers=BROWSER)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("token", "links"), [(RANK, ["/api"]), (JUDGE, ["/judge"]), (ADMIN, ["/", "/judge", "/api"])]
)
def test_a_page_links_to_what_its_reader_may_see_and_says_who_that_is(guarded, token, links):
    guarded.post("/login", data={"token": token})
    shown = guarded.get("/nothing", headers=BROWSER)
    navigation = shown.text.partition("<nav")[2].partition("</nav>")[0]
    assert re.findall(r'href="([^"]+)"', navigation) == links
    name = {RANK: "shop", JUDGE: "ann", ADMIN: "boss"}[token]
    assert f"Signed in as <b>{name}</b>" in shown.text
    assert "Sign out" in shown.text


def test_the_sign_in_page_has_no_links_and_one_field(guarded):
    page = guarded.get("/login").text
    assert "<nav" not in page
    assert re.findall(r"<input (?![^>]*hidden)[^>]*name=.(\w+)", page) == ["token"]
