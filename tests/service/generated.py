"""Requests generated from the OpenAPI document: no failure, no answer outside the schema.

``python -m tests.service.generated 20000 --record FILE`` sends 20,000 in rounds of 2,000, each with
a new service and other requests, and goes on with those of the file.
"""

from __future__ import annotations

import asyncio
import traceback

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode, checks
from tests.service.rounds import run_rounds

from rankwright.service import Settings, create_app
from rankwright.service.api.operations import OPERATIONS
from rankwright.service.api.routing import describe

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
MODES = [(name, mode) for name in FOUND for mode in GenerationMode]
MODES = [(name, mode) for name, mode in MODES if mode.is_positive or name not in PLAIN]


class Caller:
    """Sends requests in this thread: a loop in another one doubles the time."""

    def __init__(self, folder):
        self.app = create_app(Settings(store=str(folder / "feedback.db")))
        self.loop, transport = asyncio.new_event_loop(), httpx.ASGITransport(self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def __call__(self, method, url, **more):
        return self.loop.run_until_complete(self.client.request(method, url, **more))

    def close(self):
        self.loop.run_until_complete(self.client.aclose())
        self.app.service.close()
        self.loop.close()


def n_requests(name, n_cases):
    """How many requests of an operation are sent in each of its modes."""
    part, group = next((part, group) for group, part in SHARES if name in group)
    return int(1.1 * n_cases * part / len(group)) // (1 if name in PLAIN else 2) + 1


def send_requests(call, name, mode, n_examples, number=0):
    """Send generated requests to an operation and check the answers; how many were sent."""
    sent = []

    @seed(number)
    @settings(
        max_examples=n_examples,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=False,
        deadline=None,
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
    return len(sent)


def run(folder, n_cases, number):
    """A round: how many requests were sent, and what was wrong with the answers."""
    call, n_sent, faults = Caller(folder), 0, []
    try:
        for name, mode in MODES:
            try:
                n_sent += send_requests(call, name, mode, n_requests(name, n_cases), number)
            except Exception:
                faults.append(f"{name}, {mode.value}: {traceback.format_exc()[-3000:]}")
    finally:
        call.close()
    return {"done": n_sent, "operations": len(FOUND), "faults": faults}


if __name__ == "__main__":
    run_rounds("requests", run, total=20_000, per_round=2000, description=__doc__)
