"""Errors as ``application/problem+json`` (RFC 9457), with the text of our error messages."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.types import Send

from rankwright.exceptions import RankwrightError
from rankwright.service.log.entries import DamagedStore
from rankwright.service.log.store import StoreError

PROBLEM = "application/problem+json"


class HttpProblem(RankwrightError):
    """A request that is refused: the status, and what was found, needed and to do."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class ProblemBody(msgspec.Struct):
    """What is wrong with a request: where, what was found, what is needed, what to do."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


def as_problem(error: Exception) -> HttpProblem:
    """The problem that an error of the library means to a client."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, StoreError | DamagedStore):  # without the path of the store
        return HttpProblem(503, error.message[:1].upper() + error.message[1:], retry_after="1")
    if isinstance(error, RankwrightError):
        return HttpProblem(422, str(error))
    return HttpProblem(500, "The service failed; its own log has the reason. Nothing was changed.")


def encode_problem(problem: HttpProblem) -> bytes:
    title = HTTPStatus(problem.status).phrase
    return msgspec.json.encode(ProblemBody(title, problem.status, problem.detail))


async def send_problem(send: Send, problem: HttpProblem) -> None:
    """Answer a request with a problem."""
    body = encode_problem(problem)
    headers = [(b"content-type", PROBLEM.encode()), (b"content-length", b"%d" % len(body))]
    headers += [(k.encode("latin-1"), v.encode("latin-1")) for k, v in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
