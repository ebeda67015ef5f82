"""Connections of clients: how long a header may take, how many there are, how they end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rankwright.service.api.problems import HttpProblem, send_problem
from rankwright.service.api.security import HEALTH, Addresses
from rankwright.service.settings import Settings

MOST_HEADER = 64 * 1024
MOST_CONNECTIONS = 1000
STALL_SECONDS = 30.0  # that a client may leave an answer unread


class Limits:
    """The limits of a service, and the connections that it has."""

    def __init__(self, settings: Settings, count: Callable[[str, int], int] | None = None) -> None:
        self.header_timeout, self.idle_timeout = settings.header_timeout, settings.idle_timeout
        self.per_address = settings.max_connections_per_address
        self.most = min(MOST_CONNECTIONS, _open_files() // 2)
        self.proxies = Addresses(settings.trusted_proxies)
        self.connections: dict[Connection, None] = {}  # the oldest first
        self._count = count or _Addresses().add
        self.draining = False  # every answer is the last one of its connection

    def add(self, connection: Connection) -> bool:
        """Count a connection; whether its address has too many.

        If there are too many in all, the oldest one that waits for its client makes room.
        """
        self.connections[connection] = None
        many = self._count(connection.address, 1) > self.per_address
        if len(self.connections) > self.most:
            waiting = (
                c for c in self.connections if c.deadline is not None and c is not connection
            )
            for longest in waiting:
                longest.transport.abort()
                break
        return many and connection.address not in self.proxies

    def remove(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self._count(connection.address, -1)

    def sweep(self) -> None:
        """Close the connections whose clients are too slow."""
        now = asyncio.get_running_loop().time()
        for connection in list(self.connections):
            if connection.deadline is not None and connection.deadline < now:
                connection.refuse(b"408 Request Timeout")
            elif connection.stalled is not None and connection.stalled + STALL_SECONDS < now:
                connection.transport.abort()


class _Addresses:
    """How many connections each address has."""

    def __init__(self) -> None:
        self._n: Counter[str] = Counter()

    def add(self, address: str, change: int) -> int:
        """Count a connection that began (1) or ended (-1); how many there are."""
        self._n[address] += change
        return self._n[address] or self._n.pop(address)


class _AnswerTransport:
    """What one answer is written to: its header goes with the first part of its body.

    Uvicorn writes them one after the other, which is two system calls here and two packets that
    wake the client up.
    """

    __slots__ = ("_begun", "_cycle", "_header", "_transport")

    def __init__(self, cycle: Any, transport: asyncio.Transport) -> None:
        self._cycle, self._transport = cycle, transport
        self._begun, self._header = False, b""

    def write(self, data: bytes) -> None:
        if self._cycle.response_started and not self._begun:
            self._begun, self._header = True, data
        elif self._header:
            parts, self._header = (self._header, data), b""
            if not self._transport.is_closing():  # which writelines does not ask everywhere
                self._transport.writelines(parts)
        else:
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        if self._header:
            self.write(b"")
        self._transport.close()


class Connection(HttpToolsProtocol):  # type: ignore[misc]
    """Uvicorn's protocol, within limits.

    ``deadline`` is when the header that the connection waits for must be complete; None while a
    request is being answered, and until the first byte of the next one. The rest of a body that was
    refused has as long as a header. ``stalled`` is since when the client has not read its answer.
    """

    def __init__(self, limits: Limits, **more: Any) -> None:
        super().__init__(**more)
        self.app: Any
        self.limits = limits
        self.address = ""
        self.deadline: float | None = None
        self.stalled: float | None = None
        self._n_header, self._in_body = 0, False

    @property
    def waits(self) -> bool:
        """Whether no request is being answered."""
        return self.deadline is not None or self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._expect_header()
        if self.limits.add(self):
            self.app = _too_many(self.app, self.limits.per_address)
        self.timeout_keep_alive = self.limits.idle_timeout

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_header()
        is_body = self._in_body  # of a request that was answered before all of it had come
        super().data_received(data)
        if self.deadline is not None and self.transport is not None and not is_body:
            self._n_header += len(data)
            if self._n_header > MOST_HEADER:
                self.refuse(b"431 Request Header Fields Too Large")

    def on_headers_complete(self) -> None:
        self.deadline, self._in_body = None, True
        app, before = self.app, self.cycle
        if (
            len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            > MOST_HEADER
        ):
            self.app = _too_large
        super().on_headers_complete()
        self.app = app
        if self.cycle is not before and self.scope["method"] != "HEAD":  # which has no body
            self.cycle.transport = _AnswerTransport(self.cycle, self.transport)
        if self.limits.draining and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body = False
        if self.cycle is not None and self.cycle.response_complete:
            self._expect_header()

    def drain(self) -> None:
        """Close after the answer to the present request, or to the next one."""
        if not self.waits:
            self.cycle.keep_alive = False

    def pause_writing(self) -> None:
        self.stalled = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.stalled = None
        super().resume_writing()

    def _expect_header(self) -> None:
        self.deadline, self._n_header = self.loop.time() + self.limits.header_timeout, 0

    def refuse(self, status: bytes) -> None:
        """Answer without a request, and close."""
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            self.transport.close()


async def _too_large(scope: Scope, receive: Receive, send: Send) -> None:
    problem = HttpProblem(
        431, f"The header has more than {MOST_HEADER:,} bytes.", connection="close"
    )
    await send_problem(send, problem)


def _too_many(app: ASGIApp, limit: int) -> ASGIApp:
    """An application that answers nothing but health checks."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") in HEALTH:
            await app(scope, receive, send)
            return
        detail = f"This address has more than {limit} connections. Use fewer."
        await send_problem(send, HttpProblem(429, detail, retry_after="1", connection="close"))

    return refuse


def _open_files() -> int:
    """How many files this process may open, after asking for more."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 2 * MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4 * MOST_CONNECTIONS and soft != hard:
        wanted = 4 * MOST_CONNECTIONS
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft if soft != resource.RLIM_INFINITY else 4 * MOST_CONNECTIONS
