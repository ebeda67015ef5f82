"""Operations of the API: requests routed to their handlers, the OpenAPI document and its page."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args
from urllib.parse import parse_qsl

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankwright import __version__
from rankwright.service.api.problems import PROBLEM, HttpProblem, ProblemBody, as_problem

if TYPE_CHECKING:
    from rankwright.service.api.scoring import ScoringService

JSON, MSGPACK, BINARY = "application/json", "application/msgpack", "application/octet-stream"
_JSON_HEADER = (b"content-type", b"application/json")
REFERENCE = "#/components/schemas/{name}"
UNCONFIRMED = ("/v1/promote", "/v1/replica/fence")  # writes that no replica has to have
ALWAYS = (400, 401, 403, 408, 413, 415, 421, 422, 429, 503)  # statuses of any operation


class ApiParameter(msgspec.Struct, frozen=True):
    """A parameter of the path or of the query string."""

    name: str
    type: Any
    about: str
    where: str = "query"
    default: Any = None

    @property
    def required(self) -> bool:
        may_be_null = type(None) in get_args(self.type)
        return self.where == "path" or (self.default is None and not may_be_null)


@dataclass(frozen=True)
class Operation:
    """A method of a path: its handler, types, and the scope that a token needs for it."""

    method: str
    path: str
    handler: Callable[..., Any]
    about: str
    scope: str | None
    request: Any = None  # a type; bytes for a binary body
    answer: Any = None  # a type; None for what `media` says
    parameters: tuple[ApiParameter, ...] = ()
    status: int = 200
    media: tuple[str, ...] = (JSON,)
    problems: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reply:
    """An answer that is not JSON of a type: text, or lines that are made while they are sent."""

    body: bytes | AsyncIterator[bytes]
    media: str
    status: int = 200
    cookie: str | None = None


class Call:
    """A request on its way to a handler."""

    __slots__ = ("body", "operation", "path", "scope")

    def __init__(self, operation: Operation, scope: Scope, path: dict[str, str]) -> None:
        self.operation, self.scope, self.path = operation, scope, path
        self.body: bytes = scope.get("rankwright.body", b"")

    def decode(self, kind: Any = None) -> Any:
        """The body as the type of the operation."""
        type_ = self.operation.request if kind is None else kind
        header = self.header(b"content-type").split(";")[0].strip().lower()
        if header not in ("", JSON, MSGPACK):
            raise HttpProblem(415, f"The content type is {header[:60]}. Send {JSON} or {MSGPACK}.")
        try:
            return decoder(type_, header == MSGPACK).decode(self.body)
        except msgspec.ValidationError as error:
            raise HttpProblem(422, f"The body does not fit: {error}. See /openapi.json.") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            name = "msgpack" if header == MSGPACK else "JSON"
            raise HttpProblem(400, f"The body is not {name}: {error}.") from None

    @property
    def is_json(self) -> bool:
        """Whether the body is declared to be JSON, in the usual spelling."""
        return _JSON_HEADER in self.scope["headers"]

    def header(self, name: bytes) -> str:
        return next((v.decode("latin-1") for k, v in self.scope["headers"] if k == name), "")

    def query(self) -> dict[str, Any]:
        """The parameters of the query string, by the types that the operation declares."""
        text = self.scope.get("query_string", b"").decode("latin-1")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=100, errors="strict")
        except ValueError:
            raise HttpProblem(422, "The query string is not UTF-8.") from None
        known = {p.name: p for p in self.operation.parameters if p.where == "query"}
        given = dict(pairs)
        unknown = [name for name in given if name not in known]
        if unknown:
            listed = f"It has {', '.join(known)}." if known else "It has none."
            raise HttpProblem(422, f"There is no parameter {unknown[0][:60]!r} here. {listed}")
        if len(given) < len(pairs):
            raise HttpProblem(422, "A parameter is given twice. Give it once.")
        missing = [name for name, p in known.items() if p.required and name not in given]
        if missing:
            raise HttpProblem(
                422, f"The parameter {missing[0]} is missing. {known[missing[0]].about}"
            )
        return {
            name: _converted(p, given[name]) if name in given else p.default
            for name, p in known.items()
        }


def _converted(parameter: ApiParameter, text: str) -> Any:
    try:
        return msgspec.convert(text, parameter.type, strict=False)
    except msgspec.ValidationError as error:
        known = getattr(parameter.type, "__args__", ())
        texts = [value for value in known if isinstance(value, str)]
        hint = f" Use one of {', '.join(texts)}." if texts else ""
        raise HttpProblem(422, f"Parameter {parameter.name}: {error}.{hint}") from None


@cache
def decoder(type_: Any, msgpack: bool) -> Any:
    return msgspec.msgpack.Decoder(type_) if msgpack else msgspec.json.Decoder(type_)


S = TypeVar("S", bound="ScoringService")


class Api(Generic[S]):
    """ASGI application of the operations; other paths go to the pages.

    ``confirm`` waits until a replica has what was written; None if nobody waits for it.
    """

    def __init__(
        self,
        service: S,
        operations: tuple[Operation, ...],
        pages: ASGIApp,
        observe: Callable[[str, int, float], None],
        confirm: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.service, self.pages, self.observe, self.confirm = service, pages, observe, confirm
        self.fixed: dict[str, dict[str, Operation]] = {}
        self.patterns: dict[str, re.Pattern[str]] = {}
        for operation in operations:
            self.fixed.setdefault(operation.path, {})[operation.method] = operation
        for path in self.fixed:
            if "{" in path:
                self.patterns[path] = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))
        self._json = msgspec.json.Encoder()

    def route(self, scope: Scope) -> bool:
        """Find the operation of a request and check its rights; whether its body is a file.

        This is done before the body is read.
        """
        path = scope["path"]
        parts: dict[str, str] = {}
        methods = self.fixed.get(path)
        if methods is None or path in self.patterns:
            path, parts = self._match(path)
            methods = self.fixed.get(path)
        if methods is None:
            if path.startswith("/v1/"):
                raise HttpProblem(404, f"There is nothing at {path[:200]!r}. See /openapi.json.")
            self._refuse_writes(scope, None)
            return False
        operation = self._operation(methods, scope)
        self._refuse_writes(scope, operation)
        scope["rankwright.route"] = operation, parts
        return operation.request is bytes

    def _refuse_writes(self, scope: Scope, operation: Operation | None) -> None:
        """Refuse what only a leader does, before anything else is looked at."""
        refusal = self.service.store.refusal
        if refusal is not None and _writes(scope, operation):
            raise HttpProblem(503, refusal[:1].upper() + refusal[1:], retry_after="1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = scope.get("rankwright.route")
        if self.confirm is not None and _writes(scope, route and route[0]):
            send = _confirmed(self.confirm, send)
        if route is None:
            await self.pages(scope, receive, send)
            return
        operation, parts = route
        start, status = time.perf_counter(), 500
        try:
            answer = operation.handler(self.service, Call(operation, scope, parts))
            if hasattr(answer, "__await__"):
                answer = await answer
            status = await self._send(operation, answer, scope, send)
        except Exception as error:
            status = as_problem(error).status
            raise
        finally:
            self.observe(operation.path, status, time.perf_counter() - start)

    def _match(self, path: str) -> tuple[str, dict[str, str]]:
        for template, pattern in self.patterns.items():
            match = pattern.fullmatch(path)
            if match is not None:
                return template, match.groupdict()
        return path, {}

    def _operation(self, methods: dict[str, Operation], scope: Scope) -> Operation:
        method = scope["method"]
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = ", ".join(methods)
            raise HttpProblem(
                405, f"{method[:20]} is not allowed here; use {allowed}.", allow=allowed
            )
        principal = scope["principal"]
        if operation.scope is not None and operation.scope not in principal.scopes:
            text = f"The token {principal.name!r} has no scope {operation.scope!r}."
            raise HttpProblem(403, f"{text} Ask the operator for one that has.")
        return operation

    async def _send(self, operation: Operation, answer: object, scope: Scope, send: Send) -> int:
        status, header = operation.status, _JSON_HEADER
        if isinstance(answer, Reply):
            status, header = answer.status, (b"content-type", answer.media.encode())
            if not isinstance(answer.body, bytes):
                await _stream(answer.body, status, header, send)
                return status
            body = answer.body
        elif operation.path == "/v1/rank" and _wants_msgpack(scope):
            body, header = msgspec.msgpack.encode(answer), (b"content-type", MSGPACK.encode())
        else:
            body = self._json.encode(answer)
        headers = [header, (b"content-length", b"%d" % len(body))]
        if isinstance(answer, Reply) and answer.cookie is not None:
            headers.append((b"set-cookie", answer.cookie.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": body})
        return status


def _writes(scope: Scope, operation: Operation | None) -> bool:
    """Whether a request changes the log or the models."""
    if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return False
    if operation is None:
        return bool(scope["path"] != "/login")
    return operation.scope not in ("rank", None) and operation.path not in UNCONFIRMED


def _confirmed(confirm: Callable[[], Awaitable[None]], send: Send) -> Send:
    """Answer a success only when a replica has what was written."""

    async def send_when_confirmed(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            await confirm()
        await send(message)

    return send_when_confirmed


def _wants_msgpack(scope: Scope) -> bool:
    return any(k == b"accept" and MSGPACK.encode() in v for k, v in scope["headers"])


async def _stream(
    parts: AsyncIterator[bytes], status: int, header: tuple[bytes, bytes], send: Send
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [header]})
    async for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


# The OpenAPI document, made from the operations and their types.


@cache
def describe(operations: tuple[Operation, ...]) -> dict[str, Any]:
    """The OpenAPI document as plain objects."""
    types = [t for op in operations for t in (op.request, op.answer) if t not in (None, bytes)]
    parameters = [p.type for op in operations for p in op.parameters]
    unique = list({repr(t): t for t in (*types, *parameters, ProblemBody)}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=REFERENCE)
    schema_of = {repr(t): schema for t, schema in zip(unique, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for op in operations:
        paths.setdefault(op.path, {})[op.method.lower()] = _operation(op, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rankwright",
            "version": __version__,
            "description": "Rank, collect feedback, learn while serving.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(op: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "operationId": _id(op),
        "summary": op.about,
        "responses": _responses(op, schema_of),
    }
    if op.parameters:
        about["parameters"] = [_parameter(p, schema_of[repr(p.type)]) for p in op.parameters]
    if op.request is bytes:
        content = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
        about["requestBody"] = {"required": True, "content": content}
    elif op.request is not None:
        schema = {"schema": schema_of[repr(op.request)]}
        about["requestBody"] = {"required": True, "content": {JSON: schema}}
    return about


def _id(op: Operation) -> str:
    return "_".join([op.method.lower(), *re.findall(r"[a-z]+", op.path.removeprefix("/v1"))])


def _parameter(parameter: ApiParameter, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.about,
        "required": parameter.required,
        "schema": schema,
    }


def _responses(op: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {media: {"schema": {"type": "string"}} for media in op.media}
    if op.answer is not None:
        content = {JSON: {"schema": schema_of[repr(op.answer)]}}
        if op.path == "/v1/rank":
            content[MSGPACK] = {"schema": {}}
    responses = {str(op.status): {"description": "The answer.", "content": content}}
    problem = {PROBLEM: {"schema": schema_of[repr(ProblemBody)]}}
    for status in sorted({*ALWAYS, *op.problems}):
        responses[str(status)] = {"description": "A problem.", "content": problem}
    return responses
