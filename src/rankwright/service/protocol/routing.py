"""From a request to a handler: one table of operations, which is also the OpenAPI document."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from rankwright.service.protocol.problems import Problem, as_problem

JSON, MSGPACK, BINARY = "application/json", "application/msgpack", "application/octet-stream"
_JSON_HEADER = (b"content-type", b"application/json")


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of the path or of the query string."""

    name: str
    type: Any
    about: str
    where: str = "query"
    default: Any = None


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
    parameters: tuple[Parameter, ...] = ()
    status: int = 200
    media: tuple[str, ...] = (JSON,)
    problems: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reply:
    """An answer that is not JSON of a type: text, or lines that are made while they are sent."""

    body: bytes | AsyncIterator[bytes]
    media: str
    status: int = 200


class Call:
    """A request on its way to a handler."""

    __slots__ = ("body", "operation", "path", "scope")

    def __init__(self, operation: Operation, scope: Any, path: dict[str, str]) -> None:
        self.operation, self.scope, self.path = operation, scope, path
        self.body: bytes = scope.get("rankwright.body", b"")

    def decode(self, kind: Any = None) -> Any:
        """The body as the type of the operation."""
        type_ = self.operation.request if kind is None else kind
        header = self.header(b"content-type").split(";")[0].strip().lower()
        if header not in ("", JSON, MSGPACK):
            raise Problem(415, f"The content type is {header[:60]}. Send {JSON} or {MSGPACK}.")
        try:
            return decoder(type_, header == MSGPACK).decode(self.body)
        except msgspec.ValidationError as error:
            raise Problem(422, f"The body does not fit: {error}. See /openapi.json.") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            name = "msgpack" if header == MSGPACK else "JSON"
            raise Problem(400, f"The body is not {name}: {error}.") from None

    @property
    def is_json(self) -> bool:
        """Whether the body is declared to be JSON, in the usual spelling."""
        return (b"content-type", b"application/json") in self.scope["headers"]

    def header(self, name: bytes) -> str:
        return next((v.decode("latin-1") for k, v in self.scope["headers"] if k == name), "")

    def query(self) -> dict[str, Any]:
        """The parameters of the query string, by the types that the operation declares."""
        text = self.scope.get("query_string", b"").decode("latin-1")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=100, errors="strict")
        except ValueError:
            raise Problem(422, "The query string is not UTF-8.") from None
        known = {p.name: p for p in self.operation.parameters if p.where == "query"}
        for name, _ in pairs:
            if name not in known:
                listed = f"It has {', '.join(known)}." if known else "It has none."
                raise Problem(422, f"There is no parameter {name[:60]!r} here. {listed}")
        if len(dict(pairs)) < len(pairs):
            raise Problem(422, "A parameter is given twice. Give it once.")
        given = dict(pairs)
        return {
            name: _converted(p, given[name]) if name in given else p.default
            for name, p in known.items()
        }


def _converted(parameter: Parameter, text: str) -> Any:
    try:
        return msgspec.convert(text, parameter.type, strict=False)
    except msgspec.ValidationError as error:
        known = getattr(parameter.type, "__args__", ())
        texts = [value for value in known if isinstance(value, str)]
        hint = f" Use one of {', '.join(texts)}." if texts else ""
        raise Problem(422, f"Parameter {parameter.name}: {error}.{hint}") from None


@cache
def decoder(type_: Any, msgpack: bool) -> Any:
    return msgspec.msgpack.Decoder(type_) if msgpack else msgspec.json.Decoder(type_)


class Api:
    """ASGI application of the operations; other paths go to the pages."""

    def __init__(self, service: Any, operations: list[Operation], pages: Any, observe: Any) -> None:
        self.service, self.pages, self.observe = service, pages, observe
        self.fixed: dict[str, dict[str, Operation]] = {}
        self.patterns: dict[str, re.Pattern[str]] = {}
        for operation in operations:
            self.fixed.setdefault(operation.path, {})[operation.method] = operation
        for path in self.fixed:
            if "{" in path:
                self.patterns[path] = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))
        self._json = msgspec.json.Encoder()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.pages(scope, receive, send)
            return
        start = time.perf_counter()
        path = scope["path"]
        parts: dict[str, str] = {}
        methods = self.fixed.get(path)
        if methods is None or path in self.patterns:
            path, parts = self._match(path)
            methods = self.fixed.get(path)
        if methods is None:
            if scope["path"].startswith("/v1/"):
                raise Problem(404, f"There is nothing at {path[:200]!r}. See /openapi.json.")
            await self.pages(scope, receive, send)
            return
        status = 500
        try:
            operation = self._operation(methods, scope)
            answer = operation.handler(self.service, Call(operation, scope, parts))
            if hasattr(answer, "__await__"):
                answer = await answer
            status = await self._send(operation, answer, scope, send)
        except Exception as error:
            status = as_problem(error).status
            raise
        finally:
            self.observe(path, status, time.perf_counter() - start)

    def _match(self, path: str) -> tuple[str, dict[str, str]]:
        for template, pattern in self.patterns.items():
            match = pattern.fullmatch(path)
            if match is not None:
                return template, match.groupdict()
        return path, {}

    def _operation(self, methods: dict[str, Operation], scope: Any) -> Operation:
        method = scope["method"]
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = ", ".join(methods)
            raise Problem(405, f"{method[:20]} is not allowed here; use {allowed}.", allow=allowed)
        principal = scope["principal"]
        if operation.scope is not None and operation.scope not in principal.scopes:
            text = f"The token {principal.name!r} has no scope {operation.scope!r}."
            raise Problem(403, f"{text} Ask the operator for one that has.")
        return operation

    async def _send(self, operation: Operation, answer: Any, scope: Any, send: Any) -> int:
        status, header = operation.status, _JSON_HEADER
        if isinstance(answer, Reply):
            status, header = answer.status, (b"content-type", answer.media.encode())
            if not isinstance(answer.body, bytes):
                await _stream(answer.body, status, header, send)
                return status
            body = answer.body
        elif operation.path in ("/v1/rank",) and _wants_msgpack(scope):
            body, header = msgspec.msgpack.encode(answer), (b"content-type", MSGPACK.encode())
        else:
            body = self._json.encode(answer)
        headers = [header, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": body})
        return status


def _wants_msgpack(scope: Any) -> bool:
    return any(k == b"accept" and MSGPACK.encode() in v for k, v in scope["headers"])


async def _stream(parts: AsyncIterator[bytes], status: int, header: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [header]})
    async for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


Handler = Callable[[Any, Call], Any | Awaitable[Any]]
