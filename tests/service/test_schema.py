"""Requests generated from the OpenAPI document: no failure, no answer outside the schema.

``RANKWRIGHT_CASES`` sets the number of requests; ``python -m benchmarks serve`` sends 20,000.
"""

from __future__ import annotations

import asyncio
import os

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks

from rankwright.service import Settings, create_app
from rankwright.service.api.operations import OPERATIONS
from rankwright.service.api.routing import describe

N_CASES = int(os.environ.get("RANKWRIGHT_CASES", "2000"))
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(describe(tuple(OPERATIONS)))
FOUND = {result.ok().label: result.ok() for result in SCHEMA.get_all_operations()}
WITH_BODY = [name for name in FOUND if "requestBody" in FOUND[name].definition.raw]
WITH_QUERY = [name for name, op in FOUND.items() if list(op.query) and name not in WITH_BODY]
PLAIN = [name for name in FOUND if name not in (*WITH_BODY, *WITH_QUERY)]
# Bodies vary most; a request without a body or parameters cannot be wrong.
SHARES = [(WITH_BODY, 0.8), (WITH_QUERY, 0.15), (PLAIN, 0.05)]
N_EXAMPLES = {name: 1.1 * N_CASES * part / len(group) for group, part in SHARES for name in group}
MODES = [(name, mode) for name in FOUND for mode in GenerationMode]
MODES = [(name, mode) for name, mode in MODES if mode.is_positive or name not in PLAIN]


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    """A function that sends a request in this thread: a loop in another one doubles the time."""
    app = create_app(Settings(store=str(tmp_path_factory.mktemp("log") / "feedback.db")))
    loop, transport = asyncio.new_event_loop(), httpx.ASGITransport(app)
    client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
    yield lambda method, url, **more: loop.run_until_complete(client.request(method, url, **more))
    loop.run_until_complete(client.aclose())
    app.service.close()
    loop.close()


def n_examples(name):
    return int(N_EXAMPLES[name]) // (1 if name in PLAIN else 2) + 1


@pytest.mark.parametrize("name, mode", MODES, ids=lambda part: getattr(part, "value", part))
def test_no_generated_request_fails(call, name, mode):
    sent = []

    @settings(
        max_examples=n_examples(name),
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    @given(case=FOUND[name].as_strategy(generation_mode=mode))
    def send(case):
        sent.append(case.method)
        case.headers["host"] = "localhost"
        kwargs = case.as_transport_kwargs(base_url="http://localhost")
        wanted = ("method", "url", "json", "data", "params", "headers")
        kwargs = {k: v for k, v in kwargs.items() if k in wanted and v is not None}
        if isinstance(kwargs.get("data"), bytes | str):
            kwargs["content"] = kwargs.pop("data")
        answer = call(kwargs.pop("method"), kwargs.pop("url"), **kwargs)
        case.validate_response(schemathesis.Response.from_any(answer), checks=CHECKS)

    send()
    assert name in PLAIN or len(sent) >= n_examples(name), "the strategy ran out of requests"


def test_enough_requests_are_sent():
    assert sum(n_examples(name) for name, _ in MODES if name not in PLAIN) >= 0.95 * N_CASES
    assert sum(n_examples(name) for name, _ in MODES) >= N_CASES
