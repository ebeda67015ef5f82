"""Requests generated from the OpenAPI document: no failure, no answer outside the schema.

``python -m tests.service.generated`` sends 20,000.
"""

from __future__ import annotations

import pytest
from tests.service.generated import MODES, PLAIN, Caller, n_requests, send_requests

N_CASES = 400


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    caller = Caller(tmp_path_factory.mktemp("log"))
    yield caller
    caller.close()


@pytest.mark.parametrize("name, mode", MODES, ids=lambda part: getattr(part, "value", part))
def test_no_generated_request_fails(call, name, mode):
    n_examples = n_requests(name, N_CASES)
    n_sent = send_requests(call, name, mode, n_examples)
    assert name in PLAIN or n_sent >= n_examples, "the strategy ran out of requests"


def test_enough_requests_are_sent():
    numbers = {(name, mode): n_requests(name, N_CASES) for name, mode in MODES}
    assert sum(n for (name, _), n in numbers.items() if name not in PLAIN) >= 0.95 * N_CASES
    assert sum(numbers.values()) >= N_CASES
